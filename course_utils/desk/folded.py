"""Output that a page hides until a click."""

from __future__ import annotations

import html
from typing import Any

from .language import localised

WIDGET = "application/vnd.jupyter.widget-view+json"
PRE = '<pre style="font-family:var(--jp-code-font-family,monospace);white-space:pre-wrap">'


class Folded:
    """Content that a page hides until a click; its text form contains only the request to predict.

    In a notebook, the content includes the later output and figures of the cell, but not widgets.
    """

    def __init__(self, request: str, result: str) -> None:
        self.request, self.shown = request, f"{PRE}{html.escape(result)}</pre>"

    def __repr__(self) -> str:
        return self.request

    def _repr_html_(self) -> str:
        ask = localised("Or show the result.")
        shown = f"<details><summary>{ask}</summary>{self.shown}</details>"
        return f"<p>{html.escape(self.request)}</p>{shown}"

    def show(self) -> None:
        """Show the content when the cell has ended, or at once outside a notebook."""
        from IPython import get_ipython  # IPython isn't needed when a class is graded
        from IPython.core.displaypub import CapturingDisplayPublisher
        from IPython.display import display
        from IPython.utils.capture import capture_output

        shell = get_ipython()
        if shell is None or isinstance(shell.display_pub, CapturingDisplayPublisher):
            display(self)
            return
        taken = (taking := capture_output(stderr=False)).__enter__()

        def end(_: Any) -> None:
            shell.events.unregister("post_run_cell", end)
            taking.__exit__(None, None, None)
            self.shown += f"{PRE}{html.escape(taken.stdout)}</pre>" if taken.stdout else ""
            page = [(WIDGET not in o.data and o.data.get("text/html"), o) for o in taken.outputs]
            self.shown += "".join(text for text, _ in page if text)
            display(self)
            for _, output in filter(lambda part: not part[0], page):
                output.display()  # `display` would add the address of the object

        shell.events.register("post_run_cell", end)
