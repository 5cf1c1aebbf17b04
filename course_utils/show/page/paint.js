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
