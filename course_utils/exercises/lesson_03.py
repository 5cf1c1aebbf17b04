"""Lesson 03: the mean as the softmax of zeros under a mask."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from ..attention import causal_mask, masked_softmax, softmax, softmax_mean
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
from ..checking.watching import Operators
from .kit import first_attempts as first
from .kit import means
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from .kit.steps import INF, MaskedSoftmax, Softmax, SoftmaxMean

LESSON = "1-averages/03_softmax_masking"
NOT_INFINITE = (
    "Hidden scores were set to a negative number in place of -inf, and its exponential is not 0."
)


# ---------------------------------------------------------------- softmax


def _softmax_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    a, b, c, d, e, f = draw.sizes(6, 2, 7)
    middle = draw.normal(a, b, c)
    equal = torch.where(torch.arange(a) % 2 == 0, 0.0, 500.0)[:, None].repeat(1, d)
    with_inf = draw.normal(b, c)
    with_inf[0, 1] = with_inf[-1, 0] = -INF
    zeros = torch.zeros(c, d)
    zeros[0, 1] = zeros[-1, 0] = -INF
    offsets = torch.where(torch.arange(a) % 2 == 0, 9_000.0, -9_000.0)[:, None]
    wide = torch.tensor([[10_000.0, -10_000.0, 0.0], [1.0, 2.0, 3.0]])
    lowest = torch.tensor([[-10_000.0, -INF, -10_000.0], [-INF, -9_999.0, -9_998.0]])
    long = 2_100 + draw.integer(0, 20)
    double = draw.normal(c, a, dtype=torch.float64)
    by_name, both, once = {"keywords": ("dim",)}, {"keywords": ("scores", "dim")}, {"once": True}
    by_hand = torch.tensor([[0.0, 1.0, 2.0]])
    return [
        Case("three scores by hand", {"scores": by_hand}, roles={"small", "moderate"}),
        Case("random scores", {"scores": draw.normal(b, c)}, roles={"typical", "moderate"}),
        Case("three dimensions", {"scores": middle}),
        Case("along dimension 0", {"scores": middle, "dim": 0}),
        Case("dim by its name", {"scores": middle, "dim": 1}, options=by_name),
        Case("both by name", {"scores": middle, "dim": -3}, options=both),
        Case("four dimensions", {"scores": draw.normal(a, d, b, c), "dim": 2}),
        Case("six dimensions", {"scores": draw.normal(a, b, c, d, e, f), "dim": -4}, options=once),
        Case("sizes that coincide", {"scores": draw.normal(a, a, a), "dim": 1}, roles={"small"}),
        Case("a dimension of size 1", {"scores": draw.normal(a, 1, c), "dim": 1}, roles={"small"}),
        Case("one score in each row", {"scores": draw.normal(a, 1)}, roles={"small"}),
        Case("long rows", {"scores": draw.normal(2, long)}),
        Case("long columns", {"scores": draw.normal(long, 3), "dim": 0}),
        Case("not contiguous in memory", {"scores": draw.normal(c, a).T}),
        Case("float64", {"scores": double, "dim": -2}),
        Case("one dimension", {"scores": draw.normal(b + c)}),
        Case("all scores of a row equal", {"scores": equal}),
        Case("scores near 10,000", {"scores": draw.normal(a, b) * 3 + 10_000}),
        Case("scores near -10,000", {"scores": draw.normal(a, b) * 3 - 10_000}),
        Case("rows near 9,000 and rows near -9,000", {"scores": draw.normal(a, c) + offsets}),
        Case("scores far apart", {"scores": wide}),
        Case("some scores are -inf", {"scores": with_inf}),
        Case("zeros beside -inf", {"scores": zeros}),
        Case("-inf beside scores of -10,000", {"scores": lowest}),
    ]


def _builtin(scores: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(scores, dim=dim)


def _sums(case: Case, seen: Observation, expected: Expected) -> Verdict:
    total = seen.tensors["out"].double().sum(case.inputs.get("dim", -1))
    return near(total, torch.ones_like(total), 1e-5)


def _inf_is_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    hidden = case["scores"] == -INF
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


def _order(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Checked where the scores are moderate."""
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


