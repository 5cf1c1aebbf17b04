// Small maps of all heads, side by side.

import { clamp, largestOf } from "../page/arithmetic.js";
import { create, write } from "../page/nodes.js";
import { fillPicture, shadeOf } from "../page/paint.js";
import { graphemes, looks } from "../page/words.js";
import { drawLegend } from "./row.js";
import { headTitle, inSection } from "./state.js";
import { isHidden } from "./steps.js";

/**
 * @typedef {import("./state.js").AttentionMap} AttentionMap
 * @typedef {import("./state.js").Part} Part
 * @typedef {import("./state.js").Row} Row
 */

const NAMED = 10; // the smallest dot of a map with names of rows and columns
const NAMES = 60; // pixels that these names need
const LARGEST = 36; // the largest size of dots

/**
 * The nodes of a small map, and a function that sets their size.
 * @param {AttentionMap} map
 */
function drawSmallMap({ sent, view }) {
  const size = { width: view.numColumns, height: view.numRows };
  const canvas = create("canvas", { ...size, className: "picture", "aria-hidden": "true" });
  const bars = ["chosen", "across"].map((name) => create("div", { className: `frame ${name}` }));
  const rows = Array.from({ length: view.numRows }, () => create("span"));
  const columns = Array.from({ length: view.numColumns }, () => create("span"));
  const names = create("div", { className: "names" }, ...rows);
  const heads = create("div", { className: "heads" }, ...columns);
  const picture = create("div", { className: "mini" }, canvas, ...bars);
  const node = create("div", { className: "small-map" }, heads, names, picture);
  node.style.cssText = `--columns: ${view.numColumns}; --rows: ${view.numRows}`;
  let [side, dot] = [0, 1];
  function resize() {
    if (view.sizes.small === side) return;
    side = view.sizes.small;
    const most = Math.max(view.numRows, view.numColumns);
    const named = Math.floor((side - NAMES) / most);
    dot = clamp(named >= NAMED ? named : Math.floor(side / most), 1, LARGEST);
    names.hidden = heads.hidden = named < NAMED;
    node.style.setProperty("--dot", `${dot}px`);
  }
  function name() {
    rows.forEach((span, i) => write(span, sent.queryLabels[view.firstQuery + i]));
    columns.forEach((span, j) => {
      write(span, sent.keyLabels[view.firstKey + j]);
      span.classList.toggle("single", graphemes(span.textContent).length === 1);
    });
  }
  return { node, picture, canvas, bars, resize, name, dot: () => dot };
}

/**
 * One small map. `compute` computes the map and returns its largest weight; `fill` paints it up to the
 * largest weight that it shares with the others.
 * @param {AttentionMap} map
 * @param {number} layer
 * @param {number} head
 * @param {(layer: number, head: number) => void} open
 */
function drawThumbnail(map, layer, head, open) {
  const { sent, view, get } = map;
  const small = drawSmallMap(map);
  const title = create("button", { type: "button", title: "open this head" });
  title.onclick = () => open(layer, head);
  const caption = create("small");
  const node = create("div", { className: "thumbnail" }, title, small.node, caption);
  /** @type {Row[]} */
  let computed = [];
  function compute() {
    computed = map.rowsOf(layer, head);
    const weights = computed.map((row) => largestOf(inSection(row.weights, view)));
    return Math.max(...weights);
  }
  /** @param {number} largest */
  function fill(largest) {
    const shades = computed.flatMap((row) =>
      Array.from(inSection(row.weights, view), (weight, j) =>
        isHidden(row, "weights", view.firstKey + j) ? null : shadeOf(weight, largest),
      ),
    );
    fillPicture(small.canvas, shades);
    computed = [];
    write(title, headTitle(sent, layer, head));
    small.name();
  }
  function paint() {
    small.resize();
    node.style.width = `${view.sizes.small}px`;
    const query = view.hovered ?? get("row");
    [get("row"), view.hovered].forEach((which, k) => {
      small.bars[k].hidden = which === null;
      small.bars[k].style.setProperty("--i", `${(which ?? 0) - view.firstQuery}`);
    });
    const isOn = layer === get("layer") && head === get("head");
    if (isOn) title.setAttribute("aria-current", "true");
    else title.removeAttribute("aria-current");
    const said = looks(sent.walk(layer, head, query), sent.queryNames[query], sent.keyNames);
    write(caption, said, said);
  }
  return { node, picture: small.picture, dot: small.dot, compute, fill, paint };
}

