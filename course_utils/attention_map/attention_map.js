// The page's half of `attention_map`: scores come in once, weights are computed and painted here,
// so that a slider answers within a frame. The wording of `sentence` is that of static.py.
//
// The page is drawn in parts, each a node and how it is painted: the node stays and its contents
// change, so that focus and scrolling are kept.

/**
 * @typedef {Float32Array | Float64Array | Uint8Array} Numbers
 * @typedef {{ shape: number[], dtype: "float32" | "float64" | "bool", bytes: DataView<ArrayBuffer> }} Packed
 * @typedef {{ shape: number[], at: (layer: number, head: number, i: number) => Numbers }} Tensor
 * @typedef {(layer: number, head: number, query: number) => Row} Walk
 * @typedef {Pick<Row, "scores" | "scaled" | "masked">} Hidden before the temperature
 * @typedef {{ soon: () => void, now: () => void, stop: () => void }} Painter
 * @typedef {{ node: HTMLElement, paint: () => void }} Part
 * @typedef {(map: AttentionMap) => Part} Draw
 */

/**
 * What one query goes through, from its scores to its weights; a number a key.
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
 * @typedef {"scores" | "scaled" | "masked" | "weights"} Source
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
 * @property {number} key where the arrow keys or the pointer are
 * @property {number | null} hovered a query under the pointer, for as long as it is there
 * @property {boolean} onHeading the pointer is on the name of the column `key`
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
 */

/**
 * What the parts share. `get` and `set` are for what Python knows as well, such as `row`, the
 * chosen query.
 * @typedef {object} AttentionMap
 * @property {Sent} sent
 * @property {View} view
 * @property {Paint} paint
 * @property {(name: string) => any} get
 * @property {(changes: Record<string, any>) => void} set
 * @property {Painter} painter
 * @property {(layer: number, head: number) => Row[]} rowsOf the rows of the section in any head
 * @property {() => Shown} shown the same object until something else is to be shown
 */

/**
 * The course's colours: a word of RGBA and the ink of digits on it, for every shade.
 * @typedef {{ words: Uint32Array, inks: string[] }} Paint
 */

const WHOLE = 128; // up to here all tokens are shown,
const SECTION = 64; // beyond it this many at a time
const DIGITS = { least: 36, most: 46 }; // the width of a cell that has its number in it
const DOTS = { least: 11, most: 22 }; // and of one that has only its colour
const MAP_HEIGHT = 560; // what a map of many rows should keep to
const PANEL = 300; // the least width of the numbers beside the map
const DIMENSIONS = 4; // of a value vector, written out
const CHANNELS = 128; // of a query and a key, at most so many are listed
const STRONGEST = 64; // shades go from −64 to 64
const SMALL = { one: 168, many: 104 }; // a small map's side, of one layer and of many
const HINT =
  "Point at a row, or walk with the arrow keys, to read it; a click keeps it. A column's name shows which queries attend to it.";
const WATCHED = ["layer", "head", "row", "temperature", "step", "overview", "active_masks"];

// ---- arithmetic --------------------------------------------------------------------------------

/**
 * One row; a masked score is −Infinity, and a row of nothing else gets weights of zero.
 * @param {Float64Array} masked
 * @param {number} temperature
 */
export function softmax(masked, temperature) {
  let largest = -Infinity;
  for (const s of masked) largest = Math.max(largest, s);
  const powers = new Float64Array(masked.length);
  masked.forEach((s, k) => {
    if (s !== -Infinity) powers[k] = Math.exp((s - largest) / temperature);
  });
  const total = sum(powers);
  return { largest, powers, total, weights: powers.map((p) => (total ? p / total : 0)) };
}

/** @param {Float64Array} numbers */
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** @type {(x: number, low: number, high: number) => number} */
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

/** @type {(i: number, first: number, size: number) => boolean} */
const outside = (i, first, size) => i < first || i >= first + size;

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

/**
 * Weights hide where the mask does; scores before the mask, where they came as −Infinity.
 * @type {(row: Row, source: Source, key: number) => boolean}
 */
const isHidden = (row, source, key) =>
  (source === "weights" ? row.masked : row[source])[key] === -Infinity;

// ---- words -------------------------------------------------------------------------------------

/** @type {(x: number, digits: number) => string} */
export function number(x, digits) {
  if (x === -Infinity) return "−∞";
  const text = Math.abs(x) >= 1e5 ? x.toExponential(1) : x.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** @param {Numbers} numbers */
function vector(numbers) {
  const shown = Array.from(numbers.slice(0, DIMENSIONS), (x) => number(x, 2));
  return `[${shown.join(", ")}${numbers.length > DIMENSIONS ? ", …" : ""}]`;
}

/**
 * Labels in quotes; one that occurs more than once also gets its position.
 * @param {string[]} labels
 */
function names(labels) {
  const count = new Map();
  for (const label of labels) count.set(label, (count.get(label) ?? 0) + 1);
  return labels.map((label, i) => (count.get(label) > 1 ? `“${label}” at ${i}` : `“${label}”`));
}

/**
 * The places of the largest of some numbers, among those in `from`.
 * @type {(numbers: Numbers, from: number[]) => { largest: number, top: number[] }}
 */
function best(numbers, from) {
  const largest = from.reduce((most, i) => Math.max(most, numbers[i]), -Infinity);
  const least = largest - 1e-6 * Math.abs(largest);
  return { largest, top: from.filter((i) => numbers[i] >= least) };
}

/** @type {(top: number[], names: string[]) => string} */
const listed = (top, names) =>
  top.length <= 3
    ? top.map((i) => names[i]).join(" and ")
    : `${names[top[0]]} and ${top.length - 1} more`;

/** @type {(row: Row, queryName: string, keyNames: string[]) => string} */
function sentence({ masked, weights }, queryName, keyNames) {
  const total = number(sum(weights), 3);
  const seen = [...keyNames.keys()].filter((key) => masked[key] !== -Infinity);
  if (!seen.length) return `${queryName} sees no key: every weight is 0; the row sums to ${total}`;
  const { largest, top } = best(weights, seen);
  const share = number(largest, 2);
  let says = `attends most to ${listed(top, keyNames)} (${share}${top.length > 1 ? " each" : ""})`;
  if (seen.length === 1) says = `attends only to ${keyNames[seen[0]]} (${share})`;
  else if (top.length === seen.length)
    says = `attends equally to all ${seen.length} keys it sees (${share} each)`;
  return `${queryName} ${says}; the row sums to ${total}`;
}

/** @type {Record<Source, string>} */
const SCORE = { scores: "score", scaled: "scaled score", masked: "score", weights: "weight" };

/**
 * Of a row of scores, of which none sums to anything.
 * @type {(row: Row, source: Source, queryName: string, keyNames: string[]) => string}
 */
function sentenceOfScores(row, source, queryName, keyNames) {
  const seen = [...keyNames.keys()].filter((key) => !isHidden(row, source, key));
  if (!seen.length) return `${queryName} sees no key: every score is −∞`;
  const { largest, top } = best(row[source], seen);
  const among = seen.length < keyNames.length ? ` of the ${seen.length} keys it sees` : "";
  return `${queryName} matches ${listed(top, keyNames)} best${among}: ${SCORE[source]} ${number(largest, 3)}`;
}

/** @type {(rows: Row[], source: Source, key: number, queryNames: string[], keyName: string) => string} */
function sentenceOfColumn(rows, source, key, queryNames, keyName) {
  const column = Float64Array.from(rows, (row) => row[source][key]);
  const seeing = [...rows.keys()].filter((query) => !isHidden(rows[query], source, key));
  const ofWeights = source === "weights";
  const total = ofWeights ? `; the column sums to ${number(sum(column), 3)}` : "";
  if (!seeing.length) return `No query sees ${keyName}${total}`;
  const { largest, top } = best(column, seeing);
  const by = top.length === rows.length && top.length > 3 ? "all queries" : listed(top, queryNames);
  return ofWeights
    ? `${keyName} is looked at most by ${by} (${number(largest, 2)}${top.length > 1 ? " each" : ""})${total}`
    : `${keyName} is matched best by ${by}: ${SCORE[source]} ${number(largest, 3)}`;
}

/** @type {(text: string) => string[]} */
const graphemes =
  "Segmenter" in Intl
    ? (text) => Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment)
    : (text) => [...text];

