"""Lesson 13, first sitting: the time, memory and kernel of attention on this machine.

    python -m course_utils.experiments.performance

This command measures the costs in `bill` in 40 rounds, and prints the values for `ONCE`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from whywrong.watching import Operators

from .. import attention
from ..colours import ABOVE
from ..drawing import HATCH_COLOR, LINE_COLORS, LINE_STYLES, MARKERS, Picture
from ..threads import use_threads
from .measuring import kept_bytes, seconds


def naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention that stores its scores: `(B, H, T, D)` three times to `(B, H, T, D)`."""
    scores = attention.attention_scores(query, key)  # (B, H, T, T)
    hidden = attention.causal_mask(query.shape[2], query.device)
    future = scores.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)
    return torch.softmax(scores + future, dim=-1) @ value


def built_in(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention computed by PyTorch's own function."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"naive": naive, "SDPA": built_in}


def heads(T: int, device: torch.device, H: int = 4, D: int = 32) -> list[Tensor]:
    """Random queries, keys and values `(1, H, T, D)` that require gradients."""
    generator = torch.Generator().manual_seed(T)
    parts = torch.randn(3, 1, H, T, D, generator=generator).to(device).unbind(0)
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
        panels, (times, kept), ("milliseconds", "MiB kept for backward"), strict=True
    ):
        for i, (name, values) in enumerate(measured.items()):
            look: dict[str, Any] = {"color": LINE_COLORS[i], "linestyle": LINE_STYLES[i]}
            axes.plot(lengths, values, marker=MARKERS[i], label=name, **look)
        last = measured["naive"][-1]
        square = [last * (T / lengths[-1]) ** 2 for T in lengths]
        axes.plot(lengths, square, color=HATCH_COLOR, linestyle=(0, (1, 2)), label="T²")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{T:,}" for T in lengths])
        axes.minorticks_off()
        axes.set(xlabel="tokens T", ylabel=label)
        axes.legend(loc="upper left", handlelength=3)
    figure.suptitle(title, fontweight="bold")
    figure.tight_layout()
    return Picture(figure, alt)


# Which kernel ran -------------------------------------------------------------------------------

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def kernel_that_ran(query: Tensor, key: Tensor, value: Tensor, **asked: Any) -> str:
    """The kernel that PyTorch picks for a call of its attention: "flash", …, or "math"."""
    ran = Operators()
    with ran.watch():
        F.scaled_dot_product_attention(query, key, value, **asked)
    fused = [k for k in KERNELS if any(f"product_{k}_attention" in name for name in ran.executed)]
    return fused[0] if fused else "math"


def why_not(kernel: str, query: Tensor, key: Tensor, value: Tensor, **asked: Any) -> str:
    """PyTorch's error message if only this kernel is allowed, or "" if the kernel runs."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with sdpa_kernel(KERNELS[kernel]):
                F.scaled_dot_product_attention(query, key, value, **asked)
            return ""
        except RuntimeError as error:
            reasons = [str(warning.message).split(" (Triggered")[0] for warning in said]
            reasons = [reason for reason in reasons if "not used because" not in reason]
            return re.sub(r" - \([^;]*", "", (reasons or [str(error)])[0].split(". ")[0])


def asked(device: torch.device, T: int = 64, H: int = 3, D: int = 16) -> dict[str, dict[str, Any]]:
    """The arguments for several calls of the built-in, by description."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 2, H, T, D, generator=generator).to(device).unbind(0)
    plain: dict[str, Any] = dict(zip(("query", "key", "value"), parts, strict=True))
    seen = ~attention.causal_mask(T, device)
    return {
        "nothing else": plain,
        "is_causal=True": {**plain, "is_causal": True},
        "attn_mask (T, T)": {**plain, "attn_mask": seen},
        "attn_mask (H, T, T)": {**plain, "attn_mask": seen.expand(H, T, T)},
        "dropout_p=0.1": {**plain, "dropout_p": 0.1},
        "bfloat16": {name: part.bfloat16() for name, part in plain.items()},
    }


# The bill ---------------------------------------------------------------------------------------

