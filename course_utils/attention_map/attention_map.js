// The page's half of `attention_map`: scores come in once, weights are computed and painted here,
// so that a slider answers within a frame. The wording of `sentence` is that of static.py.

const WHOLE = 128; // up to here all tokens are shown,
const PART = 64; // beyond it this many at a time
const DIGITS = 24; // up to here a cell has room for its number
const DIMENSIONS = 4; // of a value vector, written out
const SHADES = Array.from({ length: 65 }, (_, k) => `rgba(37, 110, 190, ${(0.7 * k) / 64})`);
const WEIGHTS = ["softmax", "weighted sum"]; // the steps whose cells are weights

// ---- arithmetic --------------------------------------------------------------------------------

/** One row; a masked score is −Infinity, and a row of nothing else gets weights of zero. */
export function softmax(masked, temperature) {
  const largest = masked.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = masked.map((s) => (s === -Infinity ? 0 : Math.exp((s - largest) / temperature)));
  const total = powers.reduce((a, b) => a + b, 0);
  return { largest, powers, total, weights: powers.map((p) => (total ? p / total : 0)) };
}

export function number(x, digits) {
  if (x === -Infinity) return "−∞";
  const text = Math.abs(x) >= 1e5 ? x.toExponential(1) : x.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** Labels in quotes; one that occurs more than once also gets its position. */
function names(labels) {
  const count = new Map();
  for (const label of labels) count.set(label, (count.get(label) ?? 0) + 1);
  return labels.map((label, i) => (count.get(label) > 1 ? `“${label}” at ${i}` : `“${label}”`));
}

function sentence({ masked, weights }, query, keys) {
  const total = number(weights.reduce((a, b) => a + b, 0), 3);
  const seen = [...keys.keys()].filter((j) => masked[j] !== -Infinity);
  if (!seen.length) return `${query} sees no key: every weight is 0; the row sums to ${total}`;
  const largest = weights.reduce((a, b) => Math.max(a, b));
  const top = seen.filter((j) => weights[j] >= largest * (1 - 1e-6));
  const share = number(largest, 2);
  let looks = `looks most at ${keys[top[0]]} and ${top.length - 1} more (${share} each)`;
  if (seen.length === 1) looks = `looks only at ${keys[seen[0]]} (${share})`;
  else if (top.length === seen.length)
    looks = `looks equally at all ${seen.length} keys it sees (${share} each)`;
  else if (top.length === 1) looks = `looks most at ${keys[top[0]]} (${share})`;
  else if (top.length <= 3)
    looks = `looks most at ${top.map((j) => keys[j]).join(" and ")} (${share} each)`;
  return `${query} ${looks}; the row sums to ${total}`;
}

/** A tensor from Python, (layers, heads, rows, columns); a size of 1 repeats. */
function tensor({ shape, dtype, bytes }) {
  const type = { float32: Float32Array, float64: Float64Array, bool: Uint8Array }[dtype];
  const flat = new type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const [layers, heads, rows, columns] = shape;
  const row = (layer, head, i) => {
    const start = (((layer % layers) * heads + (head % heads)) * rows + (i % rows)) * columns;
    return flat.subarray(start, start + columns);
  };
  return { shape, row };
}

// ---- the row in words --------------------------------------------------------------------------

function vector(numbers) {
  const shown = Array.from(numbers.slice(0, DIMENSIONS), (x) => number(x, 2));
  return `[${shown.join(", ")}${numbers.length > DIMENSIONS ? ", …" : ""}]`;
}

/** For one step: what happens, in words, and per key [arithmetic, result], and what is under it. */
function explain(step, row, query, { scale, temperature, values }) {
  const each = (line) => Array.from(row.scores, (_, j) => line(j));
  const hidden = (j) => row.masked[j] === -Infinity;
  const sum = number(row.weights.reduce((a, b) => a + b, 0), 3);
  const tempered = temperature === 1 ? "" : ` ÷ ${temperature}`;
  if (step === "scores")
    return {
      words: `How well ${query} matches each key: one score a key.`,
      lines: each((j) => ["score", number(row.scores[j], 3)]),
    };
  if (step === "scaled") {
    const root = Math.round(1 / scale ** 2);
    const of = root > 1 && Math.abs(scale * Math.sqrt(root) - 1) < 1e-6 ? ` = 1 ÷ √${root}` : "";
    return {
      words: `Each score times the scale ${number(scale, 3)}${of}.`,
      lines: each((j) => [
        `${number(row.scores[j], 3)} × ${number(scale, 3)}`,
        number(row.scaled[j], 3),
      ]),
    };
  }
  if (step === "masked") {
    const count = row.masked.filter((s) => s === -Infinity).length;
    const become = count === 1 ? "1 key becomes" : `${count} keys become`;
    return {
      words: count
        ? `${query} may not see everything: the scores of ${become} −∞, all others stay.`
        : `${query} may see every key: all scores stay.`,
      lines: each((j) => [hidden(j) ? "hidden" : "stays", number(row.masked[j], 3)]),
    };
  }
  if (step === "softmax")
    return {
      words: row.total
        ? `Take the largest score, ${number(row.largest, 3)}, from each` +
          `${temperature === 1 ? "" : `, divide by the temperature, ${temperature}`}, and raise e ` +
          `to that. Then divide by the total of these powers, ${number(row.total, 3)}.`
        : `${query} sees no key: there is nothing to share out, and every weight is 0.`,
      lines: each((j) => {
        if (hidden(j)) return ["hidden", "0"];
        const largest = number(row.largest, 3);
        const less = `${number(row.masked[j], 3)} − ${row.largest < 0 ? `(${largest})` : largest}`;
        const power = tempered ? `e^((${less})${tempered})` : `e^(${less})`;
        return [`${power} = ${number(row.powers[j], 3)}`, number(row.weights[j], 3)];
      }),
      foot: [number(row.total, 3), sum],
    };
  const output = new Float64Array(values[0].length);
  row.weights.forEach((weight, j) => values[j].forEach((x, d) => (output[d] += weight * x)));
  return {
    words: `Each key's value times its weight; their sum is what ${query} takes away.`,
    lines: each((j) =>
      hidden(j)
        ? ["hidden", "0"]
        : [
            `${number(row.weights[j], 2)} × ${vector(values[j])}`,
            vector(values[j].map((x) => x * row.weights[j])),
          ],
    ),
    foot: ["", vector(output)],
  };
}

// ---- the page ----------------------------------------------------------------------------------

function create(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** For a canvas, which has no style sheet: the hatching of hidden cells. */
const HATCH = create("canvas", { width: 8, height: 8 });
HATCH.getContext("2d").strokeStyle = "rgba(128, 128, 128, 0.8)";
for (const x of [-8, 0, 8]) {
  HATCH.getContext("2d").moveTo(x, 8);
  HATCH.getContext("2d").lineTo(x + 8, 0);
}
HATCH.getContext("2d").stroke();

/** Touches the page only where the text is another one: a repaint costs what has changed. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function render({ model, el }) {
  const data = model.get("_data");
  const scores = tensor(data.scores);
  const [LAYERS, HEADS, T, S] = scores.shape;
  const masks = Object.entries(data.masks).map(([name, mask]) => [name, tensor(mask)]);
  const values = data.values && tensor(data.values);
  const queries = names(data.queries);
  const keys = names(data.keys);
  const id = `attention-map-${Math.random().toString(36).slice(2)}`;

  const rows = T > WHOLE ? PART : T;
  const columns = S > WHOLE ? PART : S;
  const dense = columns > DIGITS;
  const first = { query: 0, key: 0 }; // the corner of the part on show
  let column = 0; // the key the arrow keys or the pointer are at
  let hovered = null; // a query under the pointer, shown for as long as it is there

  const get = (name) => model.get(name);
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    paint();
    model.save_changes();
  };

  /** What a row goes through, from its scores to its weights. */
  function walk(layer, head, i) {
    const raw = scores.row(layer, head, i);
    const scaled = Float64Array.from(raw, (s) => s * (data.scale ?? 1));
    const masked = scaled.slice();
    for (const [name, mask] of masks)
      if (get("active_masks").includes(name))
        mask.row(layer, head, i).forEach((is, j) => is && (masked[j] = -Infinity));
    return { scores: raw, scaled, masked, ...softmax(masked, get("temperature")) };
  }
  const part = (head) =>
    Array.from({ length: rows }, (_, i) => walk(get("layer"), head, first.query + i));

  // -- controls --
  const picker = (name, size) =>
    create(
      "select",
      { onchange: (event) => set({ [name]: Number(event.target.value) }) },
      ...Array.from({ length: size }, (_, k) => create("option", { value: k }, `${k}`)),
    );
  const layerPicker = picker("layer", LAYERS);
  const headPicker = picker("head", HEADS);
  const overviewButton = create(
    "button",
    { type: "button", onclick: () => set({ overview: !get("overview") }) },
    "all heads",
  );
  const slider = create("input", { type: "range", min: -1, max: 1, step: 0.01 });
  slider.oninput = () => set({ temperature: Number((10 ** slider.value).toPrecision(3)) });
  const reading = create("output");
  const reset = create(
    "button",
    { type: "button", onclick: () => set({ temperature: 1 }), "aria-label": "reset temperature" },
    "reset",
  );
  const switches = masks.map(([name]) => {
    const box = create("input", { type: "checkbox", name });
    box.onchange = () =>
      set({ active_masks: switches.filter((s) => s.box.checked).map((s) => s.name) });
    return { name, box };
  });
  const labelled = (text, ...controls) => create("label", {}, text, ...controls);
  const controls = create("div", { className: "controls" });
  if (LAYERS > 1) controls.append(labelled("layer ", layerPicker));
  if (HEADS > 1) controls.append(labelled("head ", headPicker), overviewButton);
  controls.append(create("span", {}, labelled("temperature ", slider), " ", reading, " ", reset));
  for (const { name, box } of switches)
    controls.append(labelled(box, name === "hidden" ? " mask" : ` ${name} mask`));

  const steps = data.steps.map((step) => {
    const radio = create("input", { type: "radio", name: `${id}-step`, value: step });
    radio.onchange = () => set({ step });
    return { step, radio };
  });
  const stepChooser = create(
    "fieldset",
    { className: "steps" },
    create("legend", {}, "step"),
    ...steps.map(({ step, radio }) => create("label", {}, radio, ` ${step}`)),
  );

  // -- a part of a long map --
  const corner = (name, total, shown) => {
    const input = create("input", { type: "number", min: 0, max: total - shown, step: 8 });
    input.onchange = () => {
      first[name] = Math.min(Math.max(Math.round(input.value) || 0, 0), total - shown);
      input.value = first[name];
      if (name === "query" && outside(get("row"), first.query, rows)) set({ row: first.query });
      else paint();
    };
    return input;
  };
  const firstQuery = corner("query", T, rows);
  const firstKey = corner("key", S, columns);
  const partMessage = create("p", { className: "part" });
  if (rows < T || columns < S) {
    partMessage.append(
      `${T} queries × ${S} keys are too many to show at once (up to ${WHOLE} are). ` +
        `Here are ${rows} × ${columns}; weights are over all keys. `,
    );
    if (rows < T) partMessage.append(labelled("from query ", firstQuery), " ");
    if (columns < S) partMessage.append(labelled("from key ", firstKey));
  }

  // -- the grid --
  const upright = !dense && data.keys.every((label) => [...label].length <= 6);
  const head = Array.from({ length: columns }, () => create("th", { scope: "col" }));
  const lines = Array.from({ length: rows }, (_, i) => {
    const label = create("th", { scope: "row" });
    const cells = Array.from({ length: columns }, (_, j) => create("td", { id: `${id}-${i}-${j}` }));
    return { label, cells, line: create("tr", {}, label, ...cells) };
  });
  const grid = create(
    "table",
    {
      role: "grid",
      tabIndex: 0,
      className: `${dense ? "dense" : "digits"} ${upright ? "" : "vertical"}`,
      "aria-label": "attention map: rows are queries, columns are keys; arrow keys choose",
    },
    create("thead", {}, create("tr", {}, create("th", { scope: "col" }, "query"), ...head)),
    create("tbody", {}, ...lines.map(({ line }) => line)),
  );
  const legend = create(
    "p",
    { className: "legend" },
    create("span", { className: "ramp" }),
    create("span"),
  );
  if (data.steps.includes("masked"))
    legend.append(create("span", { className: "swatch masked" }), "hidden");
  // Thousands of cells are coloured by one picture under them, a pixel a cell: see .dense.
  const picture = create("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  picture.style.cssText = `width: ${11 * columns}px; height: ${11 * rows}px`;
  const plate = create("div", { className: "plate" }, ...(dense ? [picture, grid] : [grid]));
  const scroll = create("div", { className: "scroll" }, plate);

  // -- the chosen row in numbers --
  const words = create("p", { className: "words" });
  const arithmetic = head.map((_, j) => {
    const cells = ["th", "td", "td"].map((tag) => create(tag));
    cells[0].scope = "row";
    return { cells, line: create("tr", {}, ...cells) };
  });
  const foot = ["th", "td", "td"].map((tag) => create(tag));
  foot[0].append("total");
  foot[0].scope = "row";
  const footLine = create("tr", {}, ...foot);
  const numbers = create(
    "div",
    { className: "scroll", tabIndex: 0, role: "region", "aria-label": "the row's numbers" },
    create(
      "table",
      {},
      create("tbody", {}, ...arithmetic.map(({ line }) => line)),
      create("tfoot", {}, footLine),
    ),
  );
  const live = create("p", { className: "sentence", "aria-live": "polite", "aria-atomic": "true" });

  // -- all heads --
  const dot = Math.ceil(400 / Math.max(rows, columns)); // a cell's pixels: two a dot of the screen
  const thumbnails = Array.from({ length: HEADS > 1 ? HEADS : 0 }, (_, k) => {
    const size = { width: columns * dot, height: rows * dot };
    const canvas = create("canvas", { ...size, "aria-hidden": "true" });
    const caption = create("small");
    const open = () => {
      set({ head: k, overview: false });
      paint.now();
      grid.focus();
    };
    const title = create("span", {}, `head ${k}`);
    return {
      canvas,
      caption,
      button: create("button", { type: "button", onclick: open }, title, canvas, caption),
    };
  });
  const overview = create(
    "div",
    { className: "overview", role: "group", "aria-label": "all heads; choose one to open it" },
    ...thumbnails.map(({ button }) => button),
  );

  const one = create(
    "div",
    {},
    stepChooser,
    create(
      "div",
      { className: "body" },
      create("div", { className: "map" }, scroll, legend, live),
      create("div", { className: "row" }, words, numbers),
    ),
  );
  const root = create(
    "div",
    { className: "attention-map", role: "group", "aria-label": "attention map" },
    controls,
    ...(partMessage.childNodes.length ? [partMessage] : []),
    one,
    overview,
  );

  // -- painting: the nodes above stay, their contents change, so focus and scrolling are kept --
  function paintControls() {
    layerPicker.value = get("layer");
    headPicker.value = get("head");
    overviewButton.setAttribute("aria-pressed", get("overview"));
    const temperature = Number(get("temperature").toPrecision(3));
    // While it is dragged, the slider stays where the hand is.
    if (Number((10 ** slider.value).toPrecision(3)) !== temperature)
      slider.value = Math.log10(temperature);
    slider.setAttribute("aria-valuetext", temperature);
    write(reading, `${temperature}`);
    for (const { name, box } of switches) box.checked = get("active_masks").includes(name);
    for (const { step, radio } of steps) radio.checked = get("step") === step;
    // What is being typed stays.
    if (!firstQuery.matches(":focus")) firstQuery.value = first.query;
    if (!firstKey.matches(":focus")) firstKey.value = first.key;
    one.hidden = get("overview");
    overview.hidden = !get("overview");
  }

  let painted = ""; // what the grid shows, so that choosing a row need not paint it again
  let map = [];
  const shades = lines.map(() => []); // of each cell, −1 for hatching: most stay as they are
  let settling = 0;
  function paintGrid() {
    const step = get("step");
    const settings = ["layer", "head", "temperature", "step", "active_masks"].map(get);
    const wanted = JSON.stringify([...settings, first]);
    if (wanted === painted) return;
    painted = wanted;
    map = part(get("head"));
    const source = WEIGHTS.includes(step) ? "weights" : step;
    const onShow = (row) => row[source].subarray(first.key, first.key + columns);
    let [low, high] = [0, 1];
    if (source !== "weights") {
      const finite = map.flatMap((row) => [...onShow(row)]).filter((x) => x !== -Infinity);
      low = finite.reduce((a, b) => Math.min(a, b), Infinity);
      high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    }
    const share = (x) => (source === "weights" ? Math.sqrt(x) : (x - low) / (high - low || 1));
    const brush = dense && picture.getContext("2d");
    if (dense) brush.clearRect(0, 0, columns, rows);
    head.forEach((cell, j) => write(cell, data.keys[first.key + j]));
    map.forEach((row, i) => {
      const { label, cells } = lines[i];
      write(label, data.queries[first.query + i]);
      onShow(row).forEach((x, j) => {
        const masked = isHidden(row, source, first.key + j);
        const shade = masked ? -1 : Math.round(64 * share(x));
        if (shades[i][j] !== shade) {
          if (masked !== (shades[i][j] === -1)) cells[j].classList.toggle("masked", masked);
          if (!dense) cells[j].style.backgroundColor = SHADES[shade] ?? "";
          shades[i][j] = shade;
        }
        if (!dense) return write(cells[j], masked && source === "weights" ? "0" : number(x, 2));
        brush.fillStyle = SHADES[shade] ?? "transparent";
        brush.fillRect(j, i, 1, 1);
      });
    });
    const places = source === "weights" ? 0 : 2;
    const ends = low > high ? "" : `${number(low, places)} to ${number(high, places)}`;
    write(legend.children[1], ends);
    // Thousands of labels would cost a frame: they follow when the slider rests.
    clearTimeout(settling);
    if (rows * columns <= 1024) label();
    else settling = setTimeout(label, 100);

    function label() {
      map.forEach((row, i) =>
        onShow(row).forEach((x, j) => {
          const what = isHidden(row, source, first.key + j) ? "hidden" : number(x, 3);
          const name = `${queries[first.query + i]} to ${keys[first.key + j]}: ${what}`;
          lines[i].cells[j].setAttribute("aria-label", name);
        }),
      );
    }
  }

  function paintRow() {
    const chosen = hovered ?? get("row");
    const pointing = hovered !== null || grid.matches(":focus");
    lines.forEach(({ line }, i) => {
      line.setAttribute("aria-selected", first.query + i === get("row"));
      line.classList.toggle("hovered", first.query + i === hovered);
    });
    grid.querySelector("td.at")?.classList.remove("at");
    const at = lines[get("row") - first.query].cells[column - first.key];
    at?.classList.add("at");
    if (at) grid.setAttribute("aria-activedescendant", at.id);
    else grid.removeAttribute("aria-activedescendant");
    const row = map[chosen - first.query];
    const { words: text, lines: each, foot: under } = explain(get("step"), row, queries[chosen], {
      scale: data.scale ?? 1,
      temperature: Number(get("temperature").toPrecision(3)),
      values: values && keys.map((_, j) => values.row(get("layer"), get("head"), j)),
    });
    write(words, text);
    arithmetic.forEach(({ cells, line }, j) => {
      const key = first.key + j;
      write(cells[0], data.keys[key]);
      write(cells[1], each[key][0]);
      write(cells[2], each[key][1]);
      line.classList.toggle("at", key === column && pointing);
    });
    footLine.hidden = !under;
    (under ?? []).forEach((text, k) => write(foot[k + 1], text));
    write(live, sentence(row, queries[chosen], keys));
  }

  function paintOverview() {
    thumbnails.forEach(({ canvas, caption }, k) => {
      const heads = part(k);
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, canvas.width, canvas.height);
      const hatching = context.createPattern(HATCH, "repeat");
      heads.forEach((row, i) => {
        for (let j = 0; j < columns; j++) {
          const masked = row.masked[first.key + j] === -Infinity;
          const shade = SHADES[Math.round(64 * Math.sqrt(row.weights[first.key + j]))];
          context.fillStyle = masked ? hatching : shade;
          context.fillRect(j * dot, i * dot, dot, dot);
        }
      });
      const row = heads[get("row") - first.query];
      write(caption, sentence(row, queries[get("row")], keys));
    });
  }

  /** At most once a frame, whatever has changed since the last one. */
  let frame = 0;
  function paint() {
    frame ||= requestAnimationFrame(paint.now);
  }
  paint.now = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    if (outside(get("row"), first.query, rows))
      first.query = Math.min(Math.max(get("row") - (rows >> 1), 0), T - rows);
    if (hovered !== null && outside(hovered, first.query, rows)) hovered = null;
    paintControls();
    if (get("overview")) return paintOverview();
    paintGrid();
    paintRow();
  };

  // -- pointer and keys --
  const place = (event) => {
    const cell = event.target.closest("td, th[scope=row]");
    const i = lines.findIndex(({ line }) => line === cell?.parentNode);
    return i < 0 ? null : { row: first.query + i, column: first.key + cell.cellIndex - 1 };
  };
  grid.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (!at || (at.row === hovered && at.column === column)) return;
    hovered = at.row;
    if (at.column >= first.key) column = at.column;
    paint();
  });
  grid.addEventListener("pointerleave", () => {
    hovered = null;
    paint();
  });
  for (const type of ["focus", "blur"]) grid.addEventListener(type, () => paint());
  grid.addEventListener("click", (event) => {
    const at = place(event);
    if (at) set({ row: at.row });
  });
  grid.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey } = event;
    const row = get("row");
    const next = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, S - 1],
    }[key];
    if (!next || ctrlKey || metaKey || altKey) return;
    event.preventDefault();
    hovered = null;
    column = Math.min(Math.max(next[1], 0), S - 1);
    if (outside(column, first.key, columns))
      first.key = column < first.key ? column : column - columns + 1;
    const to = Math.min(Math.max(next[0], 0), T - 1);
    if (outside(to, first.query, rows)) first.query = to < first.query ? to : to - rows + 1;
    set({ row: to });
    const cell = lines[to - first.query].cells[column - first.key];
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  // JupyterLab listens before the page does and looks for its attribute on the focused node: without
  // it "b" would insert a cell. Ctrl and ⌘ stay with JupyterLab, or Ctrl+S would no longer save.
  const shield = (event) => {
    const command = event.ctrlKey || event.metaKey;
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !command);
    if (!command && event.type !== "focusin") event.stopPropagation();
  };
  for (const type of ["keydown", "keyup", "focusin"]) root.addEventListener(type, shield);

  const watched = ["layer", "head", "row", "temperature", "step", "overview", "active_masks"];
  for (const name of watched) model.on(`change:${name}`, paint);
  paint.now();
  el.append(root);
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(settling);
    for (const name of watched) model.off(`change:${name}`, paint);
  };
}

const outside = (i, start, size) => i < start || i >= start + size;

/** Weights hide where the mask does; scores before the mask, where they came as −Infinity. */
const isHidden = (row, source, j) =>
  (source === "weights" ? row.masked : row[source])[j] === -Infinity;

export default { render };