def _see_shifted(answer: Any, case: Case, seen: Observation) -> None:
    """One more call, with bigger scores, and the operators of one in half precision."""
    if "typical" not in case.roles:
        return
    seen.put("shifted", answer(fresh(case["scores"] + 3.0)))
    operators = Operators()
    with contextlib.suppress(Exception), operators.watch():
        answer(fresh(case["scores"], dtype=torch.bfloat16))
    seen.facts["ops"] = sorted({*seen.facts["ops"], *operators.names()})


def _shift_free(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["shifted"], seen.tensors["out"])


class GlobalMaximum(Mistake):
    """You subtracted the maximum of the whole tensor: rows far below it became 0/0.

    Why: One row with big scores then ruins all others.
    Mend: Each slice along `dim` needs its own maximum.
    """

    def top(self, scores, dim):
        return scores.max()


class NotTheMaximum(Mistake):
    """You subtracted the mean, not the maximum: one score far above the others still overflows.

    Why: `exp` is safe for numbers up to 0; far above it becomes infinite.
    Mend: Which score must become 0 so that all others are below it?
    """

    def top(self, scores, dim):
        return scores.mean(dim, keepdim=True)


class IgnoresDim(Mistake):
    """The weights sum to 1 along the last dimension whatever `dim` says.

    Why: Whoever passes another `dim` gets wrong weights and no error.
    Mend: Pass `dim` on to both the maximum and the sum.
    """

    def __call__(self, scores, dim=-1):
        return super().__call__(scores, -1)


class SumWithoutKeepdim(Mistake):
    """The sum lost its dimension and lined up with the wrong one, or with none.

    Why: When sizes happen to be equal this gives wrong weights without an error.
    Mend: Keep the dimension of size 1: `keepdim=True`, for maximum and sum.
    """

    def total(self, exps, dim):
        return exps.sum(dim)


class ValuesAndIndices(Mistake):
    """`max` along a dimension gives two tensors, the maxima and where they are.

    Why: Subtracting needs the maxima alone.
    Mend: Take `.values` of it, or call `amax`, which gives the maxima only.
    """

    def top(self, scores, dim):
        return scores.max(dim, keepdim=True)


class SumsEverything(Mistake):
    """You divided by the sum over the whole tensor.

    Why: All rows together sum to 1, so each single row sums to less.
    Mend: The sum runs along `dim` only.
    """

    def total(self, exps, dim):
        return exps.sum()


class HidesNan(Mistake):
    """The overflow still happens; its NaN was replaced by 0 afterwards.

    Why: The biggest score gets weight 0, just where it should get the most.
    Mend: Keep `exp` from overflowing in the first place: shift the scores.
    """

    def shifted(self, scores, dim):
        return scores

    def divided(self, exps, dim):
        return super().divided(exps, dim).nan_to_num()


class NotDivided(Mistake):
    """The exponentials are there, but they are not divided by their sum.

    Why: Weights must sum to 1, else the average grows with the number of tokens.
    Mend: One division is missing.
    """

    def divided(self, exps, dim):
        return exps


class NoExponential(Mistake):
    """You divided the scores by their sum, without `exp`.

    Why: Negative scores give negative weights, and scores that sum to 0 give infinity.
    Mend: Which function makes every number positive and keeps the order?
    """

    def shifted(self, scores, dim):
        return scores

    def exponential(self, shifted):
        return shifted


class ExponentialAfterDivision(Mistake):
    """You divided first and took `exp` afterwards.

    Why: Then nothing makes the weights sum to 1.
    Mend: Swap the two steps.
    """

    def __call__(self, scores, dim=-1):
        return (scores / scores.sum(dim, keepdim=True)).exp()


class EpsilonInSum(Mistake):
    """You added a number to the sum, so the weights no longer sum to 1.

    Why: After the shift the sum is at least 1: it can't be 0, and needs no help.
    Mend: Leave the number out.
    """

    def total(self, exps, dim):
        return super().total(exps, dim) + 1e-5


class Logarithm(Mistake):
    """This is the logarithm of the softmax.

    Why: Weights for an average lie between 0 and 1; these are all negative.
    Mend: Leave out the last `log`.
    """

    def divided(self, exps, dim):
        return super().divided(exps, dim).log()


