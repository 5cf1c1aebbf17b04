// The grid: a picture of the colours, above it a table of the numbers, and above that the frames.

import { clamp, outside } from "../page/arithmetic.js";
import { create, write } from "../page/nodes.js";
import { brushOf, fillPicture, inkOf, shadeOf } from "../page/paint.js";
import { number, shortened } from "../page/words.js";
import { inSection, keyOf, readsColumn } from "./state.js";
import { isHidden } from "./steps.js";

/**
 * @typedef {import("./state.js").AttentionMap} AttentionMap
 * @typedef {import("./state.js").Part} Part
 * @typedef {import("./state.js").Shown} Shown
 * @typedef {import("./state.js").Sizes} Sizes
 */

const DIGITS = { least: 36, most: 46 }; // the width of a cell that contains its number
const DOTS = { least: 9, most: 22 }; // the width of a cell that has only a colour
const MAP_HEIGHT = 600; // the height that a map of many rows should not exceed
const PANEL = 340; // the smallest width of the numbers next to the map
const SMALL = { least: 150, most: 270 }; // the side of a small map
const PENCIL = brushOf(create("canvas"));

/** @type {(text: string, font: string) => number} */
function widthOf(text, font) {
  PENCIL.font = font;
  return Math.ceil(PENCIL.measureText(text).width);
}

/**
 * The sizes that fit into `width` pixels, with the numbers next to the map if there is room.
 * @type {(map: AttentionMap, width: number, family: string) => Sizes}
 */
export function measure({ sent, view }, width, family) {
  const bold = `bold 12px ${family}`;
  /** @param {string[]} labels */
  const widest = (labels) => Math.max(...labels.map((label) => widthOf(label, bold)));
  const labelWidth = clamp(widest(["query ↓", ...sent.queryLabels]) + 12, 30, 130);
  const room = width - labelWidth - 24;
  const beside = Math.floor((room - PANEL) / view.numColumns);
  const alone = Math.floor(room / view.numColumns);
  const dense = alone < DIGITS.least;
  const { least, most } = dense ? DOTS : DIGITS;
  const fits = dense ? Math.floor(MAP_HEIGHT / view.numRows) : most;
  const cellWidth = clamp(beside >= least ? beside : alone, least, clamp(fits, least, most));
  const heads = clamp(Math.floor(width / SMALL.least), 1, sent.numHeads);
  const height = view.numRows > 24 ? 20 : 30;
  const named = widest(sent.keyLabels);
  const upright = !dense && named + 4 <= cellWidth;
  const headingHeight = upright ? 22 : clamp(named + 8, 22, 96);
  return {
    ...{ dense, cellWidth, labelWidth, upright, headingHeight },
    cellHeight: dense ? cellWidth : height,
    small: clamp(Math.floor(width / heads) - 18, SMALL.least - 18, SMALL.most),
  };
}

/**
 * @typedef {{ node: HTMLElement, label: HTMLElement, cells: HTMLElement[], inks: string[], texts: string[] }} Line
 * @typedef {ReturnType<typeof drawGrid>} Grid
 * @param {AttentionMap} map
 * @param {string} id
 */
function drawTable({ view: { numRows, numColumns } }, id) {
  const headings = Array.from({ length: numColumns }, () =>
    create("th", { scope: "col" }, create("span")),
  );
  /** @type {Line[]} */
  const lines = Array.from({ length: numRows }, (_, i) => {
    const label = create("th", { scope: "row" });
    const cells = headings.map((_, j) => create("td", { id: `${id}-${i}-${j}` }));
    const node = create("tr", {}, label, ...cells);
    return { node, label, cells, inks: cells.map(() => ""), texts: cells.map(() => "") };
  });
  const table = create(
    "table",
    {
      role: "grid",
      tabIndex: 0,
      "aria-label": "attention map: rows are queries, columns are keys; arrow keys choose",
    },
    create("thead", {}, create("tr", {}, create("th", { scope: "col" }, "query ↓"), ...headings)),
    create("tbody", {}, ...lines.map(({ node }) => node)),
  );
  return { table, headings, lines };
}

/**
 * A number in a cell, with as many digits as fit.
 * @param {number} x
 */
const inCell = (x) => number(x, Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2);

