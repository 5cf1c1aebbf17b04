"""Attention from one text to another, and the Post-LN blocks around it: weights, right results, and
the properties that both blocks share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    Observation,
    Property,
    near,
    true_of,
)
from whywrong.probing import Expected, Verdict

from .blocks import network_weights, norm_oracle, norm_weights, under
from .classes import Change, class_case, nothing_kept, other_tokens, see_turns
from .dropout import DROPOUT, see_dropout
from .heads import linear_weights, projections
from .many_heads import split_oracle

# PyTorch's functions for complete cross-attention and complete blocks.
WHOLE_ATTENTION = ("multi_head_attention_forward", "_native_multi_head_attention")
WHOLE_BLOCK = ("_transformer_encoder_layer_fwd", *WHOLE_ATTENTION)

ENCODER, DECODER = ("attention",), ("self_attention", "cross_attention")
Mask = Callable[[Draw, int, int], Tensor] | None


# ---------------------------------------------------------------- sizes and weights


@dataclass(frozen=True)
class TwoSizes:
    """Sizes of one case: x has T tokens, the context S; `wide` is d_ff, `length` context_length."""

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
    """Sizes that are all different, including C = H · D; T and S ≥ 3, and H ≤ 4."""
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
    """Weights of a Post-LN block by name, with one norm more than attentions."""
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
    """Attention by PyTorch's own operator, whose mask is `True` where visible."""
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


# ---------------------------------------------------------------- cases of a block


class _Nearest(TorchFunctionMode):
    """How near an input of relu comes to 0."""

    nearest = math.inf

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.relu:
            self.nearest = min(self.nearest, float(args[0].abs().nan_to_num(1).min()))
        return func(*args, **(kwargs or {}))


def clear_of_the_kink(drawn: Callable[[], Case], oracle: Callable[..., Tensor]) -> Case:
    """Draws until rounding can't decide on which side of 0 a number meets relu, whose slope jumps
    there: on one seed in a thousand, it would refuse the gradient of a right answer."""
    while True:
        case = drawn()
        with torch.no_grad(), _Nearest() as mode:
            oracle(case, case.options["weights"], *case.inputs.values())
        if mode.nearest > 2e-5:
            return case


def post_case(
    draw: Draw,
    attentions: tuple[str, ...],
    name: str,
    s: TwoSizes | None = None,
    *,
    pad_mask: Mask = None,
    context_pad_mask: Mask = None,
    dtype: torch.dtype = torch.float32,
    given: str = "",
    roles: str = "",
    size: float = 1.0,
    loud: float = 1.0,
    **options: Any,
) -> Case:
    """A case of a block with these attentions.

    Args:
        given: how the constructor gets its arguments: without dropout, or all "by position" or "by
            name".
        size: of the tokens.
        loud: the factor by which the network's hidden layer is larger than usual.
    """
    s = s or two_sizes(draw)

    def drawn() -> Case:
        inputs: dict[str, Any] = {"x": size * draw.normal(s.B, s.T, s.C, dtype=dtype)}
        masks: dict[str, Any] = {"pad_mask": pad_mask(draw, s.B, s.T)} if pad_mask else {}
        arguments: dict[str, Any] = {"d_model": s.C, "num_heads": s.H, "d_ff": s.wide}
        if attentions == DECODER:
            inputs["context"] = draw.normal(s.B, s.S, s.C, dtype=dtype)
            if context_pad_mask:
                masks.setdefault("pad_mask", None)
                masks["context_pad_mask"] = context_pad_mask(draw, s.B, s.S)
            arguments["context_length"] = s.length
        if given:
            arguments["dropout"] = 0.0
        weights = post_weights(draw, attentions, s.C, s.wide, dtype)
        weights["feed_forward.expand.weight"].mul_(loud)
        return class_case(
            name,
            inputs | masks,
            arguments,
            weights,
            roles,
            by_name=given == "by name",
            others={"dropout": 0.9},
            heads=s.H,
            **options,
        )

    return clear_of_the_kink(drawn, decoder_oracle if attentions == DECODER else encoder_oracle)


# The network of a Post-LN block may drop its result, its hidden layer, or both.
IN_THE_NETWORK: tuple[Mapping[str, float], ...] = (
    {},
    {"feed_forward.dropout": 0, "> feed_forward.contract": 1},
    {"> feed_forward.contract": 1},
)


def in_a_post_block(*attentions: Mapping[str, float]) -> list[dict[str, float]]:
    """Where dropout may act, if it may act so in the branches of attention."""
    return [{**one, **other} for other in IN_THE_NETWORK for one in attentions]


# ---------------------------------------------------------------- evidence


def see_post_block(make: Callable[..., Any], case: Case, observed: Observation) -> None:
    see_dropout(make, case, observed)
    see_turns(make, case, observed)


def silent(case: Case) -> dict[str, Any]:
    """The last layer of each branch gives zeros."""
    ends = ("out_proj.weight", "out_proj.bias", "contract.weight", "contract.bias")
    weights = case.options["weights"].items()
    return {"weights": {n: torch.zeros_like(w) for n, w in weights if n.endswith(ends)}}


def further(*texts: str) -> dict[str, dict[str, Change]]:
    """Other tokens at either end of each text, or in its padding; branches that add nothing."""
    ends = {
        f"{text} {place}": other_tokens(text, (slice(None), place))
        for text in texts
        for place in (0, -1)
    }
    masks = {"x": "pad_mask", "context": "context_pad_mask"}
    padding = {f"other padding in {text}": other_tokens(text, masks[text]) for text in texts}
    return {"typical": {**ends, "silent": silent}, "padded": padding}


# ---------------------------------------------------------------- what is true of a block


def depends_on(text: str, place: int, by: int) -> Callable[[Case, Observation, Expected], Verdict]:
    """Whether the result at position `by` depends on the text's token at `place`."""

    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        out, other = observed.tensors["out"], observed.tensors[f"{text} {place}"]
        return not near(out[:, by], other[:, by]) if out.shape == other.shape else None

    return holds


@true_of(
    "If no branch adds anything, the result is x, normalised once by each norm",
    credit=True,
    role="typical",
)
def silent_branches(case: Case, observed: Observation, expected: Expected) -> Verdict:
    x, place = case["x"].double(), 1
    weights = {n: w.double() for n, w in case.options["weights"].items()}
    while norm := under(weights, f"norm{place}"):
        x, place = norm_oracle(norm, x), place + 1
    return near(observed.tensors["silent"], x)


@true_of("Padding does not affect real tokens", credit=True, role="padded")
def padding(case: Case, observed: Observation, expected: Expected) -> Verdict:
    real = ~case["pad_mask"]
    return near(observed.tensors["out"][real], observed.tensors["other padding in x"][real])


POST_PROPERTIES: tuple[Property, ...] = (
    silent_branches,
    padding,
    nothing_kept,
    replace(DROPOUT, secondary=True),
    *MODULE_PROPERTIES,
)
