"""Lesson 13, second sitting: how many tokens a model processes with and without a cache, and how
long this takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from ..desk.environment import use_threads
from ..language_model import TinyLM, generate, generate_cached
from ..show.colours import ABOVE, HATCHING
from ..show.figures import Picture, cost_curve
from .measuring import seconds

VOCABULARY, WIDTH, HEADS, LAYERS = 50, 64, 4, 2


def new_model(context_length: int, device: torch.device) -> TinyLM:
    """A model with random parameters: its text is nonsense, but takes as long as any other text."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
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


# The time of a token by length ------------------------------------------------------------------

FEW = 8  # tokens generated to measure the time of one token


def token_seconds(model: TinyLM, T: int, cached: bool, rounds: int = 3) -> float:
    """The time of one more token after T tokens, which the model reads before timing starts."""
    ids = torch.arange(T, device=model.embed.token.weight.device)[None] % VOCABULARY
    if not cached:
        return seconds(partial(generate, model, ids, 1), rounds)
    many, one = (seconds(partial(generate_cached, model, ids, new), rounds) for new in (FEW + 1, 1))
    return max(many - one, 1e-6) / FEW


def against_length(
    lengths: Sequence[int], device: torch.device, title: str, alt: str, rounds: int = 3
) -> Picture:
    """Measure and draw the time of one more token after texts of these lengths."""
    model = new_model(max(lengths) + FEW + 1, device)
    with use_threads(1):  # with two threads, each would wait for other programs
        costs = {
            name: [1e3 * token_seconds(model, T, cached, rounds) for T in lengths]
            for name, cached in (("without a cache", False), ("with a cache", True))
        }
    return cost_curve(
        lengths,
        costs,
        title,
        xlabel="tokens written so far",
        ylabel="milliseconds for one more",
        alt=alt,
    )


# The picture ------------------------------------------------------------------------------------

NEW, OLD, EMPTY = ABOVE[6], ABOVE[2], ABOVE[0]


def square_and_strip(lengths: Sequence[int], title: str, alt: str) -> Picture:
    """Draw the cost of one more token for texts of these lengths. The top row shows the scores of
    all tokens; the bottom row shows the cached keys and values and one row of scores."""
    figure, rows = plt.subplots(
        2, len(lengths), figsize=(8.0, 4.3), gridspec_kw={"height_ratios": [3, 2]}
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
    figure.suptitle(title, fontweight="bold")
    figure.tight_layout()
    return Picture(figure, alt)


def _cell(axes: Any, x: float, y: float, colour: str) -> None:
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=HATCHING, linewidth=0.6))
