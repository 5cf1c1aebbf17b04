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

from ..desk.environment import give_back_memory, use_threads
from ..language_model import next_token_loss

BAR_SECONDS = 0.2
CURVE_SECONDS = 2.0  # drawing the curve takes about a tenth of a second


@contextmanager
def live_loss(
    steps: int, levels: Mapping[str, float] | None = None
) -> Iterator[Callable[[Sequence[float]], None] | None]:
    """Yield a function that shows the losses so far, whenever an update is due; None if there is no
    viewer.

    Args:
        steps: the total number of steps.
        levels: losses to compare with, by name.
    """
    if not _someone_looks():
        yield None
        return
    import ipywidgets
    from IPython.display import HTML, display

    from .figures import loss_curve

    bar = ipywidgets.IntProgress(max=steps, description="training")
    curve = ipywidgets.Image(format="png")
    curve.layout.display = "none"  # until a curve is displayed
    box = ipywidgets.VBox([bar, curve])
    place: Any = display(box, display_id=True)
    next_bar = next_curve = 0.0

    def show(losses: Sequence[float]) -> None:
        nonlocal next_bar, next_curve
        now = time.monotonic()
        if now >= next_bar:
            next_bar = now + BAR_SECONDS
            bar.value = len(losses)
            bar.description = f"step {len(losses)}"
        if now >= next_curve:
            title = f"Loss {losses[-1]:.2f} after {len(losses)} of {steps} steps"
            picture = loss_curve({"training": losses}, title, levels=levels, steps=steps)
            curve.value, curve.width, curve.height = picture.png, picture.width, picture.height
            curve.layout.display = None
            give_back_memory()
            next_curve = time.monotonic() + CURVE_SECONDS

    try:
        yield show
    finally:
        place.update(HTML(""))  # clearing all output would remove what the loop prints
        for widget in (bar, curve, box):
            widget.close()


@contextmanager
def watch_training(
    model: nn.Module,
    batches: Sequence[Any],
    levels: Mapping[str, float] | None = None,
    loss: Callable[[Tensor, Any], Tensor] = next_token_loss,
) -> Iterator[None]:
    """Show a live plot of the loss while a loop trains the model on these batches, in order.

    The context uses one thread, so that losses don't depend on the number of cores, and other
    programs on a busy machine delay training less.

    Args:
        model: the model to train.
        batches: the training data, each used once.
        levels: losses to compare with, by name, drawn as lines in the live plot.
        loss: computes the loss from the model's output, `(B, T, V)`, and a batch.
    """
    losses: list[float] = []
    with use_threads(1), live_loss(len(batches), levels) as show:

        def note(_: nn.Module, __: object, logits: Tensor) -> None:
            if show and model.training and len(losses) < len(batches):
                losses.append(loss(logits.detach(), batches[len(losses)]).item())

        def look(*_: object) -> None:
            if show and losses:
                show(losses)

        # Between two steps nothing of a graph is in memory.
        hooks = model.register_forward_hook(note), model.register_forward_pre_hook(look)
        try:
            yield
        finally:
            for hook in hooks:
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
