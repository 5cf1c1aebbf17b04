// The reader's language: what the page shows is looked up in the moment in which it is shown. The
// rules are those of whywrong/_language.py.

const PLACEHOLDER = /\{(\w+)(?::(\w))?\}/g;
const STANDS_FOR = { g: "[−-]?\\d[\\d.,]*", w: "\\S+" };
const ANY = "(?:(?!\\. [A-Z]).)+?"; // not beyond the end of a sentence
const SHOWN = ["title", "aria-label"];

/** @type {(text: string) => string} */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** @type {(english: string) => { literal: string, pattern: RegExp, names: string[] }} */
function compiled(english) {
  const names = [];
  let [pattern, literal, end] = ["", "", 0];
  for (const found of english.matchAll(PLACEHOLDER)) {
    const before = english.slice(end, found.index);
    pattern += `${escaped(before)}(${STANDS_FOR[found[2]] ?? ANY})`;
    literal += before;
    names.push(found[1]);
    end = found.index + found[0].length;
  }
  const last = english.slice(end);
  return { literal: literal + last, pattern: new RegExp(`^${pattern}${escaped(last)}$`, "s"), names };
}

/**
 * A function from English texts to those of the language; a text that isn't found stays.
 * @param {Record<string, string>} sentences
 */
export function translator(sentences) {
  const patterns = Object.keys(sentences)
    .filter((english) => english.includes("{"))
    .map((english) => ({ ...compiled(english), own: sentences[english] }))
    .sort((a, b) => b.literal.length - a.literal.length);
  const known = new Map(Object.entries(sentences));

  /** @type {(text: string) => string | undefined} */
  function whole(text) {
    if (known.has(text)) return known.get(text);
    for (const { pattern, names, own } of patterns) {
      const found = text.match(pattern);
      if (!found) continue;
      const values = new Map(names.map((name, i) => [name, said(found[i + 1])]));
      return own.replace(PLACEHOLDER, (all, name) => values.get(name) ?? all);
    }
  }

  /** @type {(text: string) => string | undefined} */
  function sentenceBySentence(text) {
    const found = whole(text);
    if (found !== undefined) return found;
    for (const { index } of text.matchAll(/[.:?!] (?=\S)/g)) {
      const [first, rest] = [whole(text.slice(0, index + 1)), text.slice(index + 2)];
      const then = first === undefined ? undefined : sentenceBySentence(rest);
      if (then !== undefined) return first + then;
    }
  }

  /** @type {(text: string) => string} */
  function said(text) {
    if (!/[A-Za-z]/.test(text)) return text;
    const body = text.trim();
    return text.replace(body, () => sentenceBySentence(body) ?? body);
  }

  const before = new Map(); // repaints show the same texts again
  return (text) => {
    if (before.size > 5000) before.clear();
    if (!before.has(text)) before.set(text, said(text));
    return before.get(text);
  };
}

/**
 * Shows a node's texts, titles and labels in the language, now and whenever they change.
 * @param {HTMLElement} root
 * @param {Record<string, string>} sentences none for English
 */
export function speak(root, sentences) {
  if (!Object.keys(sentences ?? {}).length) return;
  const said = translator(sentences);
  /** @param {any} node */
  const show = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const text = said(node.data);
      if (text !== node.data) node.data = text;
      return;
    }
    for (const name of SHOWN) {
      const text = node.getAttribute?.(name);
      if (text && said(text) !== text) node.setAttribute(name, said(text));
    }
    node.childNodes.forEach(show);
  };
  show(root);
  new MutationObserver((changes) => {
    for (const { target, type, addedNodes } of changes)
      if (type === "childList") addedNodes.forEach(show);
      else if (type === "characterData") show(target);
      else for (const name of SHOWN) {
        const text = /** @type {HTMLElement} */ (target).getAttribute(name);
        if (text && said(text) !== text) /** @type {HTMLElement} */ (target).setAttribute(name, said(text));
      }
  }).observe(root, { subtree: true, childList: true, characterData: true, attributeFilter: SHOWN });
}
