"""Lesson 05: masks from lengths, of the future and padding together, and who sees what."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch import Tensor

from ..attention import causal_and_padding, padding_mask
from ..checking import (
    Case,
    Entry,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
    expect_function,
    quiz,
    slip,
)
from ..checking.calling import fresh
from ..checking.comparing import same
from ..checking.exercise import Expected, Verdict
from .kit import first_attempts as first
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.steps import CausalAndPadding, Refusing

LESSON = "2-single-head/05_padding_mask"


# ---------------------------------------------------------------- what is no mask of this course


class VisibleInstead(Mistake):
    """The mask is the wrong way round: `True` marks what may be seen.

    Why: PyTorch's `scaled_dot_product_attention` wants it so, and this course, as most of PyTorch,
        the other way: this mask would hide exactly what it should show.
    Mend: One `~` too many, or one too few; or `<` where `>=` should stand.
    """

    def answered(self, mask):
        return ~super().answered(mask)


class Numbers(Mistake):
    """The mask holds numbers, 0 and 1, instead of booleans.

    Why: `masked_fill` refuses it, and an index of whole numbers picks rows by their place.
    Mend: A comparison gives booleans by itself, and so does `|` of two bool tensors.
    """

    kind = torch.long

    def answered(self, mask):
        return super().answered(mask).to(self.kind)


class Additive(Mistake):
    """The mask holds 0 and -inf, to be added to scores.

    Why: Such masks exist, but the masks of this course are booleans.
    Mend: Stop before you fill anything in.
    """

    def answered(self, mask):
        mask = super().answered(mask)
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)


class MaskTransposed(Mistake):
    """Rows and columns of the mask are swapped.

    Why: The batch comes first everywhere in this course, and queries are rows.
    Mend: Which of the two should be a column when you compare them?
    """

    def answered(self, mask):
        return super().answered(mask).mT


NO_MASKS = (
    VisibleInstead,
    Numbers,
    Numbers.but(kind=torch.float32),
    Numbers.but(kind=torch.uint8),
    Additive,
    MaskTransposed,
)


# ---------------------------------------------------------------- padding_mask


def _length_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    low, high, longest = sorted(draw.sizes(3, 2, 8))
    beyond = draw.integer(31, 47)
    many = draw.sizes(6, 1, 9)
    halves = torch.full((2,), low + 0.5, dtype=torch.float64)

    def case(name: str, lengths: Any, most: int, *said: Any, roles: str = "", **options: Any):
        inputs = {"lengths": lengths, "max_length": most}
        refuses = tuple(map(str, said)) or None
        return Case(name, inputs, refuses, options, roles=frozenset(roles.split()))

    return [
        case("two sequences by hand", [2, 3], 4),
        case("a tensor of lengths", torch.tensor(many), 11, roles="typical several"),
        case("a list of lengths", [high, low, high], longest, roles="several"),
        case("a full sequence", [longest, low], longest),
        case("a full sequence, as a tensor", torch.tensor([low, high]), high),
        case("a sequence without tokens", [low, 0], high),
        case("a sequence without tokens, as a tensor", torch.tensor([0, high, low]), longest),
        case("one sequence", [low], high, roles="small"),
        case("as many sequences as places", [1, 0, 3, 4], 4, roles="small"),
        case("all of one length", torch.tensor([low] * 3), longest + 1),
        case("int32", torch.tensor([3, 1], dtype=torch.int32), high + 1),
        case("int16", torch.tensor([low, 0, 1], dtype=torch.int16), longest + 2),
        case("uint8", torch.tensor([high, 0, low], dtype=torch.uint8), longest + 1),
        case("by name", [low, high, 1], longest + 2, keywords=("lengths", "max_length")),
        case("1,040 lengths up to 300", torch.arange(1040) % 300, 300, once=True),
        case("lengths up to 2,100", [2049, 5, 0], 2100, once=True),
        case("too long, in the middle", [low, beyond, 1], 30, beyond, 30),
        case("too long in a tensor, by one", torch.tensor([1, beyond, low]), beyond - 1, beyond),
        case("too long, by one", [low, 1, beyond], beyond - 1, beyond, beyond - 1),
        case("negative, in the middle", [low, -beyond, 1], 9, -beyond),
        case("negative, in a tensor", torch.tensor([low, -1, low, 1]), 9, -1),
        case("no integer, after one", [low, 2.5], 9, 2.5),
        case("no integer, in a float64 tensor", halves, 9, low + 0.5),
        case("a float that is whole", [6.0, 6.0], 9, "6."),
        case("floats that are whole, in a tensor", torch.tensor([6.0, 6.0]), 9, "6."),
    ]


def _length_oracle(lengths: Any, max_length: int) -> Tensor:
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    rows = [[False] * n + [True] * (max_length - n) for n in counts]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(counts), max_length)


BYTES = [7, 0, 255, 2]


def _see_bytes(answer: Any, case: Case, seen: Observation) -> None:
    """A list has no device. And two more calls, with a max_length that uint8 can't hold."""
    if not isinstance(case["lengths"], Tensor):
        seen.facts.pop("device", None)
    if "typical" not in case.roles:
        return
    for name, kind in (("wide", torch.long), ("bytes", torch.uint8)):
        with contextlib.suppress(Exception):
            seen.put_judged(name, answer(fresh(torch.tensor(BYTES, dtype=kind)), 300))


