"""Lesson 14: two broken programs that cut channels into heads, and their mends."""

from __future__ import annotations

import itertools
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
from ..checking.exercise import Expected, Verdict
from ..experiments import patients
from .kit import head_mistakes as hm
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.steps import Joining, Refusing, Splitting
from .lesson_14_attention import (
    GRADIENTS,
    LESSON,
    PAST,
    Attend,
    causal_oracle,
    distinct,
    query_key_value,
    see_future,
)

# ---------------------------------------------------------------- the right answer in steps


class AttendInHeads(Refusing, Splitting, Joining, Attend):
    """As `Attend`, of channels that are cut into heads and joined again."""

    num_heads = d_out = 1

    def __call__(self, query, key, value, num_heads):
        self.d_out, self.num_heads = query.shape[-1], num_heads
        self.refuse(self.d_out, num_heads)
        query, key, value = self.projected((query, key, value))
        return self.merge(super().__call__(query, key, value))

    def refuse(self, width, num_heads):
        if width % num_heads:
            self.complain(width, num_heads)

    def projected(self, texts):
        return tuple(self.split(x, self.num_heads) for x in texts)


def _head_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, B: int, T: int, D: int, H: int, roles: str = "", **numbers: Any):
        inputs = query_key_value(draw, B, T, H * D, **numbers) | {"num_heads": H}
        return Case(name, inputs, roles=frozenset(roles.split()))

    def uneven(name: str, C: int, H: int, roles: str = "uneven"):
        inputs = query_key_value(draw, 2, 3, C) | {"num_heads": H}
        return Case(name, inputs, (str(C), str(H)), roles=frozenset(roles.split()))

    (B, H, T, D), (b, h, t, d) = distinct(draw), distinct(draw)
    many = draw.integer(7, 11)
    return [
        case("random numbers", B, T, D, H, "typical"),
        case("float64, large scores", b, t, d, h, scale=5, dtype=torch.float64),
        case("one head", 3, 5, 4, 1, "small"),
        case("heads of width 1", 2, 4, 1, 5, "small"),
        case("one token", 3, 1, 2, 4, "small"),
        uneven("one channel too many", many * 4 + 1, 4),
        uneven("two channels too many", many * 4 + 2, 4),
        uneven("more heads than channels", 5, many),
    ]


