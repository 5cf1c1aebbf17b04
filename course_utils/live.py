"""`LiveLoss`: a progress bar and the curve so far, while a notebook trains; neither is left behind.

They are for someone who waits. A run that nobody looks at (`make notebooks`, tests, nbgrader, a
program) shows nothing, so nothing of it is stored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

SHARE_OF_TIME = 0.05  # drawing takes at most so much of it


class LiveLoss:
    """Show each loss of a loop as it comes.

        with LiveLoss(steps, levels={"floor": 1.2}) as live:
            for ids in batches:
                losses.append(training_step(model, ids, optimizer))
                live.show(losses)

    Args:
        steps: how many there will be.
        levels: losses to compare with, by name.
    """

    def __init__(self, steps: int, levels: Mapping[str, float] | None = None) -> None:
        self.steps = steps
        self.levels = dict(levels or {})
        self._widgets: tuple[Any, ...] | None = None
        self._next_drawing = 0.0

    def __enter__(self) -> LiveLoss:
        if _someone_looks():
            import ipywidgets
            from IPython.display import display

            bar = ipywidgets.IntProgress(max=self.steps, description="training")
            curve = ipywidgets.Image(format="png")
            curve.layout.display = "none"  # until there is one
            box = ipywidgets.VBox([bar, curve])
            self._widgets = bar, curve, box
            display(box)
        return self

    def show(self, losses: Sequence[float]) -> None:
        """Move the bar; draw the curve if the last one is old enough."""
        now = time.monotonic()
        if self._widgets is None or now < self._next_drawing:
            return
        from .figures import loss_curve

        bar, curve, _ = self._widgets
        bar.value = len(losses)
        bar.description = f"step {len(losses)}"
        picture = loss_curve(
            {"training": losses}, f"Loss {losses[-1]:.2f}", levels=self.levels, steps=self.steps
        )
        curve.value, curve.width, curve.height = picture.coarse, picture.width, picture.height
        curve.layout.display = None
        spent = time.monotonic() - now
        self._next_drawing = now + max(0.5, spent / SHARE_OF_TIME)

    def __exit__(self, *_: object) -> None:
        if self._widgets is not None:
            from IPython.display import clear_output

            clear_output()
            for widget in self._widgets:
                widget.close()
            self._widgets = None


def _someone_looks() -> bool:
    """Whether cells run in a notebook that could ask its reader something.

    JupyterLab and its kin can; what runs notebooks by itself, such as nbclient and nbval, can't.
    """
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
