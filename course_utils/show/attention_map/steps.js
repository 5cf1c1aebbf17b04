// Words for a row, step by step, from scores to the weighted sum.

import { best, largestOf, sum } from "../page/arithmetic.js";
import { listed, number, vector } from "../page/words.js";

/**
 * @typedef {import("../page/arithmetic.js").Numbers} Numbers
 * @typedef {import("./state.js").Row} Row
 * @typedef {import("./state.js").Sent} Sent
 * @typedef {"scores" | "scaled" | "masked" | "weights"} Source which numbers of a row are shown
 */

/**
 * An explanation in words, a line for each key, query or channel, and a line for their total.
 * @typedef {{ words: string, lines: ExplainedLine[], total?: ExplainedLine, largest?: number }} Explanation
 * @typedef {{ label: string, sum: string, result: string, strip?: Numbers, at?: boolean }} ExplainedLine
 */

/**
 * @typedef {object} Settings
 * @property {number} scale
 * @property {number} temperature
 * @property {number} key the chosen key
 * @property {string[]} keyNames
 * @property {string[]} keyLabels
 * @property {Numbers[] | null} values
 * @property {Numbers | null} queryVector
 * @property {Numbers | null} keyVector
 * @typedef {(row: Row, queryName: string, settings: Settings) => Explanation} Explain
 */

export const CHANNELS = 128; // the largest number of channels of a query and a key that are listed

/** @type {Record<Source, string>} */
const SCORE = { scores: "score", scaled: "scaled score", masked: "score", weights: "weight" };

/**
 * Whether a key is hidden: for weights by the mask, for scores before the mask if they are −Infinity.
 * @type {(row: Row, source: Source, key: number) => boolean}
 */
export const isHidden = (row, source, key) =>
  (source === "weights" ? row.masked : row[source])[key] === -Infinity;

// ---- one sentence ------------------------------------------------------------------------------

/**
 * The sentence on a row of scores; their sum has no meaning.
 * @type {(row: Row, source: Source, queryName: string, keyNames: string[]) => string}
 */
export function sentenceOfScores(row, source, queryName, keyNames) {
  const seen = [...keyNames.keys()].filter((key) => !isHidden(row, source, key));
  if (!seen.length) return `${queryName} sees no key: every score is −∞`;
  const { largest, top } = best(row[source], seen);
  const among = seen.length < keyNames.length ? ` of the ${seen.length} keys it sees` : "";
  return `${queryName} matches ${listed(top, keyNames)} best${among}: ${SCORE[source]} ${number(largest, 3)}`;
}

/** @type {(rows: Row[], source: Source, key: number, queryNames: string[], keyName: string) => string} */
export function sentenceOfColumn(rows, source, key, queryNames, keyName) {
  const column = Float64Array.from(rows, (row) => row[source][key]);
  const seeing = [...rows.keys()].filter((query) => !isHidden(rows[query], source, key));
  const ofWeights = source === "weights";
  const total = ofWeights ? `; the column sums to ${number(sum(column), 3)}` : "";
  if (!seeing.length) return `No query sees ${keyName}${total}`;
  const { largest, top } = best(column, seeing);
  const by = top.length === rows.length && top.length > 3 ? "all queries" : listed(top, queryNames);
  return ofWeights
    ? `${keyName} is attended to most by ${by} (${number(largest, 2)}${top.length > 1 ? " each" : ""})${total}`
    : `${keyName} is matched best by ${by}: ${SCORE[source]} ${number(largest, 3)}`;
}

// ---- a line for each key -----------------------------------------------------------------------

/** @type {(settings: Settings, line: (key: number) => string[]) => ExplainedLine[]} */
const eachKey = ({ keyLabels, key }, line) =>
  keyLabels.map((label, k) => {
    const [sum, result] = line(k);
    return { label, sum, result, at: k === key };
  });

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
    words: `How well ${queryName} matches each key: one score for each key.`,
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
  const become = count === 1 ? "the score of 1 key becomes" : `the scores of ${count} keys become`;
  return {
    words: count
      ? `${queryName} may not see everything: ${become} −∞, the others stay.`
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
      ? `Subtract the largest score, ${largest}, from each` +
        `${temperature === 1 ? "" : `, divide by the temperature, ${temperature}`}, then raise e ` +
        `to the result (exp). Then divide by the total of these powers, ${number(row.total, 3)}.`
      : `${queryName} sees no key: there is nothing to share out, and every weight is 0.`,
    lines: eachKey(settings, (key) => {
      if (isHidden(row, "masked", key)) return ["hidden", "0"];
      const difference = `${number(row.masked[key], 3)} − ${less}`;
      const exponent = temperature === 1 ? difference : `(${difference}) ÷ ${temperature}`;
      return [`exp(${exponent}) = ${number(row.powers[key], 3)}`, number(row.weights[key], 3)];
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
    words: `Each key's value times its weight; their sum is the output of ${queryName}.`,
    lines,
    total: { label: "sum", sum: `output of ${queryName}`, result: vector(output), strip: output },
    largest: Math.max(largestOf(output), ...parts.map(largestOf)),
  };
}

/**
 * The explanation of a column, which has one number from every row.
 * @type {(rows: Row[], source: Source, query: number, key: number, sent: Sent) => Explanation}
 */
export function explainColumn(rows, source, query, key, sent) {
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
  const words = `${whose} ${sent.keyNames[key]}? Its column, one ${SCORE[source]} for each query.`;
  if (source !== "weights") return { words, lines };
  const total = { label: "total", sum: "", result: number(sum(column), 3) };
  return { words: `${words} Rows sum to 1; columns don't have to.`, lines, total };
}

/** @type {Record<string, { explain: Explain, source: Source }>} */
export const STEPS = {
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
export const TRAIL = {
  "query · key": (row, key) => `Σ ${number(row.scores[key], 3)}`,
  scores: (row, key) => number(row.scores[key], 3),
  scaled: (row, key) => number(row.scaled[key], 3),
  masked: (row, key) => number(row.masked[key], 3),
  softmax: (row, key) => number(row.weights[key], 3),
  "weighted sum": (row, key) => `${number(row.weights[key], 3)} × v`,
};
