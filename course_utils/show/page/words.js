// Numbers and rows of attention in words. The wording of `sentence` is that of static.py.

import { best, sum } from "./arithmetic.js";

const DIMENSIONS = 4; // the number of a vector's dimensions that are written out

/** @type {(x: number, digits: number) => string} */
export function number(x, digits) {
  if (x === -Infinity) return "−∞";
  const text = Math.abs(x) >= 1e5 ? x.toExponential(1) : x.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** @param {import("./arithmetic.js").Numbers} numbers */
export function vector(numbers) {
  const shown = Array.from(numbers.slice(0, DIMENSIONS), (x) => number(x, 2));
  return `[${shown.join(", ")}${numbers.length > DIMENSIONS ? ", …" : ""}]`;
}

/**
 * Labels in quotes; a label that occurs more than once also gets its position.
 * @param {string[]} labels
 */
export function names(labels) {
  const count = new Map();
  for (const label of labels) count.set(label, (count.get(label) ?? 0) + 1);
  return labels.map((label, i) => (count.get(label) > 1 ? `“${label}” at ${i}` : `“${label}”`));
}

/** @type {(top: number[], names: string[]) => string} */
export const listed = (top, names) =>
  top.length <= 3
    ? top.map((i) => names[i]).join(" and ")
    : `${names[top[0]]} and ${top.length - 1} more`;

/**
 * A sentence on what a row attends to; masked keys are −Infinity in `masked`.
 * @type {(row: { masked: ArrayLike<number>, weights: Float64Array }, queryName: string, keyNames: string[]) => string}
 */
export function looks({ masked, weights }, queryName, keyNames) {
  const seen = [...keyNames.keys()].filter((key) => masked[key] !== -Infinity);
  if (!seen.length) return `${queryName} sees no key: every weight is 0`;
  const { largest, top } = best(weights, seen);
  const share = number(largest, 2);
  let says = `attends most to ${listed(top, keyNames)} (${share}${top.length > 1 ? " each" : ""})`;
  if (seen.length === 1) says = `attends only to ${keyNames[seen[0]]} (${share})`;
  else if (top.length === seen.length)
    says = `attends equally to all ${seen.length} keys it sees (${share} each)`;
  return `${queryName} ${says}`;
}

/** @type {typeof looks} */
export const sentence = (row, queryName, keyNames) =>
  `${looks(row, queryName, keyNames)}; the row sums to ${number(sum(row.weights), 3)}`;

/** @type {(text: string) => string[]} */
export const graphemes =
  "Segmenter" in Intl
    ? (text) => Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment)
    : (text) => [...text];

/**
 * The longest beginning of a label that fits, in whole characters as a reader counts them.
 * @type {(label: string, fits: (text: string) => boolean) => string}
 */
export function shortened(label, fits) {
  if (fits(label)) return label;
  const parts = graphemes(label);
  while (parts.length > 1 && !fits(`${parts.join("")}…`)) parts.pop();
  return `${parts.join("")}…`;
}

/** A word in the form in which it is shown: blanks become a sign. */
export const sign = (word) => ({ " ": "␣", "\n": "⏎" })[word] ?? word;
