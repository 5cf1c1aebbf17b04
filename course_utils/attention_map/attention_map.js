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
 * @property {"scores" | "scaled" | "masked" | "weights"} source which numbers of a row
 * @property {number} low the lightest
 * @property {number} high the darkest
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
 * @property {string[]} steps
 * @property {string[]} masks their names
 * @property {number} scale
 * @property {Tensor | null} values
 * @property {Walk} walk
 */

/**
 * What this page alone knows: row `i` of the grid is query `firstQuery + i`, column `j` is key
 * `firstKey + j`.
 * @typedef {object} View
 * @property {number} numRows
 * @property {number} numColumns
 * @property {boolean} dense cells have a colour and no number
 * @property {number} firstQuery the corner of the section on show
 * @property {number} firstKey
 * @property {number} key where the arrow keys or the pointer are
 * @property {number | null} hovered a query under the pointer, for as long as it is there
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
 * @property {(head: number) => Row[]} rowsOf the rows of the section in any head
 * @property {() => Shown} shown the same object until something else is to be shown
 */

const WHOLE = 128; // up to here all tokens are shown,
const SECTION = 64; // beyond it this many at a time
const DIGITS = 24; // up to here a cell has room for its number
const DIMENSIONS = 4; // of a value vector, written out
const SHADES = Array.from({ length: 65 }, (_, k) => `rgba(37, 110, 190, ${(0.7 * k) / 64})`);
const WATCHED = ["layer", "head", "row", "temperature", "step", "overview", "active_masks"];

// ---- arithmetic --------------------------------------------------------------------------------

/**
 * One row; a masked score is −Infinity, and a row of nothing else gets weights of zero.
 * @param {Float64Array} masked
 * @param {number} temperature
 */