def sigmoid(scores, dim=-1):
    """This is the sigmoid: every score is squashed by itself.

    Why: The scores don't compete, and the weights don't sum to 1.
    Mend: The softmax divides by a sum over all scores.
    """
    return 1 / (1 + (-scores).exp())


def _one_hot(self, shifted):
    return (shifted == 0).to(shifted)


class OneHot(Mistake):
    """The biggest score gets all the weight: this is the maximum, and not soft.

    Why: Nothing of the other tokens is heard, and no gradient tells the scores to change.
    Mend: The exponential of the second biggest score is not 0.
    """

    exponential = _one_hot


class BaseTwo(Mistake):
    """You used powers of 2 in place of powers of e.

    Why: The weights come out flatter than those of every other softmax.
    Mend: `torch.exp` has the right base.
    """

    def exponential(self, shifted):
        return torch.exp2(shifted)


class DividesByMaximum(Mistake):
    """You divided by the maximum instead of subtracting it.

    Why: Dividing changes how far the scores lie apart, and so the weights.
    Mend: Which operation leaves the differences between scores alone?
    """

    def shifted(self, scores, dim):
        return scores / self.top(scores, dim)


class MaximumAfterExp(Mistake):
    """You subtracted the maximum after `exp`: the overflow was there already, and the biggest score
    got weight 0.

    Why: A shift leaves the weights alone only *inside* the exponential.
    Mend: Swap the two steps: shift first.
    """

    def shifted(self, scores, dim):
        return scores

    def divided(self, exps, dim):
        return super().divided(exps - self.top(exps, dim), dim)


FORBIDDEN = """
softmax _softmax _safe_softmax log_softmax _log_softmax logsumexp softmin cross_entropy
cross_entropy_loss nll_loss gumbel_softmax logcumsumexp _logcumsumexp logaddexp logaddexp2
scaled_dot_product_attention _masked_softmax _sparse_softmax _sparse_log_softmax
multi_head_attention_forward
"""

SOFTMAX = Exercise(
    id="softmax",
    lesson=LESSON,
    call="softmax(scores, dim=-1)",
    points=2.0,
    cases=_softmax_cases,
    probe=FunctionProbe(gradients=("scores",), watch=True, extra=_see_shifted),
    expect=expect_function(_builtin, gradients=("scores",)),
    reference=softmax,
    properties=(
        Property(
            "order", "A bigger score gets a bigger weight", _order, gate=True, role="moderate"
        ),
        Property("sums", "The weights along `dim` sum to 1", _sums, credit=True),
        Property(
            "zero",
            "A score of -inf gets weight exactly 0",
            _inf_is_zero,
            breaks="Not every score of -inf gets a weight of exactly 0",
        ),
        Property(
            "shift",
            "Adding 3 to all scores changes nothing",
            _shift_free,
            credit=True,
            role="typical",
        ),
    ),
    misconceptions=Misconceptions.of(
        m.Overflows,
        SumWithoutKeepdim,
        SumWithoutKeepdim.but(
            top=lambda self, scores, dim: scores.amax(dim), total=Softmax.total
        ).on(Softmax, what="The maximum lost its dimension and lined up with the wrong one."),
        SumWithoutKeepdim.but(top=lambda self, scores, dim: scores.amax(dim)).on(
            Softmax,
            what="The maximum and the sum lost their dimension and lined up with the wrong one.",
        ),
        GlobalMaximum,
        IgnoresDim,
        IgnoresDim.but(__call__=lambda self, scores, dim=-1: Softmax()(scores, 0)).on(
            Softmax,
            what="The weights sum to 1 along dimension 0 whatever `dim` says.",
            why="In attention that would make the queries compete instead of the keys.",
        ),
        IgnoresDim.but(
            __call__=Softmax.__call__, total=lambda self, exps, dim: exps.sum(-1, keepdim=True)
        ).on(Softmax, what="The sum runs along the last dimension whatever `dim` says."),
        SumsEverything,
        SumsEverything.but(top=lambda self, scores, dim: scores.max()).on(
            Softmax, what="You took the maximum and the sum over the whole tensor."
        ),
        ValuesAndIndices,
        NotDivided,
        HidesNan,
        m.ClampsScores,
        NotTheMaximum,
        NotTheMaximum.but(top=lambda self, scores, dim: scores.amin(dim, keepdim=True)).on(
            Softmax, what="You subtracted the minimum, so the biggest score still overflows."
        ),
        NotTheMaximum.but(top=lambda self, scores, dim: 100.0).on(
            Softmax,
            what="You subtracted a fixed number: scores far above it overflow, far below vanish.",
        ),
        EpsilonInSum,
        EpsilonInSum.but(total=lambda self, exps, dim: exps.sum(dim, keepdim=True) + 1e-3),
        NoExponential,
        ExponentialAfterDivision,
        DividesByMaximum,
        MaximumAfterExp,
        BaseTwo,
        Logarithm,
        sigmoid,
        OneHot,
        m.ChangesItsInput.on(
            Softmax,
            what="The result is right, but it was made by writing into the caller's scores.",
            why="Whoever called the function still needs those scores.",
            mend="`-=` and names that end in `_` write into a tensor; `a - b` makes a new one.",
        ),
        m.Float32Result.on(
            Softmax, mend="There is no need for a conversion: `exp` and sums keep the dtype."
        ),
        m.CutOff,
        on=Softmax,
    ),
    hints=(
        "Three steps: make all numbers positive, add them up along `dim`, divide.",
        "`exp(1000)` is infinite. Subtract the largest score along `dim` first: the weights stay "
        "the same, and the largest exponential is e⁰ = 1.",
        "`scores.amax(dim=dim, keepdim=True)` gives the largest scores in a shape that can be "
        "subtracted; the sum needs `keepdim=True` as well.",
    ),
    other_way="""\
# Dividing by a sum is subtracting its logarithm before exp: most libraries keep this form.
def softmax(scores, dim=-1):
    shifted = scores - scores.amax(dim, keepdim=True)
    return (shifted - shifted.exp().sum(dim, keepdim=True).log()).exp()""",
    forbidden=tuple(FORBIDDEN.split()),
    forbidden_text="Here the softmax is yours to build: from `exp`, the maximum and sums.",
    tolerance={torch.float32: 1e-6, torch.float64: 1e-6},
)


