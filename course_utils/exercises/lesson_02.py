"""Lesson 02: the same mean by one matrix product."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from ..attention import causal_mean_weights, tril_mean
from ..checking import Case, Exercise, FunctionProbe, Misconceptions, Observation, Property
from ..checking.calling import differentiate, fresh
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.watching import Operators
from .kit import means
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from .kit.steps import Mean, MeanWeights

LESSON = "1-averages/02_tril_matmul"
DIAGONAL = "Look at the `diagonal` argument of `torch.tril`."
TRIANGLES = "`tril` keeps the lower triangle, `triu` the upper. In row 0, which column may stay?"


# ---------------------------------------------------------------- causal_mean_weights


def _weights_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    small, large = sorted(draw.sizes(2, 5, 9))
    return [
        Case("T = 3", {"T": 3}, roles={"typical"}),
        Case("one token", {"T": 1}, roles={"small"}),
        Case(f"T = {small}", {"T": small}),
        Case(f"T = {large + 9}, by name", {"T": large + 9}, options={"keywords": ("T",)}),
        Case(f"T = {120 + large}", {"T": 120 + large}, options={"once": True}),
        Case(f"T = {300 + large}", {"T": 300 + large}, options={"once": True}),
    ]


def _expect_weights(case: Case) -> dict[str, Tensor]:
    T = case["T"]
    row, column = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return {"out": torch.where(column <= row, 1.0 / (row + 1).double(), 0.0).float()}


LONG = 1_100


def _see_long(answer: Any, case: Case, seen: Observation) -> None:
    """How far each row is off for more tokens than any table would have been made for: only where
    that takes no more operators than for a few, as half a million steps in Python take seconds."""
    if "typical" not in case.roles:
        return
    operators = [Operators(), Operators()]
    for counted, T in zip(operators, (4, 20), strict=True):
        with counted.watch():
            answer(T)
    few, more = (len(o.executed) for o in operators)
    if more > few + 2:
        return
    out, off = answer(LONG), torch.zeros(0)
    if out.shape == (LONG, LONG):
        counts = torch.arange(1.0, LONG + 1, device=out.device)[:, None]
        off = (out * counts - torch.ones_like(out).tril()).abs().amax(1)
    seen.put("off", off)


def _any_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]) or "off" not in seen.tensors:
        return None
    if seen.tensors["off"].shape != (LONG,):
        return f"has another shape for {LONG:,}"
    rows = (seen.tensors["off"] > 1e-4).nonzero().flatten().tolist()
    return f"is not right in row {rows[0]:,} of {LONG:,}" if rows else True


def _rows_sum_to_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"].sum(1), torch.ones(case["T"]))


def _future_is_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].triu(1) == 0).all()) if case["T"] > 1 else None


def _shares_are_equal(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out = seen.tensors["out"]
    past = torch.ones_like(out).tril() > 0
    return bool(((out - out[:, :1]).abs()[past] < 1e-5).all())


def _sees_itself(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].diagonal() > 0).all())


def _divided_by_hand(self, visible):
    return visible / torch.arange(1, len(visible) + 1)[:, None]


class BatchDimension(m.Mistake):
    """The result has a batch dimension; (T, T) was asked for.

    Why: Broadcasting supplies the batch later, so that one matrix serves all sequences.
    Mend: Leave the shape (T, T).
    """

    def __call__(self, T):
        return super().__call__(T)[None]


class Float64Result(m.Mistake):
    """The result is float64; float32 was asked for.

    Why: PyTorch refuses to multiply float64 weights with a float32 `x`.
    Mend: `torch.ones(T, T)` is float32 by itself.
    """

    def __call__(self, T):
        return super().__call__(T).double()


class IntegerDivision(m.Mistake):
    """Whole numbers divided by `//` leave no fractions: 1 // 2 is 0.

    Why: All rows but the first lose their weights.
    Mend: Make the ones floating point and divide by `/`.
    """

    def shares(self, visible):
        return visible.long() // visible.long().sum(1, keepdim=True)


class ZeroFill(m.Mistake):
    """You took the softmax of the triangle: its zeros became e⁰ = 1, not 0.

    Why: The future keeps a weight, and so it leaks into every token.
    Mend: A division is enough here. How the softmax can do it is the subject of lesson 03.
    """

    def shares(self, visible):
        return torch.softmax(visible, dim=-1)


CAUSAL_MEAN_WEIGHTS = Exercise(
    id="causal_mean_weights",
    lesson=LESSON,
    call="causal_mean_weights(T)",
    points=1.0,
    cases=_weights_cases,
    probe=FunctionProbe(extra=_see_long),
    expect=_expect_weights,
    reference=causal_mean_weights,
    properties=(
        Property("sees_itself", "Every token gives itself some weight", _sees_itself, gate=True),
        Property("rows", "Every row sums to 1", _rows_sum_to_one, credit=True),
        Property("future", "Columns after t are 0 in row t", _future_is_zero, credit=True),
        Property("equal", "The tokens up to t have equal weights", _shares_are_equal, credit=True),
        Property(
            "any_length",
            f"It holds for any number of tokens, {LONG:,} for one",
            _any_length,
            role="typical",
        ),
    ),
    misconceptions=Misconceptions.of(
        means.NotDivided.on(
            MeanWeights,
            what="The rows hold ones: the product with `x` adds tokens up instead of averaging.",
            mend="What must each row be divided by so that it sums to 1?",
        ),
        means.SumWithoutKeepdim,
        means.ColumnsNormalised,
        m.BlindToItself.on(
            MeanWeights,
            what="The diagonal is gone, so no token sees itself; row 0 is 0/0, which is NaN.",
            why="One NaN in the weights makes every channel of that token NaN.",
            mend=DIAGONAL,
        ),
        m.BlindToItself.but(shares=_divided_by_hand).on(
            MeanWeights,
            what="Row t is filled up to column t − 1 only: no token sees itself, and row 0 is all "
            "zeros.",
            why="Token 0 would become zero, and each other one too small and without itself.",
            mend="`range(t)` stops before t; so do a slice `:t` and `tril` with diagonal -1. Which "
            "columns belong to row t?",
        ),
        m.SeesNextToken.on(
            MeanWeights,
            what="The triangle reaches one column too far: token t also sees token t + 1.",
            mend=DIAGONAL,
        ),
        m.PastHidden.on(
            MeanWeights,
            what="You kept the upper triangle: row t holds the columns from t on.",
            why="Every token would see only itself and its future, which it should not know.",
            mend=TRIANGLES,
        ),
        m.NoMask.on(
            MeanWeights,
            what="Every entry is 1/T: there is no triangle, so every token sees all tokens.",
            why="A model that predicts the next token must not see it.",
            mend="Row 0 may see token 0 only. Which function cuts a triangle out of a matrix?",
        ),
        means.DividedByLength.on(
            MeanWeights,
            what="You divided every row by T.",
            why="Only the last row averages T tokens; all others come out too small.",
            mend="How many ones are there in row t?",
        ),
        means.Transposed,
        means.DividedByIndex.but(
            shares=lambda self, visible: visible / torch.arange(len(visible))[:, None]
        ).on(
            MeanWeights,
            what="You divided row t by `t`, which counts from 0: row 0 is divided by zero.",
            why="Row 0 becomes infinite and NaN, and all others come out too big.",
            mend="Positions count from 0. How many ones are there in row 0?",
        ),
        means.DividedByOneMore.on(
            MeanWeights, what="You divided row t by t + 2, one more than it has ones."
        ),
        means.DividedByEverything,
        ZeroFill,
        means.FixedSize.on(MeanWeights, mend="Use `T` where the example has a number."),
        means.FixedSize.but(future=means.eight).on(
            MeanWeights, mend="Use `T` where the example has a number."
        ),
        BatchDimension,
        Float64Result,
        IntegerDivision,
        on=MeanWeights,
    ),
    hints=(
        "For T = 3 the rows are (1, 0, 0), (1/2, 1/2, 0) and (1/3, 1/3, 1/3).",
        "`torch.tril(torch.ones(T, T))` has the zeros in the right places. What does each row sum "
        "to?",
        "Divide by `weights.sum(dim=1, keepdim=True)`: shape (T, 1), one number beside each row.",
    ),
    other_way="""\
