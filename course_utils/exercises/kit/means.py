"""What the three ways to the same mean share: cases, expectation, evidence, behaviours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...checking import Case, Observation, Property, expect_function
from ...checking.calling import fresh
from ...checking.comparing import near
from ...checking.exercise import Expected, Verdict
from .draw import Draw


def mean_oracle(x: Tensor) -> Tensor:
    """Causal mean in float64, by running sums."""
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    return x.cumsum(dim=1) / counts[:, None]


expect_mean = expect_function(mean_oracle, gradients=("x",))


def mean_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, C = draw.sizes(3, 2, 7)
    b, t, c = draw.sizes(3, 2, 9)
    tall = draw.integer(120, 140)
    cube = draw.integer(3, 5)
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None]
    by_hand = torch.tensor([[[2.0, 7.0], [6.0, 4.0], [6.0, 5.0]]])
    return [
        Case("three tokens by hand", {"x": by_hand}, roles={"small"}),
        Case("random numbers", {"x": draw.normal(B, T, C)}, roles={"typical"}),
        Case("float64", {"x": draw.normal(b, t, c, dtype=torch.float64)}),
        Case("many tokens", {"x": draw.normal(2, tall, 1)}, roles={"small"}),
        Case("numbers near 100 and -100", {"x": draw.normal(4, c + 2, 3) * 10 + 100 * signs}),
        Case("all sizes equal", {"x": draw.normal(cube, cube, cube)}, roles={"small"}),
        Case("not contiguous in memory", {"x": draw.normal(B, C, T).transpose(1, 2)}),
        Case("one token", {"x": draw.normal(2, 1, 3)}, roles={"small"}),
        Case("one channel", {"x": draw.normal(3, 4, 1)}, roles={"small"}),
    ]


def see_changes(answer: Any, case: Case, seen: Observation) -> None:
    """Two more calls: with the later half of sequence 0 replaced, and with equal tokens."""
    x = case["x"]
    changed = x.clone()
    changed[0, x.shape[1] // 2 :] += 1.0
    seen.put("changed", answer(fresh(changed)))
    seen.put("ones", answer(fresh(torch.ones_like(x))))


def _first_token(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, 0], case["x"][:, 0])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    half = case["x"].shape[1] // 2
    if not half:
        return None
    return near(seen.tensors["out"][0, :half], seen.tensors["changed"][0, :half])


def _own_sequence(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if case["x"].shape[0] == 1:
        return None
    return near(seen.tensors["out"][1:], seen.tensors["changed"][1:])


def _sums_to_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["ones"], torch.ones_like(case["x"]))


def _mixes(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if case["x"].shape[1] == 1:
        return None
    return not near(seen.tensors["out"][:, 1:], case["x"][:, 1:]) and not near(
        seen.tensors["out"], seen.tensors["changed"]
    )


MEAN_PROPERTIES = (
    Property("mixes", "A token listens to the tokens before it", _mixes, gate=True),
    Property("first_token", "The first token stays as it is", _first_token, credit=True),
    Property("no_future", "A later token has no say in an earlier one", _no_future, credit=True),
    Property("own_sequence", "Sequences of a batch don't mix", _own_sequence),
    Property("sums_to_one", "The mean of equal tokens is that token", _sums_to_one, credit=True),
)
