/** One box: the sentence with an arc from a word to those that a head attends to, what the head does,
 * the button that switches it off, and what this changes. */

import { create as make, shield } from "../page/nodes.js";
import { speak } from "../page/said.js";
import { nameAt, nameOf, percent } from "./names.js";
import { drawPairs } from "./pairs.js";

const LEAST = 0.1; // the smallest weight that gets an arc
const ARC = 44; // the height of the arcs, in pixels
const CHANGE = 0.02; // the smallest change of a probability that is told

/** The words whose probabilities rose and fell most because parts are switched off. */
function changes(state) {
  const { shares, wholeShares, words } = state;
  const moved = words.map((word, id) => [word, wholeShares[id], shares[id]]);
  const by = (sign) => [...moved].sort((a, b) => sign * (a[2] - a[1] - (b[2] - b[1])))[0];
  const [fell, most] = [by(1), by(-1)];
  const same = moved.find(([word]) => word !== fell[0] && (word.startsWith(fell[0]) || fell[0].startsWith(word)));
  // The other form of the same verb shows what changed, if it rose about as much as any word.
  const rose = same && same[2] - same[1] > (most[2] - most[1]) / 2 ? same : most;
  const told = ([word, before, after], verb) =>
    Math.abs(after - before) < CHANGE ? "" : `“${nameOf(word, state)}” ${verb} from ${percent(before)} to ${percent(after)}`;
  return { text: [told(fell, "falls"), told(rose, "rises")].filter(Boolean).join(", and "), agreed: rose === same };
}

/** What the head does at the chosen word, or what changes without it, in words that need no lesson. */
function tell(state, station) {
  const { labels, token, off } = state;
  const row = station.map(state)[token];
  const most = row.indexOf(Math.max(...row));
  const word = most === token || (most === 0 && labels[0] === state.begin) ? "" : nameAt(state, most);
  if (off.has(station.off)) {
    const { text, agreed } = changes(state);
    const told = `The model no longer looks back from “${nameAt(state, token)}” to “${word}”, the word that the verb has to fit.`;
    const why = word && agreed ? told : "What this head added is missing.";
    return text ? `Without it, ${text}. ${why}` : "Without it, hardly anything changes here: other parts do this work.";
  }
  const from = `“${nameAt(state, token)}”`;
  const there = most === token ? `at ${from} itself` : `back from ${from} to ${word ? `“${word}”` : "the beginning"}`;
  return `The model predicts the next word. One part of it, an attention head, looks ${there}. What does it predict without this part?`;
}

/** What there is to learn from it, and where to go on. */
function learned({ onward }) {
  const text = "Nobody told the model what a subject is: it learned to look for one by predicting the next word of sentences like this.";
  const link = make("a", { href: onward, textContent: "Build the first part yourself: lesson 01" });
  // In the same tab, all of JupyterLab would load anew, after a question about unsaved notebooks.
  link.addEventListener("click", () => link.closest(".jp-Notebook") && (link.target = "_blank"));
  return make("p", { className: "learned" }, text, ...(onward ? [" ", link] : []));
}

/** The explorer with the box alone. @param {Record<string, string>} said the reader's language */
export function drawExplorer(state, act, said) {
  const headline = drawHeadline(state, act);
  const below = state.gap && state.pairs.length ? [learned(state)] : [];
  const root = make("section", { className: "explorer", tabIndex: -1 }, headline.box, ...below);
  root.setAttribute("aria-label", "A small language model, whole");
  shield(root);
  speak(root, said);
  return { state, act, headline, root };
}

/** A button for each word of the text, which chooses it. */
function wordsOf(state, act) {
  return state.labels.map((label, t) => {
    const className = t === 0 && label === state.begin ? "start" : "";
    const node = make("button", { type: "button", textContent: nameAt(state, t), className });
    node.addEventListener("click", () => act.choose(state.chosen, t));
    return node;
  });
}

function drawHeadline(state, act) {
  const box = make("div", { className: "headline", hidden: !state.gap });
  const [words, above] = [make("div", { className: "words" }), make("div")];
  above.innerHTML = "<svg aria-hidden='true'></svg>";
  const arcs = above.firstChild;
  let drawn = "";
  const said = make("p", { className: "why" });
  said.setAttribute("aria-live", "polite");
  const button = make("button", { type: "button", className: "cut" });
  let station = state.stations.find((s) => s.map);
  button.addEventListener("click", () => {
    act.toggle(station.off);
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    box.scrollIntoView({ block: "nearest", behavior }); // on a phone, what changes may be below
  });
  const pairs = drawPairs(state);
  box.append(make("div", { className: "line" }, above, words), make("div", { className: "act" }, said, button), pairs.box);

  const middle = (t) => words.children[t].offsetLeft + words.children[t].offsetWidth / 2;
  const drawArcs = () => {
    if (!words.children.length || !words.isConnected) return;
    arcs.setAttribute("width", String(words.scrollWidth));
    const isOff = state.off.has(station.off);
    const from = middle(state.token);
    const paths = station.map(state)[state.token].map((weight, s) => {
      if (weight < LEAST || s === state.token) return "";
      const to = middle(s);
      const top = Math.max(2, ARC - Math.abs(from - to) / 3);
      const line = `M${from} ${ARC}C${from} ${top - 8} ${to} ${top - 8} ${to} ${ARC - 2}`;
      return `<path d="${line}" stroke-width="${1 + 5 * weight}" pathLength="1" class="${isOff ? "gone" : "arc"}"/>`;
    });
    if (drawn !== paths.join("")) arcs.innerHTML = drawn = paths.join(""); // the same arc doesn't move again
  };
  let shown = "";
  const update = () => {
    if (!state.gap) return;
    if (state.chosen.map) station = state.chosen;
    const { labels, token } = state;
    if (shown !== JSON.stringify(labels)) {
      shown = JSON.stringify(labels);
      words.replaceChildren(...wordsOf(state, act), make("span", { className: "blank" }, "?"));
    }
    const row = station.map(state)[token];
    [...words.children].forEach((node, t) => {
      node.classList.toggle("from", t === token);
      node.classList.toggle("to", t !== token && !state.off.has(station.off) && row[t] === Math.max(...row));
    });
    button.textContent = state.off.has(station.off) ? "Switch it on again" : "Switch this head off";
    said.textContent = tell(state, station);
    pairs.update(state);
    drawArcs();
  };
  const sized = new ResizeObserver(drawArcs);
  sized.observe(words);
  return { box, update };
}
