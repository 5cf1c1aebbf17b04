"""Lesson 08, last part: who owns how many parameters."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import transformer
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
)
from ..checking.exercise import Expected, Verdict
from .kit.draw import Draw
from .lesson_08_block import LESSON

# ---------------------------------------------------------------- block_parameters


def _count_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, *given: Any, roles: str = "", keywords: tuple[str, ...] = ()) -> Case:
        inputs = dict(zip(("d_model", "expansion", "qkv_bias"), given, strict=False))
        return Case(name, inputs, options={"keywords": keywords}, roles=set(roles.split()))

    every = ("d_model", "expansion", "qkv_bias")
    random = [draw.sizes(2, 5, 40) for _ in range(4)]
    bias = case("as usual, with qkv bias", 32 + draw.integer(1, 40))
    bias.inputs["qkv_bias"] = True  # type: ignore[index]
    bias.options["keywords"] = ("qkv_bias",)  # type: ignore[index]
    return [
        case("as usual", random[0][0], roles="typical plain"),
        bias,
        case("three times as wide", random[1][0] + 4, 3),
        case("with qkv bias", *random[2], True),
        case("without qkv bias, by name", *random[3], False, keywords=every),
        case("the smallest GPT-2's width", 768),
        case("a big GPT-2's width", 1600, 4, True),
        case("one channel", 1, 1, roles="small"),
        case("an odd width, twice as wide", 2 * draw.integer(20, 40) + 1, 2, True),
    ]


class Count:
    """The right count in steps; C is the width."""

    def __call__(self, d_model, expansion=4, qkv_bias=False):
        C, wide = d_model, self.wide(d_model, expansion)
        attention = self.projections(C) + self.biases(C, qkv_bias) + self.out_proj(C)
        return self.answer(attention + self.network(C, wide) + self.norms(C))

    def wide(self, C, expansion):
        return expansion * C

    def projections(self, C):
        return 3 * C * C

    def biases(self, C, qkv_bias):
        return 3 * C if qkv_bias else 0

    def out_proj(self, C):
        return C * C + C

    def network(self, C, wide):
        return 2 * C * wide + self.wide_bias(C, wide) + self.narrow_bias(C, wide)

    def wide_bias(self, C, wide):
        return wide

    def narrow_bias(self, C, wide):
        return C

    def norms(self, C):
        return 4 * C

    def answer(self, count):
        return count


def _count_oracle(d_model: int, expansion: int = 4, qkv_bias: bool = False) -> Tensor:
    """By size of every tensor in a list."""
    C, wide = d_model, d_model * expansion
    shapes = [(C, C)] * 4 + [(C,)] + [(wide, C), (wide,), (C, wide), (C,)] + [(C,)] * 4
    shapes += [(C,)] * 3 if qkv_bias else []
    return torch.tensor(sum(math.prod(shape) for shape in shapes))


def _expect_count(case: Case) -> dict[str, Tensor]:
    return {"out": _count_oracle(**case.inputs)}


class NormsForgotten(Mistake):
    """The norms are missing.

    Why: Each has a scale and a shift of C numbers, and they learn.
    Mend: How many norms has a block, and how many vectors has each?
    """

    def norms(self, C):
        return 0


class OneNorm(Mistake):
    """One norm was counted, or of two norms the scales alone: 2 · C.

    Why: A block has two norms, and each has a scale *and* a shift.
    Mend: How many norms has a block, and how many vectors has each?
    """

    def norms(self, C):
        return 2 * C


class OutProjForgotten(Mistake):
    """`out_proj` is missing.

    Why: It is as big as each of the projections.
    Mend: Which four layers has multi-head attention?
    """

    def out_proj(self, C):
        return 0


class OutProjBiasForgotten(Mistake):
    """The bias of `out_proj` is missing.

    Why: `qkv_bias` speaks of query, key and value; `out_proj` always has a bias.
    Mend: In lesson 07 the count was 4 · C² + C. Where does the last C come from?
    """

    def out_proj(self, C):
        return C * C


class QkvBiasIgnored(Mistake):
    """`qkv_bias` has no effect on the count.

    Why: With it, query, key and value have C biases each.
    Mend: What does `nn.Linear(C, C, bias=True)` have more than one without?
    """

    def biases(self, C, qkv_bias):
        return 0


class QkvBiasAlways(Mistake):
    """Biases of query, key and value were counted whatever `qkv_bias` says.

    Why: By default they have none.
    Mend: What does `qkv_bias=False` mean for `nn.Linear`?
    """

    def biases(self, C, qkv_bias):
        return 3 * C


class QkvBiasOnce(Mistake):
    """With `qkv_bias` one bias was counted for query, key and value together.

    Why: Each of the three has its own.
    Mend: How many layers does `qkv_bias` speak of?
    """

    def biases(self, C, qkv_bias):
        return C if qkv_bias else 0


class QkvBiasOfOne(Mistake):
    """With `qkv_bias` three single numbers were added.

    Why: A bias has a number for each channel that comes out.
    Mend: What is the shape of `nn.Linear(C, C).bias`?
    """

    def biases(self, C, qkv_bias):
        return 3 if qkv_bias else 0


class NetworkBiasesForgotten(Mistake):
    """The two biases of the feed-forward network are missing.

    Why: `nn.Linear` has one by default, with a number for each channel that comes out.
    Mend: What comes out of `expand`, and what of `contract`?
    """

    def network(self, C, wide):
        return 2 * C * wide


class NarrowBiasesOnly(Mistake):
    """Both biases of the network were counted as C wide.

    Why: A bias is as long as what comes *out* of its layer.
    Mend: How wide is what comes out of `expand`?
    """

    def wide_bias(self, C, wide):
        return C


class WideBiasesOnly(Mistake):
    """Both biases of the network were counted as wide as its middle.

    Why: A bias is as long as what comes *out* of its layer.
    Mend: How wide is what comes out of `contract`?
    """

    def narrow_bias(self, C, wide):
        return wide


class OneLinearLayer(Mistake):
    """One of the two layers of the network is missing.

    Why: What is widened has to be narrowed again.
    Mend: `expand` and `contract` are of the same size.
    """

    def network(self, C, wide):
        return C * wide + wide + C


class NetworkForgotten(Mistake):
    """The feed-forward network is missing, the biggest owner of all.

    Why: Two thirds of a block's parameters are in it.
    Mend: Which parts has a block?
    """

    def network(self, C, wide):
        return 0


class ExpansionIgnored4(Mistake):
    """The network was counted as four times as wide, whatever `expansion` says.

    Why: 4 is usual and no law: one published course uses 3.
    Mend: Let the argument say how wide the middle is.
    """

    @classmethod
    def id(cls):
        return "expansion_ignored"

    def wide(self, C, expansion):
        return 4 * C


class AFloat(Mistake):
    """The count is a float; an `int` was asked for.

    Why: Above 2⁵³ a float can't tell neighbouring whole numbers apart.
    Mend: `/` and `**` with a fraction give floats; `//`, `*` and `+` of ints don't.
    """

    def answer(self, count):
        return count * 1.0


class ATensor(Mistake):
    """The count is a tensor; an `int` was asked for.

    Why: A tensor prints and compares differently, and may sit on another device.
    Mend: Leave tensors out of it, or end with `.item()`.
    """

    def answer(self, count):
        return torch.tensor(count)


def _exactly(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.tensors["out"] == expected["out"])


BLOCK_PARAMETERS = Exercise(
    id="block_parameters",
    lesson=LESSON,
    call="block_parameters(d_model, expansion=4, qkv_bias=False)",
    points=0.5,
    cases=_count_cases,
    probe=FunctionProbe(),
    expect=_expect_count,
    reference=transformer.block_parameters,
    returns="int",
    properties=(
        Property(
            "usual",
            "A usual block is counted right",
            _exactly,
            credit=True,
            role="plain",
        ),
    ),
    misconceptions=Misconceptions.of(
        NormsForgotten,
        OneNorm,
        OutProjBiasForgotten,
        NetworkBiasesForgotten,
        NarrowBiasesOnly,
        QkvBiasIgnored,
        QkvBiasOnce,
        QkvBiasAlways,
        OutProjForgotten,
        ExpansionIgnored4,
        WideBiasesOnly,
        OneLinearLayer,
        NetworkForgotten,
        QkvBiasOfOne,
        AFloat,
        ATensor,
        on=Count,
    ),
    hints=(
        "An `nn.Linear` from a to b has a · b weights and b biases. Write down each layer of the "
        "block: three projections, `out_proj`, `expand`, `contract`; then the norms.",
        "With C for `d_model` and W for `expansion * C`: attention 3 · C² (and 3 · C with "
        "`qkv_bias`) and C² + C, the network 2 · C · W + W + C, the norms 4 · C.",
    ),
    other_way="""\
# Counted, on the device "meta", where tensors have a shape and no numbers: no memory is needed.
def block_parameters(d_model, expansion=4, qkv_bias=False):
    with torch.device("meta"):
        parts = [
            attention.MultiHeadAttention(d_model, d_model, 1, num_heads=1, qkv_bias=qkv_bias),
            FeedForward(d_model, expansion),
            LayerNorm(d_model),
            LayerNorm(d_model),
        ]
    return sum(p.numel() for part in parts for p in part.parameters())
""",
)
