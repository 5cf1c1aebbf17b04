"""`WithTable`: a widget that becomes a table without a kernel."""

from __future__ import annotations

from typing import Any

import anywidget
from IPython.display import display

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class WithTable(anywidget.AnyWidget):
    """A widget with a table for pages without a kernel; subclasses define the content."""

    def _html(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        bundle, metadata = super()._repr_mimebundle_() or ({}, {})
        return bundle | {"text/html": self._html()}, metadata

    def _ipython_display_(self, **_: Any) -> None:
        """Display the table and the widget as two outputs; the widget hides the first.

        Given one output with both, JupyterLab shows the widget alone, and after a restart and a
        reload that is an error message. As two, the table is visible unless a widget follows it.
        """
        bundle, metadata = self._repr_mimebundle_()
        view = bundle.pop(WIDGET_VIEW)
        display(bundle, raw=True)
        # Without the widget, empty HTML is nothing on a page, and empty text an empty grey box.
        empty = {"text/html": "", "text/plain": ""}
        display({WIDGET_VIEW: view} | empty, metadata=metadata, raw=True)
