"""Lesson 14: five broken programs that compute attention, and their mends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import clinic
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
from ..experiments import patients
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import padding_anywhere, padding_in_front
from .kit.steps import Hiding, SafeWeighing, Scoring, Weighing

LESSON = "6-practice/14_pitfall_clinic"
GRADIENTS = ("query", "key", "value")
TOLERANCE = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-6}


# ---------------------------------------------------------------- right answers in steps


class Attend(Scoring, Hiding, Weighing):
    """Causal attention of queries, keys and values that are there."""

    def __call__(self, query, key, value, pad_mask=None):
        hidden = self.hidden(query.shape[-2], query.device, pad_mask)
        weights = self.dropped(self.weights(self.scores(query, key), hidden))
        return self.collected(weights, value)

    def dropped(self, weights):  # nothing is; a step that mistakes of a head have
        return weights

    def collected(self, weights, value):
        return weights @ value


class AttendPadded(SafeWeighing, Attend):
    """As `Attend`, in a batch with padding."""

    def columns(self, pad_mask):
        return pad_mask[:, None, None, :]


class AttendInHalf(Attend):
    """As `Attend`, scaled before the scores can overflow."""

    def scores(self, query, key):
        return self.compared(query / self.scale(query, key), key)


# ---------------------------------------------------------------- what is seen besides


def see_future(answer: Any, case: Case, seen: Observation) -> None:
    """Whether earlier rows stay when the last token is another one."""
    if "typical" not in case.roles:
        return
    changed = [fresh(v) for v in case.inputs.values()]
    for v in changed[:3]:
        v[..., -1, :] = 3 - 2 * v[..., -1, :]
    with torch.no_grad():
        before = answer(*map(fresh, case.inputs.values()))[..., :-1, :]
        after = answer(*changed)[..., :-1, :]
    seen.facts["traits"] = {"past": near(after, before)}


def _past_stays(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return seen.traits.get("past")


def _ones(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"], torch.ones_like(expected["out"]))


PAST = Property(
    "past",
    "With another last token, the rows before it stay as they are",
    _past_stays,
    credit=True,
    role="typical",
    breaks="With another last token, rows before it change: the future leaks into them",
)
ONES = Property(
    "ones",
    "A mean of ones is 1: the weights of each row sum to 1",
    _ones,
    credit=True,
    role="ones",
    breaks="A mean of ones is not 1: the weights of a row don't sum to 1",
)


def distinct(draw: Draw) -> list[int]:
    """B, H, T and D, all different, and neither B nor T is H · D."""
    while True:
        B, H, T, D = draw.sizes(4, 2, 7)
        if H * D not in (B, T):
            return [B, H, T, D]


def query_key_value(
    draw: Draw, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32
):
    return {n: scale * draw.normal(*shape, dtype=dtype) for n in GRADIENTS}


# ---------------------------------------------------------------- patient A: padded batches


def _padded_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, shape: list[int], pad_mask: Tensor, roles: str = "", **numbers: Any):
        inputs = query_key_value(draw, *shape, **numbers) | {"pad_mask": pad_mask}
        return Case(name, inputs, roles=frozenset(roles.split()))

    front, mixed, free = ([draw.integer(2, 3), *draw.sizes(3, 4, 8)] for _ in range(3))
    pads = padding_in_front(draw, front[0], front[2])
    pads[0, 0], pads[0, -1] = True, False
    empty = padding_in_front(draw, mixed[0], mixed[2])
    empty[1] = True
    behind = padding_in_front(draw, 2, 6)
    return [
        case("padding in front", front, pads, "typical padded"),
        case("padding anywhere", free, padding_anywhere(draw, free[0], free[2])),
        case("one text is all padding", mixed, empty, dtype=torch.float64),
        case("no padding", free, torch.zeros(free[0], free[2], dtype=torch.bool)),
        case(
            "as many heads as texts and tokens",
            [3, 3, 3, 2],
            torch.tensor([[True, True, False], [False, False, False], [True, False, False]]),
            "small",
        ),
        case(
            "large scores",
            [2, 5, 6, 3],
            behind,
            scale=40,
            dtype=torch.float64,
        ),
    ]


def _padded_oracle(query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor) -> Tensor:
    seen = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool).tril()
    seen = seen & ~pad_mask[:, None, None, :]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def _see_alone(answer: Any, case: Case, seen: Observation) -> None:
    """Whether a text gives the same without its padding; and what `see_future` sees."""
    see_future(answer, case, seen)
    if "padded" not in case.roles:
        return
    query, key, value, pad_mask = (fresh(v)[:1] for v in case.inputs.values())
    real = int(pad_mask[0].sum())
    alone = [v[:, :, real:] for v in (query, key, value)]
    with torch.no_grad():
        batch = answer(*map(fresh, case.inputs.values()))[:1, :, real:]
        own = answer(*alone, pad_mask[:, real:])
    seen.facts["traits"]["alone"] = near(batch, own)


def _as_alone(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return seen.traits.get("alone")


class ValuesCleared(Mistake):
    """The values at padding were set to 0, and padding is still looked at.

    Why: It takes its share of each row, so real tokens get less than they should.
    Mend: What should the weight of a padded key be, and where is that decided?
    """

    def with_padding(self, future, pad_mask):
        self.real = ~pad_mask[:, None, :, None]
        return future

    def collected(self, weights, value):
        return super().collected(weights, value * self.real)


class KeysCleared(Mistake):
    """The keys at padding were set to 0, and padding is still looked at.

    Why: A key of zeros scores 0, and e⁰ = 1 is a weight like any other.
    Mend: Which score gives a weight of 0?
    """

    def __call__(self, query, key, value, pad_mask):
        return super().__call__(query, key * ~pad_mask[:, None, :, None], value, pad_mask)

    def with_padding(self, future, pad_mask):
        return future


FIX_PADDING_ROWS = Exercise(
    id="fix_padding_rows",
    lesson=LESSON,
    call="fix_padding_rows(query, key, value, pad_mask)",
    points=0.5,
    cases=_padded_cases,
    probe=FunctionProbe(gradients=GRADIENTS, extra=_see_alone),
    expect=expect_function(_padded_oracle, gradients=GRADIENTS),
    reference=clinic.fix_padding_rows,
    as_found=patients.patient_a,
    properties=(
        Property(
            "alone",
            "A text gives the same in a batch as alone",
            _as_alone,
            gate=True,
            role="padded",
            breaks="A text gives something else in a batch than alone",
        ),
        PAST,
    ),
    misconceptions=Misconceptions.of(
        m.RowsHidden,
        m.RowsAndColumnsHidden.on(
            AttendPadded,
            what="The rows of padded tokens were hidden, or cleared, as well as their columns.",
        ),
        ValuesCleared,
        KeysCleared,
        m.PadMaskIgnored.on(
            AttendPadded,
            what="Padding is heard like any other token: `pad_mask` has no effect, or none at "
            "places that are padding in some of the texts alone.",
        ),
        m.PaddingInverted,
        m.PaddingOnly,
        m.BothNeeded,
        m.FirstSequencesMask.on(
            AttendPadded,
            mend="`pad_mask` is `(B, T)`. Which dimension is missing between sequences and keys?",
        ),
        m.DiagonalKept.on(
            AttendPadded,
            mend="Let such rows be empty: the two lines with `blind` take care of them.",
        ),
        m.NanRows,
        m.NanInGradient,
        m.UniformOnHidden,
        m.MaskDroppedWhenEmpty,
        h.PadMaskAsItComes.on(
            AttendPadded,
            why="Scores are (B, H, T, T); only where B is 1 or T is there no error.",
        ),
        on=AttendPadded,
    ),
    hints=(
        "A row of the scores is a token that looks, a column one that is looked at. Which of the "
        "two must padding not be?",
        "`pad_mask` is (B, T), the scores are (B, H, T, T): queries, then keys. In which of the "
        "last two places does the T of `pad_mask` belong?",
        "`pad_mask[:, None, None, :]` hides columns. All the other lines may stay.",
    ),
)


# ---------------------------------------------------------------- patient B: half precision


def _half_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, shape: list[int], roles: str = "", **numbers: Any):
        return Case(name, query_key_value(draw, *shape, **numbers), roles=frozenset(roles.split()))

    one, two, three = (distinct(draw) for _ in range(3))
    ones = case("values of ones", three, "ones")
    ones["value"].fill_(1.0)
    return [
        case("random numbers", one, "typical"),
        Case("float16, long queries and keys", _overflowing(draw, 2, 3, 5, 96)),
        case("float64, long queries", two, scale=4, dtype=torch.float64),
        ones,
        case("a width of 300", [2, 3, 4, 300]),
        case("one token", [2, 3, 1, 5], "small"),
    ]


def _overflowing(draw: Draw, B: int, H: int, T: int, D: int) -> dict[str, Tensor]:
    """Dot products far beyond what float16 can hold, that fit when they are scaled; in each row
    one is so much larger than the others that rounding changes no weight."""
    directions = torch.linalg.qr(draw.normal(B, H, D, T, dtype=torch.float64))[0].mT  # (B, H, T, D)
    order = torch.randperm(T, generator=draw.generator) + 1
    loud = 260 * order.double()[:, None] ** 0.5  # (T, 1)
    query = 380 * directions.sum(-2, keepdim=True).expand(B, H, T, D)
    inputs = {"query": query, "key": loud * directions, "value": draw.normal(B, H, T, D)}
    return {name: x.half() for name, x in inputs.items()}


def causal_oracle(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def _clean_weights(self, scores, hidden):
    return Weighing.weights(self, scores, hidden).nan_to_num()


class OverflowHidden(Mistake):
    """Infinities and NaN were replaced by numbers, and the scores are as large as before.

    Why: The symptom is gone: scores still grow with the width, and one key takes all the weight.
    Mend: Why are the scores so large? Which number, made from D, should they be divided by?
    """

    def scale(self, query, key):
        return 1.0

    def weights(self, scores, hidden):
        scores = scores.nan_to_num()
        return super().weights(scores, hidden).nan_to_num()


class OnlyWider(Mistake):
    """In float32 the scores are not scaled.

    Why: The infinity is gone. The softmax is as saturated as before: it hardly learns.
    Mend: Scores too large for the softmax come in every dtype. What would make them smaller?
    """

    def scale(self, query, key):
        return 1.0

    def __call__(self, query, key, value):
        return super().__call__(query.float(), key.float(), value.float()).to(value.dtype)


class ScaledTooLate(Mistake):
    """The scores are divided after the product: in float16 they were infinite by then.

    Why: Infinity divided by 8 is infinity, and inf - inf is NaN.
    Mend: What could be divided before the product, with the same result?
    """

    def scores(self, query, key):
        return Attend.scores(self, query, key)


class ScaledTooLateAndHidden(Mistake):
    """The scores are divided after the product, and the infinities were replaced by numbers.

    Why: Several keys that were infinite look alike now, and share the weight.
    Mend: What could be divided before the product, with the same result?
    """

    def scores(self, query, key):
        return Attend.scores(self, query, key).nan_to_num()

    def weights(self, scores, hidden):
        return super().weights(scores.clamp(-6e4, 6e4), hidden)


FIX_MISSING_SCALE = Exercise(
    id="fix_missing_scale",
    lesson=LESSON,
    call="fix_missing_scale(query, key, value)",
    points=0.75,
    cases=_half_cases,
    probe=FunctionProbe(gradients=GRADIENTS, extra=see_future),
    expect=expect_function(causal_oracle, gradients=GRADIENTS),
    reference=clinic.fix_missing_scale,
    as_found=patients.patient_b,
    tolerance=TOLERANCE | {torch.float64: 1e-5},  # a step in float32 is no fault
    misconceptions=Misconceptions.of(
        m.NotScaled,
        OverflowHidden,
        OverflowHidden.but(weights=_clean_weights),
        OnlyWider,
        ScaledTooLate,
        ScaledTooLateAndHidden,
        ScaledTooLateAndHidden.but(scores=Attend.scores, weights=_clean_weights).on(
            AttendInHalf,
            what="The scores are divided after the product, and the NaN that came of it were "
            "replaced by 0.",
            why="A row whose scores were infinite now collects nothing.",
        ),
        m.RootMissing,
        m.Multiplied,
        m.ScaledByTokens,
        mm.Cosine,
        mm.ScaledByConstant,
        mm.ScaledAfterSoftmax.on(
            AttendInHalf,
            what="Weights, values or the result were divided, not the scores.",
            why="What is collected shrinks, and the softmax is as saturated as without a scale.",
            mend="The scale is for the scores. Where does it come in before they are too large?",
        ),
        m.NoMask,
        on=AttendInHalf,
    ),
    properties=(replace(PAST, credit=False),),
    hints=(
        "Two things are wrong with large scores: float16 ends at 65,504, and the softmax of scores "
        "that lie far apart gives one key everything. One number mends both.",
        "Divide by √D, the width of the vectors in this product. Where? A product that is infinite "
        "stays so.",
        "`query = query / math.sqrt(D)` in front of the product. Nothing else has to change.",
    ),
    other_way="""\
