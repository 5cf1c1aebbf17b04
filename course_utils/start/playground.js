/**
 * The line to type into and the bars of what may come next. A bar is a button: pressed, its word is
 * written behind the others.
 */

const PAUSE_MS = 120; // after the last key, before Python is asked

/** @param {string} tag @param {object} [properties] @param {...(Node | string)} children */
function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** @param {string} text @param {string} word */
export function withWord(text, word) {
  const before = text.trimEnd();
  return word === "." || !before ? before + word : `${before} ${word}`;
}

function render({ model, el }) {
  const input = make("input", { type: "text", spellcheck: false, autocomplete: "off" });
  const label = make("label", {}, "Write, and see what comes next", input);
  const examples = make("p", { className: "examples" }, "Or take:");
  const bars = make("div", { className: "bars" });
  bars.setAttribute("role", "group");
  bars.setAttribute("aria-label", "The likeliest next words: press one to add it");
  const says = make("p", { className: "says" });
  says.setAttribute("aria-live", "polite");
  const words = make(
    "details",
    {},
    make("summary", {}, `All ${model.get("_words").length} words it knows`),
    make("p", {}, model.get("_words").join("  ")),
  );
  const root = make("section", { className: "next-word" }, label, examples, bars, says, words);
  root.setAttribute("aria-label", "A small language model");

  let timer = 0;
  const send = (text) => {
    clearTimeout(timer);
    model.set("text", text);
    model.save_changes();
  };
  const write = (text) => {
    input.value = text;
    send(text);
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => send(input.value), PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") send(input.value);
    event.stopPropagation(); // letters are no shortcuts of the notebook here
  });

  for (const text of model.get("_examples")) {
    const button = make("button", { type: "button", textContent: text });
    button.addEventListener("click", () => write(text));
    examples.append(" ", button);
  }

  const rows = model.get("_bars").map((_, place) => {
    const [word, share] = [make("span", { className: "word" }), make("span", { className: "share" })];
    const bar = make("span", { className: "bar" });
    const track = make("span", { className: "track" }, bar, share);
    const button = make("button", { type: "button", title: "add this word" }, word, track);
    button.addEventListener("click", () => write(withWord(input.value, model.get("_bars")[place][0])));
    bars.append(button);
    return { button, word, bar, share };
  });

  const paint = () => {
    model.get("_bars").forEach(([name, share, said], place) => {
      const row = rows[place];
      row.word.textContent = name;
      row.share.textContent = said;
      row.bar.style.width = `${100 * share}%`;
      row.button.setAttribute("aria-label", `${name}, ${said}: add it`);
    });
    says.textContent = `${model.get("_says")} ${model.get("_unknown")}`;
    if (document.activeElement !== input) input.value = model.get("text");
  };
  model.on("change:_bars change:_says change:_unknown change:text", paint);
  input.value = model.get("text");
  paint();
  el.append(root);
  return () => {
    clearTimeout(timer);
    model.off("change:_bars change:_says change:_unknown change:text", paint);
  };
}

export default { render };
