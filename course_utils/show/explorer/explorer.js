/**
 * A whole language model in the page: the words that it expects next, every step, and what
 * changes when a part is switched off. No kernel is needed, because the forward pass is in `lm.js`.
 */

import { create as make, hideTable } from "../page/nodes.js";
import { drawn, forward, makeModel, readSafetensors, softmax } from "./lm.js";
import { readAddress, writeAddress } from "./address.js";
import { drawExplorer } from "./headline.js";
import { builtIn, drawBars, drawControls, drawLegend, drawLens, drawMore, drawTokens, GHOSTS, ROW, SHOWN, titled, withWord } from "./parts.js";
import { percent } from "./names.js";
import { likeliest, paint, stationsOf, walkOf } from "./stations.js";

const STEP_MS = [2500, 40]; // the duration of a step of the walk, and of each letter of its sentence
const REST_MS = 200; // without a change before the address is written, which is slow
const STEM = 3; // pixels for a branch whose addition is as long as the stream's first vector

/** The name of the part that a station's switch turns off. */
const switched = (station) => station.offName ?? station.name;

/** A word without the punctuation around it, unless the model knows the word with it. */
const bare = (part, words) => (words.includes(part) ? part : part.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""));

/** The tokens of a text that the model sees, and those that it doesn't know. */
function read(text, { words, begin, longest }) {
  const letters = words.every((word) => [...word].length === 1);
  const parts = letters ? [...text] : text.toLowerCase().replaceAll(".", " . ").split(/\s+/).map((part) => bare(part, words)).filter(Boolean);
  const known = parts.filter((part) => words.includes(part));
  const unknown = [...new Set(parts.filter((part) => !words.includes(part)))];
  const labels = [...(begin ? [begin] : []), ...known].slice(-longest);
  return { labels: labels.length ? labels : [words[0]], unknown, cut: known.length >= longest };
}

/** Computes the results for the present text, and also with every part switched on. */
function compute(state) {
  const { model, words } = state;
  Object.assign(state, read(state.text, { ...state, longest: model.longest }));
  state.ids = state.labels.map((label) => words.indexOf(label));
  if (state.token === undefined || state.token >= state.labels.length) state.token = state.labels.length - 1;
  state.pass = forward(model, state.ids, state.off);
  const last = (pass) => pass.logits.subarray(-model.vocabulary);
  state.all = drawn(last(state.pass), state);
  state.uncut = softmax(last(state.pass), state.temperature);
  const whole = state.off.size ? drawn(last(forward(model, state.ids)), state) : state.all;
  Object.assign(state, { shares: state.all, wholeShares: whole });
  const before = state.kept ?? (state.off.size ? whole : []);
  state.next = likeliest(state.all, words, { before, count: SHOWN, besides: GHOSTS, uncut: state.uncut });
  state.before = new Map(words.map((word, id) => [word, before[id]]));
  [state.whole] = likeliest(whole, words);
}

/** The names of the parts that are switched off, or their number. */
function without({ off, stations }) {
  const names = stations.filter((s) => off.has(s.off)).map(switched);
  return names.length > 2 ? `${names.length} parts` : names.join(" and ");
}

const spoken = ({ labels, begin, gap }) =>
  labels.slice(labels[0] === begin ? 1 : 0).join(gap).replaceAll(" .", ".");

function sentence(state) {
  const { labels, next, off, whole, kept, keptText, unknown, cut } = state;
  const text = spoken(state);
  const name = (w) => (w === "." ? "the full stop" : `“${w}”`);
  const [[word, share], [second, other]] = next;
  let said = text ? `after “${text}” the model expects ` : "at the beginning the model expects ";
  said += `${name(word)} (${percent(share)})`;
  said += other >= 0.005 ? `, then ${name(second)} (${percent(other)}).` : ".";
  said = off.size ? `Without ${without(state)}, ${said}` : said[0].toUpperCase() + said.slice(1);
  if (off.size) said += ` With everything on (grey bars): ${name(whole[0])} (${percent(whole[1])}).`;
  if (kept) said += ` The grey bars are those of ${keptText}.`;
  if (unknown.length) said += ` It doesn't know ${unknown.slice(0, 3).map((w) => `“${w}”`).join(" and ")} and skips ${unknown.length > 1 ? "them" : "it"}.`;
  if (cut) said += ` It reads only the last ${labels.length} words.`;
  return said;
}

