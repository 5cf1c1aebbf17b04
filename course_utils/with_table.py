"""`WithTable`: a widget that becomes a table without a kernel."""

from __future__ import annotations

from typing import Any

import ipywidgets
from IPython.display import display

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class WithTable(ipywidgets.DOMWidget):
    """A widget with a table for pages without a kernel; subclasses define the content."""

    def _html(self) -> str:
        raise NotImplementedError

    def _ipython_display_(self, **_: Any) -> None:
        """Display the table and the widgets as two outputs; the style sheet hides the first."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({"text/html": self._html(), "text/plain": repr(self)}, raw=True)
        display({WIDGET_VIEW: view, "text/plain": ""}, raw=True)
