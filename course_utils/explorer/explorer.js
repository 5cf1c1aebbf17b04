/**
 * A whole language model in the page: what it expects next, every station on the way, and what
 * changes when a part is switched off. It asks no kernel: the forward pass is in `lm.js`.
 */

import { create as make, hideTable, shield } from "../page/nodes.js";
import { drawn, forward, makeModel, readSafetensors } from "./lm.js";
import { likeliest, paint, percent, stationsOf, walkOf } from "./stations.js";

const SHOWN = 7; // bars
const ROW = 24; // pixels for each token
const STEP_MS = 2500; // of the walk
const STEM = 3; // pixels of a branch that adds as much as the stream's first vector is long

/** A word as it is shown: blanks get a sign. */
const sign = (word) => ({ " ": "␣", "\n": "⏎" })[word] ?? word;

/** What a station's switch turns off. */
const switched = (station) => station.offName ?? station.name;

/** @param {string} text @param {string} word @param {string} gap between words */
function withWord(text, word, gap) {
  const before = gap ? text.trimEnd() : text;
  return word === "." || !before ? before + word : `${before}${gap}${word}`;
}

/** The tokens that the model sees of a text, and those it doesn't know. */
function read(text, { words, begin, longest }) {
  const letters = words.every((word) => [...word].length === 1);
  const parts = letters ? [...text] : text.toLowerCase().replaceAll(".", " . ").split(/\s+/).filter(Boolean);
  const known = parts.filter((part) => words.includes(part));
  const unknown = [...new Set(parts.filter((part) => !words.includes(part)))];
  const labels = [...(begin ? [begin] : []), ...known].slice(-longest);
  return { labels: labels.length ? labels : [words[0]], unknown };
}

/** What is computed for the present text, and for it with every part switched on. */
function compute(state) {
  const { model, words } = state;
  Object.assign(state, read(state.text, { ...state, longest: model.longest }));
  state.ids = state.labels.map((label) => words.indexOf(label));
  if (state.token === undefined || state.token >= state.labels.length) state.token = state.labels.length - 1;
  state.pass = forward(model, state.ids, state.off);
  const last = (pass) => pass.logits.subarray(-model.vocabulary);
  state.all = drawn(last(state.pass), state);
  const whole = state.off.size ? drawn(last(forward(model, state.ids)), state) : state.all;
  const before = state.kept ?? (state.off.size ? whole : []);
  state.next = likeliest(state.all, words, { before, count: SHOWN });
  state.before = new Map(words.map((word, id) => [word, before[id]]));
  [state.whole] = likeliest(whole, words);
}

function sentence({ labels, next, begin, gap, off, whole, stations, keptText, unknown }) {
  const text = labels.slice(labels[0] === begin ? 1 : 0).join(gap).replaceAll(" .", ".");
  const [word, share] = next[0];
  const name = (w) => (w === "." ? "the full stop" : `“${w}”`);
  let said = text ? `After “${text}” the model expects ` : "At the beginning the model expects ";
  said += `${name(word)} (${percent(share)}), then ${name(next[1][0])} (${percent(next[1][1])}).`;
  if (off.size) {
    const names = stations.filter((s) => off.has(s.off)).map(switched);
    said = `Without ${names.join(" and ")}: ${said} With everything on: ${name(whole[0])} (${percent(whole[1])}).`;
  }
  if (keptText !== undefined) said += ` The grey bars are those of “${keptText}”.`;
  if (unknown.length) said += ` It doesn't know ${unknown.slice(0, 3).map((w) => `“${w}”`).join(" and ")}, and skips ${unknown.length > 1 ? "them" : "it"}.`;
  return said;
}

/** The bars of what comes next: a bar is a button, and pressed it writes its word. */
function drawBars(state, write) {
  const box = make("div", { className: "bars" });
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "The likeliest next words: press one to add it");
  const rows = Array.from({ length: SHOWN }, (_, place) => {
    const [word, share] = [make("span", { className: "word" }), make("span", { className: "share" })];
    const [bar, ghost] = [make("span", { className: "bar" }), make("span", { className: "ghost" })];
    const track = make("span", { className: "track" }, ghost, bar, share);
    const button = make("button", { type: "button", title: "add this word" }, word, track);
    button.addEventListener("click", () => write(withWord(state.text, state.next[place][0], state.gap)));
    box.append(button);
    return { button, word, bar, ghost, share };
  });
  const update = () =>
    rows.forEach((row, place) => {
      const [name, share] = state.next[place] ?? ["", 0];
      row.word.textContent = sign(name);
      row.share.textContent = percent(share);
      row.bar.style.width = `${100 * share}%`;
      row.ghost.style.width = `${100 * (state.before.get(name) ?? 0)}%`;
    });
  return { box, update };
}

/** Which lesson builds a station, and whether the reader has; a shared file knows no reader. */
function builtIn({ lesson }, { built }) {
  const told = built && (built.includes(lesson) ? ", and you have built it ✓" : "; you have not built it yet");
  return `Lesson ${lesson} builds it${told ?? ""}.`;
}

