"""Lesson 01: every token as the mean of all tokens so far, with loops."""

from __future__ import annotations

import torch
from torch import Tensor

from ..attention import naive_mean
from ..checking import Entry, Exercise, FunctionProbe, Misconceptions, quiz, slip
from .kit import means
from .kit import mistakes as m
from .kit.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from .kit.steps import Mean

LESSON = "1-averages/01_naive_mean"
SLICE = "A slice `a:b` stops before b."


def _loop(x: Tensor, rows, start: int = 0, less: int = 0, sequences: int | None = None) -> Tensor:
    """The double loop with another choice of rows to average for token t."""
    out = torch.zeros_like(x)
    for b in range(x.shape[0] if sequences is None else sequences):
        for t in range(start, x.shape[1] - less):
            out[b, t] = rows(x, b, t)
    return out


def _so_far(x, b, t):
    return x[b, : t + 1].mean(0)


def first_token_left_out(x):
    """Token 0 was never filled in: it is still zero, and all others are right.

    Why: The first token would reach the next layer empty.
    Mend: Where does your loop over `t` start? Token 0 is the mean of one token: itself.
    """
    return _loop(x, _so_far, start=1)


def last_token_left_out(x):
    """The last token was never filled in: it is still zero, and all others are right.

    Why: The last token is the one that predicts what comes next.
    Mend: Where does your loop over `t` end? `range(T)` stops before T by itself.
    """
    return _loop(x, _so_far, less=1)


class ReturnsTooEarly(m.Mistake):
    """The function returns from inside a loop: only the first row was filled in, the rest is zero.

    Why: A `return` ends all loops at once.
    Mend: How far is your `return` indented? It belongs behind both loops.
    """

    def collected(self, shares, x):
        out = torch.zeros_like(x)
        out[0, 0] = x[0, 0]
        return out


def _first_sequence_filled(self, shares, x):
    return torch.cat([shares @ x[:1], torch.zeros_like(x[1:])])


class MeanOfMeans(m.Mistake):
    """You averaged each token with the previous result: a mean of two, not of all.

    Why: Old tokens then fade by half at every step instead of keeping an equal share.
    Mend: For three tokens each share is 1/3. What are the shares in yours?
    """

    def collected(self, shares, x):
        out = x.clone()
        for t in range(1, x.shape[1]):
            out[:, t] = (out[:, t - 1] + x[:, t]) / 2
        return out


class TwoTokensOnly(m.Mistake):
    """Only token `t` and the one before it were averaged: the rows begin at t − 1, not at 0.

    Why: What stood further back is forgotten, and a sentence is longer than two words.
    Mend: Where does the slice begin? The mean is over *all* tokens so far.
    """

    def shares(self, visible):
        return super().shares(visible.triu(-1))


def overwrites_tokens(x):
    """You wrote the means into `x` itself, so later means were made from earlier means.

    Why: The original tokens are gone while they are still needed, for the caller too.
    Mend: Give the result a tensor of its own.
    """
    for t in range(x.shape[1]):
        x[:, t] = x[:, : t + 1].mean(1)
    return x


def float32_result(x):
    """The result is float32 whatever `x` is: `torch.zeros(…)` doesn't know about `x`.

    Why: Half of a model in another precision, or on another device, stops with an error.
    Mend: There are ways to make zeros *like* a tensor.
    """
    out = torch.zeros(x.shape)
    for t in range(x.shape[1]):
        out[:, t] = x[:, : t + 1].mean(1)
    return out


def averages_channels(x):
    """You averaged over dimension 1 of `x[b, :t+1]`: the channels of each token, not the tokens.

    Why: That leaves t + 1 numbers, one a token; `out[b, t]` has room for C, one a channel.
    Mend: `x[b, :t+1]` has the shape (t+1, C). Which of its dimensions counts tokens?
    """
    return _loop(x, lambda x, b, t: x[b, : t + 1].mean(1))


