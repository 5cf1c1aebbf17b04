/** The stations (steps) of the model: the name, picture and text of each for one token. */

import { colourOf, fillStripes, shadeOf } from "../page/paint.js";
import { looks, names, number as digits } from "../page/words.js";
import { headAdds, logitsOf, sharedBy, softmax } from "./lm.js";
import { nameAt, nameOf, percent } from "./names.js";

const CHANNELS = 5; // the number of a vector's channels that are written out
const NEURONS = 5; // the number of strongest neurons, and of words, that are written out
const KEYS = 10; // the number of a row's largest weights that are written out

const number = (x) => digits(x, 2);
const rowOf = (rows, t, size) => rows.subarray(t * size, (t + 1) * size);
const vector = (row, count = CHANNELS) => `(${Array.from(row.subarray(0, count), number).join(", ")}, …)`;
const norm = (row) => Math.hypot(...row);

/** The most likely words, and `besides` words that were the most likely `before`: `[[word, share], …]`. */
export function likeliest(shares, words, { count = 3, before = [], besides = 0, uncut = shares } = {}) {
  const named = shares.map((share, id) => [words[id], share, before[id] ?? 0, uncut[id]]);
  const now = [...named].sort((a, b) => b[1] - a[1] || b[3] - a[3]).slice(0, count);
  const then = named.filter((word) => word[2] > 0).sort((a, b) => b[2] - a[2]).slice(0, 4);
  const added = then.filter((word) => !now.includes(word)).slice(0, besides);
  return [...now, ...added];
}

/** Whether it is a `ModernLM`, whose parts lesson 16 builds. */
const isModern = (model) => model.table === "embed.weight";

/** A station of the stream: each token's vector, and the prediction of a model that ends here. */
function streamStation(at, title, name, extra = {}) {
  return {
    id: `stream.${at}`,
    title,
    name,
    lesson: "08",
    rows: ({ pass, model }) => ({ numbers: pass.stream[at], size: model.width, signed: true }),
    tell(state, t) {
      const { pass, model, words } = state;
      const [row, token] = [rowOf(pass.stream[at], t, model.width), nameAt(state, t)];
      const logits = logitsOf(model, row);
      const next = likeliest(softmax(logits), words, { count: NEURONS });
      const expected = next.slice(0, 3).map(([word, share]) => `“${nameOf(word, state)}” ${percent(share)}`).join(", ");
      return [
        `The vector of “${token}” here: ${vector(row)}, ${model.width} numbers, of length ${number(norm(row))}.`,
        `If the model ended here, it would expect after “${token}”: ${expected}.`,
        {
          heads: ["next word", `${isModern(model) ? "RMS" : "Layer"}Norm(x) · its row = logit`, "softmax"],
          rows: next.map(([word, share]) => [nameOf(word, state), number(logits[words.indexOf(word)]), percent(share)]),
        },
      ];
    },
    ...extra,
  };
}

function embedding(model) {
  const station = streamStation(0, "words as\nvectors", "the embedding", {
    off: "positions",
    offName: "the positions",
    switchName: "positions\n",
    lesson: isModern(model) ? "16" : "09",
  });
  const { tell } = station;
  station.tell = (state, t) => {
    const { model, ids, off } = state;
    const token = `“${nameAt(state, t)}”: ${vector(rowOf(model.get(model.table), ids[t], model.width))}`;
    const isOff = off.has("positions");
    if (isModern(model)) {
      const rotated = isOff ? "Rotation is switched off." : `The heads rotate its queries and keys by position ${t}.`;
      return [`${token}. ${rotated}`, ...tell(state, t)];
    }
    const place = isOff ? "(switched off)" : vector(rowOf(model.get("embed.position.weight"), t, model.width));
    return [`${token} + position ${t}: ${place}.`, ...tell(state, t)];
  };
  return station;
}

/** A phrase that says how far a branch moves the stream. */
function moved({ pass, model, off }, { at, part, adds, t }) {
  if (off.has(part)) return "Switched off, it adds nothing to the stream.";
  const length = number(norm(rowOf(pass.stream[at], t, model.width)));
  return `It adds a vector of length ${number(norm(adds))} to the stream, which had length ${length}.`;
}

function head(l, h, lesson) {
  const part = `${l}.head.${h}`;
  return {
    id: part,
    title: `block ${l}\nhead ${h}`,
    name: `head ${h} of block ${l}`,
    lesson,
    off: part,
    map: ({ pass }) => pass.layers[l].heads[h].weights,
    adds: ({ model, pass }, t) => headAdds(model, pass, [l, h], t).adds,
    tell(state, t) {
      const { model, pass, labels } = state;
      const { scores, weights } = pass.layers[l].heads[h];
      const [row, size, most] = [weights[t], model.width / model.heads, Math.max(...scores[t])];
      const largest = row.map((_, s) => s).sort((a, b) => row[b] - row[a]);
      const shown = largest.slice(0, KEYS).sort((a, b) => a - b);
      const value = (s) => rowOf(pass.layers[l].value, s, model.shared).subarray(sharedBy(h, model));
      const { mixed, adds } = headAdds(model, pass, [l, h], t);
      const named = names(labels.map((_, s) => nameAt(state, s)));
      const seen = { masked: scores[t], weights: Float64Array.from(row) };
      return [
        `${looks(seen, named[t], named.slice(0, t + 1))}.`,
        moved(state, { at: 2 * l, part, adds, t }),
        {
          heads: ["key", `q · k / √${size}`, `exp(… − ${number(most)})`, "weight", "value"],
          rows: [
            ...shown.map((s) => [
              nameAt(state, s), number(scores[t][s]), number(Math.exp(scores[t][s] - most)), number(row[s]), vector(value(s), 3),
            ]),
            [row.length > KEYS ? `all ${row.length} (above: the ${KEYS} largest)` : "all", "", number(1 / row[largest[0]]), "1.00", vector(mixed, 3)],
          ],
        },
      ];
    },
  };
}

