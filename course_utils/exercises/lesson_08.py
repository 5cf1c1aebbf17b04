"""Lesson 08: the norm, GELU, the feed-forward network, counting; quizzes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import transformer
from ..checking import (
    Case,
    Entry,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_function,
    expect_module,
)
from ..checking.calling import fresh
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES, inject
from ..checking.quizzes import quiz, slip
from .kit import mistakes as m
from .kit.blocks import (
    Gelu,
    Network,
    Norm,
    network_oracle,
    network_weights,
    norm_oracle,
    norm_weights,
)
from .kit.branch_dropout import BRANCH_DROPOUT, network_dropout_case, see_branch_dropout
from .kit.draw import Draw
from .kit.dropout import TRAINS
from .lesson_08_block import GELUS, LESSON, NORMS, TRANSFORMER_BLOCK

# ---------------------------------------------------------------- LayerNorm


def _norm_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        x: Tensor | None = None,
        *made: Any,
        roles: str = "",
        dtype: torch.dtype = torch.float32,
        size: float = 1.0,
        once: bool = False,
        **named: Any,
    ) -> Case:
        if x is None:
            x = draw.normal(*draw.sizes(3, 3, 9), dtype=dtype) * size
        C = x.shape[-1]
        options = {
            "args": () if "d_model" in named else (C, *made),
            "kwargs": named,
            "weights": norm_weights(draw, "", C, x.dtype),
            "dtype": x.dtype,
            "eps": {"eps": 1e-5, **dict(zip(["eps"], made, strict=False)), **named}["eps"],
            "once": once,
        }
        if "typical" in roles:  # another one is made beside it, of another width
            options["others"] = [((C + 1, 0.1), {})]
        return Case(name, {"x": x}, options=options, roles=set(roles.split()))

    by_hand = case("three numbers by hand", torch.tensor([[[1.0, 2.0, 6.0]]]), roles="small")
    by_hand.options["weights"] = {"scale": torch.ones(3), "shift": torch.zeros(3)}
    new = case("as it is made, no weights put in", once=True)
    new.options["weights"] = {}
    B, T, C = draw.sizes(3, 3, 9)
    equal = draw.normal(B, T, C, dtype=torch.float64)
    equal[:, ::2] = 1 / 3
    named = draw.normal(*draw.sizes(3, 3, 9))
    far = 40 + 3 * draw.normal(*draw.sizes(3, 3, 9), dtype=torch.float64)
    flat = draw.normal(*draw.sizes(3, 3, 9))
    flat[0] *= 0.001
    return [
        by_hand,
        case("random numbers", roles="typical device"),
        new,
        case("made by name", named, d_model=named.shape[-1], eps=0.3),
        case("made by position, with eps", None, 0.5),
        case("small numbers", size=0.003),
        case("tokens of almost no variance", flat),
        case("tokens whose channels are all equal", equal),
        case("numbers far from 0", far),
        case("float64", dtype=torch.float64),
        case("not contiguous in memory", draw.normal(B, C, T).mT),
        case("one text", draw.normal(5, 7), roles="small"),
        case("one token", draw.normal(6), roles="small"),
        case("four dimensions", draw.normal(2, 3, 5, 4), roles="small"),
        case("one channel", draw.normal(4, 3, 1), roles="small"),
        case("1,040 channels", draw.normal(2, 3, 1040), once=True),
        case("1,040 tokens", draw.normal(2, 1040, 5), once=True),
    ]


def _norm_oracle(case: Case, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return norm_oracle(weights, x, case.options["eps"])


def _see_norm(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """One token changed; and with a scale of ones and a shift of zeros."""
    if "typical" not in case.roles:
        return
    module, x = make(), case["x"]
    changed = x.clone()
    changed[0, 0] = 2 * x[0, 0].roll(1) + 1
    with torch.no_grad():
        seen.put("changed", module(fresh(changed)))
        C = x.shape[-1]
        inject(module, {"scale": torch.ones(C), "shift": torch.zeros(C)})
        seen.put("plain", module(fresh(x)))


def _norm_listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["changed"][0, 0], seen.tensors["out"][0, 0])


def _norm_apart(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["changed"][1:], seen.tensors["out"][1:]) and near(
        seen.tensors["changed"][0, 1:], seen.tensors["out"][0, 1:]
    )


def _mean_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    plain = seen.tensors["plain"].mean(-1)
    return near(plain, torch.zeros_like(plain))


def _variance_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    plain = seen.tensors["plain"].var(-1, correction=0)
    return near(plain, torch.ones_like(plain), 1e-3)


class OverTokens(Mistake):
    """Mean and variance run over the tokens, not over the channels.

    Why: A token's numbers then hang on the others, on those after it too: the future leaks.
    Mend: In `(…, C)`, which dimension holds the channels of one token?
    """

    axis: Any = -2


class OverTokensAndChannels(Mistake):
    """Mean and variance run over all tokens of a text and their channels together.

    Why: Each token is then normed with its future: the mask of attention is right, and it leaks.
    Mend: One mean and one variance for each token: which dimension is left to run over?
    """

    axis = (-2, -1)

    def mean(self, x):
        return x.mean(dim=self.axis if x.dim() > 1 else -1, keepdim=True)

    def variance(self, x):
        return x.var(dim=self.axis if x.dim() > 1 else -1, keepdim=True, correction=0)


class OverTheBatch(OverTokens):
    """Mean and variance run over the sequences of the batch: that is the idea of batch norm.

    Why: A text then changes with the texts beside it.
    Mend: In `(…, C)`, which dimension holds the channels of one token?
    """

    axis = 0


class OverEverything(Mistake):
    """There is one mean and one variance for the whole tensor.

    Why: A text then changes with the texts beside it, and a token with its future.
    Mend: `dim=-1` with `keepdim=True` gives one of each for every token.
    """

    def mean(self, x):
        return x.mean()

    def variance(self, x):
        return x.var(correction=0)


class UnbiasedVariance(Mistake):
    """The variance was divided by C - 1, as `var` and `std` do by default.

    Why: That is meant for samples. A norm divides by C, so that the result has variance 1.
    Mend: `var` has an argument for it: `unbiased` or `correction`.
    """

    correction = 1


class EpsilonForgotten(Mistake):
    """`eps` is not added.

    Why: A token of equal channels has the variance 0, and 0/0 is NaN.
    Mend: It belongs to the variance, inside the root.
    """

    def root(self, variance):
        return variance.sqrt()


class EpsilonOutside(Mistake):
    """`eps` was added to the root; it belongs under it.

    Why: Where the variance is small the result is another: √(v + ε) is not √v + ε.
    Mend: First add, then take the root.
    """

    def root(self, variance):
        return variance.sqrt() + self.eps


class EpsilonOutsideUnbiased(Mistake):
    """`std` divides by C - 1, and `eps` was added to it, outside the root.

    Why: Both are small for many channels; published numbers come from the other form.
    Mend: Start from the variance, with an argument that makes it divide by C.
    """

    correction = 1

    def root(self, variance):
        return variance.sqrt() + self.eps


class EpsilonFixed(Mistake):
    """`eps` is written into the code, whatever the constructor gets.

    Why: Models differ in it: 1e-5, 1e-6, 1e-12.
    Mend: Keep the constructor's argument, and use it in `forward`.
    """

    def kept(self, eps):
        return 1e-5


class RootForgotten(Mistake):
    """The tokens were divided by the variance; its root is missing.

    Why: The variance is in squares of what the channels are in: the result has variance 1/v.
    Mend: Which number is a typical distance from the mean?
    """

    def root(self, variance):
        return variance + self.eps


class MeanNotSubtracted(Mistake):
    """The mean was not subtracted.

    Why: What all channels have in common stays, and grows from block to block.
    Mend: Two steps: move the mean to 0, then divide.
    """

    def centred(self, x):
        return x


class RootMeanSquare(Mistake):
    """The tokens were divided by the root of their mean square, the mean left in: that is RMSNorm.

    Why: Newer models do that, and it is cheaper; here the mean is subtracted.
    Mend: Subtract the mean first. The variance is the mean square of what is left.
    """

    def centred(self, x):
        return x

    def variance(self, x):
        return (x**2).mean(-1, keepdim=True)


class MeanDistance(Mistake):
    """The tokens were divided by their mean distance from the mean, not by the root of the variance.

    Why: The result doesn't have variance 1.
    Mend: Square the distances, take their mean, then the root.
    """

    def spread(self, x):
        return self.centred(x).abs().mean(-1, keepdim=True) + self.eps


class SquaresSummed(Mistake):
    """The squares were added up and not divided by C.

    Why: The wider the token, the smaller the result.
    Mend: The variance is the *mean* of the squares.
    """

    def variance(self, x):
        return (self.centred(x) ** 2).sum(-1, keepdim=True)


class ScaleAndShiftUnused(Mistake):
    """`scale` and `shift` are there and not used.

    Why: The norm could never be undone where that is better, and two vectors never learn.
    Mend: What comes last, after the division?
    """

    def learned(self, normed):
        return normed


class ScaleUnused(ScaleAndShiftUnused):
    """`scale` is not used.

    Why: It is there, counts as a parameter, and never learns.
    Mend: The normed channels are multiplied by it, each by its own.
    """

    def learned(self, normed):
        return normed + self.shift


class ShiftUnused(ScaleAndShiftUnused):
    """`shift` is not used.

    Why: It is there, counts as a parameter, and never learns.
    Mend: It is added last.
    """

    def learned(self, normed):
        return self.scale * normed


class ScaleAndShiftSwapped(ScaleAndShiftUnused):
    """`scale` and `shift` changed places.

    Why: A new norm gives ones everywhere, and the weights of a trained model go wrong.
    Mend: Multiply by the scale, then add the shift.
    """

    def learned(self, normed):
        return self.shift * normed + self.scale


class ShiftedFirst(ScaleAndShiftUnused):
    """The shift was added before the scale multiplies.

    Why: Another function: the weights of a trained model go wrong.
    Mend: Which of the two comes last?
    """

    def learned(self, normed):
        return self.scale * (normed + self.shift)


class ScaledBeforeTheNorm(ScaleAndShiftUnused):
    """Scale and shift act on what comes in, before the norm.

    Why: The norm then takes most of them away again.
    Mend: They come last.
    """

    def forward(self, x):
        return self.normed(self.scale * x + self.shift)


class StartsAtZero(Mistake):
    """`scale` begins at 0: a new norm gives 0 whatever comes in.

    Why: No token tells anything, and gradients through it are 0.
    Mend: With which number does a multiplication change nothing?
    """

    def keep(self, ones, zeros):
        self.scale, self.shift = nn.Parameter(zeros.clone()), nn.Parameter(zeros)


class StartsAtOne(StartsAtZero):
    """`shift` begins at 1.

    Why: A new norm then gives tokens of mean 1.
    Mend: With which number does an addition change nothing?
    """

    def keep(self, ones, zeros):
        self.scale, self.shift = nn.Parameter(ones), nn.Parameter(ones.clone())


class StartsAtRandom(StartsAtZero):
    """`scale` and `shift` begin as random numbers.

    Why: A new norm should only norm; it learns to do more.
    Mend: Ones for what multiplies, zeros for what is added.
    """

    def keep(self, ones, zeros):
        self.scale = nn.Parameter(torch.randn_like(ones))
        self.shift = nn.Parameter(torch.randn_like(zeros))


class NotLearned(Mistake):
    """`scale` and `shift` are tensors or buffers; no optimizer will find them.

    Why: They stay as they were made: ones and zeros.
    Mend: `nn.Parameter` around a tensor makes it learn.
    """

    def keep(self, ones, zeros):
        self.register_buffer("scale", ones)
        self.register_buffer("shift", zeros)


PlainAttributes = NotLearned.but(keep=lambda self, ones, zeros: vars(self).update(_plain(ones)))


def _plain(ones: Tensor) -> dict[str, Tensor]:
    return {"scale": ones, "shift": torch.zeros_like(ones)}


class OneForAll(Mistake):
    """`scale` and `shift` are single numbers, the same for all channels.

    Why: A channel can then not be made louder than the others.
    Mend: One number a channel: d_model of each.
    """

    def keep(self, ones, zeros):
        self.scale, self.shift = nn.Parameter(ones[:1].clone()), nn.Parameter(zeros[:1].clone())


class StatisticsCutOff(Mistake):
    """The values are right, but mean or variance are cut off from the input.

    Why: Gradients then push the tokens in directions that the norm takes away again.
    Mend: No `.detach()`, `.item()` or `torch.no_grad()` around them.
    """

    def mean(self, x):
        return super().mean(x).detach()

    def variance(self, x):
        return super().variance(x).detach()


SpreadCutOff = StatisticsCutOff.but(mean=lambda self, x: Norm.mean(self, x))
MeanCutOff = StatisticsCutOff.but(variance=lambda self, x: Norm.variance(self, x))


class WrittenIntoItsInput(Mistake):
    """The result is right, but the mean was subtracted from the input itself, with `x -= …`.

    Why: Whoever called still holds that tensor, the residual stream, and it now holds another.
    Mend: `x = x - …` makes a new tensor.
    """

    def normed(self, x):
        spread = self.spread(x)
        x -= self.mean(x)
        return x / spread


class NormedAgain(Mistake):
    """The learned scale and shift were followed by another norm.

    Why: The second norm takes the shift and most of the scale away again.
    Mend: Norm once, then scale and shift.
    """

    def forward(self, x):
        return self.normed(super().forward(x))


NORM_PROPERTIES = (
    Property(
        "depends", "A token's numbers have a say in the result", _norm_listens, True, True, False,
        "typical",
    ),
    Property(
        "each_apart",
        "A token has no say in another one",
        _norm_apart,
        credit=True,
        role="typical",
    ),
    Property(
        "mean_zero",
        "With a scale of 1 and a shift of 0, each token has mean 0",
        _mean_zero,
        credit=True,
        role="typical",
    ),
    Property(
        "variance_one",
        "With a scale of 1 and a shift of 0, each token has variance 1",
        _variance_one,
        credit=True,
        role="typical",
    ),
    *MODULE_PROPERTIES,
)

LAYER_NORM = Exercise(
    id="LayerNorm",
    lesson=LESSON,
    call="LayerNorm(d_model, eps=1e-5)",
    points=1.5,
    kind="class",
    cases=_norm_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_norm),
    expect=expect_module(_norm_oracle),
    reference=transformer.LayerNorm,
    properties=NORM_PROPERTIES,
    misconceptions=Misconceptions.of(
        UnbiasedVariance,
        EpsilonForgotten,
        EpsilonOutside,
        EpsilonOutsideUnbiased,
        OverTokens,
        OverTokensAndChannels,
        ScaleAndShiftUnused,
        EpsilonFixed,
        RootForgotten,
        MeanNotSubtracted,
        RootMeanSquare,
        OverTheBatch,
        OverEverything,
        MeanDistance,
        SquaresSummed,
        ScaleUnused,
        ShiftUnused,
        ScaleAndShiftSwapped,
        ShiftedFirst,
        ScaledBeforeTheNorm,
        StartsAtZero,
        StartsAtOne,
        StartsAtRandom,
        NotLearned,
        OneForAll,
        StatisticsCutOff,
        SpreadCutOff,
        MeanCutOff,
        WrittenIntoItsInput,
        NormedAgain,
        on=Norm,
    ),
    hints=(
        "Mean and variance of each token: over the last dimension, with `keepdim=True`, so that "
        "they line up with x.",
        "`x.var(dim=-1, keepdim=True, unbiased=False)` divides by C. `eps` is added to it before "
        "the root.",
        "`normed = (x - mean) / torch.sqrt(variance + self.eps)`, and last `self.scale * normed + "
        "self.shift`, two `nn.Parameter`s of ones and of zeros.",
    ),
    other_way="""\
