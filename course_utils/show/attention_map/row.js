// The legend, and the description of the row, column or cell in words and numbers.

import { create, write } from "../page/nodes.js";
import { fillPicture, shadeOf, STRONGEST } from "../page/paint.js";
import { number, sentence } from "../page/words.js";
import { drawSwitch } from "./controls.js";
import { keyOf, readsColumn, roundedTemperature, told } from "./state.js";
import { CHANNELS, explainColumn, sentenceOfColumn, sentenceOfScores, STEPS } from "./steps.js";

/**
 * @typedef {import("./state.js").AttentionMap} AttentionMap
 * @typedef {import("./state.js").Draw} Draw
 * @typedef {import("./state.js").Part} Part
 * @typedef {import("./state.js").Scale} Scale
 * @typedef {import("./steps.js").ExplainedLine} ExplainedLine
 * @typedef {import("./steps.js").Explanation} Explanation
 */

const LINE = 20; // the height of a line of numbers in pixels

/**
 * The ticks of the colour scale: numbers, and the positions of their colours.
 * @type {(scale: Scale) => { at: number, x: number }[]}
 */
function ticksOf({ signed, low, largest }) {
  if (!signed) return [0, 0.25, 0.5, 0.75, 1].map((x) => ({ at: x, x: x * largest }));
  return low < 0
    ? [-1, -0.5, 0, 0.5, 1].map((x) => ({ at: (x + 1) / 2, x: x * largest }))
    : [0, 0.5, 1].map((x) => ({ at: x, x: x * largest }));
}

/** @type {(map: AttentionMap, scaleNow: () => Scale) => Part} */
export function drawLegend(map, scaleNow) {
  const ramp = create("canvas", {
    className: "picture",
    width: 65,
    height: 1,
    "aria-hidden": "true",
  });
  const ticks = Array.from({ length: 5 }, () => create("span"));
  const scale = create("span", { className: "scale" }, ramp, ...ticks);
  const fitted = drawSwitch(map, "fitted", "stretch colours to the largest weight");
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
    fillPicture(ramp, Array.from({ length: ramp.width }, (_, k) => first + k));
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

/** @type {(map: AttentionMap) => string} */
function saidOf(map) {
  const { sent, view, get, shown } = map;
  const { query, row } = told(map);
  const key = keyOf(map);
  const { source, all } = shown();
  const [queryName, keyName] = [sent.queryNames[query], sent.keyNames[key]];
  if (readsColumn(view)) return sentenceOfColumn(all(), source, key, sent.queryNames, keyName);
  if (get("step") === "query · key")
    return `${queryName} and ${keyName}: their products add up to the score ${number(row.scores[key], 3)}`;
  return source === "weights"
    ? sentence(row, queryName, sent.keyNames)
    : sentenceOfScores(row, source, queryName, sent.keyNames);
}

/** @type {Draw} */
export function drawSentence(map) {
  const node = create("p", { className: "sentence cut", "aria-live": "polite", "aria-atomic": "true" });
  const paint = () => {
    const said = saidOf(map);
    write(node, said);
  };
  return { node, paint };
}

/** A line of the numbers: a name, its arithmetic, its result, and a vector's picture. */
function drawNumbersLine() {
  const cells = [create("th"), create("td"), create("td")];
  cells[0].scope = "row";
  const strip = create("canvas", { className: "picture", height: 1, "aria-hidden": "true" });
  const drawing = create("td", { className: "strip" });
  const node = create("tr", {}, ...cells, drawing);
  /** @type {(line: ExplainedLine | undefined, largest: number | undefined) => void} */
  function show(line, largest) {
    node.hidden = !line;
    if (!line?.strip) strip.remove();
    if (!line) return;
    [line.label, line.sum, line.result].forEach((text, k) => write(cells[k], text));
    node.classList.toggle("at", Boolean(line.at));
    if (!line.strip) return;
    if (!strip.parentNode) drawing.append(strip);
    strip.width = line.strip.length;
    fillPicture(strip, Array.from(line.strip, (x) => shadeOf(x, largest)));
  }
  return { node, show };
}

/** @type {(map: AttentionMap) => Explanation} */
function explained(map) {
  const { sent, view, get, shown } = map;
  const { query, row } = told(map);
  const key = keyOf(map);
  const { source, all } = shown();
  if (readsColumn(view)) return explainColumn(all(), source, query, key, sent);
  const [layer, head] = [get("layer"), get("head")];
  return STEPS[get("step")].explain(row, sent.queryNames[query], {
    scale: sent.scale,
    temperature: roundedTemperature(map),
    key,
    keyNames: sent.keyNames,
    keyLabels: sent.keyLabels,
    values: sent.values && sent.keyNames.map((_, k) => sent.values.at(layer, head, k)),
    queryVector: sent.query && sent.query.at(layer, head, query),
    keyVector: sent.key && sent.key.at(layer, head, key),
  });
}

/**
 * Describes the row, the column or the cell in words and numbers.
 * @type {Draw}
 */
export function drawNumbers(map) {
  const { sent, view, get } = map;
  const words = create("p", { className: "words cut" });
  const channels = sent.query ? Math.min(sent.query.shape[3], CHANNELS) : 0;
  const count = Math.max(sent.numKeys, sent.numQueries, channels);
  const lines = Array.from({ length: count }, () => drawNumbersLine());
  const foot = drawNumbersLine();
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
  let at = -1;
  function paint() {
    const { words: text, lines: texts, total, largest } = explained(map);
    const chosen = texts.findIndex((line) => line.at);
    if (chosen !== at && chosen >= 0 && numbers.isConnected) numbers.scrollTop = LINE * ((at = chosen) - 6);
    write(words, text);
    lines.forEach((line, k) => line.show(texts[k], largest));
    foot.show(total, largest);
    // The panel's height depends on the step, but not on the pointer.
    const isProducts = get("step") === "query · key";
    const most = Math.max(view.numRows, view.numColumns, isProducts ? channels : 0);
    node.style.setProperty("--lines", `${most + 1}`);
    const isSum = get("step") === "weighted sum" && !readsColumn(view);
    node.classList.toggle("drawn", isProducts || isSum);
    node.classList.toggle("vectors", isSum);
  }
  return { node, paint };
}
