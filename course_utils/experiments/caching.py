"""Lesson 13, second sitting: how many tokens a model processes with and without a cache, and how
long this takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from ..desk.environment import use_threads
from ..language_model import TinyLM, generate
from ..show import drawing
from ..show.colours import ABOVE, HATCHING
from ..show.drawing import MARKERS, line_look
from ..show.figures import Picture
from .measuring import seconds
from .training import seeded

VOCABULARY, WIDTH, HEADS, LAYERS = 50, 64, 4, 2


def new_model(context_length: int, device: torch.device) -> TinyLM:
    """A model with random parameters: its text is nonsense, but takes as long as any other text."""
    with seeded():
        model = TinyLM(VOCABULARY, WIDTH, HEADS, context_length, LAYERS)
    return model.eval().to(device)


def positions_pushed(
    write: Callable[[TinyLM, Tensor, int], Tensor], model: TinyLM, ids: Tensor, new: int
) -> int:
    """The number of tokens that the model embeds while it generates `new` tokens."""
    pushed = 0

    def count(_: Any, inputs: tuple[Tensor, ...], __: Any) -> None:
        nonlocal pushed
        pushed += inputs[0].numel()

    hook = model.embed.token.register_forward_hook(count)
    try:
        write(model, ids, new)
    finally:
        hook.remove()
    return pushed


# The time to read a prompt and to write a token --------------------------------------------------

Caches = list[Any]  # the keys and values of each block
Push = Callable[[TinyLM, Tensor, Caches], tuple[Tensor, Caches]]
Read = Callable[[TinyLM, Tensor], tuple[Tensor, Caches]]


def prompt(T: int, device: torch.device) -> Tensor:
    """Return the ids `(1, T)` of a text that is as good as any other for measuring times."""
    return torch.arange(T, device=device)[None] % VOCABULARY


@torch.no_grad()
def costs(
    lengths: Sequence[int], device: torch.device, push: Push, read: Read, rounds: int = 3
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure the milliseconds to read a prompt of each length, and to write one token after it.

    Args:
        lengths: the prompt lengths T to measure.
        device: the device of the model.
        push: reads one more token, such as `next_logits`.
        read: reads a prompt in one pass, and returns the last logits and the caches.
        rounds: the number of runs, of which the fastest counts.
    """

    def one_by_one(ids: Tensor) -> tuple[Tensor, Caches]:
        logits, caches = read(model, ids[:, :1])
        for t in range(1, ids.shape[1]):
            logits, caches = push(model, ids[:, t : t + 1], caches)
        return logits, caches

    def first(call: Callable[..., tuple[Tensor, Caches]], *args: Any) -> Tensor:
        return call(*args)[0]

    model = new_model(max(lengths) + 1, device)
    reading: dict[str, list[float]] = {"token by token": [], "all at once": []}
    writing: dict[str, list[float]] = {"without a cache": [], "with a cache": []}
    with use_threads(1):  # with two threads, each would wait for other programs
        for T in lengths:
            ids, newest = prompt(T, device), prompt(1, device)
            caches = read(model, ids)[1]
            calls = [
                (reading["token by token"], partial(first, one_by_one, ids)),
                (reading["all at once"], partial(first, read, model, ids)),
                (writing["without a cache"], partial(generate, model, ids, 1)),
                (writing["with a cache"], partial(first, push, model, newest, caches)),
            ]
            for times, call in calls:
                times.append(1e3 * seconds(call, rounds))
    return reading, writing


def prefill_and_decode(
    lengths: Sequence[int],
    device: torch.device,
    push: Push,
    read: Read,
    title: str,
    alt: str,
    rounds: int = 3,
) -> Picture:
    """Measure `costs` and draw them, with one panel for reading and one for writing."""
    measured = costs(lengths, device, push, read, rounds)
    with drawing.style():
        figure, panels = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained", sharey=True)
        names = ("prefill: read T tokens", "decode: write one more")
        for panel, (axes, lines, name) in enumerate(zip(panels, measured, names, strict=True)):
            for i, (label, values) in enumerate(lines.items(), start=2 * panel):
                look = line_look(i) | {"marker": MARKERS[i], "markersize": 5}
                axes.plot(lengths, values, label=label, **look)
            axes.set_title(name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(lengths, [f"{T:,}" for T in lengths])
            axes.minorticks_off()
            axes.set_xlabel("tokens T so far, logarithmic")
            axes.legend(loc="upper left", handlelength=3)
        panels[0].set_ylabel("milliseconds, logarithmic")
        return drawing.titled(figure, title, alt)


# The picture ------------------------------------------------------------------------------------

NEW, OLD, EMPTY = ABOVE[6], ABOVE[2], ABOVE[0]


def square_and_strip(lengths: Sequence[int], title: str, alt: str) -> Picture:
    """Draw the cost of one more token for texts of these lengths. The top row shows the scores of
    all tokens; the bottom row shows the cached keys and values and one row of scores."""
    figure, rows = plt.subplots(
        2, len(lengths), figsize=(8.0, 4.6), gridspec_kw={"height_ratios": [3, 2]}
    )
    most = max(lengths)
    for T, above, below in zip(lengths, *rows, strict=True):
        for t in range(T):
            for s in range(T):
                newest, seen = t == T - 1, s <= t
                _cell(above, s, t, (NEW if newest else OLD) if seen else EMPTY)
        for s in range(T):
            for y in (0, 1):
                _cell(below, s, y, NEW if s == T - 1 else OLD)
            _cell(below, s, 2.6, NEW)
        above.set_title(f"token {T}", fontsize=10)
        above.set(xlim=(-0.2, most + 0.2), ylim=(most + 0.2, -0.2))
        below.set(xlim=(-0.2, most + 0.2), ylim=(3.9, -0.3))
        above.set_xlabel(f"{T * T} scores", fontsize=9)
        below.set_xlabel(f"{2 * T} vectors kept, {T} scores", fontsize=9)
        for axes in (above, below):
            axes.set(xticks=[], yticks=[], aspect="equal")
            for spine in axes.spines.values():
                spine.set_visible(False)
    rows[0][0].set_ylabel("without a cache:\nscores, (T, T)", fontsize=9)
    first = rows[1][0]
    first.set_yticks([0.5, 1.5, 3.1], ["keys", "values", "scores"], fontsize=8)
    first.tick_params(length=0)
    first.set_ylabel("with a cache", fontsize=9)
    shades = [
        Patch(facecolor=shade, edgecolor=HATCHING, label=label)
        for shade, label in (
            (NEW, "of the newest token"),
            (OLD, "of earlier tokens"),
            (EMPTY, "hidden: the future"),
        )
    ]
    figure.legend(handles=shades, loc="lower center", ncols=3, frameon=False, fontsize=9)
    drawing.entitle(figure, title)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    return Picture(figure, alt)


def _cell(axes: Any, x: float, y: float, colour: str) -> None:
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=HATCHING, linewidth=0.6))