# The variance by its definition: the mean of the squared distances from the mean.
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        x = x - x.mean(dim=-1, keepdim=True)
        variance = (x * x).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(variance + self.eps) * self.scale + self.shift
""",
    forbidden=NORMS,
    forbidden_text="The norm is the exercise: build it from mean, variance and the root.",
)


# ---------------------------------------------------------------- gelu


def _gelu_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    sizes = [draw.sizes(3, 2, 9) for _ in range(4)]
    wide = 5 * draw.normal(*sizes[2], dtype=torch.float64)
    return [
        Case("three numbers by hand", {"x": torch.tensor([[[-3.0, 0.0, 3.0]]])}, roles={"small"}),
        Case("random numbers", {"x": draw.normal(*sizes[0])}, roles={"typical"}),
        Case("float64, given by name", {"x": 2 * draw.normal(*sizes[1], dtype=torch.float64)},
             options={"keywords": ("x",)}),
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
    """The cube is missing: `tanh` of x alone.

    Why: The curve is off by up to 0.02.
    Mend: 0.044715 stands before a power of x. Which?
    """

    def inner(self, x):
        return x


class SquareForCube(Mistake):
    """x was squared; the formula has its cube.

    Why: A square has no sign, so below 0 the curve goes wrong.
    Mend: Which power of x keeps its sign?
    """

    def power(self, x):
        return x**2


class CubedTogether(Mistake):
    """The whole bracket was cubed, not x alone.

    Why: Near 0 the curve is flat there, where it should pass half of x.
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

    Why: Close, and off in the third digit.
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


