"""Right and wrong answers for lesson 06."""

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.attention import PaddedCausalSelfAttention
from tests.answers.heads import Fused


class Wrapper(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.d_head = num_heads, d_head
        self.heads = nn.ModuleList(
            [
                PaddedCausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
                for _ in range(num_heads)
            ]
        )
        self.out_proj = nn.Linear(num_heads * d_head, num_heads * d_head)

    def contexts(self, x, pad_mask):
        return [head(x, pad_mask) for head in self.heads]

    def forward(self, x, pad_mask=None):
        return self.out_proj(torch.cat(self.contexts(x, pad_mask), -1))


class WrittenIntoPlace(Wrapper):
    """Fills a tensor of the final shape, head by head."""

    def forward(self, x, pad_mask=None):
        out = x.new_empty(*x.shape[:2], self.num_heads * self.d_head)
        for h, head in enumerate(self.heads):
            out[..., h * self.d_head : (h + 1) * self.d_head] = head(x, pad_mask=pad_mask)
        return self.out_proj(out)


class SumOfProjectedHeads(Wrapper):
    """Each head times its own columns of `out_proj`, added up: the same by block matrices."""

    def forward(self, x, pad_mask=None):
        columns = self.out_proj.weight.split(self.d_head, dim=1)
        contexts = self.contexts(x, pad_mask)
        mixed = [F.linear(c, w) for c, w in zip(contexts, columns, strict=True)]
        return sum(mixed) + self.out_proj.bias


class OwnHead(Fused, nn.Module):
    """One head by einsum and a finite fill, with the projections fused into one parameter."""

    def __init__(self, d_in, d_head, dropout, qkv_bias):
        super().__init__()
        self.qkv = nn.Linear(d_in, 3 * d_head, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None]
        scores = torch.einsum("btd,bsd->bts", q, k) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(hidden, -1e9).softmax(-1).masked_fill(hidden, 0.0)
        return torch.einsum("bts,bsd->btd", self.dropout(weights), v)


class OwnHeads(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads)
        self.heads = nn.ModuleList(
            OwnHead(d_in, d_head, dropout, qkv_bias) for _ in range(num_heads)
        )


class HeadsInTheBatch(Wrapper):
    """All heads' queries, keys and values in one batch."""

    def contexts(self, x, pad_mask):
        T = x.shape[1]
        q, k, v = (
            torch.stack([getattr(head, n)(x) for head in self.heads])
            for n in ("query", "key", "value")
        )
        hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None]
        scores = (q @ k.mT / self.d_head**0.5).masked_fill(hidden, -torch.inf)
        weights = scores.masked_fill(hidden.all(-1, keepdim=True), 0.0).softmax(-1)
        return list(self.heads[0].dropout(weights.masked_fill(hidden, 0.0)) @ v)


# ---------------------------------------------------------------- wrong ones


SHAPES = {
    "one head": (2, 5, 4),
    "concatenation": (2, 5, 12),
    "result": (2, 5, 12),
    "pairs that give width 2": [(1, 2), (2, 1)],
}

RIGHT = {
    "MultiHeadAttentionWrapper": {
        "written into place": WrittenIntoPlace,
        "sum of projected heads": SumOfProjectedHeads,
        "heads with fused projections": OwnHeads,
        "heads in the batch": HeadsInTheBatch,
    },
    "wrapper_shapes": {
        "lists": {
            "one head": [2, 5, 4],
            "concatenation": [2, 5, 12],
            "result": torch.Size([2, 5, 12]),
            "pairs that give width 2": [(2, 1), (1, 2)],
        },
        "a set of pairs": {**SHAPES, "pairs that give width 2": {(2, 1), (1, 2)}},
    },
}

WRONG = {
    "wrapper_shapes": {
        "without the batch": (
            0.25,
            {
                **SHAPES,
                "one head": (5, 4),
                "concatenation": (5, 12),
                "result": (5, 12),
            },
        ),
        "pairs twice": (0.75, {**SHAPES, "pairs that give width 2": [(1, 2), (1, 2)]}),
        "pairs that are numbers": (0.75, {**SHAPES, "pairs that give width 2": 2}),
        "one pair as a tuple": (0.75, {**SHAPES, "pairs that give width 2": (1, 2)}),
    },
}