# ---------------------------------------------------------------- masked_softmax


def _mask_shapes(draw: Draw, A: int, B: int, H: int, T: int, S: int) -> list[Case]:
    """Every way in which a mask can be smaller than its scores, and none."""
    found, many = [], 2_100 + draw.integer(0, 20)
    for name, scores, mask in (
        ("one mask for batch and heads", (B, H, T, S), (T, S)),
        ("a mask of columns", (B, T, S), (B, 1, S)),
        ("a mask for each sequence", (B, T, S), (B, T, S)),
        ("a mask of columns for batch and heads", (B, H, T, S), (B, 1, 1, S)),
        ("a mask for each sequence, for all heads", (B, H, T, S), (B, 1, T, S)),
        ("a mask for each head, for all sequences", (B, H, T, S), (H, T, S)),
        ("a mask of columns for each head", (B, H, T, S), (1, H, 1, S)),
        ("a mask for each sequence and head", (B, H, T, S), (B, H, T, S)),
        ("one mask for all rows", (B, T, S), (S,)),
        ("five dimensions, a full mask", (A, B, H, T, S), (A, B, H, T, S)),
        ("six dimensions, a full mask", (8, A, B, H, T, S), (8, A, B, H, T, S)),
        ("five dimensions, one mask for some", (A, B, H, T, S), (B, 1, T, S)),
        ("many keys", (3, many), (3, many)),
        ("many queries", (many, 4), (many, 4)),
    ):
        found.append(Case(name, {"scores": draw.normal(*scores), "hidden": draw.hidden(*mask)}))
    return found


