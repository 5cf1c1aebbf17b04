"""Right answers built in steps, for mistakes to be put on: scores, masks, weights, heads.

Each class gives the steps of one part; `Head` and what follows join them. A step is a method or a
class attribute, small enough that one mistake changes one of them.
"""

from __future__ import annotations

import math

import torch
from torch import nn

INF = math.inf


class Scoring:
    """Scores from queries and keys."""

    def scores(self, query, key):
        return self.compared(query, key) / self.scale(query, key)

    def compared(self, query, key):
        return query @ key.transpose(-2, -1)

    def scale(self, query, key):
        return math.sqrt(query.shape[-1])


class Hiding:
    """Which keys are hidden: the future, and padding."""

    def hidden(self, T, device, pad_mask=None):
        future = self.future(T, device)
        return future if pad_mask is None else self.with_padding(future, pad_mask)

    def future(self, T, device=None):
        return torch.ones(T, T, dtype=torch.bool, device=device).triu(self.first_diagonal)

    first_diagonal = 1

    def with_padding(self, future, pad_mask):
        return future | self.columns(pad_mask)

    def columns(self, pad_mask):
        return pad_mask[:, None, :]


class Weighing:
    """Scores to weights under a mask; every row sees something."""

    fill = -INF
    axis = -1

    def weights(self, scores, hidden):
        return self.softmax(self.hide(scores, hidden))

    def hide(self, scores, hidden):
        return scores.masked_fill(hidden, self.fill)

    def softmax(self, scores):
        return torch.softmax(scores, dim=self.axis)


class SafeWeighing(Weighing):
    """As `Weighing`, and a row that sees nothing gets zeros."""

    def weights(self, scores, hidden):
        blind = self.blind(hidden.expand_as(scores))
        scores = self.hide(scores, hidden).masked_fill(blind, 0.0)
        return self.softmax(scores).masked_fill(blind, 0.0)

    def blind(self, hidden):
        return hidden.all(dim=-1, keepdim=True)


class Mean(Hiding):
    """The mean of the tokens so far, by one matrix product."""

    def __call__(self, x):
        return self.collected(self.shares(self.visible(x)), x)

    def visible(self, x):
        return (~self.future(x.shape[1], x.device)).to(x.dtype)

    def shares(self, visible):
        return visible / visible.sum(-1, keepdim=True)

    def collected(self, shares, x):
        return shares @ x


class MeanWeights(Mean):
    """The weights of that mean for T tokens."""

    def __call__(self, T):
        return self.shares((~self.future(T)).float())


class SoftmaxMean(Weighing, Mean):
    """The same mean from equal scores, a mask and a softmax."""

    def __call__(self, x):
        hidden = self.future(x.shape[1], x.device)
        return self.collected(self.weights(self.scores(x), hidden), x)

    def scores(self, x):
        return x.new_zeros(x.shape[1], x.shape[1])


class Softmax:
    """The softmax from a shift, exponentials and their sum."""

    def __call__(self, scores, dim=-1):
        return self.divided(self.exponential(self.shifted(scores, dim)), dim)

    def shifted(self, scores, dim):
        return scores - self.top(scores, dim)

    def top(self, scores, dim):
        return scores.amax(dim, keepdim=True)

    def exponential(self, shifted):
        return shifted.exp()

    def divided(self, exps, dim):
        return exps / self.total(exps, dim)

    def total(self, exps, dim):
        return exps.sum(dim, keepdim=True)


class MaskedSoftmax(Weighing):
    def __call__(self, scores, hidden):
        return self.weights(scores, hidden)


class SafeMaskedSoftmax(SafeWeighing):
    def __call__(self, scores, hidden):
        return self.weights(scores, hidden)


class AttentionScores(Scoring):
    def __call__(self, query, key):
        return self.scores(query, key)


class CausalAndPadding(Hiding):
    def __call__(self, pad_mask):
        return self.answered(self.hidden(pad_mask.shape[1], pad_mask.device, pad_mask))

    def answered(self, mask):
        return mask


