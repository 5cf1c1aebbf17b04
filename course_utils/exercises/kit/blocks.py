"""A transformer block and its parts as right answers in steps: norm, network, block.

As in `steps.py`, a mistake changes one step. The attention inside a block is built in steps too:
`InAttention.of(…)` puts a mistake of attention into it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...checking import Case, Mistake
from ...checking.exercise import mixed
from .draw import Draw
from .heads import linear_weights, projections
from .many_heads import side_by_side, wrapper_oracle
from .steps import SplitHeads

# ---------------------------------------------------------------- right answers in steps


class Norm(nn.Module):
    """Each token's channels at mean 0 and variance 1, then scaled and shifted."""

    axis: int | tuple[int, ...] = -1
    correction = 0

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = self.kept(eps)
        self.keep(torch.ones(d_model), torch.zeros(d_model))

    def kept(self, eps):
        return eps

    def keep(self, ones, zeros):
        self.scale, self.shift = nn.Parameter(ones), nn.Parameter(zeros)

    def forward(self, x):
        return self.learned(self.normed(x))

    def normed(self, x):
        return self.centred(x) / self.spread(x)

    def centred(self, x):
        return x - self.mean(x)

    def mean(self, x):
        return x.mean(dim=self.axis, keepdim=True)

    def variance(self, x):
        return x.var(dim=self.axis, keepdim=True, correction=self.correction)

    def spread(self, x):
        return self.root(self.variance(x))

    def root(self, variance):
        return (variance + self.eps).sqrt()

    def learned(self, normed):
        return self.scale * normed + self.shift


class Gelu:
    """The form with tanh."""

    cubic = 0.044715

    def __call__(self, x):
        return self.halved(x, self.rise(self.factor() * self.inner(x)))

    def factor(self):
        return math.sqrt(2 / math.pi)

    def inner(self, x):
        return x + self.cubic * self.power(x)

    def power(self, x):
        return x**3

    def rise(self, inner):
        return torch.tanh(inner)

    def halved(self, x, risen):
        return 0.5 * x * (1 + risen)


class Network(nn.Module):
    """Widen, bend, narrow, drop."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        wide = self.width(d_model, expansion)
        self.expand, self.contract = nn.Linear(d_model, wide), nn.Linear(wide, d_model)
        self.dropout = nn.Dropout(self.rate(dropout))

    def width(self, d_model, expansion):
        return expansion * d_model

    def rate(self, dropout):
        return dropout

    def forward(self, x):
        return self.dropped(self.contracted(self.bent(self.expanded(x))))

    def expanded(self, x):
        return self.expand(x)

    def bent(self, wide):
        return Gelu()(wide)

    def contracted(self, wide):
        return self.contract(wide)

    def dropped(self, out):
        return self.dropout(out)


class Block(nn.Module):
    """Pre-LN: each branch reads the stream through its own norm and adds to it."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.norm1, self.norm2 = self.norming()(d_model), self.norming()(d_model)
        self.attention = self.attending()(
            d_model, d_model, context_length, num_heads, self.weights_rate(dropout), qkv_bias
        )
        self.dropout = nn.Dropout(self.branch_rate(dropout))
        self.feed_forward = self.thinking()(d_model, dropout=self.network_rate(dropout))

    def norming(self) -> Any:
        return Norm

    def attending(self) -> Any:
        return SplitHeads

    def thinking(self) -> Any:
        return Network

    def weights_rate(self, dropout):
        return dropout

    def branch_rate(self, dropout):
        return dropout

    def network_rate(self, dropout):
        return dropout

    def forward(self, x, pad_mask=None):
        middle = self.settled(self.joined(x, self.listened(x, pad_mask)))
        return self.settled_again(self.finished(x, middle, self.thought(x, middle)))

    def normed(self, place, x):
        """x through the norm of this number."""
        return getattr(self, f"norm{place}")(x)

    def listened(self, x, pad_mask):
        """What attention adds."""
        return self.attended_dropped(self.attended(self.read(x), self.handed_on(pad_mask)))

    def read(self, x):
        return self.normed(1, x)

    def handed_on(self, pad_mask):
        return pad_mask

    def attended(self, normed, pad_mask):
        return self.attention(normed, pad_mask)

    def attended_dropped(self, found):
        return self.dropout(found)

    def joined(self, x, branch):
        return x + branch

    def settled(self, middle):
        """What becomes of the first sum: here nothing, in Post-LN a norm."""
        return middle

    def thought(self, x, middle):
        """What the feed-forward network adds."""
        return self.thought_dropped(self.feed_forward(self.read_again(middle)))

    def read_again(self, middle):
        return self.normed(2, middle)

    def thought_dropped(self, out):
        return out

    def finished(self, x, middle, branch):
        return middle + branch

    def settled_again(self, out):
        return out