class OneForgotten(Mistake):
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
        Property("bends", "The result is a bent curve", _bends, gate=True, role="typical"),
        Property("far_out", "Far from 0 it is x on the right, and 0 on the left", _far_out,
                 credit=True),
        Property("adds_to_x", "`gelu(x) - gelu(-x)` is x", _adds_to_x, credit=True,
                 role="typical"),
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
        OneForgotten,
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


# ---------------------------------------------------------------- FeedForward


def _network_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, int, int] | None = None,
        expansion: int | None = None,
        *,
        given: str = "",
        x: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        size: float = 1.0,
        roles: str = "",
        once: bool = False,
    ) -> Case:
        """`given` says how the constructor gets its arguments, all of them."""
        if sizes is None:
            sizes = _three(draw, expansion or 4)
        B, T, C = sizes
        x = size * draw.normal(B, T, C, dtype=dtype) if x is None else x
        named: dict[str, Any] = {"d_model": C}
        if expansion is not None:
            named["expansion"] = expansion
        if given:
            named = {"d_model": C, "expansion": expansion or 4, "dropout": 0.0}
        by_name = given == "by name"
        options = {
            "args": () if by_name else tuple(named.values()),
            "kwargs": named if by_name else {},
            "weights": network_weights(draw, "", C, (expansion or 4) * C, dtype),
            "dtype": dtype,
            "once": once,
        }
        if "typical" in roles:
            options["others"] = [((C + 1, 2), {"dropout": 0.9})]
        return Case(name, {"x": x}, options=options, roles=set(roles.split()))

    B, T, C = _three(draw, 4)
    turned = draw.normal(B, C, T).mT
    equal = draw.normal(B, 1, C).expand(B, T, C).clone()
    double = torch.float64
    return [
        case("random numbers", roles="typical device"),
        case("made by name, three times as wide", expansion=3, given="by name"),
        case("made by position, float64", expansion=2, given="by position", dtype=double),
        case("no wider in the middle", (3, 5, 4), 1, roles="small"),
        case("big numbers", size=20.0, dtype=double),
        case("equal tokens", (B, T, C), x=equal),
        case("not contiguous in memory", (B, T, C), x=turned),
        case("one token, one channel", (1, 1, 1), 5, roles="small"),
        network_dropout_case(draw),
        case("1,040 tokens", (2, 1040, 5), 3, once=True),
        case("300 channels", (2, 3, 300), once=True),
    ]