# Each side takes half of the scale, a fourth root, so that neither of them grows.
def fix_missing_scale(query, key, value):
    T, D = query.shape[-2:]
    scores = (query / D**0.25) @ (key / D**0.25).transpose(-2, -1)
    future = torch.ones(T, T, dtype=torch.bool, device=query.device).triu(diagonal=1)
    weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return weights @ value
""",
)


# ---------------------------------------------------------------- patient E: shares that are lost


def _causal_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, shape: list[int], roles: str = "", **numbers: Any):
        return Case(name, query_key_value(draw, *shape, **numbers), roles=frozenset(roles.split()))

    one, two, three = (distinct(draw) for _ in range(3))
    ones = case("values of ones", three, "ones")
    ones["value"].fill_(1.0)
    loud = case("a loud key in the future", [2, 3, 5, 4], dtype=torch.float64)
    loud["query"].abs_().add_(0.5)
    loud["key"][..., -1, :] = 1e9
    low = case("visible scores far below zero", [3, 2, 5, 4], dtype=torch.float64)
    low["query"].copy_(1e4 * low["query"].abs())
    low["key"].copy_(-low["key"].abs() - 9)
    return [
        case("random numbers", one, "typical"),
        ones,
        case("float64", two, scale=3, dtype=torch.float64),
        loud,
        low,
        case("one token", [2, 3, 1, 5], "small"),
    ]


class Rescaled(Mistake):
    """Rows were scaled up by how many keys are hidden, as if all had equal weights.

    Why: On average the size is right again. Each row still sums to something else.
    Mend: Let hidden scores lose in the softmax; then nothing has to be made good.
    """

    def weights(self, scores, hidden):
        T = scores.shape[-1]
        seen = (~hidden).sum(dim=-1, keepdim=True)
        return self.softmax(scores).masked_fill(hidden, 0.0) * (T / seen)


class RestToItself(Mistake):
    """What a row lacks to 1 was given to the token itself.

    Why: Rows sum to 1, and how much a token looks at itself hangs on the future.
    Mend: Whoever may not be seen must not take part in the softmax at all.
    """

    def weights(self, scores, hidden):
        weights = self.softmax(scores).masked_fill(hidden, 0.0)
        return weights + torch.diag_embed(1 - weights.sum(dim=-1))


class WeightsSpread(Mistake):
    """What a row lacks to 1 was shared out evenly among the keys that it sees.

    Why: Rows sum to 1, and weights are flatter than their scores say.
    Mend: Whoever may not be seen must not take part in the softmax at all.
    """

    def weights(self, scores, hidden):
        weights = self.softmax(scores).masked_fill(hidden, 0.0)
        seen = ~hidden
        lacks = 1 - weights.sum(dim=-1, keepdim=True)
        return weights + seen * lacks / seen.sum(dim=-1, keepdim=True)


FIX_MASK_AFTER_SOFTMAX = Exercise(
    id="fix_mask_after_softmax",
    lesson=LESSON,
    call="fix_mask_after_softmax(query, key, value)",
    points=0.5,
    cases=_causal_cases,
    probe=FunctionProbe(gradients=GRADIENTS, extra=see_future),
    expect=expect_function(causal_oracle, gradients=GRADIENTS),
    reference=clinic.fix_mask_after_softmax,
    as_found=patients.patient_e,
    properties=(ONES, PAST),
    misconceptions=Misconceptions.of(
        m.MaskAfterSoftmax,
        m.RenormalisedAfterSoftmax,
        Rescaled,
        RestToItself,
        WeightsSpread,
        m.ZeroFill,
        m.FillNotLowEnough,
        m.PlusInfinity,
        m.InfinityTimesZero,
        m.SubtractsBigNumber,
        m.MaskIgnored,
        m.OverQueries,
        m.SoftmaxTwice,
        m.BlindToItself,
        m.PastHidden.on(
            Attend,
            why="When text is generated there is no future yet, so a token would see itself alone.",
        ),
        m.NotScaled,
        on=Attend,
    ),
    hints=(
        "The hidden scores took their share in the softmax before they were removed. What should "
        "they be, so that they get none?",
        "Which line must come first: the one with `softmax`, or the one with `masked_fill`? And "
        "what is filled in, 0 or another value?",
        "`scores = scores.masked_fill(future, -math.inf)` in front of the softmax, and no line "
        "behind it.",
    ),
)
