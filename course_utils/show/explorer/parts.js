/** Parts of the explorer that show its state: bars, tokens, lens, controls. */

import { create as make } from "../page/nodes.js";
import { addressOf } from "./address.js";
import { nameAt, nameOf, percent } from "./names.js";

export const SHOWN = 6; // the number of bars
const LONGEST = 85; // the percentage of the track for a probability of 1: its number is to the right
export const GHOSTS = 2; // additional bars, for words that were likely before
export const ROW = 24; // pixels per token

/** @param {string} text @param {string} word @param {string} gap between words */
export function withWord(text, word, gap) {
  const before = gap ? text.trimEnd() : text;
  return word === "." || !before ? before + word : `${before}${gap}${word}`;
}

/** The bars of the next words. Each bar is a button that appends its word. */
export function drawBars(state, write) {
  const box = make("div", { className: "bars" });
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "The most likely next words: press one to add it");
  const rows = Array.from({ length: SHOWN + GHOSTS }, (_, place) => {
    const [word, share] = [make("span", { className: "word" }), make("span", { className: "share" })];
    const [bar, ghost] = [make("span", { className: "bar" }), make("span", { className: "ghost" })];
    const track = make("span", { className: "track" }, ghost, bar, share);
    const button = make("button", { type: "button", title: "add this word" }, word, track);
    button.addEventListener("click", () => write(withWord(state.text, state.next[place][0], state.gap)));
    box.append(button);
    return { button, word, bar, ghost, share };
  });
  const rest = make("p", { className: "rest" });
  box.append(rest);
  const update = () => {
    rows.forEach((row, place) => {
      const [name, share] = state.next[place] ?? ["", 0];
      row.button.style.visibility = state.next[place] ? "visible" : "hidden";
      row.word.textContent = nameOf(name, state);
      const cut = share === 0 && state.uncut[state.words.indexOf(name)] > 0;
      row.share.textContent = cut ? "cut" : percent(share);
      const before = state.before.get(name) ?? 0;
      row.bar.style.width = `${LONGEST * share}%`;
      row.ghost.style.width = `${LONGEST * before}%`;
      row.share.style.left = `calc(${LONGEST * Math.max(share, before)}% + 6px)`;
    });
    const named = new Set(state.next.map(([word]) => word));
    const left = state.words.map((word, id) => (named.has(word) ? 0 : state.all[id]));
    const others = `the other ${left.length - named.size} ${state.gap ? "words" : "signs"}`;
    rest.textContent = `${others}: ${percent(left.reduce((sum, share) => sum + share, 0))}`;
    rows[state.next.length - 1].button.after(rest);
  };
  return { box, update };
}

/** The name of a step as the beginning of a sentence. */
export const titled = ({ name }) => name[0].toUpperCase() + name.slice(1);

/** The lesson that builds a step, and whether the reader has built it (unknown in a shared file). */
export function builtIn({ lesson }, { built }) {
  if (!built) return `Lesson ${lesson} builds it.`;
  if (built.includes(lesson)) return `Lesson ${lesson} builds it, and you have built it ✓.`;
  return `Lesson ${lesson} builds it; you have not built it yet.`;
}

/** The tokens as buttons; the lens shows the chosen token. */
export function drawTokens(state, act) {
  const column = make("div", { className: "tokens" });
  let shown = "";
  const update = () => {
    if (shown !== JSON.stringify(state.labels)) {
      shown = JSON.stringify(state.labels); // buttons that aren't replaced keep the focus
      const buttons = state.labels.map((label, t) => {
        const button = make("button", { type: "button", textContent: nameAt(state, t) });
        button.style.height = `${ROW}px`;
        button.addEventListener("click", () => act.choose(state.chosen, t));
        return button;
      });
      const stream = make("span", { className: "rail" }, "residual stream");
      const rows = ["", "built in lesson", "this part is"].map((text) => make("span", {}, text));
      column.replaceChildren(make("span", { className: "head" }, ...rows), ...buttons, stream);
    }
    column.querySelectorAll("button").forEach((button, t) => button.setAttribute("aria-pressed", String(t === state.token)));
  };
  return { column, update };
}

/** What rows, columns, squares and stripes mean. */
export function drawLegend() {
  const sign = (name) => make("span", { className: `swatch ${name}`, ariaHidden: "true" });
  return make(
    "div",
    { className: "legend" },
    make("p", {}, "One row for each word, one column for each step of the model, from left to right."),
    make("p", {}, sign("squares"), "In a head, a row has a square for each word up to its own. The stronger a square's colour, the more the row's word attends to that word."),
    make("p", {}, sign("stripes"), "In every other column, a row has a stripe for each number of a vector: orange below 0, blue above 0."),
  );
}

