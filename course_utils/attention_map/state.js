// What the map shows: what Python sent, what this page alone knows, and rows computed of both.

import { best, clamp, outside, softmax } from "../page/arithmetic.js";
import { names } from "../page/words.js";
import { STEPS } from "./steps.js";

/**
 * @typedef {import("../page/arithmetic.js").Numbers} Numbers
 * @typedef {import("../page/nodes.js").Painter} Painter
 * @typedef {import("./steps.js").Source} Source
 * @typedef {{ shape: number[], dtype: "float32" | "float64" | "bool", bytes: DataView<ArrayBuffer> }} Packed
 * @typedef {{ shape: number[], at: (layer: number, head: number, i: number) => Numbers }} Tensor
 * @typedef {(layer: number, head: number, query: number) => Row} Walk
 * @typedef {Pick<Row, "scores" | "scaled" | "masked">} Hidden before the temperature
 * @typedef {{ node: HTMLElement, paint: () => void }} Part
 * @typedef {(map: AttentionMap) => Part} Draw
 */

/**
 * What one query goes through, from its scores to its weights; a number for each key.
 * @typedef {object} Row
 * @property {Numbers} scores
 * @property {Float64Array} scaled
 * @property {Float64Array} masked −Infinity where hidden
 * @property {number} largest of the masked scores
 * @property {Float64Array} powers
 * @property {number} total of the powers
 * @property {Float64Array} weights
 */

/**
 * What the cells show, of the chosen layer and head.
 * @typedef {object} Shown
 * @property {Row[]} rows of the section
 * @property {Source} source which numbers of a row
 * @property {Scale} scale
 * @property {() => Row[]} all rows, of every query there is
 */

/**
 * Which colour a number has: −`largest` and `largest` have the strongest ones.
 * @typedef {{ signed: boolean, low: number, largest: number }} Scale
 */

/**
 * What Python sent, the same for as long as the map is there.
 * @typedef {object} Sent
 * @property {number} numLayers
 * @property {number} numHeads
 * @property {number} numQueries
 * @property {number} numKeys
 * @property {string[]} queryLabels
 * @property {string[]} keyLabels
 * @property {string[]} queryNames the labels in quotes, each another
 * @property {string[]} keyNames
 * @property {string[][] | null} headNames by layer and head
 * @property {string[]} steps
 * @property {string[]} masks their names
 * @property {number} scale
 * @property {Tensor | null} values
 * @property {Tensor | null} query
 * @property {Tensor | null} key
 * @property {Walk} walk
 */

/**
 * What this page alone knows: row `i` of the grid is query `firstQuery + i`, column `j` is key
 * `firstKey + j`.
 * @typedef {object} View
 * @property {number} numRows
 * @property {number} numColumns
 * @property {number} firstQuery the corner of the section on show
 * @property {number} firstKey
 * @property {number | null} pointed a key under the pointer, for as long as it is there
 * @property {{ row: number, key: number } | null} kept by a click or by the arrow keys
 * @property {number | null} hovered a query under the pointer, for as long as it is there
 * @property {boolean} onHeading the pointer is on the name of a column
 * @property {boolean} columns columns are read and not rows
 * @property {boolean} fitted the strongest colour is the largest weight's, and not 1's
 * @property {Sizes} sizes
 */

/**
 * In pixels; `dense` cells have a colour and no number.
 * @typedef {object} Sizes
 * @property {boolean} dense
 * @property {number} cellWidth
 * @property {number} cellHeight
 * @property {number} labelWidth of the rows' names
 * @property {number} headingHeight of the columns' names
 * @property {boolean} upright columns' names don't lie on their side
 * @property {number} small a small map's side, with its names
 */

/**
 * What the parts share. `get` and `set` are for what Python knows as well, such as `row`, the
 * chosen query.
 * @typedef {object} AttentionMap
 * @property {Sent} sent
 * @property {View} view
 * @property {(name: string) => any} get
 * @property {(changes: Record<string, any>) => void} set
 * @property {Painter} painter
 * @property {(layer: number, head: number) => Row[]} rowsOf the rows of the section in any head
 * @property {() => Shown} shown the same object until something else is to be shown
 */

export const WHOLE = 128; // up to here all tokens are shown,
const SECTION = 64; // beyond it this many at a time

/**
 * A tensor from Python, (layers, heads, rows, columns); a size of 1 repeats.
 * @type {(packed: Packed) => Tensor}
 */
function tensor({ shape, dtype, bytes }) {
  const type = { float32: Float32Array, float64: Float64Array, bool: Uint8Array }[dtype];
  const flat = new type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const [layers, heads, rows, columns] = shape;
  /** @type {Tensor["at"]} */
  const at = (layer, head, i) => {
    const start = (((layer % layers) * heads + (head % heads)) * rows + (i % rows)) * columns;
    return flat.subarray(start, start + columns);
  };
  return { shape, at };
}

