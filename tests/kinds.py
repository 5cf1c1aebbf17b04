"""Copies parameters between the kinds of `make_mha`, for tests and benchmarks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention, TorchMultiHeadAttention


def copy_mha(source: nn.Module, target: nn.Module) -> None:
    """Copy the parameters of one of `make_mha`'s modules into another of the same sizes, of any
    kind, in place.

    Afterwards, both give the same output. Biases that only the target has become zeros.
    """
    sources = _by_head(source)
    for name, parts in _by_head(target).items():
        given = sources[name] or [torch.zeros_like(part) for part in parts]
        for into, part in zip(parts, given, strict=True):
            into.copy_(part)


def _by_head(attention: nn.Module) -> dict[str, list[Tensor]]:
    """The parameters of a module of `make_mha` as views, one per head; none for a missing bias."""
    layer: Any = attention
    if isinstance(attention, TorchMultiHeadAttention):
        layer = attention.attention
    parts: dict[str, list[Tensor | None]] = {}
    for kind in ("weight", "bias"):
        for i, name in enumerate(("query", "key", "value")):
            if isinstance(layer, nn.MultiheadAttention):
                projection = _cut(getattr(layer, f"in_proj_{kind}"), 3)[i]
                heads = _cut(projection, layer.num_heads)
            elif isinstance(layer, MultiHeadAttention):
                heads = _cut(getattr(getattr(layer, name), kind), layer.num_heads)
            else:
                heads = [getattr(getattr(head, name), kind) for head in layer.heads]
            parts[f"{name}.{kind}"] = heads
        parts[f"out_proj.{kind}"] = [getattr(layer.out_proj, kind)]
    return {
        name: [part.detach() for part in found if part is not None] for name, found in parts.items()
    }


def _cut(whole: Tensor | None, pieces: int) -> list[Tensor | None]:
    return [None] * pieces if whole is None else list(whole.chunk(pieces))
