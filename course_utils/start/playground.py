"""`Line`: a line to type into with bars below it; `WithTable`: a table where no kernel runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

from .language import WORDS

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
EXAMPLES = ["the dog near the cats", "the dogs near the cat", "the king that the mice follow"]


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


class WithTable(ipywidgets.DOMWidget):
    """A widget with a table for where no kernel runs; a class below says what is in it."""

    def _html(self) -> str:
        raise NotImplementedError

    def _ipython_display_(self, **_: Any) -> None:
        """Put out the table and the widgets as two outputs; the style sheet hides the first."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({"text/html": self._html(), "text/plain": repr(self)}, raw=True)
        display({WIDGET_VIEW: view, "text/plain": ""}, raw=True)


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%" if share >= 0.005 else "<\u00a01\u00a0%"
