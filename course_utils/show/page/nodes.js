// Functions that create, write and paint the page's nodes, and keep them apart from the notebook.

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function create(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name in node) /** @type {any} */ (node)[name] = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** @type {(text: Node | string, ...controls: (Node | string)[]) => HTMLLabelElement} */
export const labelled = (text, ...controls) => create("label", {}, text, ...controls);

/**
 * Changes the page only where the text differs, so that a repaint costs only what has changed.
 * @type {(node: HTMLElement, text: string, title?: string) => void}
 */
export function write(node, text, title = "") {
  if (node.textContent !== text) node.textContent = text;
  if (node.title !== title) node.title = title;
}

/**
 * Paints at most once per frame, however much has changed since the last frame.
 * @typedef {{ soon: () => void, now: () => void, stop: () => void }} Painter
 * @param {() => void} paint
 * @returns {Painter}
 */
export function oncePerFrame(paint) {
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
  };
  const now = () => {
    stop();
    paint();
  };
  const soon = () => {
    frame ||= requestAnimationFrame(now);
  };
  return { soon, now, stop };
}

/**
 * JupyterLab listens before the page does and looks for its attribute on the focused node. Without
 * the attribute, "b" would insert a cell. Ctrl and ⌘ stay with JupyterLab, so that Ctrl+S still saves.
 * @param {HTMLElement} node
 */
export function shield(node) {
  /** @param {any} event */
  const keep = (event) => {
    const command = event.ctrlKey || event.metaKey;
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !command);
    if (!command && event.type !== "focusin") event.stopPropagation();
  };
  for (const type of ["keydown", "keyup", "focusin"]) node.addEventListener(type, keep);
}

/**
 * Hides the table that was displayed before a widget, once the widget is in the page. A style sheet
 * can't do this, because pages of front ends differ. A widget whose table was not displayed, such as
 * one inside another widget, must not hide the table of another widget.
 * @param {HTMLElement} node the widget's node
 * @param {string} table the class of the table
 */
export function hideTable(node, table) {
  const shown = new ResizeObserver(() => {
    if (!node.isConnected) return;
    shown.disconnect();
    const widgets = node.classList[0];
    const both = [...node.getRootNode().querySelectorAll(`.${table}, .${widgets}`)];
    const before = both[both.indexOf(node) - 1];
    const cellOf = (it) => it.closest(".jp-Cell, .cell_container"); // cells of JupyterLab and of VS Code
    if (before?.classList.contains(table) && cellOf(before) === cellOf(node))
      before.style.display = "none";
  });
  shown.observe(node);
}
