"""A transformer block and its parts: weights, right results, and shared properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from whywrong import Case, Draw, Observation, near, true_of
from whywrong.probing import Expected, Verdict

from .heads import linear_weights, projections
from .many_heads import side_by_side, wrapper_oracle

GELUS = ("gelu", "gelu_", "GELU")  # operators that would solve an exercise of lesson 08


# ---------------------------------------------------------------- weights


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of one case: D is the width of a head, `length` the constructor's context_length."""

    B: int
    T: int
    D: int
    H: int
    length: int

    @property
    def C(self) -> int:
        return self.H * self.D


def block_sizes(draw: Draw) -> BlockSizes:
    """Sizes that are all different, including C = H · D; T ≥ 3 and H ≤ 4."""
    while True:
        B, T, D, H = draw.sizes(4, 2, 7)
        s = BlockSizes(B, T, D, H, T + draw.integer(1, 6))
        if T >= 3 and H <= 4 and len({B, T, D, H, s.C, s.length}) == 6:
            return s


def norm_weights(
    draw: Draw, name: str, C: int, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Scales around 1 and -1, shifts around 0, no two of them equal."""
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
    """The weights whose names begin with `name.`, without that prefix."""
    start = f"{name}."
    return {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}


# ---------------------------------------------------------------- the right result


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


# ---------------------------------------------------------------- a property of norm and network


@true_of("A token's numbers affect its result", credit=True, gate=True, role="typical")
def depends(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return not near(observed.tensors["changed"][0, 0], observed.tensors["out"][0, 0])


@true_of("No token affects another token's result", credit=True, role="typical")
def each_apart(case: Case, observed: Observation, expected: Expected) -> Verdict:
    """The case with token 0 of text 0 changed."""
    return near(observed.tensors["changed"][1:], observed.tensors["out"][1:]) and near(
        observed.tensors["changed"][0, 1:], observed.tensors["out"][0, 1:]
    )