def _three(draw: Draw, expansion: int) -> tuple[int, int, int]:
    """B, T and C, of which none is the expansion or the width in the middle."""
    while True:
        B, T, C = draw.sizes(3, 2, 9)
        if len({B, T, C, expansion, expansion * C}) == 5:
            return B, T, C


def _network(case: Case, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return network_oracle(weights, x)


def _see_network(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """One token changed, and all tokens twice as big."""
    see_branch_dropout(make, case, seen)
    if "typical" not in case.roles:
        return
    module, x = make(), case["x"]
    changed = x.clone()
    changed[0, 0] += 1.0
    with torch.no_grad():
        for name, tokens in (("changed", changed), ("twice", 2 * x), ("nothing", 0 * x)):
            seen.put(name, module(fresh(tokens)))


def _hears(case: Case, seen: Observation, expected: Expected) -> Verdict:
    changed, out = seen.tensors["changed"][0, 0], seen.tensors["out"][0, 0]
    return not near(changed, out) and not near(changed, out + 1.0)


def _is_bent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    t = seen.tensors
    return not near(t["twice"] - t["nothing"], 2 * (t["out"] - t["nothing"]))


class ExactInside(Mistake):
    """It bends with the exact GELU, with `erf`; the form with `tanh` was asked for.

    Why: They differ by up to 0.0005: too little to see, enough to miss published numbers.
    Mend: The formula with 0.044715 is the one that GPT-2 uses. `nn.GELU()` is the other.
    """

    @classmethod
    def id(cls):
        return "exact_gelu"

    def bent(self, wide):
        return 0.5 * wide * (1 + torch.erf(wide / 2**0.5))


class ReluInside(Mistake):
    """It bends with ReLU, not with the GELU of this lesson.

    Why: Weights that were trained with the one give other numbers with the other.
    Mend: `gelu` stands between the two linear layers.
    """

    @classmethod
    def id(cls):
        return "relu"

    def bent(self, wide):
        return wide.relu()


class NoBend(Mistake):
    """Nothing bends between the two linear layers.

    Why: Two linear layers in a row are one: four times the width, for nothing.
    Mend: `gelu` stands between them.
    """

    def bent(self, wide):
        return wide


class BentAtTheEnd(Mistake):
    """`gelu` comes after the second linear layer, not between the two.

    Why: Two linear layers in a row are one, and what is added could hardly ever be below 0.
    Mend: Widen, bend, narrow: in this order.
    """

    def bent(self, wide):
        return wide

    def contracted(self, wide):
        return Gelu()(super().contracted(wide))


class BentTwice(Mistake):
    """It bends between the layers and once more at the end.

    Why: What is added to the stream could then hardly ever be below 0.
    Mend: The second linear layer has the last word.
    """

    def contracted(self, wide):
        return Gelu()(super().contracted(wide))


class BentFirst(Mistake):
    """`gelu` acts on what comes in, before the first linear layer.

    Why: Two linear layers in a row are one.
    Mend: Widen, bend, narrow: in this order.
    """

    def expanded(self, x):
        return super().expanded(Gelu()(x))

    def bent(self, wide):
        return wide


class ResidualInside(Mistake):
    """The tokens that come in are added to the result.

    Why: That is the block's task. With both, they would be added twice.
    Mend: Return what the network makes, and nothing more.
    """

    def forward(self, x):
        return x + super().forward(x)


class NormInside(Mistake):
    """The tokens are normed first.

    Why: That is the block's task. With both, they would be normed twice.
    Mend: Two linear layers, `gelu` between them, dropout.
    """

    def expanded(self, x):
        return super().expanded(F.layer_norm(x, x.shape[-1:]))


class ExpansionIgnored(Mistake):
    """The middle is four times as wide, whatever `expansion` says.

    Why: 4 is usual and no law: one published course uses 3.
    Mend: The constructor's argument says how many times.
    """

    def width(self, d_model, expansion):
        return 4 * d_model


class ExpansionAsWidth(Mistake):
    """The middle is `expansion` wide; it should be that many times as wide as a token.

    Why: Four units for 768 channels: nearly everything is lost.
    Mend: Multiply by `d_model`.
    """

    def width(self, d_model, expansion):
        return expansion


class ExpansionAdded(Mistake):
    """The middle is `d_model + expansion` wide.

    Why: 772 is hardly wider than 768.
    Mend: How many *times* as wide?
    """

    def width(self, d_model, expansion):
        return d_model + expansion


class WithoutBias(Mistake):
    """The linear layers have no biases.

    Why: A unit could then not be shifted, and the weights of GPT-2 would not fit in.
    Mend: Leave `bias` of `nn.Linear` as it is by default.
    """

    layers = ("expand", "contract")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in self.layers:
            getattr(self, name).bias = None


class ContractUnused(Mistake):
    """The result is as wide as the middle: `contract` is not called.

    Why: It can't be added to tokens of another width.
    Mend: Widen, bend, narrow. Which step is missing?
    """

    def contracted(self, wide):
        return wide


class WeightsUntransposed(Mistake):
    """A weight was used as `x @ weight`, and `nn.Linear` keeps it as `(d_out, d_in)`.

    Why: The shapes don't fit, or fit by chance.
    Mend: Call the layer: `self.expand(x)`.
    """

    def expanded(self, x):
        return x @ self.expand.weight + self.expand.bias


class OverTokensMixed(Mistake):
    """The tokens of a text were mixed: their mean was given to the network.

    Why: Only attention lets tokens hear each other; here even the future has a say.
    Mend: A linear layer works on the last dimension and leaves the others alone.
    """

    def expanded(self, x):
        return super().expanded(x.mean(1, keepdim=True).expand_as(x))


class DropoutNotUsed(Mistake):
    """Dropout has no effect in training.

    Why: Whoever asks for dropout=0.1 expects a tenth of what is added to be dropped.
    Mend: Send the result through `self.dropout`.
    """

    @classmethod
    def id(cls):
        return "no_dropout"

    def dropped(self, out):
        return out


class DroppedInTheMiddle(Mistake):
    """Dropout acts in the wide middle, not at the end.

    Why: Both are in use, but the numbers of this model come from dropping what is added.
    Mend: The dropout comes last, after `contract`.
    """

    def bent(self, wide):
        return self.dropout(super().bent(wide))

    def dropped(self, out):
        return out


class DroppedTwice(Mistake):
    """Dropout acts twice: in the wide middle and at the end.

    Why: Together more is dropped than was asked for.
    Mend: Once, and last.
    """

    def bent(self, wide):
        return self.dropout(super().bent(wide))


class DroppedTwiceAtTheEnd(DroppedTwice):
    """The result goes through dropout twice.

    Why: Together more is dropped than was asked for, and what is left is scaled up twice.
    Mend: One line with `self.dropout` is enough.
    """

    bent = Network.bent

    def dropped(self, out):
        return self.dropout(self.dropout(out))


class DropoutActsInEvaluation(Mistake):
    """Dropout is active in evaluation mode too: two calls give two results.

    Why: `F.dropout` doesn't know the module's mode unless it is told.
    Mend: An `nn.Dropout` made in the constructor follows `.train()` and `.eval()` by itself.
    """

    @classmethod
    def id(cls):
        return "dropout_in_evaluation"

    def dropped(self, out):
        return nn.functional.dropout(out, self.dropout.p)


class RateFixed(Mistake):
    """The probability of dropout is written into the code, whatever `dropout` says.

    Why: Whoever asks for dropout=0.3 gets another share dropped, and a test at 0 or 0.5 may not
        show it.
    Mend: Pass the constructor's argument on to `nn.Dropout`.
    """

    @classmethod
    def id(cls):
        return "dropout_fixed"

    def rate(self, dropout):
        return 0.1


class RateKept(Mistake):
    """`dropout` was taken for the share that is kept; `nn.Dropout` takes the share that is dropped.

    Why: With dropout=0.1 nine of ten channels would be dropped.
    Mend: Pass the constructor's argument on as it is.
    """

    @classmethod
    def id(cls):
        return "dropout_keeps_share"

    def rate(self, dropout):
        return 1 - dropout if dropout else dropout


class ResultCutOff(Mistake):
    """The values are right, but the result is cut off from its input.

    Why: No gradient can flow back over the cut, so nothing before it could ever learn.
    Mend: Keep ordinary tensor operations all the way, without `.detach()` or `torch.no_grad()`.
    """

    def bent(self, wide):
        return super().bent(wide.detach())


FEED_FORWARD = Exercise(
    id="FeedForward",
    lesson=LESSON,
    call="FeedForward(d_model, expansion=4, dropout=0.0)",
    points=1.0,
    kind="class",
    cases=_network_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_network),
    expect=expect_module(_network),
    reference=transformer.FeedForward,
    properties=(
        Property("hears", "A token's numbers have a say in the result", _hears, gate=True,
                 role="typical"),
        Property("each_apart", "A token has no say in another one", _norm_apart, credit=True,
                 role="typical"),
        Property("bends", "Twice the input is not twice the output", _is_bent, credit=True,
                 role="typical"),
        BRANCH_DROPOUT,
        TRAINS,
        *MODULE_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        ExactInside,
        ReluInside,
        DropoutNotUsed,
        DroppedInTheMiddle,
        NoBend,
        ExpansionIgnored,
        ResidualInside,
        BentAtTheEnd,
        BentTwice,
        BentFirst,
        NormInside,
        ExpansionAsWidth,
        ExpansionAdded,
        WithoutBias,
        WithoutBias.but(layers=("expand",)),
        WithoutBias.but(layers=("contract",)),
        ContractUnused,
        WeightsUntransposed,
        OverTokensMixed,
        DroppedTwice,
        DroppedTwiceAtTheEnd,
        DropoutActsInEvaluation,
        RateFixed,
        RateKept,
        ResultCutOff,
        on=Network,
    ),
    uses=("gelu",),
    hints=(
        "A class on `nn.Module`, with `__init__(self, d_model, expansion=4, dropout=0.0)` and "
        "`forward(self, x)`. The constructor begins with `super().__init__()`.",
        "`expand` is an `nn.Linear` from `d_model` to `expansion * d_model`, `contract` one back; "
        "`dropout` is an `nn.Dropout(dropout)`.",
        "`forward` is one line: widen, `gelu`, narrow, drop.",
    ),
    other_way="""\
# In one place: nn.Sequential runs its parts in order. They keep their names as attributes too.
class FeedForward(nn.Module):
    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, expansion * d_model)
        self.contract = nn.Linear(self.expand.out_features, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for step in [self.expand, gelu, self.contract, self.dropout]:
            x = step(x)
        return x
""",
    forbidden=GELUS,
    forbidden_text="GELU is yours in this lesson: use your `gelu`, or `transformer.gelu`. "
    "(PyTorch's `nn.GELU()` would be the exact form, which gives other numbers.)",
)


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
        case("an odd width, twice as wide", 2 * draw.integer(20, 40) + 1, 2),
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

    Why: `nn.Linear` has one by default, as long as what comes out is wide.
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
    """The number is right, but it is a float.

    Why: Parameters are counted; and beyond 2⁵³ a float can't hold every whole number.
    Mend: `/` and `**` with a fraction give floats; `//`, `*` and `+` of ints don't.
    """

    def answer(self, count):
        return count * 1.0


class ATensor(Mistake):
    """The number is right, but it is a tensor.

    Why: A count is a plain number, which prints and adds up with others.
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
        Property("usual", "A usual block is counted right", _exactly, gate=True, role="plain"),
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


# ---------------------------------------------------------------- recall

VIEW, PADDED, PAIRS = "moves no number", "padding hides", "scores at T = 8"

RECALL = quiz(
    "recall_08",
    lesson=LESSON,
    points=0.5,
    about="lessons 07, 05 and 01, without looking back",
    entries=(
        Entry(
            VIEW,
            "both",
            "`view` sets new borders, `transpose` another order of reading; in memory nothing "
            "moves.",
            "Which of them copies? (`reshape` and `contiguous` may.)",
            ("view", "transpose", "both", "neither"),
        ),
        Entry(
            PADDED,
            "columns",
            "A column of the scores is a token that is looked at: padding is not to be heard.",
            "A row is a token that looks, a column one that is looked at.",
            ("rows", "columns", "both"),
        ),
        Entry(
            PAIRS,
            64,
            "Each token meets each token: T², mask or not.",
            "Each of the 8 tokens meets how many?",
        ),
    ),
    misconceptions=(
        slip(
            "transpose_copies",
            {VIEW: "view"},
            "You let `transpose` move the numbers.",
            "It only has them read in another order; that is why `view` refuses afterwards.",
            "What did `is_contiguous()` say after a `transpose`?",
        ),
        slip(
            "view_copies",
            {VIEW: "transpose"},
            "You let `view` move the numbers.",
            "A view of a tensor shares its memory; that is where the name comes from.",
            "What happens to x if you write into `x.view(…)`?",
        ),
        slip(
            "both_copy",
            {VIEW: "neither"},
            "You let both of them move the numbers.",
            "Both share the memory of the tensor they come from.",
            "Which method copies when it must?",
        ),
        slip(
            "padded_rows_hidden",
            {PADDED: "rows"},
            "You hid the rows of padded tokens.",
            "Real tokens would still see the padding, and padded queries nothing.",
            "A row is a token that looks, a column one that is looked at.",
        ),
        slip(
            "padded_rows_and_columns_hidden",
            {PADDED: "both"},
            "You hid the rows of padded tokens as well.",
            "A padded query is computed like any other; whoever uses the result leaves it out.",
            "What must not be *heard*?",
        ),
        slip(
            "visible_pairs_only",
            {PAIRS: 36},
            "You counted the scores that stay visible.",
            "The mask hides the others after they were computed: a (T, T) matrix has T² numbers.",
            "How many numbers has a matrix of 8 rows and 8 columns?",
        ),
        slip(
            "one_score_a_token",
            {PAIRS: 8},
            "You counted one score a token.",
            "Each token is compared with each.",
            "How many numbers has a matrix of 8 rows and 8 columns?",
        ),
    ),
    hints=(
        "The first is from lesson 07, section 3; the second from lesson 05; the third from 01.",
        "A `transpose` leaves a tensor that is not contiguous. Columns are looked at. T² is not "
        "halved by a mask.",
    ),
)


# ---------------------------------------------------------------- understanding

MOVES, SILENT, PRE, POST, FLAT, LEAK = (
    "moves information between positions",
    "out_proj and contract are zero",
    "norms on the stream, Pre-LN",
    "norms on the stream, Post-LN",
    "LayerNorm of (7, 7, 7)",
    "tokens that notice",
)
PARTS = ("norm1", "attention", "feed_forward", "the residual")
WHAT_COMES = ("x", "zeros", "norm1(x)", "2x")

BLOCK_REASONS = quiz(
    "block_reasons",
    lesson=LESSON,
    points=1.0,
    about="who does what in a block",
    entries=(
        Entry(
            MOVES,
            "attention",
            "Norms, the network and the `+` treat each token alone.",
            "In which part does a token meet another?",
            PARTS,
        ),
        Entry(
            SILENT,
            "x",
            "Both branches add 0, and the stream comes out as it went in.",
            "What does each branch then add?",
            WHAT_COMES,
        ),
        Entry(
            PRE,
            0,
            "Both norms of a block stand on its branches; the way from input to output has only "
            "`+` on it.",
            "Follow x from the input to the output without turning off into a branch.",
        ),
        Entry(
            POST,
            24,
            "Two norms a block, each behind a `+`: whatever is on the stream passes them all.",
            "Each `+` is followed by a norm. How many `+` have 12 blocks?",
        ),
        Entry(
            FLAT,
            (0, 0, 0),
            "Less the mean nothing is left, and eps keeps 0/√(0 + eps) from being NaN.",
            "What is left after the mean is subtracted, and what is it divided by?",
        ),
        Entry(
            LEAK,
            3,
            "Tokens 3, 4 and 5: a causal block lets a token be heard by itself and those after it.",
            "Under a causal mask, who may hear token 3?",
        ),
    ),
    misconceptions=(
        slip(
            "network_mixes_tokens",
            {MOVES: "feed_forward"},
            "You let the feed-forward network carry things from token to token.",
            "A linear layer works on the last dimension, the channels of one token.",
            "Change one token: whose feed-forward result changes?",
        ),
        slip(
            "norm_mixes_tokens",
            {MOVES: "norm1"},
            "You let the norm carry things from token to token.",
            "Mean and variance are those of one token's channels; over tokens the future would "
            "leak.",
            "Over which dimension does it run?",
        ),
        slip(
            "residual_mixes_tokens",
            {MOVES: "the residual"},
            "You let the `+` carry things from token to token.",
            "It adds to each token what its own branches found.",
            "Which shapes are added, and at which positions?",
        ),
        slip(
            "branches_replace",
            {SILENT: "zeros"},
            "You let the branches take the place of the stream.",
            "They add to it: what was there stays.",
            "What is x + 0?",
        ),
        slip(
            "norm_on_the_stream",
            {SILENT: "norm1(x)"},
            "You let the norm act on the stream itself.",
            "In Pre-LN the branch alone reads the normed tokens; the stream stays as it is.",
            "To what is the branch added?",
        ),
        slip(
            "added_twice",
            {SILENT: "2x"},
            "You added the stream to itself.",
            "Each `+` adds a branch to the stream; both branches are 0 here.",
            "What stands on the right of each `+`?",
        ),
        slip(
            "norms_counted_on_branches",
            {PRE: 24},
            "You counted the norms of the branches.",
            "The stream itself goes past them: that is why gradients get back so well.",
            "Follow x from the input to the output without turning off into a branch.",
        ),
        slip(
            "pre_and_post_swapped",
            {PRE: 24, POST: 0},
            "You took Pre-LN and Post-LN the other way about.",
            "*Pre* is before the branch, *post* is after the sum.",
            "In which of them does the norm come after the `+`?",
        ),
        slip(
            "one_norm_a_block",
            {POST: 12},
            "You counted one norm a block.",
            "A block has two branches, and each `+` has its norm.",
            "How many `+` has a block?",
        ),
        slip(
            "scaled_to_one",
            {FLAT: (1, 1, 1)},
            "You divided and did not subtract.",
            "The mean goes to 0 first, and of equal channels nothing is left.",
            "What is 7 less the mean of 7, 7 and 7?",
        ),
        slip(
            "left_as_it_is",
            {FLAT: (7, 7, 7)},
            "You left the token as it was.",
            "A norm makes the mean 0, whatever it was.",
            "What is 7 less the mean of 7, 7 and 7?",
        ),
        slip(
            "past_notices",
            {LEAK: 5},
            "You let all tokens notice.",
            "Under a causal mask nobody hears what comes after.",
            "Who may hear token 3?",
        ),
        slip(
            "one_notices",
            {LEAK: 1},
            "You let only the token itself notice.",
            "Those after it hear it through attention.",
            "Who may hear token 3?",
        ),
        slip(
            "later_ones_only",
            {LEAK: 2},
            "You left out the token itself.",
            "It is on its own stream, and hears itself too.",
            "Who may hear token 3, and whose stream is it?",
        ),
    ),
    hints=(
        "Draw two tokens as two lines, with branches that turn off and come back. Which box has "
        "lines from both?",
        "Pre: the norm is on the branch. Post: it is on the line itself, behind each `+`. "
        "`LayerNorm` subtracts first.",
    ),
)

EXERCISES = (
    RECALL,
    LAYER_NORM,
    GELU,
    FEED_FORWARD,
    TRANSFORMER_BLOCK,
    BLOCK_REASONS,
    BLOCK_PARAMETERS,
)
