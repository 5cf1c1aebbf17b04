"""Lesson 03: the mean as the softmax of zeros under a mask."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..attention import causal_mask, masked_softmax, softmax, softmax_mean
from ..checking.exercise import Behaviour, Case, Exercise, Misconception, Observation
from ..checking.probing import FunctionProbe, expect_function, fresh
from .averages import MEAN_BEHAVIOURS, expect_mean, mean_cases, on_finite, see_changes
from .drawing import Draw

LESSON = "1-averages/03_softmax_masking"
INF = math.inf


# ---------------------------------------------------------------- softmax


def _softmax_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    a, b, c = draw.sizes(3, 2, 6)
    middle = draw.normal(a, b, c)
    with_inf = draw.normal(b + 1, c + 2)
    with_inf[0, 1] = with_inf[-1, 0] = -INF
    huge = draw.normal(a + 1, b) * 3 + 10_000
    tiny = draw.normal(a + 1, b) * 3 - 10_000
    mixed = torch.cat([draw.normal(2, c) + 9_000, draw.normal(3, c) - 9_000])
    wide = torch.tensor([[10_000.0, -10_000.0, 0.0], [1.0, 2.0, 3.0]])
    lowest = torch.tensor([[-10_000.0, -INF, -10_000.0], [-INF, -9_999.0, -9_998.0]])
    return [
        Case("three scores by hand", {"scores": torch.tensor([[0.0, 1.0, 2.0]])}),
        Case("random scores", {"scores": draw.normal(b, c + 1)}),
        Case("three dimensions", {"scores": middle}),
        Case("along dimension 0", {"scores": middle, "dim": 0}),
        Case("dim by its name", {"scores": middle, "dim": 1}, options={"keywords": ("dim",)}),
        Case("four dimensions", {"scores": draw.normal(a, 1, b, c), "dim": 2}),
        Case("a dimension of size 1", {"scores": draw.normal(a, 1, c), "dim": 1}),
        Case("a long row", {"scores": draw.normal(2, 90 + c)}),
        Case("not contiguous in memory", {"scores": draw.normal(c, a).T}),
        Case("float64", {"scores": draw.normal(c, a, dtype=torch.float64), "dim": -2}),
        Case("one dimension", {"scores": draw.normal(b + c)}),
        Case("scores near 10,000", {"scores": huge}),
        Case("scores near -10,000", {"scores": tiny}),
        Case("rows near 9,000 and rows near -9,000", {"scores": mixed}),
        Case("scores far apart", {"scores": wide}),
        Case("some scores are -inf", {"scores": with_inf}),
        Case("-inf beside scores of -10,000", {"scores": lowest}),
    ]


def _builtin(scores: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(scores, dim=dim)


@on_finite
def _sums(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    total = seen.tensors["out"].double().sum(case.inputs.get("dim", -1))
    return bool(((total - 1).abs() < 1e-5).all())


@on_finite
def _inf_is_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    hidden = case["scores"] == -INF
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


@on_finite
def _order(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """Bigger scores get bigger weights, checked where the scores are moderate."""
    if case.name not in ("three scores by hand", "random scores"):
        return None
    out, scores = seen.tensors["out"], case["scores"]
    return bool((out.diff() * scores.diff() > 0).all())


def _shift(answer: Any, case: Case, seen: Observation) -> None:
    scores = case["scores"]
    rest = [v for k, v in case.inputs.items() if k != "scores"]
    seen.put("shifted", answer(fresh(scores + 3.0), *rest))


@on_finite
def _shift_free(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "random scores":
        return None
    a, b = seen.tensors["out"], seen.tensors["shifted"]
    return a.shape == b.shape and bool(((a - b).abs() < 1e-4).all())


def _stable_core(scores: Tensor, dim: int) -> Tensor:
    e = (scores - scores.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def _no_max(scores, dim=-1):
    e = scores.exp()
    return e / e.sum(dim, keepdim=True)


def _global_max(scores, dim=-1):
    e = (scores - scores.max()).exp()
    return e / e.sum(dim, keepdim=True)


def _minimum(scores, dim=-1):
    e = (scores - scores.amin(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def _mean_subtracted(scores, dim=-1):
    e = (scores - scores.mean(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def _clamped(scores, dim=-1):
    e = scores.clamp(-80, 80).exp()
    return e / e.sum(dim, keepdim=True)


def _patched_nan(scores, dim=-1):
    return _no_max(scores, dim).nan_to_num()


def _always_last(scores, dim=-1):
    return _stable_core(scores, -1)


def _always_first(scores, dim=-1):
    return _stable_core(scores, 0)


def _without_keepdim(scores, dim=-1):
    e = (scores - scores.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim)


def _over_everything(scores, dim=-1):
    e = (scores - scores.max()).exp()
    return e / e.sum()


def _as_for_one_row(scores, dim=-1):
    return scores.exp() / scores.exp().sum()


def _maximum_without_keepdim(scores, dim=-1):
    e = (scores - scores.amax(dim)).exp()
    return e / e.sum(dim, keepdim=True)


def _values_and_indices(scores, dim=-1):
    e = (scores - scores.max(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def _not_divided(scores, dim=-1):
    return (scores - scores.amax(dim, keepdim=True)).exp()


def _no_exp(scores, dim=-1):
    return scores / scores.sum(dim, keepdim=True)


def _exp_of_share(scores, dim=-1):
    return (scores / scores.sum(dim, keepdim=True)).exp()


def _logarithm(scores, dim=-1):
    return _stable_core(scores, dim).log()


def _sigmoid(scores, dim=-1):
    return 1 / (1 + (-scores).exp())


def _base_two(scores, dim=-1):
    e = torch.exp2(scores - scores.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def _divided_by_max(scores, dim=-1):
    e = (scores / scores.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def _softmax_in_place(scores, dim=-1):
    scores -= scores.amax(dim, keepdim=True)
    return scores.exp() / scores.exp().sum(dim, keepdim=True)


def _softmax_float32(scores, dim=-1):
    return _stable_core(scores.float(), dim)


SOFTMAX = Exercise(
    id="softmax",
    lesson=LESSON,
    call="softmax(scores, dim=-1)",
    points=2.0,
    cases=_softmax_cases,
    probe=FunctionProbe(gradients=("scores",), watch=True, extra=_shift),
    expect=expect_function(_builtin, gradients=("scores",)),
    reference=softmax,
    behaviours=(
        Behaviour("order", "A bigger score gets a bigger weight", _order, gate=True),
        Behaviour("sums", "The weights along `dim` sum to 1", _sums, credit=True),
        Behaviour("zero", "A score of -inf gets weight exactly 0", _inf_is_zero),
        Behaviour("shift", "Adding 3 to all scores changes nothing", _shift_free, credit=True),
    ),
    misconceptions=(
        Misconception(
            "overflows",
            _no_max,
            "The formula is right on paper, but `exp` of a big score is infinite: inf / inf is "
            "NaN.",
            "In float32 `exp` overflows at 89, and real scores do get that big.",
            "Adding the same number to all scores changes nothing. Which number makes the biggest "
            "score harmless?",
        ),
        Misconception(
            "global_maximum",
            _global_max,
            "You subtracted the maximum of the whole tensor: rows far below it became 0/0.",
            "One row with big scores then ruins all others.",
            "Each slice along `dim` needs its own maximum.",
        ),
        Misconception(
            "subtracts_minimum",
            _minimum,
            "You subtracted the minimum, so the biggest score still overflows.",
            "`exp` is safe for numbers up to 0; far above it becomes infinite.",
            "Which score must become 0 so that all others are below it?",
        ),
        Misconception(
            "subtracts_mean",
            _mean_subtracted,
            "You subtracted the mean: one score far above the others still overflows.",
            "`exp` is safe for numbers up to 0; far above it becomes infinite.",
            "Which score must become 0 so that all others are below it?",
        ),
        Misconception(
            "clamps_scores",
            _clamped,
            "You clamped the scores, so those beyond the limit became equal.",
            "Two big scores that differ should get different weights.",
            "Shift all scores by the same amount instead of cutting them off.",
        ),
        Misconception(
            "hides_nan",
            _patched_nan,
            "The overflow still happens; its NaN was replaced by 0 afterwards.",
            "The biggest score gets weight 0, just where it should get the most.",
            "Keep `exp` from overflowing in the first place: shift the scores.",
        ),
        Misconception(
            "ignores_dim",
            _always_last,
            "The weights sum to 1 along the last dimension whatever `dim` says.",
            "Whoever passes another `dim` gets wrong weights and no error.",
            "Pass `dim` on to both the maximum and the sum.",
        ),
        Misconception(
            "always_first_dimension",
            _always_first,
            "The weights sum to 1 along dimension 0 whatever `dim` says.",
            "In attention that would make the queries compete instead of the keys.",
            "Pass `dim` on to both the maximum and the sum; its default is -1.",
        ),
        Misconception(
            "sum_without_keepdim",
            _without_keepdim,
            "A sum or a maximum lost its dimension and lined up with the wrong one, or with none.",
            "When sizes happen to be equal this gives wrong weights without an error.",
            "Keep the dimension of size 1: `keepdim=True`.",
        ),
        Misconception(
            "as_for_one_row",
            _as_for_one_row,
            "These are the two lines for a single row: the sum runs over the whole tensor, and "
            "big scores overflow.",
            "With several rows, all of them together sum to 1, and one big score makes NaN.",
            "The sum runs along `dim` only, and before `exp` the maximum along `dim` is taken off.",
        ),
        Misconception(
            "maximum_without_keepdim",
            _maximum_without_keepdim,
            "The maximum lost its dimension, so it lined up with the wrong one or with none.",
            "When sizes happen to be equal, another row's maximum is subtracted without an error.",
            "Keep the dimension of size 1: `keepdim=True`, for the maximum too.",
        ),
        Misconception(
            "values_and_indices",
            _values_and_indices,
            "`max` along a dimension gives two tensors, the maxima and where they are.",
            "Subtracting needs the maxima alone.",
            "Take `.values` of it, or call `amax`, which gives the maxima only.",
        ),
        Misconception(
            "sums_everything",
            _over_everything,
            "You divided by the sum over the whole tensor.",
            "All rows together sum to 1, so each single row sums to less.",
            "The sum runs along `dim` only.",
        ),
        Misconception(
            "not_divided",
            _not_divided,
            "The exponentials are there, but they are not divided by their sum.",
            "Weights must sum to 1, else the average grows with the number of tokens.",
            "One division is missing.",
        ),
        Misconception(
            "no_exponential",
            _no_exp,
            "You divided the scores by their sum, without `exp`.",
            "Negative scores give negative weights, and scores that sum to 0 give infinity.",
            "Which function makes every number positive and keeps the order?",
        ),
        Misconception(
            "exponential_after_division",
            _exp_of_share,
            "You divided first and took `exp` afterwards.",
            "Then nothing makes the weights sum to 1.",
            "Swap the two steps.",
        ),
        Misconception(
            "logarithm",
            _logarithm,
            "This is the logarithm of the softmax.",
            "Weights for an average lie between 0 and 1; these are all negative.",
            "Leave out the last `log`.",
        ),
        Misconception(
            "sigmoid",
            _sigmoid,
            "This is the sigmoid: every score is squashed by itself.",
            "The scores don't compete, and the weights don't sum to 1.",
            "The softmax divides by a sum over all scores.",
        ),
        Misconception(
            "base_two",
            _base_two,
            "You used powers of 2 in place of powers of e.",
            "The weights come out flatter than those of every other softmax.",
            "`torch.exp` has the right base.",
        ),
        Misconception(
            "divides_by_maximum",
            _divided_by_max,
            "You divided by the maximum instead of subtracting it.",
            "Dividing changes how far the scores lie apart, and so the weights.",
            "Which operation leaves the differences between scores alone?",
        ),
        Misconception(
            "changes_its_input",
            _softmax_in_place,
            "The result is right, but your code shifted the scores in place.",
            "Whoever called the function still needs those scores.",
            "`a -= b` writes into `a`; `a - b` makes a new tensor.",
        ),
        Misconception(
            "float32_result",
            _softmax_float32,
            "The result is float32 whatever the scores are.",
            "Whoever computes in float64 loses half of the digits here without a word.",
            "There is no need for a conversion: `exp` and sums keep the dtype.",
        ),
    ),
    hints=(
        "Three steps: make all numbers positive, add them up along `dim`, divide.",
        "`exp(1000)` is infinite. Subtract the largest score along `dim` first: the weights stay "
        "the same, and the largest exponential is e⁰ = 1.",
        "`scores.amax(dim=dim, keepdim=True)` gives the largest scores in a shape that can be "
        "subtracted; the sum needs `keepdim=True` as well.",
    ),
    forbidden=(
        "softmax",
        "_softmax",
        "_safe_softmax",
        "log_softmax",
        "_log_softmax",
        "logsumexp",
        "softmin",
        "cross_entropy",
        "cross_entropy_loss",
        "nll_loss",
        "gumbel_softmax",
        "logcumsumexp",
        "_logcumsumexp",
        "logaddexp",
        "logaddexp2",
        "scaled_dot_product_attention",
        "_masked_softmax",
        "_sparse_softmax",
        "_sparse_log_softmax",
        "multi_head_attention_forward",
    ),
    forbidden_text="Here the softmax is yours to build: from `exp`, the maximum and sums.",
    tolerance={torch.float32: 1e-6, torch.float64: 1e-6},
)


# ---------------------------------------------------------------- masked_softmax


def _masked_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, H, T, S = draw.sizes(4, 2, 7)
    by_hand = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    hidden = draw.hidden(T, S)
    loud = draw.normal(T, S).masked_fill(hidden, 10_000.0)
    loudest = draw.normal(T, S).masked_fill(hidden, 3e38)
    far = draw.normal(H, S + 2) * 3 + torch.where(torch.arange(H) % 2 == 0, 1e4, -1e4)[:, None]
    far_hidden = torch.zeros(H, S + 2, dtype=torch.bool)
    far_hidden[:, draw.integer(0, S + 1)] = True
    quiet_hidden = torch.zeros(H, 5, dtype=torch.bool)
    quiet_hidden[:, draw.integer(0, 4)] = True
    faint = draw.normal(H, 5).masked_fill(~quiet_hidden, -1e32)
    zeros = draw.normal(T, S + 1)
    zeros[draw.integer(0, T - 1)] = 0.0
    zeros[:, draw.integer(0, S)] = 0.0
    return [
        Case("the future hidden", {"scores": by_hand, "hidden": causal_mask(3)}),
        Case("a random mask", {"scores": draw.normal(T, S), "hidden": hidden}),
        Case("nothing hidden", {"scores": draw.normal(S, T), "hidden": hidden.T & False}),
        Case(
            "one mask for batch and heads",
            {"scores": draw.normal(B, H, T, S), "hidden": draw.hidden(T, S)},
        ),
        Case(
            "a mask of columns",
            {"scores": draw.normal(B, T, S), "hidden": draw.hidden(B, 1, S)},
        ),
        Case(
            "float64",
            {"scores": draw.normal(T + 1, S, dtype=torch.float64), "hidden": draw.hidden(T + 1, S)},
        ),
        Case(
            "a mask of columns for batch and heads",
            {"scores": draw.normal(B, H, T, S), "hidden": draw.hidden(B, 1, 1, S)},
        ),
        Case(
            "a mask for each sequence, for all heads",
            {"scores": draw.normal(B, H, T, S), "hidden": draw.hidden(B, 1, T, S)},
        ),
        Case("one mask for all rows", {"scores": draw.normal(B, T, S), "hidden": draw.hidden(S)}),
        Case("one key", {"scores": draw.normal(H, T, 1), "hidden": torch.zeros(T, 1).bool()}),
        Case("not contiguous in memory", {"scores": draw.normal(S, T).T, "hidden": hidden}),
        Case("visible scores of 0", {"scores": zeros, "hidden": draw.hidden(T, S + 1)}),
        Case("visible scores near 10,000 and -10,000", {"scores": far, "hidden": far_hidden}),
        Case("hidden scores of 10,000", {"scores": loud, "hidden": hidden}),
        Case("hidden scores of 3e38", {"scores": loudest, "hidden": hidden}),
        Case("visible scores of -1e32", {"scores": faint, "hidden": quiet_hidden}),
    ]


def _masked_oracle(scores: Tensor, hidden: Tensor) -> Tensor:
    # The built-in attention with the identity as values: its result is its weights.
    S = scores.shape[-1]
    eye = torch.eye(S, dtype=scores.dtype)
    bias = torch.zeros_like(scores).masked_fill(hidden, -INF)
    return torch.softmax(scores + bias, dim=-1) @ eye


def _see_hidden(answer: Any, case: Case, seen: Observation) -> None:
    loud = torch.where(case["hidden"], case["scores"] + 2.0, case["scores"])
    seen.put("louder", answer(fresh(loud), fresh(case["hidden"])))


@on_finite
def _hidden_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    hidden = case["hidden"].expand_as(case["scores"])
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


@on_finite
def _hidden_silent(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if not bool(case["hidden"].any()):
        return None
    a, b = seen.tensors["out"], seen.tensors["louder"]
    return a.shape == b.shape and bool(((a - b).abs() < 1e-5).all())


@on_finite
def _masked_rows(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    return bool(((seen.tensors["out"].double().sum(-1) - 1).abs() < 1e-4).all())


@on_finite
def _scores_matter(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "nothing hidden":
        return None
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


def _dim(dim):
    return lambda scores, hidden: torch.softmax(scores.masked_fill(hidden, -INF), dim=dim)


def _zero_before(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, 0.0), dim=-1)


def _after(scores, hidden):
    return torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)


def _after_renormalised(scores, hidden):
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights / weights.sum(-1, keepdim=True)


def _infinity_after(scores, hidden):
    return torch.softmax(scores, dim=-1).masked_fill(hidden, -INF)


def _inverted(scores, hidden):
    return torch.softmax(scores.masked_fill(~hidden, -INF), dim=-1)


def _finite_fill(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)


def _small_fill(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, -5.0), dim=-1)


def _infinity_times_zero(scores, hidden):
    return torch.softmax(scores + hidden.to(scores.dtype) * -INF, dim=-1)


def _minus_one(scores, hidden):
    return torch.softmax(scores - hidden.to(scores.dtype), dim=-1)


def _plus_infinity(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, INF), dim=-1)


def _mask_ignored(scores, hidden):
    return torch.softmax(scores, dim=-1)


def _always_causal(scores, hidden):
    T, S = scores.shape[-2:]
    future = torch.ones(T, S, dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(future, -INF), dim=-1)


def _masked_in_place(scores, hidden):
    scores.masked_fill_(hidden, -INF)
    return torch.softmax(scores, dim=-1)


def _masked_float32(scores, hidden):
    return torch.softmax(scores.float().masked_fill(hidden, -INF), dim=-1)


def _uniform(scores, hidden):
    return torch.softmax(torch.zeros_like(scores).masked_fill(hidden, -INF), dim=-1)


MASKED_SOFTMAX = Exercise(
    id="masked_softmax",
    lesson=LESSON,
    call="masked_softmax(scores, hidden)",
    points=2.0,
    cases=_masked_cases,
    probe=FunctionProbe(gradients=("scores",), extra=_see_hidden),
    expect=expect_function(_masked_oracle, gradients=("scores",)),
    reference=masked_softmax,
    behaviours=(
        Behaviour(
            "scores_matter", "A bigger score gets a bigger weight", _scores_matter, gate=True
        ),
        Behaviour("zero", "Hidden keys get weight exactly 0", _hidden_zero, credit=True),
        Behaviour("rows", "Every row sums to 1", _masked_rows, credit=True),
        Behaviour(
            "silent", "What a hidden score holds changes nothing", _hidden_silent, credit=True
        ),
    ),
    misconceptions=(
        Misconception(
            "mask_after_softmax",
            _after,
            "The mask was applied after the softmax: hidden weights are 0, but the rest of the row "
            "no longer sums to 1.",
            "The hidden scores took their share before they were removed, so the context shrinks.",
            "The softmax must not see the hidden scores. What score gives weight e^(…) = 0?",
        ),
        Misconception(
            "renormalised_after_softmax",
            _after_renormalised,
            "You masked after the softmax and divided again: right on paper, but a hidden score "
            "of 10,000 presses all visible weights to 0, and 0/0 is NaN.",
            "A hidden score should have no influence at all, however big it is.",
            "Hide the scores before the softmax, and one division is enough.",
        ),
        Misconception(
            "infinity_after_softmax",
            _infinity_after,
            "You put -inf into the weights; it belongs into the scores.",
            "A weight of -inf turns the whole average into -inf or NaN.",
            "Swap the two steps: first hide, then softmax.",
        ),
        Misconception(
            "zero_before_softmax",
            _zero_before,
            "You set hidden scores to 0, and e⁰ = 1: a hidden key still gets a share.",
            "0 is an ordinary score, and often bigger than the visible ones.",
            "Which score has an exponential of 0?",
        ),
        Misconception(
            "mask_inverted",
            _inverted,
            "The mask is the wrong way round: you hid what should be seen.",
            "In this course, as in `nn.MultiheadAttention`, `True` means hidden.",
            "`masked_fill` fills where its mask is `True`.",
        ),
        Misconception(
            "finite_fill",
            _finite_fill,
            "You used a big negative number where -inf is meant; where the visible scores are "
            "lower still, the hidden keys win.",
            "It works until the day it doesn't, and then without an error.",
            '`float("-inf")` is lower than every score.',
        ),
        Misconception(
            "small_fill",
            _small_fill,
            "The fill value is not low enough: hidden keys still get some weight.",
            "A little of the future leaks into every token, and training will find it.",
            '`float("-inf")` is lower than every score.',
        ),
        Misconception(
            "infinity_times_zero",
            _infinity_times_zero,
            "You multiplied the mask by -inf: where the mask is 0 that gives 0 · inf, which is "
            "NaN.",
            "One NaN in a row makes the whole row NaN.",
            "Choose between two values instead of multiplying: `masked_fill` or `torch.where`.",
        ),
        Misconception(
            "subtracts_mask",
            _minus_one,
            "You subtracted the mask itself: hidden scores went down by 1 only.",
            "A key that is 1 lower still gets more than a third of its weight.",
            "How low must a score be for a weight of exactly 0?",
        ),
        Misconception(
            "plus_infinity",
            _plus_infinity,
            "You filled with +inf: inf − inf is NaN inside the softmax.",
            "A hidden score should lose against every other, not win.",
            "Mind the sign.",
        ),
        Misconception(
            "mask_ignored",
            _mask_ignored,
            "The mask has no effect: this is the plain softmax.",
            "Everything that should be hidden is seen. Tensor methods return a new tensor: "
            "`scores.masked_fill(…)` alone changes nothing.",
            "Is the result of the masking used afterwards?",
        ),
        Misconception(
            "always_causal",
            _always_causal,
            "You hid the future and did not look at `hidden`.",
            "The next mask hides padding, or something else again.",
            "Use the mask that comes in.",
        ),
        Misconception(
            "over_queries",
            _dim(-2),
            "The softmax runs over the queries: columns sum to 1, not rows.",
            "Each query should spread one unit of attention over the keys.",
            "In `(…, T, S)` the keys are the last dimension.",
        ),
        Misconception(
            "over_dimension_one",
            _dim(1),
            "The softmax runs over dimension 1, which is the last one for matrices only.",
            "With a batch or heads in front, dimension 1 is something else.",
            "Count from the end: the keys are dimension -1.",
        ),
        Misconception(
            "scores_ignored",
            _uniform,
            "All visible keys got equal weights: the scores had no say.",
            "That is the mean again; attention begins where the scores differ.",
            "Fill the mask into `scores`, not into zeros.",
        ),
        Misconception(
            "changes_its_input",
            _masked_in_place,
            "The result is right, but -inf was written into the caller's scores.",
            "`masked_fill_` with an underscore works in place.",
            "Leave the underscore out and use what the call returns.",
        ),
        Misconception(
            "float32_result",
            _masked_float32,
            "The result is float32 whatever the scores are.",
            "Whoever computes in float64 loses half of the digits here without a word.",
            "`masked_fill` and the softmax keep the dtype by themselves.",
        ),
    ),
    hints=(
        "A hidden score should act as if it were -inf: e to the power of -inf is 0.",
        "`scores.masked_fill(mask, value)` returns a copy with `value` where the mask is `True`; "
        "masks are broadcast to the scores.",
        'Fill with `float("-inf")`, then softmax over the last dimension.',
    ),
)


# ---------------------------------------------------------------- softmax_mean


def _weights(scores: Tensor, hidden: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(scores.masked_fill(hidden, -INF), dim=dim)


def _square(x: Tensor, value: float = 0.0) -> Tensor:
    return x.new_full((x.shape[1], x.shape[1]), value)


def _future_mask(x: Tensor, diagonal: int = 1) -> Tensor:
    return torch.ones_like(_square(x), dtype=torch.bool).triu(diagonal)


def _softmax_note(cases: Any, observations: Any) -> list[str]:
    ops = {op for o in observations for op in o.facts.get("ops", ())}
    if ops & {"softmax", "_softmax", "exp", "exp_", "exp2", "log_softmax"}:
        return []
    return [
        "You found a way without a softmax. It is right and costs nothing; the next lessons build "
        "on zero scores, a mask and a softmax, so look at that way too."
    ]


def _mean_in_place(x):
    x.copy_(_weights(_square(x), _future_mask(x)) @ x)
    return x


SOFTMAX_MEAN = Exercise(
    id="softmax_mean",
    lesson=LESSON,
    call="softmax_mean(x)",
    points=2.0,
    cases=mean_cases,
    probe=FunctionProbe(gradients=("x",), watch=True, extra=see_changes),
    expect=expect_mean,
    reference=softmax_mean,
    notes=_softmax_note,
    uses=("softmax", "masked_softmax"),
    behaviours=MEAN_BEHAVIOURS,
    misconceptions=(
        Misconception(
            "no_mask",
            lambda x: _weights(_square(x), _future_mask(x) & False) @ x,
            "Nothing is hidden: every token got the mean of the whole sequence.",
            "A model that predicts the next token must not see it.",
            "Which entries of the (T, T) scores belong to the future?",
        ),
        Misconception(
            "diagonal_hidden",
            lambda x: _weights(_square(x), _future_mask(x, 0)) @ x,
            "The mask hides the diagonal too: token 0 sees nothing, and its softmax is NaN.",
            "The softmax of nothing but -inf is 0/0.",
            "`triu(…, diagonal=?)`: the first diagonal that belongs to the future is 1.",
        ),
        Misconception(
            "one_too_many",
            lambda x: _weights(_square(x), _future_mask(x, 2)) @ x,
            "The mask begins one column too late: token t also sees token t + 1.",
            "That one token is exactly the one a language model has to predict.",
            "For row 0, which columns are hidden?",
        ),
        Misconception(
            "past_hidden",
            lambda x: _weights(_square(x), _future_mask(x).T) @ x,
            "You hid the past: every token averages itself and its future.",
            "`True` means hidden, and it is the future that must be hidden.",
            "`tril` is the lower triangle, `triu` the upper. Which one is the future?",
        ),
        Misconception(
            "mask_inverted",
            lambda x: _weights(_square(x), ~_future_mask(x)) @ x,
            "The mask is the wrong way round: only the future is left, and the last token sees "
            "nothing (NaN).",
            "In this course `True` means hidden: `tril(ones)` marks what may be *seen*.",
            "Turn the mask round, or build it with `triu`.",
        ),
        Misconception(
            "zero_fill",
            lambda x: torch.softmax(torch.tril(_square(x, 1.0)), -1) @ x,
            "You took the softmax of a triangle of ones: its zeros became e⁰ = 1, not 0.",
            "The future keeps a weight, and so it leaks into every token.",
            "Visible scores are 0, hidden ones -inf.",
        ),
        Misconception(
            "mask_after_softmax",
            lambda x: torch.softmax(_square(x), -1).tril() @ x,
            "The triangle was cut after the softmax: the rows no longer sum to 1.",
            "Every row still shares its weight among T tokens, but only t + 1 are left.",
            "Hide first, then softmax: `masked_softmax` does it in that order.",
        ),
        Misconception(
            "over_queries",
            lambda x: _weights(_square(x), _future_mask(x), dim=0) @ x,
            "The softmax runs over the queries: columns sum to 1, not rows.",
            "A row says how one token mixes the others, so it is the row that must sum to 1.",
            "The keys are the last dimension.",
        ),
        Misconception(
            "scores_from_tokens",
            lambda x: _weights(x @ x.transpose(-2, -1), _future_mask(x)) @ x,
            "Your scores come from the tokens themselves, so the shares are not equal.",
            "That is attention already, and two lessons early; the mean needs equal scores.",
            "Which scores say that every visible token is worth the same?",
        ),
        Misconception(
            "tokens_as_scores",
            lambda x: torch.softmax(x, dim=1),
            "You took the softmax of `x` itself; the tokens are what is averaged, not the scores.",
            "The scores are a (T, T) matrix: one number for each pair of tokens.",
            "Make scores of zeros first, turn them into weights, then multiply with `x`.",
        ),
        Misconception(
            "transposed",
            lambda x: _weights(_square(x), _future_mask(x)).T @ x,
            "The weights are the right ones, but transposed.",
            "In `weights @ x`, row t of the weights makes token t.",
            "Leave the weights as the softmax gives them.",
        ),
        Misconception(
            "float32_scores",
            lambda x: _weights(torch.zeros(x.shape[1], x.shape[1]), _future_mask(x)) @ x,
            "The scores are float32 whatever `x` is, and PyTorch refuses to mix dtypes.",
            "Half of a model in another precision stops with an error.",
            "`x.new_zeros(T, T)` makes zeros that fit `x`.",
        ),
        Misconception(
            "changes_its_input",
            _mean_in_place,
            "The result is right, but it was written into `x` itself.",
            "Whoever called the function still holds `x`, and it now holds something else.",
            "Return the product; it is a new tensor.",
        ),
        Misconception(
            "fixed_size",
            lambda x: _weights(torch.zeros(8, 8, dtype=x.dtype), causal_mask(8)) @ x,
            "The scores have a fixed size, 8 × 8 as in the example.",
            "The next sequence has another length.",
            "Take T from `x.shape`.",
        ),
    ),
    hints=(
        "If all scores are equal, the softmax gives all visible keys the same weight.",
        "Scores: `x.new_zeros(T, T)`. Hidden: everything above the diagonal, as a bool matrix.",
        "`torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)` is the future. Then "
        "`masked_softmax(scores, hidden) @ x`.",
    ),
)

EXERCISES = (SOFTMAX, MASKED_SOFTMAX, SOFTMAX_MEAN)
