"""What the three ways to the same mean share: cases, expectation, properties, mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...checking import Case, Mistake, Observation, Property, expect_function
from ...checking.calling import fresh
from ...checking.comparing import near, same
from ...checking.exercise import Expected, Verdict
from .draw import Draw


def mean_oracle(x: Tensor) -> Tensor:
    """Causal mean in float64, by running sums."""
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    return x.cumsum(dim=1) / counts[:, None]


expect_mean = expect_function(mean_oracle, gradients=("x",))


def mean_cases(seed: int, many: int = 620) -> list[Case]:
    """Args: many: about how many tokens the longest sequence has."""
    draw = Draw(seed)
    B, T, C = draw.sizes(3, 3, 7)  # of two tokens, many a wrong mean is right
    b, t, c = draw.sizes(3, 2, 9)
    tall = many + draw.integer(0, 20)
    middle, cube = draw.integer(5, 9), draw.integer(3, 5)
    odd = 2 * middle + 1  # of 2, 4 or 8 tokens, every share is exact in float32 too
    offsets = torch.tensor([100.0, -100.0, 1e6, -1e6])[:, None, None]
    wide, several = draw.integer(66, 80), draw.integer(200, 220)
    by_hand = torch.tensor([[[2.0, 7.0], [6.0, 4.0], [6.0, 5.0]]])
    zeros = draw.normal(c, b, t)
    zeros[0], zeros[:, -1], zeros[..., 0] = 0.0, 0.0, 0.0
    return [
        Case("three tokens by hand", {"x": by_hand}, roles={"small", "several"}),
        Case("random numbers", {"x": draw.normal(B, T, C)}, roles={"typical", "several"}),
        Case("float64", {"x": draw.normal(b, odd, c, dtype=torch.float64)}),
        Case("many tokens", {"x": draw.normal(2, tall, 1)}, None, {"once": True}, {"small"}),
        Case("many sequences", {"x": draw.normal(several, 2, 3)}, options={"once": True}),
        Case("many channels", {"x": draw.normal(2, 3, wide)}),
        Case("numbers far from 0", {"x": draw.normal(4, middle, 3) * 10 + offsets}),
        Case("tokens of zeros", {"x": zeros}),
        Case("all sizes equal", {"x": draw.normal(cube, cube, cube)}, roles={"small"}),
        Case("not contiguous in memory", {"x": draw.normal(B, C, T).transpose(1, 2)}),
        Case("one token", {"x": draw.normal(2, 1, 3)}, roles={"small"}),
        Case("one channel", {"x": draw.normal(3, 4, 1)}, roles={"small"}),
        Case("one sequence", {"x": draw.normal(1, T, C)}, roles={"small"}),
    ]


def see_changes(answer: Any, case: Case, seen: Observation) -> None:
    """Two more calls: with the later half of sequence 0 replaced, while nothing is recorded for
    gradients, and with equal tokens that ask for one."""
    x = case["x"]
    changed = x.clone()
    changed[0, x.shape[1] // 2 :] += 1.0
    given = fresh(changed)
    with torch.no_grad():
        seen.put("changed", answer(given))
    if not same(given, fresh(changed)):
        seen.facts["modified"] = ["x"]
    seen.put("ones", answer(fresh(torch.ones_like(x), gradients=True) * 1.0))


def _first_token(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, 0], case["x"][:, 0])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    half = case["x"].shape[1] // 2
    if not half:
        return None
    return near(seen.tensors["out"][0, :half], seen.tensors["changed"][0, :half])


def _own_sequence(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if case["x"].shape[0] == 1:
        return None
    return near(seen.tensors["out"][1:], seen.tensors["changed"][1:])


def _sums_to_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["ones"], torch.ones_like(case["x"]))


def _mixes(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, 1:], case["x"][:, 1:]) and not near(
        seen.tensors["out"], seen.tensors["changed"]
    )


MEAN_PROPERTIES = (
    Property("mixes", "A token listens to the tokens before it", _mixes, gate=True, role="several"),
    Property("first_token", "The first token stays as it is", _first_token, credit=True),
    Property("no_future", "A later token has no say in an earlier one", _no_future, credit=True),
    Property("own_sequence", "Sequences of a batch don't mix", _own_sequence),
    Property(
        "sums_to_one",
        "The mean of equal tokens is that token",
        _sums_to_one,
        credit=True,
        breaks="The mean of equal tokens is not that token",
    ),
)


# ---------------------------------------------------------------- mistakes, to be put on `Mean`


class NotDivided(Mistake):
    """The tokens are added up and not averaged: the shares of a token don't sum to 1.

    Why: Sums grow with the position: token 100 would come out far bigger than token 1.
    Mend: How many tokens go into the sum for token `t`?
    """

    def shares(self, visible):
        return visible


class DividedByLength(Mistake):
    """You divided by the length of the whole sequence instead of by the tokens so far.

    Why: Early tokens shrink towards zero, and the more so the longer the text is.
    Mend: For t = 0 a single token is averaged. What should it be divided by?
    """

    def shares(self, visible):
        return visible / visible.shape[-1]


class DividedByIndex(Mistake):
    """You divided by `t`, which counts from 0: token 0 is divided by zero.

    Why: The first token becomes infinite or NaN, and all others come out too big.
    Mend: Positions count from 0, tokens from 1. How many tokens are there up to position 0?
    """

    def shares(self, visible):
        return visible

    def collected(self, shares, x):
        counts = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        return super().collected(shares, x) / counts[:, None]


class DividedByOneMore(Mistake):
    """You divided by t + 2, one more than there are tokens up to position `t`.

    Why: Every mean comes out too small; the first token, which is alone, is halved.
    Mend: How many tokens are there up to position 0?
    """

    def shares(self, visible):
        return visible / (visible.sum(-1, keepdim=True) + 1)


class ColumnsNormalised(Mistake):
    """You made the *columns* of the weights sum to 1, not the rows.

    Why: A row says how one token mixes the others, so it is the row that must sum to 1.
    Mend: `sum(0)` runs down the columns. Which dimension runs along a row?
    """

    def shares(self, visible):
        return visible / visible.sum(-2, keepdim=True)


class SumWithoutKeepdim(Mistake):
    """You divided by numbers of shape (T,), and broadcasting laid them along the columns.

    Why: Broadcasting lines shapes up from the right, so nothing complains and each number is
        divided by what belongs to another row.
    Mend: What shape must the divisors have to stand beside the rows? `keepdim` helps.
    """

    def shares(self, visible):
        return visible / visible.sum(-1)


class DividedByEverything(Mistake):
    """You divided by the sum of the whole matrix.

    Why: All rows together sum to 1, so each single row sums to far less.
    Mend: Each row has a sum of its own: which dimension does it run along?
    """

    def shares(self, visible):
        return visible / visible.sum()


class Transposed(Mistake):
    """The weights are the right ones, but rows and columns are swapped.

    Why: In `weights @ x`, row t of the weights makes token t; in yours it is column t.
    Mend: Write row 2 for T = 3 by hand and compare.
    """

    def shares(self, visible):
        return super().shares(visible).mT


class WeightsOnTheRight(Mistake):
    """You wrote `x @ weights`: the columns of `x` are channels, so the weights would mix channels,
    and C and T don't even fit.

    Why: Rows of the left matrix choose what is mixed: it must be the tokens.
    Mend: `(T, T) @ (T, C)` fits. On which side do the weights stand?
    """

    def collected(self, shares, x):
        return x @ shares


class MixesChannels(Mistake):
    """You averaged over the channels too: all channels of a token came out equal.

    Why: Channels hold different features of a token; mixing them loses what they mean.
    Mend: `x[b, :t+1]` has two dimensions. Which one counts tokens?
    """

    def collected(self, shares, x):
        return super().collected(shares, x).mean(-1, keepdim=True).expand_as(x)


class MixesTheBatch(Mistake):
    """The mean runs over all sequences of the batch at once.

    Why: What a sentence becomes would then depend on which others happen to be beside it.
    Mend: The sequences of a batch are strangers. Which of `(B, T, C)` may the mean run over?
    """

    def collected(self, shares, x):
        return super().collected(shares, x).mean(0, keepdim=True).expand_as(x)


class FirstSequenceOnly(Mistake):
    """Every sequence of the batch got the means of sequence 0.

    Why: All but the first sequence then lose their own content.
    Mend: Where does `b` come in when the tokens are picked?
    """

    def collected(self, shares, x):
        return super().collected(shares, x[:1]).expand_as(x)


class OverTheBatch(Mistake):
    """You averaged along the batch instead of along time.

    Why: The sequences of a batch share the computation, not the meaning.
    Mend: Which dimension of `(B, T, C)` is time?
    """

    def __call__(self, x):
        return super().__call__(x.transpose(0, 1)).transpose(0, 1)


class Float32Weights(Mistake):
    """The weights are float32 whatever `x` is, and PyTorch refuses to mix dtypes.

    Why: Half of a model in another precision stops with an error.
    Mend: `x.new_ones(T, T)` makes a tensor that fits `x`, and so does `.to(x)` afterwards.
    """

    def visible(self, x):
        return (~self.future(x.shape[1])).float()


class FixedSize(Mistake):
    """The matrix has a fixed size, that of the example.

    Why: The next sequence has another length.
    Mend: Take T from `x.shape`.
    """

    def future(self, T, device=None):
        return super().future(3, device)


def eight(self, T, device=None):
    """The step `future` for 8 tokens, whatever T is."""
    return torch.ones(8, 8, dtype=torch.bool, device=device).triu(1)