def _heads_oracle(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    cut = [torch.stack(x.chunk(num_heads, dim=-1), dim=1) for x in (query, key, value)]
    return torch.cat(causal_oracle(*cut).unbind(dim=1), dim=-1)


def _refused(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if seen.error is None and "out" in seen.tensors:
        return "goes on: channels get lost, or another model is computed than was asked for"
    return seen.error is not None and "ValueError" in seen.error["bases"]


class ChannelsLeftAtZero(hm.ChannelsDropped):
    """A width that can't be divided is accepted, and the channels left over are dropped in silence.

    Why: A model of 10 channels and 4 heads would train, and two channels would do nothing.
    Mend: Check the remainder first, and raise a ValueError that names both numbers.
    """

    @classmethod
    def id(cls) -> str:
        return "channels_dropped"

    def merge(self, x):
        merged = super().merge(x)
        return F.pad(merged, (0, self.d_out - merged.shape[-1]))


class WidthFilledUp(Mistake):
    """The width was filled up with zeros until it could be divided, and cut off at the end.

    Why: The heads then aren't cut where the caller thinks, and nobody hears that the numbers
        don't fit.
    Mend: Refuse what doesn't fit, and say both numbers.
    """

    def refuse(self, width, num_heads):
        pass

    def split(self, x, num_heads):
        return super().split(F.pad(x, (0, -x.shape[-1] % num_heads)), num_heads)

    def merge(self, x):
        return super().merge(x)[..., : self.d_out]


class LastHeadTakesTheRest(Mistake):
    """The last head was made wider, so that no channel is left over.

    Why: It works here. Heads of unequal width can't be one tensor, and no saved weights have any.
    Mend: Refuse what doesn't fit, and say both numbers.
    """

    def __call__(self, query, key, value, num_heads):
        C = query.shape[-1]
        D = C // num_heads
        edges = [*range(0, num_heads * D, max(D, 1)), C] if D else [0, C]
        parts = itertools.pairwise(edges)
        attend = Attend()
        own = [attend(*(x[..., a:b] for x in (query, key, value))) for a, b in parts if b > a]
        return (
            torch.cat(own, dim=-1)
            if D == 0 or C % num_heads
            else super().__call__(query, key, value, num_heads)
        )


class FewerHeads(Mistake):
    """The number of heads was lowered in silence until it divides the width.

    Why: Whoever asked for 4 heads gets 3 or 1, and looks for the reason elsewhere.
    Mend: Refuse what doesn't fit, and say both numbers.
    """

    def __call__(self, query, key, value, num_heads):
        while query.shape[-1] % num_heads:
            num_heads -= 1
        return super().__call__(query, key, value, num_heads)


class RefusesOneHead(Mistake):
    """One head, or heads of one channel, were refused.

    Why: Both divide the width evenly, so both are welcome.
    Mend: What is the remainder of C divided by the number of heads there?
    """

    def refuse(self, width, num_heads):
        if num_heads in (1, width) or width % num_heads:
            raise ValueError(f"{width} channels, {num_heads} heads")


class RefusalBackwards(Mistake):
    """The remainder was taken the wrong way round: heads divided by channels.

    Why: It is not 0 wherever there are more channels than heads, so nearly everything is
        refused.
    Mend: Of which division should the remainder be 0?
    """

    def refuse(self, width, num_heads):
        if num_heads % width:
            raise ValueError(f"{width} channels, {num_heads} heads")


BOTH_NUMBERS = "Put both numbers into the message, with an f-string."
BY_THE_WHOLE_WIDTH = "You divided by the root of C, the width of all heads together."
EVEN = (
    "For which remainder of C divided by `num_heads` do the heads share all channels? What should "
    "happen otherwise?",
    "At the top: `if C % num_heads:` raise a ValueError whose message holds both numbers. Filling "
    "up, cutting off or warning hides it from the one who called.",
)

FIX_UNEVEN_HEADS = Exercise(
    id="fix_uneven_heads",
    lesson=LESSON,
    call="fix_uneven_heads(query, key, value, num_heads)",
    points=0.5,
    cases=_head_cases,
    probe=FunctionProbe(gradients=GRADIENTS, extra=see_future),
    expect=expect_function(_heads_oracle, gradients=GRADIENTS),
    reference=clinic.fix_uneven_heads,
    as_found=patients.patient_c,
    properties=(
        Property(
            "even",
            "A width that the heads can't share evenly is refused with a ValueError",
            _refused,
            gate=True,
            role="uneven",
            breaks="A width that the heads can't share evenly is not refused with a ValueError",
        ),
        PAST,
    ),
    misconceptions=Misconceptions.of(
        ChannelsLeftAtZero,
        WidthFilledUp,
        LastHeadTakesTheRest,
        FewerHeads,
        m.RefusedOtherwise,
        m.RefusedOtherwise.but(kind=TypeError).on(
            AttendInHeads, why="Whoever calls catches ValueErrors; this one goes past them."
        ),
        m.RefusedWithoutNumbers.on(AttendInHeads, mend=BOTH_NUMBERS),
        hm.RefusalLeftToView.on(
            AttendInHeads,
            what="A width that can't be divided is refused with a RuntimeError, as `view` does.",
            why="Whoever calls catches ValueErrors, and \"shape '[…]' is invalid\" doesn't tell "
            "anyone how many heads don't fit into which width.",
            mend="Check the remainder at the top, and raise a ValueError with both numbers.",
        ),
        RefusesOneHead,
        RefusalBackwards,
        hm.ViewWithoutTranspose,
        hm.MergedWithoutTranspose,
        hm.ScaledByModelWidth.on(AttendInHeads, what=BY_THE_WHOLE_WIDTH),
        m.NoMask,
        on=AttendInHeads,
    ),
    hints=EVEN,
)


def _see_past(answer: Any, case: Case, seen: Observation) -> None:
    """Whether the last row changes when the first token does; and what `see_future` sees."""
    see_future(answer, case, seen)
    if "typical" not in case.roles:
        return
    given, changed = ({n: fresh(v) for n, v in case.inputs.items()} for _ in range(2))
    changed["value"][:, 0] += 100.0
    with torch.no_grad():
        before, after = (answer(*v.values()) for v in (given, changed))
    seen.facts["traits"]["hears"] = bool(((after - before)[:, -1].abs() > 1e-4).all())


def _hears(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return seen.traits.get("hears")


class ViewedBothWays(Mistake):
    """Channels are cut in one `reshape` and joined in one, so that no future leaks: a head now
    holds a stretch of the text, and sees nothing outside of it.

    Why: The loss is plausible again, and most tokens no longer hear how the text began.
    Mend: A head should hold some channels of *all* tokens: two dimensions have to change places, at
        both ends.
    """

    split = hm.ViewWithoutTranspose.split
    merge = hm.MergedWithoutTranspose.merge


class OnlyQueriesMended(Mistake):
    """Queries are split rightly, keys and values still in one `view`.

    Why: Each query then looks at pieces of several tokens, those of the future among them.
    Mend: All three are split in the same way.
    """

    def projected(self, texts):
        query = super().projected(texts)[0]
        B, H, T, D = query.shape
        return query, *(x.reshape(B, H, T, D) for x in texts[1:])


class OnlyValuesLeft(Mistake):
    """Queries and keys are split rightly, values still in one `view`.

    Why: The weights are right, and what they collect are pieces of other tokens.
    Mend: All three are split in the same way.
    """

    def projected(self, texts):
        *mended, value = super().projected(texts)
        return *mended, texts[2].reshape(value.shape)


FIX_VIEW_WITHOUT_TRANSPOSE = Exercise(
    id="fix_view_without_transpose",
    lesson=LESSON,
    call="fix_view_without_transpose(query, key, value, num_heads)",
    points=0.5,
    cases=_head_cases,
    probe=FunctionProbe(gradients=GRADIENTS, extra=_see_past),
    expect=expect_function(_heads_oracle, gradients=GRADIENTS),
    reference=clinic.fix_view_without_transpose,
    as_found=patients.patient_g,
    properties=(
        PAST,
        Property(
            "hears",
            "The last token hears the first, in every head",
            _hears,
            gate=True,
            role="typical",
            breaks="The last token doesn't hear the first in every head",
        ),
    ),
    misconceptions=Misconceptions.of(
        hm.ViewWithoutTranspose,
        ViewedBothWays,
        hm.MergedWithoutTranspose,
        OnlyQueriesMended,
        OnlyValuesLeft,
        hm.SplitInterleaved.but(merge=hm.MergedInterleaved.merge).on(
            AttendInHeads,
            what="Channels were cut into D groups of H, and joined in the same way.",
            why="It fits together, but saved weights expect neighbouring channels in one head.",
        ),
        hm.SplitInterleaved,
        hm.MergedInterleaved.on(
            AttendInHeads, why="Saved weights expect one head after the other."
        ),
        hm.MergedReversed.on(
            AttendInHeads, why="Saved weights expect head 0 in the first D channels."
        ),
        hm.TransposedAndReshaped,
        hm.OtherPairReshaped,
        hm.TokensSwappedWithWidth,
        hm.HeadsSwappedWithWidth,
        hm.NotTransposed,
        hm.ViewAfterTranspose,
        hm.HeadsNotJoined.on(
            AttendInHeads, why="(B, T, C) is asked, with all heads in the last dimension."
        ),
        hm.ChannelsDropped,
        hm.ScaledByModelWidth.on(AttendInHeads, what=BY_THE_WHOLE_WIDTH),
        m.NoMask,
        on=AttendInHeads,
    ),
    hints=(
        "`reshape` keeps the order in memory and only sets new borders. In memory the channels of "
        "one token lie side by side. What does (B, H, T, D) take as its first T times D numbers?",
        "Cut the channels first, (B, T, H, D); then swap tokens and heads. At the end the same two "
        "steps backwards.",
        "`query.reshape(B, T, num_heads, D).transpose(1, 2)`, and so for all three. The last line "
        "may stay.",
    ),
)