/**
 * As much of a label as there is room for, in whole characters as a reader counts them.
 * @type {(label: string, fits: (text: string) => boolean) => string}
 */
export function shortened(label, fits) {
  if (fits(label)) return label;
  const parts = graphemes(label);
  while (parts.length > 1 && !fits(`${parts.join("")}…`)) parts.pop();
  return `${parts.join("")}…`;
}

// ---- the row in words, a step each -------------------------------------------------------------

/**
 * What happens, in words; a line a key, a query or a channel; and the same under all of them.
 * @typedef {{ words: string, lines: ExplainedLine[], total?: ExplainedLine, largest?: number }} Explanation
 * @typedef {{ label: string, sum: string, result: string, strip?: Numbers, at?: boolean }} ExplainedLine
 */

/**
 * @typedef {object} Settings
 * @property {number} scale
 * @property {number} temperature
 * @property {number} key the chosen one
 * @property {string[]} keyNames
 * @property {string[]} keyLabels
 * @property {Numbers[] | null} values
 * @property {Numbers | null} queryVector
 * @property {Numbers | null} keyVector
 * @typedef {(row: Row, queryName: string, settings: Settings) => Explanation} Explain
 */

/** @type {(settings: Settings, line: (key: number) => string[]) => ExplainedLine[]} */
const eachKey = ({ keyLabels, key }, line) =>
  keyLabels.map((label, k) => {
    const [sum, result] = line(k);
    return { label, sum, result, at: k === key };
  });

/** @type {(numbers: Iterable<number>) => number} */
const largestOf = (numbers) => [...numbers].reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/** @type {Explain} */
function explainProducts(_row, queryName, { key, keyNames, queryVector, keyVector }) {
  const products = Float64Array.from(queryVector, (x, d) => x * keyVector[d]);
  const shown = products.subarray(0, CHANNELS);
  const more = products.length > CHANNELS ? ` The first ${CHANNELS} are listed.` : "";
  return {
    words:
      `The query of ${queryName} times the key of ${keyNames[key]}, channel by channel; ` +
      `the ${products.length} products add up to the score.${more}`,
    lines: Array.from(shown, (product, d) => ({
      label: `channel ${d}`,
      sum: `${number(queryVector[d], 3)} × ${number(keyVector[d], 3)}`,
      result: number(product, 3),
      strip: shown.subarray(d, d + 1),
    })),
    total: { label: "score", sum: "their sum", result: number(sum(products), 3) },
    largest: largestOf(products),
  };
}

/** @type {Explain} */
function explainScores(row, queryName, settings) {
  return {
    words: `How well ${queryName} matches each key: one score a key.`,
    lines: eachKey(settings, (key) => ["score", number(row.scores[key], 3)]),
  };
}

/** @type {Explain} */
function explainScaled(row, _queryName, settings) {
  const { scale } = settings;
  const root = Math.round(1 / scale ** 2);
  const of = root > 1 && Math.abs(scale * Math.sqrt(root) - 1) < 1e-6 ? ` = 1 ÷ √${root}` : "";
  return {
    words: `Each score times the scale ${number(scale, 3)}${of}.`,
    lines: eachKey(settings, (key) => [
      `${number(row.scores[key], 3)} × ${number(scale, 3)}`,
      number(row.scaled[key], 3),
    ]),
  };
}

/** @type {Explain} */
function explainMasked(row, queryName, settings) {
  const count = row.masked.filter((s) => s === -Infinity).length;
  const become = count === 1 ? "1 key becomes" : `${count} keys become`;
  return {
    words: count
      ? `${queryName} may not see everything: the scores of ${become} −∞, all others stay.`
      : `${queryName} may see every key: all scores stay.`,
    lines: eachKey(settings, (key) => [
      isHidden(row, "masked", key) ? "hidden" : "stays",
      number(row.masked[key], 3),
    ]),
  };
}

/** @type {Explain} */
function explainSoftmax(row, queryName, settings) {
  const { temperature } = settings;
  const largest = number(row.largest, 3);
  const less = row.largest < 0 ? `(${largest})` : largest;
  return {
    words: row.total
      ? `Take the largest score, ${largest}, from each` +
        `${temperature === 1 ? "" : `, divide by the temperature, ${temperature}`}, and raise e ` +
        `to that. Then divide by the total of these powers, ${number(row.total, 3)}.`
      : `${queryName} sees no key: there is nothing to share out, and every weight is 0.`,
    lines: eachKey(settings, (key) => {
      if (isHidden(row, "masked", key)) return ["hidden", "0"];
      const difference = `${number(row.masked[key], 3)} − ${less}`;
      const exponent = temperature === 1 ? difference : `(${difference}) ÷ ${temperature}`;
      return [`e^(${exponent}) = ${number(row.powers[key], 3)}`, number(row.weights[key], 3)];
    }),
    total: { label: "total", sum: number(row.total, 3), result: number(sum(row.weights), 3) },
  };
}

