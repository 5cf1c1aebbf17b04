"""Lesson 08: GELU."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from .. import transformer
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
    expect_function,
)
from ..checking.calling import fresh
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import mistakes as m
from .kit.blocks import (
    Gelu,
)
from .kit.draw import Draw
from .lesson_08_block import GELUS, LESSON

# ---------------------------------------------------------------- gelu


def _gelu_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    sizes = [draw.sizes(3, 2, 9) for _ in range(4)]
    wide = 5 * draw.normal(*sizes[2], dtype=torch.float64)
    return [
        Case("three numbers by hand", {"x": torch.tensor([[[-3.0, 0.0, 3.0]]])}, roles={"small"}),
        Case("random numbers", {"x": draw.normal(*sizes[0])}, roles={"typical"}),
        Case(
            "float64, given by name",
            {"x": 2 * draw.normal(*sizes[1], dtype=torch.float64)},
            options={"keywords": ("x",)},
        ),
        Case("wide numbers", {"x": wide}),
        Case("tiny numbers", {"x": 0.001 * draw.normal(*sizes[3])}),
        Case("far from 0", {"x": 1e4 * draw.normal(*sizes[0])}),
        Case("not contiguous in memory", {"x": draw.normal(*sizes[1]).mT}),
        Case("a single number", {"x": draw.normal(1)[0]}, roles={"small"}),
        Case("a row", {"x": draw.normal(7)}, roles={"small"}),
        Case("four dimensions", {"x": draw.normal(2, 3, 5, 4)}, roles={"small"}),
        Case("12,480 numbers", {"x": 3 * draw.normal(3, 4, 1040)}, options={"once": True}),
    ]


def _bends(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Neither a constant, nor x or a part of it, nor ReLU."""
    x, out = case["x"].double(), seen.tensors["out"].double()
    line = x * (out * x).sum() / (x * x).sum()
    return not any(near(out, other) for other in (out.mean().expand_as(out), line, x.relu()))


def _far_out(case: Case, seen: Observation, expected: Expected) -> Verdict:
    x, out = case["x"], seen.tensors["out"]
    far = x.abs() > 6
    return near(out[far], x[far].clamp(min=0.0)) if bool(far.any()) else None


def _see_minus(answer: Any, case: Case, seen: Observation) -> None:
    if "typical" in case.roles:
        with torch.no_grad():
            seen.put("minus", answer(fresh(-case["x"])))


