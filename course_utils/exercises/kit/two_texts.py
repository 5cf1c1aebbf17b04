"""Attention from one text to another, and the Post-LN blocks around it, as right answers in steps.

As in `steps.py` and `blocks.py`: a mistake changes one step, and mistakes of attention, heads and
blocks are put on these answers as on those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...checking import Case
from .blocks import Block, Network, Norm, network_weights, norm_oracle, norm_weights, under
from .draw import Draw
from .heads import linear_weights, projections
from .many_heads import split_oracle
from .steps import Hiding, Joining, SafeWeighing, Scoring, SplitHeads, Splitting

# ---------------------------------------------------------------- right answers in steps


class Cross(SafeWeighing, Scoring, Hiding, Splitting, Joining, nn.Module):
    """Queries from one text, keys and values from another."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        self.refuse(d_model, num_heads)
        super().__init__()
        self.d_out, self.num_heads = d_model, num_heads
        self.query = nn.Linear(d_model, d_model, bias=self.biased("query", False))
        self.key = nn.Linear(d_model, d_model, bias=self.biased("key", False))
        self.value = nn.Linear(d_model, d_model, bias=self.biased("value", False))
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(self.rate(dropout))

    def biased(self, name, qkv_bias):
        return qkv_bias

    def rate(self, dropout):
        return dropout

    def forward(self, x, context, context_pad_mask=None):
        query, key, value = self.projected((x, context))
        lengths = query.shape[-2], key.shape[-2]
        hidden = self.hidden(lengths, x.device, context_pad_mask)
        weights = self.dropped(self.weights(self.scores(query, key), hidden))
        return self.result(self.collected(weights, value), context_pad_mask)

    def projected(self, texts):
        sides = zip((self.query, self.key, self.value), self.sides(*texts), strict=True)
        return tuple(self.split(self.project(*side), self.num_heads) for side in sides)

    def sides(self, x, context):
        """What query, key and value are made from."""
        return x, context, context

    def project(self, layer, x):
        return layer(x)

    def future(self, lengths, device=None):
        """Nothing is causal; mistakes hide something."""
        return torch.zeros(1, 1, dtype=torch.bool, device=device)

    def columns(self, pad_mask):
        return pad_mask[:, None, None, :]

    def dropped(self, weights):
        return self.dropout(weights)

    def collected(self, weights, value):
        return weights @ value


class ReluNetwork(Network):
    """As in the paper of 2017; its width is given and not a multiple."""

    def width(self, d_model, d_ff):
        return d_ff

    def bent(self, wide):
        return wide.relu()


class PostBlock(Block):
    """Post-LN: what is normed are the sums."""

    last = 2  # the norm after the last sum

    def parts(self, d_model, d_ff, dropout):
        """All but the attentions."""
        for place in range(1, self.last + 1):
            setattr(self, f"norm{place}", Norm(d_model))
        self.feed_forward = self.thinking()(d_model, d_ff, self.network_rate(dropout))
        self.dropout = nn.Dropout(self.branch_rate(dropout))

    def thinking(self) -> Any:
        return ReluNetwork

    def read(self, x):
        return x

    def read_again(self, middle):
        return middle

    def settled(self, middle):
        return self.normed(1, middle)

    def settled_again(self, out):
        return self.normed(self.last, out)


