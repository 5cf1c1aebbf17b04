// The map's contents: values that Python sent, the page's own state, and rows computed from both.

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
 * The steps of one query, from its scores to its weights, with a number for each key.
 * @typedef {object} Row
 * @property {Numbers} scores
 * @property {Float64Array} scaled
 * @property {Float64Array} masked −Infinity where hidden
 * @property {number} largest the largest masked score
 * @property {Float64Array} powers
 * @property {number} total the sum of the powers
 * @property {Float64Array} weights
 */

/**
 * The contents of the cells for the chosen layer and head.
 * @typedef {object} Shown
 * @property {Row[]} rows the rows of the section
 * @property {Source} source the kind of numbers to show
 * @property {Scale} scale
 * @property {() => Row[]} all the rows of all queries
 */

/**
 * The scale of colours: −`largest` and `largest` have the strongest colours.
 * @typedef {{ signed: boolean, low: number, largest: number }} Scale
 */

/**
 * The values that Python sent, which stay the same as long as the map exists.
 * @typedef {object} Sent
 * @property {number} numLayers
 * @property {number} numHeads
 * @property {number} numQueries
 * @property {number} numKeys
 * @property {string[]} queryLabels
 * @property {string[]} keyLabels
 * @property {string[]} queryNames the labels in quotes, all different
 * @property {string[]} keyNames
 * @property {string[][] | null} headNames names by layer and head
 * @property {string[]} steps
 * @property {string[]} masks names of the masks
 * @property {number} scale
 * @property {Tensor | null} values
 * @property {Tensor | null} query
 * @property {Tensor | null} key
 * @property {Walk} walk
 */

/**
 * The state that only the page knows: row `i` of the grid is query `firstQuery + i`, column `j` is key
 * `firstKey + j`.
 * @typedef {object} View
 * @property {number} numRows
 * @property {number} numColumns
 * @property {number} firstQuery the corner of the section on show
 * @property {number} firstKey
 * @property {number | null} pointed the key under the pointer, if any
 * @property {{ row: number, key: number } | null} kept the cell kept by a click or by the arrow keys
 * @property {number | null} hovered the query under the pointer, if any
 * @property {boolean} onHeading whether the pointer is on the name of a column
 * @property {boolean} columns whether columns are read instead of rows
 * @property {boolean} fitted whether the strongest colour means the largest weight instead of 1
 * @property {Sizes} sizes
 */

/**
 * Sizes in pixels; `dense` cells have a colour and no number.
 * @typedef {object} Sizes
 * @property {boolean} dense
 * @property {number} cellWidth
 * @property {number} cellHeight
 * @property {number} labelWidth the width of the rows' names
 * @property {number} headingHeight the height of the columns' names
 * @property {boolean} upright whether the columns' names are horizontal
 * @property {number} small the side of a small map including its names
 */

/**
 * The state that the parts share. `get` and `set` are for values that Python knows too, such as `row`, the
 * chosen query.
 * @typedef {object} AttentionMap
 * @property {Sent} sent
 * @property {View} view
 * @property {(name: string) => any} get
 * @property {(changes: Record<string, any>) => void} set
 * @property {Painter} painter
 * @property {(layer: number, head: number) => Row[]} rowsOf the rows of the section in any head
 * @property {() => Shown} shown the contents, the same object until they change
 */

export const WHOLE = 128; // up to this number, all tokens are shown;
const SECTION = 64; // in longer maps, this many at a time

/**
 * A tensor from Python, (layers, heads, rows, columns); a dimension of size 1 is broadcast.
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
  // The rows of one head that the temperature doesn't affect are kept.
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
 * The scale of weights ends at 1 or at the largest weight; the scale of scores is symmetric around 0.
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
 * The query to describe, and its row.
 * @param {AttentionMap} map
 */
export function told({ view, get, shown }) {
  const query = view.hovered ?? get("row");
  return { query, row: shown().rows[query - view.firstQuery] };
}

/**
 * The key to describe: the one at the pointer or the arrow keys, otherwise the row's largest.
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
 * Moves the section to the chosen query, and forgets a hovered query that is outside it.
 * @param {AttentionMap} map
 */
export function showChosen({ sent, view, get }) {
  const chosen = get("row");
  if (outside(chosen, view.firstQuery, view.numRows))
    view.firstQuery = clamp(chosen - (view.numRows >> 1), 0, sent.numQueries - view.numRows);
  if (view.hovered !== null && outside(view.hovered, view.firstQuery, view.numRows))
    view.hovered = null;
}