/**
 * @param {AttentionMap} map
 * @param {Line[]} lines
 * @param {HTMLCanvasElement} picture
 */
function cellPainter({ view }, lines, picture) {
  /** @param {Shown} shown */
  return ({ rows, source, scale }) => {
    const { dense } = view.sizes;
    /** @type {(number | null)[]} */
    const shades = [];
    rows.forEach((row, i) => {
      // The contents of cells are remembered, because reading 4096 cells takes milliseconds.
      const { cells, inks, texts } = lines[i];
      inSection(row[source], view).forEach((x, j) => {
        const masked = isHidden(row, source, view.firstKey + j);
        const shade = masked ? null : shadeOf(x, scale.largest);
        shades.push(shade);
        const ink = masked ? "masked" : dense ? "" : inkOf(shade);
        if (ink !== inks[j]) inks[j] = cells[j].className = ink;
        const text = dense ? "" : masked && source === "weights" ? "0" : inCell(x);
        if (text !== texts[j]) texts[j] = cells[j].textContent = text;
      });
    });
    fillPicture(picture, shades);
  };
}

/**
 * The text that a screen reader says for each cell; it contains the visible text.
 * @param {AttentionMap} map
 * @param {Line[]} lines
 */
function cellNamer({ sent, view, shown }, lines) {
  let settling = 0;
  function name() {
    const { rows, source } = shown();
    rows.forEach((row, i) =>
      inSection(row[source], view).forEach((x, j) => {
        const text = lines[i].texts[j] || number(x, 3);
        const what = isHidden(row, source, view.firstKey + j) ? `${text}, hidden` : text;
        const pair = `${sent.queryNames[view.firstQuery + i]} to ${sent.keyNames[view.firstKey + j]}`;
        lines[i].cells[j].setAttribute("aria-label", `${pair}: ${what}`);
      }),
    );
  }
  const stop = () => clearTimeout(settling);
  // Thousands of names would take a frame, so they are updated when the slider rests.
  function paint() {
    stop();
    if (view.numRows * view.numColumns <= 1024) name();
    else settling = setTimeout(name, 100);
  }
  return { paint, stop };
}

/**
 * Frames above the grid, which move without changing a cell: the chosen row, the crosshair and
 * the cell where the arrow keys are.
 * @type {(map: AttentionMap) => Part & { nodes: HTMLElement[] }}
 */
function drawFrames(map) {
  const { view, get } = map;
  const names = ["wide chosen", "wide across", "down", "cursor"];
  const nodes = names.map((name) => create("div", { className: `frame ${name}` }));
  const [chosen, across, down, cursor] = nodes;
  /** @type {(node: HTMLElement, i: number, j: number, isShown: boolean) => void} */
  function place(node, i, j, isShown) {
    node.hidden = !isShown;
    node.style.setProperty("--i", `${i}`);
    node.style.setProperty("--j", `${j}`);
  }
  function paint() {
    const row = get("row") - view.firstQuery;
    const j = keyOf(map) - view.firstKey;
    const inside = !outside(j, 0, view.numColumns);
    const pointed = view.hovered === null ? row : view.hovered - view.firstQuery;
    place(chosen, row, 0, !view.columns);
    place(across, pointed, 0, view.hovered !== null);
    place(down, 0, j, inside && (view.hovered !== null || readsColumn(view)));
    down.classList.toggle("chosen", readsColumn(view));
    place(cursor, pointed, j, inside);
  }
  return { node: chosen, nodes, paint };
}

/**
 * Names of rows and columns, cut to fit; pointing at a name shows all of it.
 * @param {AttentionMap} map
 * @param {ReturnType<typeof drawTable>} drawn
 * @param {string} family
 */
function labelPainter({ sent, view }, { table, headings, lines }, family) {
  const font = `bold 12px ${family}`;
  /** @type {(node: HTMLElement, label: string, room: number) => void} */
  function name(node, label, room) {
    write(
      node,
      shortened(label, (text) => widthOf(text, font) <= room),
      label,
    );
  }
  let painted = "";
  return () => {
    const now = JSON.stringify([view.sizes, view.firstQuery, view.firstKey]);
    if (now === painted) return;
    painted = now;
    const { labelWidth, headingHeight, upright } = view.sizes;
    table.classList.toggle("vertical", !upright);
    headings.forEach((cell, j) =>
      name(
        /** @type {HTMLElement} */ (cell.firstChild),
        sent.keyLabels[view.firstKey + j],
        upright ? 999 : headingHeight - 8,
      ),
    );
    lines.forEach(({ label }, i) =>
      name(label, sent.queryLabels[view.firstQuery + i], labelWidth - 12),
    );
  };
}

