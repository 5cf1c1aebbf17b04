/** The box before the model is there: it shows what the model gave when the page was made, and the
 * explorer takes it over. A script in the page's text, after the state. */

import { drawExplorer } from "./headline.js";

function draw(place) {
  const given = JSON.parse(place.querySelector("script").textContent);
  const { labels, weights, shares, without } = given._measured;
  const head = { off: given._first, map: () => weights };
  const state = {
    words: given._words, begin: given._begin, pairs: given._pairs, onward: given._onward, gap: " ",
    labels, stations: [head], chosen: head, token: labels.length - 1, off: new Set(), wholeShares: shares,
  };
  const refresh = () => {
    state.shares = state.off.size ? without : shares;
    place.box.headline.update();
  };
  const act = {
    toggle(part) {
      if (!state.off.delete(part)) state.off.add(part);
      refresh();
    },
    choose(_, token) {
      state.token = token;
      refresh();
    },
  };
  place.box = drawExplorer(state, act, given._said);
  refresh();
  place.append(place.box.root);
}

// A link to another text has to wait for the model.
if (!new URLSearchParams(location.hash.slice(1)).has("text")) draw(document.currentScript.parentElement);
