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
from ..checking.exercise import Behaviour, Case, Exercise, Misconception, Observation
from ..checking.modules import ModuleProbe, expect_module
from ..checking.probing import FunctionProbe, expect_function, fresh
from . import lesson_04
from .drawing import Draw
from .single_head import (
    BUILT_IN,
    HEAD_BEHAVIOURS,
    INF,
    Head,
    big_numbers,
    by_hand_case,
    head_case,
    head_oracle,
    near,
    see_head,
)

LESSON = "2-single-head/05_padding_mask"


# ---------------------------------------------------------------- padding_mask


def _length_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    low, high, longest = sorted(draw.sizes(3, 2, 8))
    beyond = draw.integer(31, 47)
    many = draw.sizes(6, 1, 9)
    return [
        Case("two sequences by hand", {"lengths": [2, 3], "max_length": 4}),
        Case("a tensor of lengths", {"lengths": torch.tensor(many), "max_length": 11}),
        Case("a list of lengths", {"lengths": [high, low, high], "max_length": longest}),
        Case("a full sequence", {"lengths": [longest, low], "max_length": longest}),
        Case("a sequence without tokens", {"lengths": [low, 0], "max_length": high}),
        Case("one sequence", {"lengths": [low], "max_length": high}),
        Case("all of one length", {"lengths": torch.tensor([low] * 3), "max_length": longest + 1}),
        Case("int32", {"lengths": torch.tensor([3, 1], dtype=torch.int32), "max_length": high + 1}),
        Case("too long", {"lengths": [low, beyond], "max_length": 30}, refuses=(str(beyond), "30")),
        Case(
            "too long, as a tensor",
            {"lengths": torch.tensor([beyond, low]), "max_length": beyond - 1},
            refuses=(str(beyond), str(beyond - 1)),
        ),
        Case("negative", {"lengths": [low, -beyond], "max_length": 9}, refuses=(f"-{beyond}",)),
        Case("no integer", {"lengths": [2.5, low], "max_length": 9}, refuses=("2.5",)),
    ]


def _length_oracle(lengths: Any, max_length: int) -> Tensor:
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    rows = [[False] * n + [True] * (max_length - n) for n in counts]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(counts), max_length)


def _list_has_no_device(answer: Any, case: Case, seen: Observation) -> None:
    if not isinstance(case["lengths"], Tensor):
        seen.facts.pop("device", None)


