"""Lesson 09: positions as angles, to be added as waves or to turn queries and keys by."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

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
from ..transformer import apply_rope, sinusoidal_positions
from .kit import mistakes as m
from .kit import positions as p
from .kit.draw import Draw
from .kit.positions import Rotary, Waves
from .lesson_02 import Float64Result

LESSON = "4-transformer/09_positions"
LONG = 1_100  # positions; an angle in float32 is off by up to LONG * 2^-22 there
IN_THE_MESSAGE = "Put the number into the message, with an f-string."
OTHER_ERRORS = "Whoever calls catches ValueErrors, and no other error."


FLOAT64_WORDS = {
    "what": "The result is float64, and float32 was asked for, or came in.",
    "why": "Half of its digits are of no use, and beside float32 it makes all that follows twice "
    "as large, or stops with an error.",
    "mend": "Compute in float64 if you like, and bring the result to the dtype asked for.",
}


def _in_float64(self, *args, **named):
    return super(Float64Result, self).__call__(*args, **named).double()


IN_FLOAT64 = Float64Result.but(__call__=_in_float64)


# ---------------------------------------------------------------- sinusoidal_positions


def _wave_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    pairs, length = draw.sizes(2, 3, 6)
    small = {"small"}

    def case(name: str, length: int, d_model: int, **more: Any) -> Case:
        return Case(name, {"length": length, "d_model": d_model}, **more)

    def refused(length: int, odd: int) -> Case:
        return case(f"{odd} channels", length, odd, refuses=(str(odd),))

    return [
        case("three positions by hand", 3, 4),
        case("random sizes", 2 * length + 1, 2 * pairs, roles={"typical"}),
        case("more channels than positions", 5, 2 * draw.integer(7, 12)),
        case("more positions than channels", draw.integer(41, 90), 6),
        case("one pair of channels", draw.integer(7, 20), 2),
        case("one position", 1, 2 * pairs, roles=small),
        case("as many positions as channels", 8, 8, roles=small),
        case("by name", 4, 10, options={"keywords": ("length", "d_model")}),
        case("300 channels", 3, 300),
        refused(5, 7),
        refused(4, 13),
        refused(6, 35),
    ]


@cache
def wave_oracle(length: int, d_model: int) -> Tensor:
    """Number by number, as the formula has it."""
    wave = (math.sin, math.cos)
    rows = [
        [wave[c % 2](position / 10000 ** ((c - c % 2) / d_model)) for c in range(d_model)]
        for position in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def _see_far(answer: Any, case: Case, seen: Observation) -> None:
    """One more call, for more positions than a table is made for."""
    if "typical" not in case.roles:
        return
    out = answer(LONG, 6)
    seen.put_judged("far", out)
    seen.facts["traits"] = {"learned": isinstance(out, Tensor) and out.requires_grad}


def _far(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]):
        return None
    return _within(seen, "far", wave_oracle(LONG, 6), LONG * 2**-22)


def _within(seen: Observation, name: str, right: Tensor, most: float) -> bool:
    mine = seen.tensors.get(f"judged:{name}")
    if mine is None or mine.shape != right.shape:
        return False
    return bool(((mine.double() - right).abs() <= most).all())


def _not_learned(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not seen.traits["learned"]


def _rows_differ(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _first_row(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][0], expected["out"][0]) if expected else None


def _on_the_circle(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not expected:
        return None
    squares = seen.tensors["out"].double().square()
    sums = squares[:, 0::2] + squares[:, 1::2]
    return near(sums, torch.ones_like(sums))


def _even_channels(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, 0::2], expected["out"][:, 0::2]) if expected else None


def _slower(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """From position 0 to 1 each two neighbours move less far than those before them."""
    pairs = seen.tensors["out"][:2].double().unflatten(-1, (-1, 2))
    moved = (pairs[1] - pairs[0]).norm(dim=-1)
    return bool((moved.diff() < 0).all())


class WavesInHalves(Mistake):
    """All sines come first and all cosines after them; they should take turns.

    Why: It would train as well. But weights that were learned with one order don't fit the other.
    Mend: Channels 2i and 2i + 1 belong together: stack the two in a last dimension of size 2, or
        write into every other column.
    """

    def woven(self, one, other):
        return torch.cat([one, other], dim=-1)


class CosineFirst(Mistake):
    """The cosines stand in the even channels and the sines in the odd ones.

    Why: Weights that were learned with one order don't fit the other.
    Mend: At position 0 channel 0 holds the sine of 0. Which number is that?
    """

    def waves(self, angles):
        return angles.cos(), angles.sin()


class OnlySines(Mistake):
    """There is no cosine: both channels of a pair hold the sine.

    Why: A sine alone can't tell an angle from its mirror image, and position 0 is all zeros.
    Mend: Which function belongs into the odd channels?
    """

    def waves(self, angles):
        return angles.sin(), angles.sin()


class AngleForEachChannel(Mistake):
    """Each channel has an angle of its own; a sine and its cosine should share one.

    Why: Only with one angle for both does a step of k positions become the same rotation
        everywhere.
    Mend: Channels 2 and 3 both have i = 1: what is 2i for either?
    """

    def __call__(self, length, d_model):
        self.refuse(d_model)
        channels = torch.arange(d_model, dtype=torch.float64)
        angles = self.places(length)[:, None] * 10000.0 ** -self.own(channels, d_model)
        return self.result(self.woven(angles[:, 0::2].sin(), angles[:, 1::2].cos()))

    def own(self, channels, d_model):
        return channels / d_model


class AnglesReturned(Mistake):
    """You return the angles: no sine or cosine of them was taken.

    Why: An angle grows without end with the position, and soon drowns the token it is added to.
    Mend: Two functions turn an angle into numbers between -1 and 1.
    """

    def waves(self, angles):
        return angles, angles


class BracketMissing(Mistake):
    """The width divides the power, not the exponent: `10000 ** (2 * i) / d_model`.

    Why: All pairs but the first then stand still, because the power is astronomical.
    Mend: `**` binds more tightly than `/`: the exponent needs parentheses of its own.
    """

    def rates(self, width, base):
        doubled = 2 * torch.arange(width // 2, dtype=torch.float64)
        return width / base**doubled


class BatchOfOne(Mistake):
    """There is a dimension of size 1 for a batch in front.

    Why: It is not needed: `(T, C)` is repeated for each text of `(B, T, C)` by itself.
    Mend: The shape asked for is `(length, d_model)`: leave out `unsqueeze` and `[None]`.
    """

    def result(self, table):
        return super().result(table)[None]


class TableTransposed(Mistake):
    """Rows and columns are swapped: a row for each channel.

    Why: A row is what is added to a token, so there has to be one for each position.
    Mend: Which of the two should stand as a column when you multiply them?
    """

    def result(self, table):
        return super().result(table).mT


class OnePositionMore(Mistake):
    """There is a row too many: for positions 0 to length.

    Why: The table no longer fits the tokens that it is added to.
    Mend: Of `length` positions, counted from 0, which is the last?
    """

    def places(self, T):
        return torch.arange(T + 1, dtype=torch.float64)


class WavesLearned(Mistake):
    """The table is a parameter, or asks for a gradient.

    Why: Waves are a formula: an optimizer would make a learned table of them.
    Mend: Return an ordinary tensor: no `nn.Parameter` and no `requires_grad`.
    """

    def result(self, table):
        return super().result(table).requires_grad_()


SINUSOIDAL_POSITIONS = Exercise(
    id="sinusoidal_positions",
    lesson=LESSON,
    call="sinusoidal_positions(length, d_model)",
    points=1.5,
    cases=_wave_cases,
    probe=FunctionProbe(extra=_see_far),
    expect=expect_function(wave_oracle, dtype=torch.float32),
    reference=sinusoidal_positions,
    properties=(
        Property(
            "rows_differ", "Positions have different rows", _rows_differ, gate=True, role="typical"
        ),
        Property("first_row", "Position 0 is 0, 1, 0, 1, …", _first_row, credit=True),
        Property(
            "circle",
            "Neighbours 2i and 2i + 1 are sine and cosine of one angle",
            _on_the_circle,
            credit=True,
        ),
        Property("even", "The even channels are right", _even_channels, credit=True),
        Property(
            "slower",
            "Channels 2i and 2i + 1 change less from place to place than those before them",
            _slower,
            credit=True,
            role="typical",
        ),
        Property(
            "far",
            f"It holds for {LONG:,} positions, as well as float32 can hold them",
            _far,
            role="typical",
            breaks=f"For {LONG:,} positions it is not right",
        ),
        Property(
            "not_learned",
            "The table asks for no gradient: nothing in it is learned",
            _not_learned,
            secondary=True,
            role="typical",
            breaks="The table asks for a gradient, and waves aren't learned",
        ),
    ),
    misconceptions=Misconceptions.of(
        WavesInHalves,
        p.PositionsFromOne,
        p.ExponentWithoutTwo,
        p.ExponentDoubled,
        AngleForEachChannel,
        AngleForEachChannel.but(own=lambda self, channels, d_model: 2 * channels / d_model),
        CosineFirst,
        OnlySines,
        p.TurnsFaster,
        p.OneRateForAll,
        BracketMissing,
        p.LogOfTen,
        p.AnotherBase,
        p.InDegrees,
        p.InDegrees.but(factor=180 / math.pi),
        p.WholeTurns,
        p.WholeTurns.but(factor=math.pi),
        p.ExponentToTheEnd,
        p.SlowestFirst,
        p.PositionsBackwards,
        p.PositionsAsShares,
        AnglesReturned,
        BatchOfOne,
        TableTransposed,
        OnePositionMore,
        WavesLearned,
        p.OddAccepted,
        p.EvenRefused,
        m.RefusedWithoutNumbers.on(Waves, mend=IN_THE_MESSAGE),
        m.RefusedOtherwise,
        m.RefusedOtherwise.but(kind=TypeError).on(Waves, why=OTHER_ERRORS),
        IN_FLOAT64.on(Waves, **FLOAT64_WORDS),
        on=Waves,
    ),
    hints=(
        "First the angles alone: a column of positions, `(length, 1)`, times a row of rates, "
        "`(d_model / 2,)`. Rate i is 1 / 10000^(2i / d_model), and `torch.arange(0, d_model, 2)` "
        "gives all the 2i.",
        "Then two tables of `(length, d_model / 2)`: the sine and the cosine of the angles. They "
        "take turns along the channels: make an empty table, and write into `table[:, 0::2]` and "
        "`table[:, 1::2]`.",
        "`even = torch.arange(0, d_model, 2)`, `angles = torch.arange(length)[:, None] / 10000 ** "
        "(even / d_model)`. And before that, for `d_model % 2`, a ValueError with `d_model` in its "
        "message.",
    ),
    other_way="""\
