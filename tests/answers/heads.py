"""Heads and functions on which the answers of several lessons build."""

import torch
from torch import nn

INF = float("inf")


def by_einsum(query, key):
    return torch.einsum("btd,bsd->bts", query, key) / query.size(-1) ** 0.5


def by_where(scores, hidden):
    seen = ~hidden
    filled = torch.where(seen, scores, -INF)
    safe = torch.where(seen.any(-1, keepdim=True), filled, torch.zeros_like(filled))
    return torch.where(seen, safe.softmax(-1), 0.0)


class Plain(nn.Module):
    """The usual layout of a head; other answers differ from it in a line or two."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.context_length = context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.attend(self.query(x), self.key(x), self.value(x))

    def attend(self, q, k, v):
        return self.dropout(self.weigh(by_einsum(q, k))) @ v

    def weigh(self, scores):
        return self.fill(scores).softmax(-1)

    def fill(self, scores):
        return scores.masked_fill(self.future(scores), -INF)

    def future(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class PlainPadded(Plain):
    """The same with a `pad_mask`; other answers differ from it in a line or two."""

    pad = None

    def forward(self, x, pad_mask=None):
        self.pad = pad_mask
        return super().forward(x)

    def hidden(self, scores):
        future = self.future(scores).expand_as(scores)
        return future if self.pad is None else future | self.columns(self.pad)

    def columns(self, pad):
        return pad[:, None, :]

    def weigh(self, scores):
        return by_where(scores, self.hidden(scores))


class Fused:
    """One projection `qkv` for query, key and value, which are views of it by name."""

    class Part:
        def __init__(self, weight, bias):
            self.weight, self.bias = weight, bias

    def part(self, i):
        bias = None if self.qkv.bias is None else self.qkv.bias.chunk(3)[i]
        return self.Part(self.qkv.weight.chunk(3)[i], bias)

    query = property(lambda self: self.part(0))
    key = property(lambda self: self.part(1))
    value = property(lambda self: self.part(2))