def fixed_size(x):
    """Sizes of the example are written into the code.

    Why: The next batch has other sizes, and then it fails or leaves rows empty.
    Mend: `B, T, C = x.shape` gives the sizes of whatever comes in.
    """
    out = torch.zeros_like(x)
    for b in range(4):
        for t in range(8):
            out[b, t] = x[b, : t + 1].mean(0)
    return out


NAIVE_MEAN = Exercise(
    id="naive_mean",
    lesson=LESSON,
    call="naive_mean(x)",
    points=2.0,
    cases=mean_cases,
    probe=FunctionProbe(gradients=("x",), extra=see_changes),
    expect=expect_mean,
    reference=naive_mean,
    same_as=("tril_mean", "softmax_mean"),
    properties=MEAN_PROPERTIES,
    misconceptions=Misconceptions.of(
        m.BlindToItself.on(
            Mean,
            what="Token `t` was left out of its own mean; token 0 had nothing to average: NaN.",
            why="The mean of no numbers is NaN, and one NaN spreads to all that is made from it.",
            mend=f"{SLICE} What must b be so that token `t` is in?",
        ),
        m.BlindToItself.but(
            shares=lambda self, visible: visible / visible.sum(-1, keepdim=True).clamp(min=1)
        ).on(
            Mean,
            what="Token `t` was left out of its own mean, and token 0 became zero.",
            why="Each token should keep a share of itself; token 0 is the mean of one: itself.",
            mend=f"{SLICE} With the right b, token 0 needs no special case.",
        ),
        m.NoMask.on(
            Mean,
            what="Every token got the mean of the whole sequence, tokens after it included.",
            mend="Which tokens may token `t` look at? Write that slice down for t = 0.",
        ),
        m.SeesNextToken.on(
            Mean,
            what="The mean reaches one token too far: token `t` also sees token t + 1.",
            mend=f"{SLICE} Count the rows you average for t = 0.",
        ),
        means.NotDivided,
        means.MixesTheBatch,
        means.MixesChannels,
        averages_channels,
        first_token_left_out,
        m.LastTokenOnly.on(
            Mean,
            what="You return one mean a sequence instead of one a token: T is gone from the shape.",
            why="Every position needs its own mean of what came before it.",
            mend="`out` has the shape of `x`. Which loop or index fills its middle dimension?",
        ),
        ReturnsTooEarly.but(collected=_first_sequence_filled).on(
            Mean,
            what="The function returns from inside the loop over `b`: only sequence 0 was filled.",
        ),
        ReturnsTooEarly,
        means.FirstSequenceOnly,
        m.PastHidden.on(
            Mean,
            what="You averaged from token `t` to the end instead of from the start to token `t`.",
            why="Now every token sees only itself and its future, which it should not know.",
            mend="Which end of the slice should `t` be on?",
        ),
        means.DividedByLength,
        means.DividedByIndex,
        means.DividedByOneMore,
        last_token_left_out,
        TwoTokensOnly,
        MeanOfMeans,
        means.OverTheBatch,
        overwrites_tokens,
        m.ChangesItsInput,
        m.CutOff.on(
            Mean,
            mend="Keep ordinary tensor operations all the way: `out[b, t] = …` takes a tensor, and "
            "neither a number nor a copy has to be made of it.",
        ),
        float32_result,
        m.Float32Result,
        fixed_size,
        on=Mean,
    ),
    hints=(
        "Write down by hand what `out[0, 0]`, `out[0, 1]` and `out[0, 2]` are for one sequence of "
        "three tokens. Which rows of `x` does each need?",
        "Start from `out = torch.zeros_like(x)` and fill `out[b, t]` in two loops, over `b` and "
        "over `t`. The rows that token `t` may see are `x[b, :t+1]`.",
        "`x[b, :t+1]` has shape (t+1, C). Its mean over dimension 0 has shape (C,), which is what "
        "`out[b, t]` takes.",
    ),
    other_way="""\
# One loop is enough: the slice and the mean can take all sequences of the batch at once.
def naive_mean(x):
    means = [x[:, : t + 1].mean(dim=1) for t in range(x.shape[1])]  # T times (B, C)
    return torch.stack(means, dim=1)  # (B, T, C)""",
)

