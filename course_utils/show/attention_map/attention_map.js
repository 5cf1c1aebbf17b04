// The page's half of `attention_map`. It gets the scores once, and computes and paints weights here,
// so that a slider answers within a frame.
//
// The page is drawn in parts. Each has a node and a function that paints it; only a node's contents
// change, so that focus and scrolling are kept.

import { clamp } from "../page/arithmetic.js";
import { create, hideTable, oncePerFrame, shield } from "../page/nodes.js";
import { speak } from "../page/said.js";
import { drawControls, drawSection, drawSteps, drawSwitch } from "./controls.js";
import { drawGrid, measure } from "./grid.js";
import { drawOverview } from "./overview.js";
import { drawLegend, drawNumbers, drawSentence } from "./row.js";
import { createMap, keyOf, showChosen } from "./state.js";

/**
 * @typedef {import("./state.js").AttentionMap} AttentionMap
 * @typedef {import("./state.js").Part} Part
 * @typedef {ReturnType<typeof drawGrid>} Grid
 */

const HINT =
  "Point at a row, or use the arrow keys, to read it; a click keeps it. Point at a column's name to see which queries attend to it.";
const WATCHED = ["layer", "head", "row", "temperature", "step", "overview", "active_masks"];
const FAMILY = "system-ui, sans-serif";

/**
 * Pointing at a row shows the row, and pointing at a column's name the column; a click keeps it.
 * @type {(map: AttentionMap, grid: Grid) => void}
 */
function listenToPointer({ view, get, set, painter }, { table, lines }) {
  /** @param {any} event */
  const under = ({ target }) => {
    const cell = target.closest("td, th");
    if (!cell) return null;
    const j = view.firstKey + cell.cellIndex - 1;
    const key = j < view.firstKey ? null : j;
    const i = lines.findIndex(({ node }) => node === cell.parentNode);
    if (i >= 0) return { query: view.firstQuery + i, key };
    return key === null ? null : { query: null, key };
  };
  table.addEventListener("pointermove", (event) => {
    const at = under(event);
    if (!at) return;
    const onHeading = at.query === null;
    if (at.query === view.hovered && at.key === view.pointed && onHeading === view.onHeading) return;
    Object.assign(view, { hovered: at.query, pointed: at.key, onHeading });
    painter.soon();
  });
  table.addEventListener("pointerleave", () => {
    Object.assign(view, { hovered: null, pointed: null, onHeading: false });
    painter.soon();
  });
  table.addEventListener("click", (event) => {
    const at = under(event);
    if (!at) return;
    const row = at.query ?? get("row");
    view.kept = at.key === null ? null : { row, key: at.key };
    if (at.query === null) view.columns = true;
    set({ row });
  });
}

/**
 * Arrow keys, Home and End walk over queries and keys; the section follows.
 * @type {(map: AttentionMap, grid: Grid) => void}
 */
function listenToKeys(map, { table, current }) {
  const { sent, view, get, set, painter } = map;
  /** @type {(i: number, first: number, size: number) => number} */
  const follow = (i, first, size) => Math.min(i, Math.max(first, i - size + 1));
  for (const type of ["focus", "blur"]) table.addEventListener(type, () => painter.soon());
  table.addEventListener("keydown", (event) => {
    const [query, key] = [get("row"), keyOf(map)];
    /** @type {Record<string, [query: number, key: number]>} */
    const moves = {
      ArrowUp: [query - 1, key],
      ArrowDown: [query + 1, key],
      ArrowLeft: [query, key - 1],
      ArrowRight: [query, key + 1],
      Home: [query, 0],
      End: [query, sent.numKeys - 1],
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    view.hovered = view.pointed = null;
    const to = clamp(move[0], 0, sent.numQueries - 1);
    view.kept = { row: to, key: clamp(move[1], 0, sent.numKeys - 1) };
    view.firstQuery = follow(to, view.firstQuery, view.numRows);
    view.firstKey = follow(view.kept.key, view.firstKey, view.numColumns);
    set({ row: to });
    current().scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

/**
 * Gives a shortened text its full title when the reader points at it, because updating two hundred
 * titles would slow down each repaint.
 * @param {HTMLElement} node
 */
function tellWhole(node) {
  node.addEventListener("pointerover", ({ target }) => {
    const cut = /** @type {HTMLElement} */ (target).closest(".cut, .row :is(th, td)");
    if (cut) /** @type {HTMLElement} */ (cut).title = cut.textContent;
  });
}

/** @type {(map: AttentionMap) => Part & { stop: () => void }} */
function drawMap(map) {
  const { sent, view, get } = map;
  const id = `attention-map-${Math.random().toString(36).slice(2)}`;
  const isLong = view.numRows < sent.numQueries || view.numColumns < sent.numKeys;
  const controls = drawControls(map);
  const section = isLong ? [drawSection(map)] : [];
  const columns = drawSwitch(map, "columns", "by column: which queries attend to this key?");
  controls.node.append(columns.node);
  const steps = drawSteps(map, id);
  const grid = drawGrid(map, id, FAMILY);
  const legend = drawLegend(map, () => map.shown().scale);
  const live = drawSentence(map);
  const numbers = drawNumbers(map);
  const overview = drawOverview(map, (layer, head) => {
    map.set({ layer, head, overview: false });
    map.painter.now();
    grid.table.focus();
  });
  const one = create(
    "div",
    {},
    steps.node,
    create("p", { className: "hint" }, HINT),
    live.node,
    create(
      "div",
      { className: "body" },
      create("div", { className: "map" }, grid.node, legend.node),
      numbers.node,
    ),
  );
  const node = create(
    "div",
    { className: "attention-map", role: "group", "aria-label": "attention map" },
    controls.node,
    ...section.map((part) => part.node),
    one,
    overview.node,
  );
  listenToPointer(map, grid);
  listenToKeys(map, grid);
  tellWhole(node);
  shield(node);

  function paint() {
    showChosen(map);
    one.hidden = get("overview");
    overview.node.hidden = !get("overview");
    const visible = get("overview") ? [overview] : [steps, grid, legend, numbers, live];
    columns.node.hidden = get("overview");
    for (const part of [controls, columns, ...section, ...visible]) part.paint();
  }
  return { node, paint, stop: grid.stop };
}

/**
 * Called by anywidget: draws the map into `el`, and returns a function that removes it.
 * @param {{ model: any, el: HTMLElement }} view
 */
function render({ model, el }) {
  const painter = oncePerFrame(() => drawn.paint());
  const map = createMap(model, painter);
  const drawn = drawMap(map);
  for (const name of WATCHED) model.on(`change:${name}`, painter.soon);
  // The map is as wide as the page allows; that width is unknown until the map is in the page.
  const watcher = new ResizeObserver(([{ contentRect }]) => {
    const sizes = measure(map, contentRect.width || 900, FAMILY);
    if (JSON.stringify(sizes) === JSON.stringify(map.view.sizes)) return painter.soon();
    map.view.sizes = sizes;
    painter.now();
  });
  map.view.sizes = measure(map, el.clientWidth || 900, FAMILY);
  painter.now();
  speak(drawn.node, model.get("_said"));
  el.append(drawn.node);
  hideTable(drawn.node, "attention-map-static");
  watcher.observe(drawn.node);
  return () => {
    watcher.disconnect();
    painter.stop();
    drawn.stop();
    for (const name of WATCHED) model.off(`change:${name}`, painter.soon);
  };
}

export default { render };
