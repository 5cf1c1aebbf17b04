/** The state of a page of its own in its address, so that a link leads to what somebody saw. */

/** Takes sentence, word, part and switches from the address, as far as the model has them. */
export function readAddress(state) {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.has("text")) state.text = asked.get("text").slice(0, 500);
  const part = state.stations.find((s) => s.id === asked.get("part"));
  if (part) state.chosen = part;
  const word = Number.parseInt(asked.get("word") ?? "", 10);
  if (word >= 0) state.token = word;
  const parts = new Set(state.stations.map((s) => s.off).filter(Boolean));
  for (const off of (asked.get("off") ?? "").split(" ")) if (parts.has(off)) state.off.add(off);
}

/** The address of what is shown. */
export function addressOf({ text, chosen, token, labels, off }) {
  const told = new URLSearchParams({ text, part: chosen.id });
  if (token !== labels.length - 1) told.set("word", String(token));
  if (off.size) told.set("off", [...off].join(" "));
  return `#${told}`;
}

export function writeAddress(state) {
  const now = addressOf(state);
  if (now !== location.hash) history.replaceState(null, "", now);
}
