// The page's half of `translating_line`: an input line, and the weights that the kernel sends.

import { create, hideTable, labelled, shield, write } from "./nodes.js";
import { colourOf, inkOf, shadeOf } from "./paint.js";
import { speak } from "./said.js";

/** @param {number} weight */
function drawCell(weight) {
  const shade = shadeOf(weight, 1);
  const cell = create("td", { className: inkOf(shade) }, weight.toFixed(2));
  cell.style.setProperty("--shade", colourOf(shade));
  return cell;
}

/** @type {(read: string[], rows: [string, number[]][]) => HTMLElement[]} */
function drawRows(read, rows) {
  const heading = (scope, word) => create("th", { scope }, word);
  const first = create("tr", {}, create("td"), ...read.map((word) => heading("col", word)));
  const rest = rows.map(([word, weights]) =>
    create("tr", {}, heading("row", word), ...weights.map(drawCell)),
  );
  return [first, ...rest];
}

const ABOUT = "One row for each word written, one column for each word read; the numbers are attention weights.";

/** @param {{ model: any, el: HTMLElement }} view */
function render({ model, el }) {
  const line = create("input", { type: "text", spellcheck: false });
  const french = create("div", { className: "french", "aria-live": "polite" });
  const table = create("table");
  const about = create("p", { className: "hint" });
  const root = create(
    "div",
    { className: "attention-map translating-line", role: "group", "aria-label": "translating line" },
    labelled("English ", line),
    french,
    create("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "weights" }, table),
    about,
  );
  const paint = () => {
    if (line.value !== model.get("text") && !line.matches(":focus")) line.value = model.get("text");
    const { says, read, rows, known } = model.get("_shown");
    write(french, says);
    write(about, rows.length ? ABOUT : known);
    table.replaceChildren(...(rows.length ? drawRows(read, rows) : []));
  };
  line.addEventListener("input", () => {
    model.set("text", line.value);
    model.save_changes();
  });
  for (const name of ["text", "_shown"]) model.on(`change:${name}`, paint);
  shield(root);
  paint();
  speak(root, model.get("_said"));
  el.append(root);
  hideTable(root, "translation-static");
  return () => {
    for (const name of ["text", "_shown"]) model.off(`change:${name}`, paint);
  };
}

export default { render };