export function softmax(masked, temperature) {
  const largest = masked.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = masked.map((s) => (s === -Infinity ? 0 : Math.exp((s - largest) / temperature)));
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
 * @type {(row: Row, source: Shown["source"], key: number) => boolean}
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

/** @type {(row: Row, queryName: string, keyNames: string[]) => string} */
function sentence({ masked, weights }, queryName, keyNames) {
  const total = number(sum(weights), 3);
  const seen = [...keyNames.keys()].filter((key) => masked[key] !== -Infinity);
  if (!seen.length) return `${queryName} sees no key: every weight is 0; the row sums to ${total}`;
  const largest = weights.reduce((a, b) => Math.max(a, b));
  const top = seen.filter((key) => weights[key] >= largest * (1 - 1e-6));
  const share = number(largest, 2);
  let looks = `looks most at ${keyNames[top[0]]} and ${top.length - 1} more (${share} each)`;
  if (seen.length === 1) looks = `looks only at ${keyNames[seen[0]]} (${share})`;
  else if (top.length === seen.length)
    looks = `looks equally at all ${seen.length} keys it sees (${share} each)`;
  else if (top.length === 1) looks = `looks most at ${keyNames[top[0]]} (${share})`;
  else if (top.length <= 3)
    looks = `looks most at ${top.map((key) => keyNames[key]).join(" and ")} (${share} each)`;
  return `${queryName} ${looks}; the row sums to ${total}`;
}

// ---- the row in words, a step each -------------------------------------------------------------

/**
 * What happens, in words, and per key [arithmetic, result], and the same under all of them.
 * @typedef {{ words: string, perKey: string[][], inTotal?: string[] }} Explanation
 * @typedef {{ scale: number, temperature: number, values: Numbers[] | null }} Settings
 * @typedef {(row: Row, queryName: string, settings: Settings) => Explanation} Explain
 */

/** @type {(row: Row, line: (key: number) => string[]) => string[][]} */
const eachKey = (row, line) => Array.from(row.scores, (_, key) => line(key));

/** @type {Explain} */
function explainScores(row, queryName) {
  return {
    words: `How well ${queryName} matches each key: one score a key.`,
    perKey: eachKey(row, (key) => ["score", number(row.scores[key], 3)]),
  };
}

/** @type {Explain} */
function explainScaled(row, _queryName, { scale }) {
  const root = Math.round(1 / scale ** 2);
  const of = root > 1 && Math.abs(scale * Math.sqrt(root) - 1) < 1e-6 ? ` = 1 ÷ √${root}` : "";
  return {
    words: `Each score times the scale ${number(scale, 3)}${of}.`,
    perKey: eachKey(row, (key) => [
      `${number(row.scores[key], 3)} × ${number(scale, 3)}`,
      number(row.scaled[key], 3),
    ]),
  };
}

/** @type {Explain} */
function explainMasked(row, queryName) {
  const count = row.masked.filter((s) => s === -Infinity).length;
  const become = count === 1 ? "1 key becomes" : `${count} keys become`;
  return {
    words: count
      ? `${queryName} may not see everything: the scores of ${become} −∞, all others stay.`
      : `${queryName} may see every key: all scores stay.`,
    perKey: eachKey(row, (key) => [
      isHidden(row, "masked", key) ? "hidden" : "stays",
      number(row.masked[key], 3),
    ]),
  };
}

/** @type {Explain} */
function explainSoftmax(row, queryName, { temperature }) {
  const largest = number(row.largest, 3);
  const less = row.largest < 0 ? `(${largest})` : largest;
  return {
    words: row.total
      ? `Take the largest score, ${largest}, from each` +
        `${temperature === 1 ? "" : `, divide by the temperature, ${temperature}`}, and raise e ` +
        `to that. Then divide by the total of these powers, ${number(row.total, 3)}.`
      : `${queryName} sees no key: there is nothing to share out, and every weight is 0.`,
    perKey: eachKey(row, (key) => {
      if (isHidden(row, "masked", key)) return ["hidden", "0"];
      const difference = `${number(row.masked[key], 3)} − ${less}`;
      const exponent = temperature === 1 ? difference : `(${difference}) ÷ ${temperature}`;
      return [`e^(${exponent}) = ${number(row.powers[key], 3)}`, number(row.weights[key], 3)];
    }),
    inTotal: [number(row.total, 3), number(sum(row.weights), 3)],
  };
}

/** @type {Explain} */
function explainWeightedSum(row, queryName, { values }) {
  const output = new Float64Array(values[0].length);
  row.weights.forEach((weight, key) => values[key].forEach((x, d) => (output[d] += weight * x)));
  return {
    words: `Each key's value times its weight; their sum is what ${queryName} takes away.`,
    perKey: eachKey(row, (key) =>
      isHidden(row, "masked", key)
        ? ["hidden", "0"]
        : [
            `${number(row.weights[key], 2)} × ${vector(values[key])}`,
            vector(values[key].map((x) => x * row.weights[key])),
          ],
    ),
    inTotal: ["", vector(output)],
  };
}

/** @type {Record<string, { explain: Explain, source: Shown["source"] }>} */
const STEPS = {
  scores: { explain: explainScores, source: "scores" },
  scaled: { explain: explainScaled, source: "scaled" },
  masked: { explain: explainMasked, source: "masked" },
  softmax: { explain: explainSoftmax, source: "weights" },
  "weighted sum": { explain: explainWeightedSum, source: "weights" },
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
  /** @type {Walk} */
  function walk(layer, head, query) {
    const raw = scores.at(layer, head, query);
    const scaled = Float64Array.from(raw, (s) => s * scale);
    const masked = scaled.slice();
    for (const { name, mask } of hidden)
      if (model.get("active_masks").includes(name))
        mask.at(layer, head, query).forEach((is, key) => is && (masked[key] = -Infinity));
    return { scores: raw, scaled, masked, ...softmax(masked, model.get("temperature")) };
  }
  return {
    ...{ numLayers, numHeads, numQueries, numKeys, masks, scale, walk },
    queryLabels: data.queries,
    keyLabels: data.keys,
    queryNames: names(data.queries),
    keyNames: names(data.keys),
    steps: data.steps,
    values: data.values && tensor(data.values),
  };
}

/** @type {(sent: Sent) => View} */
function look({ numQueries, numKeys }) {
  const numRows = numQueries > WHOLE ? SECTION : numQueries;
  const numColumns = numKeys > WHOLE ? SECTION : numKeys;
  const dense = numColumns > DIGITS;
  return { numRows, numColumns, dense, firstQuery: 0, firstKey: 0, key: 0, hovered: null };
}

/**
 * The lowest and the highest number on show; of none, Infinity and −Infinity.
 * @type {(rows: Row[], source: Shown["source"], view: View) => { low: number, high: number }}
 */
function range(rows, source, view) {
  if (source === "weights") return { low: 0, high: 1 };
  const finite = rows
    .flatMap((row) => [...inSection(row[source], view)])
    .filter((x) => x !== -Infinity);
  return {
    low: finite.reduce((a, b) => Math.min(a, b), Infinity),
    high: finite.reduce((a, b) => Math.max(a, b), -Infinity),
  };
}

/** @type {(numbers: Numbers, view: View) => Numbers} */
const inSection = (numbers, { firstKey, numColumns }) =>
  numbers.subarray(firstKey, firstKey + numColumns);

/** @type {(model: any, painter: Painter) => AttentionMap} */
function createMap(model, painter) {
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
  const rowsOf = (head) =>
    Array.from({ length: view.numRows }, (_, i) =>
      sent.walk(get("layer"), head, view.firstQuery + i),
    );
  let wanted = "";
  /** @type {Shown} */
  let last;
  const shown = () => {
    const settings = ["layer", "head", "temperature", "step", "active_masks"].map(get);
    const now = JSON.stringify([...settings, view.firstQuery, view.firstKey]);
    if (now === wanted) return last;
    wanted = now;
    const rows = rowsOf(get("head"));
    const { source } = STEPS[get("step")];
    last = { rows, source, ...range(rows, source, view) };
    return last;
  };
  return { sent, view, get, set, painter, rowsOf, shown };
}

/**
 * The query to tell about, and its row.
 * @param {AttentionMap} map
 */
function told({ view, get, shown }) {
  const query = view.hovered ?? get("row");
  return { query, row: shown().rows[query - view.firstQuery] };
}

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

/** For a canvas, which has no style sheet: the hatching of hidden cells. */
const HATCH = create("canvas", { width: 8, height: 8 });
brushOf(HATCH).strokeStyle = "rgba(128, 128, 128, 0.8)";
for (const x of [-8, 0, 8]) {
  brushOf(HATCH).moveTo(x, 8);
  brushOf(HATCH).lineTo(x + 8, 0);
}
brushOf(HATCH).stroke();

/**
 * Touches the page only where the text is another one: a repaint costs what has changed.
 * @type {(node: Element, text: string) => void}
 */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
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
  const options = Array.from({ length: size }, (_, k) => create("option", { value: k }, `${k}`));
  const select = create("select", {}, ...options);
  select.onchange = () => map.set({ [name]: Number(select.value) });
  const paint = () => (select.value = map.get(name));
  return { node: labelled(`${name} `, select), paint };
}