/**
 * Sets the sizes under their names in the style sheet.
 * @param {HTMLElement} plate
 * @param {AttentionMap["view"]} view
 */
function paintSizes(plate, { numRows, numColumns, sizes }) {
  const { cellWidth, cellHeight, labelWidth, headingHeight } = sizes;
  const pixels = {
    ...{ "cell-width": cellWidth, "cell-height": cellHeight },
    ...{ "label-width": labelWidth, "heading-height": headingHeight },
  };
  for (const [name, size] of Object.entries(pixels)) plate.style.setProperty(`--${name}`, `${size}px`);
  plate.style.setProperty("--rows", `${numRows}`);
  plate.style.setProperty("--columns", `${numColumns}`);
}

/**
 * Marks the chosen row and the cell where the arrow keys are, if they differ from the last ones.
 * @param {AttentionMap} map
 * @param {ReturnType<typeof drawTable>} drawn
 * @param {Part} frames
 */
function choicePainter(map, { table, headings, lines }, frames) {
  const { view, get } = map;
  /** The cell where the arrow keys are, if its key is in the section. */
  const current = () => lines[get("row") - view.firstQuery].cells[keyOf(map) - view.firstKey];
  let chosen = "";
  function paint() {
    const { firstQuery, firstKey, hovered, sizes } = view;
    const key = keyOf(map);
    const choice = JSON.stringify([
      ...[get("row"), key, hovered, readsColumn(view), firstQuery, firstKey, sizes],
    ]);
    if (choice === chosen) return;
    chosen = choice;
    lines.forEach(({ node }, i) => {
      const query = firstQuery + i;
      const isChosen = `${query === get("row")}`;
      if (node.ariaSelected !== isChosen) node.ariaSelected = isChosen;
      node.classList.toggle("hovered", query === hovered);
    });
    headings.forEach((cell, j) =>
      cell.classList.toggle("read", readsColumn(view) && firstKey + j === key),
    );
    frames.paint();
    const id = current()?.id;
    if (!id) table.removeAttribute("aria-activedescendant");
    else if (table.getAttribute("aria-activedescendant") !== id)
      table.setAttribute("aria-activedescendant", id);
  }
  return { current, paint };
}

/**
 * @param {AttentionMap} map
 * @param {string} id
 * @param {string} family the font family
 */
export function drawGrid(map, id, family) {
  const { view } = map;
  const drawn = drawTable(map, id);
  const { table, headings, lines } = drawn;
  const size = { width: view.numColumns, height: view.numRows };
  const picture = create("canvas", { ...size, className: "picture", "aria-hidden": "true" });
  const frames = drawFrames(map);
  const axis = create("div", { className: "axis", "aria-hidden": "true" }, "key →");
  const plate = create("div", { className: "plate" }, axis, picture, table, ...frames.nodes);
  const paintCells = cellPainter(map, lines, picture);
  const paintLabels = labelPainter(map, drawn, family);
  const cellNames = cellNamer(map, lines);
  const choice = choicePainter(map, drawn, frames);
  /** @type {[Shown?, Sizes?]} so that choosing a row need not paint all cells again */
  let painted = [];

  function paint() {
    const shown = map.shown();
    if (painted[0] !== shown || painted[1] !== view.sizes) {
      if (painted[1] !== view.sizes) paintSizes(plate, view);
      table.classList.toggle("dense", view.sizes.dense);
      table.classList.toggle("digits", !view.sizes.dense);
      painted = [shown, view.sizes];
      paintLabels();
      paintCells(shown);
      cellNames.paint();
    }
    choice.paint();
  }
  const node = create("div", { className: "scroll" }, plate);
  return { node, table, headings, lines, current: choice.current, paint, stop: cellNames.stop };
}