class InAttention(Mistake):
    """A mistake of attention, inside a block."""

    @staticmethod
    def of(mistake: type[Mistake], step: str = "attending") -> type[Mistake]:
        """The same idea, id and sentences, for a block; `step` gives the attention's class."""

        def attending(self: Any) -> Any:
            right = getattr(super(made, self), step)()
            return mixed(right, mistake)

        id = classmethod(lambda cls: mistake.id())
        names = {"__doc__": mistake.__doc__, step: attending, "inside": mistake, "id": id}
        made: type[Mistake] = type(mistake.__name__, (InAttention,), names)
        return made


# ---------------------------------------------------------------- weights and the right result


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of one case: D is the width of one head, `length` the constructor's context_length."""

    B: int
    T: int
    D: int
    H: int
    length: int

    @property
    def C(self) -> int:
        return self.H * self.D


def block_sizes(draw: Draw) -> BlockSizes:
    """All different, C = H · D too; T ≥ 3 and H ≤ 4."""
    while True:
        B, T, D, H = draw.sizes(4, 2, 7)
        s = BlockSizes(B, T, D, H, T + draw.integer(1, 6))
        if T >= 3 and H <= 4 and len({B, T, D, H, s.C, s.length}) == 6:
            return s


def norm_weights(
    draw: Draw, name: str, C: int, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Scales around 1 and -1, shifts around 0, none of them the same."""
    dot = f"{name}." if name else ""
    scale = 1 + 0.3 * draw.normal(C, dtype=dtype)
    scale[1::2] *= -1
    return {
        f"{dot}scale": scale,
        f"{dot}shift": 0.5 * draw.normal(C, dtype=dtype),
    }


def network_weights(
    draw: Draw, name: str, C: int, wide: int, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    dot = f"{name}." if name else ""
    return linear_weights(draw, f"{dot}expand", C, wide, True, dtype) | linear_weights(
        draw, f"{dot}contract", wide, C, True, dtype
    )


def block_weights(
    draw: Draw, s: BlockSizes, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    attention = projections(draw, s.C, s.C, bias, dtype)
    attention |= linear_weights(draw, "out_proj", s.C, s.C, True, dtype)
    return {
        **norm_weights(draw, "norm1", s.C, dtype),
        **{f"attention.{name}": weight for name, weight in attention.items()},
        **norm_weights(draw, "norm2", s.C, dtype),
        **network_weights(draw, "feed_forward", s.C, 4 * s.C, dtype),
    }


def under(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The weights whose names begin with `name.`, without it."""
    start = f"{name}."
    return {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}


def norm_oracle(weights: Mapping[str, Tensor], x: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights.get("scale"), weights.get("shift"), eps)


def network_oracle(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    wide = F.linear(x, weights["expand.weight"], weights["expand.bias"])
    bent = F.gelu(wide, approximate="tanh")
    return F.linear(bent, weights["contract.weight"], weights["contract.bias"])


def block_oracle(
    case: Case, weights: Mapping[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    attention = side_by_side(under(weights, "attention"), case.options["heads"])
    normed = norm_oracle(under(weights, "norm1"), x)
    middle = x + wrapper_oracle(case, attention, normed, pad_mask)
    return middle + network_oracle(
        under(weights, "feed_forward"), norm_oracle(under(weights, "norm2"), middle)
    )