def _adds_to_x(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"] - seen.tensors["minus"], case["x"], 1e-5)


class Exact(Mistake):
    """That is the exact GELU, with `erf`; the form with `tanh` was asked for.

    Why: They differ by up to 0.0005: too little to see, enough to miss published numbers.
    Mend: The formula with 0.044715 is the one that GPT-2 uses.
    """

    @classmethod
    def id(cls):
        return "exact_gelu"

    def __call__(self, x):
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


class SigmoidForm(Mistake):
    """That is `x * sigmoid(1.702 * x)`, a rougher form of the same curve.

    Why: It is off by up to 0.02.
    Mend: The formula with `tanh` and 0.044715 was asked for.
    """

    def __call__(self, x):
        return x * torch.sigmoid(1.702 * x)


class Silu(Mistake):
    """That is SiLU, `x * sigmoid(x)`.

    Why: Another curve of the same family; the weights of one model don't fit the other.
    Mend: The formula with `tanh` and 0.044715 was asked for.
    """

    def __call__(self, x):
        return x * torch.sigmoid(x)


class IsRelu(Mistake):
    """That is ReLU: 0 for what is below 0.

    Why: Its slope is 0 there, so a unit that is off can't learn its way back.
    Mend: The formula with `tanh` was asked for.
    """

    def __call__(self, x):
        return x.relu()


class WrongConstant(Mistake):
    """The constant in front of the cube is another than 0.044715.

    Why: Six digits are easily mistyped, and the curve still looks right.
    Mend: Compare digit by digit.
    """

    cubic = 0.44715


class CubeForgotten(Mistake):
    """The cube is missing: `tanh` of √(2/π) times x alone.

    Why: The curve is off by up to 0.034.
    Mend: 0.044715 stands before a power of x. Which?
    """

    def inner(self, x):
        return x


class SquareForCube(Mistake):
    """You squared x; the formula has its cube.

    Why: A square has no sign, so below 0 the curve goes wrong.
    Mend: Which power of x keeps its sign?
    """

    def power(self, x):
        return x**2


class CubedTogether(Mistake):
    """The whole bracket was cubed, not x alone.

    Why: Near 0 the share then stays at one half, where it should rise with x.
    Mend: `**` binds tighter than `*` and `+`: where do your brackets stand?
    """

    def inner(self, x):
        return (x + self.cubic * x) ** 3


class FactorRootForgotten(Mistake):
    """The factor is 2/π; its root is missing.

    Why: The curve rises too slowly.
    Mend: √(2/π) is about 0.798.
    """

    def factor(self):
        return 2 / math.pi


class FactorInverted(Mistake):
    """The factor is √(π/2), the wrong way round.

    Why: The curve rises too steeply.
    Mend: √(2/π) is about 0.798, less than 1.
    """

    def factor(self):
        return math.sqrt(math.pi / 2)


class FactorForgotten(Mistake):
    """The factor √(2/π) is missing.

    Why: The curve rises a little too steeply.
    Mend: It stands before the bracket, inside `tanh`.
    """

    def factor(self):
        return 1.0


class FactorOnXAlone(Mistake):
    """√(2/π) multiplies x alone, not the whole bracket.

    Why: Close, and off in the third decimal place.
    Mend: The bracket holds x and the cube.
    """

    def __call__(self, x):
        inner = self.factor() * x + self.cubic * self.power(x)
        return self.halved(x, self.rise(inner))


class HalfForgotten(Mistake):
    """The factor 0.5 is missing: far to the right 2x comes out.

    Why: Each such layer doubles what passes.
    Mend: `1 + tanh` lies between 0 and 2; a share lies between 0 and 1.
    """

    def halved(self, x, risen):
        return x * (1 + risen)


class OnePlusForgotten(Mistake):
    """`1 +` is missing in front of `tanh`.

    Why: The curve is then the same on both sides of 0, as if a minus had no meaning.
    Mend: `tanh` lies between -1 and 1; a share lies between 0 and 1.
    """

    def halved(self, x, risen):
        return 0.5 * x * risen


class ShareOnly(Mistake):
    """You return the share; x is missing.

    Why: GELU lets a share of x pass. The share alone lies between 0 and 1.
    Mend: What is multiplied by the share?
    """

    def halved(self, x, risen):
        return 0.5 * (1 + risen)


class SigmoidForTanh(Mistake):
    """`sigmoid` stands where `tanh` should.

    Why: `sigmoid` lies between 0 and 1 already; `1 +` and 0.5 are meant for -1 to 1.
    Mend: Read the formula again.
    """

    def rise(self, inner):
        return torch.sigmoid(inner)


class ErfForTanh(Mistake):
    """`erf` stands where `tanh` should, on the bracket with the cube.

    Why: The cube is there because `tanh` isn't `erf`: both corrections at once are one too many.
    Mend: Read the formula again.
    """

    def rise(self, inner):
        return torch.erf(inner)


GELU = Exercise(
    id="gelu",
    lesson=LESSON,
    call="gelu(x)",
    points=0.5,
    cases=_gelu_cases,
    probe=FunctionProbe(gradients=("x",), watch=True, extra=_see_minus),
    expect=expect_function(lambda x: F.gelu(x, approximate="tanh"), gradients=("x",)),
    reference=transformer.gelu,
    properties=(
        Property(
            "bends",
            "The result is a bent curve",
            _bends,
            gate=True,
            role="typical",
            breaks="The result is a constant, a straight line or ReLU",
        ),
        Property(
            "far_out", "Far from 0 it is x on the right, and 0 on the left", _far_out, credit=True
        ),
        Property("adds_to_x", "`gelu(x) - gelu(-x)` is x", _adds_to_x, credit=True, role="typical"),
    ),
    misconceptions=Misconceptions.of(
        Exact,
        CubeForgotten,
        FactorRootForgotten,
        IsRelu,
        WrongConstant,
        WrongConstant.but(cubic=0.04715),
        WrongConstant.but(cubic=0.044175),
        WrongConstant.but(cubic=0.0044715),
        CubedTogether,
        FactorOnXAlone,
        SquareForCube,
        HalfForgotten,
        OnePlusForgotten,
        ShareOnly,
        SigmoidForm,
        Silu,
        FactorForgotten,
        FactorInverted,
        SigmoidForTanh,
        ErfForTanh,
        m.Float32Result,
        m.CutOff,
        m.ChangesItsInput,
        on=Gelu,
    ),
    hints=(
        "Follow the formula from the inside: the cube, the bracket, `torch.tanh`, the share, x.",
        "`math.sqrt(2 / math.pi)` is the factor in front of the bracket; `x**3` is the cube.",
    ),
    other_way="""\
# With the share written as a sigmoid: (1 + tanh(z)) / 2 is sigmoid(2 z).
def gelu(x):
    return x * torch.sigmoid(1.5957691216057308 * (x + 0.044715 * x**3))
""",
    forbidden=GELUS,
    forbidden_text="GELU is the exercise: write its formula with `torch.tanh`.",
)
