"""Right and wrong answers for lesson 11."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import transformer as course


class Plain(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def heads(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.num_heads, self.d_head).transpose(1, 2)

    def hidden(self, x, context, mask):
        return None if mask is None else mask[:, None, None, :]

    def weigh(self, scores, hidden):
        if hidden is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        return scores.softmax(-1).masked_fill(hidden, 0.0)

    def sides(self, x, context):
        return self.query(x), self.key(context), self.value(context)

    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        scores = q @ k.mT / self.d_head**0.5
        weights = self.weigh(scores, self.hidden(x, context, context_pad_mask))
        out = self.dropout(weights) @ v
        return self.out_proj(out.transpose(1, 2).reshape(x.shape))


class BuiltIn(Plain):
    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        seen = None if context_pad_mask is None else ~context_pad_mask[:, None, None, :]
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=p)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class ByEinsum(Plain):
    """Hidden at -1e9, and cleared where nothing is visible."""

    def weigh(self, scores, hidden):
        if hidden is None:
            return scores.softmax(-1)
        return scores.masked_fill(hidden, -1e9).softmax(-1) * ~hidden

    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)) for t in self.sides(x, context))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.d_head**-0.5
        weights = self.dropout(self.weigh(scores, self.hidden(x, context, context_pad_mask)))
        out = torch.einsum("bhts,bshd->bthd", weights, v)
        return self.out_proj(out.flatten(2))


class HeadByHead(Plain):
    """A loop over heads, each with its rows of the weights."""

    def forward(self, x, context, context_pad_mask=None):
        found = []
        for rows in torch.arange(self.query.in_features, device=x.device).chunk(self.num_heads):
            q = x @ self.query.weight[rows].T
            k = context @ self.key.weight[rows].T
            v = context @ self.value.weight[rows].T
            hidden = None if context_pad_mask is None else context_pad_mask[:, None]
            weights = self.weigh(q @ k.transpose(1, 2) / math.sqrt(len(rows)), hidden)
            found.append(self.dropout(weights) @ v)
        return self.out_proj(torch.cat(found, -1))


class DropsResult(Plain):
    """Dropout acts at the end of the branch; the lesson doesn't say where."""

    def forward(self, x, context, context_pad_mask=None):
        p, self.dropout.p = self.dropout.p, 0.0
        out = super().forward(x, context, context_pad_mask)
        self.dropout.p = p
        return self.dropout(out)


class DropsValues(Plain):
    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        scores = q @ k.mT / self.d_head**0.5
        weights = self.weigh(scores, self.hidden(x, context, context_pad_mask))
        return self.out_proj((weights @ self.dropout(v)).transpose(1, 2).reshape(x.shape))


class Network(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def bend(self, x):
        return x.clamp(min=0)

    def forward(self, x):
        return self.dropout(self.contract(self.bend(self.expand(x))))


class Reads(nn.Module):
    """An encoder block, in steps that the others replace."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.attention = Plain(d_model, num_heads, dropout)
        self.norm1, self.norm2 = course.LayerNorm(d_model), course.LayerNorm(d_model)
        self.feed_forward = Network(d_model, d_ff, dropout)
        self.dropout = nn.Dropout(dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.attention(x, x, pad_mask))

    def think(self, x):
        return self.feed_forward(x)

    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        return self.norm2(x + self.think(x))


class ReadsInSequence(Reads):
    """The network as a Sequential with names; attention's weights alone are dropped."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.feed_forward = nn.Sequential(
            OrderedDict(
                expand=nn.Linear(d_model, d_ff),
                bend=nn.ReLU(),
                drop=nn.Dropout(dropout),
                contract=nn.Linear(d_ff, d_model),
            )
        )

    def listen(self, x, pad_mask):
        return self.attention(x, x, pad_mask)


class ReadsAsTorch(Reads):
    """Dropout where PyTorch's layer has it: weights, end, middle, end."""

    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(self.dropout(torch.relu(ff.expand(x)))))


class ReadsByLoop(Reads):
    def forward(self, x, pad_mask=None):
        branches = [(self.norm1, lambda t: self.listen(t, pad_mask)), (self.norm2, self.think)]
        for norm, branch in branches:
            x = norm(torch.stack([x, branch(x)]).sum(0))
        return x


