"""Shared by the three ways to compute a mean: cases, expectation, properties."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Draw, Observation, expect_function, near, true_of
from whywrong.probing import Expected, Verdict


def mean_oracle(x: Tensor) -> Tensor:
    """Causal mean in float64, by running sums."""
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    return x.cumsum(dim=1) / counts[:, None]


expect_mean = expect_function(mean_oracle, gradients=("x",))


def mean_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, C = draw.sizes(3, 3, 7)  # for two tokens, many wrong means are right
    b, _, c = draw.sizes(3, 2, 9)
    middle, cube = draw.integer(5, 9), draw.integer(3, 5)
    odd = 2 * middle + 1  # for 2, 4 or 8 tokens, every weight is exact in float32 too
    offsets = torch.tensor([100.0, -100.0, 30.0, -30.0])[:, None, None]
    by_hand = torch.tensor([[[2.0, 7.0], [6.0, 4.0], [6.0, 5.0]]])
    return [
        Case("three tokens by hand", {"x": by_hand}, roles={"small", "several"}),
        Case("random numbers", {"x": draw.normal(B, T, C)}, roles={"typical", "several"}),
        Case("float64", {"x": draw.normal(b, odd, c, dtype=torch.float64)}),
        Case("numbers far from 0", {"x": draw.normal(4, middle, 3) * 10 + offsets}),
        Case("all sizes equal", {"x": draw.normal(cube, cube, cube)}, roles={"small"}),
        Case("not contiguous in memory", {"x": draw.normal(B, C, T).transpose(1, 2)}),
        Case("one token", {"x": draw.normal(2, 1, 3)}, roles={"small"}),
        Case("one channel", {"x": draw.normal(3, 4, 1)}, roles={"small"}),
        Case("one sequence", {"x": draw.normal(1, T, C)}, roles={"small"}),
    ]


def changed(case: Case) -> dict[str, Any]:
    """The second half of sequence 0 is replaced."""
    x = case["x"].clone()
    x[0, x.shape[1] // 2 :] += 1.0
    return {"x": x}


FURTHER = {"": {"changed": changed, "ones": lambda case: {"x": torch.ones_like(case["x"])}}}


@true_of("A token depends on the tokens before it", gate=True, role="several")
def mixes(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return not near(observed.tensors["out"][:, 1:], case["x"][:, 1:]) and not near(
        observed.tensors["out"], observed.tensors["changed"]
    )


@true_of("The first token stays unchanged", credit=True)
def first_token(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return near(observed.tensors["out"][:, 0], case["x"][:, 0])


@true_of("A later token does not affect an earlier one", credit=True)
def no_future(case: Case, observed: Observation, expected: Expected) -> Verdict:
    half = case["x"].shape[1] // 2
    if not half:
        return None
    return near(observed.tensors["out"][0, :half], observed.tensors["changed"][0, :half])


@true_of("Sequences of a batch don't mix")
def own_sequence(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if case["x"].shape[0] == 1:
        return None
    return near(observed.tensors["out"][1:], observed.tensors["changed"][1:])


@true_of(
    "The mean of equal tokens is that token",
    credit=True,
    breaks="The mean of equal tokens is not that token",
)
def sums_to_one(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return near(observed.tensors["ones"], torch.ones_like(case["x"]))


MEAN_PROPERTIES = (mixes, first_token, no_future, own_sequence, sums_to_one)