def _bytes_are_enough(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not torch.equal(seen.tensors["out"], expected["out"]):
        return None
    wide = seen.tensors.get("judged:wide", _length_oracle(torch.tensor(BYTES), 300))
    return same(seen.tensors.get("judged:bytes"), wide)


def _counts(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].sum(1) == expected["out"].sum(1)).all()) if expected else None


def _some_of_each(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _tokens_first(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].double().diff(dim=1) >= 0).all()) if expected else None


class PaddingMask(Refusing):
    """The right mask in steps."""

    def __call__(self, lengths, max_length):
        given, lengths = self.given(lengths), self.tensor(lengths)
        for n in given:
            self.refuse(n, max_length)
        places = torch.arange(self.width(lengths, max_length), device=lengths.device)
        return self.answered(self.compared(places, lengths[:, None], max_length))

    def answered(self, mask):
        return mask

    def given(self, lengths):
        return lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths

    def tensor(self, lengths):
        return torch.as_tensor(lengths)

    def refuse(self, n, max_length):
        if not self.whole(n) or not self.above(n) or self.too_many(n, max_length):
            self.complain(n, max_length)

    def whole(self, n):
        return isinstance(n, int)

    def above(self, n):
        return n >= 0

    def width(self, lengths, max_length):
        return max_length

    def compared(self, places, lengths, max_length):
        return places >= lengths


class OneTooLate(Mistake):
    """The padding begins one place too late: its first place counts as a token.

    Why: One piece of padding is seen by every query.
    Mend: A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?
    """

    def compared(self, places, lengths, max_length):
        return places > lengths


class OneTooEarly(Mistake):
    """The padding begins one place too early: the last token is hidden.

    Why: The last token is the newest one, often the one that counts most.
    Mend: A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?
    """

    def compared(self, places, lengths, max_length):
        return places >= lengths - 1


class PaddingFirst(Mistake):
    """The padding was put before the tokens.

    Why: Some models are fed like that, but here the tokens come first and the padding after them.
    Mend: Which end of the row should hold the padding?
    """

    def compared(self, places, lengths, max_length):
        return places < max_length - lengths


class NotChecked(Mistake):
    """Lengths that make no sense are accepted.

    Why: A length beyond `max_length` means that tokens were cut off somewhere before, and nobody
        would notice.
    Mend: Look at each length first; raise a ValueError that names it and the limit.
    """

    def refuse(self, n, max_length):
        pass


