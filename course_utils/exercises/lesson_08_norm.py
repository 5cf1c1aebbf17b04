"""Lesson 08, first part: the norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import transformer
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES, inject
from .kit.blocks import (
    Norm,
    norm_oracle,
    norm_weights,
)
from .kit.draw import Draw
from .lesson_08_block import LESSON

NORMS = (
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "native_group_norm",
    "instance_norm",
    "batch_norm",
    "native_batch_norm",
    "rms_norm",
    "_fused_rms_norm",
)

# ---------------------------------------------------------------- LayerNorm


class ByFormula(transformer.LayerNorm):
    """The finished part without the built-in, which is the exercise."""

    forward = transformer.LayerNorm.formula


def _apart(x: Tensor) -> Tensor:
    """Every second channel is raised: where all are nearly alike by chance, a norm magnifies the
    last digit, and right answers differ."""
    return x + 4 * (torch.arange(x.shape[-1]) % 2).to(x)


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
            x = _apart(draw.normal(*draw.sizes(3, 3, 9), dtype=dtype)) * size
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
    by_hand.options["weights"].update(scale=torch.ones(3), shift=torch.zeros(3))
    new = case("as it is made, no weights put in", once=True)
    new.options["weights"].clear()
    B, T, C = draw.sizes(3, 3, 9)
    equal = draw.normal(B, T, C, dtype=torch.float64)
    equal[:, ::2] = 1 / 3
    named = _apart(draw.normal(*draw.sizes(3, 3, 9)))
    far = 40 + 3 * draw.normal(*draw.sizes(3, 3, 9), dtype=torch.float64)
    flat = _apart(draw.normal(*draw.sizes(3, 3, 9)))
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
        case("not contiguous in memory", _apart(draw.normal(B, C, T).mT)),
        case("one text", draw.normal(5, 7), roles="small"),
        case("one token", draw.normal(6), roles="small"),
        case("four dimensions", _apart(draw.normal(2, 3, 5, 4)), roles="small"),
        case("one channel", draw.normal(4, 3, 1), roles="small"),
        case("1,040 channels", draw.normal(2, 3, 1040), once=True),
        case("1,040 tokens", _apart(draw.normal(2, 1040, 5)), once=True),
    ]


def _norm_oracle(case: Case, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return norm_oracle(weights, x, case.options["eps"])


def _see_norm(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """One token changed; after a call in training; with a scale of ones and a shift of zeros."""
    if "typical" not in case.roles:
        return

    def made(**how: Any) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return make(**how)

    module, x = made(), case["x"]
    changed = x.clone()
    changed[0, 0] = 2 * x[0, 0].roll(1) + 1
    with torch.no_grad():
        learner = made(as_made=True)
        learner(fresh(3 * changed))
        seen.put("after training", learner.eval()(fresh(x)))
        seen.put("changed", module(fresh(changed)))
        C = x.shape[-1]
        inject(module, {"scale": torch.ones(C), "shift": torch.zeros(C)})
        seen.put("plain", module(fresh(x)))


def _norm_listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["changed"][0, 0], seen.tensors["out"][0, 0])


def _nothing_kept(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["after training"], seen.tensors["out"], 1e-5)


def each_apart(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["changed"][1:], seen.tensors["out"][1:]) and near(
        seen.tensors["changed"][0, 1:], seen.tensors["out"][0, 1:]
    )


def _mean_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    plain = seen.tensors["plain"].mean(-1)
    return near(plain, torch.zeros_like(plain))


def _variance_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    plain, given = (t.double().var(-1, correction=0) for t in (seen.tensors["plain"], case["x"]))
    return near(plain, given / (given + case.options["eps"]), 1e-3)  # eps counts where it is small


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


class NormedOverTheBatch(OverTokens):
    """Mean and variance run over the sequences of the batch: that is the idea of batch norm.

    Why: A text then changes with the texts beside it.
    Mend: In `(…, C)`, which dimension holds the channels of one token?
    """

    axis = 0


class NormedOverEverything(Mistake):
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
    """The tokens were divided by their mean distance from the mean: |x|, where squares were meant.

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

    Why: The norm then takes away their mean and their size: what they learned comes out changed.
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


def _plain(self: Any, ones: Tensor, zeros: Tensor) -> None:
    self.scale, self.shift = ones, zeros


PlainAttributes = NotLearned.but(keep=_plain)


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

    Why: The second norm takes away their mean and their size: what they learned comes out changed.
    Mend: Norm once, then scale and shift.
    """

    def forward(self, x):
        return self.normed(super().forward(x))


NORM_PROPERTIES = (
    Property(
        "depends",
        "A token's numbers have a say in the result",
        _norm_listens,
        credit=True,
        gate=True,
        role="typical",
    ),
    Property(
        "each_apart",
        "A token has no say in another one",
        each_apart,
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
    Property(
        "nothing_kept",
        "It keeps nothing of the calls before, in training or not",
        _nothing_kept,
        role="typical",
        breaks="The result depends on the calls before it",
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
    reference=ByFormula,
    finished=transformer.LayerNorm,
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
        NormedOverTheBatch,
        NormedOverEverything,
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
        PlainAttributes,
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