/** What the legend leaves out, after a click. */
export function drawMore({ begin }) {
  const stream =
    "The line below the columns is the residual stream, the vector of the chosen word on its way from step to step. " +
    "The thicker a branch, the longer the vector that its part adds. A switch takes away what its part adds.";
  const first = begin ? [make("p", {}, `The row “beginning” is the token “${begin}”, which the model reads before every text.`)] : [];
  return make("details", {}, make("summary", {}, "More about this picture"), make("p", {}, stream), ...first);
}

/** The computation of the chosen step for the chosen token, in numbers. */
export function drawLens(state) {
  const box = make("div", { className: "lens" });
  box.setAttribute("aria-live", "polite");
  let open = !state.examples.length; // where examples are offered, readers may have read no lesson
  const update = () => {
    const { chosen, token } = state;
    const told = chosen.tell(state, token);
    const parts = told.filter((part) => typeof part === "string").map((part) => make("p", {}, part));
    const tables = told.filter((part) => typeof part !== "string").map((part) => {
      const fold = make("details", { open }, make("summary", {}, "The computation in numbers"), table(part));
      fold.addEventListener("toggle", () => (open = fold.open));
      return fold;
    });
    const title = make("p", {}, make("strong", {}, `${titled(chosen)}. `), builtIn(chosen, state));
    box.replaceChildren(make("div", {}, title, ...parts), ...tables);
  };
  return { box, update };
}

function table({ heads, rows }) {
  const line = ([first, ...cells]) => {
    const header = make("th", { scope: "row" }, first);
    return make("tr", {}, header, ...cells.map((cell) => make("td", {}, cell)));
  };
  const top = make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)));
  const whole = make("table", {}, make("thead", {}, top), make("tbody", {}, ...rows.map(line)));
  return make("section", { className: "numbers", tabIndex: 0, role: "group", "aria-label": "The computation in numbers" }, whole);
}

/** The controls: examples, walk and draw, and after one click the dials and the comparison. */
export function drawControls(state, act) {
  const button = (text, press) => {
    const node = make("button", { type: "button", textContent: text });
    node.addEventListener("click", press);
    return node;
  };
  const examples = make("p", { className: "examples", hidden: !state.examples.length }, "Or try:");
  for (const text of state.examples) examples.append(" ", button(text, () => act.write(text)));
  const dial = (name, label, range) => {
    const slider = make("input", { type: "range", ...range, defaultValue: range.value });
    const reading = make("output", {}, slider.value);
    slider.addEventListener("input", () => {
      reading.textContent = slider.value;
      act.set(name, Number(slider.value));
    });
    return make("label", {}, `${label} `, slider, reading);
  };
  const V = state.words.length;
  const walk = button("▶ walk through", act.walk);
  walk.className = "walk";
  const steps = [
    make("button", { type: "button", textContent: "‹", title: "one step back" }),
    make("button", { type: "button", textContent: "›", title: "one step on" }),
  ];
  steps.forEach((node, i) => node.addEventListener("click", () => act.walker.stepBy(2 * i - 1)));
  const dials = [
    dial("temperature", "temperature (low: nearly always the favourite; high: more surprises)", { min: 0.1, max: 3, step: 0.1, value: 1 }),
    dial("topK", "top-k (draw only from the k most likely words)", { min: 1, max: V, step: 1, value: V }),
    dial("topP", "top-p (draw only from the most likely words that together reach p)", { min: 0.05, max: 1, step: 0.05, value: 1 }),
  ];
  const known = make("details", { className: "known" }, make("summary", {}, `The ${V} ${state.gap ? "words" : "signs"} it knows`), make("p", {}, ...state.words.flatMap((word) => [nameOf(word, state), "  "])));
  const link = make("a", { className: "link", hidden: !state.linked }, "link to this");
  const more = make(
    "details",
    { className: "more" },
    make("summary", {}, "How the next word is chosen, and a comparison"),
    ...dials,
    button("keep these bars to compare", act.keep),
    button("reset everything", () => {
      for (const node of dials.map((d) => d.querySelector("input"))) {
        node.value = node.defaultValue;
        node.dispatchEvent(new Event("input"));
      }
      act.reset();
    }),
  );
  const update = () => {
    const { first, last } = act.walker.ends();
    const paused = last ? "▶ once more" : "▶ go on";
    walk.textContent = act.walker.isOn() ? "❚❚ pause" : state.walking ? paused : "▶ walk through the model";
    [steps[0].disabled, steps[1].disabled] = [first, last];
    if (state.linked) link.href = addressOf(state);
  };
  const row = make("p", { className: "controls" }, walk, ...steps, button("add a word", act.draw), link);
  return { examples, known, row, more, update };
}
