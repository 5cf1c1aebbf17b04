"""Lesson 01: every token as the mean of all tokens so far, with loops."""

from __future__ import annotations

import torch
from torch import Tensor

from ..attention import naive_mean
from ..checking.exercise import Case, Exercise, Misconception
from ..checking.probing import FunctionProbe, probe_quiz
from .averages import MEAN_BEHAVIOURS, expect_mean, mean_cases, see_changes

LESSON = "1-averages/01_naive_mean"


def _loop(x: Tensor, rows) -> Tensor:
    """The double loop with another choice of rows to average for token t."""
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            out[b, t] = rows(x, b, t)
    return out


def _future(x):
    return _loop(x, lambda x, b, t: x[b].mean(0))


def _excludes_itself(x):
    return _loop(x, lambda x, b, t: x[b, :t].mean(0))


def _excludes_itself_from_zero(x):
    return _loop(x, lambda x, b, t: x[b, :t].mean(0) if t else torch.zeros_like(x[b, 0]))


def _one_too_many(x):
    return _loop(x, lambda x, b, t: x[b, : t + 2].mean(0))


def _from_here_on(x):
    return _loop(x, lambda x, b, t: x[b, t:].mean(0))


def _sum(x):
    return x.cumsum(1)


def _divides_by_T(x):
    return x.cumsum(1) / x.shape[1]


def _divides_by_t(x):
    return x.cumsum(1) / torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None]


def _divides_by_one_more(x):
    return x.cumsum(1) / torch.arange(2, x.shape[1] + 2).to(x)[:, None]


def _first_token_left_out(x):
    out = naive_mean(x)
    out[:, 0] = 0
    return out


def _mean_of_everything(x):
    return _loop(x, lambda x, b, t: x[b, : t + 1].mean())


def _over_the_batch(x):
    return _loop(x, lambda x, b, t: x[: b + 1, t].mean(0))


def _first_sequence_only(x):
    return _loop(x, lambda x, b, t: x[0, : t + 1].mean(0))


def _mixes_the_batch(x):
    return _loop(x, lambda x, b, t: x[:, : t + 1].mean((0, 1)))


def _mean_of_means(x):
    out = x.clone()
    for t in range(1, x.shape[1]):
        out[:, t] = (out[:, t - 1] + x[:, t]) / 2
    return out


def _overwrites(x):
    for t in range(x.shape[1]):
        x[:, t] = x[:, : t + 1].mean(1)
    return x


def _in_place(x):
    x.copy_(naive_mean(x.detach().clone()))
    return x


def _float32(x):
    out = torch.zeros(x.shape)
    for t in range(x.shape[1]):
        out[:, t] = x[:, : t + 1].mean(1)
    return out


def _fixed_sizes(x):
    out = torch.zeros_like(x)
    for b in range(4):
        for t in range(8):
            out[b, t] = x[b, : t + 1].mean(0)
    return out


def _cut_off(x):
    return _loop(x, lambda x, b, t: torch.tensor(x[b, : t + 1].mean(0).tolist()).to(x.dtype))


def _last_only(x):
    return x.mean(1)