/** @type {Draw} */
function drawOverviewButton(map) {
  const node = create("button", { type: "button" }, "all heads");
  node.onclick = () => map.set({ overview: !map.get("overview") });
  const paint = () => node.setAttribute("aria-pressed", map.get("overview"));
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

/** @type {Draw} */
function drawControls(map) {
  const { numLayers, numHeads, masks } = map.sent;
  const parts = [
    ...(numLayers > 1 ? [drawPicker(map, "layer", numLayers)] : []),
    ...(numHeads > 1 ? [drawPicker(map, "head", numHeads), drawOverviewButton(map)] : []),
    drawTemperature(map),
    ...masks.map((name) => drawMaskSwitch(map, name)),
  ];
  const node = create("div", { className: "controls" }, ...parts.map((part) => part.node));
  return { node, paint: () => parts.forEach((part) => part.paint()) };
}

/** @type {(map: AttentionMap, id: string) => Part} */
function drawSteps(map, id) {
  const radios = map.sent.steps.map((step) => {
    const radio = create("input", { type: "radio", name: `${id}-step`, value: step });
    radio.onchange = () => map.set({ step });
    return radio;
  });
  const node = create(
    "fieldset",
    { className: "steps" },
    create("legend", {}, "step"),
    ...radios.map((radio) => labelled(radio, ` ${radio.value}`)),
  );
  const paint = () => {
    for (const radio of radios) radio.checked = map.get("step") === radio.value;
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

// ---- the grid ----------------------------------------------------------------------------------

/**
 * @typedef {{ node: HTMLElement, label: HTMLElement, cells: HTMLElement[] }} Line
 * @typedef {ReturnType<typeof drawGrid>} Grid
 * @param {AttentionMap} map
 * @param {string} id
 */
function drawTable({ sent, view: { numRows, numColumns, dense } }, id) {
  const upright = !dense && sent.keyLabels.every((label) => [...label].length <= 6);
  const headings = Array.from({ length: numColumns }, () => create("th", { scope: "col" }));
  /** @type {Line[]} */
  const lines = Array.from({ length: numRows }, (_, i) => {
    const label = create("th", { scope: "row" });
    const cells = headings.map((_, j) => create("td", { id: `${id}-${i}-${j}` }));
    return { node: create("tr", {}, label, ...cells), label, cells };
  });
  const table = create(
    "table",
    {
      role: "grid",
      tabIndex: 0,
      className: `${dense ? "dense" : "digits"} ${upright ? "" : "vertical"}`,
      "aria-label": "attention map: rows are queries, columns are keys; arrow keys choose",
    },
    create("thead", {}, create("tr", {}, create("th", { scope: "col" }, "query"), ...headings)),
    create("tbody", {}, ...lines.map(({ node }) => node)),
  );
  return { table, headings, lines };
}

/**
 * Thousands of cells are coloured by one picture under them, a pixel a cell: see .dense.
 * @param {View} view
 */
function drawPicture({ numRows, numColumns }) {
  const size = { width: numColumns, height: numRows };
  const picture = create("canvas", { ...size, "aria-hidden": "true" });
  picture.style.cssText = `width: ${11 * numColumns}px; height: ${11 * numRows}px`;
  return picture;
}

/**
 * @param {AttentionMap} map
 * @param {Line[]} lines
 * @param {CanvasRenderingContext2D | null} brush of the picture under dense cells
 */
function cellPainter({ view }, lines, brush) {
  // Of each cell, −1 for hatching and −2 before the first painting: most stay as they are.
  const shades = lines.map(() => new Int8Array(view.numColumns).fill(-2));
  /** @param {Shown} shown */
  return ({ rows, source, low, high }) => {
    /** @param {number} x */
    const strength = (x) => (source === "weights" ? Math.sqrt(x) : (x - low) / (high - low || 1));
    brush?.clearRect(0, 0, view.numColumns, view.numRows);
    rows.forEach((row, i) => {
      const { cells } = lines[i];
      inSection(row[source], view).forEach((x, j) => {
        const masked = isHidden(row, source, view.firstKey + j);
        const shade = masked ? -1 : Math.round(64 * strength(x));
        const before = shades[i][j];
        shades[i][j] = shade;
        if (masked !== (before === -1)) cells[j].classList.toggle("masked", masked);
        if (brush) {
          brush.fillStyle = SHADES[shade] ?? "transparent";
          brush.fillRect(j, i, 1, 1);
        } else {
          if (shade !== before) cells[j].style.backgroundColor = SHADES[shade] ?? "";
          write(cells[j], masked && source === "weights" ? "0" : number(x, 2));
        }
      });
    });
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
 * @param {AttentionMap} map
 * @param {string} id
 */
function drawGrid(map, id) {
  const { sent, view } = map;
  const { table, headings, lines } = drawTable(map, id);
  const picture = view.dense ? drawPicture(view) : null;
  const plate = create("div", { className: "plate" }, ...(picture ? [picture] : []), table);
  const paintCells = cellPainter(map, lines, picture && brushOf(picture));
  const cellNames = cellNamer(map, lines);
  /** @type {Shown} so that choosing a row need not paint all cells again */
  let painted;

  function paintShown() {
    if (painted === map.shown()) return;
    painted = map.shown();
    headings.forEach((cell, j) => write(cell, sent.keyLabels[view.firstKey + j]));
    lines.forEach(({ label }, i) => write(label, sent.queryLabels[view.firstQuery + i]));
    paintCells(painted);
    cellNames.paint();
  }
  /** The cell where the arrow keys are, if its key is in the section. */
  const current = () => lines[map.get("row") - view.firstQuery].cells[view.key - view.firstKey];
  function paintChoice() {
    lines.forEach(({ node }, i) => {
      node.setAttribute("aria-selected", `${view.firstQuery + i === map.get("row")}`);
      node.classList.toggle("hovered", view.firstQuery + i === view.hovered);
    });
    table.querySelector("td.at")?.classList.remove("at");
    current()?.classList.add("at");
    if (current()) table.setAttribute("aria-activedescendant", current().id);
    else table.removeAttribute("aria-activedescendant");
  }
  const paint = () => {
    paintShown();
    paintChoice();
  };
  const node = create("div", { className: "scroll" }, plate);
  return { node, table, lines, current, paint, stop: cellNames.stop };
}

/** @type {Draw} */
function drawLegend(map) {
  const ends = create("span");
  const node = create("p", { className: "legend" }, create("span", { className: "ramp" }), ends);
  if (map.sent.steps.includes("masked"))
    node.append(create("span", { className: "swatch masked" }), "hidden");
  function paint() {
    const { source, low, high } = map.shown();
    const digits = source === "weights" ? 0 : 2;
    write(ends, low > high ? "" : `${number(low, digits)} to ${number(high, digits)}`);
  }
  return { node, paint };
}

// ---- the chosen row ----------------------------------------------------------------------------

/** @type {Draw} */
function drawSentence(map) {
  const { queryNames, keyNames } = map.sent;
  const node = create("p", { className: "sentence", "aria-live": "polite", "aria-atomic": "true" });
  const paint = () => {
    const { query, row } = told(map);
    write(node, sentence(row, queryNames[query], keyNames));
  };
  return { node, paint };
}

/** A heading and two cells: a key, its arithmetic and its result. */
function drawNumbersLine() {
  const cells = [create("th"), create("td"), create("td")];
  cells[0].scope = "row";
  return { cells, node: create("tr", {}, ...cells) };
}

/**
 * The row in words and numbers; `isPointed` tells whether a key is being pointed at in the grid.
 * @param {AttentionMap} map
 * @param {() => boolean} isPointed
 * @returns {Part}
 */
function drawNumbers(map, isPointed) {
  const { sent, view, get } = map;
  const words = create("p", { className: "words" });
  const lines = Array.from({ length: view.numColumns }, drawNumbersLine);
  const foot = drawNumbersLine();
  foot.cells[0].append("total");
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
  const values = () =>
    sent.values && sent.keyNames.map((_, key) => sent.values.at(get("layer"), get("head"), key));
  function paint() {
    const { query, row } = told(map);
    const explained = STEPS[get("step")].explain(row, sent.queryNames[query], {
      scale: sent.scale,
      temperature: roundedTemperature(map),
      values: values(),
    });
    const pointed = isPointed();
    write(words, explained.words);
    lines.forEach(({ cells, node }, j) => {
      const key = view.firstKey + j;
      const texts = [sent.keyLabels[key], ...explained.perKey[key]];
      texts.forEach((text, k) => write(cells[k], text));
      node.classList.toggle("at", key === view.key && pointed);
    });
    foot.node.hidden = !explained.inTotal;
    explained.inTotal?.forEach((text, k) => write(foot.cells[k + 1], text));
  }
  return { node: create("div", { className: "row" }, words, numbers), paint };
}

// ---- all heads ---------------------------------------------------------------------------------

/** @type {(map: AttentionMap, head: number, open: (head: number) => void) => Part} */
function drawThumbnail(map, head, open) {
  const { sent, view } = map;
  // a cell's pixels: two a dot of the screen
  const dot = Math.ceil(400 / Math.max(view.numRows, view.numColumns));
  const size = { width: view.numColumns * dot, height: view.numRows * dot };
  const canvas = create("canvas", { ...size, "aria-hidden": "true" });
  const caption = create("small");
  const title = create("span", {}, `head ${head}`);
  const button = { type: "button", onclick: () => open(head) };
  function paint() {
    const rows = map.rowsOf(head);
    const brush = brushOf(canvas);
    brush.clearRect(0, 0, canvas.width, canvas.height);
    const hatching = brush.createPattern(HATCH, "repeat");
    rows.forEach((row, i) =>
      inSection(row.weights, view).forEach((weight, j) => {
        const masked = isHidden(row, "weights", view.firstKey + j);
        brush.fillStyle = masked ? hatching : SHADES[Math.round(64 * Math.sqrt(weight))];
        brush.fillRect(j * dot, i * dot, dot, dot);
      }),
    );
    const chosen = map.get("row");
    const row = rows[chosen - view.firstQuery];
    write(caption, sentence(row, sent.queryNames[chosen], sent.keyNames));
  }
  return { node: create("button", button, title, canvas, caption), paint };
}

/** @type {(map: AttentionMap, open: (head: number) => void) => Part} */
function drawOverview(map, open) {
  const { numHeads } = map.sent;
  const thumbnails = Array.from({ length: numHeads > 1 ? numHeads : 0 }, (_, head) =>
    drawThumbnail(map, head, open),
  );
  const node = create(
    "div",
    { className: "overview", role: "group", "aria-label": "all heads; choose one to open it" },
    ...thumbnails.map((thumbnail) => thumbnail.node),
  );
  return { node, paint: () => thumbnails.forEach((thumbnail) => thumbnail.paint()) };
}

// ---- pointer and keys --------------------------------------------------------------------------

/**
 * Hovering tells about a row, a click chooses it.
 * @type {(map: AttentionMap, grid: Grid) => void}
 */
function listenToPointer({ view, set, painter }, { table, lines }) {
  /** @param {any} event */
  const under = ({ target }) => {
    const cell = target.closest("td, th[scope=row]");
    const i = lines.findIndex(({ node }) => node === cell?.parentNode);
    return i < 0 ? null : { query: view.firstQuery + i, key: view.firstKey + cell.cellIndex - 1 };
  };
  table.addEventListener("pointermove", (event) => {
    const at = under(event);
    if (!at || (at.query === view.hovered && at.key === view.key)) return;
    view.hovered = at.query;
    if (at.key >= view.firstKey) view.key = at.key;
    painter.soon();
  });
  table.addEventListener("pointerleave", () => {
    view.hovered = null;
    painter.soon();
  });
  table.addEventListener("click", (event) => {
    const at = under(event);
    if (at) set({ row: at.query });
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

/** @param {AttentionMap} map */
function drawMap(map) {
  const { sent, view, get } = map;
  const id = `attention-map-${Math.random().toString(36).slice(2)}`;
  const isLong = view.numRows < sent.numQueries || view.numColumns < sent.numKeys;
  const controls = drawControls(map);
  const section = isLong ? [drawSection(map)] : [];
  const steps = drawSteps(map, id);
  const grid = drawGrid(map, id);
  const legend = drawLegend(map);
  const live = drawSentence(map);
  const numbers = drawNumbers(map, () => view.hovered !== null || grid.table.matches(":focus"));
  const overview = drawOverview(map, (head) => {
    map.set({ head, overview: false });
    map.painter.now();
    grid.table.focus();
  });
  const one = create(
    "div",
    {},
    steps.node,
    create(
      "div",
      { className: "body" },
      create("div", { className: "map" }, grid.node, legend.node, live.node),
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
  shield(node);

  function paint() {
    showChosen(map);
    one.hidden = get("overview");
    overview.node.hidden = !get("overview");
    const visible = get("overview") ? [overview] : [grid, legend, numbers, live];
    for (const part of [controls, ...section, steps, ...visible]) part.paint();
  }
  return { node, paint, stop: grid.stop };
}

/**
 * anywidget's: draws the map into `el`, and returns how to take leave of it.
 * @param {{ model: any, el: HTMLElement }} view
 */
function render({ model, el }) {
  const painter = oncePerFrame(() => drawn.paint());
  const drawn = drawMap(createMap(model, painter));
  for (const name of WATCHED) model.on(`change:${name}`, painter.soon);
  painter.now();
  el.append(drawn.node);
  return () => {
    painter.stop();
    drawn.stop();
    for (const name of WATCHED) model.off(`change:${name}`, painter.soon);
  };
}

export default { render };
