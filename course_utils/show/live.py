"""A progress bar and the loss so far while a model is trained; both disappear afterwards.

They are for a viewer who waits. A run without a viewer (in `make notebooks`, tests, nbgrader or a
program) shows nothing, so nothing is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from ..desk.environment import use_threads
from ..language_model import next_token_loss

BAR_SECONDS = 0.2
CURVE_SECONDS = 2.0  # drawing the curve takes about a tenth of a second


class LiveLoss:
    """Show each loss of a training loop as soon as it is known.

        with LiveLoss(steps, levels={"floor": 1.2}) as live:
            for ids in batches:
                losses.append(training_step(model, ids, optimizer))
                live.show(losses)

    Args:
        steps: the total number of steps.
        levels: losses to compare with, by name.
    """

    def __init__(self, steps: int, levels: Mapping[str, float] | None = None) -> None:
        self.steps = steps
        self.levels = dict(levels or {})
        self._widgets: tuple[Any, ...] | None = None
        self._next_bar = self._next_curve = 0.0

    def __enter__(self) -> LiveLoss:
        if _someone_looks():
            import ipywidgets
            from IPython.display import display

            bar = ipywidgets.IntProgress(max=self.steps, description="training")
            curve = ipywidgets.Image(format="png")
            curve.layout.display = "none"  # until a curve is displayed
            box = ipywidgets.VBox([bar, curve])
            self._widgets = bar, curve, box
            self._place = display(box, display_id=True)
        return self

    @property
    def seen(self) -> bool:
        """Whether there is a viewer."""
        return self._widgets is not None

    def show(self, losses: Sequence[float]) -> None:
        """Update the bar and the curve, if an update is due."""
        if self._widgets is None:
            return
        bar, curve, _ = self._widgets
        now = time.monotonic()
        if now >= self._next_bar:
            self._next_bar = now + BAR_SECONDS
            bar.value = len(losses)
            bar.description = f"step {len(losses)}"
        if now >= self._next_curve:
            from .figures import loss_curve

            title = f"Loss {losses[-1]:.2f} after {len(losses)} of {self.steps} steps"
            picture = loss_curve({"training": losses}, title, levels=self.levels, steps=self.steps)
            curve.value, curve.width, curve.height = picture.png, picture.width, picture.height
            curve.layout.display = None
            self._next_curve = time.monotonic() + CURVE_SECONDS

    def __exit__(self, *_: object) -> None:
        if self._widgets is not None:
            from IPython.display import HTML

            self._place.update(HTML(""))  # clearing all output would remove what the loop prints
            for widget in self._widgets:
                widget.close()
            self._widgets = None


@contextmanager
def watch_training(
    model: nn.Module,
    batches: Sequence[Any],
    levels: Mapping[str, float] | None = None,
    threads: int | None = 1,
    loss: Callable[[Tensor, Any], Tensor] = next_token_loss,
) -> Iterator[None]:
    """Show a live plot of the loss while a loop trains the model on these batches, in order.

    Args:
        model: the model to train.
        batches: the training data, each used once.
        levels: losses to compare with, by name, drawn as lines in the live plot.
        threads: the number of threads; None uses all. With one thread, losses don't depend on the
            number of cores, and other programs on a busy machine delay training less.
        loss: computes the loss from the model's output, `(B, T, V)`, and a batch.
    """
    losses: list[float] = []

    def look(_: nn.Module, __: object, logits: Tensor) -> None:
        if model.training and len(losses) < len(batches):
            losses.append(loss(logits.detach(), batches[len(losses)]).item())
            live.show(losses)

    with use_threads(threads), LiveLoss(len(batches), levels) as live:
        hook = model.register_forward_hook(look) if live.seen else None
        try:
            yield
        finally:
            if hook is not None:
                hook.remove()


def _someone_looks() -> bool:
    """Whether cells run in a notebook that a person has open.

    The result is true in JupyterLab and similar programs, and false in nbclient and nbval.
    """
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