/** The thickness of a branch: the length of what it adds. */
function stemWidth(adds, { pass, model, token }) {
  const start = pass.stream[0].subarray(token * model.width, (token + 1) * model.width);
  return Math.min(14, Math.max(1, (STEM * Math.hypot(...adds)) / Math.hypot(...start)));
}

/** One column: a heading that is chosen, a switch, and a picture of all tokens. */
function drawStation(station, state, act) {
  const title = make("button", { type: "button", className: "title", textContent: station.title });
  title.title = `${station.name}. ${builtIn(station, state)}`;
  const mark = make("small", {}, `${station.lesson}${state.built?.includes(station.lesson) ? " ✓" : ""}`);
  const top = make("div", { className: "head" }, title, mark);
  const column = make("div", { className: station.map ? "station map" : "station" }, top);
  title.addEventListener("click", () => act.choose(station));
  const toggle = make("button", { type: "button", className: "switch" });
  if (station.off) {
    toggle.addEventListener("click", () => act.toggle(station.off));
    toggle.setAttribute("aria-label", `${switched(station)}: switch on or off`);
  } else {
    toggle.style.visibility = "hidden";
  }
  const canvas = make("canvas", { width: station.map ? 112 : 96 });
  canvas.setAttribute("role", "img");
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    act.choose(station, Math.floor(((event.clientY - box.top) / box.height) * state.labels.length));
  });
  const stem = make("span", { className: station.adds ? "stem" : "dot" });
  top.append(toggle);
  column.append(canvas, make("div", { className: "rail" }, stem));
  const update = () => {
    const isOff = state.off.has(station.off);
    column.classList.toggle("off", isOff);
    column.classList.toggle("chosen", state.chosen === station);
    title.setAttribute("aria-pressed", String(state.chosen === station));
    toggle.setAttribute("aria-pressed", String(!isOff));
    toggle.textContent = isOff ? "off" : "on";
    paint(canvas, station, state, ROW);
    if (station.adds) stem.style.width = `${isOff ? 0 : stemWidth(station.adds(state, state.token), state)}px`;
    const said = station.tell(state, state.token).filter((part) => typeof part === "string");
    canvas.setAttribute("aria-label", said.join(" "));
  };
  return { column, update };
}

/** The tokens, as buttons: the chosen one is the one that the lens speaks of. */
function drawTokens(state, act) {
  const column = make("div", { className: "tokens" });
  const update = () => {
    column.replaceChildren(
      make("span", { className: "head" }),
      ...state.labels.map((label, t) => {
        const button = make("button", { type: "button", textContent: sign(label) });
        button.style.height = `${ROW}px`;
        button.setAttribute("aria-pressed", String(t === state.token));
        button.addEventListener("click", () => act.choose(state.chosen, t));
        return button;
      }),
      make("span", { className: "rail" }, "residual stream"),
    );
  };
  return { column, update };
}

