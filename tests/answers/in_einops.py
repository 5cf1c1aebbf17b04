"""Right answers written with einops, as much public code is."""

import torch
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn


def naive_mean(x):
    means = [reduce(x[:, : t + 1], "b t c -> b c", "mean") for t in range(x.shape[1])]
    return rearrange(means, "t b c -> b t c")


def softmax(scores, dim=-1):
    last = scores.movedim(dim, -1)
    exps = (last - reduce(last, "... s -> ... 1", "max")).exp()
    return (exps / reduce(exps, "... s -> ... 1", "sum")).movedim(-1, dim)


def masked_softmax(scores, hidden):
    return softmax(scores.masked_fill(hidden, -torch.inf))


def attention_scores(query, key):
    return einsum(query, key, "... t d, ... s d -> ... t s") * query.shape[-1] ** -0.5


def merge_heads(x):
    return rearrange(x, "b h t d -> b t (h d)")


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - reduce(x, "... c -> ... 1", "mean")
        variance = reduce(centred**2, "... c -> ... 1", "mean")
        return self.scale * centred * (variance + self.eps).rsqrt() + self.shift


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x * (reduce(x**2, "... c -> ... 1", "mean") + self.eps).rsqrt() * self.scale


class CausalSelfAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, _ = x.shape
        hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        scores = attention_scores(self.query(x), self.key(x))
        weights = masked_softmax(scores, repeat(hidden, "t s -> b t s", b=B))
        return einsum(self.dropout(weights), self.value(x), "b t s, b s d -> b t d")


def mixed(query, key, value, hidden, dropout):
    """The mix of values in each head; zeros for a token that may attend to none."""
    scores = attention_scores(query, key).masked_fill(hidden, torch.finfo(query.dtype).min)
    weights = softmax(scores).masked_fill(hidden, 0)
    return einsum(dropout(weights), value, "b h t s, b h s d -> b h t d")


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.split = Rearrange("b t (h d) -> b h t d", h=num_heads)
        self.merge = Rearrange("b h t d -> b t (h d)")

    def forward(self, x, pad_mask=None):
        query, key, value = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        T = x.shape[1]
        hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        if pad_mask is not None:
            hidden = hidden | rearrange(pad_mask, "b s -> b 1 1 s")
        found = mixed(query, key, value, hidden, self.dropout)
        return self.out_proj(self.merge(found))


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, context, context_pad_mask=None):
        projected = self.query(x), self.key(context), self.value(context)
        split = (rearrange(p, "b t (h d) -> b h t d", h=self.num_heads) for p in projected)
        hidden = torch.zeros(context.shape[:2], dtype=torch.bool, device=x.device)
        if context_pad_mask is not None:
            hidden = context_pad_mask
        found = mixed(*split, rearrange(hidden, "b s -> b 1 1 s"), self.dropout)
        return self.out_proj(merge_heads(found))