NAIVE_MEAN = Exercise(
    id="naive_mean",
    lesson=LESSON,
    call="naive_mean(x)",
    points=2.0,
    cases=mean_cases,
    probe=FunctionProbe(gradients=("x",), extra=see_changes),
    expect=expect_mean,
    reference=naive_mean,
    behaviours=MEAN_BEHAVIOURS,
    misconceptions=(
        Misconception(
            "includes_future",
            _future,
            "Every token got the mean of the whole sequence, tokens after it included.",
            "A model that predicts the next token must not see it: it would learn to copy.",
            "Which tokens may token `t` look at? Write that slice down for t = 0.",
        ),
        Misconception(
            "excludes_itself",
            _excludes_itself,
            "Token `t` was left out of its own mean; token 0 had nothing to average, hence NaN.",
            "The mean of no numbers is NaN, and one NaN spreads to everything computed from it.",
            "A slice `a:b` stops before b. What must b be so that token `t` is in?",
        ),
        Misconception(
            "excludes_itself_from_zero",
            _excludes_itself_from_zero,
            "Token `t` was left out of its own mean, and token 0 became zero.",
            "Each token should keep a share of itself; token 0 is the mean of one token: itself.",
            "A slice `a:b` stops before b. With the right b, token 0 needs no special case.",
        ),
        Misconception(
            "one_too_many",
            _one_too_many,
            "The mean reaches one token too far: token `t` also sees token t + 1.",
            "That one token is exactly the one a language model has to predict.",
            "A slice `a:b` stops before b. Count the rows you average for t = 0.",
        ),
        Misconception(
            "from_here_on",
            _from_here_on,
            "You averaged from token `t` to the end instead of from the start to token `t`.",
            "Now every token sees only its future, the part it should not know.",
            "Which end of the slice should `t` be on?",
        ),
        Misconception(
            "sum_not_mean",
            _sum,
            "You added the tokens up and did not divide.",
            "Sums grow with the position: the numbers of token 100 would be far bigger than those "
            "of token 1.",
            "How many tokens go into the sum for token `t`?",
        ),
        Misconception(
            "divides_by_all",
            _divides_by_T,
            "You divided by the length of the whole sequence instead of by the tokens so far.",
            "Early tokens shrink towards zero, and the more so the longer the text is.",
            "For t = 0 a single token is averaged. What should it be divided by?",
        ),
        Misconception(
            "divides_by_index",
            _divides_by_t,
            "You divided by `t`, which counts from 0: token 0 is divided by zero.",
            "The first token becomes infinite or NaN, and all others come out too big.",
            "Positions count from 0, tokens from 1. How many tokens are there up to position 0?",
        ),
        Misconception(
            "divides_by_one_more",
            _divides_by_one_more,
            "You divided by t + 2, one more than there are tokens up to position `t`.",
            "Every mean comes out too small; the first token, which is alone, is halved.",
            "How many tokens are there up to position 0?",
        ),
        Misconception(
            "first_token_left_out",
            _first_token_left_out,
            "Token 0 was never filled in: it is still zero, and all others are right.",
            "The first token would reach the next layer empty.",
            "Where does your loop over `t` start? Token 0 is the mean of one token: itself.",
        ),
        Misconception(
            "mean_of_everything",
            _mean_of_everything,
            "You averaged over the channels too: both channels of a token came out equal.",
            "Channels hold different features of a token; mixing them loses what they mean.",
            "`x[b, :t+1]` has two dimensions. Which one counts tokens?",
        ),
        Misconception(
            "over_the_batch",
            _over_the_batch,
            "You averaged along the batch instead of along time.",
            "The sequences of a batch are strangers: they share the computation, not the meaning.",
            "Which dimension of `(B, T, C)` is time?",
        ),
        Misconception(
            "first_sequence_only",
            _first_sequence_only,
            "Every sequence of the batch got the means of sequence 0.",
            "All but the first sequence then lose their own content.",
            "Where does `b` come in when you pick the rows?",
        ),
        Misconception(
            "mixes_the_batch",
            _mixes_the_batch,
            "The mean runs over all sequences of the batch at once.",
            "What a sentence becomes would then depend on which others happen to be beside it.",
            "The mean needs one sequence at a time, or one dimension only: which?",
        ),
        Misconception(
            "mean_of_means",
            _mean_of_means,
            "You averaged each token with the previous result: a mean of two, not of all.",
            "Old tokens then fade by half at every step instead of keeping an equal share.",
            "For three tokens each share is 1/3. What are the shares in yours?",
        ),
        Misconception(
            "overwrites_tokens",
            _overwrites,
            "You wrote the means into `x` itself, so later means were made from earlier means.",
            "The original tokens are gone while they are still needed, for the caller too.",
            "Give the result a tensor of its own.",
        ),
        Misconception(
            "changes_its_input",
            _in_place,
            "The result is right, but it was written into `x` itself.",
            "Whoever called the function still holds `x`, and it now holds something else.",
            "Build a new tensor, and leave out operations that end in an underscore.",
        ),
        Misconception(
            "float32_result",
            _float32,
            "The result is float32 whatever `x` is: `torch.zeros(…)` doesn't know about `x`.",
            "Half of a model in another precision, or on another device, stops with an error.",
            "There are ways to make zeros *like* a tensor.",
        ),
        Misconception(
            "fixed_sizes",
            _fixed_sizes,
            "The sizes 4, 8 and 2 of the example are written into the code.",
            "The next batch has other sizes, and then it fails or leaves rows empty.",
            "`B, T, C = x.shape` gives the sizes of whatever comes in.",
        ),
        Misconception(
            "cut_off",
            _cut_off,
            "The values are right, but the result is cut off from `x` (`.tolist()`, `.item()`, "
            "`.detach()`, `torch.no_grad()`).",
            "No gradient can flow back over the cut, so nothing before it could ever learn.",
            "Keep ordinary tensor operations all the way: `out[b, t] = …` takes a tensor.",
        ),
        Misconception(
            "last_token_only",
            _last_only,
            "You return one mean a sequence instead of one a token: T is gone from the shape.",
            "Every position needs its own mean of what came before it.",
            "`out` has the shape of `x`. Which loop or index fills its middle dimension?",
        ),
    ),
    hints=(
        "Write down by hand what `out[0, 0]`, `out[0, 1]` and `out[0, 2]` are for one sequence of "
        "three tokens. Which rows of `x` does each need?",
        "Start from `out = torch.zeros_like(x)` and fill `out[b, t]` in two loops, over `b` and "
        "over `t`. The rows that token `t` may see are `x[b, :t+1]`.",
        "`x[b, :t+1]` has shape (t+1, C). Its mean over dimension 0 has shape (C,), which is what "
        "`out[b, t]` takes.",
    ),
)


