"""Lesson 04: the softmax, its gradients and a language model if the scores aren't scaled, or are
divided by other numbers.

The losses of the language model are stored in saturation.json, which `python -m
training.saturation` rewrites.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

QUERIES, KEYS = 500, 8
DIVISORS = (1, 8, 32, 64, 256)
KEPT = Path(__file__).with_suffix(".json")


def look(D: int, scale: float) -> tuple[float, float]:
    """Compare each of 500 random queries of width D with 8 keys.

    Args:
        scale: the factor for each dot product.

    Returns:
        Two medians over the queries: of the largest weight, and of the gradient norm of a row of
        scores, if each query's result is a single number.
    """
    generator = torch.Generator().manual_seed(42)
    query = torch.randn(QUERIES, 1, D, generator=generator)
    key = torch.randn(QUERIES, KEYS, D, generator=generator)
    value = torch.randn(QUERIES, KEYS, 1, generator=generator)
    scores = (query @ key.transpose(-2, -1) * scale).requires_grad_()  # (500, 1, 8)
    weights = torch.softmax(scores, dim=-1)
    gradient = torch.autograd.grad((weights @ value).sum(), scores)[0]
    return weights.amax(dim=-1).median().item(), gradient.norm(dim=-1).median().item()


def by_width(widths: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """The medians of `look` by quantity, for each width, with scores unscaled or divided by √D."""
    named = {"not scaled": lambda D: 1.0, "divided by √D": lambda D: D**-0.5}
    looks = {name: [look(D, scale(D)) for D in widths] for name, scale in named.items()}
    return {
        "largest of 8 weights": {name: [top for top, _ in seen] for name, seen in looks.items()},
        "gradient of a row": {name: [grad for _, grad in seen] for name, seen in looks.items()},
    }


def runs() -> dict[str, dict[str, list[float]]]:
    """Return five stored runs of each model, with one loss for each of `DIVISORS`."""
    stored: dict[str, dict[str, list[float]]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return stored