# The sums of the rows are known before: 1, 2, …, T. `None` makes a column of them.
def causal_mean_weights(T):
    counts = torch.arange(1, T + 1)[:, None]  # (T, 1)
    return torch.ones(T, T).tril() / counts""",
)


# ---------------------------------------------------------------- tril_mean


# A loop over many more tokens or sequences, in blocks too, runs at least as many operators more; a
# product that PyTorch takes apart differently for other sizes, one or two.
SLACK = 6


def _count_operators(answer: Any, x: Tensor) -> int:
    """How many run for the result and on the way back to its gradient."""
    answer(fresh(x))  # what is kept for this length is kept now
    given, operators = fresh(x, gradients=True) * 1.0, Operators()
    with operators.watch():
        out = answer(given)
        with contextlib.suppress(RuntimeError):  # of an answer that changed what it needs
            differentiate(out)
    return len(operators.executed)


def _see_loops(answer: Any, case: Case, seen: Observation) -> None:
    see_changes(answer, case, seen)
    if "count" not in case.options:
        return
    few, *more = (_count_operators(answer, x) for x in case.options["count"])
    loops = ("loop over T", "loop over B", "loop", "loop over blocks of T")
    seen.facts["traits"] = {
        name: count - few > SLACK for name, count in zip(loops, more, strict=True)
    }


def _no_loop(case: Case, seen: Observation, expected: Expected) -> Verdict:
    traits = seen.facts.get("traits")
    return not any(traits.values()) if traits else None


def _tril_cases(seed: int) -> list[Case]:
    *others, last = mean_cases(seed, many=2_050)
    draw = Draw(seed)
    # Small and large in each of B and T, so that no loop hides behind a size.
    B, T, C = draw.integer(2, 4), draw.integer(3, 6), draw.integer(2, 9)
    more = draw.integer(30, 40)
    shapes = (
        (B, T, C),
        (B, T + more, C),
        (200 + more, T, C),
        (B + more, T + more, C),
        (2, LONG + T, 3),
    )
    count = [draw.normal(*shape) for shape in shapes]
    # Behind longer texts: what fails for many tokens has failed there, on inputs of its own case.
    return [*others, Case(last.name, last.inputs, None, {"count": count}, last.roles)]


PRODUCTS = {"mm", "bmm", "matmul", "einsum", "baddbmm", "addmm", "addbmm", "mv", "linear"}


def _matmul_note(cases: Any, observations: Any) -> list[str]:
    seen = observations[0] if observations else Observation()
    if "ops" not in seen.facts or PRODUCTS & set(seen.facts["ops"]):
        return []
    return [
        "You found a way without a loop and without a matrix product. It is right and costs "
        "nothing; the next lessons build on the product `weights @ x`, so look at that way too."
    ]


class LoopsOverTime(m.Mistake):
    """The values are right, but a Python loop goes over the tokens.

    Why: Every step waits for Python; a matrix product does all steps at once, on all cores.
    Mend: Row t of `causal_mean_weights(T)` already holds what step t of the loop does.
    """

    def collected(self, shares, x):
        return torch.stack([shares[t] @ x for t in range(x.shape[1])], dim=1)


class LoopsOverBoth(m.Mistake):
    """The values are right, but two Python loops go over the sequences and the tokens, as in
    lesson 01.

    Why: Every step waits for Python; a matrix product does all steps at once, on all cores.
    Mend: Row t of `causal_mean_weights(T)` already holds what step t of the loop does.
    """

    def collected(self, shares, x):
        return torch.stack([torch.stack([row @ x[b] for row in shares]) for b in range(len(x))])


class LoopsOverBatch(m.Mistake):
    """The values are right, but a Python loop goes over the sequences of the batch.

    Why: A batch exists so that all its sequences go through in one operation.
    Mend: `(T, T) @ (B, T, C)`: what does broadcasting do with the missing B?
    """

    def collected(self, shares, x):
        return torch.stack([shares @ x[b] for b in range(x.shape[0])])


def triangle_of_x(x):
    """You cut the triangle out of `x` itself: it is made of tokens and channels, not of tokens and
    tokens.

    Why: That sets channels to zero and mixes nothing.
    Mend: The triangle belongs to a (T, T) matrix of weights, which then multiplies `x`.
    """
    return torch.tril(x)


def batch_for_length(x):
    """Your weights have as many rows as the batch has sequences: `x.shape[0]` is B, not T.

    Why: A row of the weights belongs to a token, so there must be T of them.
    Mend: In `(B, T, C)`, at which place does T stand? Places count from 0.
    """
    return causal_mean_weights(x.shape[0]).to(x) @ x


TRIL_MEAN = Exercise(
    id="tril_mean",
    lesson=LESSON,
    call="tril_mean(x)",
    points=2.0,
    cases=_tril_cases,
    probe=FunctionProbe(gradients=("x",), watch=True, extra=_see_loops),
    expect=expect_mean,
    reference=tril_mean,
    uses=("causal_mean_weights",),
    same_as=("naive_mean", "softmax_mean"),
    properties=(
        *MEAN_PROPERTIES,
        Property(
            "no_loop",
            "The number of tensor operations grows with neither B nor T",
            _no_loop,
            breaks="The number of tensor operations grows with B or T: there is a loop",
        ),
    ),
    misconceptions=Misconceptions.of(
        LoopsOverTime,
        LoopsOverBatch,
        LoopsOverBoth,
        means.NotDivided.on(Mean, mend="Divide each row of the triangle by the ones in it."),
        means.SumWithoutKeepdim,
        means.ColumnsNormalised,
        means.Float32Weights,
        m.BlindToItself.on(
            Mean,
            what="The diagonal is gone, so no token sees itself; row 0 is 0/0, which is NaN.",
            why="The NaN of row 0 makes every channel of token 0 NaN.",
            mend=DIAGONAL,
        ),
        m.SeesNextToken.on(
            Mean,
            what="The triangle reaches one column too far: token t also sees token t + 1.",
            mend=DIAGONAL,
        ),
        m.PastHidden.on(
            Mean,
            what="You used the upper triangle: every token averages itself and its future.",
            why="A model that predicts the next token must not see it.",
            mend=TRIANGLES,
        ),
        means.WeightsOnTheRight,
        means.Transposed.on(Mean, mend="Multiply the 3 × 3 toy by hand, once with each."),
        m.NoMask.on(
            Mean,
            what="There is no triangle: every token got the mean of the whole sequence.",
            mend="Which function cuts a triangle out of a matrix of ones?",
        ),
        means.DividedByLength.on(Mean, mend="How many ones are there in row t?"),
        means.DividedByIndex,
        means.DividedByIndex.but(
            shares=lambda self, visible: visible / torch.arange(len(visible)).to(visible)[:, None],
            collected=Mean.collected,
        ),
        means.DividedByOneMore,
        means.DividedByEverything,
        ZeroFill,
        triangle_of_x,
        m.WeightsReturned,
        m.LastTokenOnly.on(
            Mean,
            what="You return the last token only; every token was asked for.",
            why="Each position predicts its own next token, so each needs its own mean.",
            mend="`weights @ x` has the shape that was asked for.",
        ),
        means.MixesTheBatch.on(
            Mean,
            what="The result is the same for all sequences of the batch: they were averaged too.",
            mend="`(T, T) @ (B, T, C)` leaves B alone.",
        ),
        means.FirstSequenceOnly.on(Mean, mend="Is it all of `x` that you multiply with?"),
        means.OverTheBatch,
        m.Float32Result.on(
            Mean, mend="Bring the weights to the dtype of `x`, not `x` to that of the weights."
        ),
        m.ChangesItsInput.on(Mean, mend="Return the product; it is a new tensor."),
        m.CutOff,
        means.FixedSize.but(future=means.eight),
        batch_for_length,
        on=Mean,
    ),
    notes=_matmul_note,
    hints=(
        "`causal_mean_weights(T)` is a (T, T) matrix, and one sequence is (T, C). What shape does "
        "their product have, and what is in its row t?",
        "`(T, T) @ (B, T, C)`: PyTorch repeats the matrix for each sequence of the batch.",
        "Take T from `x.shape`, make the weights, bring them to the dtype and device of `x` with "
        "`.to(x)`, and return `weights @ x`.",
    ),
    other_way="""\
# einsum names every dimension and adds up along those that the result has not: here s.
def tril_mean(x):
    weights = causal_mean_weights(x.shape[1]).to(x)
    return torch.einsum("ts,bsc->btc", weights, x)""",
)

EXERCISES = (CAUSAL_MEAN_WEIGHTS, TRIL_MEAN)