class NegativeAccepted(Mistake):
    """Negative lengths are accepted.

    Why: A negative length is always a mistake made earlier, and here it looks like an empty
        sequence.
    Mend: The lengths have a lower limit too.
    """

    def above(self, n):
        return True


class TooLongAccepted(Mistake):
    """A length beyond `max_length` is accepted.

    Why: It means that tokens were cut off somewhere before, and nobody would notice.
    Mend: The lengths have an upper limit too.
    """

    def too_many(self, number, limit):
        return False


class FractionsAccepted(Mistake):
    """A length of 2.5 is accepted.

    Why: Half a token doesn't exist: somebody divided where they shouldn't have.
    Mend: What tells an integer from another number?
    """

    def whole(self, n):
        return True


class WholeFloatsAccepted(Mistake):
    """A length of 2.0 is accepted: a whole number, but a float.

    Why: Whoever divided to get it has 2.5 the next time; an error at once is kinder.
    Mend: `isinstance(n, int)` tells the two apart; `n == int(n)` doesn't.
    """

    def whole(self, n):
        return n == int(n)


class CutToIntegers(Mistake):
    """Lengths were turned into integers, so 2.5 and 2.0 became 2 in silence.

    Why: A number that makes no sense should be refused, not mended.
    Mend: Look at the lengths as they come, before any `int(…)` or `.long()`.
    """

    def given(self, lengths):
        return [int(n) for n in super().given(lengths)]

    def tensor(self, lengths):
        return super().tensor(lengths).long()


class Clamped(Mistake):
    """Lengths that make no sense were pulled into the allowed range in silence.

    Why: A length beyond `max_length` means that tokens were cut off somewhere before.
    Mend: Raise a ValueError instead of clamping.
    """

    def refuse(self, n, max_length):
        pass

    def compared(self, places, lengths, max_length):
        return places >= lengths.clamp(0, max_length).int()


class EmptyRefused(Mistake):
    """A sequence of length 0 was refused.

    Why: An empty sequence is allowed: its row is all padding.
    Mend: From which length on should it be accepted?
    """

    def above(self, n):
        return n >= 1


class ListsOnly(Mistake):
    """It works for lists and fails for tensors.

    Why: Lengths often come as a tensor, with the rest of a batch.
    Mend: `torch.as_tensor` takes both; but what you take out of a tensor are tensors, until
        `.tolist()` makes plain numbers of them.
    """

    def tensor(self, lengths):
        for n in lengths:
            if not isinstance(n, int):
                self.complain(n, "max_length")
        return super().tensor(lengths)


class TensorsOnly(Mistake):
    """It works for tensors and fails for lists.

    Why: Whoever counts tokens in Python has a list.
    Mend: `torch.as_tensor` makes a tensor of a list and leaves a tensor as it is.
    """

    def tensor(self, lengths):
        return lengths.to(lengths.device)


class OwnMaximum(Mistake):
    """The mask is as wide as the longest sequence, not `max_length` wide.

    Why: A batch may be padded further than its longest sequence, and the mask has to fit it.
    Mend: `max_length` says how wide the mask is.
    """

    def width(self, lengths, max_length):
        return int(lengths.max())


class MadeOnTheCpu(Mistake):
    """The mask is on the CPU wherever the lengths are.

    Why: On a GPU the scores and their mask would meet on two devices, and that is an error.
    Mend: What you make belongs on the device of `lengths`, if that is a tensor. Is anything moved
        to the CPU?
    """

    def tensor(self, lengths):
        return torch.as_tensor(lengths).cpu()


