"""Lesson 05: a batch of unequal lengths, and rows that see nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention import (
    PaddedCausalSelfAttention,
    causal_and_padding,
    padding_mask,
    safe_masked_softmax,
)
from ..checking import (
    Case,
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
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    head_cases,
    head_oracle,
    padding_anywhere,
    padding_behind,
    padding_in_front,
    see_head,
)
from .kit.steps import INF, CausalAndPadding, PaddedHead, SafeMaskedSoftmax
from .lesson_04 import HEAD_MISTAKES

LESSON = "2-single-head/05_padding_mask"


# ---------------------------------------------------------------- padding_mask


def _length_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    low, high, longest = sorted(draw.sizes(3, 4, 10))
    beyond = draw.integer(31, 47)
    many = draw.sizes(6, 1, 10)

    def case(name: str, lengths: Any, max_length: int, *refuses: str, roles: str = "") -> Case:
        inputs = {"lengths": lengths, "max_length": max_length}
        return Case(name, inputs, refuses or None, roles=frozenset(roles.split()))

    wrong = []
    for name, length, most, says in (
        ("one too long", beyond, beyond - 1, (str(beyond), str(beyond - 1))),
        ("far too long", 90 + beyond, 30, (str(90 + beyond), "30")),
        ("one below zero", -1, 30, ("-1",)),
        ("negative", -beyond, 30, (f"-{beyond}",)),
        ("no integer", low + 0.5, 30, (f"{low}.5",)),
        ("a whole number that is no integer", float(high), 30, (f"{high}.0",)),
    ):
        wrong.append(case(name, [low, length], most, *says))
        wrong.append(case(f"{name}, as a tensor", torch.tensor([length, length]), most, *says))
    return [
        case("two sequences by hand", [2, 3], 4, roles="small"),
        case("a tensor of lengths", torch.tensor(many), 11, roles="typical several"),
        case("a list of lengths", [high, low, high], longest, roles="several"),
        case("a full sequence", [longest, low], longest),
        case("a sequence without tokens", [low, 0, 1], high),
        case("one sequence", [low], high, roles="small"),
        case("all of one length", torch.tensor([low] * 3), longest + 1),
        case("as many sequences as places", [1, 3, 0], 3, roles="small"),
        case("no place at all", [0, 0], 0, roles="small"),
        case("int32", torch.tensor([3, 1], dtype=torch.int32), high + 1),
        case("many places", torch.tensor([5, 1_030, 0]), 1_040),
        case("many sequences", torch.arange(1_100) % 9, 8),
        *wrong,
    ]


def _length_oracle(lengths: Any, max_length: int) -> Tensor:
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    rows = [[False] * n + [True] * (max_length - n) for n in counts]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(counts), max_length)


def _counts(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not expected:
        return None
    return bool((seen.tensors["out"].sum(1) == expected["out"].sum(1)).all())


def _some_of_each(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _tokens_first(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].double().diff(dim=1) >= 0).all()) if expected else None


class PaddingMask:
    """The right mask in steps."""

    def __call__(self, lengths, max_length):
        tensor = self.as_tensor(lengths)
        for length in tensor.tolist():
            self.refuse(length, max_length)
        positions = torch.arange(self.width(tensor, max_length), device=tensor.device)
        return self.finished(self.compared(positions, tensor[:, None], max_length))

    def as_tensor(self, lengths):
        return torch.as_tensor(lengths)

    def refuse(self, length, most):
        if isinstance(length, float) or not 0 <= length <= most:
            raise ValueError(f"lengths must be integers from 0 to {most}, got {length}")

    def width(self, tensor, max_length):
        return max_length

    def compared(self, at, n, most):
        return at >= n

    def finished(self, mask):
        return mask


class PaddingInverted(Mistake):
    """The mask is the wrong way round: `True` marks the tokens.

    Why: In this course `True` means hidden, so this mask would hide the text and show the padding.
    Mend: For a sequence of length 2, which positions should be `True`?
    """

    def compared(self, at, n, most):
        return at < n


class PaddingTooLate(Mistake):
    """The padding begins one place too late: its first place counts as a token.

    Why: One piece of padding is seen by every query.
    Mend: A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?
    """

    def compared(self, at, n, most):
        return at > n


class PaddingTooEarly(Mistake):
    """The padding begins one place too early: the last token is hidden.

    Why: The last token is the newest one, often the one that counts most.
    Mend: A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?
    """

    def compared(self, at, n, most):
        return at >= n - 1


class PaddingInFront(Mistake):
    """The padding was put before the tokens.

    Why: Some models are fed like that, but here tokens come first and the padding after them.
    Mend: Which end of the row should hold the padding?
    """

    def compared(self, at, n, most):
        return at < most - n


class MaskTransposed(Mistake):
    """Rows and columns are swapped: the shape is `(max_length, B)`.

    Why: Batch comes first everywhere in this course.
    Mend: Which of the two should be a column when you compare them?
    """

    def finished(self, mask):
        return mask.T


class OwnMaximum(Mistake):
    """The mask is as wide as the longest sequence, not `max_length` wide.

    Why: A batch may be padded further than its longest sequence, and the mask has to fit it.
    Mend: `max_length` says how wide the mask is.
    """

    def width(self, tensor, max_length):
        return int(tensor.max())


class MaskOfNumbers(Mistake):
    """The mask holds numbers, 0 and 1, instead of booleans.

    Why: `masked_fill` refuses it, and as an index it picks rows 0 and 1.
    Mend: A comparison gives booleans by itself.
    """

    def finished(self, mask):
        return mask.long()


class AdditiveMask(Mistake):
    """The mask holds 0 and -inf, to be added to scores.

    Why: Such masks exist, but the masks of this course are booleans.
    Mend: Stop where the mask is still `True` and `False`.
    """

    def finished(self, mask):
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -INF)


class NothingRefused(Mistake):
    """Lengths that make no sense are accepted.

    Why: A length beyond `max_length` means that tokens were cut off before, and nobody notices.
    Mend: Look at each length first; raise a ValueError that names it and the limit.
    """

    def refuse(self, length, most):
        pass


class NegativeAccepted(Mistake):
    """Negative lengths are accepted.

    Why: A negative length is a mistake made earlier, and here it looks like an empty sequence.
    Mend: The lengths have a lower limit too.
    """

    def refuse(self, length, most):
        super().refuse(length if isinstance(length, float) else max(length, 0), most)


class TooLongAccepted(Mistake):
    """Lengths beyond `max_length` are accepted.

    Why: Such a length means that tokens were cut off before, and nobody notices.
    Mend: The lengths have an upper limit too.
    """

    def refuse(self, length, most):
        super().refuse(length if isinstance(length, float) else min(length, most), most)


class FractionsAccepted(Mistake):
    """A length of 2.5 is accepted.

    Why: Half a token doesn't exist: somebody divided where they shouldn't have.
    Mend: What tells an integer from another number?
    """

    def refuse(self, length, most):
        super().refuse(int(length), most)


class WholeFloatsAccepted(Mistake):
    """A length of 2.0 is accepted: it is a whole number, and no integer.

    Why: Lengths that are floats were divided or averaged somewhere; the next may be 2.5.
    Mend: Look at the type of a length, or at the dtype, not only at its value.
    """

    def refuse(self, length, most):
        super().refuse(int(length) if length == int(length) else length, most)


class EmptyRefused(Mistake):
    """A sequence of length 0 was refused.

    Why: An empty sequence is allowed: its row is all padding.
    Mend: From which length on should it be accepted?
    """

    def refuse(self, length, most):
        super().refuse(length or -1, most)


class FullRefused(Mistake):
    """A sequence of exactly max_length tokens was refused.

    Why: The longest sequence of a batch has no padding at all, and it is welcome.
    Mend: Which of `>` and `>=` says "more than"?
    """

    def refuse(self, length, most):
        super().refuse(length, most - 1)


class Asserted(Mistake):
    """Wrong lengths are caught by an `assert`.

    Why: Python leaves out all asserts when it runs with `-O`, and an AssertionError doesn't say
        that a *value* was wrong.
    Mend: `raise ValueError(…)` with the length and the limit in its message.
    """

    def refuse(self, length, most):
        assert not isinstance(length, float) and 0 <= length <= most, length


class LimitNotNamed(Mistake):
    """Wrong lengths are refused, but the message doesn't name the length.

    Why: Whoever meets the error has to search a batch of thousands for it.
    Mend: Put the offending number and the limit into the message.
    """

    def refuse(self, length, most):
        if isinstance(length, float) or not 0 <= length <= most:
            raise ValueError("invalid lengths")


class ListsOnly(Mistake):
    """It works for lists and fails for tensors.

    Why: Lengths often come as a tensor, with the rest of a batch.
    Mend: `torch.as_tensor` makes a tensor of a list and leaves a tensor as it is.
    """

    def as_tensor(self, lengths):
        assert isinstance(lengths, list) or lengths.nonexistent
        return torch.tensor(lengths)


class TensorsOnly(Mistake):
    """It works for tensors and fails for lists.

    Why: Whoever counts tokens in Python has a list.
    Mend: `torch.as_tensor` makes a tensor of a list and leaves a tensor as it is.
    """

    def as_tensor(self, lengths):
        return lengths.to(lengths.dtype)


PADDING_MASK = Exercise(
    id="padding_mask",
    lesson=LESSON,
    call="padding_mask(lengths, max_length)",
    points=1.0,
    cases=_length_cases,
    probe=FunctionProbe(),
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
    ),
    misconceptions=Misconceptions.of(
        PaddingInverted,
        PaddingTooLate,
        NothingRefused,
        NegativeAccepted,
        TooLongAccepted,
        WholeFloatsAccepted,
        FractionsAccepted,
        MaskTransposed,
        PaddingTooEarly,
        PaddingInFront,
        OwnMaximum,
        MaskOfNumbers,
        AdditiveMask,
        EmptyRefused,
        FullRefused,
        Asserted,
        LimitNotNamed,
        ListsOnly,
        TensorsOnly,
        on=PaddingMask,
    ),
    hints=(
        "Number the positions 0, 1, …, max_length - 1. A position is padding when it is not below "
        "the sequence's length.",
        "`torch.arange(max_length)` has the shape `(S,)`. Compared with the lengths as a column, "
        "`(B, 1)`, it broadcasts to `(B, S)`.",
        "`lengths = torch.as_tensor(lengths)`; then for each n in `lengths.tolist()`: if it is no "
        "int, or not between 0 and max_length, raise a ValueError with both numbers. At the end: "
        "`torch.arange(max_length, device=lengths.device) >= lengths[:, None]`.",
    ),
)


# ---------------------------------------------------------------- causal_and_padding


def _mask_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T = draw.sizes(2, 3, 8)
    n = draw.integer(4, 6)

    def case(name: str, pad_mask: Tensor, roles: str = "") -> Case:
        return Case(name, {"pad_mask": pad_mask}, roles=frozenset(roles.split()))

    return [
        case("two of three by hand", torch.tensor([[0, 0, 1], [0, 0, 0]]).bool()),
        case("padding behind", padding_behind(draw, 3, T + 6)),
        case("padding in front", padding_in_front(draw, 3, T + 6)),
        case("padding anywhere", padding_anywhere(draw, B, T + 7), "typical anywhere"),
        case("as many sequences as tokens", padding_anywhere(draw, n, n), "small"),
        case("no padding", torch.zeros(B, T, dtype=torch.bool), "unpadded"),
        case("nothing but padding", torch.ones(2, T, dtype=torch.bool)),
        case("one token", torch.tensor([[False], [True], [False]]), "small"),
        case("one sequence", padding_anywhere(draw, 2, T + 3)[1:], "small"),
        case("not contiguous in memory", padding_anywhere(draw, T + 9, B).T),
        case("many tokens", padding_behind(draw, 2, 300)),
        case("many sequences", padding_anywhere(draw, 1_100, 4)),
    ]


def _mask_oracle(pad_mask: Tensor) -> Tensor:
    T = pad_mask.shape[1]
    places = torch.arange(T)
    return (places[None, :] > places[:, None])[None] | pad_mask[:, None, :].expand(-1, T, -1)


def _hides_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return torch.equal(seen.tensors["out"].bool(), expected["out"])


def _hides_columns(case: Case, seen: Observation, expected: Expected) -> Verdict:
    hidden = seen.tensors["out"].bool().all(dim=-2)
    return bool(hidden[case["pad_mask"]].all())


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


class VisibleInstead(Mistake):
    """`True` marks what may be seen. That is the convention of PyTorch's
    `scaled_dot_product_attention`, and the opposite of ours.

    Why: Used as `hidden`, it would show exactly what it should hide.
    Mend: One `~` too many, or one too few.
    """

    def hidden(self, T, device, pad_mask=None):
        return ~super().hidden(T, device, pad_mask)


class LinedUpFromTheRight(Mistake):
    """`(T, T) | (B, T)` lines the sequences up with the rows of the triangle.

    Why: With as many sequences as tokens there is no error, only a wrong mask; else there is one.
    Mend: The batch needs a dimension of its own, and the rows one of size 1.
    """

    def columns(self, pad_mask):
        return pad_mask


class FourDimensions(Mistake):
    """There is a dimension of size 1 for heads in the mask: its shape is `(B, 1, T, T)`.

    Why: One head has scores of shape `(B, T, T)`, and a mask must not make them larger.
    Mend: How many `None`s does it take from `(B, T)` to `(B, 1, T)`?
    """

    def columns(self, pad_mask):
        return pad_mask[:, None, None, :]


class OneMaskForAll(Mistake):
    """The result is one mask for all sequences: the batch is gone from the shape.

    Why: Sequences of a batch have different lengths; that is why there is a mask.
    Mend: `pad_mask` is `(B, T)`: each of its rows makes a mask of its own.
    """

    def columns(self, pad_mask):
        return pad_mask.any(0)


class PaddingOnlyNumbers(Mistake):
    """The mask holds numbers, 0 and 1, instead of booleans.

    Why: `masked_fill` refuses it.
    Mend: `|` of two bool tensors is bool by itself.
    """

    @classmethod
    def id(cls) -> str:
        return "mask_of_numbers"

    def hidden(self, T, device, pad_mask=None):
        return super().hidden(T, device, pad_mask).long()


class AdditiveHidden(Mistake):
    """The mask holds 0 and -inf, to be added to scores.

    Why: Such masks exist, but the masks of this course are booleans.
    Mend: Stop where the mask is still `True` and `False`.
    """

    @classmethod
    def id(cls) -> str:
        return "additive_mask"

    def hidden(self, T, device, pad_mask=None):
        mask = super().hidden(T, device, pad_mask)
        return torch.zeros(mask.shape, device=device).masked_fill(mask, -INF)


class PadMaskChanged(Mistake):
    """The result is right, but `pad_mask` was changed in place.

    Why: The next head or layer gets the same `pad_mask`, and now it hides something else.
    Mend: `a |= b`, and methods that end in an underscore, write into `a`; `a | b` does not.
    """

    def with_padding(self, future, pad_mask):
        hidden = super().with_padding(future, pad_mask.clone())
        pad_mask.logical_not_()
        return hidden


CAUSAL_AND_PADDING = Exercise(
    id="causal_and_padding",
    lesson=LESSON,
    call="causal_and_padding(pad_mask)",
    points=1.0,
    cases=_mask_cases,
    probe=FunctionProbe(),
    expect=expect_function(_mask_oracle),
    reference=causal_and_padding,
    properties=(
        Property(
            "follows",
            "Each sequence has a mask of its own",
            _follows_mask,
            gate=True,
            role="anywhere",
        ),
        Property(
            "future",
            "Without padding, the future alone is hidden",
            _hides_future,
            credit=True,
            role="unpadded",
        ),
        Property("columns", "A padded key is hidden from every query", _hides_columns, credit=True),
        Property("own", "A real token sees itself", _keeps_own, credit=True),
    ),
    misconceptions=Misconceptions.of(
        m.RowsHidden,
        LinedUpFromTheRight,
        m.RowsAndColumnsHidden,
        m.BothNeeded,
        VisibleInstead,
        m.PadMaskIgnored.on(
            CausalAndPadding, what="`pad_mask` has no effect: only the future is hidden."
        ),
        m.PaddingOnly.on(
            CausalAndPadding,
            what="Only the padding is hidden; the future is not.",
            mend="The triangular mask of lesson 03 belongs in here too.",
        ),
        m.PaddingInverted,
        m.PastHidden,
        m.BlindToItself.on(
            CausalAndPadding, why="Token 0 then sees nothing, with or without padding."
        ),
        m.SeesNextToken,
        m.DiagonalKept,
        m.FirstSequencesMask,
        mm.AnySequencesPadding,
        EitherNotBoth,
        FourDimensions,
        OneMaskForAll,
        PaddingOnlyNumbers,
        AdditiveHidden,
        PadMaskChanged,
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
)


# ---------------------------------------------------------------- safe_masked_softmax


def _safe_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    A, B, H, T, S = draw.sizes(5, 2, 7)
    many = 1_100 + draw.integer(0, 20)

    def emptied(*shape: int) -> Tensor:
        """A random mask of which some rows hide everything."""
        hidden = draw.hidden(*shape)
        rows = torch.rand(shape[:-1], generator=draw.generator) < 0.3
        rows.view(-1)[draw.integer(0, rows.numel() - 1)] = True
        return hidden | rows[..., None]

    def case(name: str, scores: Tensor, hidden: Tensor, roles: str = "") -> Case:
        inputs = {"scores": scores, "hidden": hidden}
        return Case(name, inputs, roles=frozenset(roles.split()))

    def shapes() -> list[Case]:
        """Every way in which a mask can be smaller than its scores, and none."""
        return [
            case(name, draw.normal(*scores), emptied(*mask))
            for name, scores, mask in (
                ("one mask for batch and heads", (B, H, T, S), (T, S)),
                ("a mask of columns", (B, T, S), (B, 1, S)),
                ("columns, for all heads", (B, H, T, S), (B, 1, 1, S)),
                ("a mask for each sequence, for all heads", (B, H, T, S), (B, 1, T, S)),
                ("a mask for each head", (B, H, T, S), (H, T, S)),
                ("a mask for each sequence and head", (B, H, T, S), (B, H, T, S)),
                ("five dimensions, a full mask", (A, B, H, T, S), (A, B, H, T, S)),
                ("five dimensions, one mask for some", (A, B, H, T, S), (B, 1, T, S)),
                ("many keys", (3, many), (3, many)),
                ("many queries", (many, 4), (many, 4)),
            )
        ]

    hidden = emptied(T, S)
    by_hand = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    hides = torch.tensor([[False, False, True], [True, True, True]])
    left = _mask_oracle(padding_in_front(draw, 2, 5))
    loud = draw.normal(T, S).masked_fill(hidden, 10_000.0)
    quiet = draw.hidden(H, S)
    faint = draw.normal(H, S).masked_fill(~quiet, -1e32)
    zeros = draw.normal(T, S)
    zeros[draw.integer(0, T - 1)] = 0.0
    return [
        case("the second row sees nothing", by_hand, hides),
        case("a random mask", draw.normal(T, S), draw.hidden(T, S)),
        case("empty rows", draw.normal(T, S), hidden, "typical"),
        case("nothing hidden", draw.normal(S, T), hidden.T & False, "unmasked"),
        case("all hidden", draw.normal(H, T), torch.ones(H, T) > 0),
        case("padding in front", draw.normal(2, 5, 5), left, "small"),
        *shapes(),
        case("one mask for all rows", draw.normal(T, S), draw.hidden(S)),
        case("one mask that hides all", draw.normal(T, S), torch.ones(S).bool()),
        case("one key", draw.normal(H, T, 1), torch.arange(T)[:, None] > 1, "small"),
        case("not contiguous in memory", draw.normal(S, T).T, hidden),
        case("float64", draw.normal(T, S, dtype=torch.float64), hidden),
        case("scores of 0", zeros, emptied(T, S)),
        case("all scores of a row equal", torch.full((T, S), 500.0), hidden),
        case("hidden scores of 10,000", loud, hidden),
        case("hidden scores of 3e38", loud.masked_fill(hidden, 3e38), hidden),
        case("visible scores of -1e32", faint, quiet),
    ]


def _safe_oracle(scores: Tensor, hidden: Tensor) -> Tensor:
    # The built-in attention gives its weights when keys and values are the identity, and zeros for
    # a row that sees nothing.
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype).expand(*scores.shape[:-2], -1, -1)
    visible = ~hidden.expand_as(scores)
    return F.scaled_dot_product_attention(scores, eye, eye, attn_mask=visible, scale=1.0)


def _empty_rows(case: Case) -> Tensor:
    return case["hidden"].expand_as(case["scores"]).all(-1)


def _empty_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    empty = _empty_rows(case)
    return bool((seen.tensors["out"][empty] == 0).all()) if bool(empty.any()) else None


def _hidden_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    hidden = case["hidden"].expand_as(case["scores"]) & ~_empty_rows(case)[..., None]
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


def _full_rows(case: Case, seen: Observation, expected: Expected) -> Verdict:
    sums = seen.tensors["out"].double().sum(-1)[~_empty_rows(case)]
    return bool(((sums - 1).abs() < 1e-4).all()) if sums.numel() else None


def _scores_matter(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


def _gradient_is_finite(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "grad:scores" not in seen.tensors:
        return None
    return bool(seen.tensors["grad:scores"].isfinite().all())


class OneKeyKept(Mistake):
    """A row that sees nothing was given the first key to look at.

    Why: Under left padding the first key *is* padding.
    Mend: Its weights should all be 0.
    """

    def weights(self, scores, hidden):
        empty = hidden.expand_as(scores).all(dim=-1, keepdim=True)
        first = torch.zeros_like(scores, dtype=torch.bool)
        first[..., 0] = True
        return self.softmax(self.hide(scores, hidden & ~(empty & first)))


class AnyForAll(Mistake):
    """Every row with *some* hidden key became zeros.

    Why: Under a causal mask that is every row but the last.
    Mend: A row is empty when *all* of its keys are hidden.
    """

    def blind(self, hidden):
        return hidden.any(dim=-1, keepdim=True)


class EmptyColumns(Mistake):
    """You looked for columns that nobody sees instead of rows that see nothing.

    Why: The row of nothing but -inf is still there, and it is still NaN.
    Mend: The keys are the last dimension. Over which one must *all* be hidden?
    """

    def blind(self, hidden):
        return hidden.all(dim=-2, keepdim=True)


class FiniteFillThenZeros(Mistake):
    """You filled with -1e9 and cleared hidden weights afterwards. Visible scores below that lose
    against hidden ones, and their weights are gone.

    Why: It holds for the scores of today, not for whatever finite value a score has.
    Mend: Only one value is below every finite score.
    """

    def weights(self, scores, hidden):
        return self.softmax(scores.masked_fill(hidden, -1e9)).masked_fill(hidden, 0.0)


class DividedAfterwards(Mistake):
    """You masked after the softmax and divided by the new sums. A big hidden score rounds the
    visible weights to 0 before you divide.

    Why: What a hidden score holds should change nothing, whatever it is.
    Mend: Hide before the softmax.
    """

    def weights(self, scores, hidden):
        weights = self.softmax(scores).masked_fill(hidden, 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


class EverythingZero(Mistake):
    """As soon as one row sees nothing, the whole result became zeros.

    Why: One empty row in a batch would silence all others.
    Mend: Treat the empty rows, and leave the others as they are.
    """

    def weights(self, scores, hidden):
        weights = super().weights(scores, hidden)
        some = bool(self.blind(hidden.expand_as(scores)).any())
        return torch.zeros_like(weights) if some else weights


class RowsRemoved(Mistake):
    """Rows that see nothing were left out, so the shape is another.

    Why: Row t of the weights belongs to query t; without a row the queries no longer match.
    Mend: Keep the row and fill it with zeros.
    """

    def weights(self, scores, hidden):
        return super().weights(scores, hidden)[~self.blind(hidden.expand_as(scores))[..., 0]]


class EqualWeightsLeft(Mistake):
    """A row that sees nothing got equal weights on everything: the softmax of equal scores is the
    mean.

    Why: There is no NaN to warn you, and padding and future leak into the result.
    Mend: Such rows have to be cleared once more after the softmax.
    """

    def weights(self, scores, hidden):
        blind = self.blind(hidden.expand_as(scores))
        return self.softmax(self.hide(scores, hidden).masked_fill(blind, 0.0))


SAFE_MASKED_SOFTMAX = Exercise(
    id="safe_masked_softmax",
    lesson=LESSON,
    call="safe_masked_softmax(scores, hidden)",
    points=2.0,
    cases=_safe_cases,
    probe=FunctionProbe(gradients=("scores",), watch=True),
    expect=expect_function(_safe_oracle, gradients=("scores",)),
    reference=safe_masked_softmax,
    properties=(
        Property(
            "matter",
            "A bigger score gets a bigger weight",
            _scores_matter,
            gate=True,
            role="unmasked",
        ),
        Property("empty", "A row that sees nothing gets zeros", _empty_zero, credit=True),
        Property("zero", "Hidden keys get weight exactly 0", _hidden_zero, credit=True),
        Property("rows", "All other rows sum to 1", _full_rows, credit=True),
        Property(
            "finite_gradient",
            "No gradient is NaN",
            _gradient_is_finite,
            breaks="A NaN comes back as the gradient of the scores",
        ),
    ),
    misconceptions=Misconceptions.of(
        m.NanRows,
        m.NanInGradient,
        m.UniformOnHidden,
        EqualWeightsLeft,
        m.MaskDroppedWhenEmpty,
        m.MaskAfterSoftmax,
        AnyForAll,
        EmptyColumns,
        FiniteFillThenZeros,
        DividedAfterwards,
        EverythingZero,
        RowsRemoved,
        OneKeyKept,
        m.OverQueries,
        m.MaskInverted,
        m.ZeroFill,
        m.MaskIgnored,
        m.ChangesItsInput.on(
            SafeMaskedSoftmax,
            what="The result is right, but it was made by writing into the caller's scores.",
            mend="`masked_fill_` with an underscore works in place: leave the underscore out and "
            "use what the call returns.",
        ),
        m.Float32Result.on(
            SafeMaskedSoftmax, mend="`masked_fill` and the softmax keep the dtype by themselves."
        ),
        m.CutOff,
        on=SafeMaskedSoftmax,
    ),
    hints=(
        "The trouble is a row of nothing but -inf. Find such rows from the mask: all of their keys "
        "are hidden.",
        "`hidden.all(dim=-1, keepdim=True)` marks them, in the shape `(…, T, 1)`. Give them equal "
        "scores before the softmax, so that no NaN arises, and clear their weights after it.",
        "`scores.masked_fill(hidden, -inf).masked_fill(empty, 0.0)`, softmax over the last "
        "dimension, then `.masked_fill(empty, 0.0)` once more.",
    ),
    uses=("softmax", "masked_softmax"),
    forbidden=BUILT_IN,
    forbidden_text="Here the softmax under a mask is yours to build: `torch.softmax` is welcome, "
    "the built-in attention is not.",
)


# ---------------------------------------------------------------- PaddedCausalSelfAttention


def _padded_cases(seed: int) -> list[Case]:
    return head_cases(seed, padded=True)


def _see_padded(make: Callable[[], Any], case: Case, seen: Observation) -> None:
    """Beside what every head shows: the mask by name and left out, other padding, each sequence
    alone."""
    see_head(make, case, seen)
    if "pad_mask" not in case.inputs:
        return
    x, pad_mask = case["x"], case["pad_mask"]
    module = make()
    seen.put("by name", module(fresh(x), pad_mask=fresh(pad_mask)))
    seen.put("mask left out", module(fresh(x)))
    seen.put("no mask", make()(fresh(x)))
    module = make()
    module(fresh(x), fresh(~pad_mask))
    seen.put("after another mask", module(fresh(x), fresh(pad_mask)))
    other = torch.where(pad_mask[..., None], x + 2.0, x)
    seen.put("other padding", make()(fresh(other), fresh(pad_mask)))
    if "typical" in case.roles:
        module = make()
        alone = [module(fresh(s[None, ~pad])) for s, pad in zip(x, pad_mask, strict=True)]
        if all(isinstance(a, Tensor) and a.dim() == 3 for a in alone):
            seen.put("alone", torch.cat([a[0] for a in alone]))


def _alone(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][~case["pad_mask"]], seen.tensors["alone"])


def _other_padding(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "pad_mask" not in case.inputs:
        return None
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["other padding"][real])


def _sees_nothing(case: Case) -> Tensor | None:
    if "pad_mask" not in case.inputs:
        return None
    return (~case["pad_mask"]).cumsum(1) == 0


def _nothing_is_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    empty = _sees_nothing(case)
    if empty is None or not bool(empty.any()):
        return None
    return bool((seen.tensors["out"][empty] == 0).all())


def _padded_rows(case: Case, seen: Observation, expected: Expected) -> Verdict:
    empty = _sees_nothing(case)
    if empty is None or case["x"].abs().max() > 100:
        return None
    rows = case["pad_mask"] & ~empty
    return near(seen.tensors["out"][rows], expected["out"][rows]) if bool(rows.any()) else None


def _each_call(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "pad_mask" not in case.inputs:
        return None
    t = seen.tensors
    return near(t["mask left out"], t["no mask"]) and near(t["after another mask"], t["out"])


def _by_name(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "pad_mask" not in case.inputs:
        return None
    return near(seen.tensors["by name"], seen.tensors["out"])


class TokensChanged(Mistake):
    """The result is right, but the padded tokens of `x` were overwritten.

    Why: Whoever called the module still needs them.
    Mend: Methods that end in an underscore work in place.
    """

    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        if pad_mask is not None:
            with torch.no_grad():
                x.masked_fill_(pad_mask[:, :, None], 0.0)
        return out


PADDED_CAUSAL_SELF_ATTENTION = Exercise(
    id="PaddedCausalSelfAttention",
    lesson=LESSON,
    call="PaddedCausalSelfAttention(d_in, d_out, context_length, dropout=0.0, qkv_bias=False)",
    points=4.0,
    kind="class",
    cases=_padded_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_padded),
    expect=expect_module(head_oracle),
    reference=PaddedCausalSelfAttention,
    properties=(
        Property(
            "alone",
            "A padded sequence gives what it gives alone",
            _alone,
            credit=True,
            role="typical",
        ),
        Property(
            "other_padding", "What stands in the padding changes no token", _other_padding, True
        ),
        Property("nothing", "A query that sees nothing gives zeros", _nothing_is_zero, True),
        Property(
            "padded_rows", "A padded query gives what it sees among earlier tokens", _padded_rows
        ),
        Property("each_call", "Each call has its own mask, or none", _each_call),
        Property("by_name", "`forward(x, pad_mask=…)` is the same call", _by_name),
        *HEAD_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        m.NanRows.on(PaddedHead, mend="You wrote a softmax for that in this lesson."),
        m.RowsHidden,
        m.PadMaskIgnored,
        m.PaddingInverted,
        m.PaddingOnly,
        m.BothNeeded,
        m.NanInGradient,
        m.UniformOnHidden,
        m.FirstSequencesMask,
        m.DiagonalKept,
        m.MaskDroppedWhenEmpty,
        mm.PaddingAfterSoftmax,
        m.PaddedRowsCleared,
        m.TokensCleared,
        m.MaskRequired,
        mm.PaddingKept,
        mm.AnySequencesPadding,
        mm.PaddingInTrainingOnly,
        mm.PaddingInTrainingOnly.but(mode=False),
        PadMaskChanged,
        TokensChanged,
        *HEAD_MISTAKES,
        mm.DropoutWithoutPaddingOnly,
        on=PaddedHead,
    ),
    uses=("attention_scores", "masked_softmax", "causal_and_padding", "safe_masked_softmax"),
    same_as=("MultiHeadAttentionWrapper", "MultiHeadAttention"),
    hints=(
        "Start from your `CausalSelfAttention`. Two lines change: the mask, which now may hold "
        "padding too, and the softmax, which must stand a row that sees nothing.",
        "`class PaddedCausalSelfAttention(attention.CausalSelfAttention):` keeps the constructor; "
        "only `forward(self, x, pad_mask=None)` is new. Without a pad_mask the hidden part is the "
        "future, as before.",
        "`hidden = self.hidden[:T, :T]`; if pad_mask is not None: `hidden = hidden | "
        "pad_mask[:, None, :]`. Then `safe_masked_softmax(scores, hidden)`, dropout, and @ value.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the attention is yours to build: from scores, both masks, "
    "`safe_masked_softmax` and a product.",
)

EXERCISES = (
    PADDING_MASK,
    CAUSAL_AND_PADDING,
    SAFE_MASKED_SOFTMAX,
    PADDED_CAUSAL_SELF_ATTENTION,
)