function mlp(l, lesson) {
  const part = `${l}.mlp`;
  const adds = ({ model, pass }, t) => rowOf(pass.layers[l].added, t, model.width);
  return {
    id: part,
    title: `block ${l}\nnetwork`,
    name: `the feed-forward network of block ${l}`,
    lesson,
    off: part,
    adds,
    rows: ({ pass, ids }) => {
      const numbers = pass.layers[l].neurons;
      return { numbers, size: numbers.length / ids.length, signed: true };
    },
    tell(state, t) {
      const { pass, ids } = state;
      const { gate, expanded, neurons } = pass.layers[l];
      const size = neurons.length / ids.length;
      const [before, after] = [rowOf(expanded, t, size), rowOf(neurons, t, size)];
      const strongest = Array.from(after, (x, i) => [i, x]).sort((a, b) => b[1] - a[1]);
      return [
        `The feed-forward network at “${nameAt(state, t)}”: the strongest ${NEURONS} of its ${size} neurons.`,
        moved(state, { at: 2 * l + 1, part, adds: adds(state, t), t }),
        {
          heads: gate ? ["neuron", "gate (silu)", "content", "product"] : ["neuron", "comes in", "GELU gives"],
          rows: strongest.slice(0, NEURONS).map(([i, x]) => {
            const opened = gate ? [number(gate[t * size + i])] : [];
            return [String(i), ...opened, number(before[i]), number(x)];
          }),
        },
      ];
    },
  };
}

/** All stations of a model, from left to right. */
export function stationsOf(model) {
  const stations = [embedding(model)];
  const [attention, network] = isModern(model) ? ["16", "16"] : ["04", "08"];
  for (let l = 0; l < model.layers; l += 1) {
    for (let h = 0; h < model.heads; h += 1) stations.push(head(l, h, attention));
    stations.push(streamStation(2 * l + 1, "after\nheads", `the stream after the heads of block ${l}`), mlp(l, network));
    stations.push(streamStation(2 * l + 2, "after\nnetwork", `the stream after the feed-forward network of block ${l}`));
  }
  return stations;
}

/** The sentences of the walk, one per station, made from the state. */
export function walkOf(stations, model) {
  const { layers } = model;
  const at = (id) => stations.findIndex((s) => s.id === id);
  const last = layers - 1;
  const top = ({ model, pass, words }, i) => {
    const row = pass.stream[i].subarray(-model.width);
    return likeliest(softmax(logitsOf(model, row)), words, { count: 1 })[0][0];
  };
  return [
    [at("stream.0"), () => `Each word becomes a vector: a row of a table${isModern(model) ? "" : ", plus a row for its position"}.`],
    [at("0.head.0"), () => "A head compares each word with those before it and mixes their vectors by these weights."],
    [at("stream.1"), () => "The results of the heads are added to the vector. The line below runs through the whole model: the residual stream."],
    [at("0.mlp"), () => "A small network, the feed-forward network, works on each word alone, and its result is added too."],
    [at(`stream.${2 * last}`), (state) => `If the model ended here, it would expect “${top(state, 2 * last)}”.`],
    [
      at(`${last}.head.0`),
      (state) => `After the heads of this last block it would expect “${top(state, 2 * last + 1)}”. Switch heads off and watch the bars.`,
    ],
    [stations.length - 1, () => "From the last vector of the last word come the bars: what the model expects next."],
  ];
}

/** Draws a station's column with `height` pixels per token; blue is positive, orange negative. */
export function paint(canvas, station, state, height) {
  const { labels, token } = state;
  const brush = canvas.getContext("2d");
  canvas.height = labels.length * height; // this also clears it
  canvas.style.height = `${canvas.height}px`;
  if (station.map) {
    const side = canvas.width / labels.length;
    station.map(state).forEach((row, t) =>
      row.forEach((x, s) => {
        brush.fillStyle = colourOf(shadeOf(x, 1));
        brush.fillRect(s * side, t * height + 1, side - 1, height - 2);
      }),
    );
  } else {
    fillStripes(canvas, station.rows(state), height);
  }
  brush.strokeStyle = "rgba(38,122,209,0.9)";
  brush.strokeRect(0.5, token * height + 0.5, canvas.width - 1, height - 1);
}