PADDING_MASK = Exercise(
    id="padding_mask",
    lesson=LESSON,
    call="padding_mask(lengths, max_length)",
    points=1.0,
    cases=_length_cases,
    probe=FunctionProbe(extra=_see_bytes),
    expect=expect_function(_length_oracle),
    reference=padding_mask,
    properties=(
        Property(
            "each_row",
            "Each sequence has a row of its own",
            _some_of_each,
            gate=True,
            role="several",
        ),
        Property("counts", "Each row marks max_length - length places", _counts, credit=True),
        Property("tokens_first", "In each row tokens come first", _tokens_first, credit=True),
        Property(
            "bytes",
            "Lengths of the kind uint8 go together with 300 places",
            _bytes_are_enough,
            secondary=True,
            role="typical",
            breaks="Lengths of the kind uint8 go wrong with 300 places: what is computed or "
            "compared in that kind wraps round at 256",
        ),
    ),
    misconceptions=Misconceptions.of(
        NotChecked,
        first.NotStoodUp,
        *NO_MASKS,
        OneTooLate,
        OneTooEarly,
        FractionsAccepted,
        WholeFloatsAccepted,
        NegativeAccepted,
        TooLongAccepted,
        OwnMaximum,
        EmptyRefused,
        m.FullLengthRefused,
        ListsOnly,
        TensorsOnly,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        m.RefusedOtherwise.but(kind=TypeError),
        PaddingFirst,
        Clamped,
        CutToIntegers,
        MadeOnTheCpu,
        on=PaddingMask,
    ),
    hints=(
        "Number the positions 0, 1, …, max_length - 1. A position is padding when it is not below "
        "the sequence's length.",
        "`torch.arange(max_length)` has the shape `(S,)`. Compared with the lengths as a column, "
        "`(B, 1)`, it broadcasts to `(B, S)`.",
        "For each n of a list, or of `lengths.tolist()`: if it is no int, or not between 0 and "
        "max_length, raise a ValueError with both numbers. Then `lengths = "
        "torch.as_tensor(lengths)`, and `torch.arange(max_length, device=lengths.device) >= "
        "lengths[:, None]`.",
    ),
    other_way="""\
# Row n of a triangle is the mask of a text of n tokens, and the lengths pick their rows.
def padding_mask(lengths, max_length):
    for n in lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths:
        if not (isinstance(n, int) and 0 <= n <= max_length):
            raise ValueError(f"{n} is no integer from 0 to {max_length}")
    lengths = torch.as_tensor(lengths)
    table = torch.ones(max_length + 1, max_length, dtype=torch.bool, device=lengths.device).triu()
    return table[lengths.long()]""",
)


# ---------------------------------------------------------------- causal_and_padding


def _holes(draw: Draw, *shape: int) -> Tensor:
    """Padding anywhere; the oracle for masks has no need of a sensible pattern."""
    return torch.rand(shape, generator=draw.generator) < 0.4


def behind(lengths: list[int], T: int) -> Tensor:
    return torch.arange(T) >= torch.tensor(lengths)[:, None]


def _mask_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T = draw.sizes(2, 3, 8)
    n = draw.integer(4, 6)

    def case(name: str, pad_mask: Tensor, roles: str = "", **options: Any) -> Case:
        return Case(name, {"pad_mask": pad_mask}, None, options, roles=frozenset(roles.split()))

    return [
        case("two of three by hand", behind([2, 3], 3)),
        case("padding behind", behind(draw.sizes(3, 1, T + 1), T + 2)),
        case("padding in front", behind(draw.sizes(3, 1, T + 1), T + 2).flip(1)),
        case("padding anywhere", _holes(draw, B, T + 6), "typical"),
        case("as many sequences as tokens", _holes(draw, n, n), "small"),
        case("no padding", torch.zeros(B, T, dtype=torch.bool), "none"),
        case("nothing but padding", torch.ones(2, T, dtype=torch.bool)),
        case("one token", torch.tensor([[False], [True], [False]]), "small"),
        case("one sequence", _holes(draw, 1, T + 3), "small"),
        case("not contiguous in memory", _holes(draw, T + 8, B).T),
        case("by name", _holes(draw, B, T + 9), keywords=("pad_mask",)),
        case("900 tokens", _holes(draw, 1, 900), "small", once=True),
        case("1,040 sequences", _holes(draw, 1040, 3), once=True),
    ]