/** The thickness of a branch, from the length of the vector that it adds. */
function stemWidth(adds, { pass, model, token }) {
  const start = pass.stream[0].subarray(token * model.width, (token + 1) * model.width);
  return Math.min(14, Math.max(1, (STEM * Math.hypot(...adds)) / Math.hypot(...start)));
}

/** One column: a heading to choose it, a switch, and a picture of all tokens. */
function drawStation(station, state, act) {
  const title = make("button", { type: "button", className: "title", textContent: station.title });
  title.title = `${titled(station)}. ${builtIn(station, state)}`;
  const mark = make("small", {}, `${station.lesson}${state.built?.includes(station.lesson) ? " ✓" : ""}`);
  const top = make("div", { className: "head" }, title, mark);
  const column = make("div", { className: station.switchName ? "station wide" : "station" }, top);
  title.addEventListener("click", () => act.choose(station));
  const toggle = make("button", { type: "button", className: "switch" });
  if (station.off) {
    toggle.addEventListener("click", () => act.toggle(station.off));
    toggle.setAttribute("aria-label", `${switched(station)}: switch on or off`);
    toggle.title = `switch ${switched(station)} on or off`;
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
    toggle.textContent = `${station.switchName ?? ""}${isOff ? "off" : "on"}`;
    if (station.switchName) toggle.setAttribute("aria-label", `${toggle.textContent.replace("\n", " ")}: switch on or off`);
    paint(canvas, station, state, ROW);
    if (station.adds) stem.style.width = `${isOff ? 0 : stemWidth(station.adds(state, state.token), state)}px`;
    const said = station.tell(state, state.token).filter((part) => typeof part === "string");
    canvas.setAttribute("aria-label", said.join(" "));
    if (state.walking && state.chosen === station) {
      const flow = column.closest(".flow"); // the page itself doesn't scroll
      if (flow) flow.scrollLeft = column.offsetLeft - flow.offsetLeft - flow.clientWidth / 2;
    }
  };
  return { column, update };
}

/** Walks through the stations one after the other, until a press or a key stops it. */
function walker(state, refresh) {
  const steps = walkOf(state.stations, state.model);
  let [timer, place] = [0, -1];
  const pause = () => {
    clearTimeout(timer);
    timer = 0;
  };
  const stop = () => {
    pause();
    place = -1;
    state.walking = "";
  };
  const show = () => {
    const [station, say] = steps[place];
    state.chosen = state.stations[station];
    state.walking = `${place + 1} of ${steps.length}: ${say(state)}`;
    refresh();
  };
  const play = () => {
    pause();
    place = state.walking && place < steps.length - 1 ? place + 1 : 0;
    state.walking = " "; // the walk is on, although nothing is shown before the first step
    timer = 1;
    show();
    const next = () => (place < steps.length - 1 ? play() : (pause(), refresh()));
    timer = setTimeout(next, STEP_MS[0] + STEP_MS[1] * state.walking.length);
  };
  const isOn = () => timer !== 0;
  const ends = () => ({ first: place <= 0, last: place === steps.length - 1 });
  const stepBy = (change) => {
    pause();
    place = Math.min(Math.max(place + change, 0), steps.length - 1);
    show();
  };
  const toggle = () => {
    if (!isOn()) return play();
    pause();
    return refresh();
  };
  return { stop, toggle, isOn, stepBy, ends };
}

