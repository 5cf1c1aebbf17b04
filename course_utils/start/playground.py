"""`playground`: a line to type into, what the small model expects next, and where it looks."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

from ..attention_map import attention_map
from ..attention_map.widget import AttentionMap
from .language import END, WORDS
from .model import next_words, read, scores

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
EXAMPLES = ["the dog near the cats", "the dogs near the cat", "the king that the mice follow"]
SHOWN = 7  # of the likeliest words
LAYER, HEAD = 1, 0  # the one that looks past the nearest noun for the subject


def playground(text: str = EXAMPLES[0]) -> Playground:
    """A line of text with the next word's probabilities as bars, and the attention behind them.

    Without a kernel it is a table.
    """
    return Playground(text)


class Line(anywidget.AnyWidget):
    """The line to type into and the bars below it; `text` follows the page and can be set."""

    _esm = Path(__file__).with_name("playground.js")
    _css = Path(__file__).with_name("playground.css")

    text = traitlets.Unicode().tag(sync=True)
    _bars: traitlets.List = traitlets.List().tag(sync=True)  # [word, share, share in words]
    _says = traitlets.Unicode().tag(sync=True)
    _unknown = traitlets.Unicode().tag(sync=True)
    _examples = traitlets.List(EXAMPLES).tag(sync=True)
    _words = traitlets.List(sorted(WORDS, key=str.lower)).tag(sync=True)


class WithTable(ipywidgets.VBox):
    """Widgets with a table for where no kernel runs; a class below says what is in it."""

    def _html(self) -> str:
        raise NotImplementedError

    def _ipython_display_(self, **_: Any) -> None:
        """Put out the table and the widgets as two outputs; the style sheet hides the first."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({"text/html": self._html(), "text/plain": repr(self)}, raw=True)
        display({WIDGET_VIEW: view, "text/plain": ""}, raw=True)


class Playground(WithTable):
    """A `Line` and the attention map of its sentence, which follows what is typed."""

    map: AttentionMap

    def __init__(self, text: str) -> None:
        self.line = Line()
        super().__init__([self.line])
        self._seen: list[str] = []
        self.line.observe(lambda change: self._follow(), "text")
        self.line.text = text
        self._follow()

    def _follow(self) -> None:
        words, unknown = read(self.line.text)
        names = " and ".join(f"“{word}”" for word in unknown[:3])
        if words != self._seen:
            chances = list(next_words(words).items())[:SHOWN]
            layer, head = LAYER, HEAD
            if self._seen:
                layer, head = self.map.layer, self.map.head
                self.map.close()
            self._seen = words
            self.map = attention_map(
                scores(words), words, causal=True, layer=layer, head=head, row=len(words) - 1
            )
            self.children = [self.line, self.map]
            self.line._bars = [[word, round(share, 4), percent(share)] for word, share in chances]
            self.line._says = _sentence(words, chances)
        self.line._unknown = f"It has never met {names}, and reads on without." if names else ""

    def _html(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(word)}</th>'
            f'<td style="text-align:right">{said}</td><td style="text-align:left">'
            f'<span style="display:inline-block;height:0.8em;width:{40 * share:.1f}em;'
            'background:rgba(38,122,209,0.75)"></span></td></tr>'
            for word, share, said in self.line._bars
        )
        table, _ = self.map._repr_mimebundle_()
        return (
            f'<div class="next-word-static"><p>{html.escape(self.line._says)}</p><table>'
            '<thead><tr><th scope="col">next word</th><th scope="col">probability</th><th></th>'
            f"</tr></thead><tbody>{rows}</tbody></table>{table['text/html']}</div>"
        )

    def __repr__(self) -> str:
        bars = [f"  {said:>5}  {word}" for word, _, said in self.line._bars]
        return "\n".join([self.line._says, *bars, repr(self.map)])


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%" if share >= 0.005 else "<\u00a01\u00a0%"


def _sentence(words: list[str], chances: list[tuple[str, float]]) -> str:
    text = " ".join(words[1:])
    after = f"After “{text}”" if text else "At the beginning of a sentence"
    (first, share), (second, next_share) = chances[:2]
    names = {END: "the full stop"}
    said = f"{after} the model expects {names.get(first, f'“{first}”')} ({percent(share)})"
    if next_share < 0.01:
        return said + "."
    return said + f", then {names.get(second, f'“{second}”')} ({percent(next_share)})."
