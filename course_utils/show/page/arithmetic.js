// The arithmetic of attention, in the page.

/** @typedef {Float32Array | Float64Array | Uint8Array} Numbers */

/** @param {Float64Array} numbers */
export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** @type {(numbers: Iterable<number>) => number} */
export const largestOf = (numbers) => [...numbers].reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/** @type {(x: number, low: number, high: number) => number} */
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

/** @type {(i: number, first: number, size: number) => boolean} */
export const outside = (i, first, size) => i < first || i >= first + size;

/**
 * The weights of one row. A masked score is −Infinity; if all are masked, the weights are zero.
 * @param {Float64Array} masked
 * @param {number} temperature
 */
export function softmax(masked, temperature = 1) {
  let largest = -Infinity;
  for (const s of masked) largest = Math.max(largest, s);
  const powers = new Float64Array(masked.length);
  masked.forEach((s, k) => {
    if (s !== -Infinity) powers[k] = Math.exp((s - largest) / temperature);
  });
  const total = sum(powers);
  return { largest, powers, total, weights: powers.map((p) => (total ? p / total : 0)) };
}

/**
 * The largest of the numbers at the positions in `from`, and the positions where it occurs.
 * @type {(numbers: Numbers, from: number[]) => { largest: number, top: number[] }}
 */
export function best(numbers, from) {
  const largest = from.reduce((most, i) => Math.max(most, numbers[i]), -Infinity);
  const least = largest - 1e-6 * Math.abs(largest);
  return { largest, top: from.filter((i) => numbers[i] >= least) };
}