/** @type {Explain} */
function explainWeightedSum(row, queryName, settings) {
  const { values } = settings;
  const parts = values.map((value, key) => Float64Array.from(value, (x) => row.weights[key] * x));
  const output = new Float64Array(values[0].length);
  for (const part of parts) part.forEach((x, d) => (output[d] += x));
  const lines = eachKey(settings, (key) =>
    isHidden(row, "masked", key)
      ? ["hidden", "0"]
      : [`${number(row.weights[key], 2)} × ${vector(values[key])}`, vector(parts[key])],
  );
  lines.forEach((line, key) => {
    if (!isHidden(row, "masked", key)) line.strip = parts[key];
  });
  return {
    words: `Each key's value times its weight; their sum is what ${queryName} takes away.`,
    lines,
    total: { label: "sum", sum: "what comes out", result: vector(output), strip: output },
    largest: Math.max(largestOf(output), ...parts.map(largestOf)),
  };
}

/**
 * A column: the same number of every row.
 * @type {(rows: Row[], source: Source, query: number, key: number, sent: Sent) => Explanation}
 */
function explainColumn(rows, source, query, key, sent) {
  const whose = source === "weights" ? "Who attends to" : "Who matches";
  const lines = rows.map((row, i) => {
    const hidden = isHidden(row, source, key);
    const result = hidden && source === "weights" ? "0" : number(row[source][key], 3);
    return {
      ...{ label: sent.queryLabels[i], sum: hidden ? "hidden" : SCORE[source], result },
      at: i === query,
    };
  });
  const column = Float64Array.from(rows, (row) => row[source][key]);
  const words = `${whose} ${sent.keyNames[key]}? Its column, one ${SCORE[source]} a query.`;
  if (source !== "weights") return { words, lines };
  const total = { label: "total", sum: "", result: number(sum(column), 3) };
  return { words: `${words} Rows sum to 1, columns need not.`, lines, total };
}

/** @type {Record<string, { explain: Explain, source: Source }>} */
const STEPS = {
  "query · key": { explain: explainProducts, source: "scores" },
  scores: { explain: explainScores, source: "scores" },
  scaled: { explain: explainScaled, source: "scaled" },
  masked: { explain: explainMasked, source: "masked" },
  softmax: { explain: explainSoftmax, source: "weights" },
  "weighted sum": { explain: explainWeightedSum, source: "weights" },
};

/**
 * The chosen cell's number at each step.
 * @type {Record<string, (row: Row, key: number) => string>}
 */
const TRAIL = {
  "query · key": (row, key) => `Σ ${number(row.scores[key], 3)}`,
  scores: (row, key) => number(row.scores[key], 3),
  scaled: (row, key) => number(row.scaled[key], 3),
  masked: (row, key) => number(row.masked[key], 3),
  softmax: (row, key) => number(row.weights[key], 3),
  "weighted sum": (row, key) => `${number(row.weights[key], 3)} × v`,
};

// ---- what is shown -----------------------------------------------------------------------------

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
  // Of one head it is kept what the temperature has no say in.
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
    ...{ numRows, numColumns, firstQuery: 0, firstKey: 0, key: 0, hovered: null },
    ...{ onHeading: false, columns: false, fitted: false, sizes: { ...sizes, upright: true } },
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

/**
 * As `colours.strength` in Python has it.
 * @type {(x: number, scale: Scale) => number}
 */
function shadeOf(x, { largest }) {
  if (!(largest > 0) || !Number.isFinite(largest)) return 0;
  return Math.round(STRONGEST * clamp(x / largest, -1, 1));
}

/** @type {(numbers: Numbers, view: View) => Numbers} */
const inSection = (numbers, { firstKey, numColumns }) =>
  numbers.subarray(firstKey, firstKey + numColumns);

/** @type {(sent: { shades: number[][], inks: string[] }) => Paint} */
function mix({ shades, inks }) {
  const bytes = new Uint8Array(4 * shades.length);
  shades.forEach((shade, k) => bytes.set([...shade, 255], 4 * k));
  return { words: new Uint32Array(bytes.buffer), inks };
}

/** @type {(model: any, painter: Painter) => AttentionMap} */
function createMap(model, painter) {
  const sent = unpack(model);
  const view = look(sent);
  const paint = mix(model.get("_data").colours);
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
  return { sent, view, paint, get, set, painter, rowsOf, shown };
}

/**
 * The query to tell about, and its row.
 * @param {AttentionMap} map
 */
function told({ view, get, shown }) {
  const query = view.hovered ?? get("row");
  return { query, row: shown().rows[query - view.firstQuery] };
}

/** @param {View} view */
const readsColumn = (view) => view.columns || view.onHeading;

/** @type {(sent: Sent, layer: number, head: number) => string} */
const headTitle = ({ headNames }, layer, head) =>
  headNames ? `head ${head}: ${headNames[layer][head]}` : `head ${head}`;

/** @param {AttentionMap} map */
const roundedTemperature = (map) => Number(map.get("temperature").toPrecision(3));

// ---- the page ----------------------------------------------------------------------------------

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
function create(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name in node) /** @type {any} */ (node)[name] = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** @type {(text: Node | string, ...controls: (Node | string)[]) => HTMLLabelElement} */
const labelled = (text, ...controls) => create("label", {}, text, ...controls);

/** @param {HTMLCanvasElement} canvas */
const brushOf = (canvas) => canvas.getContext("2d");

/**
 * Colours cells with a picture under them, a dot a cell; hidden ones are holes in it, through which
 * its hatched background is seen.
 * @type {(canvas: HTMLCanvasElement, paint: Paint, shades: Iterable<number | null>) => void}
 */
function fillPicture(canvas, { words }, shades) {
  const image = new ImageData(canvas.width, canvas.height);
  const dots = new Uint32Array(image.data.buffer);
  let k = 0;
  for (const shade of shades) dots[k++] = shade === null ? 0 : words[STRONGEST + shade];
  brushOf(canvas).putImageData(image, 0, 0);
}