/** What the chosen station does with the chosen token, in numbers. */
function drawLens(state) {
  const box = make("div", { className: "lens" });
  box.setAttribute("aria-live", "polite");
  const update = () => {
    const { chosen, token, walking } = state;
    const told = chosen.tell(state, token);
    const parts = told.filter((part) => typeof part === "string").map((part) => make("p", {}, part));
    const tables = told.filter((part) => typeof part !== "string").map(table);
    const story = walking ? [make("p", { className: "story" }, walking)] : [];
    const title = make("p", {}, make("strong", {}, `${chosen.title}: ${chosen.name}. `), builtIn(chosen, state));
    box.replaceChildren(make("div", {}, ...story, title, ...parts), ...tables);
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
  return make("div", { className: "numbers", tabIndex: 0 }, whole);
}

/** The controls: examples, walk, draw; and behind one click the dials and the comparison. */
function drawControls(state, act) {
  const button = (text, press) => {
    const node = make("button", { type: "button", textContent: text });
    node.addEventListener("click", press);
    return node;
  };
  const examples = make("p", { className: "examples", hidden: !state.examples.length }, "Or try:");
  for (const text of state.examples) examples.append(" ", button(text, () => act.write(text)));
  const dial = (name, label, range) => {
    const slider = make("input", { type: "range", ...range });
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
  walk.title = "arrow keys go one step on or back";
  const more = make(
    "details",
    {},
    make("summary", {}, "More"),
    dial("temperature", "temperature", { min: 0.1, max: 3, step: 0.1, value: 1 }),
    dial("topK", "top-k", { min: 1, max: V, step: 1, value: V }),
    dial("topP", "top-p", { min: 0.05, max: 1, step: 0.05, value: 1 }),
    button("keep these bars to compare", act.keep),
    button("forget them", act.forget),
    button("everything on", act.reset),
    make("p", {}, `All ${state.words.length} words it knows: ${state.words.join("  ")}`),
  );
  const update = () => {
    walk.textContent = act.walker.isOn() ? "❚❚ pause" : state.walking ? "▶ go on" : "▶ walk through";
  };
  const row = make("p", { className: "controls" }, walk, button("draw a word", act.draw));
  return { examples, row, more, update };
}

/** The walk: one station after the other, until a press or a key that isn't its own. */
function walker(state, refresh) {
  const steps = walkOf(state.stations, state.model);
  let [timer, place] = [0, -1];
  const pause = () => {
    clearInterval(timer);
    timer = 0;
  };
  const stop = () => {
    pause();
    place = -1;
    state.walking = "";
  };
  const step = (change = 1) => {
    place = Math.max(0, place + change);
    if (place >= steps.length) {
      stop();
    } else {
      const [station, said] = steps[place];
      state.chosen = state.stations[station];
      state.walking = `${place + 1} of ${steps.length}: ${said}`;
    }
    refresh();
  };
  const play = () => {
    pause();
    timer = setInterval(step, STEP_MS);
    step();
  };
  const isOn = () => timer !== 0;
  const toggle = () => {
    if (!isOn()) return play();
    pause();
    return refresh();
  };
  return { stop, play, toggle, isOn, stepBy: (change) => (pause(), step(change)) };
}

/** State, and what a reader can do with it. */
function controller(kernel) {
  const bytes = kernel.get("_weights");
  const view = bytes instanceof DataView ? bytes : new DataView(bytes.buffer ?? bytes);
  const model = makeModel(readSafetensors(view), kernel.get("_heads"));
  const [words, stations] = [kernel.get("_words"), stationsOf(model)];
  const state = {
    model, words, stations, off: new Set(), temperature: 1, text: kernel.get("text"), walking: "",
    begin: kernel.get("_begin"), examples: kernel.get("_examples"), built: kernel.get("_built"),
    gap: words.every((word) => [...word].length === 1) ? "" : " ",
  };
  state.chosen = stations.find((s) => s.id === kernel.get("_first")) ?? stations[1];
  return state;
}

function actions(state, refresh, kernel, input) {
  const act = {
    write(text) {
      Object.assign(state, { text, token: undefined });
      input.value = text;
      kernel.set("text", text);
      kernel.save_changes();
      refresh();
    },
    choose(station, token = state.token) {
      Object.assign(state, { chosen: station, token });
      act.walker.stop();
      refresh();
    },
    toggle(part) {
      if (!state.off.delete(part)) state.off.add(part);
      act.walker.stop();
      refresh();
    },
    set: (name, value) => refresh(Object.assign(state, { [name]: value })),
    keep: () => refresh(Object.assign(state, { kept: state.all, keptText: state.text })),
    forget: () => refresh(Object.assign(state, { kept: undefined, keptText: undefined })),
    reset: () => refresh(state.off.clear()),
    draw() {
      let rest = Math.random();
      const id = state.all.findIndex((share) => (rest -= share) < 0);
      act.write(withWord(state.text, state.words[Math.max(id, 0)], state.gap));
    },
    walk: () => act.walker.toggle(),
  };
  return act;
}

function render({ model: kernel, el }) {
  const state = controller(kernel);
  const parts = [];
  const says = make("p", { className: "says" });
  says.setAttribute("aria-live", "polite");
  const refresh = () => {
    compute(state);
    says.textContent = sentence(state);
    parts.forEach((part) => part.update());
  };
  const input = make("input", { type: "text", spellcheck: false, autocomplete: "off", value: state.text });
  const act = actions(state, refresh, kernel, input);
  act.walker = walker(state, refresh);
  input.addEventListener("input", () => act.write(input.value));

  const bars = drawBars(state, act.write);
  const controls = drawControls(state, act);
  const tokens = drawTokens(state, act);
  const columns = state.stations.map((station) => drawStation(station, state, act));
  const lens = drawLens(state);
  parts.push(bars, controls, tokens, ...columns, lens);
  const flow = make("div", { className: "flow", tabIndex: 0 }, tokens.column, ...columns.map((c) => c.column));
  flow.setAttribute("role", "group");
  flow.setAttribute("aria-label", "The model, from the words on the left to the last vector on the right");
  const label = make("label", {}, "Write, and see what comes next", input);
  const top = make("div", { className: "top" }, make("div", {}, label, controls.examples, controls.row, controls.more), make("div", {}, bars.box, says));
  const legend =
    "L0 H1: layer 0, head 1; below it the lesson that builds it. Blue is positive, orange negative. " +
    "The thicker a branch on the line, the more it adds at the chosen word.";
  const root = make("section", { className: "explorer" }, top, flow, make("small", {}, legend), lens.box);
  root.setAttribute("aria-label", "A small language model, whole");
  shield(root);
  el.append(root);
  hideTable(root, "next-word-static");
  refresh();
  return autoplay(root, act.walker);
}

/** Plays the walk once when it is first seen, unless the reader wants no motion. */
function autoplay(root, walk) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    if (!still) walk.play();
  });
  seen.observe(root);
  root.addEventListener("pointerdown", (event) => event.target.className !== "walk" && walk.isOn() && walk.stop());
  root.addEventListener("keydown", (event) => {
    const change = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (change && event.target.className === "walk") walk.stepBy(change);
  });
  return () => {
    walk.stop();
    seen.disconnect();
  };
}

export default { render };
