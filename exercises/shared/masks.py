"""Masks of sizes that could be mistaken for others, and what results say about a mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from whywrong import Case, Draw
from whywrong.probing import Trial

Filling = Callable[[Trial], torch.Tensor]


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
    """Whether all wrong weights are those of one finite number, whatever it is, that replaces every
    hidden score or is subtracted from it; hidden weights may have been set to 0 afterwards, and so
    may those of rows without a visible key."""
    wrong = [t for t in trials if not t.observed.error and _off(t).any()]
    return any(bool(_off(t)[~_hidden(t).all(-1)].any()) for t in wrong) and any(
        all(_alike(one, filled(one)) for one in wrong) for t in wrong for filled in _fillings(t)
    )


def _off(t: Trial) -> torch.Tensor:
    """Which rows are wrong; none in a result of another shape."""
    out, right = t.observed.tensors.get("out"), t.expected["out"]
    if out is None or out.shape != right.shape:
        return torch.zeros(right.shape[:-1], dtype=torch.bool)
    return ~torch.isclose(out.double(), right.double(), atol=1e-5).all(dim=-1)


def _scores(t: Trial) -> torch.Tensor:
    return t.case["scores"].double()


def _hidden(t: Trial) -> torch.Tensor:
    return t.case["hidden"].expand_as(t.case["scores"])


def _fillings(t: Trial) -> Iterator[Filling]:
    """The changes of hidden scores that would explain one row."""
    for fill in _fills(t):
        yield lambda one, fill=fill: _scores(one).masked_fill(_hidden(one), fill)
    for drop in _drops(t):
        yield lambda one, drop=drop: _scores(one) - drop * _hidden(one)


def _drops(t: Trial) -> list[float]:
    """The numbers whose subtraction from hidden scores would explain one row: from the sum of its
    hidden weights, or from what its visible weights lack to a sum of 1."""
    out, scores, hidden = t.observed.tensors["out"].double(), _scores(t), _hidden(t)
    seen, own = (out.where(rows, 0.0).sum(-1) for rows in (~hidden, hidden))
    above = (scores.masked_fill(rows, -math.inf).logsumexp(-1) for rows in (~hidden, hidden))
    drops = next(above) - next(above) + seen.log() - own.where(own > 0, 1 - seen).log()
    return [drop for drop in drops.flatten().tolist() if 0 < drop < 101][:9]


def _fills(t: Trial) -> list[float]:
    """The scores that would explain one row: from its largest hidden weight, or from what its
    visible weights lack to a sum of 1."""
    out, scores, hidden = t.observed.tensors["out"].double(), _scores(t), _hidden(t)
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


def _alike(t: Trial, scores: torch.Tensor) -> bool:
    out, hidden = t.observed.tensors["out"].double(), _hidden(t)
    weights, empty = torch.softmax(scores, dim=-1), hidden.all(dim=-1, keepdim=True)
    cleared = (weights.masked_fill(rows, 0.0) for rows in (hidden, empty))
    return any(torch.allclose(out, w, atol=1e-3) for w in (weights, *cleared))