/**
 * Touches the page only where the text is another one: a repaint costs what has changed.
 * @type {(node: HTMLElement, text: string, title?: string) => void}
 */
function write(node, text, title = "") {
  if (node.textContent !== text) node.textContent = text;
  if (node.title !== title) node.title = title;
}

/**
 * What may be cut is told whole when it is pointed at: to keep two hundred titles right would cost
 * each repaint.
 * @param {HTMLElement} node
 */
function tellWhole(node) {
  node.addEventListener("pointerover", ({ target }) => {
    const cut = /** @type {HTMLElement} */ (target).closest(".cut, .row :is(th, td)");
    if (cut) /** @type {HTMLElement} */ (cut).title = cut.textContent;
  });
}

/**
 * Paints at most once a frame, whatever has changed since the last one.
 * @param {() => void} paint
 * @returns {Painter}
 */
function oncePerFrame(paint) {
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
  };
  const now = () => {
    stop();
    paint();
  };
  const soon = () => {
    frame ||= requestAnimationFrame(now);
  };
  return { soon, now, stop };
}

// ---- controls ----------------------------------------------------------------------------------

/** @type {(map: AttentionMap, name: "layer" | "head", size: number) => Part} */
function drawPicker(map, name, size) {
  const { headNames } = map.sent;
  const options = Array.from({ length: size }, (_, k) => create("option", { value: k }, `${k}`));
  const select = create("select", {}, ...options);
  select.onchange = () => map.set({ [name]: Number(select.value) });
  const paint = () => {
    if (name === "head" && headNames)
      options.forEach((option, k) => write(option, `${k}: ${headNames[map.get("layer")][k]}`));
    select.value = map.get(name);
  };
  return { node: labelled(`${name} `, select), paint };
}

/** @type {Draw} */
function drawOverviewButton(map) {
  const node = create("button", { type: "button" });
  node.onclick = () => map.set({ overview: !map.get("overview") });
  const paint = () => {
    write(node, map.get("overview") ? "← back to one head" : "all heads");
    node.setAttribute("aria-pressed", map.get("overview"));
  };
  return { node, paint };
}

/** @type {Draw} */
function drawTemperature(map) {
  const slider = create("input", { type: "range", min: -1, max: 1, step: 0.01 });
  const read = () => Number((10 ** slider.valueAsNumber).toPrecision(3));
  slider.oninput = () => map.set({ temperature: read() });
  const reading = create("output");
  const reset = create(
    "button",
    {
      type: "button",
      onclick: () => map.set({ temperature: 1 }),
      "aria-label": "reset temperature",
    },
    "reset",
  );
  function paint() {
    const temperature = roundedTemperature(map);
    // While it is dragged, the slider stays where the hand is.
    if (read() !== temperature) slider.value = `${Math.log10(temperature)}`;
    slider.setAttribute("aria-valuetext", `${temperature}`);
    write(reading, `${temperature}`);
  }
  const node = create("span", {}, labelled("temperature ", slider), " ", reading, " ", reset);
  return { node, paint };
}

/** @type {(map: AttentionMap, name: string) => Part} */
function drawMaskSwitch(map, name) {
  const box = create("input", { type: "checkbox", name });
  /** @param {string} mask */
  const isOn = (mask) => (mask === name ? box.checked : map.get("active_masks").includes(mask));
  box.onchange = () => map.set({ active_masks: map.sent.masks.filter(isOn) });
  const paint = () => {
    box.checked = map.get("active_masks").includes(name);
  };
  return { node: labelled(box, name === "hidden" ? " mask" : ` ${name} mask`), paint };
}

/**
 * Something the page alone knows, to be switched on and off.
 * @type {(map: AttentionMap, name: "columns" | "fitted", text: string) => Part}
 */
function drawSwitch({ view, painter }, name, text) {
  const box = create("input", { type: "checkbox", name });
  box.onchange = () => {
    view[name] = box.checked;
    painter.soon();
  };
  const paint = () => {
    box.checked = view[name];
  };
  return { node: labelled(box, ` ${text}`), paint };
}

/** @type {Draw} */
function drawControls(map) {
  const { numLayers, numHeads, masks } = map.sent;
  const parts = [
    ...(numLayers > 1 ? [drawPicker(map, "layer", numLayers)] : []),
    ...(numHeads > 1 ? [drawPicker(map, "head", numHeads)] : []),
    ...(numLayers * numHeads > 1 ? [drawOverviewButton(map)] : []),
    drawTemperature(map),
    ...masks.map((name) => drawMaskSwitch(map, name)),
  ];
  const node = create("div", { className: "controls" }, ...parts.map((part) => part.node));
  return { node, paint: () => parts.forEach((part) => part.paint()) };
}

/**
 * The steps, and under each the chosen cell's number there: it can be followed to where it is from.
 * @type {(map: AttentionMap, id: string) => Part}
 */
function drawSteps(map, id) {
  const { sent, view } = map;
  const steps = sent.steps.map((step) => {
    const radio = create("input", { type: "radio", name: `${id}-step`, value: step });
    radio.onchange = () => map.set({ step });
    const number = create("span", { className: "number" });
    return { step, radio, number, label: labelled(create("span", {}, radio, ` ${step}`), number) };
  });
  const pair = create("span", { className: "pair cut" });
  const node = create(
    "fieldset",
    { className: "steps" },
    create("legend", {}, create("span", {}, "step"), pair),
    ...steps.map(({ label }) => label),
  );
  const paint = () => {
    const { query, row } = told(map);
    const text = `${sent.queryNames[query]} → ${sent.keyNames[view.key]}`;
    write(pair, text);
    for (const { step, radio, number } of steps) {
      radio.checked = map.get("step") === step;
      write(number, TRAIL[step](row, view.key));
    }
  };
  return { node, paint };
}

// ---- a section of a long map -------------------------------------------------------------------

/**
 * Where the section begins, to be typed.
 * @type {(map: AttentionMap, first: "firstQuery" | "firstKey", most: number) => Part}
 */