class Refusing:
    """What is too much, and the error that says so."""

    def too_many(self, number, limit):
        return number > limit

    def complain(self, *numbers):
        raise ValueError(f"got {' and '.join(map(str, numbers))}")


class Head(Scoring, Hiding, Weighing, Refusing, nn.Module):
    """One causal head."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out, self.context_length = d_in, d_out, context_length
        self.query = nn.Linear(d_in, d_out, bias=self.biased("query", qkv_bias))
        self.key = nn.Linear(d_in, d_out, bias=self.biased("key", qkv_bias))
        self.value = nn.Linear(d_in, d_out, bias=self.biased("value", qkv_bias))
        self.dropout = nn.Dropout(self.rate(dropout))
        self.keep_mask(context_length)

    def biased(self, name, qkv_bias):
        return qkv_bias

    def rate(self, dropout):
        return dropout

    def keep_mask(self, context_length):
        """Made on the spot here; mistakes keep one."""

    def forward(self, x, pad_mask=None):
        x = self.accepted(x)
        query, key, value = self.projected(x)
        hidden = self.hidden(x.shape[1], x.device, pad_mask)
        weights = self.dropped(self.weights(self.scores(query, key), hidden))
        return self.result(self.collected(weights, value), pad_mask)

    def accepted(self, x):
        if self.too_many(x.shape[1], self.context_length):
            self.complain(x.shape[1], self.context_length)
        return x

    def projected(self, x):
        return tuple(self.project(layer, x) for layer in (self.query, self.key, self.value))

    def project(self, layer, x):
        return layer(x)

    def dropped(self, weights):
        return self.dropout(weights)

    def collected(self, weights, value):
        return weights @ value

    def result(self, context, pad_mask):
        return context


class PaddedHead(SafeWeighing, Head):
    """One causal head for padded batches."""


class Splitting:
    """The width cut into heads, (B, T, C) to (B, H, T, D)."""

    def refuse(self, width, num_heads):
        if width % num_heads:
            raise ValueError(f"{width} channels, {num_heads} heads")

    def split(self, x, num_heads):
        B, T, C = x.shape
        return x.reshape(B, T, num_heads, C // num_heads).transpose(1, 2)


class Joining:
    """Heads side by side again, (B, H, T, D) to (B, T, C), and mixed."""

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def result(self, context, pad_mask):
        return self.mixed(self.merge(context))

    def mixed(self, merged):
        return self.out_proj(merged)


class Split(Splitting):
    def __call__(self, x, num_heads):
        self.refuse(x.shape[-1], num_heads)
        return self.split(x, num_heads)


class Merge(Joining):
    def __call__(self, x):
        return self.merge(x)


class SideBySide(Joining, nn.Module):
    """Several heads that look at the same tokens, concatenated and mixed."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.context_length = num_heads, context_length
        sizes = d_in, d_head, context_length
        self.heads = self.listed(
            self.head(*sizes, self.rate(dropout), self.bias(qkv_bias)) for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(num_heads * d_head, num_heads * d_head)
        self.dropout = nn.Dropout(dropout)  # unused; mistakes use it

    def head(self, d_in, d_head, context_length, dropout, qkv_bias):
        return PaddedHead(d_in, d_head, context_length, dropout, qkv_bias)

    def rate(self, dropout):
        return dropout

    def bias(self, qkv_bias):
        return qkv_bias

    def listed(self, heads):
        return nn.ModuleList(heads)

    def forward(self, x, pad_mask=None):
        contexts = self.contexts(self.accepted(x), pad_mask)
        return self.result(torch.stack(contexts, dim=1), pad_mask)

    def accepted(self, x):
        return x

    def contexts(self, x, pad_mask):
        return [self.look(h, x, pad_mask) for h in range(len(self.heads))]

    def look(self, h, x, pad_mask):
        return self.heads[h](x, pad_mask)


class SplitHeads(Splitting, Joining, PaddedHead):
    """All heads from one projection each for query, key and value."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        self.refuse(d_out, num_heads)
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.num_heads = num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def projected(self, x):
        return tuple(self.split(p, self.num_heads) for p in super().projected(x))

    def columns(self, pad_mask):
        return pad_mask[:, None, None, :]