# A point on the unit circle is one complex number; seen as real, it is the cosine and the sine.
def sinusoidal_positions(length, d_model):
    if d_model % 2:
        raise ValueError(f"d_model must be even, got {d_model}")
    rates = 10000.0 ** -(torch.arange(0, d_model, 2) / d_model)
    angles = torch.outer(torch.arange(length).float(), rates)
    points = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return points.flip(-1).flatten(1)""",
)


# ---------------------------------------------------------------- apply_rope


def _sizes(draw: Draw, most_tokens: int = 8) -> tuple[int, int, int, int]:
    """B, H, T, D, all different, and from the width of all heads; D is even, T at least 3."""
    while True:
        B, H, T = draw.sizes(3, 2, most_tokens)
        D = 2 * draw.integer(2, 4)
        if T >= 3 and H <= 5 and len({B, H, T, D, H * D}) == 5:
            return B, H, T, D


def _rope_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    by_hand = torch.tensor([[[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]]])
    B, H, T, D = _sizes(draw)
    small = {"small"}

    def case(name: str, x: Tensor, **more: Any) -> Case:
        inputs = {"x": x} | ({"base": more.pop("base")} if "base" in more else {})
        return Case(name, inputs, **more)

    def refused(odd: int, H: int) -> Case:
        return case(f"{odd} channels in a head", draw.normal(2, H, 6, odd), refuses=(str(odd),))

    half = 0.5 * draw.normal(2, 5, 3, 4, dtype=torch.float64)
    by_name, once = {"keywords": ("x", "base")}, {"once": True}
    return [
        case("three tokens by hand", by_hand, roles=small),
        case("random numbers", draw.normal(B, H, T, D), roles={"typical"}),
        case("more heads than tokens", draw.normal(2, 7, 4, 6), options=once),
        case("base 100", draw.normal(2, 3, 5, 6), base=100.0),
        case("base 50, by name", draw.normal(*_sizes(draw)), base=50, options=by_name | once),
        case("float64", half),
        case("one pair of channels", draw.normal(4, 3, 5, 2), options=once),
        case("one token", draw.normal(B, H, 1, D), roles=small),
        case("one sequence, one head", draw.normal(1, 1, T, 64), roles=small, options=once),
        case("not contiguous", draw.normal(3, 7, 2, 4).transpose(1, 2)),
        case("as many heads as tokens", draw.normal(2, 4, 4, 4), roles=small, options=once),
        refused(7, 3),
        refused(13, 4),
        refused(3, 5),
    ]


def _rope_oracle(x: Tensor, base: float = 10000.0) -> Tensor:
    """A pair is a complex number, and a rotation a product with one of length 1."""
    T, D = x.shape[-2:]
    numbers = torch.complex(x[..., 0::2], x[..., 1::2])
    angles = torch.tensor([[t / base ** (d / D) for d in range(0, D, 2)] for t in range(T)])
    turned = numbers * torch.polar(torch.ones_like(angles).double(), angles.double())
    return torch.view_as_real(turned).flatten(-2)


def _exact_angles(x: Tensor, base: float = 10000.0) -> Tensor:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _rope_oracle(x, base)
    finally:
        torch.set_default_dtype(default)


def _see_rotations(answer: Any, case: Case, seen: Observation) -> None:
    """More calls: one query and one key at every place, more tokens, another base between."""
    if "typical" not in case.roles:
        return
    x = case["x"]
    query, key = (v.expand(-1, -1, 7, -1).contiguous() for v in (x[:, :, :1], x[:, :, 1:2]))
    seen.put("scores", answer(fresh(query)) @ answer(fresh(key)).transpose(-2, -1))
    seen.put_judged("far", answer(fresh(_long())))
    seen.put_judged("between", answer(fresh(x), 77.0))
    seen.put_judged("again", answer(fresh(x)))


def _long() -> Tensor:
    return 2 * torch.rand(1, 1, LONG, 6, generator=torch.Generator().manual_seed(7)) - 1


def _turns(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Later tokens come out otherwise than they came in, and each in its own way."""
    out, x = seen.tensors["out"], case["x"]
    moved = out.double() - x.double()
    return not near(out[:, :, 1:], x[:, :, 1:]) and not bool((moved == moved[:, :, :1]).all())


