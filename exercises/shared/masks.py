"""Masks of sizes that could be mistaken for others, and what results say about a mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from whywrong import Case, Draw
from whywrong.probing import Trial


def as_many_texts(
    draw: Draw, hidden: Callable[..., torch.Tensor], T: int, S: int
) -> tuple[Case, Case]:
    """Masks whose first size is also the number of texts: only their last dimensions count."""
    queries = {"scores": draw.normal(T, T, S), "hidden": hidden(T, S)}
    heads = {"scores": draw.normal(3, 3, T, S), "hidden": hidden(3, T, S)}
    return (
        Case("as many texts as queries, one mask for all", queries, roles={"small"}),
        Case("as many texts as heads, a mask for each head", heads, roles={"small"}),
    )


def filled_with_a_number(trials: Sequence[Trial]) -> bool:
    """Whether all wrong weights are those of one finite score instead of every hidden score,
    whatever the number is; hidden weights may have been set to 0 afterwards."""
    wrong = [t for t in trials if not t.observed.error and _off(t)]
    return bool(wrong) and any(
        all(_alike(one, fill) for one in wrong) for t in wrong for fill in _fills(t)
    )


def _off(t: Trial) -> bool:
    out, right = t.observed.tensors.get("out"), t.expected["out"]
    if out is None or out.shape != right.shape:
        return False
    return not torch.allclose(out.double(), right.double(), atol=1e-5)


def _hidden(t: Trial) -> torch.Tensor:
    return t.case["hidden"].expand_as(t.case["scores"])


def _fills(t: Trial) -> list[float]:
    """The scores that would explain one row: from its largest hidden weight, or from what its
    visible weights lack to a sum of 1."""
    out, scores, hidden = t.observed.tensors["out"].double(), t.case["scores"].double(), _hidden(t)
    found = []
    for row, s, h in zip(
        out.flatten(0, -2), scores.flatten(0, -2), hidden.flatten(0, -2), strict=True
    ):
        seen = row.where(~h, 0.0)
        best = int(seen.argmax())
        if float(seen[best]) < 1e-30:  # any score so far above the visible ones gives this row
            found.append(float(s.masked_fill(h, -math.inf).max()) + 80.0)
            continue
        base = float(s[best]) - float(seen[best].log())
        own = float(row.where(h, 0.0).max())
        lacks = (1 - float(seen.sum())) / max(1, int(h.sum()))
        if own > 0 or lacks > 1e-6:
            found.append(base + math.log(own or lacks))
    return [fill for fill in found if math.isfinite(fill)][:9]


def _alike(t: Trial, fill: float) -> bool:
    out, hidden = t.observed.tensors["out"].double(), _hidden(t)
    weights = torch.softmax(t.case["scores"].double().masked_fill(hidden, fill), dim=-1)
    return any(
        torch.allclose(out, w, atol=1e-3) for w in (weights, weights.masked_fill(hidden, 0.0))
    )
