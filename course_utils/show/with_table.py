"""`WithTable`, a widget that is replaced by a table where there is no kernel."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets
from IPython.display import display

from ..desk.language import sentences_of_the_page

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class WithTable(anywidget.AnyWidget):
    """A widget that also contains a table, for pages without a kernel; subclasses define both."""

    _said: traitlets.Dict = traitlets.Dict().tag(sync=True)  # see page/said.js

    @traitlets.default("_said")
    def _in_the_reader_s_language(self) -> dict[str, str]:
        return sentences_of_the_page()

    def _html(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        bundle, metadata = super()._repr_mimebundle_() or ({}, {})
        return bundle | {"text/html": self._html()}, metadata

    def _ipython_display_(self, **_: Any) -> None:
        """Display the table and the widget as two outputs; the widget hides the first.

        If one output contained both, JupyterLab would show only the widget, or an error message
        after a restart and a reload. As a separate output, the table is visible until a widget
        hides it.
        """
        bundle, metadata = self._repr_mimebundle_()
        view = bundle.pop(WIDGET_VIEW)
        display(bundle, raw=True)
        # If the widget is missing, empty HTML shows nothing, but empty text shows a grey box.
        empty = {"text/html": "", "text/plain": ""}
        display({WIDGET_VIEW: view} | empty, metadata=metadata, raw=True)