def _first_token(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, :, 0], case["x"][:, :, 0]) if expected else None


def _lengths(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not expected:
        return None
    mine, wanted = (v.double().unflatten(-1, (-1, 2)) for v in (seen.tensors["out"], case["x"]))
    return near(mine.norm(dim=-1), wanted.norm(dim=-1))


def _relative(case: Case, seen: Observation, expected: Expected) -> Verdict:
    scores = seen.tensors["scores"].double()
    diagonals = near(scores[..., 1:, 1:], scores[..., :-1, :-1])
    return diagonals and not near(scores, scores[..., :1].expand_as(scores))


def _first_pair(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][..., :2], expected["out"][..., :2]) if expected else None


def _as_far(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]):
        return None
    return _within(seen, "far", _exact_angles(_long().double()), 2 * LONG * 2**-22)


def _between(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out = seen.tensors["out"]
    if not near(out, expected["out"]):
        return None
    other, again = (seen.tensors.get(f"judged:{n}") for n in ("between", "again"))
    if other is None or again is None:
        return False
    return near(other, _exact_angles(case["x"].double(), 77.0)) and near(again, out)


class PairsInHalves(Mistake):
    """The pairs are (0, D/2), (1, D/2 + 1), …; here they are neighbours: (0, 1), (2, 3), …

    Why: Llama's code pairs halves, the paper neighbours. Both work, but weights that were learned
        with one don't fit the other.
    Mend: Which channels are paired with `x[..., 0::2]` and `x[..., 1::2]`?
    """

    def pairs(self, x):
        return x.chunk(2, dim=-1)

    def joined(self, a, b):
        return torch.cat([a, b], dim=-1)


class JoinedInHalves(Mistake):
    """Neighbours were rotated together, and then all first ones put before all second ones.

    Why: Queries and keys still fit each other, but the channels stand in another order than before.
    Mend: `cat` puts one behind the other. What puts a and b back as neighbours?
    """

    def joined(self, a, b):
        return torch.cat([a, b], dim=-1)


class CutInHalves(Mistake):
    """The pairs were taken from the two halves, and put back as neighbours.

    Why: Channels change places on the way, so even the token at position 0 comes out otherwise.
    Mend: Take the pairs apart as you put them together: `0::2` and `1::2`.
    """

    def pairs(self, x):
        return x.chunk(2, dim=-1)


class AnglesInHalves(Mistake):
    """The angles were repeated as a whole, θ₀ θ₁ θ₀ θ₁, and used on neighbouring channels.

    Why: The two channels of a pair then turn by different angles, and that is no rotation.
    Mend: For neighbours each angle comes twice in a row: `repeat_interleave(2, dim=-1)`, not `cat`.
    """

    def rotated(self, a, b, cos, sin):
        def even(v):
            return v.repeat(1, 2)[:, 0::2]

        def odd(v):
            return v.repeat(1, 2)[:, 1::2]

        return a * even(cos) - b * even(sin), b * odd(cos) + a * odd(sin)


class TurnedBackwards(Mistake):
    """The rotation goes the other way round: the sign of the sine is turned.

    Why: Scores would still hang on the distance alone, but weights of another program wouldn't fit.
    Mend: (1, 0) at position 1 should become (cos 1, sin 1), with both above zero.
    """

    def rotated(self, a, b, cos, sin):
        return super().rotated(a, b, cos, -sin)


class MinusMissing(Mistake):
    """There is no minus: both channels add the sine's part.

    Why: That is no rotation: the lengths of vectors change, and scores hang on the place.
    Mend: In a cos θ − b sin θ and a sin θ + b cos θ there is one minus.
    """

    def rotated(self, a, b, cos, sin):
        return a * cos + b * sin, a * sin + b * cos


class MinusInTheWrongPlace(Mistake):
    """The second channel is b cos θ − a sin θ or the like: two signs are turned, or the wrong one.

    Why: A vector is then mirrored or stretched, not rotated.
    Mend: Write down what (1, 0) and (0, 1) become, one after the other.
    """

    def rotated(self, a, b, cos, sin):
        return a * cos - b * sin, b * cos - a * sin


class FirstWrittenOver(Mistake):
    """The second channel of a pair was computed from the first one's new value.

    Why: Both should come from the pair as it was. It happens when `a` is written over too early.
    Mend: Compute both new channels before you keep either.
    """

    def rotated(self, a, b, cos, sin):
        a = a * cos - b * sin
        return a, a * sin + b * cos


class OnlyStretched(Mistake):
    """You multiplied by sine and cosine without mixing the two channels of a pair.

    Why: Each channel only shrinks and changes its sign; the other half of a rotation is missing.
    Mend: Both new channels hold something of a and something of b.
    """

    def rotated(self, a, b, cos, sin):
        return a * cos, b * sin


class WavesAdded(Mistake):
    """You added sines and cosines to x; rotary positions multiply.

    Why: What is added does not depend on the vector, and scores then hang on the place as well as
        on the distance.
    Mend: A rotation takes a and b to a cos θ − b sin θ and a sin θ + b cos θ.
    """

    def rotated(self, a, b, cos, sin):
        return a + sin, b + cos


class HeadsTakenForTokens(Mistake):
    """The positions run along the heads.

    Why: All tokens of a head then turn by the same angle, and their order is lost again.
    Mend: In `(B, H, T, D)`, which dimension holds the tokens?
    """

    def tokens(self, x):
        return x.shape[1]

    def turned(self, angles, x):
        return angles[:, None]


class TextsTakenForTokens(Mistake):
    """The positions run along the batch.

    Why: All tokens of a text then turn by the same angle, and texts depend on their place in the
        batch.
    Mend: In `(B, H, T, D)`, which dimension holds the tokens?
    """

    def tokens(self, x):
        return x.shape[0]

    def turned(self, angles, x):
        return angles[:, None, None]


class ModelWidth(Mistake):
    """The exponent is divided by the width of all heads, H · D, not of one.

    Why: All pairs but the first turn faster than they should, and the slow ones are missing.
    Mend: `x` is split into heads already: its last size is the width to use.
    """

    def __call__(self, x, base=10000.0):
        self.heads = x.shape[1]
        return super().__call__(x, base)

    def over(self, width):
        return width * self.heads


class BaseIgnored(Mistake):
    """`base` has no effect: it is always 10000.

    Why: Models for long texts use half a million and more.
    Mend: The name `base` should stand in your formula.
    """

    def base(self, base):
        return 10000.0


class BaseRequired(Mistake):
    """It can't be called without a `base`.

    Why: 10000 is what nearly everybody means.
    Mend: Give `base` a default in the signature.
    """

    def __call__(self, x, base):
        return super().__call__(x, base)


class AnotherDefault(Mistake):
    """Without a `base`, another one than 10000 is taken.

    Why: All pairs but the first then turn at other rates than the caller expects.
    Mend: Count the zeros of the default in your signature.
    """

    def __call__(self, x, base=1000.0):
        return super().__call__(x, base)


class FirstPairOnly(Mistake):
    """Only the first pair of channels is rotated.

    Why: One pair turns by a radian a token: after six tokens it is nearly where it began, and can't
        tell the two apart.
    Mend: All D / 2 pairs turn, each at its own rate.
    """

    def answered_angles(self, angles):
        angles = angles.clone()
        angles[:, 1:] = 0
        return angles


class OneHeadTurned(Mistake):
    """Only the first head is rotated.

    Why: The other heads don't know where a token stands.
    Mend: Angles of shape `(T, D / 2)` are repeated for all heads by themselves.
    """

    def __call__(self, x, base=10000.0):
        return torch.cat([super().__call__(x, base)[:, :1], x[:, 1:]], dim=1)


class AnglesStayBehind(Mistake):
    """The angles are on the CPU wherever x is: made there, or kept from an earlier call.

    Why: On a GPU x and its angles would meet on two devices, and that is an error.
    Mend: `device=x.device` where you make positions and rates, or move the result with `.to(x)`.
    """

    def waves(self, angles, x):
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


APPLY_ROPE = Exercise(
    id="apply_rope",
    lesson=LESSON,
    call="apply_rope(x)",
    points=1.5,
    cases=_rope_cases,
    probe=FunctionProbe(gradients=("x",), extra=_see_rotations),
    expect=expect_function(_exact_angles, gradients=("x",)),
    reference=apply_rope,
    properties=(
        Property("turns", "Later tokens are turned", _turns, gate=True, role="typical"),
        Property(
            "first_token", "The token at position 0 stays as it is", _first_token, credit=True
        ),
        Property("lengths", "Each pair of neighbours keeps its length", _lengths, credit=True),
        Property(
            "relative",
            "The score of a query and a key depends on their distance",
            _relative,
            credit=True,
            role="typical",
        ),
        Property("first_pair", "Channels 0 and 1 are right", _first_pair, credit=True),
        Property(
            "far",
            f"It holds for {LONG:,} tokens, as well as float32 can hold them",
            _as_far,
            role="typical",
            breaks=f"For {LONG:,} tokens it is not right",
        ),
        Property(
            "between",
            "Another base for the same sizes gives another result, and nothing is kept of it",
            _between,
            role="typical",
        ),
    ),
    misconceptions=Misconceptions.of(
        PairsInHalves,
        p.PositionsFromOne,
        p.ExponentWithoutTwo,
        p.ExponentDoubled,
        TurnedBackwards,
        MinusMissing,
        MinusInTheWrongPlace,
        FirstWrittenOver,
        HeadsTakenForTokens,
        ModelWidth,
        JoinedInHalves,
        AnglesInHalves,
        CutInHalves,
        BaseIgnored,
        BaseRequired,
        AnotherDefault,
        p.OneRateForAll,
        p.TurnsFaster,
        OnlyStretched,
        WavesAdded,
        FirstPairOnly,
        OneHeadTurned,
        TextsTakenForTokens,
        p.InDegrees,
        p.InDegrees.but(factor=180 / math.pi),
        p.WholeTurns,
        p.WholeTurns.but(factor=math.pi),
        p.ExponentToTheEnd,
        p.SlowestFirst,
        p.PositionsBackwards,
        p.PositionsAsShares,
        p.LogOfTen,
        p.OddAccepted,
        p.EvenRefused,
        m.RefusedWithoutNumbers.on(Rotary, mend=IN_THE_MESSAGE),
        m.RefusedOtherwise,
        m.RefusedOtherwise.but(kind=TypeError).on(Rotary, why=OTHER_ERRORS),
        AnglesStayBehind,
        IN_FLOAT64.on(Rotary, **FLOAT64_WORDS),
        m.Float32Result,
        m.ChangesItsInput,
        m.CutOff,
        on=Rotary,
    ),
    hints=(
        "The angles are made as in `sinusoidal_positions`, with `base` in place of 10000 and the "
        "head's width D: `(T, D / 2)`. Next to `(B, H, T, D / 2)` they are repeated by themselves.",
        "`a, b = x[..., 0::2], x[..., 1::2]` are the first and the second channels of all pairs. "
        "Rotate them with the two formulas, into new names.",
        "`torch.stack([new_a, new_b], dim=-1)` makes the pairs `(B, H, T, D / 2, 2)`, and "
        "`.flatten(-2)` lays them side by side. Make positions and rates with `device=x.device`, "
        "and bring sine and cosine to x's dtype with `.to(x.dtype)`.",
    ),
    other_way="""\
# A pair is a complex number, and turning it is a product with a number of length 1.
def apply_rope(x, base=10000.0):
    T, D = x.shape[-2:]
    if D % 2:
        raise ValueError(f"D must be even, got {D}")
    even = torch.arange(0, D, 2, device=x.device)
    angles = torch.arange(T, device=x.device)[:, None] / base ** (even / D)
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(pairs).flatten(-2).to(x.dtype)""",
)