def mask_oracle(pad_mask: Tensor) -> Tensor:
    at = torch.arange(pad_mask.shape[1])
    return (at > at[:, None]).logical_or(pad_mask[:, None, :])


LONG = 1_100


def _see_long(answer: Any, case: Case, seen: Observation) -> None:
    """How many places of each row are wrong for more tokens than a table is made for."""
    if "typical" not in case.roles:
        return
    pad_mask = torch.arange(LONG)[None] % 5 == 2
    with contextlib.suppress(Exception):  # a table may be too small
        out, right = answer(fresh(pad_mask)), mask_oracle(pad_mask)
        seen.put("off", (out.cpu() != right).sum(-1) if out.shape == right.shape else out)
    turned = case["pad_mask"].flip(1)  # as many places of padding, elsewhere
    seen.facts["traits"] = {"turned": same(answer(fresh(turned)), mask_oracle(turned))}


def _any_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not torch.equal(seen.tensors["out"], expected["out"]):
        return None
    off = seen.tensors.get("off")
    return off is not None and off.shape == (1, LONG) and not bool(off.any())


def _each_its_own(case: Case, seen: Observation, expected: Expected) -> Verdict:
    right = same(seen.tensors["out"], expected["out"])
    return bool(seen.traits["turned"]) if right else None


def _hides_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return torch.equal(seen.tensors["out"].bool(), expected["out"])


def _hides_columns(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.tensors["out"].bool().all(dim=-2)[case["pad_mask"]].all())


