"""A whole small language model: weights, cases, oracle, evidence, properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.transformer import apply_rope
from whywrong import Case, Draw, Observation, near, true_of
from whywrong.probing import Expected, Verdict

from .classes import Change, class_case, listens, no_future
from .heads import linear_weights, projections

# ---------------------------------------------------------------- weights and the right result


def model_weights(
    draw: Draw, V: int, C: int, context: int, L: int, dtype: torch.dtype, qkv_bias: bool = False
) -> dict[str, Tensor]:
    """Weights of a model by name; none of them is 0 or 1."""

    def norm(name: str) -> dict[str, Tensor]:
        scale, shift = 1 + draw.normal(C, dtype=dtype) / 3, draw.normal(C, dtype=dtype) / 3
        return {f"{name}.scale": scale, f"{name}.shift": shift}

    weights = {
        "embed.token.weight": draw.normal(V, C, dtype=dtype),
        "embed.position.weight": draw.normal(context, C, dtype=dtype) / 2,
    }
    for layer in range(L):
        block = (
            norm("norm1")
            | {f"attention.{n}": w for n, w in projections(draw, C, C, qkv_bias, dtype).items()}
            | linear_weights(draw, "attention.out_proj", C, C, True, dtype)
            | norm("norm2")
            | linear_weights(draw, "feed_forward.expand", C, 4 * C, True, dtype)
            | linear_weights(draw, "feed_forward.contract", 4 * C, C, True, dtype)
        )
        weights |= {f"blocks.{layer}.{name}": w for name, w in block.items()}
    return weights | norm("norm") | linear_weights(draw, "head", C, V, False, dtype)


def model_oracle(case: Case, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """PyTorch's own operators in sequence; with the option `rotary`, rotated queries and keys
    instead of learned positions."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.shift"])

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    H, L, rotary = case.options["heads"], case.options["layers"], case.options.get("rotary")
    x = F.embedding(ids, weights["embed.token.weight"])
    if not rotary:
        x = x + weights["embed.position.weight"][: ids.shape[1]]
    for block in (f"blocks.{layer}" for layer in range(L)):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{n}", normed).unflatten(-1, (H, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
        if rotary:
            query, key = apply_rope(query), apply_rope(key)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(f"{block}.attention.out_proj", context.transpose(1, 2).flatten(2))
        wide = F.gelu(
            linear(f"{block}.feed_forward.expand", norm(f"{block}.norm2", x)), approximate="tanh"
        )
        x = x + linear(f"{block}.feed_forward.contract", wide)
    return F.linear(norm("norm", x), weights["head.weight"])


# ---------------------------------------------------------------- cases


def model_case(
    draw: Draw,
    name: str,
    sizes: tuple[int, ...] = (),
    *,
    roles: str = "",
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> Case:
    """Random ids for a model with random weights.

    Args:
        sizes: B, T, V, H, D, context_length, L; if omitted, random and all different.
        options: those of `class_case`, too.
    """
    B, T, V, H, D, context, L = sizes or seven_sizes(draw)
    ids = torch.randint(V, (B, T), generator=draw.generator)
    arguments = {
        "vocab_size": V,
        "d_model": H * D,
        "num_heads": H,
        "context_length": context,
        "num_layers": L,
    }
    weights = model_weights(draw, V, H * D, context, L, dtype)
    options |= {"names": tuple(arguments), "heads": H, "layers": L}
    return class_case(name, {"ids": ids}, arguments, weights, roles, **options)


def seven_sizes(draw: Draw, layers: int = 3) -> tuple[int, ...]:
    """B, T, V, H, D, context_length and L; these and the widths H D and 4 H D all differ.

    A token has at least 10 channels, because a norm over few channels magnifies rounding where
    these happen to be nearly equal.

    Args:
        layers: the maximum number of layers.
    """
    while True:
        B, T, V, H, D, L = draw.sizes(6, 2, 10)
        context = T + draw.integer(1, 5)
        every = {B, T, V, H, D, L, context, H * D, 4 * H * D}
        if len(every) == 9 and T >= 4 and 10 <= H * D <= 18 and L <= layers and V >= 4:
            return B, T, V, H, D, context, L


# ---------------------------------------------------------------- evidence


def other_word(text: str, place: int, table: str) -> Change:
    """Another word at a place of each text; `table` is the weight that has a row for each word."""

    def changed(case: Case) -> dict[str, Any]:
        words, V = case[text].clone(), len(case.options["weights"][table])
        words[:, place] = (words[:, place] + 1) % V
        return {text: words}

    return changed


def further_texts(table: str) -> dict[str, Change]:
    return {
        "short": lambda case: {"ids": case["ids"][:1, :2]},
        "changed": other_word("ids", -1, table),
        "first": other_word("ids", 0, table),
        "same": lambda case: {"ids": case["ids"][:, :1].expand_as(case["ids"])},
        "long again": lambda case: {},
    }


TEXTS = further_texts("embed.token.weight")


@true_of("The position of a token makes a difference", credit=True, role="typical")
def places(case: Case, observed: Observation, expected: Expected) -> Verdict:
    same = observed.tensors["same"]
    return not near(same[:, 1:], same[:, :-1])


@true_of(
    "A text gives the same logits as the beginning of a longer one, in any order of calls",
    credit=True,
    role="typical",
)
def any_length(case: Case, observed: Observation, expected: Expected) -> Verdict:
    out = observed.tensors["out"]
    return near(observed.tensors["short"], out[:1, :2]) and near(
        observed.tensors["long again"], out
    )


# Up to four blocks, one after another: a few times the rounding of one.
ROUNDING = {torch.float32: 3e-5, torch.float64: 1e-6}

TEXT_PROPERTIES = (listens, no_future, places, any_length)