/**
 * The reader chooses rows of small maps in the same way as rows of the large map.
 * @param {AttentionMap} map
 * @param {ReturnType<typeof drawThumbnail>} thumbnail
 */
function listenToThumbnail({ view, set, painter }, { picture, dot }) {
  /** @param {PointerEvent | MouseEvent} event */
  const under = (event) => {
    const i = Math.floor((event.clientY - picture.getBoundingClientRect().top) / dot());
    return view.firstQuery + clamp(i, 0, view.numRows - 1);
  };
  picture.addEventListener("pointermove", (event) => {
    view.hovered = under(event);
    painter.soon();
  });
  picture.addEventListener("pointerleave", () => {
    view.hovered = null;
    painter.soon();
  });
  picture.addEventListener("click", (event) => set({ row: under(event) }));
}

/**
 * A line of small maps for each layer.
 * @param {AttentionMap} map
 * @param {HTMLElement} grid
 * @param {(layer: number, head: number) => void} open
 */
function drawThumbnails(map, grid, open) {
  const { numLayers, numHeads } = map.sent;
  const thumbnails = [];
  for (let layer = 0; numLayers * numHeads > 1 && layer < numLayers; layer++) {
    const line = create("div", { className: "heads-of-layer" });
    if (numLayers > 1) line.append(create("div", { className: "layer" }, `layer ${layer}`));
    for (let head = 0; head < numHeads; head++) {
      const thumbnail = drawThumbnail(map, layer, head, open);
      listenToThumbnail(map, thumbnail);
      thumbnails.push(thumbnail);
      line.append(thumbnail.node);
    }
    grid.append(line);
  }
  return thumbnails;
}

/** @type {(map: AttentionMap, open: (layer: number, head: number) => void) => Part} */
export function drawOverview(map, open) {
  const { sent, view, get, set } = map;
  /** @type {ReturnType<typeof drawThumbnail>[]} */
  let thumbnails = [];
  const grid = create("div", { className: "thumbnails" });
  let scale = { signed: false, low: 0, largest: 1 };
  const legend = drawLegend(map, () => scale);
  const hint = create("p", { className: "hint" });
  hint.append(
    "Click a row in any small map, or press ↑ and ↓, to choose it in all; a title opens its head.",
  );
  const attributes = { className: "overview", role: "group", "aria-label": "all heads" };
  const node = create("div", attributes, hint, grid, legend.node);
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (by) set({ row: clamp(get("row") + by, 0, sent.numQueries - 1) });
    else if (event.key === "Escape") open(get("layer"), get("head"));
    else return;
    event.preventDefault();
  });
  let painted = "";
  function paint() {
    // Maps are drawn only on request, because there may be hundreds.
    if (!thumbnails.length) thumbnails = drawThumbnails(map, grid, open);
    const settings = ["temperature", "active_masks"].map(get);
    const now = JSON.stringify([...settings, view.firstQuery, view.firstKey, view.fitted]);
    if (now !== painted) {
      painted = now;
      const largest = Math.max(...thumbnails.map((thumbnail) => thumbnail.compute()));
      scale = { signed: false, low: 0, largest: view.fitted ? largest : 1 };
      for (const thumbnail of thumbnails) thumbnail.fill(scale.largest);
    }
    for (const thumbnail of thumbnails) thumbnail.paint();
    legend.paint();
  }
  return { node, paint };
}