/** @type {(model: any) => Sent} */
function unpack(model) {
  const data = model.get("_data");
  const scores = tensor(data.scores);
  const scale = data.scale ?? 1;
  const [numLayers, numHeads, numQueries, numKeys] = scores.shape;
  const masks = Object.keys(data.masks);
  const hidden = masks.map((name) => ({ name, mask: tensor(data.masks[name]) }));
  /** @type {(layer: number, head: number, query: number, active: string[]) => Hidden} */
  function hide(layer, head, query, active) {
    const raw = scores.at(layer, head, query);
    const scaled = Float64Array.from(raw, (s) => s * scale);
    const masked = scaled.slice();
    for (const { name, mask } of hidden)
      if (active.includes(name))
        mask.at(layer, head, query).forEach((is, key) => is && (masked[key] = -Infinity));
    return { scores: raw, scaled, masked };
  }
  // Kept of one head: what the temperature does not affect.
  let [keptOf, kept] = ["", /** @type {Hidden[]} */ ([])];
  /** @type {Walk} */
  function walk(layer, head, query) {
    const active = model.get("active_masks");
    const now = `${layer} ${head} ${active}`;
    if (now !== keptOf) [keptOf, kept] = [now, []];
    kept[query] ??= hide(layer, head, query, active);
    return { ...kept[query], ...softmax(kept[query].masked, model.get("temperature")) };
  }
  return {
    ...{ numLayers, numHeads, numQueries, numKeys, masks, scale, walk },
    queryLabels: data.queries,
    keyLabels: data.keys,
    queryNames: names(data.queries),
    keyNames: names(data.keys),
    steps: data.steps,
    headNames: data.head_names,
    values: data.values && tensor(data.values),
    query: data.query && tensor(data.query),
    key: data.key && tensor(data.key),
  };
}

/** @type {(sent: Sent) => View} */
function look({ numQueries, numKeys }) {
  const numRows = numQueries > WHOLE ? SECTION : numQueries;
  const numColumns = numKeys > WHOLE ? SECTION : numKeys;
  const sizes = { dense: true, cellWidth: 11, cellHeight: 11, labelWidth: 40, headingHeight: 40 };
  return {
    ...{ numRows, numColumns, firstQuery: 0, firstKey: 0, pointed: null, kept: null, hovered: null },
    ...{ onHeading: false, columns: false, fitted: false, sizes: { ...sizes, upright: true, small: 150 } },
  };
}

/**
 * Weights have one scale, to 1 or to the largest of them; scores one around zero.
 * @type {(rows: Row[], source: Source, view: View) => Scale}
 */
function scaleOf(rows, source, view) {
  let [low, high] = [Infinity, -Infinity];
  for (const row of rows)
    for (const x of inSection(row[source], view))
      if (x !== -Infinity) [low, high] = [Math.min(low, x), Math.max(high, x)];
  if (source === "weights") return { signed: false, low: 0, largest: view.fitted ? high : 1 };
  return { signed: true, low, largest: Math.max(Math.abs(low), Math.abs(high)) };
}

/** @type {(numbers: Numbers, view: View) => Numbers} */
export const inSection = (numbers, { firstKey, numColumns }) =>
  numbers.subarray(firstKey, firstKey + numColumns);

/** @type {(model: any, painter: Painter) => AttentionMap} */
export function createMap(model, painter) {
  const sent = unpack(model);
  const view = look(sent);
  /** @type {AttentionMap["get"]} */
  const get = (name) => model.get(name);
  /** @type {AttentionMap["set"]} */
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    painter.soon();
    model.save_changes();
  };
  /** @type {AttentionMap["rowsOf"]} */
  const rowsOf = (layer, head) =>
    Array.from({ length: view.numRows }, (_, i) => sent.walk(layer, head, view.firstQuery + i));
  const everyRow = () =>
    Array.from({ length: sent.numQueries }, (_, i) => sent.walk(get("layer"), get("head"), i));
  let wanted = "";
  /** @type {Shown} */
  let last;
  const shown = () => {
    const settings = ["layer", "head", "temperature", "step", "active_masks"].map(get);
    const now = JSON.stringify([...settings, view.firstQuery, view.firstKey, view.fitted]);
    if (now === wanted) return last;
    wanted = now;
    const rows = rowsOf(get("layer"), get("head"));
    const { source } = STEPS[get("step")];
    /** @type {Row[]} */
    let every;
    const all = () => (every ??= rows.length === sent.numQueries ? rows : everyRow());
    last = { rows, source, all, scale: scaleOf(rows, source, view) };
    return last;
  };
  return { sent, view, get, set, painter, rowsOf, shown };
}

/**
 * The query to tell about, and its row.
 * @param {AttentionMap} map
 */
export function told({ view, get, shown }) {
  const query = view.hovered ?? get("row");
  return { query, row: shown().rows[query - view.firstQuery] };
}

/**
 * The key to tell about: where the pointer or the arrow keys are, else the row's largest.
 * @param {AttentionMap} map
 */
export function keyOf(map) {
  const { sent, view, get } = map;
  if (view.pointed !== null) return view.pointed;
  const isKept = view.columns || (view.hovered === null && view.kept?.row === get("row"));
  if (view.kept && isKept) return view.kept.key;
  return best(told(map).row.weights, [...sent.keyNames.keys()]).top[0];
}

/** @param {View} view */
export const readsColumn = (view) => view.columns || view.onHeading;

/** @type {(sent: Sent, layer: number, head: number) => string} */
export const headTitle = ({ headNames }, layer, head) =>
  headNames ? `head ${head}: ${headNames[layer][head]}` : `head ${head}`;

/** @param {AttentionMap} map */
export const roundedTemperature = (map) => Number(map.get("temperature").toPrecision(3));

/**
 * The section on show has the chosen query in it, and what is hovered.
 * @param {AttentionMap} map
 */
export function showChosen({ sent, view, get }) {
  const chosen = get("row");
  if (outside(chosen, view.firstQuery, view.numRows))
    view.firstQuery = clamp(chosen - (view.numRows >> 1), 0, sent.numQueries - view.numRows);
  if (view.hovered !== null && outside(view.hovered, view.firstQuery, view.numRows))
    view.hovered = null;
}