/** The state, which goes on from that of a box drawn earlier. */
function controller(kernel, earlier = { off: new Set() }) {
  const bytes = kernel.get("_weights");
  const view = bytes instanceof DataView ? bytes : new DataView(bytes.buffer ?? bytes);
  const model = makeModel(readSafetensors(view), kernel.get("_heads"), kernel.get("_modern"));
  const [words, stations] = [kernel.get("_words"), stationsOf(model)];
  const state = Object.assign(earlier, {
    model, words, stations, temperature: 1, text: kernel.get("text"), walking: "",
    begin: kernel.get("_begin"), examples: kernel.get("_examples"), built: kernel.get("_built"),
    gap: words.every((word) => [...word].length === 1) ? "" : " ", linked: kernel.get("_linked"),
    pairs: kernel.get("_pairs") ?? [], onward: kernel.get("_onward"),
  });
  state.chosen = stations.find((s) => s.id === kernel.get("_first")) ?? stations[1];
  if (state.linked) readAddress(state);
  return state;
}

/** What a reader can do, given to a box drawn earlier, too. */
function actions(state, refresh, kernel, input, act = {}) {
  Object.assign(act, {
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
    keep() {
      const keptText = `“${spoken(state)}”${state.off.size ? ` without ${without(state)}` : ""}`;
      refresh(Object.assign(state, { kept: state.all, keptText }));
    },
    reset: () => refresh(Object.assign(state, { kept: undefined, off: new Set() })),
    draw() {
      let rest = Math.random();
      const id = state.all.findIndex((share) => (rest -= share) < 0);
      act.write(withWord(state.text, state.words[Math.max(id, 0)], state.gap));
    },
    walk: () => act.walker.toggle(),
  });
  return act;
}

function render({ model: kernel, el }) {
  const box = kernel.get("_box"); // drawn before the model was there
  const state = controller(kernel, box?.state);
  const parts = [];
  const says = make("p", { className: "says" });
  says.setAttribute("aria-live", "polite");
  const story = make("p", { className: "story" });
  let written = 0;
  const refresh = () => {
    compute(state);
    says.textContent = sentence(state);
    story.textContent = state.walking;
    guide.classList.toggle("walking", Boolean(state.walking));
    parts.forEach((part) => part.update());
    // The address is written once something is changed: until then it may lead to a section.
    clearTimeout(written);
    if (state.linked && root.isConnected) written = setTimeout(writeAddress, REST_MS, state);
  };
  const input = make("input", { type: "text", spellcheck: false, autocomplete: "off", value: state.text });
  const act = actions(state, refresh, kernel, input, box?.act);
  act.walker = walker(state, refresh);
  input.addEventListener("input", () => act.write(input.value));

  const bars = drawBars(state, act.write);
  const { headline, root } = box ?? drawExplorer(state, act, kernel.get("_said"));
  const controls = drawControls(state, act);
  const tokens = drawTokens(state, act);
  const columns = state.stations.map((station) => drawStation(station, state, act));
  const lens = drawLens(state);
  parts.push(bars, controls, tokens, ...columns, lens, headline); // the arcs need the layout of all others
  const flow = make("section", { className: "flow", tabIndex: 0 }, tokens.column, ...columns.map((c) => c.column));
  flow.setAttribute("role", "group");
  flow.setAttribute("aria-label", "The model, from the words on the left to the last vector on the right");
  const label = make("label", {}, "Write, and see what comes next", input);
  const top = make("div", { className: "top" }, make("div", {}, label, controls.examples, controls.known, says), bars.box);
  const guide = make("div", { className: "guide" }, drawLegend(), story);
  root.append(top, controls.row, controls.more, guide, flow, lens.box, drawMore(state));
  refresh();
  if (!box) el.append(root);
  hideTable(root, "next-word-static");
  return listen(root, act.walker);
}

/** A press elsewhere stops the walk, and arrow keys step through it. */
function listen(root, walk) {
  root.addEventListener("pointerdown", (event) => {
    // Without the focus, the keys that follow a press on a text would be commands to the notebook.
    if (!event.target.closest("input, button, summary, [tabindex='0']")) root.focus({ preventScroll: true });
    if (event.target.className !== "walk" && walk.isOn()) walk.stop();
  });
  root.addEventListener("keydown", (event) => {
    const change = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (change && event.target.className === "walk") walk.stepBy(change);
  });
  return () => walk.stop();
}

export default { render };