ROWS, ROWS_MEAN, OUT = "x[b, :t+1]", "x[b, :t+1].mean(0)", "out"

NAIVE_MEAN_SHAPES = quiz(
    "naive_mean_shapes",
    lesson=LESSON,
    points=1.0,
    about="B, T, C = 4, 8, 2 and t = 2",
    entries=[
        Entry(
            ROWS,
            (3, 2),
            "`b` picks one sequence and its dimension goes; positions 0, 1 and 2 are three rows.",
            "Does an index like `b` keep its dimension? Which positions are in `:3`?",
        ),
        Entry(
            ROWS_MEAN,
            (2,),
            "The mean over dimension 0 removes the three rows; the channels stay.",
            "Which dimension of `x[b, :t+1]` does `mean(0)` remove?",
        ),
        Entry(
            OUT,
            (4, 8, 2),
            "One mean a token: the shape of `x`.",
            "How many means are there in all, and how wide is each?",
        ),
    ],
    misconceptions=[
        slip(
            "slice_stops_early",
            {ROWS: (2, 2)},
            "You took `:t+1` for t rows.",
            "Token `t` would be missing from its own mean.",
            "With t = 2 the slice is `:3`. How many rows is that?",
        ),
        slip(
            "slice_includes_end",
            {ROWS: (4, 2)},
            "You counted the end of the slice in: `:3` are positions 0, 1 and 2.",
            "One row too many is one token of the future.",
            "A slice `:n` holds exactly n rows.",
        ),
        slip(
            "keeps_the_batch",
            {ROWS: (4, 3, 2), ROWS_MEAN: (3, 2)},
            "You kept the batch dimension, but `x[b]` with a number `b` removes it.",
            "With one dimension more, `mean(0)` would average over sequences instead of tokens.",
            "A number as index removes a dimension; a slice keeps it.",
        ),
        slip(
            "mean_over_channels",
            {ROWS_MEAN: (3,)},
            "You removed the channels: `mean(0)` removes dimension 0, which here are the tokens.",
            "A token would end up as one number instead of a vector.",
            "In `(3, 2)`, which of the two numbers stands at place 0?",
        ),
        slip(
            "mean_keeps_dimension",
            {ROWS_MEAN: (1, 2)},
            "You kept a dimension of size 1, as `keepdim=True` would.",
            "Without that argument `mean(0)` removes the dimension it averages over.",
            "`out[b, t]` takes a vector. What is its shape?",
        ),
        slip(
            "mean_removes_nothing",
            {ROWS_MEAN: (3, 2)},
            "You left the shape as it was, but a mean over dimension 0 leaves one row of three.",
            "`out[b, t]` has room for one vector, not for three.",
            "`mean(0)` removes the dimension that it averages over.",
        ),
        slip(
            "one_mean_a_sequence",
            {OUT: (4, 2)},
            "You counted one mean a sequence; there is one for every token.",
            "The token at position 3 needs its own mean: it has seen more than the one at 2.",
            "`out` is filled at every `[b, t]`.",
        ),
        slip(
            "rows_of_one_sequence",
            {OUT: (8, 2)},
            "You gave the shape for one sequence; `out` holds all sequences of the batch.",
            "A batch goes through at once, so its dimension stays.",
            "`out` is filled at every `[b, t]`: how many `b` are there?",
        ),
    ],
    hints=(
        "`x` has shape (4, 8, 2). A number as index removes a dimension, a slice keeps it.",
        "With t = 2, `:t+1` is `:3`: positions 0, 1, 2. `mean(0)` removes the first dimension.",
    ),
)

EXERCISES = (NAIVE_MEAN_SHAPES, NAIVE_MEAN)