def _quiz_cases(seed: int) -> list[Case]:
    return [
        Case(
            "B, T, C = 4, 8, 2 and t = 2",
            {},
            options={
                "entries": ("x[b, :t+1]", "x[b, :t+1].mean(0)", "out"),
                "why": {
                    "x[b, :t+1]": "`b` picks one sequence and its dimension goes; positions 0, 1 "
                    "and 2 are three rows.",
                    "x[b, :t+1].mean(0)": "The mean over dimension 0 removes the three rows; the "
                    "channels stay.",
                    "out": "One mean a token: the shape of `x`.",
                },
                "ask": {
                    "x[b, :t+1]": "Does an index like `b` keep its dimension? Which positions "
                    "are in `:3`?",
                    "x[b, :t+1].mean(0)": "Which dimension of `x[b, :t+1]` does `mean(0)` remove?",
                    "out": "How many means are there in all, and how wide is each?",
                },
            },
        )
    ]


def _quiz(rows, mean, out):
    return {"x[b, :t+1]": rows, "x[b, :t+1].mean(0)": mean, "out": out}


QUIZ_ANSWER = _quiz((3, 2), (2,), (4, 8, 2))

NAIVE_MEAN_SHAPES = Exercise(
    id="naive_mean_shapes",
    lesson=LESSON,
    call="naive_mean_shapes",
    points=1.0,
    kind="quiz",
    cases=_quiz_cases,
    probe=probe_quiz,
    expect=lambda case: {k: torch.tensor(v) for k, v in QUIZ_ANSWER.items()},
    reference=QUIZ_ANSWER,
    misconceptions=(
        Misconception(
            "slice_includes_end",
            _quiz((4, 2), (2,), (4, 8, 2)),
            "You counted the end of the slice in: `:3` are positions 0, 1 and 2.",
            "One row too many is one token of the future.",
            "A slice `:n` holds exactly n rows.",
        ),
        Misconception(
            "slice_stops_early",
            _quiz((2, 2), (2,), (4, 8, 2)),
            "You took `:t+1` for t rows.",
            "Token `t` would be missing from its own mean.",
            "With t = 2 the slice is `:3`. How many rows is that?",
        ),
        Misconception(
            "keeps_the_batch",
            _quiz((4, 3, 2), (3, 2), (4, 8, 2)),
            "You kept the batch dimension, but `x[b]` with a number `b` removes it.",
            "With one dimension more, `mean(0)` would average over sequences instead of tokens.",
            "A number as index removes a dimension; a slice keeps it.",
        ),
        Misconception(
            "mean_over_channels",
            _quiz((3, 2), (3,), (4, 8, 2)),
            "You removed the channels: `mean(0)` removes dimension 0, which here are the tokens.",
            "A token would end up as one number instead of a vector.",
            "In `(3, 2)`, which of the two numbers stands at place 0?",
        ),
        Misconception(
            "mean_keeps_dimension",
            _quiz((3, 2), (1, 2), (4, 8, 2)),
            "You kept a dimension of size 1, as `keepdim=True` would.",
            "Without that argument `mean(0)` removes the dimension it averages over.",
            "`out[b, t]` takes a vector. What is its shape?",
        ),
        Misconception(
            "one_mean_a_sequence",
            _quiz((3, 2), (2,), (4, 2)),
            "You counted one mean a sequence; there is one for every token.",
            "The token at position 3 needs its own mean: it has seen more than the one at 2.",
            "`out` is filled at every `[b, t]`.",
        ),
    ),
    hints=(
        "`x` has shape (4, 8, 2). A number as index removes a dimension, a slice keeps it.",
        "With t = 2, `:t+1` is `:3`: positions 0, 1, 2. `mean(0)` removes the first dimension.",
    ),
)

EXERCISES = (NAIVE_MEAN_SHAPES, NAIVE_MEAN)
