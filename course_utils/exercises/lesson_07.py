"""Lesson 07: one projection, split into heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .. import attention
from ..attention import MultiHeadAttention, MultiHeadAttentionWrapper
from ..checking.exercise import Behaviour, Case, Exercise, Misconception, Observation
from ..checking.modules import (
    COPY_BEHAVIOURS,
    MODULE_BEHAVIOURS,
    CopyProbe,
    ModuleProbe,
    expect_module,
)
from ..checking.probing import FunctionProbe, expect_function, probe_quiz
from .drawing import Draw
from .multi_head import (
    ATTENTION_BEHAVIOURS,
    PROJECTIONS,
    attention_cases,
    distinct_sizes,
    drops_weights,
    see_attention,
    side_by_side,
    split_oracle,
    split_weights,
    wrapper_weights,
)
from .single_head import BUILT_IN, Head, near

LESSON = "3-multi-head/07_split_heads"
INF = math.inf


# ---------------------------------------------------------------- split_heads


def _split_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, _, D, H = distinct_sizes(draw)
    b, t, _, d, h = distinct_sizes(draw)
    by_hand = torch.arange(1.0, 13.0).view(1, 3, 4)
    other_order = draw.normal(t, b, h * d).transpose(0, 1)  # not contiguous
    return [
        Case("three tokens by hand", {"x": by_hand, "num_heads": 2}),
        Case("random numbers", {"x": draw.normal(B, T, H * D), "num_heads": H}),
        Case("not contiguous", {"x": other_order, "num_heads": h}),
        Case("float64", {"x": draw.normal(t, B, d * H, dtype=torch.float64), "num_heads": d}),
        Case("one head", {"x": draw.normal(b, t, D), "num_heads": 1}),
        Case("heads of width 1", {"x": draw.normal(T, b, H), "num_heads": H}),
        Case("one token", {"x": draw.normal(b, 1, 6), "num_heads": 3}),
        Case("10 channels, 4 heads", {"x": draw.normal(2, 3, 10), "num_heads": 4}, ("10", "4")),
        Case("3 channels, 7 heads", {"x": draw.normal(2, 7, 3), "num_heads": 7}, ("3", "7")),
    ]


def _split_oracle(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def _sizes(x: Tensor, num_heads: int) -> tuple[int, int, int, int]:
    """B, T, H and D, after the refusal that a right answer has."""
    B, T, C = x.shape
    if C % num_heads:
        raise ValueError(f"{C} channels, {num_heads} heads")
    return B, T, num_heads, C // num_heads


def _split(x, H):
    B, T, H, D = _sizes(x, H)
    return x.reshape(B, T, H, D).transpose(1, 2)


def _split_by_view(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(B, H, T, D)


def _split_without_transpose(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(B, T, H, D)


def _split_interleaved(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(B, T, D, H).permute(0, 3, 1, 2)


def _split_then_reshaped(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(B, T, H, D).transpose(1, 3).reshape(B, H, T, D)


def _split_width_last_but_one(x, num_heads):
    return _split(x, num_heads).transpose(-2, -1)


def _split_heads_first(x, num_heads):
    return _split(x, num_heads).transpose(0, 1)


def _split_into_batch(x, num_heads):
    return _split(x, num_heads).flatten(0, 1)


def _split_batch_mixed(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(H, B, T, D).transpose(0, 1)


def _split_swapped_sizes(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x.reshape(B, T, D, H).transpose(1, 2)


def _split_dropping_channels(x, num_heads):
    D = x.shape[-1] // num_heads
    return _split(x[..., : num_heads * D], num_heads)


def _split_without_refusal(x, num_heads):
    B, T, C = x.shape
    return x.view(B, T, num_heads, C // num_heads).transpose(1, 2)


def _split_as_tuple(x, num_heads):
    _sizes(x, num_heads)
    return x.chunk(num_heads, dim=-1)


def _split_repeated(x, num_heads):
    B, T, H, D = _sizes(x, num_heads)
    return x[..., :D].unsqueeze(1).expand(B, H, T, D).clone()


def _keeps_tokens(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """Each token's numbers are found at its position, in whatever order."""
    if case.refuses is not None or case.name == "three tokens by hand":
        return None
    out, x = seen.tensors["out"], case["x"]
    mine = out.transpose(1, 2).flatten(2).sort(-1).values
    return near(mine, x.sort(-1).values)


