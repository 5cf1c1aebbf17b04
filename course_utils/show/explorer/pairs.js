/** One row per pair of words, such as "sing" and "sings": the bars left and right of an axis. */

import { create as make } from "../page/nodes.js";
import { percent } from "./names.js";

const LEAST = 0.2; // a probability that always fits beside the axis

/** Both forms of each verb, with a grey bar for what the whole model says. */
export function drawPairs({ words, pairs }) {
  const rows = pairs.map((pair) => pair.map((word) => {
    const [bar, ghost] = [make("span", { className: "bar" }), make("span", { className: "ghost" })];
    const share = make("span", { className: "share" });
    const track = make("span", { className: "track" }, ghost, bar, share);
    return { cell: make("td", {}, make("span", { className: "verb", textContent: word }), track), id: words.indexOf(word), bar, ghost, share };
  }));
  const heads = ["several do it", "one does it"].map((text) => make("th", { scope: "col" }, text));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(({ cell }) => cell))));
  const box = make("table", { className: "pairs", hidden: !pairs.length }, make("thead", {}, make("tr", {}, ...heads)), body);
  const update = ({ shares, wholeShares, off }) => {
    const most = Math.max(LEAST, ...rows.flat().flatMap(({ id }) => [shares[id], wholeShares[id]]));
    for (const { id, bar, ghost, share } of rows.flat()) {
      const [now, before] = [shares[id] / most, off.size ? wholeShares[id] / most : 0];
      share.textContent = percent(shares[id]);
      bar.style.setProperty("--part", now);
      ghost.style.setProperty("--part", before);
      share.style.setProperty("--part", Math.max(now, before));
    }
  };
  return { box, update };
}