def _masked_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    A, B, H, T, S = draw.sizes(5, 2, 7)
    hidden = draw.hidden(T, S)
    square = draw.hidden(H, S, S)

    by_hand = torch.tensor([[1.0, 2.0, 3.0]]).repeat(3, 1)
    future = {"scores": by_hand, "hidden": causal_mask(3)}
    nothing = {"scores": draw.normal(S, T), "hidden": hidden.T & False}
    double = draw.normal(T, S, dtype=torch.float64)
    one_key = {"scores": draw.normal(H, T, 1), "hidden": torch.zeros(T, 1).bool()}
    alike = {"scores": draw.normal(H, S, S), "hidden": square}
    as_many = {"scores": draw.normal(5, 5, S + 7), "hidden": draw.hidden(5, S + 7)}
    twice = {"scores": draw.normal(4, 4, T, S + 7), "hidden": draw.hidden(4, T, S + 7)}
    number = {"scores": draw.normal(B, S), "hidden": torch.tensor(False)}
    loud, loudest = (draw.normal(T, S).masked_fill(hidden, big) for big in (10_000.0, 3e38))
    equal = torch.where(torch.arange(T) % 2 == 0, 0.0, 500.0)[:, None].repeat(1, S)
    zeros = draw.normal(T, S)
    zeros[draw.integer(0, T - 1)] = 0.0
    zeros[:, draw.integer(0, S - 1)] = 0.0
    offsets = torch.where(torch.arange(T) % 2 == 0, 1e4, -1e4)[:, None]
    far, one = draw.normal(T, S) * 3 + offsets, torch.zeros(T, S, dtype=torch.bool)
    one[:, draw.integer(0, S - 1)] = True
    faint = draw.normal(T, S).masked_fill(~one, -3e38)
    return [
        Case("the future hidden", future, roles={"small"}),
        Case("a random mask", {"scores": draw.normal(T, S), "hidden": hidden}, roles={"typical"}),
        Case("nothing hidden", nothing, roles={"nothing hidden"}),
        *_mask_shapes(draw, A, B, H, T, S),
        Case("both by name", {"scores": double, "hidden": hidden}, None, {"keywords": _BOTH}),
        Case("float64", {"scores": double * 2, "hidden": hidden}),
        Case("one key", one_key, roles={"small"}),
        Case("as many keys as queries", alike, roles={"small"}),
        Case("one mask, as many sequences as queries", as_many, roles={"small"}),
        Case("a mask for each head, as many as sequences", twice, roles={"small"}),
        Case("a mask without dimensions", number),
        Case("not contiguous in memory", {"scores": draw.normal(S, T).T, "hidden": hidden}),
        Case("visible scores of 0", {"scores": zeros, "hidden": draw.hidden(T, S)}),
        Case("all scores of a row equal", {"scores": equal, "hidden": draw.hidden(T, S)}),
        Case("visible scores near 10,000 and -10,000", {"scores": far, "hidden": one}),
        Case("hidden scores of 10,000", {"scores": loud, "hidden": hidden}),
        Case("hidden scores of 3e38", {"scores": loudest, "hidden": hidden}),
        Case("visible scores of -3e38", {"scores": faint, "hidden": one}),
    ]


_BOTH = ("scores", "hidden")


def _masked_oracle(scores: Tensor, hidden: Tensor) -> Tensor:
    # The built-in attention with the identity as values: its result is its weights.
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype)
    bias = torch.zeros_like(scores).masked_fill(hidden, -INF)
    return torch.softmax(scores + bias, dim=-1) @ eye


def _see_hidden(answer: Any, case: Case, seen: Observation) -> None:
    loud = torch.where(case["hidden"], case["scores"] + 2.0, case["scores"])
    seen.put("louder", answer(fresh(loud), fresh(case["hidden"])))


