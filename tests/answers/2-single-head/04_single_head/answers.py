"""Right and wrong answers for lesson 04."""

import math
import types

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers.heads import INF, Plain, by_einsum

# ---------------------------------------------------------------- attention_scores


def by_baddbmm(query, key):
    B, T, D = query.shape
    empty = query.new_empty(B, T, key.shape[1])
    return torch.baddbmm(empty, query, key.mT, beta=0, alpha=D**-0.5)


def by_loops(query, key):
    rows = [
        [torch.stack([q @ k for k in keys]) for q in queries]
        for queries, keys in zip(query, key, strict=True)
    ]
    return torch.stack([torch.stack(r) for r in rows]) / math.sqrt(query.shape[2])


def both_sides_scaled(query, key):
    fourth_root = query.shape[-1] ** 0.25
    return torch.bmm(query / fourth_root, (key / fourth_root).permute(0, 2, 1))


def by_broadcasting(query, key):
    product = query[:, :, None, :] * key[:, None, :, :]
    return product.sum(-1) * torch.rsqrt(torch.tensor(query.shape[-1], dtype=query.dtype))


SCORES_WRONG = {
    "distance": (0, lambda query, key: -torch.cdist(query, key) / math.sqrt(query.shape[-1])),
    "cosine": (0, lambda query, key: F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT),
    "whole root": (0.25, lambda query, key: query @ key.mT / math.isqrt(query.shape[-1])),
    "query against itself": (0, lambda query, key: by_einsum(query, query)),
    "batch dropped": (0, lambda query, key: by_einsum(query, key)[0]),
}


# ---------------------------------------------------------------- CausalSelfAttention: right


class TrilBuffer(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))

    def fill(self, scores):
        T = scores.shape[-1]
        return scores.masked_fill(self.tril[:T, :T] == 0, -1e9)