class ReadsPlainly(Reads):
    """The network from two layers in a ModuleDict."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.feed_forward = nn.ModuleDict(
            {"expand": nn.Linear(d_model, d_ff), "contract": nn.Linear(d_ff, d_model)}
        )

    def think(self, x):
        wide = F.relu(self.feed_forward["expand"](x))
        return self.dropout(self.feed_forward["contract"](wide))


SHAPES = {
    "query": (1, 8, 6, 96),
    "key": (1, 8, 4, 96),
    "key transposed": (1, 8, 96, 4),
    "scores": (1, 8, 6, 4),
    "mixed values": (1, 8, 6, 96),
    "result": (1, 6, 768),
}


REASONS = {
    "only the source changes": "key and value",
    "shape of the source mask": (2, 1, 1, 4),
    "padding attended to, T = S": 2,
    "two sources, no cross-attention": "the same",
    "target token 3 changes": 0,
    "keys of the source": 2,
}


RECALLED = {"the target at 3": 9, "attention is added to": "x", "scores divided by": 8}


RIGHT = {
    "recall_11": {
        "in capitals": {**RECALLED, "attention is added to": "X"},
        "as float": {**RECALLED, "attention is added to": " x "},
    },
    "cross_attention_shapes": {
        "lists for tuples": {**SHAPES, "result": [1, 6, 768]},
        "under the earlier name": {
            {"mixed values": "context"}.get(name, name): shape for name, shape in SHAPES.items()
        },
        "sizes": {**SHAPES, "scores": torch.Size([1, 8, 6, 4])},
    },
    "CrossAttention": {
        "plain": Plain,
        "built in": BuiltIn,
        "by einsum": ByEinsum,
        "head by head": HeadByHead,
        "drops the result": DropsResult,
        "drops the values": DropsValues,
    },
    "EncoderBlock": {
        "plain": Reads,
        "in sequence": ReadsInSequence,
        "dropout as in torch": ReadsAsTorch,
        "in a loop": ReadsByLoop,
        "network in a dict": ReadsPlainly,
    },
    "cross_attention_reasons": {
        "lists for tuples": {**REASONS, "shape of the source mask": [2, 1, 1, 4]},
        "in capitals": {**REASONS, "two sources, no cross-attention": "The same"},
    },
}


WRONG = {
    "recall_11": {
        "all wrong": (
            0,
            {
                "the target at 3": 4,
                "attention is added to": "norm1(x)",
                "scores divided by": 4,
            },
        ),
        "no root": (0.25, {**RECALLED, "scores divided by": 256}),
        "in words": (0.25, {**RECALLED, "the target at 3": "the next"}),
        "one left out": (0.25, {**RECALLED, "attention is added to": ...}),
    },
    "cross_attention_shapes": {
        "all of the source": (
            0.5,
            {**SHAPES, "mixed values": (1, 8, 4, 96), "result": (1, 4, 768)},
        ),
        "no batch": (0.5, {**SHAPES, "result": (6, 768)}),
        "unsplit": (0.5, {**SHAPES, "query": (1, 6, 768), "key": (1, 4, 768)}),
        "one left out": (0.5, {**SHAPES, "scores": ...}),
        "two wrong": (0.5, {**SHAPES, "scores": (1, 8, 4, 6), "key transposed": (1, 8, 4, 96)}),
    },
    "cross_attention_reasons": {
        "all wrong": (
            0,
            {
                "only the source changes": "query",
                "shape of the source mask": (2, 1, 1, 6),
                "padding attended to, T = S": 5,
                "two sources, no cross-attention": "empty",
                "target token 3 changes": 3,
                "keys of the source": 4,
            },
        ),
        "mask of the target": (0.75, {**REASONS, "shape of the source mask": (2, 1, 6, 4)}),
        "a word for a number": (0.75, {**REASONS, "keys of the source": "once"}),
        "two wrong": (0.5, {**REASONS, "target token 3 changes": 2, "keys of the source": 0}),
        "one left out": (0.75, {**REASONS, "two sources, no cross-attention": ...}),
    },
}
