/**
 * The forward pass of `TinyLM` (lesson 10) and of `ModernLM` (lesson 16), in which every intermediate
 * result is kept and any part can be switched off. Matrices are flat `Float32Array`s, one row after the
 * other. A model has what its parameters show: RMSNorm has no shift, SwiGLU a gate, and rotary positions
 * no table.
 */

import { softmax as weigh } from "../page/arithmetic.js";

const EPS = 1e-5; // of LayerNorm

const POWERS = Array.from({ length: 32 }, (_, exponent) => 2 ** (exponent - 15));

/** @param {Uint16Array} bits float16s */
function halves(bits) {
  const Native = /** @type {any} */ (globalThis).Float16Array; // in browsers since 2025
  if (Native) return new Float32Array(new Native(bits.buffer, bits.byteOffset, bits.length));
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i += 1) {
    const [exponent, fraction] = [(bits[i] >> 10) & 31, bits[i] & 1023];
    const size = exponent ? POWERS[exponent] * (1 + fraction / 1024) : fraction * 2 ** -24;
    numbers[i] = bits[i] >> 15 ? -size : size;
  }
  return numbers;
}

/** The tensors of a safetensors file: `{name: {shape, numbers}}`. @param {DataView} view */
export function readSafetensors(view) {
  const size = Number(view.getBigUint64(0, true));
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const data = bytes.slice(8 + size + offsets[0], 8 + size + offsets[1]).buffer;
    const numbers = dtype === "F16" ? halves(new Uint16Array(data)) : new Float32Array(data);
    tensors[name] = { shape, numbers };
  }
  return tensors;
}

/**
 * @param {object} tensors of `readSafetensors` @param {number} heads in each layer
 * @param {{longest?: number, base?: number, window?: number, eps?: number}} modern of a `ModernLM`
 */
export function makeModel(tensors, heads, modern = {}) {
  const get = (name) => tensors[name]?.numbers;
  const table = "embed.weight" in tensors ? "embed.weight" : "embed.token.weight";
  const [vocabulary, width] = tensors[table].shape;
  const shared = tensors["blocks.0.attention.key.weight"].shape[0]; // numbers in a token's keys
  let layers = 0;
  while (`blocks.${layers}.norm1.scale` in tensors) layers += 1;
  const longest = tensors["embed.position.weight"]?.shape[0] ?? modern.longest;
  return { get, table, vocabulary, width, shared, layers, heads, longest, ...modern };
}

/** `rows` times a linear layer: (T, I) -> (T, O). */
function linear(rows, { get, name, inputs }) {
  const [weight, bias] = [get(`${name}.weight`), get(`${name}.bias`)];
  const outputs = weight.length / inputs;
  const result = new Float32Array((rows.length / inputs) * outputs);
  for (let t = 0, at = 0; t < rows.length; t += inputs) {
    for (let o = 0; o < outputs; o += 1, at += 1) {
      let sum = bias ? bias[o] : 0;
      for (let i = 0; i < inputs; i += 1) sum += rows[t + i] * weight[o * inputs + i];
      result[at] = sum;
    }
  }
  return result;
}

/** Normalises each row to mean 0 and variance 1, then scales and shifts it; RMSNorm keeps the mean. */
function normalise(rows, { get, width, eps = EPS }, name) {
  const [scale, shift] = [get(`${name}.scale`), get(`${name}.shift`)];
  const result = new Float32Array(rows.length);
  for (let t = 0; t < rows.length; t += width) {
    const row = rows.subarray(t, t + width);
    const mean = shift ? row.reduce((a, b) => a + b, 0) / width : 0;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / width;
    const size = Math.sqrt(variance + eps);
    row.forEach((x, c) => (result[t + c] = ((x - mean) / size) * scale[c] + (shift ? shift[c] : 0)));
  }
  return result;
}

/** Rotates neighbouring channels of each head by the row's position (lesson 09's `apply_rope`). */
function rotate(rows, total, size, base) {
  const result = new Float32Array(rows.length);
  for (let at = 0; at < rows.length; at += 2) {
    const angle = Math.floor(at / total) * base ** (-(at % size) / size);
    const [a, b, cos, sin] = [rows[at], rows[at + 1], Math.cos(angle), Math.sin(angle)];
    result[at] = a * cos - b * sin;
    result[at + 1] = a * sin + b * cos;
  }
  return result;
}

const silu = (x) => x / (1 + Math.exp(-x));
const gelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const plus = (a, b) => a.map((x, i) => x + b[i]);

/** The softmax of the scores. @param {ArrayLike<number>} scores */
export const softmax = (scores, temperature = 1) =>
  Array.from(weigh(Float64Array.from(scores), temperature).weights);

