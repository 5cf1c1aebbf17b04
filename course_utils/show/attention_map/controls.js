// The controls above the map, the steps, and the fields for the section of a long map.

import { clamp, outside } from "../page/arithmetic.js";
import { create, labelled, write } from "../page/nodes.js";
import { keyOf, roundedTemperature, told, WHOLE } from "./state.js";
import { TRAIL } from "./steps.js";

/**
 * @typedef {import("./state.js").AttentionMap} AttentionMap
 * @typedef {import("./state.js").Draw} Draw
 * @typedef {import("./state.js").Part} Part
 */

/** @type {(map: AttentionMap, name: "layer" | "head", size: number) => Part} */
function drawPicker(map, name, size) {
  const { headNames } = map.sent;
  const options = Array.from({ length: size }, (_, k) => create("option", { value: k }, `${k}`));
  const select = create("select", {}, ...options);
  select.onchange = () => map.set({ [name]: Number(select.value) });
  const paint = () => {
    if (name === "head" && headNames)
      options.forEach((option, k) => write(option, `${k}: ${headNames[map.get("layer")][k]}`));
    select.value = map.get(name);
  };
  return { node: labelled(`${name} `, select), paint };
}

/** @type {Draw} */
function drawOverviewButton(map) {
  const node = create("button", { type: "button" });
  node.onclick = () => map.set({ overview: !map.get("overview") });
  const paint = () => {
    write(node, map.get("overview") ? "← back to one head" : "all heads");
    node.setAttribute("aria-pressed", map.get("overview"));
  };
  return { node, paint };
}

/** @type {Draw} */
function drawTemperature(map) {
  // Logarithmic: an arrow key multiplies by 1.12, so 20 presses lead from 1 to 0.1.
  const slider = create("input", { type: "range", min: -1, max: 1, step: 0.05 });
  const read = () => Number((10 ** slider.valueAsNumber).toPrecision(3));
  slider.oninput = () => map.set({ temperature: read() });
  const reading = create("output");
  const reset = create(
    "button",
    {
      type: "button",
      onclick: () => map.set({ temperature: 1 }),
      "aria-label": "reset temperature",
    },
    "reset",
  );
  function paint() {
    const temperature = roundedTemperature(map);
    // While the slider is dragged, its position isn't changed.
    if (read() !== temperature) slider.value = `${Math.log10(temperature)}`;
    slider.setAttribute("aria-valuetext", `${temperature}`);
    write(reading, `${temperature}`);
  }
  const node = create("span", {}, labelled("temperature ", slider), " ", reading, " ", reset);
  return { node, paint };
}

/** @type {(map: AttentionMap, name: string) => Part} */
function drawMaskSwitch(map, name) {
  const box = create("input", { type: "checkbox", name });
  /** @param {string} mask */
  const isOn = (mask) => (mask === name ? box.checked : map.get("active_masks").includes(mask));
  box.onchange = () => map.set({ active_masks: map.sent.masks.filter(isOn) });
  const paint = () => {
    box.checked = map.get("active_masks").includes(name);
  };
  return { node: labelled(box, name === "hidden" ? " mask" : ` ${name} mask`), paint };
}

/**
 * A switch for a setting that only the page knows.
 * @type {(map: AttentionMap, name: "columns" | "fitted", text: string) => Part}
 */
export function drawSwitch(map, name, text) {
  const { view, get, painter } = map;
  const box = create("input", { type: "checkbox", name });
  box.onchange = () => {
    if (name === "columns") view.kept = { row: get("row"), key: keyOf(map) };
    view[name] = box.checked;
    painter.soon();
  };
  const paint = () => {
    box.checked = view[name];
  };
  return { node: labelled(box, ` ${text}`), paint };
}

/** @type {Draw} */
export function drawControls(map) {
  const { numLayers, numHeads, masks } = map.sent;
  const parts = [
    ...(numLayers > 1 ? [drawPicker(map, "layer", numLayers)] : []),
    ...(numHeads > 1 ? [drawPicker(map, "head", numHeads)] : []),
    ...(numLayers * numHeads > 1 ? [drawOverviewButton(map)] : []),
    drawTemperature(map),
    ...masks.map((name) => drawMaskSwitch(map, name)),
  ];
  const node = create("div", { className: "controls" }, ...parts.map((part) => part.node));
  return { node, paint: () => parts.forEach((part) => part.paint()) };
}

/**
 * The steps, with the chosen cell's number under each, so that readers can trace its origin.
 * @type {(map: AttentionMap, id: string) => Part}
 */
export function drawSteps(map, id) {
  const { sent } = map;
  const steps = sent.steps.map((step) => {
    const radio = create("input", { type: "radio", name: `${id}-step`, value: step });
    radio.onchange = () => map.set({ step });
    const number = create("span", { className: "number" });
    return { step, radio, number, label: labelled(create("span", {}, radio, ` ${step}`), number) };
  });
  const pair = create("span", { className: "pair cut" });
  const node = create(
    "fieldset",
    { className: "steps" },
    create("legend", {}, create("span", {}, "step"), pair),
    ...steps.map(({ label }) => label),
  );
  const paint = () => {
    const { query, row } = told(map);
    const text = `${sent.queryNames[query]} → ${sent.keyNames[keyOf(map)]}`;
    write(pair, text);
    for (const { step, radio, number } of steps) {
      radio.checked = map.get("step") === step;
      write(number, TRAIL[step](row, keyOf(map)));
    }
  };
  return { node, paint };
}

/**
 * A field to type the first position of the section.
 * @type {(map: AttentionMap, first: "firstQuery" | "firstKey", most: number) => Part}
 */
function drawFirst({ view, get, set, painter }, first, most) {
  const node = create("input", { type: "number", min: 0, max: most, step: 8 });
  node.onchange = () => {
    view[first] = clamp(Math.round(node.valueAsNumber) || 0, 0, most);
    node.value = `${view[first]}`;
    if (first === "firstQuery" && outside(get("row"), view.firstQuery, view.numRows))
      set({ row: view.firstQuery });
    else painter.soon();
  };
  // Text that is being typed isn't changed.
  const paint = () => {
    if (!node.matches(":focus")) node.value = `${view[first]}`;
  };
  return { node, paint };
}

/** @type {Draw} */
export function drawSection(map) {
  const { numQueries, numKeys } = map.sent;
  const { numRows, numColumns } = map.view;
  const firstQuery = drawFirst(map, "firstQuery", numQueries - numRows);
  const firstKey = drawFirst(map, "firstKey", numKeys - numColumns);
  const node = create(
    "p",
    { className: "part" },
    `${numQueries} queries × ${numKeys} keys are too many to show at once (up to ${WHOLE} are). ` +
      `Here are ${numRows} × ${numColumns}; weights are over all keys. `,
  );
  if (numRows < numQueries) node.append(labelled("from query ", firstQuery.node), " ");
  if (numColumns < numKeys) node.append(labelled("from key ", firstKey.node));
  const paint = () => {
    firstQuery.paint();
    firstKey.paint();
  };
  return { node, paint };
}
