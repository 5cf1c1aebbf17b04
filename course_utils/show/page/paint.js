// Numbers as colours: the shades of colours.py, one dot for each number.

import { clamp } from "./arithmetic.js";
import { INKS, SHADES } from "./colours.js";

export const STRONGEST = (SHADES.length - 1) / 2; // shades go from −64 to 64

const WORDS = new Uint32Array(Uint8Array.from(SHADES.flatMap((shade) => [...shade, 255])).buffer);

/**
 * The same as `colours.strength` in Python.
 * @type {(x: number, largest: number) => number}
 */
export function shadeOf(x, largest) {
  if (!(largest > 0) || !Number.isFinite(largest)) return 0;
  return Math.round(STRONGEST * clamp(x / largest, -1, 1));
}

/** @param {number} shade a colour as style sheets write it */
export const colourOf = (shade) => `rgb(${SHADES[STRONGEST + shade]})`;

/** @param {number} shade what a digit on it is written with */
export const inkOf = (shade) => INKS[STRONGEST + shade];

/** @param {HTMLCanvasElement} canvas */
export const brushOf = (canvas) => canvas.getContext("2d");

/**
 * Colours cells with a picture under them that has one dot per cell; hidden cells are holes, through
 * which the hatched background is visible.
 * @type {(canvas: HTMLCanvasElement, shades: Iterable<number | null>) => void}
 */
export function fillPicture(canvas, shades) {
  const image = new ImageData(canvas.width, canvas.height);
  const dots = new Uint32Array(image.data.buffer);
  let k = 0;
  for (const shade of shades) dots[k++] = shade === null ? 0 : WORDS[STRONGEST + shade];
  brushOf(canvas).putImageData(image, 0, 0);
}

/**
 * Colours rows of `size` numbers as stripes, `height` dots per row with a gap of one above and below.
 * Where numbers are narrower than a dot, the dot shows the strongest of them.
 * @type {(canvas: HTMLCanvasElement, rows: { numbers: Float32Array, size: number }, height: number) => void}
 */
export function fillStripes(canvas, { numbers, size }, height) {
  const { width } = canvas;
  const image = new ImageData(width, canvas.height);
  const dots = new Uint32Array(image.data.buffer);
  const most = numbers.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  const line = new Uint32Array(width);
  for (let t = 0; t * size < numbers.length; t += 1) {
    for (let x = 0; x < width; x += 1) {
      let i = t * size + Math.floor((x * size) / width);
      const end = t * size + Math.floor(((x + 1) * size) / width);
      for (let j = i + 1; j < end; j += 1) if (Math.abs(numbers[j]) > Math.abs(numbers[i])) i = j;
      line[x] = WORDS[STRONGEST + shadeOf(numbers[i], most)];
    }
    for (let y = 1; y < height - 1; y += 1) dots.set(line, (t * height + y) * width);
  }
  brushOf(canvas).putImageData(image, 0, 0);
}