/** The probabilities for drawing a word; words that top-k or top-p leaves out have 0. */
export function drawn(logits, { temperature = 1, topK = Infinity, topP = 1 } = {}) {
  const shares = softmax(logits, temperature);
  const order = shares.map((_, id) => id).sort((a, b) => shares[b] - shares[a]);
  let [total, count] = [0, 0];
  while (count < order.length && count < topK && (count === 0 || total < topP)) {
    total += shares[order[count]];
    count += 1;
  }
  const kept = new Set(order.slice(0, count));
  return shares.map((share, id) => (kept.has(id) ? share / total : 0));
}

/** Where the keys and values of a head begin in a row: neighbouring heads may share them. */
export const sharedBy = (head, { width, heads, shared }) => Math.floor((head * shared) / width) * (width / heads);

/** Computes a head's scores and weights (T rows of t + 1 numbers), and writes its context to `context`. */
function attend(head, { query, key, value }, model, context, isOff) {
  const { width, heads, shared, window } = model;
  const [size, from, other] = [width / heads, (head * width) / heads, sharedBy(head, model)];
  const score = (t, s) => {
    if (window && t - s >= window) return -Infinity;
    let sum = 0;
    for (let d = 0; d < size; d += 1) sum += query[t * width + from + d] * key[s * shared + other + d];
    return sum / Math.sqrt(size);
  };
  const scores = [];
  for (let t = 0; t < query.length / width; t += 1) {
    scores.push(Array.from({ length: t + 1 }, (_, s) => score(t, s)));
  }
  const weights = scores.map((row) => softmax(row));
  if (!isOff) {
    weights.forEach((row, t) =>
      row.forEach((weight, s) => {
        for (let d = 0; d < size; d += 1) {
          context[t * width + from + d] += weight * value[s * shared + other + d];
        }
      }),
    );
  }
  return { scores, weights };
}

/**
 * All results that the model computes for these ids.
 *
 * @param {Set<string>} off parts that are switched off: "positions", "0.mlp", "1.head.0"
 * @returns `stream`, the residual stream (T, C) after each station; `layers`, the results of each layer
 */
export function forward(model, ids, off = new Set()) {
  const { get, width, heads, shared, base } = model;
  const [token, position] = [get(model.table), get("embed.position.weight")];
  const embedded = new Float32Array(ids.length * width);
  ids.forEach((id, t) => {
    for (let c = 0; c < width; c += 1) {
      const place = off.has("positions") || !position ? 0 : position[t * width + c];
      embedded[t * width + c] = token[id * width + c] + place;
    }
  });
  const stream = [embedded];
  const layers = [];
  for (let l = 0; l < model.layers; l += 1) {
    const block = `blocks.${l}`;
    const layer = (rows, name, inputs = width) => linear(rows, { get, name: `${block}.${name}`, inputs });
    const normed = normalise(stream.at(-1), model, `${block}.norm1`);
    const projected = {};
    for (const name of ["query", "key", "value"]) projected[name] = layer(normed, `attention.${name}`);
    if (!position && !off.has("positions")) {
      projected.query = rotate(projected.query, width, width / heads, base);
      projected.key = rotate(projected.key, shared, width / heads, base);
    }
    const context = new Float32Array(embedded.length);
    const found = Array.from({ length: heads }, (_, h) =>
      attend(h, projected, model, context, off.has(`${l}.head.${h}`)),
    );
    stream.push(plus(stream.at(-1), layer(context, "attention.out_proj")));
    const again = normalise(stream.at(-1), model, `${block}.norm2`);
    const expanded = layer(again, "feed_forward.expand");
    const isGated = get(`${block}.feed_forward.gate.weight`) !== undefined;
    const gate = isGated ? layer(again, "feed_forward.gate").map(silu) : undefined;
    const neurons = expanded.map((x, i) => (gate ? gate[i] * x : gelu(x)));
    const added = layer(neurons, "feed_forward.contract", neurons.length / ids.length);
    stream.push(off.has(`${l}.mlp`) ? stream.at(-1) : plus(stream.at(-1), added));
    layers.push({ ...projected, heads: found, gate, expanded, neurons, added });
  }
  return { stream, layers, logits: logitsOf(model, stream.at(-1)) };
}

/** A head's context for token t (D numbers), and its addition to the stream (C, without the bias). */
export function headAdds(model, pass, [l, h], t) {
  const { get, width, heads, shared } = model;
  const [size, from] = [width / heads, sharedBy(h, model)];
  const { value, heads: found } = pass.layers[l];
  const mixed = new Float32Array(size);
  found[h].weights[t].forEach((weight, s) =>
    mixed.forEach((_, d) => (mixed[d] += weight * value[s * shared + from + d])),
  );
  const weight = get(`blocks.${l}.attention.out_proj.weight`);
  const adds = new Float32Array(width).map((_, c) =>
    mixed.reduce((sum, x, d) => sum + x * weight[c * width + h * size + d], 0),
  );
  return { mixed, adds };
}

/** The logits that the last norm and the output layer give at any station: (T, C) -> (T, V). */
export function logitsOf(model, rows) {
  const name = model.get("head.weight") ? "head" : model.table.replace(".weight", "");
  return linear(normalise(rows, model, "norm"), { get: model.get, name, inputs: model.width });
}