def _hidden_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    hidden = case["hidden"].expand_as(case["scores"])
    return bool((seen.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


def _hidden_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not bool(case["hidden"].any()):
        return None
    return near(seen.tensors["louder"], seen.tensors["out"], 1e-5)


def _masked_rows(case: Case, seen: Observation, expected: Expected) -> Verdict:
    total = seen.tensors["out"].double().sum(-1)
    return near(total, torch.ones_like(total))


class InfinityAfterSoftmax(Mistake):
    """You put -inf into the weights; it belongs into the scores.

    Why: A weight of -inf turns the whole average into -inf or NaN.
    Mend: Swap the two steps: first hide, then softmax.
    """

    def weights(self, scores, hidden):
        return self.softmax(scores).masked_fill(hidden, -INF)


class SubtractsMask(Mistake):
    """You subtracted the mask itself: hidden scores went down by 1 only.

    Why: A key that is 1 lower still gets more than a third of its weight.
    Mend: How low must a score be for a weight of exactly 0?
    """

    def hide(self, scores, hidden):
        return scores - hidden.to(scores.dtype)


class FirstSequencesMask(Mistake):
    """Everything along the first dimension got the mask of its first entry: in a batch, every
    sequence that of sequence 0.

    Why: Where each has a mask of its own, as sequences of different lengths have, all but one get
        a wrong one.
    Mend: `masked_fill` broadcasts masks of every shape by itself: use `hidden` as it comes.
    """

    def hide(self, scores, hidden):
        return super().hide(scores, hidden[:1] if hidden.dim() == scores.dim() else hidden)


class AlwaysCausal(Mistake):
    """You hid the future and did not look at `hidden`.

    Why: The next mask hides padding, or something else again.
    Mend: Use the mask that comes in.
    """

    def hide(self, scores, hidden):
        T, S = scores.shape[-2:]
        future = torch.ones(T, S, dtype=torch.bool, device=scores.device).triu(1)
        return super().hide(scores, future)


class OverDimensionOne(Mistake):
    """The softmax runs over dimension 1, which is the last one for matrices only.

    Why: With a batch or heads in front, dimension 1 is something else.
    Mend: Count from the end: the keys are dimension -1.
    """

    axis = 1


class OverEverything(Mistake):
    """All weights of the tensor sum to 1, not those of each row.

    Why: Each query should spread one unit of attention over its keys.
    Mend: Leave the scores in their shape, and take the softmax over the last dimension.
    """

    def softmax(self, scores):
        return torch.softmax(scores.flatten(), 0).view_as(scores)


class HiddenKeysDropped(Mistake):
    """The hidden keys were taken out of the result, so its shape is lost.

    Why: The product with the values needs a weight for every key, and rows of equal length.
    Mend: A hidden key stays in its place with a weight of 0.
    """

    def weights(self, scores, hidden):
        return super().weights(scores, hidden)[~hidden.expand_as(scores)]


def indexes_with_the_mask(scores, hidden):
    """You wrote `scores[hidden] = …`: an index must have the scores' own shape, and masks may be
    smaller.

    Why: A mask often lacks the batch and the heads, or has a 1 there; then this stops.
    Mend: Which method of a tensor fills in a value and broadcasts the mask by itself?
    """
    scores = scores.clone()
    scores[hidden] = -INF
    return torch.softmax(scores, dim=-1)


def _order_of_all(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


MASKED_SOFTMAX = Exercise(
    id="masked_softmax",
    lesson=LESSON,
    call="masked_softmax(scores, hidden)",
    points=2.0,
    cases=_masked_cases,
    probe=FunctionProbe(gradients=("scores",), extra=_see_hidden),
    expect=expect_function(_masked_oracle, gradients=("scores",)),
    reference=masked_softmax,
    uses=("softmax",),
    same_as=("safe_masked_softmax",),
    properties=(
        Property(
            "scores_matter",
            "A bigger score gets a bigger weight",
            _order_of_all,
            gate=True,
            role="nothing hidden",
        ),
        Property(
            "zero",
            "Hidden keys get weight exactly 0",
            _hidden_zero,
            credit=True,
            breaks="Not every hidden key gets a weight of exactly 0",
        ),
        Property("rows", "Every row sums to 1", _masked_rows, credit=True),
        Property(
            "silent", "What a hidden score holds changes nothing", _hidden_silent, credit=True
        ),
    ),
    misconceptions=Misconceptions.of(
        m.MaskAfterSoftmax,
        m.ZeroFill,
        m.FillNotLowEnough.but(fill=-1e9),
        m.MaskInverted,
        m.RenormalisedAfterSoftmax.on(
            MaskedSoftmax,
            what="Hidden keys got 0 only after the exponentials were made. What a hidden score "
            "holds still had a say there: a big one presses all visible weights to 0, and 0/0 is "
            "NaN.",
            mend="Hide the scores first. Then the maximum, too, is one of visible scores alone.",
        ),
        m.FillNotLowEnough,
        *(m.FillNotLowEnough.but(fill=fill) for fill in (-1e3, -100.0)),
        *(
            m.FillNotLowEnough.but(fill=fill).on(
                MaskedSoftmax,
                what=NOT_INFINITE,
                why="What is hidden keeps a weight, and the more the lower the visible scores are.",
            )
            for fill in (-10.0, -5.0, -1.0)
        ),
        m.MaskIgnored,
        m.OverQueries,
        OverDimensionOne,
        OverDimensionOne.but(axis=0).on(
            MaskedSoftmax,
            what="The softmax runs over dimension 0: the rows don't sum to 1.",
            why="Each query should spread one unit of attention over its keys.",
            mend="In `(…, T, S)` the keys are the last dimension, -1.",
        ),
        indexes_with_the_mask,
        InfinityAfterSoftmax,
        m.InfinityTimesZero,
        m.SubtractsBigNumber,
        SubtractsMask,
        m.PlusInfinity,
        m.ZeroTakenForHidden,
        AlwaysCausal,
        FirstSequencesMask,
        m.SoftmaxTwice,
        m.ScoresIgnored,
        OverEverything,
        HiddenKeysDropped,
        m.ChangesItsInput.on(
            MaskedSoftmax,
            what="The result is right, but it was made by writing into the caller's scores.",
            mend="Names that end in `_`, such as `masked_fill_` or `copy_`, write into the tensor "
            "itself. Without the underscore a call returns a new one.",
        ),
        m.Float32Result.on(
            MaskedSoftmax, mend="`masked_fill` and the softmax keep the dtype by themselves."
        ),
        m.CutOff,
        on=MaskedSoftmax,
    ),
    hints=(
        "A hidden score should act as if it were -inf: e to the power of -inf is 0.",
        "`scores.masked_fill(mask, value)` returns a copy with `value` where the mask is `True`; "
        "masks are broadcast to the scores.",
        'Fill with `float("-inf")`, then softmax over the last dimension.',
    ),
    other_way="""\
# where takes the first number if the mask is True, else the second.
def masked_softmax(scores, hidden):
    return torch.where(hidden, float("-inf"), scores).softmax(dim=-1)""",
)


# ---------------------------------------------------------------- softmax_mean


def _softmax_mean_cases(seed: int) -> list[Case]:
    return mean_cases(seed, many=2_050)


def _softmax_note(cases: Any, observations: Any) -> list[str]:
    ops = {op for o in observations for op in o.facts.get("ops", ())}
    if ops & {"softmax", "_softmax", "exp", "exp_", "exp2", "log_softmax"}:
        return []
    return [
        "You found a way without a softmax. It is right and costs nothing; the next lessons build "
        "on zero scores, a mask and a softmax, so look at that way too."
    ]


def _square(x: Tensor, value: float = 0.0) -> Tensor:
    return x.new_full((x.shape[1], x.shape[1]), value)


class ScoresFromTokens(Mistake):
    """Your scores come from the tokens themselves, so the shares are not equal.

    Why: That is attention already, the subject of the next lesson; the mean needs equal scores.
    Mend: Which scores say that every visible token is worth the same?
    """

    def scores(self, x):
        return x @ x.mT


class TokensAsScores(Mistake):
    """You took the softmax of `x` itself; the tokens are what is averaged, not the scores.

    Why: The scores are a (T, T) matrix: one number for each pair of tokens.
    Mend: Make scores of zeros first, turn them into weights, then multiply with `x`.
    """

    def __call__(self, x):
        return torch.softmax(x, dim=1)


class UnequalScores(Mistake):
    """The scores are the positions of the tokens, so late tokens weigh more than early ones.

    Why: For a mean all visible tokens have the same share.
    Mend: Which scores say that every visible token is worth the same?
    """

    def scores(self, x):
        return torch.arange(x.shape[1]).to(x).expand(x.shape[1], -1)


SOFTMAX_MEAN = Exercise(
    id="softmax_mean",
    lesson=LESSON,
    call="softmax_mean(x)",
    points=2.0,
    cases=_softmax_mean_cases,
    probe=FunctionProbe(gradients=("x",), watch=True, extra=see_changes),
    expect=expect_mean,
    reference=softmax_mean,
    notes=_softmax_note,
    uses=("softmax", "masked_softmax"),
    same_as=("naive_mean", "tril_mean"),
    properties=MEAN_PROPERTIES,
    misconceptions=Misconceptions.of(
        m.ZeroFill.but(scores=lambda self, x: _square(x, 1.0)).on(
            SoftmaxMean,
            what="Hidden scores are lower than visible ones by 1 only, as in the softmax of a "
            "triangle of ones: their weights are e⁻¹ to 1, not 0.",
            why="The future keeps a weight, and so it leaks into every token.",
            mend="Visible scores are 0, hidden ones -inf.",
        ),
        m.MaskInverted.on(
            SoftmaxMean,
            what="The mask is the wrong way round: only the future is left, and the last token "
            "sees nothing (NaN).",
            mend="`True` means hidden; `tril(ones)` marks what may be *seen*. Which triangle is "
            "the future?",
        ),
        m.NoMask.on(
            SoftmaxMean,
            what="Nothing is hidden: every token got the mean of the whole sequence.",
            mend="Which entries of the (T, T) scores belong to the future, and are they at -inf?",
        ),
        m.BlindToItself.on(
            SoftmaxMean,
            what="The mask hides the diagonal too: token 0 sees nothing, and its softmax is NaN.",
            why="The softmax of nothing but -inf is 0/0.",
            mend="`triu(…, diagonal=?)`: the first diagonal that belongs to the future is 1.",
        ),
        m.SeesNextToken,
        m.PastHidden.on(
            SoftmaxMean,
            what="You hid the past: every token averages itself and its future.",
            why="`True` means hidden, and it is the future that must be hidden.",
        ),
        m.MaskAfterSoftmax.on(
            SoftmaxMean,
            what="The triangle was cut after the softmax: the rows no longer sum to 1.",
            why="Every row still shares its weight among T tokens, but only t + 1 are left.",
            mend="Hide first, then softmax: `masked_softmax` does it in that order.",
        ),
        means.Float32Weights.but(scores=lambda self, x: torch.zeros(x.shape[1], x.shape[1])).on(
            SoftmaxMean,
            what="The scores are float32 whatever `x` is, and PyTorch refuses to mix dtypes.",
            mend="`x.new_zeros(T, T)` makes zeros that fit `x`.",
        ),
        m.OverQueries.on(
            SoftmaxMean,
            why="A row says how one token mixes the others, so it is the row that must sum to 1.",
            mend="The keys are the last dimension.",
        ),
        means.Transposed.but(collected=lambda self, weights, x: weights.mT @ x).on(
            SoftmaxMean, mend="Leave the weights as the softmax gives them."
        ),
        means.WeightsOnTheRight,
        m.WeightsReturned,
        ScoresFromTokens,
        ScoresFromTokens.but(scores=lambda self, x: x @ x.mT / x.shape[-1] ** 0.5),
        TokensAsScores,
        TokensAsScores.but(__call__=lambda self, x: torch.softmax(x, dim=-1)),
        UnequalScores,
        first.MaskOfNumbers,
        *(
            m.FillNotLowEnough.but(fill=fill).on(
                SoftmaxMean,
                what=NOT_INFINITE,
                why="The future keeps a little weight, and so it leaks into every token.",
            )
            for fill in (-5.0, -10.0)
        ),
        m.InfinityTimesZero,
        m.PlusInfinity,
        m.LastTokenOnly,
        means.MixesTheBatch,
        means.FirstSequenceOnly.on(SoftmaxMean, mend="Is it all of `x` that you multiply with?"),
        means.OverTheBatch,
        m.ChangesItsInput.on(SoftmaxMean, mend="Return the product; it is a new tensor."),
        m.Float32Result,
        m.CutOff,
        means.FixedSize.but(future=means.eight, scores=lambda self, x: x.new_zeros(8, 8)),
        on=SoftmaxMean,
    ),
    hints=(
        "If all scores are equal, the softmax gives all visible keys the same weight.",
        "Scores: `x.new_zeros(T, T)`. Hidden: everything above the diagonal, as a bool matrix.",
        "`torch.ones(T, T, dtype=torch.bool).triu(diagonal=1)` is the future. Then "
        "`masked_softmax(scores, hidden) @ x`.",
    ),
    other_way="""\
# Scores and mask in one: -inf above the diagonal, and triu leaves 0 on it and below.
def softmax_mean(x):
    T = x.shape[1]
    scores = x.new_full((T, T), float("-inf")).triu(diagonal=1)  # (T, T)
    return scores.softmax(dim=-1) @ x""",
)

EXERCISES = (SOFTMAX, MASKED_SOFTMAX, SOFTMAX_MEAN)
