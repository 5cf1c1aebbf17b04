"""Lesson 02: the same mean by one matrix product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..attention import causal_mean_weights, tril_mean
from ..checking.exercise import Behaviour, Case, Exercise, Misconception, Observation
from ..checking.probing import FunctionProbe, Operators, fresh
from .averages import MEAN_BEHAVIOURS, expect_mean, mean_cases, see_changes
from .drawing import Draw

LESSON = "1-averages/02_tril_matmul"


# ---------------------------------------------------------------- causal_mean_weights


def _weights_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    small, large = sorted(draw.sizes(2, 5, 9))
    return [
        Case("T = 3", {"T": 3}),
        Case("one token", {"T": 1}),
        Case(f"T = {small}", {"T": small}),
        Case(f"T = {large + 9}", {"T": large + 9}),
        Case(f"T = {120 + large}", {"T": 120 + large}),
    ]


def _expect_weights(case: Case) -> dict[str, Tensor]:
    T = case["T"]
    row, column = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return {"out": torch.where(column <= row, 1.0 / (row + 1).double(), 0.0).float()}


def _rows_sum_to_one(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    return bool(((seen.tensors["out"].sum(1) - 1).abs() < 1e-5).all())


def _future_is_zero(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    return bool((seen.tensors["out"].triu(1) == 0).all()) if case["T"] > 1 else None


def _shares_are_equal(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    out = seen.tensors["out"]
    past = torch.ones_like(out).tril() > 0
    return bool(((out - out[:, :1]).abs()[past] < 1e-5).all())


def _sees_itself(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    return bool((seen.tensors["out"].diagonal() > 0).all())


def _not_divided(T):
    return torch.tril(torch.ones(T, T))


def _columns(T):
    w = torch.tril(torch.ones(T, T))
    return w / w.sum(0)


def _without_keepdim(T):
    w = torch.tril(torch.ones(T, T))
    return w / w.sum(1)


def _upper(T):
    w = torch.triu(torch.ones(T, T))
    return w / w.sum(1, keepdim=True)


def _transposed(T):
    return causal_mean_weights(T).T


def _divided_by_T(T):
    return torch.tril(torch.ones(T, T)) / T


def _divided_by_index(T):
    return torch.tril(torch.ones(T, T)) / torch.arange(T)[:, None]


def _divided_by_everything(T):
    w = torch.tril(torch.ones(T, T))
    return w / w.sum()


def _full(T):
    return torch.full((T, T), 1.0 / T)


def _below(T):
    w = torch.tril(torch.ones(T, T), diagonal=-1)
    return w / w.sum(1, keepdim=True)


def _above(T):
    w = torch.tril(torch.ones(T, T), diagonal=1)
    return w / w.sum(1, keepdim=True)


def _softmax_of_tril(T):
    return torch.softmax(torch.tril(torch.ones(T, T)), dim=-1)


def _fixed_three(T):
    return causal_mean_weights(3)


def _with_batch(T):
    return causal_mean_weights(T)[None]


def _double(T):
    return causal_mean_weights(T).double()


def _integers(T):
    w = torch.tril(torch.ones(T, T, dtype=torch.long))
    return w // w.sum(1, keepdim=True)


CAUSAL_MEAN_WEIGHTS = Exercise(
    id="causal_mean_weights",
    lesson=LESSON,
    call="causal_mean_weights(T)",
    points=1.0,
    cases=_weights_cases,
    probe=FunctionProbe(),
    expect=_expect_weights,
    reference=causal_mean_weights,
    behaviours=(
        Behaviour("sees_itself", "Every token gives itself some weight", _sees_itself, gate=True),
        Behaviour("rows", "Every row sums to 1", _rows_sum_to_one, credit=True),
        Behaviour("future", "Columns after t are 0 in row t", _future_is_zero, credit=True),
        Behaviour("equal", "The tokens up to t have equal weights", _shares_are_equal, credit=True),
    ),
    misconceptions=(
        Misconception(
            "not_divided",
            _not_divided,
            "The rows hold ones: the product with `x` adds tokens up instead of averaging them.",
            "Row t sums to t + 1, so later tokens come out bigger only because they are later.",
            "What must each row be divided by so that it sums to 1?",
        ),
        Misconception(
            "columns_normalised",
            _columns,
            "You made the *columns* sum to 1: each row was divided by numbers that belong to "
            "columns.",
            "A row says how one token mixes the others, so it is the row that must sum to 1.",
            "`sum(0)` runs down the columns. Which dimension runs along a row?",
        ),
        Misconception(
            "sum_without_keepdim",
            _without_keepdim,
            "You divided by numbers of shape (T,), and broadcasting laid them along the columns.",
            "Broadcasting lines shapes up from the right, so nothing complains and each number is "
            "divided by what belongs to another row.",
            "What shape must the divisors have to stand beside the rows? `keepdim` helps.",
        ),
        Misconception(
            "upper_triangle",
            _upper,
            "You kept the upper triangle: row t holds the columns from t on.",
            "Every token would see only its future, the part it should not know.",
            "`tril` keeps the lower triangle, `triu` the upper. In row 0, which column may stay?",
        ),
        Misconception(
            "transposed",
            _transposed,
            "Rows and columns are swapped.",
            "In `weights @ x`, row t of the weights makes token t; in yours it is column t.",
            "Write row 2 for T = 3 by hand and compare.",
        ),
        Misconception(
            "divided_by_length",
            _divided_by_T,
            "You divided every row by T.",
            "Only the last row averages T tokens; all others come out too small.",
            "How many ones are there in row t?",
        ),
        Misconception(
            "divided_by_index",
            _divided_by_index,
            "You divided row t by `t`, which counts from 0: row 0 is divided by zero.",
            "Row 0 becomes infinite or NaN, and all others come out too big.",
            "Positions count from 0. How many ones are there in row 0?",
        ),
        Misconception(
            "divided_by_everything",
            _divided_by_everything,
            "You divided by the sum of the whole matrix.",
            "All rows together sum to 1, so each single row sums to far less.",
            "Each row has a sum of its own: which dimension does it run along?",
        ),
        Misconception(
            "no_triangle",
            _full,
            "Every entry is 1/T: there is no triangle, so every token sees all tokens.",
            "A model that predicts the next token must not see it.",
            "Row 0 may see token 0 only. Which function cuts a triangle out of a matrix?",
        ),
        Misconception(
            "diagonal_missing",
            _below,
            "The diagonal is gone, so no token sees itself; row 0 is 0/0, which is NaN.",
            "One NaN in the weights makes every channel of that token NaN.",
            "Look at the `diagonal` argument of `torch.tril`.",
        ),
        Misconception(
            "one_too_many",
            _above,
            "The triangle reaches one column too far: token t also sees token t + 1.",
            "That one token is exactly the one a language model has to predict.",
            "Look at the `diagonal` argument of `torch.tril`.",
        ),
        Misconception(
            "softmax_of_zeros",
            _softmax_of_tril,
            "You took the softmax of the triangle: its zeros became e⁰ = 1, not 0.",
            "The future keeps a weight, and so it leaks into every token.",
            "A division is enough here. How the softmax can do it is the subject of lesson 03.",
        ),
        Misconception(
            "fixed_size",
            _fixed_three,
            "The matrix is 3 × 3 whatever T is.",
            "The next sequence has another length.",
            "Use `T` where the example has 3.",
        ),
        Misconception(
            "batch_dimension",
            _with_batch,
            "The result has a batch dimension; (T, T) was asked for.",
            "Broadcasting supplies the batch later, so that one matrix serves all sequences.",
            "Leave the shape (T, T).",
        ),
        Misconception(
            "float64_result",
            _double,
            "The result is float64; float32 was asked for.",
            "PyTorch refuses to multiply float64 weights with a float32 `x`.",
            "`torch.ones(T, T)` is float32 by itself.",
        ),
        Misconception(
            "integer_division",
            _integers,
            "Whole numbers divided by `//` leave no fractions: 1 // 2 is 0.",
            "All rows but the first lose their weights.",
            "Make the ones floating point and divide by `/`.",
        ),
    ),
    hints=(
        "For T = 3 the rows are (1, 0, 0), (1/2, 1/2, 0) and (1/3, 1/3, 1/3).",
        "`torch.tril(torch.ones(T, T))` has the zeros in the right places. What does each row sum "
        "to?",
        "Divide by `weights.sum(dim=1, keepdim=True)`: shape (T, 1), one number beside each row.",
    ),
)


# ---------------------------------------------------------------- tril_mean


# A loop of 28 to 37 more steps runs at least as many operators more; a product that PyTorch takes
# apart differently for other sizes, one or two.
SLACK = 6


def _count_operators(answer: Any, x: Tensor) -> int:
    operators = Operators()
    with operators.watch():
        answer(fresh(x))
    return len(operators.executed)


def _see_loops(answer: Any, case: Case, seen: Observation) -> None:
    see_changes(answer, case, seen)
    if "count" not in case.options:
        return
    few, more_tokens, more_sequences, more = (
        _count_operators(answer, x) for x in case.options["count"]
    )
    seen.facts["traits"] = {
        "loop over T": more_tokens - few > SLACK,
        "loop over B": more_sequences - few > SLACK,
        "loop": more - few > SLACK,
    }


def _no_loop(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    traits = seen.facts.get("traits")
    return not any(traits.values()) if traits else None


def _tril_cases(seed: int) -> list[Case]:
    first, second, *rest = mean_cases(seed)
    draw = Draw(seed)
    # Small and large in each of B and T, so that no loop hides behind a size.
    B, T, C = draw.integer(2, 4), draw.integer(3, 6), draw.integer(2, 9)
    more = draw.integer(30, 40)
    shapes = ((B, T, C), (B, T + more, C), (B + more, T, C), (B + more, T + more, C))
    count = [draw.normal(*shape) for shape in shapes]
    return [first, Case(second.name, second.inputs, options={"count": count}), *rest]


PRODUCTS = {"mm", "bmm", "matmul", "einsum", "baddbmm", "addmm", "addbmm", "mv", "linear"}


def _matmul_note(cases: Any, observations: Any) -> list[str]:
    seen = observations[0] if observations else Observation()
    if "ops" not in seen.facts or PRODUCTS & set(seen.facts["ops"]):
        return []
    return [
        "You found a way without a loop and without a matrix product. It is right and costs "
        "nothing; the next lessons build on the product `weights @ x`, so look at that way too."
    ]


def _normalised(w: Tensor, dim: int = 1) -> Tensor:
    return w / w.sum(dim, keepdim=True)


def _lower(x: Tensor, diagonal: int = 0) -> Tensor:
    return torch.tril(x.new_ones(x.shape[1], x.shape[1]), diagonal)


def _looped(x):
    return torch.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], dim=1)


def _looped_twice(x):
    return torch.stack([_looped(sequence[None])[0] for sequence in x])


def _batch_loop(x):
    w = _normalised(_lower(x))
    return torch.stack([w @ x[b] for b in range(x.shape[0])])


def _in_place(x):
    x.copy_(_normalised(_lower(x)) @ x)
    return x


def _fixed_weights(x):
    return causal_mean_weights(8).to(x.dtype) @ x


TRIL_MEAN = Exercise(
    id="tril_mean",
    lesson=LESSON,
    call="tril_mean(x)",
    points=2.0,
    cases=_tril_cases,
    probe=FunctionProbe(gradients=("x",), watch=True, extra=_see_loops),
    expect=expect_mean,
    reference=tril_mean,
    behaviours=(
        *MEAN_BEHAVIOURS,
        Behaviour(
            "no_loop",
            "The number of tensor operations grows with neither B nor T",
            _no_loop,
            breaks="The number of tensor operations grows with B or T: there is a loop",
        ),
    ),
    misconceptions=(
        Misconception(
            "loops_over_time",
            _looped,
            "The values are right, but a Python loop goes over the tokens.",
            "Every step waits for Python; a matrix product does all steps at once, on all cores.",
            "Row t of `causal_mean_weights(T)` already holds what step t of the loop does.",
        ),
        Misconception(
            "loops_over_batch",
            _batch_loop,
            "The values are right, but a Python loop goes over the sequences of the batch.",
            "A batch exists so that all its sequences go through in one operation.",
            "`(T, T) @ (B, T, C)`: what does broadcasting do with the missing B?",
        ),
        Misconception(
            "loops_over_both",
            _looped_twice,
            "The values are right, but two Python loops go over the sequences and the tokens, as "
            "in lesson 01.",
            "Every step waits for Python; a matrix product does all steps at once, on all cores.",
            "Row t of `causal_mean_weights(T)` already holds what step t of the loop does.",
        ),
        Misconception(
            "not_divided",
            lambda x: _lower(x) @ x,
            "The tokens are added up and not averaged: the rows of the weights don't sum to 1.",
            "Sums grow with the position: the last token would be the biggest.",
            "Divide each row of the triangle by the number of ones in it.",
        ),
        Misconception(
            "columns_normalised",
            lambda x: (_lower(x) / _lower(x).sum(0)) @ x,
            "The *columns* of the weights sum to 1, not the rows.",
            "A row says how one token mixes the others, so it is the row that must sum to 1.",
            "Which dimension runs along a row, 0 or 1?",
        ),
        Misconception(
            "sum_without_keepdim",
            lambda x: (_lower(x) / _lower(x).sum(1)) @ x,
            "You divided by numbers of shape (T,), and broadcasting laid them along the columns.",
            "Nothing complains, and each number is divided by what belongs to another row.",
            "What shape must the divisors have to stand beside the rows? `keepdim` helps.",
        ),
        Misconception(
            "upper_triangle",
            lambda x: _normalised(_lower(x).T) @ x,
            "You used the upper triangle: every token averages itself and its future.",
            "A model that predicts the next token must not see it.",
            "`tril` keeps the lower triangle, `triu` the upper. Which one is the past?",
        ),
        Misconception(
            "transposed",
            lambda x: _normalised(_lower(x)).T @ x,
            "The weights are the right ones, but transposed.",
            "In `weights @ x`, row t of the weights makes token t; in yours it is column t.",
            "Multiply the 3 × 3 toy by hand, once with each.",
        ),
        Misconception(
            "divided_by_length",
            lambda x: _lower(x) @ x / x.shape[1],
            "You divided every row by T.",
            "Only the last token averages T tokens; all others come out too small.",
            "How many ones are there in row t?",
        ),
        Misconception(
            "no_triangle",
            lambda x: x.new_full((x.shape[1], x.shape[1]), 1 / x.shape[1]) @ x,
            "There is no triangle: every token got the mean of the whole sequence.",
            "A model that predicts the next token must not see it.",
            "Which function cuts a triangle out of a matrix of ones?",
        ),
        Misconception(
            "diagonal_missing",
            lambda x: _normalised(_lower(x, -1)) @ x,
            "The diagonal is gone, so no token sees itself; row 0 is 0/0, which is NaN.",
            "The NaN of row 0 makes every channel of token 0 NaN.",
            "Look at the `diagonal` argument of `torch.tril`.",
        ),
        Misconception(
            "one_too_many",
            lambda x: _normalised(_lower(x, 1)) @ x,
            "The triangle reaches one column too far: token t also sees token t + 1.",
            "That one token is exactly the one a language model has to predict.",
            "Look at the `diagonal` argument of `torch.tril`.",
        ),
        Misconception(
            "weights_on_the_right",
            lambda x: x @ _normalised(_lower(x)),
            "You wrote `x @ weights`: the columns of `x` are channels, so the weights would mix "
            "channels, and C and T don't even fit.",
            "Rows of the left matrix choose what is mixed: it must be the tokens.",
            "`(T, T) @ (T, C)` fits. On which side do the weights stand?",
        ),
        Misconception(
            "triangle_of_x",
            lambda x: torch.tril(x),
            "You cut the triangle out of `x` itself: it is made of tokens and channels, not of "
            "tokens and tokens.",
            "That sets channels to zero and mixes nothing.",
            "The triangle belongs to a (T, T) matrix of weights, which then multiplies `x`.",
        ),
        Misconception(
            "mixes_the_batch",
            lambda x: (_normalised(_lower(x)) @ x).mean(0, keepdim=True).expand_as(x).clone(),
            "The result is the same for all sequences of the batch: they were averaged too.",
            "The sequences of a batch are strangers: they share the computation, not the meaning.",
            "`(T, T) @ (B, T, C)` leaves B alone.",
        ),
        Misconception(
            "float32_weights",
            lambda x: causal_mean_weights(x.shape[1]) @ x,
            "The weights are float32 whatever `x` is, and PyTorch refuses to mix dtypes.",
            "Half of a model in another precision stops with an error.",
            "`x.new_ones(T, T)`, or `.to(x.dtype)`, makes weights that fit.",
        ),
        Misconception(
            "casts_the_result",
            lambda x: causal_mean_weights(x.shape[1]) @ x.float(),
            "The result is float32 whatever `x` is.",
            "Whoever computes in float64 loses half of the digits here without a word.",
            "Bring the weights to the dtype of `x`, not `x` to the dtype of the weights.",
        ),
        Misconception(
            "changes_its_input",
            _in_place,
            "The result is right, but it was written into `x` itself.",
            "Whoever called the function still holds `x`, and it now holds something else.",
            "Return the product; it is a new tensor.",
        ),
        Misconception(
            "fixed_size",
            _fixed_weights,
            "The weights have a fixed size, 8 × 8 as in the example.",
            "The next sequence has another length.",
            "Take T from `x.shape`.",
        ),
        Misconception(
            "last_token_only",
            lambda x: (_normalised(_lower(x)) @ x)[:, -1],
            "You return the last token only; every token was asked for.",
            "Each position predicts its own next token, so each needs its own mean.",
            "`weights @ x` has the shape that was asked for.",
        ),
    ),
    notes=_matmul_note,
    hints=(
        "`causal_mean_weights(T)` is a (T, T) matrix, and one sequence is (T, C). What shape does "
        "their product have, and what is in its row t?",
        "`(T, T) @ (B, T, C)`: PyTorch repeats the matrix for each sequence of the batch.",
        "Take T from `x.shape`, make the weights, bring them to the dtype and device of `x` with "
        "`.to(x)`, and return `weights @ x`.",
    ),
)

EXERCISES = (CAUSAL_MEAN_WEIGHTS, TRIL_MEAN)