def _is_wide(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """No constant and no repetition: all numbers of x are there."""
    if case.refuses is not None:
        return None
    return near(
        seen.tensors["out"].flatten().sort().values, expected["out"].flatten().sort().values
    )


def _first_head(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.refuses is not None:
        return None
    return near(seen.tensors["out"][:, 0], expected["out"][:, 0])


SPLIT_HEADS = Exercise(
    id="split_heads",
    lesson=LESSON,
    call="split_heads(x, num_heads)",
    points=2.0,
    cases=_split_cases,
    probe=FunctionProbe(gradients=("x",)),
    expect=expect_function(_split_oracle, gradients=("x",)),
    reference=attention.split_heads,
    behaviours=(
        Behaviour("all_there", "Every number of `x` is still there", _is_wide, gate=True),
        Behaviour(
            "tokens", "A position holds the numbers of its own token", _keeps_tokens, credit=True
        ),
        Behaviour(
            "first_head",
            "Head 0 holds the first D channels of each token",
            _first_head,
            credit=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "view_without_transpose",
            _split_by_view,
            "You went from (B, T, C) to (B, H, T, D) in one `view`: heads now hold numbers of "
            "other tokens.",
            "The shape is right, so nothing complains, and row 0 of the last head is of a later "
            "token: after the merge, the future leaks.",
            "`view` keeps the order in memory and only sets new borders. Cut C first, then swap "
            "two dimensions.",
        ),
        Misconception(
            "not_transposed",
            _split_without_transpose,
            "The width is cut, but the heads stand behind the tokens: (B, T, H, D).",
            "`query @ key.transpose(-2, -1)` would compare heads with heads, not tokens with "
            "tokens.",
            "Which two dimensions must change places?",
        ),
        Misconception(
            "heads_interleaved",
            _split_interleaved,
            "You cut the width into D groups of H, so each head takes every H-th channel.",
            "Saved weights, and the merge that follows, expect neighbouring channels in one head.",
            "In the shape you view as, which comes last: the number of heads or their width?",
        ),
        Misconception(
            "transposed_and_reshaped",
            _split_then_reshaped,
            "You swapped two dimensions and then forced the shape with `reshape`.",
            "`reshape` fills the new shape in reading order, so tokens and channels get mixed.",
            "Swap exactly the dimensions of tokens and heads; then the shape is right by itself.",
        ),
        Misconception(
            "width_before_tokens",
            _split_width_last_but_one,
            "The last two dimensions are swapped: (B, H, D, T).",
            "That is the shape of Kᵀ in the scores; queries and values need (B, H, T, D).",
            "The width of a head stays last.",
        ),
        Misconception(
            "heads_before_batch",
            _split_heads_first,
            "The heads stand in front of the batch: (H, B, T, D).",
            "Masks and biases of the lessons to come are lined up for the batch first.",
            "The batch stays where it is.",
        ),
        Misconception(
            "heads_in_the_batch",
            _split_into_batch,
            "Heads and batch are one dimension: (B · H, T, D).",
            "Some libraries do that; a mask of shape (B, 1, 1, T) no longer fits then.",
            "Four dimensions were asked for.",
        ),
        Misconception(
            "batch_mixed",
            _split_batch_mixed,
            "The cut went through the batch: a head holds pieces of other sequences.",
            "Sequences of a batch are strangers, and their numbers must never mix.",
            "Only the last dimension is cut. Keep B and T in front of the view.",
        ),
        Misconception(
            "heads_and_width_swapped",
            _split_swapped_sizes,
            "You made D heads of width H.",
            "With 12 heads of 64 that would be 64 heads of 12.",
            "The heads come before their width: (…, num_heads, C // num_heads).",
        ),
        Misconception(
            "channels_dropped",
            _split_dropping_channels,
            "When the width can't be divided, the channels left over are dropped in silence.",
            "A model of 10 channels and 4 heads would train, and two channels would do nothing.",
            "Check the division first, and raise an error that names both numbers.",
        ),
        Misconception(
            "refusal_left_to_view",
            _split_without_refusal,
            "A width that can't be divided is refused by `view`, with a RuntimeError about shapes.",
            "\"shape '[2, 3, 4, 2]' is invalid\" doesn't tell anyone that 4 heads don't fit.",
            "Check the remainder yourself, and raise a ValueError with both numbers.",
        ),
        Misconception(
            "a_tuple_of_heads",
            _split_as_tuple,
            "The heads are a tuple of tensors; one tensor was asked for.",
            "The point of this style is that all heads go through one matrix product.",
            "Make the heads a dimension, `(B, H, T, D)`.",
        ),
        Misconception(
            "first_channels_repeated",
            _split_repeated,
            "Every head holds the first D channels.",
            "The other channels are lost, and all heads see the same.",
            "Head h takes channels h · D to (h + 1) · D.",
        ),
    ),
    hints=(
        "Two steps: cut the last dimension C into (H, D), then let tokens and heads change places.",
        "`x.view(B, T, num_heads, D)` with `D = C // num_heads` cuts. For `C % num_heads != 0`, "
        "raise a `ValueError` first that names both.",
        "After the cut the shape is (B, T, H, D). `.transpose(1, 2)` makes it (B, H, T, D).",
    ),
)


# ---------------------------------------------------------------- merge_heads


def _merge_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, _, D, H = distinct_sizes(draw)
    b, t, _, d, h = distinct_sizes(draw)
    by_hand = torch.arange(1.0, 13.0).view(1, 2, 3, 2)
    return [
        Case("three tokens, two heads by hand", {"x": by_hand}),
        Case("random numbers", {"x": draw.normal(B, H, T, D)}),
        # As `split_heads` leaves it, and in one more order.
        Case("as it is after a split", {"x": draw.normal(b, t, h, d).transpose(1, 2)}),
        Case("not contiguous", {"x": draw.normal(d, t, h, b).permute(3, 2, 1, 0)}),
        Case("float64", {"x": draw.normal(h, b, t, d, dtype=torch.float64)}),
        Case("one head", {"x": draw.normal(b, 1, t, D)}),
        Case("heads of width 1", {"x": draw.normal(T, b, H, 1)}),
        Case("one token", {"x": draw.normal(b, h, 1, d)}),
    ]


def _merge_oracle(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)


def _merge_reshaped(x):
    B, H, T, D = x.shape
    return x.reshape(B, T, H * D)


def _merge_interleaved(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def _merge_wrong_swap(x):
    B, H, T, D = x.shape
    return x.transpose(2, 3).reshape(B, T, H * D)


def _merge_outer_swap(x):
    B, H, T, D = x.shape
    return x.transpose(1, 3).reshape(B, T, H * D)


def _merge_view(x):
    B, H, T, D = x.shape
    return x.transpose(1, 2).view(B, T, H * D)


def _merge_unfinished(x):
    return x.transpose(1, 2).contiguous()


def _merge_onto_tokens(x):
    return x.flatten(1, 2)


def _merge_sum(x):
    return x.sum(1)


def _merge_mean(x):
    return x.mean(1)


def _merge_first(x):
    return x[:, 0]


def _merge_batch(x):
    B, H, T, D = x.shape
    return x.permute(2, 0, 1, 3).reshape(B, T, H * D)


def _merged_tokens(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "by hand" in case.name:
        return None
    return near(seen.tensors["out"].sort(-1).values, expected["out"].sort(-1).values)


def _merged_first(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    D = case["x"].shape[-1]
    return near(seen.tensors["out"][..., :D], expected["out"][..., :D])


MERGE_HEADS = Exercise(
    id="merge_heads",
    lesson=LESSON,
    call="merge_heads(x)",
    points=1.0,
    cases=_merge_cases,
    probe=FunctionProbe(gradients=("x",)),
    expect=expect_function(_merge_oracle, gradients=("x",)),
    reference=attention.merge_heads,
    behaviours=(
        Behaviour("all_there", "Every number of `x` is still there", _is_wide, gate=True),
        Behaviour(
            "tokens", "A position holds the numbers of its own token", _merged_tokens, credit=True
        ),
        Behaviour("first_head", "Head 0 fills the first D channels", _merged_first, credit=True),
    ),
    misconceptions=(
        Misconception(
            "reshaped_without_transpose",
            _merge_reshaped,
            "You reshaped (B, H, T, D) to (B, T, C) without swapping back: a row now holds numbers "
            "of several tokens.",
            "The shape is right, so nothing complains, and the words of a sentence get scrambled.",
            "Undo the split in reverse: which of its two steps came last?",
        ),
        Misconception(
            "heads_interleaved",
            _merge_interleaved,
            "The channels of the heads alternate: first channel of each head, second of each, …",
            "`out_proj` and saved weights expect one head after the other.",
            "Before the last two dimensions are joined, which should be the outer one?",
        ),
        Misconception(
            "tokens_swapped_with_width",
            _merge_wrong_swap,
            "You swapped tokens with channels, and the reshape then mixed them.",
            "Swapping the wrong pair leaves no error, for the number of elements fits.",
            "Which two dimensions did `split_heads` swap?",
        ),
        Misconception(
            "heads_swapped_with_width",
            _merge_outer_swap,
            "You swapped heads with channels, and the reshape then mixed tokens.",
            "Swapping the wrong pair leaves no error, for the number of elements fits.",
            "Which two dimensions did `split_heads` swap?",
        ),
        Misconception(
            "view_after_transpose",
            _merge_view,
            "`view` refuses: after `transpose` the numbers no longer lie in the order it needs.",
            "It works with one head or one token, which is why a small test may not notice.",
            "Bring the numbers into order first, or use the method that copies when it must.",
        ),
        Misconception(
            "heads_not_joined",
            _merge_unfinished,
            "The heads are back behind the tokens, but still a dimension of their own.",
            "`out_proj` wants (B, T, C), with all heads in the last dimension.",
            "One step is missing: join the last two dimensions.",
        ),
        Misconception(
            "joined_with_tokens",
            _merge_onto_tokens,
            "The heads were joined with the tokens: (B, H · T, D).",
            "A text of T tokens must stay one of T tokens.",
            "The heads belong beside each other in the channels.",
        ),
        Misconception(
            "heads_added",
            _merge_sum,
            "You added the heads up.",
            "A sum can't be taken apart: what only one head found is mixed away.",
            "Each head keeps its own channels: C = H · D.",
        ),
        Misconception(
            "heads_averaged",
            _merge_mean,
            "You averaged the heads.",
            "An average can't be taken apart: what only one head found is mixed away.",
            "Each head keeps its own channels: C = H · D.",
        ),
        Misconception(
            "first_head_only",
            _merge_first,
            "Only the first head is left.",
            "The work of the others is thrown away.",
            "Join all heads along the channels: C = H · D.",
        ),
        Misconception(
            "batch_and_tokens_swapped",
            _merge_batch,
            "The tokens were brought in front of the batch before the reshape.",
            "Rows then mix sequences that have nothing to do with each other.",
            "The batch stays first all the way.",
        ),
    ),
    hints=(
        "It is `split_heads` backwards: swap heads and tokens, then join the last two dimensions.",
        "`x.transpose(1, 2)` is (B, T, H, D). `view` would complain; `reshape` (or `contiguous()` "
        "before the `view`) copies the numbers into the new order.",
    ),
)


# ---------------------------------------------------------------- MultiHeadAttention


def _arguments(d_in: int, D: int, context_length: int, H: int) -> tuple[int, int, int, int]:
    return d_in, H * D, context_length, H


def _attention_cases(seed: int) -> list[Case]:
    return [
        *attention_cases(seed, _arguments, split_weights),
        Case(
            "width 10, 4 heads",
            {"x": Draw(seed + 1).normal(2, 3, 5)},
            refuses=("10", "4"),
            options={"args": (5, 10, 6, 4), "kwargs": {}, "heads": 4},
        ),
    ]


class _Split(Head):
    """A right module in small steps; a misconception overrides one of them."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        self.refuse(d_out, num_heads)
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.num_heads = num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def refuse(self, d_out, num_heads):
        if d_out % num_heads:
            raise ValueError(f"{d_out} channels, {num_heads} heads")

    def project(self, x):
        return tuple(self.split(projected) for projected in super().project(x))

    def split(self, x):
        return _split(x, self.num_heads)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def with_padding(self, future, pad_mask):
        return future | pad_mask[:, None, None, :]

    def weights(self, scores, hidden):
        blind = hidden.expand_as(scores).all(-1, keepdim=True)
        scores = scores.masked_fill(hidden, -INF).masked_fill(blind, 0.0)
        return torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)

    def context(self, weights, value):
        return self.out_proj(self.merge(weights @ value))


class _ViewedDirectly(_Split):
    def split(self, x):
        return _split_by_view(x, self.num_heads)

    def merge(self, x):
        return _merge_reshaped(x)


class _ViewedAndMerged(_Split):
    def split(self, x):
        return _split_by_view(x, self.num_heads)


class _SplitInterleaved(_Split):
    def split(self, x):
        return _split_interleaved(x, self.num_heads)


class _MergedByReshape(_Split):
    def merge(self, x):
        return _merge_reshaped(x)


class _MergedInterleaved(_Split):
    def merge(self, x):
        return _merge_interleaved(x)


class _HeadsOfH(_Split):
    """num_heads taken for the width of a head."""

    def split(self, x):
        return _split(x, x.shape[-1] // self.num_heads)


class _OneBigHead(_Split):
    def split(self, x):
        return x[:, None]


class _ModelScale(_Split):
    def scale(self, query):
        return math.sqrt(self.d_out)


class _NoScale(_Split):
    def scale(self, query):
        return 1.0


class _TokenScale(_Split):
    def scale(self, query):
        return math.sqrt(query.shape[-2])


class _HeadCountScale(_Split):
    def scale(self, query):
        return math.sqrt(self.num_heads)


class _UnrootedScale(_Split):
    def scale(self, query):
        return query.shape[-1]


class _SoftmaxOverQueries(_Split):
    def weights(self, scores, hidden):
        hidden = hidden.expand_as(scores)
        return torch.softmax(scores.masked_fill(hidden, -INF), dim=-2).nan_to_num()


class _SoftmaxOverHeads(_Split):
    def weights(self, scores, hidden):
        return torch.softmax(scores, dim=1).masked_fill(hidden, 0.0)


class _MaskAfterSoftmax(_Split):
    def weights(self, scores, hidden):
        return torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)


class _QueryAndKeySwapped(_Split):
    def scores(self, query, key):
        return super().scores(key, query)


class _ValuesFromKeys(_Split):
    def project(self, x):
        query, key, _ = super().project(x)
        return query, key, key


class _NoFutureMask(_Split):
    def future(self, x, diagonal=1):
        return super().future(x, x.shape[1])


class _SeesNext(_Split):
    def future(self, x, diagonal=1):
        return super().future(x, 2)


class _BlindToItself(_Split):
    def future(self, x, diagonal=1):
        return super().future(x, 0)


class _SeesTheFuture(_Split):
    def future(self, x, diagonal=1):
        return super().future(x).T


class _PaddingIgnored(_Split):
    def with_padding(self, future, pad_mask):
        return future


class _PaddingInverted(_Split):
    def with_padding(self, future, pad_mask):
        return future | ~pad_mask[:, None, None, :]


class _PaddingOnRows(_Split):
    def with_padding(self, future, pad_mask):
        return future | pad_mask[:, None, :, None]


class _PaddingForFirstHead(_Split):
    def with_padding(self, future, pad_mask):
        first = torch.arange(self.num_heads, device=pad_mask.device)[:, None, None] == 0
        return future | (pad_mask[:, None, None, :] & first)


class _PaddingWithoutHeads(_Split):
    def with_padding(self, future, pad_mask):
        return future | pad_mask[:, None, :]


class _PaddingReplacesCausal(_Split):
    def with_padding(self, future, pad_mask):
        return pad_mask[:, None, None, :]


class _PaddedRowsBlanked(_Split):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        return out if pad_mask is None else out.masked_fill(pad_mask[..., None], 0.0)


class _NaNRows(_Split):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -INF), dim=-1)


class _BigNegative(_Split):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)


class _NoOutProj(_Split):
    def context(self, weights, value):
        return self.merge(weights @ value)


class _OutProjOnValues(_Split):
    def project(self, x):
        return (
            self.split(self.query(x)),
            self.split(self.key(x)),
            self.split(self.out_proj(self.value(x))),
        )

    def context(self, weights, value):
        return self.merge(weights @ value)


class _OutProjBeforeMerge(_Split):
    """`out_proj` applied to what has the right number of channels only by a reshape."""

    def context(self, weights, value):
        context = weights @ value  # (B, H, T, D)
        B, H, T, D = context.shape
        projected = self.out_proj(context.reshape(B, T, H * D))
        return self.merge(projected.reshape(B, H, T, D))


class _DropoutOnScores(_Split):
    def scores(self, query, key):
        return self.dropout(super().scores(query, key))

    def context(self, weights, value):
        return self.out_proj(self.merge(weights @ value))

    def forward(self, x, pad_mask=None):
        query, key, value = self.project(self.checked(x))
        weights = self.weights(self.scores(query, key), self.hidden(x, pad_mask))
        return self.context(weights, value)


class _DropoutUnused(_Split):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, 0.0, qkv_bias)


class _DropoutInEvaluation(_Split):
    def context(self, weights, value):
        return super().context(nn.functional.dropout(weights, self.dropout.p), value)


class _DropoutOnResult(_Split):
    def context(self, weights, value):
        return self.dropout(super().context(weights, value))


class _BiasForgotten(_Split):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, False)


class _MaskIsParameter(_Split):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
        self.mask = nn.Parameter(torch.ones(context_length, context_length).triu(1))

    def future(self, x, diagonal=1):
        return self.mask[: x.shape[1], : x.shape[1]] > 0


class _MaskLeftBehind(_Split):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
        self.mask = torch.ones(context_length, context_length).triu(1).bool()

    def future(self, x, diagonal=1):
        return self.mask[: x.shape[1], : x.shape[1]]


class _MaskNotCut(_Split):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1).bool())

    def future(self, x, diagonal=1):
        return self.mask


class _AnyLength(_Split):
    def checked(self, x):
        return x


class _AnyWidth(_Split):
    """What is left over by the division belongs to no head."""

    def refuse(self, d_out, num_heads):
        pass

    def split(self, x):
        return _split_dropping_channels(x, self.num_heads)

    def merge(self, x):
        merged = super().merge(x)
        return nn.functional.pad(merged, (0, self.d_out - merged.shape[-1]))


class _MaskRequired(_Split):
    def forward(self, x, pad_mask):  # type: ignore[override]
        return super().forward(x, pad_mask)


_SCALED = (
    "The width of the vectors in *this* dot product is what makes it grow. How wide is a head?"
)

MULTI_HEAD_ATTENTION = Exercise(
    id="MultiHeadAttention",
    lesson=LESSON,
    call="MultiHeadAttention(d_in, d_out, context_length, num_heads)",
    points=4.0,
    kind="class",
    cases=_attention_cases,
    probe=ModuleProbe(gradients=("x",), extra=see_attention),
    expect=expect_module(split_oracle),
    reference=MultiHeadAttention,
    behaviours=(
        *ATTENTION_BEHAVIOURS,
        drops_weights(lambda case: side_by_side(case.options["weights"], case.options["heads"])),
        *MODULE_BEHAVIOURS,
    ),
    misconceptions=(
        Misconception(
            "viewed_directly",
            _ViewedDirectly,
            "Heads were made by `view(B, H, T, D)` and merged by a reshape, without a swap: each "
            "head holds pieces of several tokens.",
            "Each head then sees one stretch of the text and nothing of the others, and no error "
            "says so.",
            "Cut the last dimension only, then let tokens and heads change places.",
        ),
        Misconception(
            "split_without_transpose",
            _ViewedAndMerged,
            "The split goes to (B, H, T, D) in one `view`, so a head holds pieces of several "
            "tokens.",
            "The shapes are all right, and later tokens leak into earlier ones under a mask that "
            "is right.",
            "Your `merge_heads` swaps two dimensions. Does your split?",
        ),
        Misconception(
            "merged_without_transpose",
            _MergedByReshape,
            "The heads were merged by a reshape alone: a row holds numbers of several tokens.",
            "The shape is right, so nothing complains, and the words of a sentence get scrambled.",
            "Before heads are joined, they must stand behind the tokens again.",
        ),
        Misconception(
            "split_interleaved",
            _SplitInterleaved,
            "Each head takes every H-th channel in place of D neighbouring ones.",
            "Weights of another implementation, or of the wrapper, give other results here.",
            "In the shape that you view as, H comes before D.",
        ),
        Misconception(
            "merged_interleaved",
            _MergedInterleaved,
            "The merge lets the channels of the heads alternate.",
            "`out_proj` expects one head after the other, as the split cut them.",
            "Which dimension should be the outer one when heads and width are joined?",
        ),
        Misconception(
            "num_heads_is_the_width",
            _HeadsOfH,
            "You made heads of width `num_heads`, not `num_heads` heads.",
            "With 768 channels and 12 heads that would be 64 heads of 12.",
            "The width of a head is `d_out // num_heads`.",
        ),
        Misconception(
            "never_split",
            _OneBigHead,
            "The width was never cut: this is one head that is as wide as all together.",
            "One head has one set of weights; several can look at several places at once.",
            "Queries, keys and values all go through `split_heads`.",
        ),
        Misconception(
            "scaled_by_model_width",
            _ModelScale,
            "You divided by the root of `d_out`, the width of all heads together.",
            "The scores come out too small, so every head looks too evenly at all tokens.",
            _SCALED,
        ),
        Misconception(
            "not_scaled",
            _NoScale,
            "The scores are not scaled.",
            "They grow with the width, the softmax saturates, and gradients vanish.",
            _SCALED,
        ),
        Misconception(
            "scaled_by_tokens",
            _TokenScale,
            "You divided by the root of the number of tokens.",
            "The same words would attend differently only because the text is longer.",
            _SCALED,
        ),
        Misconception(
            "scaled_by_head_count",
            _HeadCountScale,
            "You divided by the root of the number of heads.",
            "How big a dot product gets depends on its vectors, not on how many heads there are.",
            _SCALED,
        ),
        Misconception(
            "scaled_without_root",
            _UnrootedScale,
            "You divided by D instead of by its root.",
            "The scores come out too small, so every head looks too evenly.",
            "The spread of a dot product grows with the *root* of the width.",
        ),
        Misconception(
            "softmax_over_queries",
            _SoftmaxOverQueries,
            "The softmax runs over the queries: columns sum to 1, not rows.",
            "A query's weights then depend on the other queries, also on later ones.",
            "A row of weights belongs to one query. Which dimension runs along a row?",
        ),
        Misconception(
            "softmax_over_heads",
            _SoftmaxOverHeads,
            "The softmax runs over the heads.",
            "Heads then compete with each other, where the keys of each head should.",
            "With four dimensions, keys are the last one.",
        ),
        Misconception(
            "mask_after_softmax",
            _MaskAfterSoftmax,
            "Hidden weights were set to 0 after the softmax, so rows no longer sum to 1.",
            "Hidden scores have taken their share before they were removed.",
            "Which score becomes exactly 0 in a softmax?",
        ),
        Misconception(
            "query_and_key_swapped",
            _QueryAndKeySwapped,
            "Queries and keys are swapped in the scores.",
            "The mask's rows are queries; with keys there, it hides the wrong side.",
            "In (T, S), rows are queries: query on the left, key transposed on the right.",
        ),
        Misconception(
            "values_from_keys",
            _ValuesFromKeys,
            "The weights collect keys where they should collect values.",
            "Then `value` is never used and never learns.",
            "Query looks for key, and collects …?",
        ),
        Misconception(
            "no_causal_mask",
            _NoFutureMask,
            "The future is not hidden.",
            "A model that predicts the next token must not see it.",
            "The mask has the shape (T, T) and is the same for every head.",
        ),
        Misconception(
            "sees_one_ahead",
            _SeesNext,
            "The mask begins one column too late: token t also sees token t + 1.",
            "That one token is exactly the one a language model has to predict.",
            "Look at the `diagonal` of your mask.",
        ),
        Misconception(
            "does_not_see_itself",
            _BlindToItself,
            "The mask begins one column too early: no token sees itself.",
            "The first token then sees nothing at all.",
            "Look at the `diagonal` of your mask.",
        ),
        Misconception(
            "sees_only_the_future",
            _SeesTheFuture,
            "The mask hides the past and shows the future.",
            "`True` means hidden here; `F.scaled_dot_product_attention` means the opposite.",
            "In row 0, every column but the first must be hidden.",
        ),
        Misconception(
            "pad_mask_ignored",
            _PaddingIgnored,
            "`pad_mask` comes in and is not used: the padding is attended to.",
            "Each sentence's result then depends on how long its neighbours in the batch are.",
            "Join it to the causal mask; what shape must it have beside (B, H, T, T)?",
        ),
        Misconception(
            "pad_mask_inverted",
            _PaddingInverted,
            "The real tokens are hidden, and the padding is visible.",
            "In this course `True` means hidden; some of PyTorch's functions mean the opposite.",
            "The mask that comes in says `True` where padding is.",
        ),
        Misconception(
            "pad_mask_on_rows",
            _PaddingOnRows,
            "The padded rows were hidden, not the padded columns.",
            "Real tokens still look at the padding, and that was the thing to prevent.",
            "Columns are the last dimension: (B, 1, 1, T).",
        ),
        Misconception(
            "pad_mask_for_first_head",
            _PaddingForFirstHead,
            "Only the first head hides the padding.",
            "`out_proj` mixes the heads, so the others' leak reaches every channel.",
            "A dimension of size 1 serves all heads.",
        ),
        Misconception(
            "pad_mask_without_head_dimension",
            _PaddingWithoutHeads,
            "The mask has the shape (B, 1, T), which lines up with the heads and not with the "
            "batch.",
            "When B and H happen to be equal, it hides the wrong columns without an error.",
            "Shapes line up from the right. How many dimensions do the scores have?",
        ),
        Misconception(
            "pad_mask_replaces_causal",
            _PaddingReplacesCausal,
            "With a `pad_mask` the future is no longer hidden.",
            "Training batches are nearly always padded, so the model would always see the answer.",
            "A column is hidden if it is padding *or* the future.",
        ),
        Misconception(
            "padded_rows_blanked",
            _PaddedRowsBlanked,
            "The result was set to 0 in the padded rows.",
            "Rows are the tokens that look. Padding matters where it is looked *at*: in columns.",
            "Leave padded rows as they come out; nobody reads them later.",
        ),
        Misconception(
            "nan_where_nothing_is_seen",
            _NaNRows,
            "A token that sees nothing gets NaN: the softmax of nothing but -inf is 0/0.",
            "One NaN in a batch makes every gradient NaN.",
            "Lesson 05 has a softmax that is safe.",
        ),
        Misconception(
            "minus_a_billion",
            _BigNegative,
            "Hidden scores are -1e9, so a token that sees nothing attends to everything evenly.",
            "That is the mean of padding and future, where nothing should come through.",
            "Lesson 05 has a softmax that gives zeros there.",
        ),
        Misconception(
            "no_out_proj",
            _NoOutProj,
            "The merged heads are returned as they are; `out_proj` exists but is not used.",
            "Without it no channel ever holds something of two heads.",
            "One step is missing between the merge and `return`.",
        ),
        Misconception(
            "out_proj_on_the_values",
            _OutProjOnValues,
            "`out_proj` was applied to the values, before the heads.",
            "Then nothing mixes what the heads have found.",
            "It comes last: attend, merge, then project.",
        ),
        Misconception(
            "out_proj_before_the_merge",
            _OutProjBeforeMerge,
            "`out_proj` was applied before the heads were merged.",
            "What it mixed there were pieces of different tokens.",
            "Merge first, so that a row holds all heads of one token.",
        ),
        Misconception(
            "dropout_on_scores",
            _DropoutOnScores,
            "Dropout acts on the scores, before the softmax.",
            "A score of 0 is no weight of 0: the softmax gives it a share like any other.",
            "Which numbers should become 0, the scores or the weights?",
        ),
        Misconception(
            "dropout_unused",
            _DropoutUnused,
            "`dropout` has no effect in training.",
            "The argument is there, and whoever sets it gets nothing and no error.",
            "Where do the weights pass through it?",
        ),
        Misconception(
            "dropout_in_evaluation",
            _DropoutInEvaluation,
            "Dropout also acts in evaluation mode.",
            "A finished model would give another answer each time it is asked.",
            "`nn.Dropout` knows the mode of its module; `F.dropout` has to be told.",
        ),
        Misconception(
            "dropout_on_the_result",
            _DropoutOnResult,
            "There is a second dropout, behind `out_proj`.",
            "Here dropout belongs to the attention weights and nowhere else.",
            "Which line of yours uses it besides the one on the weights?",
        ),
        Misconception(
            "qkv_bias_forgotten",
            _BiasForgotten,
            "`qkv_bias=True` gives no biases.",
            "Weights of a model that has them (GPT-2, for one) would not fit in.",
            "`nn.Linear` has an argument for it.",
        ),
        Misconception(
            "mask_is_a_parameter",
            _MaskIsParameter,
            "The mask is an `nn.Parameter`, so it counts as something to learn.",
            "An optimizer may change it, and the count of parameters is wrong.",
            "A module can carry tensors along that are no parameters: buffers.",
        ),
        Misconception(
            "mask_left_behind",
            _MaskLeftBehind,
            "The mask is a plain attribute, which stays on the CPU when the module moves.",
            "On a GPU the first call stops with an error about two devices.",
            "Register it as a buffer, or make it on the device of `x`.",
        ),
        Misconception(
            "mask_not_cut",
            _MaskNotCut,
            "The mask is always (context_length, context_length), whatever T is.",
            "Every text that is shorter than the longest possible one stops with an error.",
            "Cut the mask to the first T rows and columns.",
        ),
        Misconception(
            "too_many_tokens_accepted",
            _AnyLength,
            "More tokens than `context_length` are accepted.",
            "A model was never trained on positions beyond it, and says nonsense there.",
            "Compare T with `context_length` first, and raise a ValueError with both.",
        ),
        Misconception(
            "uneven_heads_accepted",
            _AnyWidth,
            "A `d_out` that can't be divided by `num_heads` is accepted, and channels are lost.",
            "The model trains, and nobody notices that some of its channels do nothing.",
            "The constructor knows both numbers: raise a ValueError that names them.",
        ),
        Misconception(
            "mask_required",
            _MaskRequired,
            "`forward` can't be called without a mask.",
            "A batch of equal lengths has no padding, and then nobody passes a mask.",
            "Give `pad_mask` a default value.",
        ),
    ),
    uses=(
        "attention_scores",
        "causal_and_padding",
        "safe_masked_softmax",
        "split_heads",
        "merge_heads",
    ),
    hints=(
        "Four `nn.Linear`s, of which three go from `d_in` to `d_out`. Each of their results goes "
        "through `split_heads`; then all is as in lesson 05, with one dimension more.",
        "`attention_scores` and `safe_masked_softmax` work on the last two dimensions, so heads "
        "may stand in front. The causal mask is (T, T); `pad_mask` must become (B, 1, 1, T).",
        "`hidden = causal | pad_mask[:, None, None, :]`, weights through dropout, "
        "`merge_heads(weights @ value)`, and last `out_proj`.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here attention is yours to build: from scores, a mask, the softmax and `@`.",
)


# ---------------------------------------------------------------- copy_wrapper_to_split


def _make_pair(case: Case) -> tuple[nn.Module, nn.Module]:
    d_in, D, length, H = case.options["wrapper"]
    d_other, width, _, heads = case.options["split"]
    given, target = case.inputs.values()
    wrapper_bias, split_bias = "heads.0.query.bias" in given, "query.bias" in target
    return (
        MultiHeadAttentionWrapper(d_in, D, length, H, qkv_bias=wrapper_bias),
        MultiHeadAttention(d_other, width, length, heads, qkv_bias=split_bias),
    )


def _copy_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, int, int],
        target: tuple[int, int, int] | None = None,
        biases: tuple[bool, bool] = (False, False),
        frozen: tuple[str, ...] = (),
        dtype: torch.dtype = torch.float32,
        refuses: tuple[str, ...] | None = None,
    ) -> Case:
        (d_in, D, H), (d_other, D_other, H_other) = sizes, target or sizes
        length = draw.integer(5, 9)
        return Case(
            name,
            {
                "wrapper": wrapper_weights(draw, d_in, D, H, biases[0], dtype),
                "split": split_weights(draw, d_other, D_other, H_other, biases[1], dtype),
            },
            refuses,
            {
                "wrapper": (d_in, D, length, H),
                "split": (d_other, D_other * H_other, length, H_other),
                "x": draw.normal(2, 4, d_other, dtype=dtype),
                "frozen": frozen,
                "dtype": dtype,
                "heads": H,
            },
        )

    a, b, c = (distinct_sizes(draw)[2:] for _ in range(3))
    some = ("query.weight", "value.weight", "out_proj.bias")
    return [
        case("random sizes", a),
        case("both with biases, float64", b, biases=(True, True), dtype=torch.float64),
        case("biases in the split only", c, biases=(False, True)),
        case("partly frozen", a, biases=(True, True), frozen=some),
        case("one head", (a[0], 4, 1)),
        case("heads of width 1", (b[0], 1, 3)),
        case("as wide inside as outside", (6, 2, 3)),
        case("biases in the wrapper only", b, biases=(True, False), refuses=()),
        case("3 heads into 2", (5, 4, 3), (5, 6, 2), refuses=("3", "2")),
        case("another input width", (5, 2, 3), (4, 2, 3), refuses=("5", "4")),
        # `copy_` would stretch a single column over four without a word.
        case("1 input channel into 4", (1, 2, 3), (4, 2, 3), refuses=()),
        case("another width", (5, 2, 3), (5, 4, 3), refuses=("6", "12")),
    ]


def _expect_copy(case: Case) -> dict[str, Tensor]:
    if case.refuses is not None:
        return {}
    wrapper, split = case.inputs.values()
    H = case.options["heads"]
    expected = {}
    for name, value in split.items():
        if name in wrapper:
            expected[name] = wrapper[name]
        elif f"heads.0.{name}" in wrapper:
            expected[name] = torch.cat([wrapper[f"heads.{h}.{name}"] for h in range(H)])
        else:
            expected[name] = torch.zeros_like(value)
    doubles = {name: value.double() for name, value in expected.items()}
    out = split_oracle(case, doubles, case.options["x"].double())
    return expected | {"out": out.to(case.options["dtype"])}


def _heads_copied(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """The numbers of all heads are there, in whatever order."""
    if case.name != "random sizes":
        return None
    return all(
        near(
            seen.tensors[f"{n}.weight"].flatten().sort().values,
            expected[f"{n}.weight"].flatten().sort().values,
        )
        for n in PROJECTIONS
    )


def _out_proj_copied(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.refuses is not None:
        return None
    names = ("out_proj.weight", "out_proj.bias")
    return all(near(seen.tensors[n], expected[n]) for n in names)


class _Copy:
    """A right copy in steps; a misconception replaces one of them."""

    def __call__(self, wrapper: Any, split: Any) -> Any:
        self.refuse(wrapper, split)
        with torch.no_grad():
            for name in PROJECTIONS:
                target = getattr(split, name)
                sources = [getattr(head, name) for head in wrapper.heads]
                self.weight(target, sources)
                if target.bias is not None:
                    self.bias(target, sources)
            self.out_proj(split.out_proj, wrapper.out_proj)
        return self.result(split)

    def refuse(self, wrapper, split):
        mine = (wrapper.heads[0].query.weight.shape[1], len(wrapper.heads))
        theirs = (split.query.weight.shape[1], split.num_heads)
        widths = (wrapper.out_proj.weight.shape[0], split.out_proj.weight.shape[0])
        if mine != theirs or widths[0] != widths[1]:
            raise ValueError(f"{mine} {widths[0]} into {theirs} {widths[1]}")
        if wrapper.heads[0].query.bias is not None and split.query.bias is None:
            raise ValueError("no bias in the split")

    def weight(self, target, sources):
        target.weight.copy_(torch.cat([s.weight for s in sources]))

    def bias(self, target, sources):
        if sources[0].bias is None:
            target.bias.zero_()
        else:
            target.bias.copy_(torch.cat([s.bias for s in sources]))

    def out_proj(self, target, source):
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)

    def result(self, split):
        return None


class _CopyInterleaved(_Copy):
    def weight(self, target, sources):
        target.weight.copy_(torch.stack([s.weight for s in sources], 1).flatten(0, 1))


class _CopyReversed(_Copy):
    def weight(self, target, sources):
        target.weight.copy_(torch.cat([s.weight for s in sources[::-1]]))


class _CopyFirstHead(_Copy):
    def weight(self, target, sources):
        target.weight.copy_(torch.cat([sources[0].weight] * len(sources)))


class _CopyMeanHead(_Copy):
    def weight(self, target, sources):
        mean = torch.stack([s.weight for s in sources]).mean(0)
        target.weight.copy_(torch.cat([mean] * len(sources)))


class _CopyTransposed(_Copy):
    def weight(self, target, sources):
        target.weight.copy_(torch.cat([s.weight.T for s in sources], 1))


class _CopyReshaped(_Copy):
    def weight(self, target, sources):
        weights = torch.stack([s.weight for s in sources], -1)  # (D, d_in, H)
        target.weight.copy_(weights.reshape(target.weight.shape))


class _CopyWithoutOutProj(_Copy):
    def out_proj(self, target, source):
        pass


class _CopyWithoutOutBias(_Copy):
    def out_proj(self, target, source):
        target.weight.copy_(source.weight)


class _CopyOutTransposed(_Copy):
    def out_proj(self, target, source):
        target.weight.copy_(source.weight.T)
        target.bias.copy_(source.bias)


class _CopyAliased(_Copy):
    def out_proj(self, target, source):
        target.weight, target.bias = source.weight, source.bias


class _CopyDataAliased(_Copy):
    def out_proj(self, target, source):
        target.weight.data, target.bias.data = source.weight.data, source.bias.data


class _CopyNewParameters(_Copy):
    def weight(self, target, sources):
        target.weight = nn.Parameter(torch.cat([s.weight for s in sources]))

    def out_proj(self, target, source):
        target.weight = nn.Parameter(source.weight.clone())
        target.bias = nn.Parameter(source.bias.clone())


class _CopyBiasKept(_Copy):
    def bias(self, target, sources):
        if sources[0].bias is not None:
            super().bias(target, sources)


class _CopyWithoutBiases(_Copy):
    def bias(self, target, sources):
        pass


class _CopyBiasZeroed(_Copy):
    def bias(self, target, sources):
        target.bias.zero_()


class _CopyBiasDropped(_Copy):
    """A wrapper's biases that find no place are forgotten."""

    def refuse(self, wrapper, split):
        if wrapper.heads[0].query.bias is None or split.query.bias is not None:
            super().refuse(wrapper, split)


class _CopyUnchecked(_Copy):
    def refuse(self, wrapper, split):
        pass


class _CopyHeadsUnchecked(_Copy):
    def refuse(self, wrapper, split):
        if len(wrapper.heads) == split.num_heads:
            super().refuse(wrapper, split)


class _CopyReturnsSplit(_Copy):
    def result(self, split):
        return split


class _CopyFreezes(_Copy):
    def result(self, split):
        split.requires_grad_(False)


class _CopyThaws(_Copy):
    def result(self, split):
        split.requires_grad_(True)


class _CopyQueryEverywhere(_Copy):
    def __call__(self, wrapper, split):
        super().__call__(wrapper, split)
        with torch.no_grad():
            split.key.weight.copy_(split.query.weight)
            split.value.weight.copy_(split.query.weight)


def _copy_backwards(wrapper, split):
    """From the split into the wrapper."""
    _Copy().refuse(wrapper, split)
    with torch.no_grad():
        for name in PROJECTIONS:
            parts = getattr(split, name).weight.chunk(split.num_heads)
            for head, part in zip(wrapper.heads, parts, strict=True):
                getattr(head, name).weight.copy_(part)
        wrapper.out_proj.weight.copy_(split.out_proj.weight)
        wrapper.out_proj.bias.copy_(split.out_proj.bias)


COPY_WRAPPER_TO_SPLIT = Exercise(
    id="copy_wrapper_to_split",
    lesson=LESSON,
    call="copy_wrapper_to_split(wrapper, split)",
    points=2.0,
    cases=_copy_cases,
    probe=CopyProbe(_make_pair),
    expect=_expect_copy,
    reference=attention.copy_wrapper_to_split,
    behaviours=(
        Behaviour("heads", "The weights of every head have arrived", _heads_copied, gate=True),
        Behaviour("out_proj", "`out_proj` has arrived, weight and bias", _out_proj_copied, True),
        *COPY_BEHAVIOURS,
    ),
    misconceptions=(
        Misconception(
            "heads_interleaved",
            _CopyInterleaved(),
            "The rows of the heads alternate: first row of each head, second of each, …",
            "`split_heads` gives neighbouring rows to one head, so each would get a mixture.",
            "Which D rows of the big matrix make head 0?",
        ),
        Misconception(
            "heads_reversed",
            _CopyReversed(),
            "The heads are stacked in reverse order.",
            "`out_proj` expects head 0 in the first D channels.",
            "In which order does `split_heads` cut the width?",
        ),
        Misconception(
            "first_head_everywhere",
            _CopyFirstHead(),
            "Every head of the split got the weights of the wrapper's first head.",
            "What the other heads have learned is lost.",
            "Rows h · D to (h + 1) · D belong to head h.",
        ),
        Misconception(
            "heads_averaged",
            _CopyMeanHead(),
            "Every head of the split got the mean of all heads.",
            "Averaged heads can no longer look at different things.",
            "The weights are put on top of each other, not added.",
        ),
        Misconception(
            "reshaped_weights",
            _CopyReshaped(),
            "The stacked weights were forced into shape by a reshape, which scrambled them.",
            "A reshape keeps the reading order, and the heads were the innermost dimension.",
            "`torch.cat` along dimension 0 needs no reshape.",
        ),
        Misconception(
            "query_everywhere",
            _CopyQueryEverywhere(),
            "Keys and values got the weights of the queries.",
            "A token would then look for what it is itself.",
            "Three names, three sources: does your loop use its variable?",
        ),
        Misconception(
            "out_proj_not_copied",
            _CopyWithoutOutProj(),
            "`out_proj` was not copied.",
            "The heads agree, and their mixture does not.",
            "A wrapper has one more layer than its heads.",
        ),
        Misconception(
            "out_bias_not_copied",
            _CopyWithoutOutBias(),
            "The bias of `out_proj` was not copied.",
            "The outputs differ by the same vector at every token.",
            "An `nn.Linear` has two parameters.",
        ),
        Misconception(
            "out_proj_transposed",
            _CopyOutTransposed(),
            "The weight of `out_proj` was transposed on the way.",
            "It is square, so no error says that rows and columns are swapped.",
            "Both are `nn.Linear`s and keep their weights the same way.",
        ),
        Misconception(
            "parameters_shared",
            _CopyAliased(),
            "The split now holds the wrapper's own `Parameter` objects in `out_proj`.",
            "Training one module would change the other, and the split's optimizer holds the old "
            "ones.",
            "Assigning shares; which method of a tensor copies values into it?",
        ),
        Misconception(
            "data_shared",
            _CopyDataAliased(),
            "The parameters of `out_proj` share their memory with the wrapper's: `.data` was "
            "assigned.",
            "Training one module would change the other.",
            "Assigning shares; which method of a tensor copies values into it?",
        ),
        Misconception(
            "parameters_replaced",
            _CopyNewParameters(),
            "The values are right, but they sit in new `Parameter` objects.",
            "An optimizer that was made before would go on training the old ones.",
            "Write into the parameters that are there, under `torch.no_grad()`.",
        ),
        Misconception(
            "old_biases_kept",
            _CopyBiasKept(),
            "The split keeps its own random biases where the wrapper has none.",
            "No bias means a bias of zero; anything else changes the output.",
            "What must stand in a bias that should do nothing?",
        ),
        Misconception(
            "biases_not_copied",
            _CopyWithoutBiases(),
            "The biases of query, key and value were left as they were.",
            "With `qkv_bias=True` each head has three of them, and they matter.",
            "Biases are stacked as weights are.",
        ),
        Misconception(
            "biases_zeroed",
            _CopyBiasZeroed(),
            "The biases of the split are zero even where the wrapper has some.",
            "Zeros are right only if the wrapper has no biases.",
            "Look first whether the heads have a bias.",
        ),
        Misconception(
            "biases_lost",
            _CopyBiasDropped(),
            "A wrapper with biases was copied into a split without: they were dropped in silence.",
            "The outputs differ, and nobody was told.",
            "Refuse with a ValueError what can't be copied.",
        ),
        Misconception(
            "heads_not_compared",
            _CopyHeadsUnchecked(),
            "3 heads of 4 were copied into 2 heads of 6: the sizes fit, the heads don't.",
            "The split cuts the same rows elsewhere, so its output is another.",
            "Compare the number of heads before you copy.",
        ),
        Misconception(
            "sizes_not_compared",
            _CopyUnchecked(),
            "Modules that don't fit are not refused with a ValueError.",
            "`copy_` complains about shapes when half of the layers are already overwritten, or "
            "not at all.",
            "Compare heads, widths and biases first; name both numbers in the error.",
        ),
        Misconception(
            "returns_the_split",
            _CopyReturnsSplit(),
            "The copy is right, but the function returns the split; None was asked for.",
            "What works in place returns nothing, so that nobody takes it for a new object.",
            "Leave out the `return`.",
        ),
        Misconception(
            "freezes",
            _CopyFreezes(),
            "After the copy, no parameter of the split asks for a gradient.",
            "It can no longer be trained, and no error says so.",
            "`torch.no_grad()` around the copying is enough.",
        ),
        Misconception(
            "thaws",
            _CopyThaws(),
            "After the copy, parameters that were frozen ask for a gradient again.",
            "Whoever froze them wants them to stay as they are.",
            "Leave `requires_grad` alone.",
        ),
        Misconception(
            "nothing_copied",
            lambda wrapper, split: _Copy().refuse(wrapper, split),
            "After the call the split is as it was before.",
            "Methods such as `.clone()`, `.detach().clone()` or `torch.cat` make new tensors; what "
            "is written into those never reaches the module.",
            "Write into `split.query.weight` itself, in place.",
        ),
        Misconception(
            "copied_backwards",
            _copy_backwards,
            "The split was copied into the wrapper.",
            "The source should stay as it is; here its learned weights are gone.",
            "`target.copy_(source)`: the one that changes stands in front.",
        ),
    ),
    hints=(
        "The wrapper has H small matrices (D, d_in), the split one big (H · D, d_in). "
        "`split_heads` gives rows 0 to D − 1 to head 0, the next D to head 1, and so on.",
        "For each of query, key and value: "
        "`torch.cat([head.query.weight for head in wrapper.heads])` has the shape of "
        "`split.query.weight`. Under `torch.no_grad()`, `copy_` writes it there.",
        "Then the biases (`torch.cat` too, or `zero_()` if the heads have none), then weight and "
        "bias of `out_proj`. Before all that, compare `len(wrapper.heads)` with `split.num_heads`, "
        "and the shapes.",
    ),
)


# ---------------------------------------------------------------- count_parameters


class _Tied(nn.Module):
    """Two layers that use one and the same weight."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.first = nn.Linear(a, b)
        self.second = nn.Linear(a, b)
        self.second.weight = self.first.weight


class _Loose(nn.Module):
    """Parameters of its own beside a layer: a matrix, a single number, and a buffer."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.layer = nn.Linear(a, b)
        self.matrix = nn.Parameter(torch.zeros(b, a + 1))
        self.number = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("hidden", torch.ones(a, a))


def _twice(a: int, b: int) -> nn.Module:
    layer = nn.Linear(a, b)
    return nn.Sequential(layer, nn.ReLU(), nn.ModuleDict({"again": layer}))


def _frozen(a: int, b: int) -> nn.Module:
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(b, a))
    module[0].requires_grad_(False)
    return module


def _half_frozen(a: int, b: int) -> nn.Module:
    module = _Tied(a, b)
    module.first.bias.requires_grad_(False)
    return module


def _equal(a: int, b: int) -> nn.Module:
    """Two layers with equal values that share nothing."""
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(a, b))
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


# By name: how the module is made from two sizes, and what it counts, by hand.
MODULES: dict[str, tuple[Any, Any]] = {
    "a linear layer": (nn.Linear, lambda a, b: a * b + b),
    "a linear layer without bias": (
        lambda a, b: nn.Linear(a, b, bias=False),
        lambda a, b: a * b,
    ),
    "two layers in a row": (
        lambda a, b: nn.Sequential(nn.Linear(a, b), nn.Sequential(nn.ReLU(), nn.Linear(b, a))),
        lambda a, b: 2 * a * b + a + b,
    ),
    "two layers that share a weight": (_Tied, lambda a, b: a * b + 2 * b),
    "one layer in two places": (_twice, lambda a, b: a * b + b),
    "two layers of equal values": (_equal, lambda a, b: 2 * (a * b + b)),
    "a frozen layer and another": (_frozen, lambda a, b: a * b + a),
    "a shared weight and a frozen bias": (_half_frozen, lambda a, b: a * b + b),
    "a matrix, a number and a buffer beside a layer": (
        _Loose,
        lambda a, b: a * b + b + b * (a + 1) + 1,
    ),
    "batch normalisation, with running statistics": (
        lambda a, b: nn.BatchNorm1d(a + b),
        lambda a, b: 2 * (a + b),
    ),
    "a layer without parameters": (lambda a, b: nn.Dropout(0.1), lambda a, b: 0),
    "multi-head attention": (
        lambda a, b: MultiHeadAttention(a, 3 * b, a + b, 3),
        lambda a, b: 3 * a * 3 * b + 9 * b * b + 3 * b,
    ),
}


def _count_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    cases = []
    for name in MODULES:
        a, b = draw.sizes(2, 3, 11)
        made = {"kind": name, "sizes": (a, b)}
        cases.append(Case(name, {"module": f"{name}, sizes {a} and {b}"}, options=made))
    return cases


def _probe_count(answer: Any, case: Case) -> Observation:
    seen = Observation()
    torch.manual_seed(1)
    module = MODULES[case.options["kind"]][0](*case.options["sizes"]).train()
    before = [(n, id(p), p.requires_grad, p._version) for n, p in module.named_parameters()]
    seen.put("out", answer(module))
    after = [(n, id(p), p.requires_grad, p._version) for n, p in module.named_parameters()]
    if before != after or not module.training:
        seen.facts["modified"] = ["module"]
    return seen


def _expect_count(case: Case) -> dict[str, Tensor]:
    return {"out": torch.tensor(MODULES[case.options["kind"]][1](*case.options["sizes"]))}


def _counts(name: str) -> Any:
    def holds(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
        if case.name != name:
            return None
        return bool(seen.tensors["out"] == expected["out"])

    return holds


def _count_everything(module):
    return sum(p.numel() for p in module.parameters())


def _count_shared_twice(module):
    named = module.named_parameters(remove_duplicate=False)
    return sum(p.numel() for _, p in named if p.requires_grad)


def _count_layers(module):
    return sum(
        p.numel() for m in module.modules() for p in m.parameters(recurse=False) if p.requires_grad
    )


def _count_state(module):
    return sum(t.numel() for t in module.state_dict().values())


def _count_tensors(module):
    return sum(1 for p in module.parameters() if p.requires_grad)


def _count_weights(module):
    named = module.named_parameters()
    return sum(p.numel() for n, p in named if p.requires_grad and n.endswith("weight"))


def _count_own(module):
    return sum(p.numel() for p in module.parameters(recurse=False) if p.requires_grad)


def _count_with_buffers(module):
    return sum(
        t.numel() for t in (*(p for p in module.parameters() if p.requires_grad), *module.buffers())
    )


def _count_matrices(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad and p.dim() == 2)


def _count_rows(module):
    return sum(len(p) for p in module.parameters() if p.requires_grad and p.dim())


def _count_as_tensor(module):
    return torch.tensor([p.numel() for p in module.parameters() if p.requires_grad] or [0]).sum()


def _count_as_float(module):
    return float(sum(p.numel() for p in module.parameters() if p.requires_grad))


def _count_children(module):
    """Linear layers among the direct children only."""
    layers = [m for m in module.children() if isinstance(m, nn.Linear)]
    return sum(p.numel() for m in layers for p in m.parameters() if p.requires_grad)


COUNT_PARAMETERS = Exercise(
    id="count_parameters",
    lesson=LESSON,
    call="count_parameters(module)",
    points=1.0,
    cases=_count_cases,
    probe=_probe_count,
    expect=_expect_count,
    reference=attention.count_parameters,
    returns="int",
    behaviours=(
        Behaviour("plain", "A linear layer is counted right", _counts("a linear layer"), gate=True),
        Behaviour(
            "shared",
            "A weight that two layers share counts once",
            _counts("two layers that share a weight"),
            credit=True,
        ),
        Behaviour(
            "frozen",
            "Frozen numbers don't count",
            _counts("a frozen layer and another"),
            credit=True,
        ),
        Behaviour(
            "buffers",
            "Buffers don't count",
            _counts("batch normalisation, with running statistics"),
            credit=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "frozen_counted",
            _count_everything,
            "Frozen parameters are counted too.",
            "The count should say how many numbers training can change.",
            "Each parameter knows whether it asks for a gradient.",
        ),
        Misconception(
            "shared_counted_twice",
            _count_shared_twice,
            "A parameter that stands in two places is counted twice.",
            "Many models share the embedding with the head: 38.6 million numbers in GPT-2.",
            "`module.parameters()` gives each `Parameter` once. Which call gives it twice?",
        ),
        Misconception(
            "layer_by_layer",
            _count_layers,
            "You added up layer by layer, so a weight that two layers share is counted twice.",
            "Many models share the embedding with the head: 38.6 million numbers in GPT-2.",
            "Ask the whole module at once for its parameters.",
        ),
        Misconception(
            "state_dict_counted",
            _count_state,
            "The `state_dict` also holds buffers and frozen parameters, and shared ones twice.",
            "It lists what is saved, not what is trained.",
            "Which method gives parameters only?",
        ),
        Misconception(
            "buffers_counted",
            _count_with_buffers,
            "Buffers are counted too.",
            "A mask or a running mean is carried along and never trained.",
            "`parameters()` leaves them out.",
        ),
        Misconception(
            "tensors_counted",
            _count_tensors,
            "You counted tensors, not the numbers in them.",
            "A weight of (768, 768) is one tensor and 589,824 numbers.",
            "How does a tensor tell its number of elements?",
        ),
        Misconception(
            "rows_counted",
            _count_rows,
            "You counted rows: `len` of a tensor is its first size.",
            "A weight of (768, 768) has 768 rows and 589,824 numbers.",
            "How does a tensor tell its number of elements?",
        ),
        Misconception(
            "biases_left_out",
            _count_weights,
            "Only parameters named `weight` are counted.",
            "Biases and single parameters are trained as well.",
            "Count all that `parameters()` gives.",
        ),
        Misconception(
            "only_matrices",
            _count_matrices,
            "Only matrices are counted.",
            "Biases are vectors, and a scale may be a single number; all are trained.",
            "Count whatever the shape.",
        ),
        Misconception(
            "only_its_own",
            _count_own,
            "Only parameters that the module holds itself are counted, not those of its parts.",
            "Nearly every model is made of parts.",
            "`parameters()` goes into the parts by default.",
        ),
        Misconception(
            "only_direct_layers",
            _count_children,
            "Only the linear layers one step inside the module are counted.",
            "Parts have parts, and parameters may stand outside any linear layer.",
            "`module.parameters()` finds them all.",
        ),
        Misconception(
            "a_tensor",
            _count_as_tensor,
            "The count is a tensor; an `int` was asked for.",
            "A tensor prints and compares differently, and may sit on another device.",
            "Python's own `sum` over `p.numel()` gives an int.",
        ),
        Misconception(
            "a_float",
            _count_as_float,
            "The count is a float; an `int` was asked for.",
            "Above 2⁵³ a float can't tell neighbouring whole numbers apart.",
            "`numel()` is an int, and sums of ints are ints.",
        ),
    ),
    hints=(
        "`module.parameters()` goes through all parameters, each once; `p.numel()` is how many "
        "numbers one holds.",
        "`p.requires_grad` says whether it is trained: `sum(… for p in module.parameters() if …)`.",
    ),
)


# ---------------------------------------------------------------- the quiz

ENTRIES = (
    "embedding",
    "after view",
    "after transpose",
    "key transposed",
    "scores",
    "weighted values",
    "merged",
    "logits",
)


def _quiz(*shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return dict(zip(ENTRIES, shapes, strict=True))


EMBEDDED, VIEWED, TURNED = (1, 4, 768), (1, 4, 8, 96), (1, 8, 4, 96)
KEY_TURNED, SCORES, LOGITS = (1, 8, 96, 4), (1, 8, 4, 4), (1, 4, 9735)
QUIZ_ANSWER = _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, SCORES, TURNED, EMBEDDED, LOGITS)


def _quiz_cases(seed: int) -> list[Case]:
    why = (
        "Each of the 4 ids becomes a vector of 768.",
        "The last dimension is cut into 8 heads of 96; nothing else moves.",
        "Tokens and heads have changed places.",
        "The last two dimensions have changed places, so that query @ key fits.",
        "(4, 96) @ (96, 4) in each head: a score for each pair of tokens.",
        "(4, 4) @ (4, 96): the weights mix tokens and leave the width.",
        "Swapped back, and 8 heads of 96 side by side are 768 again.",
        "A score for each of the 9,735 words, at each of the 4 positions.",
    )
    ask = (
        "How many ids are there, and how wide is the model?",
        "Which dimension does the cut make two of?",
        "`transpose(1, 2)` swaps which two sizes?",
        "`transpose(-2, -1)` swaps the last two sizes of a key (1, 8, 4, 96).",
        "Of (…, 4, 96) @ (…, 96, 4), which sizes are left?",
        "Of (…, 4, 4) @ (…, 4, 96), which sizes are left?",
        "How wide are 8 heads of 96 side by side?",
        "The last layer turns each token's 768 channels into one score a word.",
    )
    return [
        Case(
            "ids (1, 4), width 768, 8 heads of 96, vocabulary of 9,735",
            {},
            options={
                "entries": ENTRIES,
                "why": dict(zip(ENTRIES, why, strict=True)),
                "ask": dict(zip(ENTRIES, ask, strict=True)),
            },
        )
    ]


HEAD_SHAPES = Exercise(
    id="head_shapes",
    lesson=LESSON,
    call="head_shapes",
    points=1.0,
    kind="quiz",
    cases=_quiz_cases,
    probe=probe_quiz,
    expect=lambda case: {k: torch.tensor(v) for k, v in QUIZ_ANSWER.items()},
    reference=QUIZ_ANSWER,
    misconceptions=(
        Misconception(
            "heads_behind_tokens",
            _quiz(EMBEDDED, VIEWED, VIEWED, (1, 4, 96, 8), (1, 4, 8, 8), VIEWED, EMBEDDED, LOGITS),
            "You left the heads behind the tokens all the way.",
            "Then (8, 96) @ (96, 8) compares heads with heads, and no token with another.",
            "`transpose(1, 2)` swaps the sizes at places 1 and 2.",
        ),
        Misconception(
            "view_makes_heads_first",
            _quiz(EMBEDDED, TURNED, VIEWED, KEY_TURNED, SCORES, TURNED, EMBEDDED, LOGITS),
            "You took view and transpose in the other order.",
            "A view that brings the heads in front mixes tokens: that is this lesson's wrong way.",
            "The view only cuts the last dimension.",
        ),
        Misconception(
            "heads_swapped_with_width",
            _quiz(
                EMBEDDED, (1, 4, 96, 8), (1, 96, 4, 8), KEY_TURNED, SCORES, TURNED, EMBEDDED, LOGITS
            ),
            "You cut the width into 96 heads of 8.",
            "Number and width of the heads multiply to the same 768, so no error would tell.",
            "The number of heads comes first, then the width of one.",
        ),
        Misconception(
            "full_width_in_every_head",
            _quiz(
                EMBEDDED,
                (1, 4, 8, 768),
                (1, 8, 4, 768),
                (1, 8, 768, 4),
                SCORES,
                (1, 8, 4, 768),
                EMBEDDED,
                LOGITS,
            ),
            "You gave every head the full width of 768.",
            "A view makes no new numbers: 4 · 8 · 768 is eight times what there is.",
            "Each head has its share of the width: 768 / 8.",
        ),
        Misconception(
            "key_transposed_everywhere",
            _quiz(EMBEDDED, VIEWED, TURNED, (1, 96, 4, 8), SCORES, TURNED, EMBEDDED, LOGITS),
            "You swapped the heads of the key with its width.",
            "A product multiplies the last two dimensions; batch and heads stay in front.",
            "`transpose(-2, -1)` touches the last two dimensions only.",
        ),
        Misconception(
            "scores_over_channels",
            _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, (1, 8, 96, 96), TURNED, EMBEDDED, LOGITS),
            "Your scores compare channels with channels.",
            "Attention compares tokens: one score for each query and each key.",
            "(4, 96) @ (96, 4): the inner size goes, the outer ones stay.",
        ),
        Misconception(
            "one_score_matrix",
            _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, (1, 4, 4), TURNED, EMBEDDED, LOGITS),
            "You have one matrix of scores for all heads.",
            "Each head compares the tokens in its own way: that is what heads are for.",
            "The dimensions of batch and heads stay in front of the product.",
        ),
        Misconception(
            "weighted_values_are_weights",
            _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, SCORES, SCORES, EMBEDDED, LOGITS),
            "You gave the weighted values the shape of the weights.",
            "Weights say how much; the result holds what was collected, 96 numbers a token.",
            "(4, 4) @ (4, 96): which sizes are left?",
        ),
        Misconception(
            "not_merged",
            _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, SCORES, TURNED, VIEWED, LOGITS),
            "You swapped the heads back and left them a dimension of their own.",
            "`out_proj` takes 768 channels a token.",
            "How wide are 8 heads of 96 side by side?",
        ),
        Misconception(
            "last_token_only",
            _quiz(EMBEDDED, VIEWED, TURNED, KEY_TURNED, SCORES, TURNED, EMBEDDED, (1, 9735)),
            "You counted logits for the last token only.",
            "In training, every position predicts its own next token.",
            "The last layer works on each token alone: only the width changes.",
        ),
        Misconception(
            "ids_not_embedded",
            _quiz((1, 4), VIEWED, TURNED, KEY_TURNED, SCORES, TURNED, EMBEDDED, LOGITS),
            "You gave the embedding the shape of the ids.",
            "An id is one number; the embedding replaces it by a vector.",
            "How wide is the model?",
        ),
    ),
    hints=(
        "`view` cuts the last dimension, 768 = 8 · 96. `transpose(1, 2)` swaps the sizes at places "
        "1 and 2.",
        "A product works on the last two dimensions: (4, 96) @ (96, 4) gives (4, 4), and "
        "(4, 4) @ (4, 96) gives (4, 96); batch and heads stay in front.",
    ),
)

EXERCISES = (
    HEAD_SHAPES,
    SPLIT_HEADS,
    MERGE_HEADS,
    MULTI_HEAD_ATTENTION,
    COPY_WRAPPER_TO_SPLIT,
    COUNT_PARAMETERS,
)