def _follows_mask(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _keeps_own(case: Case, seen: Observation, expected: Expected) -> Verdict:
    own = ~seen.tensors["out"].bool().diagonal(dim1=-2, dim2=-1)
    return bool(own[~case["pad_mask"]].all())


class EitherNotBoth(Mistake):
    """Padding in the future is visible: `^` is "one of the two, not both".

    Why: Most padding lies in the future of every token.
    Mend: One reason is enough to hide a key, and two are as good.
    """

    def with_padding(self, future, pad_mask):
        return future ^ self.columns(pad_mask)


class FourDimensions(Mistake):
    """There is a dimension of size 1 for heads in the mask: its shape is `(B, 1, T, T)`.

    Why: One head has scores of shape `(B, T, T)`, and a mask must not make them larger.
    Mend: How many `None`s does it take from `(B, T)` to `(B, 1, T)`?
    """

    def columns(self, pad_mask):
        return pad_mask[:, None, None, :]


class EmptyRowsOpened(Mistake):
    """Rows in which all is hidden were opened again.

    Why: They would see padding, or the future; what to do with them is the softmax's affair.
    Mend: Leave rows alone, even if nothing is left to see in them.
    """

    def hidden(self, T, device, pad_mask=None):
        hidden = super().hidden(T, device, pad_mask)
        return hidden & ~hidden.all(-1, keepdim=True)


def _future_alone(self, future, pad_mask):
    return future.expand(len(pad_mask), -1, -1)


def _padding_alone(self, future, pad_mask):
    return self.columns(pad_mask).expand(-1, len(future), -1)


def _joined_in_place(self, pad_mask):
    hidden = self.hidden(pad_mask.shape[1], pad_mask.device, pad_mask)
    pad_mask |= hidden.any(1)
    return hidden


CAUSAL_AND_PADDING = Exercise(
    id="causal_and_padding",
    lesson=LESSON,
    call="causal_and_padding(pad_mask)",
    points=1.0,
    cases=_mask_cases,
    probe=FunctionProbe(extra=_see_long),
    expect=expect_function(mask_oracle),
    reference=causal_and_padding,
    properties=(
        Property(
            "follows",
            "Each sequence has a mask of its own",
            _follows_mask,
            gate=True,
            role="typical",
        ),
        Property(
            "future",
            "Without padding, the future alone is hidden",
            _hides_future,
            credit=True,
            role="none",
        ),
        Property("columns", "A padded key is hidden from every query", _hides_columns, credit=True),
        Property("own", "A real token sees itself", _keeps_own, credit=True),
        Property(
            "any_length",
            f"It holds for any number of tokens, {LONG:,} for one",
            _any_length,
            role="typical",
            breaks=f"For {LONG:,} tokens it is not right",
        ),
        Property(
            "turned",
            "Another mask of the same size gives another result",
            _each_its_own,
            role="typical",
        ),
    ),
    misconceptions=Misconceptions.of(
        m.RowsHidden,
        first.LinedUpFromTheRight,
        m.RowsAndColumnsHidden,
        m.BothNeeded,
        m.PadMaskIgnored.but(with_padding=_future_alone).on(
            CausalAndPadding, what="Only the future is hidden; the padding is not."
        ),
        m.PaddingOnly.but(with_padding=_padding_alone).on(
            CausalAndPadding, what="Only the padding is hidden; the future is not."
        ),
        EitherNotBoth,
        first.MaskOfNumbers,
        m.PaddingInverted,
        VisibleInstead.on(
            CausalAndPadding,
            mend="Is there one `~` too many, or one too few? Or do both masks mark what may be "
            "seen?",
        ),
        *NO_MASKS[1:-1],
        MaskTransposed.on(
            CausalAndPadding,
            why="Queries are rows and keys are columns.",
            mend="Was a mask turned with `.mT`, does `tril` stand for `triu`, or `[:, :, None]` "
            "for `[:, None, :]`?",
        ),
        m.PastHidden,
        m.BlindToItself,
        m.SeesNextToken,
        m.DiagonalKept,
        EmptyRowsOpened,
        m.FirstSequencesMask,
        mm.AnySequencesPadding,
        FourDimensions,
        m.ChangesItsInput.but(__call__=_joined_in_place).on(
            CausalAndPadding, what="The result is right, but `pad_mask` was changed in place."
        ),
        on=CausalAndPadding,
    ),
    hints=(
        "A key is hidden if it lies in the future *or* is padding. The future is `(T, T)` and the "
        "same for all sequences.",
        "`pad_mask[:, None, :]` has the shape `(B, 1, T)`: one row a sequence, repeated for every "
        "query. What does it become beside `(T, T)`?",
        "`future = torch.ones(T, T, dtype=torch.bool, device=pad_mask.device).triu(diagonal=1)`, "
        "then `future | pad_mask[:, None, :]`.",
    ),
    other_way="""\
# Say what may be seen: not the future *and* no padding. Then turn it round.
def causal_and_padding(pad_mask):
    places = torch.arange(pad_mask.shape[1], device=pad_mask.device)
    seen = (places <= places[:, None]) & ~pad_mask[:, None, :]
    return ~seen""",
)


# ---------------------------------------------------------------- the quiz

BEHIND, IN_FRONT, RAINS = "behind", "in front", "seen by 'rains'"
NOTHING, NOT_CAUSAL, SHAPE = "rows that see nothing", "the same, not causal", "shape"

WHO_HEARS_PADDING = quiz(
    "who_hears_padding",
    lesson=LESSON,
    points=1.0,
    about="two words in six places; scores (4, 7, 5)",
    entries=(
        Entry(
            BEHIND,
            0,
            "Padding behind a text lies in the future of its words, and the causal mask hides it.",
            "The words stand in places 0 and 1. Which places does the causal mask leave them?",
        ),
        Entry(
            IN_FRONT,
            2,
            "Padding in front lies in the past of both words, and the causal mask hides no past.",
            "The words stand in places 4 and 5. What lies in their past?",
        ),
        Entry(
            RAINS,
            (4, 5),
            "Itself and the word before it: places 0 to 3 are padding, and nothing comes after it.",
            "'rains' stands in place 5. Which places before it hold a word, and may it see itself? "
            "From left to right.",
        ),
        Entry(
            NOTHING,
            4,
            "Each padded row has only padding before it, and may not see itself.",
            "Go through rows 0 to 5: which places are neither future nor padding?",
        ),
        Entry(
            NOT_CAUSAL,
            0,
            "Every row, padded ones too, may look at both words.",
            "Without the causal mask, who is kept from looking at places 4 and 5?",
        ),
        Entry(
            SHAPE,
            (4, 1, 5),
            "The 1 stands where the queries are, and is repeated for all 7 of them.",
            "Each text has a row of 5 keys, the same for every query. What stands between 4 and 5?",
        ),
    ),
    misconceptions=(
        slip(
            "padding_behind_is_heard",
            {BEHIND: 2},
            "You let both words hear the padding behind them.",
            "Behind means later, and what is later is the future.",
            "Draw the causal mask for six places and look at rows 0 and 1.",
        ),
        slip(
            "padding_in_front_is_safe",
            {IN_FRONT: 0},
            "You took the causal mask for enough with padding in front.",
            "It hides what comes later. Padding in front comes earlier, and is heard by "
            "every word.",
            "Draw the causal mask for six places and look at rows 4 and 5.",
        ),
        slip(
            "padding_counted_for_words",
            {BEHIND: 4, IN_FRONT: 4},
            "You counted paddings, and words were asked for.",
            "What padding itself hears disturbs nobody.",
            "There are two words; for each, ask whether it gives weight to padding.",
        ),
        slip(
            "hears_the_whole_past",
            {RAINS: (0, 1, 2, 3, 4, 5)},
            "You let 'rains' look at the padding in its past.",
            "Both masks are on, and one reason is enough to hide a key.",
            "Take the past of 'rains' and strike out what is padding.",
        ),
        slip(
            "places_counted_from_one",
            {RAINS: (5, 6)},
            "You counted the places from 1.",
            "Positions begin with 0, in masks as everywhere in Python.",
            "Four paddings stand in places 0 to 3.",
        ),
        slip(
            "word_hidden_from_itself",
            {RAINS: (4,)},
            "You hid 'rains' from itself.",
            "A token always sees itself in a causal head; only padding may not be looked at.",
            "Is place 5 in the future of row 5?",
        ),
        slip(
            "every_row_sees_something",
            {NOTHING: 0},
            "You let each row see at least itself.",
            "A padded place is hidden from every query, its own too.",
            "Row 0 stands on padding. What may it look at?",
        ),
        slip(
            "padded_rows_are_blind",
            {NOT_CAUSAL: 4},
            "You hid the padded rows.",
            "The padding mask hides columns: padding isn't looked at, but it may look.",
            "Which columns does the padding mask leave to row 0?",
        ),
        slip(
            "shape_hides_rows",
            {SHAPE: (4, 5, 1)},
            "With this shape the padding would lie in the rows.",
            "Rows are those who look, columns those who are looked at; and 5 is not the 7 of T.",
            "Line up your shape with (4, 7, 5), from the right.",
        ),
        slip(
            "shape_without_the_one",
            {SHAPE: (4, 5)},
            "You left the mask as it is.",
            "Shapes line up from the right, and the 4 texts would meet the 7 queries.",
            "Line up your shape with (4, 7, 5), from the right.",
        ),
        slip(
            "shape_repeated_already",
            {SHAPE: (4, 7, 5)},
            "That is the shape after repeating.",
            "A size of 1 is repeated by itself, and nothing has to be copied.",
            "Which size stands for what is the same for all 7 queries?",
        ),
    ),
    hints=(
        "Write the six places in a row, `it rains <pad> <pad> <pad> <pad>`, and below it the other "
        "way round. The causal mask lets a place see itself and what is left of it.",
        "A key is hidden if it lies to the right, where the causal mask is on, or if it "
        "is padding, "
        "where the padding mask is on. For the shape: B first, S last, and a 1 for what is the "
        "same for all queries.",
    ),
)