class Encoder(PostBlock):
    """All tokens look at all tokens, then each thinks."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        nn.Module.__init__(self)
        self.attention = self.attending()(d_model, num_heads, self.weights_rate(dropout))
        self.parts(d_model, d_ff, dropout)

    def attending(self) -> Any:
        return Cross

    def attended(self, x, pad_mask):
        return self.attention(x, x, pad_mask)


class Decoder(PostBlock):
    """Each token looks back, then at the context, then thinks."""

    last = 3

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        nn.Module.__init__(self)
        rate = self.weights_rate(dropout)
        self.self_attention = self.attending()(d_model, d_model, context_length, num_heads, rate)
        self.cross_attention = self.crossing()(d_model, num_heads, rate)
        self.parts(d_model, d_ff, dropout)

    def attending(self) -> Any:
        return SplitHeads

    def crossing(self) -> Any:
        return Cross

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        middle = self.settled(self.joined(x, self.listened(x, pad_mask)))
        asks = self.asking(x, middle)
        found = self.asked(asks, self.source(asks, context), self.source_mask(context_pad_mask))
        told = self.settled_between(self.joined_again(x, middle, self.asked_dropped(found)))
        return self.settled_again(self.finished(x, told, self.thought(x, told)))

    def attended(self, x, pad_mask):
        return self.self_attention(x, pad_mask)

    def asking(self, x, middle):
        """What the queries of cross-attention are made from."""
        return middle

    def source(self, asks, context):
        return context

    def source_mask(self, context_pad_mask):
        return context_pad_mask

    def asked(self, asks, context, context_pad_mask):
        return self.cross_attention(asks, context, context_pad_mask)

    def asked_dropped(self, found):
        return self.dropout(found)

    def joined_again(self, x, middle, branch):
        return middle + branch

    def settled_between(self, told):
        return self.normed(2, told)


# ---------------------------------------------------------------- sizes and weights


@dataclass(frozen=True)
class TwoSizes:
    """Sizes of one case: T tokens ask, S are asked; `wide` is d_ff, `length` context_length."""

    B: int
    T: int
    S: int
    D: int
    H: int
    wide: int = 0
    length: int = 0

    @property
    def C(self) -> int:
        return self.H * self.D


def two_sizes(draw: Draw) -> TwoSizes:
    """All different, C = H · D too; T and S ≥ 3, and H ≤ 4."""
    while True:
        B, T, S, D, H = draw.sizes(5, 2, 7)
        if min(T, S) < 3 or H > 4:
            continue
        C, length = H * D, max(T, S) + draw.integer(1, 6)
        wide = C + draw.integer(1, 5)
        if len({B, T, S, D, H, C, length, wide}) == 8:
            return TwoSizes(B, T, S, D, H, wide, length)


def cross_weights(draw: Draw, C: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    weights = projections(draw, C, C, dtype=dtype)
    return weights | linear_weights(draw, "out_proj", C, C, True, dtype)


def post_weights(
    draw: Draw, attentions: tuple[str, ...], C: int, wide: int, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights of a Post-LN block by name; it has a norm more than attentions."""
    weights: dict[str, Tensor] = {}
    for place in range(1, len(attentions) + 2):
        weights |= norm_weights(draw, f"norm{place}", C, dtype)
    for name in attentions:
        weights |= {f"{name}.{n}": w for n, w in cross_weights(draw, C, dtype).items()}
    return weights | network_weights(draw, "feed_forward", C, wide, dtype)


# ---------------------------------------------------------------- the right results


def cross_oracle(
    case: Case,
    weights: Mapping[str, Tensor],
    x: Tensor,
    context: Tensor,
    context_pad_mask: Tensor | None = None,
) -> Tensor:
    """By PyTorch's own operator, in which `True` takes part."""
    H = case.options["heads"]
    sides = {"query": x, "key": context, "value": context}
    query, key, value = (
        F.linear(tokens, weights[f"{name}.weight"]).unflatten(-1, (H, -1)).transpose(1, 2)
        for name, tokens in sides.items()
    )
    seen = None if context_pad_mask is None else ~context_pad_mask[:, None, None, :]
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return F.linear(
        found.transpose(1, 2).flatten(2), weights["out_proj.weight"], weights["out_proj.bias"]
    )


def _thought(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    network = under(weights, "feed_forward")
    wide = F.linear(x, network["expand.weight"], network["expand.bias"]).relu()
    return x + F.linear(wide, network["contract.weight"], network["contract.bias"])


def encoder_oracle(
    case: Case, weights: Mapping[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    x = x + cross_oracle(case, under(weights, "attention"), x, x, pad_mask)
    x = norm_oracle(under(weights, "norm1"), x)
    return norm_oracle(under(weights, "norm2"), _thought(weights, x))


def decoder_oracle(
    case: Case,
    weights: Mapping[str, Tensor],
    x: Tensor,
    context: Tensor,
    pad_mask: Tensor | None = None,
    context_pad_mask: Tensor | None = None,
) -> Tensor:
    x = x + split_oracle(case, under(weights, "self_attention"), x, pad_mask)
    x = norm_oracle(under(weights, "norm1"), x)
    x = x + cross_oracle(case, under(weights, "cross_attention"), x, context, context_pad_mask)
    x = norm_oracle(under(weights, "norm2"), x)
    return norm_oracle(under(weights, "norm3"), _thought(weights, x))