SIZES = 1, 512, 256, 8  # B, T, C, H
BASE, HALF = "split", "sdpa, autocast"
# The time of forward and backward and the memory kept, as multiples of the values of "split". This
# module measured them as the shortest of 40 rounds on one core (PyTorch 2.13, x86 with AVX-512).
ONCE: dict[str, tuple[float, float]] = {
    "wrapper": (1.40, 1.87),
    "split": (1.00, 1.00),
    "sdpa": (0.67, 0.31),
    "torch": (0.68, 0.31),
    HALF: (0.55, 0.15),
}


def rivals(device: torch.device) -> dict[str, Any]:
    """One module of each kind, all with the same parameters."""
    _, T, C, H = SIZES
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: dict[str, Any] = {
            kind: attention.make_mha(kind, d_in=C, d_out=C, num_heads=H, context_length=T)
            for kind in ("wrapper", "split", "sdpa", "torch")
        }
    attention.copy_wrapper_to_split(made["wrapper"], made["split"])
    weights = made["split"].state_dict()
    made["sdpa"].load_state_dict(weights)
    in_one = torch.cat([weights[f"{name}.weight"] for name in ("query", "key", "value")])
    made["torch"].load_state_dict(
        {"attention.in_proj_weight": in_one}
        | {f"attention.out_proj.{n}": weights[f"out_proj.{n}"] for n in ("weight", "bias")}
    )
    return {kind: module.to(device) for kind, module in made.items()}


def calls(device: torch.device) -> dict[str, Callable[[], Tensor]]:
    B, T, C, _ = SIZES
    x = torch.randn(B, T, C, generator=torch.Generator().manual_seed(0)).to(device)
    made = rivals(device)

    def call(kind: str, half: bool = False) -> Callable[[], Tensor]:
        def run() -> Tensor:
            tokens = x.detach().requires_grad_()
            with torch.autocast(device.type, torch.bfloat16) if half else nullcontext():
                return made[kind](tokens)

        return run

    return {kind: call(kind) for kind in ("wrapper", "split", "sdpa", "torch")} | {
        HALF: call("sdpa", half=True)
    }


def measured_bill(device: torch.device, rounds: int = 5) -> dict[str, tuple[float, float]]:
    """The shortest time of several rounds, and the kept memory, of each kind as multiples of style
    B's."""
    ways, times, kept = calls(device), dict[str, float](), dict[str, int]()
    with use_threads(1):
        for name in [*ways] * rounds:
            times[name] = min(times.get(name, math.inf), seconds(ways[name], 1))
        for name, run in ways.items():
            kept[name] = kept_bytes(run)
    return {name: (times[name] / times[BASE], kept[name] / kept[BASE]) for name in ways}


def bill(device: torch.device, title: str, alt: str, rounds: int = 5) -> Picture:
    """Measure and draw the costs, next to values measured once on another machine."""
    return draw_bill(measured_bill(device, rounds), title, alt)


def draw_bill(here: Mapping[str, tuple[float, float]], title: str, alt: str) -> Picture:
    figure, panels = plt.subplots(1, 2, figsize=(8.0, 3.2), sharey=True)
    names = list(here)
    for which, (axes, label) in enumerate(
        zip(panels, ("time, × split", "memory kept, × split"), strict=True)
    ):
        for row, name in enumerate(names):
            axes.barh(row, here[name][which], height=0.55, color=ABOVE[2], edgecolor="black")
        once = [ONCE[n][which] for n in names]
        axes.plot(once, range(len(names)), "D", mfc="white", mec="black", ms=7, linestyle="none")
        axes.axvline(1, color=HATCH_COLOR, linewidth=1, linestyle=(0, (1, 2)))
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(label)
        axes.set_xlim(0, 1.08 * max(max(h[which], ONCE[n][which]) for n, h in here.items()))
    panels[0].invert_yaxis()
    figure.suptitle(title, fontweight="bold")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    marks = [panels[0].patches[0], panels[0].lines[0]]
    figure.legend(marks, ["measured here", "once, on one core"], loc="lower center", ncols=2)
    return Picture(figure, alt)


if __name__ == "__main__":
    for name, (time_ratio, memory_ratio) in measured_bill(torch.device("cpu"), 40).items():
        print(f"    {name!r}: ({time_ratio:.2f}, {memory_ratio:.2f}),")
