"""Lesson 13, first sitting: the time and memory of attention on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

from .. import attention
from ..desk.environment import use_threads
from ..show.drawing import HATCH_COLOR, MARKERS, Picture, line_look, titled
from .measuring import kept_bytes, seconds


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention that stores its scores: `(B, H, T, D)` three times to `(B, H, T, D)`."""
    scores = attention.attention_scores(query, key)  # (B, H, T, T)
    hidden = attention.causal_mask(query.shape[2], query.device)
    future = scores.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)
    return torch.softmax(scores + future, dim=-1) @ value


def built_in(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention computed by PyTorch's own function."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"by hand": by_hand, "SDPA": built_in}


def heads(T: int, device: torch.device) -> list[Tensor]:
    """Random queries, keys and values `(1, 4, T, 32)` that require gradients."""
    generator = torch.Generator().manual_seed(T)
    parts = torch.randn(3, 1, 4, T, 32, generator=generator).to(device).unbind(0)
    return [part.detach().requires_grad_() for part in parts]


def against_length(
    lengths: Sequence[int], device: torch.device, title: str, alt: str, rounds: int = 2
) -> Picture:
    """Measure both versions, forward and backward; draw time and kept memory with the T² line."""
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    kept: dict[str, list[float]] = {name: [] for name in WAYS}
    with use_threads(1):  # with two threads, each would wait for other programs
        for T in lengths:
            parts = heads(T, device)
            for name, way in WAYS.items():
                call = partial(way, *parts)
                times[name].append(1e3 * seconds(call, rounds))
                kept[name].append(kept_bytes(call) / 2**20)
    figure, panels = plt.subplots(1, 2, figsize=(8.0, 3.3))
    for axes, measured, label in zip(
        panels, (times, kept), ("milliseconds", "MiB kept"), strict=True
    ):
        for i, (name, values) in enumerate(measured.items()):
            axes.plot(lengths, values, marker=MARKERS[i], label=name, **line_look(i))
        last = measured["by hand"][-1]
        square = [last * (T / lengths[-1]) ** 2 for T in lengths]
        axes.plot(lengths, square, color=HATCH_COLOR, linestyle=(0, (1, 2)), label="T²")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{T:,}" for T in lengths])
        axes.minorticks_off()
        axes.set(xlabel="tokens T, logarithmic", ylabel=f"{label}, logarithmic")
        axes.legend(loc="upper left", handlelength=3, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return titled(figure, title, alt)