function drawFirst({ view, get, set, painter }, first, most) {
  const node = create("input", { type: "number", min: 0, max: most, step: 8 });
  node.onchange = () => {
    view[first] = clamp(Math.round(node.valueAsNumber) || 0, 0, most);
    node.value = `${view[first]}`;
    if (first === "firstQuery" && outside(get("row"), view.firstQuery, view.numRows))
      set({ row: view.firstQuery });
    else painter.soon();
  };
  // What is being typed stays.
  const paint = () => {
    if (!node.matches(":focus")) node.value = `${view[first]}`;
  };
  return { node, paint };
}

/** @type {Draw} */
function drawSection(map) {
  const { numQueries, numKeys } = map.sent;
  const { numRows, numColumns } = map.view;
  const firstQuery = drawFirst(map, "firstQuery", numQueries - numRows);
  const firstKey = drawFirst(map, "firstKey", numKeys - numColumns);
  const node = create(
    "p",
    { className: "part" },
    `${numQueries} queries × ${numKeys} keys are too many to show at once (up to ${WHOLE} are). ` +
      `Here are ${numRows} × ${numColumns}; weights are over all keys. `,
  );
  if (numRows < numQueries) node.append(labelled("from query ", firstQuery.node), " ");
  if (numColumns < numKeys) node.append(labelled("from key ", firstKey.node));
  const paint = () => {
    firstQuery.paint();
    firstKey.paint();
  };
  return { node, paint };
}

// ---- sizes -------------------------------------------------------------------------------------

const PENCIL = brushOf(create("canvas"));

/** @type {(text: string, font: string) => number} */
function widthOf(text, font) {
  PENCIL.font = font;
  return Math.ceil(PENCIL.measureText(text).width);
}

/**
 * What there is room for in so many pixels, beside the numbers where that leaves enough.
 * @type {(map: AttentionMap, width: number, family: string) => Sizes}
 */
function measure({ sent, view }, width, family) {
  const bold = `bold 12px ${family}`;
  /** @param {string[]} labels */
  const widest = (labels) => Math.max(...labels.map((label) => widthOf(label, bold)));
  const labelWidth = clamp(widest(["query", ...sent.queryLabels]) + 12, 30, 130);
  const room = width - labelWidth - 24;
  const beside = Math.floor((room - PANEL) / view.numColumns);
  const alone = Math.floor(room / view.numColumns);
  const dense = alone < DIGITS.least;
  const { least, most } = dense ? DOTS : DIGITS;
  const fits = dense ? Math.floor(MAP_HEIGHT / view.numRows) : most;
  const cellWidth = clamp(beside >= least ? beside : alone, least, clamp(fits, least, most));
  const height = view.numRows > 24 ? 20 : 30;
  const named = widest(sent.keyLabels);
  const upright = !dense && named + 4 <= cellWidth;
  const headingHeight = upright ? 22 : clamp(named + 8, 22, 96);
  return {
    ...{ dense, cellWidth, labelWidth, upright, headingHeight },
    cellHeight: dense ? cellWidth : height,
  };
}

// ---- the grid ----------------------------------------------------------------------------------

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
    create("thead", {}, create("tr", {}, create("th", { scope: "col" }, "query"), ...headings)),
    create("tbody", {}, ...lines.map(({ node }) => node)),
  );
  return { table, headings, lines };
}

/**
 * A number in a cell: as many digits as there is room for.
 * @param {number} x
 */
const inCell = (x) => number(x, Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2);

/**
 * @param {AttentionMap} map
 * @param {Line[]} lines
 * @param {HTMLCanvasElement} picture
 */
function cellPainter({ view, paint }, lines, picture) {
  /** @param {Shown} shown */
  return ({ rows, source, scale }) => {
    const { dense } = view.sizes;
    /** @type {(number | null)[]} */
    const shades = [];
    rows.forEach((row, i) => {
      // What a cell has is remembered: to ask 4096 of them takes milliseconds.
      const { cells, inks, texts } = lines[i];
      inSection(row[source], view).forEach((x, j) => {
        const masked = isHidden(row, source, view.firstKey + j);
        const shade = masked ? null : shadeOf(x, scale);
        shades.push(shade);
        const ink = masked ? "masked" : dense ? "" : paint.inks[STRONGEST + shade];
        if (ink !== inks[j]) inks[j] = cells[j].className = ink;
        const text = dense ? "" : masked && source === "weights" ? "0" : inCell(x);
        if (text !== texts[j]) texts[j] = cells[j].textContent = text;
      });
    });
    fillPicture(picture, paint, shades);
  };
}

/**
 * What a screen reader says of each cell.
 * @param {AttentionMap} map
 * @param {Line[]} lines
 */
function cellNamer({ sent, view, shown }, lines) {
  let settling = 0;
  function name() {
    const { rows, source } = shown();
    rows.forEach((row, i) =>
      inSection(row[source], view).forEach((x, j) => {
        const what = isHidden(row, source, view.firstKey + j) ? "hidden" : number(x, 3);
        const pair = `${sent.queryNames[view.firstQuery + i]} to ${sent.keyNames[view.firstKey + j]}`;
        lines[i].cells[j].setAttribute("aria-label", `${pair}: ${what}`);
      }),
    );
  }
  const stop = () => clearTimeout(settling);
  // Thousands of names would cost a frame: they follow when the slider rests.
  function paint() {
    stop();
    if (view.numRows * view.numColumns <= 1024) name();
    else settling = setTimeout(name, 100);
  }
  return { paint, stop };
}

/**
 * Frames over the grid, which move without a cell being touched: the chosen row, the crosshair and
 * the cell where the arrow keys are.
 * @type {(map: AttentionMap) => Part & { nodes: HTMLElement[] }}
 */
