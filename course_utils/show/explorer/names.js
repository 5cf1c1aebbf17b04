/** Words and probabilities as they are shown. */

import { sign } from "../page/words.js";

/** A word as it is shown: in a text of words, the full stop is named. */
export const nameOf = (word, { gap }) => (gap && word === "." ? "full stop" : sign(word));

/** The token at `t` as it is shown: what is put before every text is its beginning. */
export const nameAt = (state, t) =>
  t === 0 && state.labels[0] === state.begin ? "beginning" : nameOf(state.labels[t], state);

/** @param {number} share */
export const percent = (share) =>
  share >= 0.005 || share === 0 ? `${(100 * share).toFixed(0)}\u00a0%` : "<\u00a01\u00a0%";