def _counts(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if not expected:
        return None
    return bool((seen.tensors["out"].sum(1) == expected["out"].sum(1)).all())


def _some_of_each(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name not in ("a tensor of lengths", "a list of lengths"):
        return None
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _tokens_first(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if not expected:
        return None
    return bool((seen.tensors["out"].double().diff(dim=1) >= 0).all())


def _checked_lengths(lengths: Any, max_length: int) -> Tensor:
    """What a wrong answer builds on: the lengths as a tensor, refused where they must be."""
    lengths = torch.as_tensor(lengths)
    for n in lengths.tolist():
        if n != int(n) or not 0 <= n <= max_length:
            raise ValueError(f"lengths must be integers from 0 to {max_length}, got {n}")
    return lengths


def _positions(lengths: Tensor, max_length: int) -> Tensor:
    return torch.arange(max_length, device=lengths.device)


def _padding(compare: Callable[[Tensor, Tensor, int], Tensor]):
    """An answer from `compare(positions, lengths as a column, max_length)`."""

    def answer(lengths, max_length):
        lengths = _checked_lengths(lengths, max_length)
        return compare(_positions(lengths, max_length), lengths[:, None], max_length)

    return answer


def _unchecked(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    return _positions(lengths, max_length) >= lengths[:, None]


def _own_maximum(lengths, max_length):
    lengths = _checked_lengths(lengths, max_length)
    return _positions(lengths, int(lengths.max())) >= lengths[:, None]


def _upper_limit_only(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    for n in lengths.tolist():
        if n > max_length:
            raise ValueError(f"lengths must be at most {max_length}, got {n}")
    return _positions(lengths, max_length) >= lengths[:, None]


def _fractions_accepted(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    for n in lengths.tolist():
        if not 0 <= n <= max_length:
            raise ValueError(f"lengths must be from 0 to {max_length}, got {n}")
    return _positions(lengths, max_length) >= lengths[:, None]


def _zero_refused(lengths, max_length):
    for n in torch.as_tensor(lengths).tolist():
        if n < 1:
            raise ValueError(f"lengths must be from 1 to {max_length}, got {n}")
    return padding_mask(lengths, max_length)


def _full_refused(lengths, max_length):
    for n in torch.as_tensor(lengths).tolist():
        if n >= max_length:
            raise ValueError(f"lengths must be below {max_length}, got {n}")
    return padding_mask(lengths, max_length)


def _lists_only(lengths, max_length):
    if lengths and not all(isinstance(n, int) and 0 <= n <= max_length for n in lengths):
        raise ValueError(f"lengths must be integers from 0 to {max_length}, got {lengths}")
    return torch.tensor([[s >= n for s in range(max_length)] for n in lengths])


def _tensors_only(lengths, max_length):
    if bool(((lengths < 0) | (lengths > max_length)).any()):
        raise ValueError(f"lengths must be integers from 0 to {max_length}, got {lengths.tolist()}")
    return _positions(lengths, max_length) >= lengths[:, None]


def _asserted(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    assert all(0 <= n <= max_length and n == int(n) for n in lengths.tolist()), lengths.tolist()
    return _positions(lengths, max_length) >= lengths[:, None]


PADDING_MASK = Exercise(
    id="padding_mask",
    lesson=LESSON,
    call="padding_mask(lengths, max_length)",
    points=1.0,
    cases=_length_cases,
    probe=FunctionProbe(extra=_list_has_no_device),
    expect=expect_function(_length_oracle),
    reference=padding_mask,
    behaviours=(
        Behaviour("each_row", "Each sequence has a row of its own", _some_of_each, gate=True),
        Behaviour("counts", "Each row marks max_length - length places", _counts, credit=True),
        Behaviour("tokens_first", "In each row tokens come first", _tokens_first, credit=True),
    ),
    misconceptions=(
        Misconception(
            "inverted",
            _padding(lambda at, n, most: at < n),
            "The mask is the wrong way round: `True` marks the tokens.",
            "In this course `True` means hidden, so this mask would hide the text and show the "
            "padding.",
            "For a sequence of length 2, which positions should be `True`?",
        ),
        Misconception(
            "one_too_late",
            _padding(lambda at, n, most: at > n),
            "The padding begins one place too late: its first place counts as a token.",
            "One piece of padding is seen by every query.",
            "A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?",
        ),
        Misconception(
            "one_too_early",
            _padding(lambda at, n, most: at >= n - 1),
            "The padding begins one place too early: the last token is hidden.",
            "The last token is the newest one, often the one that counts most.",
            "A sequence of length n has positions 0 to n - 1. Which is the first that isn't one?",
        ),
        Misconception(
            "padding_first",
            _padding(lambda at, n, most: at < most - n),
            "The padding was put before the tokens.",
            "Some models are fed like that, but here the tokens come first and the padding after "
            "them.",
            "Which end of the row should hold the padding?",
        ),
        Misconception(
            "transposed",
            _padding(lambda at, n, most: (at >= n).T),
            "Rows and columns are swapped: the shape is `(max_length, B)`.",
            "Batch comes first everywhere in this course.",
            "Which of the two should be a column when you compare them?",
        ),
        Misconception(
            "own_maximum",
            _own_maximum,
            "The mask is as wide as the longest sequence, not `max_length` wide.",
            "A batch may be padded further than its longest sequence, and the mask has to fit it.",
            "`max_length` says how wide the mask is.",
        ),
        Misconception(
            "numbers",
            _padding(lambda at, n, most: (at >= n).long()),
            "The mask holds numbers, 0 and 1, instead of booleans.",
            "`masked_fill` refuses it, and as an index it picks rows 0 and 1.",
            "A comparison gives booleans by itself.",
        ),
        Misconception(
            "additive",
            _padding(lambda at, n, most: (at >= n).float().masked_fill(at >= n, -INF)),
            "The mask holds 0 and -inf, to be added to scores.",
            "Such masks exist, but the masks of this course are booleans.",
            "Stop at the comparison.",
        ),
        Misconception(
            "not_checked",
            _unchecked,
            "Lengths that make no sense are accepted.",
            "A length beyond `max_length` means that tokens were cut off somewhere before, and "
            "nobody would notice.",
            "Look at each length first; raise a ValueError that names it and the limit.",
        ),
        Misconception(
            "negative_accepted",
            _upper_limit_only,
            "Negative lengths are accepted.",
            "A negative length is always a mistake made earlier, and here it looks like an empty "
            "sequence.",
            "The lengths have a lower limit too.",
        ),
        Misconception(
            "fractions_accepted",
            _fractions_accepted,
            "A length of 2.5 is accepted.",
            "Half a token doesn't exist: somebody divided where they shouldn't have.",
            "What tells an integer from another number?",
        ),
        Misconception(
            "empty_refused",
            _zero_refused,
            "A sequence of length 0 was refused.",
            "An empty sequence is allowed: its row is all padding.",
            "From which length on should it be accepted?",
        ),
        Misconception(
            "full_refused",
            _full_refused,
            "A sequence of exactly max_length tokens was refused.",
            "The longest sequence of a batch has no padding at all, and it is welcome.",
            'Which of `>` and `>=` says "more than"?',
        ),
        Misconception(
            "lists_only",
            _lists_only,
            "It works for lists and fails for tensors.",
            "Lengths often come as a tensor, with the rest of a batch.",
            "`torch.as_tensor` makes a tensor of a list and leaves a tensor as it is.",
        ),
        Misconception(
            "tensors_only",
            _tensors_only,
            "It works for tensors and fails for lists.",
            "Whoever counts tokens in Python has a list.",
            "`torch.as_tensor` makes a tensor of a list and leaves a tensor as it is.",
        ),
        Misconception(
            "asserted",
            _asserted,
            "Wrong lengths are caught by an `assert`.",
            "Python leaves out all asserts when it runs with `-O`, and an AssertionError doesn't "
            "say that a *value* was wrong.",
            "`raise ValueError(…)` with the length and the limit in its message.",
        ),
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


def _holes(draw: Draw, *shape: int) -> Tensor:
    """Padding anywhere; the oracle for masks has no need of a sensible pattern."""
    return torch.rand(shape, generator=draw.generator) < 0.4


def _right_padding(lengths: list[int], T: int) -> Tensor:
    return torch.arange(T) >= torch.tensor(lengths)[:, None]


def _left_padding(lengths: list[int], T: int) -> Tensor:
    return _right_padding(lengths, T).flip(1)


def _mask_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T = draw.sizes(2, 3, 8)
    n = draw.integer(4, 6)
    return [
        Case("two of three by hand", {"pad_mask": _right_padding([2, 3], 3)}),
        Case("padding behind", {"pad_mask": _right_padding(draw.sizes(3, 1, T + 1), T + 2)}),
        Case("padding in front", {"pad_mask": _left_padding(draw.sizes(3, 1, T + 1), T + 2)}),
        Case("padding anywhere", {"pad_mask": _holes(draw, B, T + 5)}),
        Case("as many sequences as tokens", {"pad_mask": _holes(draw, n, n)}),
        Case("no padding", {"pad_mask": torch.zeros(B, T, dtype=torch.bool)}),
        Case("nothing but padding", {"pad_mask": torch.ones(2, T, dtype=torch.bool)}),
        Case("one token", {"pad_mask": torch.tensor([[False], [True], [False]])}),
        Case("one sequence", {"pad_mask": _holes(draw, 1, T + 3)}),
        Case("not contiguous in memory", {"pad_mask": _holes(draw, T + 1, B).T}),
        Case("many tokens", {"pad_mask": _holes(draw, 2, 36)}),
    ]


def _mask_oracle(pad_mask: Tensor) -> Tensor:
    B, T = pad_mask.shape
    rows = [[[s > t or bool(pad_mask[b, s]) for s in range(T)] for t in range(T)] for b in range(B)]
    return torch.tensor(rows)


def _future(pad_mask: Tensor, diagonal: int = 1) -> Tensor:
    T = pad_mask.shape[-1]
    return torch.ones(T, T, dtype=torch.bool, device=pad_mask.device).triu(diagonal)


def _hides_future(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "no padding":
        return None
    return torch.equal(seen.tensors["out"].bool(), expected["out"])


def _hides_columns(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    hidden = seen.tensors["out"].bool().all(dim=-2)
    return bool(hidden[case["pad_mask"]].all())


def _follows_mask(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "padding anywhere":
        return None
    rows = seen.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


def _keeps_own(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    own = ~seen.tensors["out"].bool().diagonal(dim1=-2, dim2=-1)
    return bool(own[~case["pad_mask"]].all())


def _combined_in_place(pad_mask):
    hidden = _future(pad_mask) | pad_mask[:, None, :]
    pad_mask |= hidden.any(1)
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
    behaviours=(
        Behaviour("follows", "Each sequence has a mask of its own", _follows_mask, gate=True),
        Behaviour("future", "Without padding, the future alone is hidden", _hides_future, True),
        Behaviour("columns", "A padded key is hidden from every query", _hides_columns, True),
        Behaviour("own", "A real token sees itself", _keeps_own, credit=True),
    ),
    misconceptions=(
        Misconception(
            "rows_hidden",
            lambda pad_mask: _future(pad_mask) | pad_mask[:, :, None],
            "You hid the *rows* of padded tokens instead of their columns.",
            "Real tokens still see the padding, and the padded queries see nothing at all.",
            "A row is a token that looks, a column one that is looked at. Which should padding not "
            "be?",
        ),
        Misconception(
            "rows_and_columns",
            lambda pad_mask: _future(pad_mask) | pad_mask[:, :, None] | pad_mask[:, None, :],
            "You hid the rows of padded tokens as well as their columns.",
            "Rows that see nothing need special care later, and what a padded query computes is "
            "thrown away anyway.",
            "Only columns have to go.",
        ),
        Misconception(
            "both_needed",
            lambda pad_mask: _future(pad_mask) & pad_mask[:, None, :],
            "Only what is future *and* padding is hidden.",
            "Real tokens of the future stay visible, and so does padding in the past.",
            "One reason is enough to hide a key.",
        ),
        Misconception(
            "either_not_both",
            lambda pad_mask: _future(pad_mask) ^ pad_mask[:, None, :],
            'Padding in the future is visible: `^` is "one of the two, not both".',
            "Most padding lies in the future of every token.",
            "One reason is enough to hide a key, and two are as good.",
        ),
        Misconception(
            "future_only",
            lambda pad_mask: _future(pad_mask).expand(len(pad_mask), -1, -1),
            "Only the future is hidden; the padding is not.",
            "With padding behind the tokens it hardly shows, and with padding in front every token "
            "sees it.",
            "Where does `pad_mask` come in?",
        ),
        Misconception(
            "padding_only",
            lambda pad_mask: pad_mask[:, None, :].expand(-1, pad_mask.shape[1], -1),
            "Only the padding is hidden; the future is not.",
            "A model that predicts the next token would see it.",
            "The triangular mask of lesson 03 belongs in here too.",
        ),
        Misconception(
            "padding_inverted",
            lambda pad_mask: _future(pad_mask) | ~pad_mask[:, None, :],
            "The padding mask was turned round: the tokens are hidden, and the padding is seen.",
            "`True` means hidden here, in both masks.",
            "Use `pad_mask` as it comes.",
        ),
        Misconception(
            "visible_instead",
            lambda pad_mask: ~(_future(pad_mask) | pad_mask[:, None, :]),
            "`True` marks what may be seen. That is the convention of PyTorch's "
            "`scaled_dot_product_attention`, and the opposite of ours.",
            "Used as `hidden`, it would show exactly what it should hide.",
            "One `~` too many, or one too few.",
        ),
        Misconception(
            "past_hidden",
            lambda pad_mask: _future(pad_mask).T | pad_mask[:, None, :],
            "The past is hidden instead of the future.",
            "Each token would see itself and what comes after it.",
            "`tril` is the lower triangle, `triu` the upper. Which one is the future?",
        ),
        Misconception(
            "diagonal_hidden",
            lambda pad_mask: _future(pad_mask, 0) | pad_mask[:, None, :],
            "The diagonal is hidden too: no token sees itself.",
            "Token 0 then sees nothing, with or without padding.",
            "Which is the first diagonal that belongs to the future?",
        ),
        Misconception(
            "one_too_many",
            lambda pad_mask: _future(pad_mask, 2) | pad_mask[:, None, :],
            "Each token also sees the one after it.",
            "That one token is exactly the one a language model has to predict.",
            "Which is the first diagonal that belongs to the future?",
        ),
        Misconception(
            "diagonal_kept",
            lambda pad_mask: (
                (_future(pad_mask) | pad_mask[:, None, :])
                & ~torch.eye(pad_mask.shape[1], dtype=torch.bool, device=pad_mask.device)
            ),
            "The diagonal is always visible, so padding sees itself.",
            "It avoids rows that see nothing, but it also gives padding a result that depends on "
            "what stands there.",
            "Leave empty rows empty: the softmax will take care of them.",
        ),
        Misconception(
            "lined_up_from_the_right",
            lambda pad_mask: _future(pad_mask) | pad_mask,
            "`(T, T) | (B, T)` lines the sequences up with the rows of the triangle.",
            "With as many sequences as tokens there is no error, only a wrong mask; else there is "
            "one.",
            "The batch needs a dimension of its own, and the rows one of size 1.",
        ),
        Misconception(
            "four_dimensions",
            lambda pad_mask: _future(pad_mask) | pad_mask[:, None, None, :],
            "There is a dimension of size 1 for heads in the mask: its shape is `(B, 1, T, T)`.",
            "One head has scores of shape `(B, T, T)`, and a mask must not make them larger.",
            "How many `None`s does it take from `(B, T)` to `(B, 1, T)`?",
        ),
        Misconception(
            "numbers",
            lambda pad_mask: (_future(pad_mask) | pad_mask[:, None, :]).long(),
            "The mask holds numbers, 0 and 1, instead of booleans.",
            "`masked_fill` refuses it.",
            "`|` of two bool tensors is bool by itself.",
        ),
        Misconception(
            "additive",
            lambda pad_mask: torch.zeros(()).masked_fill(
                _future(pad_mask) | pad_mask[:, None, :], -INF
            ),
            "The mask holds 0 and -inf, to be added to scores.",
            "Such masks exist, but the masks of this course are booleans.",
            "Stop before you fill anything in.",
        ),
        Misconception(
            "changes_its_input",
            _combined_in_place,
            "The result is right, but `pad_mask` was changed in place.",
            "The next head or layer gets the same `pad_mask`, and now it hides real tokens.",
            "`a |= b` writes into `a`; `a | b` makes a new tensor.",
        ),
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
    B, H, T, S = draw.sizes(4, 3, 7)
    double = torch.float64
    one_empty = draw.hidden(T, S)
    one_empty[1] = True
    columns = draw.hidden(B, 1, S)
    columns[0] = True
    shared = draw.hidden(T, S)
    shared[-1] = True
    some = draw.hidden(S, T)
    some[0] = True
    loud = draw.normal(S, T).masked_fill(some, 10_000.0)
    quiet = draw.hidden(H, S)
    faint = draw.normal(H, S).masked_fill(~quiet, -1e32)
    left = _left_padding([1, 3], 4)
    hidden = _mask_oracle(left)
    by_hand = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    hides = torch.tensor([[False, False, True], [True, True, True]])
    return [
        Case("the second row sees nothing", {"scores": by_hand, "hidden": hides}),
        Case("a random mask", {"scores": draw.normal(T, S), "hidden": draw.hidden(T, S)}),
        Case("one empty row", {"scores": draw.normal(T, S), "hidden": one_empty}),
        Case("nothing hidden", {"scores": draw.normal(S, T), "hidden": one_empty.T & False}),
        Case("all hidden", {"scores": draw.normal(H, T), "hidden": torch.ones(H, T) > 0}),
        Case("padding in front", {"scores": draw.normal(2, 4, 4), "hidden": hidden}),
        Case("a mask of columns", {"scores": draw.normal(B, T, S), "hidden": columns}),
        Case("one mask for batch and heads", {"scores": draw.normal(B, H, T, S), "hidden": shared}),
        Case(
            "columns, for all heads",
            {"scores": draw.normal(B, H, T, S), "hidden": columns[:, None]},
        ),
        Case(
            "a mask for each sequence, for all heads",
            {"scores": draw.normal(2, H, 4, 4), "hidden": hidden[:, None]},
        ),
        Case("one mask for all rows", {"scores": draw.normal(T, S), "hidden": columns[1, 0]}),
        Case("one key", {"scores": draw.normal(H, T, 1), "hidden": torch.arange(T)[:, None] > 1}),
        Case("not contiguous in memory", {"scores": draw.normal(S, T).T, "hidden": one_empty}),
        Case("float64", {"scores": draw.normal(T, S, dtype=double), "hidden": one_empty}),
        Case("hidden scores of 10,000", {"scores": loud, "hidden": some}),
        Case("hidden scores of 3e38", {"scores": loud.masked_fill(some, 3e38), "hidden": some}),
        Case("visible scores of -1e32", {"scores": faint, "hidden": quiet}),
    ]


def _safe_oracle(scores: Tensor, hidden: Tensor) -> Tensor:
    # The built-in attention gives its weights when keys and values are the identity, and zeros for
    # a row that sees nothing.
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype).expand(*scores.shape[:-2], -1, -1)
    visible = ~hidden.expand_as(scores)
    return F.scaled_dot_product_attention(scores, eye, eye, attn_mask=visible, scale=1.0)


def _empty_rows(case: Case) -> Tensor:
    return case["hidden"].expand_as(case["scores"]).all(-1)


def _empty_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    empty = _empty_rows(case)
    return bool((seen.tensors["out"][empty] == 0).all()) if bool(empty.any()) else None


def _hidden_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    hidden = case["hidden"].expand_as(case["scores"]) & ~_empty_rows(case)[..., None]
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


def _full_rows(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    sums = seen.tensors["out"].double().sum(-1)[~_empty_rows(case)]
    return bool(((sums - 1).abs() < 1e-4).all()) if sums.numel() else None


def _scores_matter(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "nothing hidden":
        return None
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


def _gradient_is_finite(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "grad:scores" not in seen.tensors:
        return None
    return bool(seen.tensors["grad:scores"].isfinite().all())


def _fill(scores: Tensor, hidden: Tensor, value: float = -INF) -> Tensor:
    return torch.softmax(scores.masked_fill(hidden, value), dim=-1)


def _safe(scores: Tensor, hidden: Tensor, dim: int = -1) -> Tensor:
    empty = hidden.expand_as(scores).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(hidden, -INF).masked_fill(empty, 0.0), dim=dim)
    return weights.masked_fill(empty, 0.0)


def _bias(scores: Tensor, hidden: Tensor) -> Tensor:
    return torch.zeros_like(scores).masked_fill(hidden, -INF)


def _additive_nan_to_num(scores, hidden):
    return torch.softmax(scores + _bias(scores, hidden), dim=-1).nan_to_num()


def _unmasked_when_empty(scores, hidden):
    empty = hidden.expand_as(scores).all(dim=-1, keepdim=True)
    return _fill(scores, hidden & ~empty)


def _any_for_all(scores, hidden):
    some = hidden.expand_as(scores).any(dim=-1, keepdim=True)
    return _fill(scores.masked_fill(some, 0.0), hidden & ~some).masked_fill(some, 0.0)


def _empty_columns(scores, hidden):
    empty = hidden.expand_as(scores).all(dim=-2, keepdim=True)
    return _fill(scores, hidden & ~empty).masked_fill(empty, 0.0)


def _after_softmax(scores, hidden):
    return torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)


def _after_and_divided(scores, hidden):
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def _whole_result_zero(scores, hidden):
    weights = _fill(scores, hidden)
    return torch.zeros_like(weights) if bool(weights.isnan().any()) else weights


def _rows_removed(scores, hidden):
    empty = hidden.expand_as(scores).all(dim=-1)
    return _safe(scores, hidden)[~empty]


def _one_key_kept(scores, hidden):
    empty = hidden.expand_as(scores).all(dim=-1, keepdim=True)
    first = torch.zeros_like(scores, dtype=torch.bool)
    first[..., 0] = True
    return _fill(scores, hidden & ~(empty & first))


def _written_in_place(scores, hidden):
    with torch.no_grad():
        scores.masked_fill_(hidden, -INF)
    return _safe(scores, hidden)


SAFE_MASKED_SOFTMAX = Exercise(
    id="safe_masked_softmax",
    lesson=LESSON,
    call="safe_masked_softmax(scores, hidden)",
    points=2.0,
    cases=_safe_cases,
    probe=FunctionProbe(gradients=("scores",), watch=True),
    expect=expect_function(_safe_oracle, gradients=("scores",)),
    reference=safe_masked_softmax,
    behaviours=(
        Behaviour("matter", "A bigger score gets a bigger weight", _scores_matter, gate=True),
        Behaviour("empty", "A row that sees nothing gets zeros", _empty_zero, credit=True),
        Behaviour("zero", "Hidden keys get weight exactly 0", _hidden_zero, credit=True),
        Behaviour("rows", "All other rows sum to 1", _full_rows, credit=True),
        Behaviour(
            "finite_gradient",
            "No gradient is NaN",
            _gradient_is_finite,
            breaks="A NaN comes back as the gradient of the scores",
        ),
    ),
    misconceptions=(
        Misconception(
            "nan_rows",
            _fill,
            "A row that sees nothing is NaN: the softmax of nothing but -inf is 0/0.",
            "NaN times anything is NaN, so one such row spreads through the model and its "
            "gradients.",
            "Find the rows that see nothing. What could stand in them so that the softmax is fine?",
        ),
        Misconception(
            "nan_in_gradient",
            _additive_nan_to_num,
            "The result is right: `nan_to_num` cleaned it. But the NaN was there, and it comes "
            "back as the gradient of the scores.",
            "After one training step the weights are NaN, and the loss gave no warning.",
            "Don't let the NaN arise: give empty rows harmless scores before the softmax.",
        ),
        Misconception(
            "uniform_on_hidden",
            lambda scores, hidden: _fill(scores, hidden, -1e9),
            "Hidden scores were set to -1e9: a row that sees nothing gets equal weights on all "
            "that it should not see.",
            "There is no NaN to warn you, and padding and future leak into the result.",
            "Which weights should a row have that sees nothing?",
        ),
        Misconception(
            "equal_weights_left",
            lambda scores, hidden: _fill(scores, hidden, torch.finfo(scores.dtype).min),
            "A row that sees nothing got equal weights on everything: the softmax of equal scores, "
            "however small, is the mean.",
            "There is no NaN to warn you, and padding and future leak into the result.",
            "Such rows have to be cleared once more after the softmax.",
        ),
        Misconception(
            "finite_fill_then_zeros",
            lambda scores, hidden: _fill(scores, hidden, -1e9).masked_fill(hidden, 0.0),
            "You filled with -1e9 and cleared hidden weights afterwards. Visible scores below that "
            "lose against hidden ones, and their weights are gone.",
            "It holds for the scores of today, not for whatever finite value a score has.",
            "Only one value is below every finite score.",
        ),
        Misconception(
            "mask_dropped_when_empty",
            _unmasked_when_empty,
            "A row that sees nothing got the softmax of its scores as if nothing were hidden.",
            "The mask is ignored exactly where it hides everything.",
            "Its weights should all be 0.",
        ),
        Misconception(
            "one_key_kept",
            _one_key_kept,
            "A row that sees nothing was given the first key to look at.",
            "Under left padding the first key *is* padding.",
            "Its weights should all be 0.",
        ),
        Misconception(
            "any_for_all",
            _any_for_all,
            "Every row with *some* hidden key became zeros.",
            "Under a causal mask that is every row but the last.",
            "A row is empty when *all* of its keys are hidden.",
        ),
        Misconception(
            "empty_columns",
            _empty_columns,
            "You looked for columns that nobody sees instead of rows that see nothing.",
            "The row of nothing but -inf is still there, and it is still NaN.",
            "The keys are the last dimension. Over which one must *all* be hidden?",
        ),
        Misconception(
            "mask_after_softmax",
            _after_softmax,
            "The mask was applied after the softmax: rows no longer sum to 1.",
            "What the hidden keys scored still takes its share of the row.",
            "Hide before the softmax; rows that see nothing are the only special case.",
        ),
        Misconception(
            "divided_afterwards",
            _after_and_divided,
            "You masked after the softmax and divided by the new sums. A big hidden score rounds "
            "the visible weights to 0 before you divide.",
            "What a hidden score holds should change nothing, whatever it is.",
            "Hide before the softmax.",
        ),
        Misconception(
            "everything_zero",
            _whole_result_zero,
            "As soon as one row is NaN, the whole result became zeros.",
            "One empty row in a batch would silence all others.",
            "Treat the empty rows, and leave the others as they are.",
        ),
        Misconception(
            "rows_removed",
            _rows_removed,
            "Rows that see nothing were left out, so the shape is another.",
            "Row t of the weights belongs to query t; without a row the queries no longer match.",
            "Keep the row and fill it with zeros.",
        ),
        Misconception(
            "over_queries",
            lambda scores, hidden: _safe(scores, hidden, dim=-2).nan_to_num(),
            "The softmax runs over the queries: columns sum to 1, not rows.",
            "Each query should spread one unit of attention over its keys.",
            "In `(…, T, S)` the keys are the last dimension.",
        ),
        Misconception(
            "inverted",
            lambda scores, hidden: _safe(scores, ~hidden),
            "The mask is the wrong way round: only hidden keys have a weight.",
            "In this course `True` means hidden.",
            "Fill where the mask is `True`.",
        ),
        Misconception(
            "changes_its_input",
            _written_in_place,
            "The result is right, but -inf was written into the caller's scores.",
            "`masked_fill_` with an underscore works in place.",
            "Leave the underscore out and use what the call returns.",
        ),
        Misconception(
            "float32_result",
            lambda scores, hidden: _safe(scores.float(), hidden),
            "The result is float32 whatever the scores are.",
            "Whoever computes in float64 loses half of the digits here without a word.",
            "`masked_fill` and the softmax keep the dtype by themselves.",
        ),
    ),
    hints=(
        "The trouble is a row of nothing but -inf. Find such rows from the mask: all of their keys "
        "are hidden.",
        "`hidden.all(dim=-1, keepdim=True)` marks them, in the shape `(…, T, 1)`. Give them equal "
        "scores before the softmax, so that no NaN arises, and clear their weights after it.",
        "`scores.masked_fill(hidden, -inf).masked_fill(empty, 0.0)`, softmax over the last "
        "dimension, then `.masked_fill(empty, 0.0)` once more.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the softmax under a mask is yours to build: `torch.softmax` is welcome, "
    "the built-in attention is not.",
)


# ---------------------------------------------------------------- PaddedCausalSelfAttention


def _padded_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, d_in, d_out = draw.sizes(4, 3, 7)
    longest = draw.integer(9, 12)
    too_long = draw.integer(14, 17)
    double = torch.float64
    lengths = draw.sizes(4, 1, 6)
    some = _holes(draw, 3, 5)
    some[1] = True

    def case(name: str, x: Tensor, d_out: int, context_length: int, pad: Any = None, **kw: Any):
        return head_case(draw, name, x, d_out, context_length, pad_mask=pad, **kw)

    return [
        by_hand_case(torch.tensor([[False, False, True]])),
        case(
            "unequal lengths", draw.normal(4, 6, d_in), d_out, longest, _right_padding(lengths, 6)
        ),
        case("padding in front", draw.normal(4, 6, d_out), d_in, 7, _left_padding(lengths, 6)),
        case("padding anywhere", draw.normal(3, 5, T), B, longest, some),
        case("float64", draw.normal(2, 4, T, dtype=double), B, longest, some[:2, :4]),
        case(
            "biases, padding in front",
            draw.normal(2, T, 4),
            d_out,
            T,
            _left_padding([2, T - 1], T),
            qkv_bias=True,
        ),
        big_numbers(draw, _left_padding([2, 4], 5)),
        case("no mask", draw.normal(B, T, d_in), d_out, longest),
        case("a mask without padding", draw.normal(B, T, d_in), d_out, T, torch.zeros(B, T) > 0),
        case("many tokens", draw.normal(2, 36, 3), 4, 40, _left_padding([20, 36], 36)),
        case("one token", draw.normal(7, 1, 3), 2, 5, torch.arange(7)[:, None] % 2 == 1),
        case("dropout", draw.normal(3, 5, 4), 2, 6, some, dropout=0.5),
        case(
            "one token too many",
            draw.normal(2, too_long, 3),
            4,
            too_long - 1,
            refuses=(str(too_long), str(too_long - 1)),
        ),
        case(
            "one token too many, padded",
            draw.normal(2, too_long, 3),
            4,
            too_long - 1,
            _right_padding([5, 3], too_long),
            refuses=(str(too_long), str(too_long - 1)),
        ),
    ]


def _see_padded(make: Callable[[], Any], case: Case, seen: Observation) -> None:
    """Beside what every head shows: the mask by name and left out, other padding, each sequence
    alone."""
    see_head(make, case, seen)
    if "pad_mask" not in case.inputs or case.refuses is not None:
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
    if case.name == "unequal lengths":
        module = make()
        alone = [module(fresh(s[None, ~pad])) for s, pad in zip(x, pad_mask, strict=True)]
        if all(isinstance(a, Tensor) and a.dim() == 3 for a in alone):
            seen.put("alone", torch.cat([a[0] for a in alone]))


def _alone(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "unequal lengths":
        return None
    return near(seen.tensors["out"][~case["pad_mask"]], seen.tensors["alone"])


def _other_padding(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "pad_mask" not in case.inputs:
        return None
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["other padding"][real])


def _sees_nothing(case: Case) -> Tensor | None:
    if "pad_mask" not in case.inputs:
        return None
    return (~case["pad_mask"]).cumsum(1) == 0


def _nothing_is_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    empty = _sees_nothing(case)
    if empty is None or not bool(empty.any()):
        return None
    return bool((seen.tensors["out"][empty] == 0).all())


def _padded_rows(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    empty = _sees_nothing(case)
    if empty is None or case.name == "big numbers":
        return None
    rows = case["pad_mask"] & ~empty
    if not bool(rows.any()):
        return None
    return near(seen.tensors["out"][rows], expected["out"][rows])


def _each_call(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "pad_mask" not in case.inputs:
        return None
    t = seen.tensors
    return near(t["mask left out"], t["no mask"]) and near(t["after another mask"], t["out"])


def _by_name(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "pad_mask" not in case.inputs:
        return None
    return near(seen.tensors["by name"], seen.tensors["out"])


class PaddedHead(Head):
    """A right head for padded batches."""

    def weights(self, scores, hidden):
        return _safe(scores, hidden)


class MaskIgnored(PaddedHead):
    def with_padding(self, future, pad_mask):
        return future


class RowsHidden(PaddedHead):
    def with_padding(self, future, pad_mask):
        return future | pad_mask[:, :, None]


class PaddingInverted(PaddedHead):
    def with_padding(self, future, pad_mask):
        return future | ~pad_mask[:, None, :]


class PaddingOnly(PaddedHead):
    def with_padding(self, future, pad_mask):
        return pad_mask[:, None, :].expand(-1, pad_mask.shape[1], -1)


class BothNeeded(PaddedHead):
    def with_padding(self, future, pad_mask):
        return future & pad_mask[:, None, :]


class FirstSequencesMask(PaddedHead):
    def with_padding(self, future, pad_mask):
        return future | pad_mask[0]


class DiagonalKept(PaddedHead):
    def with_padding(self, future, pad_mask):
        own = torch.eye(len(future), dtype=torch.bool, device=future.device)
        return (future | pad_mask[:, None, :]) & ~own


class EmptyRowsNaN(Head):
    pass


class NanToNum(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores + _bias(scores, hidden), dim=-1).nan_to_num()


class FiniteFill(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)


class EmptyRowsUnmasked(Head):
    def weights(self, scores, hidden):
        return _unmasked_when_empty(scores, hidden)


class PaddingAfterSoftmax(PaddedHead):
    def forward(self, x, pad_mask=None):
        x = self.checked(x)
        query, key, value = self.project(x)
        weights = _safe(self.scores(query, key), self.future(x))
        if pad_mask is not None:
            weights = weights.masked_fill(pad_mask[:, None, :], 0.0)
        return self.dropout(weights) @ value


class PaddedRowsCleared(PaddedHead):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        return out if pad_mask is None else out.masked_fill(pad_mask[:, :, None], 0.0)


class TokensCleared(PaddedHead):
    def forward(self, x, pad_mask=None):
        if pad_mask is not None:
            x = x.masked_fill(pad_mask[:, :, None], 0.0)
        return super().forward(x)


class MaskRequired(PaddedHead):
    def forward(self, x, pad_mask):  # type: ignore[override]
        return super().forward(x, pad_mask)


class MaskChanged(PaddedHead):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        if pad_mask is not None:
            pad_mask.logical_not_()
        return out


class TokensChanged(PaddedHead):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        if pad_mask is not None:
            with torch.no_grad():
                x.masked_fill_(pad_mask[:, :, None], 0.0)
        return out


def _padded(mistake: type[Head]) -> type[Head]:
    """The mistake of lesson 04 in a head that treats padding well."""
    return type(mistake.__name__, (mistake, PaddedHead), {})


# Mistakes of lesson 04 that a head for padded batches can make as well.
_AGAIN = (
    "no_mask",
    "mask_too_late",
    "not_scaled",
    "scaled_by_input_width",
    "root_missing",
    "query_and_key_swapped",
    "keys_from_queries",
    "values_from_keys",
    "bias_always",
    "bias_never",
    "mask_is_learned",
    "mask_stays_behind",
    "mask_not_cut",
    "long_text_accepted",
    "full_length_refused",
    "dropout_on_scores",
    "dropout_on_result",
    "no_dropout",
    "dropout_in_evaluation",
    "dropout_of_fixed_size",
)


def _again() -> tuple[Misconception, ...]:
    by_id = {m.id: m for m in lesson_04.HEAD_MISCONCEPTIONS}
    chosen = [by_id[id] for id in _AGAIN]
    return tuple(Misconception(m.id, _padded(m.answer), m.what, m.why, m.mend) for m in chosen)


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
    behaviours=(
        Behaviour("alone", "A padded sequence gives what it gives alone", _alone, credit=True),
        Behaviour(
            "other_padding", "What stands in the padding changes no token", _other_padding, True
        ),
        Behaviour("nothing", "A query that sees nothing gives zeros", _nothing_is_zero, True),
        Behaviour(
            "padded_rows", "A padded query gives what it sees among earlier tokens", _padded_rows
        ),
        Behaviour("each_call", "Each call has its own mask, or none", _each_call),
        Behaviour("by_name", "`forward(x, pad_mask=…)` is the same call", _by_name),
        *HEAD_BEHAVIOURS,
    ),
    misconceptions=(
        Misconception(
            "pad_mask_ignored",
            MaskIgnored,
            "`pad_mask` has no effect.",
            "Padding is heard like any other token, so a sequence changes with the batch it is in.",
            "Where does `pad_mask` meet the causal mask?",
        ),
        Misconception(
            "rows_hidden",
            RowsHidden,
            "You hid the *rows* of padded tokens instead of their columns.",
            "Real tokens still see the padding, and the padded queries see nothing.",
            "A row is a token that looks, a column one that is looked at. Which should padding not "
            "be?",
        ),
        Misconception(
            "padding_inverted",
            PaddingInverted,
            "The padding mask is the wrong way round: the text is hidden, and the padding is seen.",
            "In this course `True` means hidden, in both masks.",
            "Use `pad_mask` as it comes.",
        ),
        Misconception(
            "padding_only",
            PaddingOnly,
            "With a `pad_mask`, the future is no longer hidden.",
            "A model that predicts the next token would see it as soon as its batch is padded.",
            "Both masks hold at once: hidden is the future *or* padding.",
        ),
        Misconception(
            "both_needed",
            BothNeeded,
            "Only what is future *and* padding is hidden.",
            "Real tokens of the future stay visible, and so does padding in the past.",
            "One reason is enough to hide a key.",
        ),
        Misconception(
            "first_sequences_mask",
            FirstSequencesMask,
            "Every sequence got the padding mask of sequence 0.",
            "Sequences of a batch have different lengths; that is why there is a mask.",
            "`pad_mask` is `(B, S)`. Which dimension is missing between sequences and keys?",
        ),
        Misconception(
            "diagonal_kept",
            DiagonalKept,
            "Padding is allowed to see itself.",
            "It avoids rows that see nothing, but what stands in the padding comes out at the "
            "other end.",
            "Let such rows be empty, and let `safe_masked_softmax` make zeros of them.",
        ),
        Misconception(
            "nan_rows",
            EmptyRowsNaN,
            "Queries that see nothing give NaN: the softmax of nothing but -inf is 0/0.",
            "One NaN spreads to the whole batch as soon as anything is averaged, and to every "
            "gradient.",
            "You wrote a softmax for that in this lesson.",
        ),
        Misconception(
            "nan_in_gradient",
            NanToNum,
            "The result is right: `nan_to_num` cleaned it. But the NaN was there, and the "
            "gradients are NaN.",
            "After one training step the weights are NaN, and the loss gave no warning.",
            "Don't let the NaN arise. You wrote a softmax for that in this lesson.",
        ),
        Misconception(
            "uniform_on_padding",
            FiniteFill,
            "A query that sees nothing hears padding and future in equal parts: the softmax of "
            "equal scores, such as -1e9 everywhere, is the mean.",
            "There is no NaN to warn you.",
            "Such a query should give zeros. You wrote a softmax for that in this lesson.",
        ),
        Misconception(
            "mask_dropped_when_empty",
            EmptyRowsUnmasked,
            "For a query that sees nothing the mask was dropped, and it sees everything.",
            "The mask is ignored exactly where it hides everything.",
            "Its weights should all be 0.",
        ),
        Misconception(
            "padding_after_softmax",
            PaddingAfterSoftmax,
            "Padding kept its share of each row: it was hidden after the softmax, or only its "
            "values were cleared.",
            "The weights of real tokens no longer sum to 1, so a token fades the more padding "
            "there is.",
            "Join both masks first, and hide once, before the softmax.",
        ),
        Misconception(
            "padded_rows_cleared",
            PaddedRowsCleared,
            "The results of padded queries are 0: their rows were hidden as well, or cleared "
            "afterwards.",
            "A padded query may see real tokens before it, and is computed like any other; whoever "
            "uses the result leaves those rows out.",
            "Only columns have to go, and only queries that see nothing give zeros.",
        ),
        Misconception(
            "tokens_cleared",
            TokensCleared,
            "Padded tokens were set to 0 before the projections; they are not hidden.",
            "A key of zeros scores 0, and e⁰ = 1 is a weight like any other.",
            "Hide their scores instead.",
        ),
        Misconception(
            "mask_required",
            MaskRequired,
            "`forward` can't be called without a `pad_mask`.",
            "Most of the time there is no padding, as when text is generated.",
            'Give it the default None, and treat None as "nothing is padding".',
        ),
        Misconception(
            "mask_changed",
            MaskChanged,
            "The result is right, but `pad_mask` was changed in place.",
            "The next layer gets the same mask, and now it hides something else.",
            "Methods that end in an underscore work in place.",
        ),
        Misconception(
            "tokens_changed",
            TokensChanged,
            "The result is right, but the padded tokens of `x` were overwritten.",
            "Whoever called the module still needs them.",
            "Methods that end in an underscore work in place.",
        ),
        *_again(),
    ),
    uses=("attention_scores", "masked_softmax", "causal_and_padding", "safe_masked_softmax"),
    hints=(
        "Start from your `CausalSelfAttention`. Two lines change: the mask, which now may hold "
        "padding too, and the softmax, which must stand a row that sees nothing.",
        "`class PaddedCausalSelfAttention(CausalSelfAttention):` keeps the constructor; only "
        "`forward(self, x, pad_mask=None)` is new. Without a pad_mask the hidden part is the "
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