function drawFrames({ view, get }) {
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
    const j = view.key - view.firstKey;
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
 * Names of rows and columns, cut to their room; the whole name is told when it is pointed at.
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
 * @param {AttentionMap} map
 * @param {string} id
 * @param {string} family of letters
 */
function drawGrid(map, id, family) {
  const { view } = map;
  const drawn = drawTable(map, id);
  const { table, headings, lines } = drawn;
  const size = { width: view.numColumns, height: view.numRows };
  const picture = create("canvas", { ...size, className: "picture", "aria-hidden": "true" });
  const frames = drawFrames(map);
  const plate = create("div", { className: "plate" }, picture, table, ...frames.nodes);
  const paintCells = cellPainter(map, lines, picture);
  const paintLabels = labelPainter(map, drawn, family);
  const cellNames = cellNamer(map, lines);
  /** @type {[Shown?, Sizes?]} so that choosing a row need not paint all cells again */
  let painted = [];

  function paintSizes() {
    const { dense, cellWidth, cellHeight, labelWidth, headingHeight } = view.sizes;
    const sizes = {
      ...{ "cell-width": cellWidth, "cell-height": cellHeight },
      ...{ "label-width": labelWidth, "heading-height": headingHeight },
    };
    for (const [name, pixels] of Object.entries(sizes))
      plate.style.setProperty(`--${name}`, `${pixels}px`);
    plate.style.setProperty("--rows", `${view.numRows}`);
    plate.style.setProperty("--columns", `${view.numColumns}`);
    table.classList.toggle("dense", dense);
    table.classList.toggle("digits", !dense);
  }
  function paintShown() {
    if (painted[0] === map.shown() && painted[1] === view.sizes) return;
    if (painted[1] !== view.sizes) paintSizes();
    painted = [map.shown(), view.sizes];
    paintLabels();
    paintCells(painted[0]);
    cellNames.paint();
  }
  let chosen = "";
  /** The cell where the arrow keys are, if its key is in the section. */
  const current = () => lines[map.get("row") - view.firstQuery].cells[view.key - view.firstKey];
  function paintChoice() {
    const { firstQuery, firstKey, key, hovered, sizes } = view;
    const choice = JSON.stringify([
      ...[map.get("row"), key, hovered, readsColumn(view), firstQuery, firstKey, sizes],
    ]);
    if (choice === chosen) return;
    chosen = choice;
    lines.forEach(({ node }, i) => {
      const query = view.firstQuery + i;
      const isChosen = `${query === map.get("row")}`;
      if (node.ariaSelected !== isChosen) node.ariaSelected = isChosen;
      node.classList.toggle("hovered", query === view.hovered);
    });
    headings.forEach((cell, j) =>
      cell.classList.toggle("read", readsColumn(view) && view.firstKey + j === view.key),
    );
    frames.paint();
    if (current()) {
      if (table.getAttribute("aria-activedescendant") !== current().id)
        table.setAttribute("aria-activedescendant", current().id);
    } else table.removeAttribute("aria-activedescendant");
  }
  const paint = () => {
    paintShown();
    paintChoice();
  };
  const node = create("div", { className: "scroll" }, plate);
  return { node, table, headings, lines, current, paint, stop: cellNames.stop };
}

/**
 * Ticks of the ramp: numbers, and where their colours are.
 * @type {(scale: Scale) => { at: number, x: number }[]}
 */
function ticksOf({ signed, low, largest }) {
  if (!signed) return [0, 0.25, 0.5, 0.75, 1].map((x) => ({ at: x, x: x * largest }));
  return low < 0
    ? [-1, -0.5, 0, 0.5, 1].map((x) => ({ at: (x + 1) / 2, x: x * largest }))
    : [0, 0.5, 1].map((x) => ({ at: x, x: x * largest }));
}

/** @type {(map: AttentionMap, scaleNow: () => Scale) => Part} */
function drawLegend(map, scaleNow) {
  const ramp = create("canvas", {
    className: "picture",
    width: 65,
    height: 1,
    "aria-hidden": "true",
  });
  const ticks = Array.from({ length: 5 }, () => create("span"));
  const scale = create("span", { className: "scale" }, ramp, ...ticks);
  const fitted = drawSwitch(map, "fitted", "colours up to the largest weight");
  const node = create("div", { className: "legend" }, scale);
  const swatch = create("span", { className: "swatch" });
  if (map.sent.steps.includes("masked"))
    node.append(create("span", { className: "hatched" }, swatch, "hidden"));
  node.append(fitted.node);
  let painted = "";
  function paint() {
    fitted.paint();
    const now = scaleNow();
    const key = JSON.stringify(now);
    if (key === painted) return;
    painted = key;
    const first = now.signed && now.low < 0 ? -STRONGEST : 0;
    ramp.width = STRONGEST - first + 1;
    fillPicture(
      ramp,
      map.paint,
      Array.from({ length: ramp.width }, (_, k) => first + k),
    );
    const marks = Number.isFinite(now.largest) ? ticksOf(now) : [];
    const digits = now.largest < 0.5 && !now.signed ? 3 : 2;
    ticks.forEach((tick, k) => {
      tick.hidden = !marks[k];
      if (tick.hidden) return;
      tick.style.left = `${100 * marks[k].at}%`;
      const isWhole = Number.isInteger(marks[k].x) || marks[k].x === 0;
      write(tick, number(marks[k].x, isWhole ? 0 : digits));
    });
    fitted.node.style.visibility = now.signed ? "hidden" : "";
  }
  return { node, paint };
}

// ---- the chosen row ----------------------------------------------------------------------------

/** @type {(map: AttentionMap) => string} */
function saidOf(map) {
  const { sent, view, get, shown } = map;
  const { query, row } = told(map);
  const { source, all } = shown();
  const [queryName, keyName] = [sent.queryNames[query], sent.keyNames[view.key]];
  if (readsColumn(view)) return sentenceOfColumn(all(), source, view.key, sent.queryNames, keyName);
  if (get("step") === "query · key")
    return `${queryName} and ${keyName}: their products add up to the score ${number(row.scores[view.key], 3)}`;
  return source === "weights"
    ? sentence(row, queryName, sent.keyNames)
    : sentenceOfScores(row, source, queryName, sent.keyNames);
}

/** @type {Draw} */
function drawSentence(map) {
  const node = create("p", { className: "sentence cut", "aria-live": "polite", "aria-atomic": "true" });
  const paint = () => {
    const said = saidOf(map);
    write(node, said);
  };
  return { node, paint };
}

/**
 * A line of the numbers: a name, its arithmetic, its result, and a vector's picture.
 * @param {AttentionMap} map
 */
function drawNumbersLine({ paint }) {
  const cells = [create("th"), create("td"), create("td")];
  cells[0].scope = "row";
  const strip = create("canvas", { className: "picture", height: 1, "aria-hidden": "true" });
  const drawing = create("td", { className: "strip" }, strip);
  const node = create("tr", {}, ...cells, drawing);
  /** @type {(line: ExplainedLine | undefined, largest: number | undefined) => void} */
  function show(line, largest) {
    node.hidden = !line;
    if (!line) return;
    [line.label, line.sum, line.result].forEach((text, k) => write(cells[k], text));
    node.classList.toggle("at", Boolean(line.at));
    strip.hidden = !line.strip;
    if (!line.strip) return;
    strip.width = line.strip.length;
    const scale = { signed: true, low: -1, largest };
    fillPicture(
      strip,
      paint,
      Array.from(line.strip, (x) => shadeOf(x, scale)),
    );
  }
  return { node, show };
}

/** @type {(map: AttentionMap) => Explanation} */
function explained(map) {
  const { sent, view, get, shown } = map;
  const { query, row } = told(map);
  const { source, all } = shown();
  if (readsColumn(view)) return explainColumn(all(), source, query, view.key, sent);
  const [layer, head] = [get("layer"), get("head")];
  return STEPS[get("step")].explain(row, sent.queryNames[query], {
    scale: sent.scale,
    temperature: roundedTemperature(map),
    key: view.key,
    keyNames: sent.keyNames,
    keyLabels: sent.keyLabels,
    values: sent.values && sent.keyNames.map((_, key) => sent.values.at(layer, head, key)),
    queryVector: sent.query && sent.query.at(layer, head, query),
    keyVector: sent.key && sent.key.at(layer, head, view.key),
  });
}

/**
 * The row, the column or the cell in words and numbers.
 * @type {Draw}
 */
function drawNumbers(map) {
  const { sent, view, get } = map;
  const words = create("p", { className: "words cut" });
  const channels = sent.query ? Math.min(sent.query.shape[3], CHANNELS) : 0;
  const count = Math.max(sent.numKeys, sent.numQueries, channels);
  const lines = Array.from({ length: count }, () => drawNumbersLine(map));
  const foot = drawNumbersLine(map);
  const numbers = create(
    "div",
    { className: "scroll", tabIndex: 0, role: "region", "aria-label": "the row's numbers" },
    create(
      "table",
      {},
      create("tbody", {}, ...lines.map(({ node }) => node)),
      create("tfoot", {}, foot.node),
    ),
  );
  const node = create("div", { className: "row" }, words, numbers);
  function paint() {
    const { words: text, lines: texts, total, largest } = explained(map);
    write(words, text);
    lines.forEach((line, k) => line.show(texts[k], largest));
    foot.show(total, largest);
    // The step decides how high it is, and nothing that is pointed at.
    const isProducts = get("step") === "query · key";
    const most = Math.max(view.numRows, view.numColumns, isProducts ? channels : 0);
    node.style.setProperty("--lines", `${most + 1}`);
    const isSum = get("step") === "weighted sum" && !readsColumn(view);
    node.classList.toggle("drawn", isProducts || isSum);
    node.classList.toggle("vectors", isSum);
  }
  return { node, paint };
}

// ---- all heads ---------------------------------------------------------------------------------

/**
 * One small map. `look` computes it and returns its largest weight, `paint` paints it on the scale
 * that it shares with the others.
 * @param {AttentionMap} map
 * @param {number} layer
 * @param {number} head
 * @param {(layer: number, head: number) => void} open
 */
function drawThumbnail(map, layer, head, open) {
  const { sent, view, get } = map;
  const side = sent.numLayers > 1 ? SMALL.many : SMALL.one;
  const dot = clamp(Math.floor(side / Math.max(view.numRows, view.numColumns)), 1, 24);
  const size = { width: view.numColumns, height: view.numRows };
  const canvas = create("canvas", { ...size, className: "picture", "aria-hidden": "true" });
  const title = create("button", { type: "button", title: "open this head" });
  title.onclick = () => open(layer, head);
  const bars = ["chosen", "across"].map((name) => create("div", { className: `frame ${name}` }));
  const rows = Array.from({ length: dot > 9 ? view.numRows : 0 }, () => create("span"));
  const columns = Array.from({ length: dot > 9 ? view.numColumns : 0 }, () => create("span"));
  const names = create("div", { className: "names" }, ...rows);
  const heads = create("div", { className: "heads" }, ...columns);
  const picture = create("div", { className: "mini" }, canvas, ...bars);
  const caption = create("small");
  const body = create("div", { className: "small-map" }, heads, names, picture);
  const node = create("div", { className: "thumbnail" }, title, body, caption);
  node.style.cssText = `--dot: ${dot}px; --columns: ${view.numColumns}; --rows: ${view.numRows}`;
  /** @type {Row[]} */
  let computed = [];
  function compute() {
    computed = map.rowsOf(layer, head);
    const weights = computed.map((row) => largestOf(inSection(row.weights, view)));
    return Math.max(...weights);
  }
  /** @param {Scale} scale */
  function fill(scale) {
    const shades = computed.flatMap((row) =>
      Array.from(inSection(row.weights, view), (weight, j) =>
        isHidden(row, "weights", view.firstKey + j) ? null : shadeOf(weight, scale),
      ),
    );
    fillPicture(canvas, map.paint, shades);
    computed = [];
    write(title, headTitle(sent, layer, head));
    rows.forEach((span, i) => write(span, sent.queryLabels[view.firstQuery + i]));
    columns.forEach((span, j) => {
      write(span, sent.keyLabels[view.firstKey + j]);
      span.classList.toggle("single", graphemes(span.textContent).length === 1);
    });
  }
  function paint() {
    const query = view.hovered ?? get("row");
    [get("row"), view.hovered].forEach((which, k) => {
      bars[k].hidden = which === null;
      bars[k].style.setProperty("--i", `${(which ?? 0) - view.firstQuery}`);
    });
    const isOn = layer === get("layer") && head === get("head");
    if (isOn) title.setAttribute("aria-current", "true");
    else title.removeAttribute("aria-current");
    const said = sentence(sent.walk(layer, head, query), sent.queryNames[query], sent.keyNames);
    write(caption, said, said);
  }
  return { node, picture, dot, compute, fill, paint };
}

/**
 * Rows of small maps are chosen as rows of the large one are.
 * @param {AttentionMap} map
 * @param {ReturnType<typeof drawThumbnail>} thumbnail
 */
function listenToThumbnail({ view, set, painter }, { picture, dot }) {
  /** @param {PointerEvent | MouseEvent} event */
  const under = (event) => {
    const i = Math.floor((event.clientY - picture.getBoundingClientRect().top) / dot);
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

/** @type {(map: AttentionMap, open: (layer: number, head: number) => void) => Part} */
function drawOverview(map, open) {
  const { sent, view, get, set } = map;
  const many = sent.numLayers * sent.numHeads;
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
  /** Nothing is drawn before it is asked for: there may be hundreds. */
  function draw() {
    for (let layer = 0; many > 1 && layer < sent.numLayers; layer++) {
      const line = create("div", { className: "heads-of-layer" });
      if (sent.numLayers > 1) line.append(create("div", { className: "layer" }, `layer ${layer}`));
      for (let head = 0; head < sent.numHeads; head++) {
        const thumbnail = drawThumbnail(map, layer, head, open);
        listenToThumbnail(map, thumbnail);
        thumbnails.push(thumbnail);
        line.append(thumbnail.node);
      }
      grid.append(line);
    }
  }
  let painted = "";
  function paint() {
    if (!thumbnails.length) draw();
    const settings = ["temperature", "active_masks"].map(get);
    const now = JSON.stringify([...settings, view.firstQuery, view.firstKey, view.fitted]);
    if (now !== painted) {
      painted = now;
      const largest = Math.max(...thumbnails.map((thumbnail) => thumbnail.compute()));
      scale = { signed: false, low: 0, largest: view.fitted ? largest : 1 };
      for (const thumbnail of thumbnails) thumbnail.fill(scale);
    }
    for (const thumbnail of thumbnails) thumbnail.paint();
    legend.paint();
  }
  return { node, paint };
}

// ---- pointer and keys --------------------------------------------------------------------------

/**
 * Hovering tells about a row, or on a column's name about a column; a click chooses it.
 * @type {(map: AttentionMap, grid: Grid) => void}
 */
function listenToPointer({ view, set, painter }, { table, lines }) {
  /** @param {any} event */
  const under = ({ target }) => {
    const cell = target.closest("td, th");
    if (!cell) return null;
    const key = view.firstKey + cell.cellIndex - 1;
    const i = lines.findIndex(({ node }) => node === cell.parentNode);
    if (i >= 0) return { query: view.firstQuery + i, key };
    return key >= view.firstKey ? { query: null, key } : null;
  };
  table.addEventListener("pointermove", (event) => {
    const at = under(event);
    if (!at) return;
    const onHeading = at.query === null;
    const isSame = at.query === view.hovered && onHeading === view.onHeading;
    if (isSame && (at.key === view.key || at.key < view.firstKey)) return;
    view.hovered = at.query;
    view.onHeading = onHeading;
    if (at.key >= view.firstKey) view.key = at.key;
    painter.soon();
  });
  table.addEventListener("pointerleave", () => {
    view.hovered = null;
    view.onHeading = false;
    painter.soon();
  });
  table.addEventListener("click", (event) => {
    const at = under(event);
    if (!at) return;
    if (at.query !== null) return set({ row: at.query });
    view.key = at.key;
    view.columns = true;
    painter.soon();
  });
}

/**
 * Arrow keys, Home and End walk over queries and keys; the section follows.
 * @type {(map: AttentionMap, grid: Grid) => void}
 */
function listenToKeys({ sent, view, get, set, painter }, { table, current }) {
  /** @type {(i: number, first: number, size: number) => number} */
  const follow = (i, first, size) => Math.min(i, Math.max(first, i - size + 1));
  for (const type of ["focus", "blur"]) table.addEventListener(type, () => painter.soon());
  table.addEventListener("keydown", (event) => {
    const [query, key] = [get("row"), view.key];
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
    view.hovered = null;
    const to = clamp(move[0], 0, sent.numQueries - 1);
    view.key = clamp(move[1], 0, sent.numKeys - 1);
    view.firstQuery = follow(to, view.firstQuery, view.numRows);
    view.firstKey = follow(view.key, view.firstKey, view.numColumns);
    set({ row: to });
    current().scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

/**
 * JupyterLab listens before the page does and looks for its attribute on the focused node: without
 * it "b" would insert a cell. Ctrl and ⌘ stay with JupyterLab, or Ctrl+S would no longer save.
 * @param {HTMLElement} node
 */
function shield(node) {
  /** @param {any} event */
  const keep = (event) => {
    const command = event.ctrlKey || event.metaKey;
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !command);
    if (!command && event.type !== "focusin") event.stopPropagation();
  };
  for (const type of ["keydown", "keyup", "focusin"]) node.addEventListener(type, keep);
}

// ---- all of it ---------------------------------------------------------------------------------

/**
 * The section on show has the chosen query in it, and what is hovered.
 * @param {AttentionMap} map
 */
function showChosen({ sent, view, get }) {
  const chosen = get("row");
  if (outside(chosen, view.firstQuery, view.numRows))
    view.firstQuery = clamp(chosen - (view.numRows >> 1), 0, sent.numQueries - view.numRows);
  if (view.hovered !== null && outside(view.hovered, view.firstQuery, view.numRows))
    view.hovered = null;
}

/** @type {(map: AttentionMap, family: string) => Part & { stop: () => void }} */
function drawMap(map, family) {
  const { sent, view, get } = map;
  const id = `attention-map-${Math.random().toString(36).slice(2)}`;
  const isLong = view.numRows < sent.numQueries || view.numColumns < sent.numKeys;
  const controls = drawControls(map);
  const section = isLong ? [drawSection(map)] : [];
  const columns = drawSwitch(map, "columns", "read columns: who attends to a key?");
  controls.node.append(columns.node);
  const steps = drawSteps(map, id);
  const grid = drawGrid(map, id, family);
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
 * anywidget's: draws the map into `el`, and returns how to take leave of it.
 * @param {{ model: any, el: HTMLElement }} view
 */
function render({ model, el }) {
  const painter = oncePerFrame(() => drawn.paint());
  const map = createMap(model, painter);
  const family = "system-ui, sans-serif";
  const drawn = drawMap(map, family);
  for (const name of WATCHED) model.on(`change:${name}`, painter.soon);
  // As wide as the page lets it be: nothing is known of that before it is in the page.
  const watcher = new ResizeObserver(([{ contentRect }]) => {
    const sizes = measure(map, contentRect.width || 900, family);
    if (JSON.stringify(sizes) === JSON.stringify(map.view.sizes)) return;
    map.view.sizes = sizes;
    painter.now();
  });
  map.view.sizes = measure(map, el.clientWidth || 900, family);
  painter.now();
  el.append(drawn.node);
  watcher.observe(drawn.node);
  return () => {
    watcher.disconnect();
    painter.stop();
    drawn.stop();
    for (const name of WATCHED) model.off(`change:${name}`, painter.soon);
  };
}

export default { render };