class Additive(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        bias = torch.full((context_length, context_length), -1e4).triu(1)
        self.register_buffer("bias", bias, persistent=False)

    def fill(self, scores):
        T = scores.shape[-1]
        return scores + self.bias[:T, :T]


class PlainTensorMoved(Plain):
    """A mask in a plain attribute, brought along by hand."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.mask = torch.ones(context_length, context_length).triu(1).bool()

    def future(self, scores):
        T = scores.shape[-1]
        return self.mask[:T, :T].to(scores.device)


class Fused(nn.Module):
    """One projection for all three; `query`, `key` and `value` are views of it."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def _part(self, i):
        rows = slice(i * self.d_out, (i + 1) * self.d_out)
        bias = None if self.qkv.bias is None else self.qkv.bias[rows]
        return types.SimpleNamespace(weight=self.qkv.weight[rows], bias=bias)

    query = property(lambda self: self._part(0))
    key = property(lambda self: self._part(1))
    value = property(lambda self: self._part(2))

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        bias = x.new_full((T, T), -INF).triu(1).expand(B, T, T)
        scores = torch.baddbmm(bias, q, k.mT, alpha=self.d_out**-0.5)
        return torch.bmm(self.dropout(torch.softmax(scores, -1)), v)


class TokenByToken(Plain):
    def attend(self, q, k, v):
        rows = []
        for t in range(q.shape[1]):
            scores = (k[:, : t + 1] @ q[:, t, :, None])[..., 0] / math.sqrt(self.d_out)
            weights = self.dropout(scores.softmax(-1))
            rows.append((weights[..., None] * v[:, : t + 1]).sum(1))
        return torch.stack(rows, dim=1)


class UniformDropout(Plain):
    def attend(self, q, k, v):
        weights, p = self.weigh(by_einsum(q, k)), self.dropout.p
        if self.training:
            weights = torch.where(torch.rand_like(weights) < p, 0.0, weights / (1 - p))
        return weights @ v


# ---------------------------------------------------------------- CausalSelfAttention: wrong


HEADS_RIGHT = (TrilBuffer, Additive, PlainTensorMoved, Fused, TokenByToken, UniformDropout)


# ---------------------------------------------------------------- copy_linear_to_matrix

NAMES = ("query", "key", "value")


def pairs(linear_attention, matrix_attention):
    for name in NAMES:
        yield getattr(linear_attention, name).weight, getattr(matrix_attention, f"W_{name}")


@torch.no_grad()
def one_after_the_other(linear_attention, matrix_attention):
    matrix_attention.W_query.copy_(linear_attention.query.weight.t())
    matrix_attention.W_key.copy_(linear_attention.key.weight.t())
    matrix_attention.W_value.copy_(linear_attention.value.weight.t())


def through_data(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        matrix.data = weight.data.T.clone()


def element_by_element(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        for o in range(weight.shape[0]):
            matrix.data[:, o] = weight.data[o]


def through_the_identity(linear_attention, matrix_attention):
    """What a layer makes of the identity is its matrix."""
    with torch.no_grad():
        for name in NAMES:
            layer = getattr(linear_attention, name)
            eye = torch.eye(layer.in_features).to(layer.weight)
            getattr(matrix_attention, f"W_{name}").copy_(layer(eye))


def state_dict_never_loaded(linear_attention, matrix_attention):
    state = matrix_attention.state_dict()
    for name in NAMES:
        state[f"W_{name}"] = getattr(linear_attention, name).weight.T


def key_and_value_swapped(linear_attention, matrix_attention):
    with torch.no_grad():
        matrix_attention.W_query.copy_(linear_attention.query.weight.T)
        matrix_attention.W_key.copy_(linear_attention.value.weight.T)
        matrix_attention.W_value.copy_(linear_attention.key.weight.T)


@torch.no_grad()
def by_order_of_the_source(linear_attention, matrix_attention):
    for weight, name in zip(linear_attention.parameters(), NAMES, strict=False):
        getattr(matrix_attention, f"W_{name}").copy_(weight.T)


COPIES_WRONG = (
    state_dict_never_loaded,
    key_and_value_swapped,
    by_order_of_the_source,
)


# ---------------------------------------------------------------- all by exercise

WHY = {
    "W_q": [(0, 0, 4), (4, 0, 0), (0, 4, 0)],
    "score in reverse": 3,
    "changed by W_v": "context",
    "shown by the key": "kind",
    "passed on by the value": "payload",
}


def by_name(*answers):
    return {answer.__name__.replace("_", " "): answer for answer in answers}


RIGHT = {
    "attention_scores": {"einsum": by_einsum}
    | by_name(by_baddbmm, by_loops, both_sides_scaled, by_broadcasting),
    "why_three_projections": {
        "lists": {**WHY, "W_q": [[0, 0, 4], [4, 0, 0], [0, 4, 0]]},
        "a tensor, in capitals": {
            **WHY,
            "W_q": torch.tensor([[0, 0, 4], [4, 0, 0], [0, 4, 0]]),
            "changed by W_v": "Context",
            "shown by the key": "Kind ",
        },
    },
    "CausalSelfAttention": by_name(*HEADS_RIGHT),
    "copy_linear_to_matrix": by_name(
        one_after_the_other, through_data, element_by_element, through_the_identity
    ),
}

WRONG = {
    "attention_scores": SCORES_WRONG,
    "why_three_projections": {
        "W_q in another order of rows": (
            0.75,
            {**WHY, "W_q": [(4, 0, 0), (0, 4, 0), (0, 0, 4)][::-1]},
        ),
        "W_q of ones": (0.75, {**WHY, "W_q": [(0, 0, 1), (1, 0, 0), (0, 1, 0)]}),
        "W_q in one row": (0.75, {**WHY, "W_q": (0, 0, 4, 4, 0, 0, 0, 4, 0)}),
        "score in reverse left out": (0.75, {**WHY, "score in reverse": ...}),
        "score in reverse as a fraction": (0.75, {**WHY, "score in reverse": 1 / 3}),
        "what changes, in other words": (0.75, {**WHY, "changed by W_v": "the result"}),
        "key and value both the payload": (0.75, {**WHY, "shown by the key": "payload"}),
        "all the same": (0, dict.fromkeys(WHY, "kind")),
    },
    "copy_linear_to_matrix": {name: (0, copy) for name, copy in by_name(*COPIES_WRONG).items()},
}
