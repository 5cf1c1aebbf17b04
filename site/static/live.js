// Maps and explorers in a page without a kernel: the notebook's own widgets, each with a model that
// keeps its state. Without this script the tables stay.

/** What a widget asks of Jupyter: one state, and whom to tell when it changes. */
class Model {
  constructor(state) {
    this.state = state;
    this.listeners = new Map();
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    if (typeof name === "object") {
      for (const [key, one] of Object.entries(name)) this.set(key, one);
      return;
    }
    if (this.state[name] === value) return;
    this.state[name] = value;
    for (const event of [`change:${name}`, "change"]) {
      for (const listener of this.listeners.get(event) ?? []) listener();
    }
  }
  on(names, listener) {
    for (const name of names.split(" ")) {
      if (!this.listeners.has(name)) this.listeners.set(name, new Set());
      this.listeners.get(name).add(listener);
    }
  }
  off(names, listener) {
    for (const name of (names ?? "").split(" ")) this.listeners.get(name)?.delete(listener);
  }
  save_changes() {}
  send() {}
}

/** The state with its buffers where they belong: `{"_data/scores/bytes": base64}`. */
function unpacked(state, buffers) {
  for (const [path, data] of Object.entries(buffers)) {
    const names = path.split("/");
    const last = names.pop();
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    names.reduce((place, name) => place[name], state)[last] = new DataView(bytes.buffer);
  }
  return state;
}

/** Pages opened from disk may import no file, so the widgets' sources come as texts. */
const modules = new Map();
function load(name) {
  if (!modules.has(name)) {
    const source = new Blob([globalThis.courseWidgets[name]], { type: "text/javascript" });
    modules.set(name, import(URL.createObjectURL(source)));
  }
  return modules.get(name);
}

async function mount(place) {
  const [state, given] = [...place.querySelectorAll("script[type]")].map((part) => JSON.parse(part.textContent));
  const { default: found } = await load(given.widget);
  const widget = typeof found === "function" ? await found() : found;
  const model = new Model(unpacked(state, given.buffers ?? globalThis.courseStart));
  if (place.box) state._box = place.box; // drawn by the page itself
  const el = document.createElement("div");
  el.className = "course-unfinished"; // over the table, so that it moves nothing until it takes its place
  place.append(el);
  await widget.initialize?.({ model });
  await widget.render({ model, el });
  place.querySelector(".course-table").hidden = true;
  el.className = "";
}

for (const place of document.querySelectorAll(".course-live")) mount(place);
