"""Right and wrong answers for lesson 07."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers.heads import INF, Fused

PROJECTIONS = ("query", "key", "value")


def even(width, num_heads):
    if width % num_heads:
        raise ValueError(f"width {width} doesn't go into {num_heads} heads")
    return width // num_heads


def split_by_stack(x, num_heads):
    return torch.stack(x.split(even(x.shape[-1], num_heads), dim=-1), 1)


def split_by_unflatten(x, num_heads):
    even(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3).contiguous()


def split_by_loop(x, num_heads):
    B, T, C = x.shape
    D = even(C, num_heads)
    out = x.new_zeros(B, num_heads, T, D)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * D : (h + 1) * D]
    return out


def merge_by_cat(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


def merge_by_view(x):
    B, H, T, D = x.shape
    return x.transpose(1, 2).contiguous().view(B, T, H * D)


class Split(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.D = num_heads, d_out // num_heads
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        q, k, v = self.project(x)
        return self.mix(self.attend(q, k, v, pad_mask))

    def project(self, x):
        return (split_by_loop(p(x), self.num_heads) for p in (self.query, self.key, self.value))

    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        return self.dropout(self.weights(scores, self.hidden(scores, pad_mask))) @ v

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = torch.ones(T, T, dtype=torch.bool, device=scores.device).triu(1)
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]

    def weights(self, scores, hidden):
        blind = hidden.all(-1, keepdim=True)
        return scores.masked_fill(hidden & ~blind, -INF).softmax(-1).masked_fill(hidden, 0.0)

    def mix(self, context):
        return self.out_proj(merge_by_cat(context))


class HeadLoop(Split):
    """One head after the other on slices of the width."""

    def forward(self, x, pad_mask=None):
        q, k, v = self.query(x), self.key(x), self.value(x)
        cuts = [slice(h * self.D, (h + 1) * self.D) for h in range(self.num_heads)]
        heads = [
            self.attend(q[:, None, :, c], k[:, None, :, c], v[:, None, :, c], pad_mask)[:, 0]
            for c in cuts
        ]
        return self.out_proj(torch.cat(heads, -1))


class Einsum(Split):
    """By einsum, with an additive mask kept as a buffer."""

    def __init__(self, d_in, d_out, context_length, *args, **kwargs):
        super().__init__(d_in, d_out, context_length, *args, **kwargs)
        future = torch.full((context_length, context_length), -INF).triu(1)
        self.register_buffer("future", future)

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        q, k, v = (getattr(self, n)(x).unflatten(-1, (self.num_heads, -1)) for n in PROJECTIONS)
        bias = self.future[:T, :T].to(x.dtype)
        if pad_mask is not None:
            padding = torch.zeros_like(pad_mask, dtype=x.dtype).masked_fill(pad_mask, -INF)
            bias = bias + padding[:, None, None]
        scores = torch.einsum("bthd,bshd->bhts", q * self.D**-0.5, k) + bias
        top = scores.amax(-1, keepdim=True).detach().clamp(min=-1e30)
        e = (scores - top).exp()
        weights = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
        context = torch.einsum("bhts,bshd->bthd", self.dropout(weights), v)
        return F.linear(context.flatten(2), self.out_proj.weight, self.out_proj.bias)


class OneProjection(Fused, Split):
    """One projection for all three."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        nn.Module.__init__(self)
        self.D, self.num_heads = d_out // num_heads, num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def project(self, x):
        B, T, _ = x.shape
        return self.qkv(x).view(B, T, 3, self.num_heads, self.D).permute(2, 0, 3, 1, 4)


class Filled(Split):
    """Hides by -1e9 and clears the rows that attend to nothing."""

    def weights(self, scores, hidden):
        return scores.masked_fill(hidden, -1e9).softmax(-1) * ~hidden.all(-1, keepdim=True)


SHAPES = {
    "embedding": (1, 4, 768),
    "after view": (1, 4, 8, 96),
    "after transpose": (1, 8, 4, 96),
    "key transposed": (1, 8, 96, 4),
    "scores": (1, 8, 4, 4),
    "weighted values": (1, 8, 4, 96),
    "merged": (1, 4, 768),
    "logits": (1, 4, 9735),
}


REASONS = {
    "token in row 0 of head 1": 2,
    "grows with more heads": "attention weights",
    "mask of text 1 hides keys from": "query 1 of every text",
    "also to be swapped": "columns of out_proj.weight",
}


RIGHT = {
    "split_heads": {
        "stack": split_by_stack,
        "unflatten": split_by_unflatten,
        "loop": split_by_loop,
    },
    "merge_heads": {
        "cat": merge_by_cat,
        "contiguous view": merge_by_view,
        "permute and flatten": lambda x: x.permute(0, 2, 1, 3).flatten(-2),
    },
    "MultiHeadAttention": {
        "plain": Split,
        "einsum and an additive mask": Einsum,
        "one fused projection": OneProjection,
        "hides by -1e9, empty rows cleared": Filled,
    },
    "split_reasons": {
        "with an entry that the exercise no longer has": {**REASONS, "scores divided by": 4},
        "in capitals, with blanks": {
            name: f" {a.upper()} " if isinstance(a, str) else a for name, a in REASONS.items()
        },
    },
    "head_shapes": {
        "lists": {name: list(shape) for name, shape in SHAPES.items()},
        "sizes": {name: torch.Size(shape) for name, shape in SHAPES.items()},
    },
}


WRONG = {
    "merge_heads": {
        "zeros": (0, lambda x: torch.zeros_like(merge_by_cat(x))),
        "reversed": (0, lambda x: merge_by_cat(x.flip(1))),
    },
    "MultiHeadAttention": {
        "a loop over heads": (2, HeadLoop),
    },
    "split_reasons": {
        "token 3": (0.75, {**REASONS, "token in row 0 of head 1": 3}),
        "the number, not its token": (0.75, {**REASONS, "token in row 0 of head 1": 12}),
        "columns of another weight": (0.75, {**REASONS, "also to be swapped": "columns"}),
    },
    "head_shapes": {
        "without the batch": (0, {name: shape[1:] for name, shape in SHAPES.items()}),
    },
}
