"""Models of today's kind: weights, right logits, and texts in parts with a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.transformer import apply_rope
from whywrong import Case, Draw, Observation, near, set_seed, true_of
from whywrong.probing import Expected, Verdict

CHUNKS = (3, 1, 2)  # a prompt at once, one token, two tokens; then the others one by one
IN_PARTS = "the same in parts, with a cache"


def modern_weights(
    draw: Draw, V: int, C: int, shared: int, L: int, d_ff: int, dtype: torch.dtype, size: float = 1
) -> dict[str, Tensor]:
    """By name; `shared` is the width of keys and values, `size` that of numbers after a layer."""

    def layer(rows: int, columns: int) -> Tensor:
        return size * draw.normal(rows, columns, dtype=dtype) / columns**0.5

    def scale() -> Tensor:
        return 1 + draw.normal(C, dtype=dtype) / 3

    weights = {"embed.weight": draw.normal(V, C, dtype=dtype)}
    for i in range(L):
        block = {
            "norm1.scale": scale(),
            "attention.query.weight": layer(C, C),
            "attention.key.weight": layer(shared, C),
            "attention.value.weight": layer(shared, C),
            "attention.out_proj.weight": layer(C, C),
            "norm2.scale": scale(),
            "feed_forward.gate.weight": layer(d_ff, C),
            "feed_forward.expand.weight": layer(d_ff, C),
            "feed_forward.contract.weight": layer(C, d_ff),
        }
        weights |= {f"blocks.{i}.{name}": value for name, value in block.items()}
    return weights | {"norm.scale": scale()}


def modern_oracle(
    case: Case,
    weights: Mapping[str, Tensor],
    ids: Tensor,
    rotate: Callable[[Tensor], Tensor] = apply_rope,
) -> Tensor:
    """PyTorch's own operators in sequence."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weights[f"{name}.scale"], 1e-6)

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"])

    H, G = case.options["heads"]
    x = F.embedding(ids, weights["embed.weight"])
    for block in (f"blocks.{i}" for i in range(case.options["layers"])):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{name}", normed).unflatten(-1, (n, -1)).transpose(1, 2)
            for name, n in (("query", H), ("key", G), ("value", G))
        )
        context = F.scaled_dot_product_attention(
            rotate(query), rotate(key), value, is_causal=True, enable_gqa=True
        )
        x = x + linear(f"{block}.attention.out_proj", context.transpose(1, 2).flatten(2))
        normed = norm(f"{block}.norm2", x)
        gate = F.silu(linear(f"{block}.feed_forward.gate", normed))
        wide = gate * linear(f"{block}.feed_forward.expand", normed)
        x = x + linear(f"{block}.feed_forward.contract", wide)
    return F.linear(norm("norm", x), weights["embed.weight"])


# ---------------------------------------------------------------- texts in parts


def see_in_parts(make: Callable[..., Any], text: Tensor, cache: Any, observed: Observation) -> None:
    """The text in chunks, with one cache."""
    set_seed(1)  # a parameter too many is the same as before
    module = make()
    sizes = [*CHUNKS, *[1] * (text.shape[1] - sum(CHUNKS))]
    with torch.no_grad():
        results = [module(chunk.clone(), cache) for chunk in text.split(sizes, dim=1)]
    tensors = all(torch.is_tensor(result) for result in results)
    observed.put(IN_PARTS, torch.cat(results, dim=1) if tensors else results[0])


def also_in_parts(expect: Callable[[Case], dict[str, Tensor]]) -> Callable[[Case], Any]:
    def expect_both(case: Case) -> dict[str, Tensor]:
        expected = expect(case)
        return expected | ({IN_PARTS: expected["out"]} if "cached" in case.roles else {})

    return expect_both


@true_of(
    "A text in parts, with a cache, gives the same as the text at once", credit=True, role="cached"
)
def in_parts(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return near(observed.tensors[IN_PARTS], observed.tensors["out"])


def turned(text: str) -> Callable[[Case], dict[str, Any]]:
    """The tokens before the last one in the opposite order."""

    def changed(case: Case) -> dict[str, Any]:
        return {text: torch.cat([case[text][:, :-1].flip(1), case[text][:, -1:]], dim=1)}

    return changed
