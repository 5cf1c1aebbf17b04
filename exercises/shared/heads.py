"""Shared by the heads of lessons 04 and 05: cases, oracle, evidence, properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import attention
from whywrong import MODULE_PROPERTIES, Case, Draw, Observation, near, true_of
from whywrong.probing import Expected, Verdict

from .classes import class_case, nothing_kept, other_tokens, see_turns
from .dropout import DROPOUT, see_dropout, with_dropout

# The built-in attention, by any name, would solve the exercises of lessons 04 to 07.
BUILT_IN = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "multi_head_attention_forward",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "flex_attention",
)

PROJECTIONS = ("query", "key", "value")
THREE_TOKENS = torch.tensor([[0.4, 0.2, 0.9], [0.6, 0.8, 0.7], [0.2, 0.5, 0.3]])


# ---------------------------------------------------------------- weights and padding


def linear_weights(
    draw: Draw, name: str, d_in: int, d_out: int, bias: bool, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights of an `nn.Linear` by name, at a scale that keeps its outputs near 1."""
    weights = {f"{name}.weight": draw.normal(d_out, d_in, dtype=dtype) / math.sqrt(d_in)}
    return weights | ({f"{name}.bias": draw.normal(d_out, dtype=dtype) / 2} if bias else {})


def projections(
    draw: Draw, d_in: int, d_out: int, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights of query, key and value by name."""
    weights: dict[str, Tensor] = {}
    for name in PROJECTIONS:
        weights |= linear_weights(draw, name, d_in, d_out, bias, dtype)
    return weights


def low_scores(draw: Draw, *shape: int, **more: Any) -> Case:
    """Query, key and value of heads of width 4, whose scaled scores are all near -100, so hidden
    scores must be far lower.

    Their products are exact, so that the softmax magnifies no rounding. Gradients are not: each
    score's is multiplied by a key of -20, and the products cancel.
    """
    first = torch.arange(shape[-1]) % 4 == 0
    eighths = (torch.randint(-4, 5, shape, generator=draw.generator) / 8 for _ in range(2))
    query, key = (
        torch.where(first, size, x) for size, x in zip((10.0, -20.0), eighths, strict=True)
    )
    inputs = {"query": query, "key": key, "value": draw.normal(*shape)}
    options = {"tolerance": {torch.float32: 20 * 1e-5}}
    return Case("scores near -100", inputs | more, options=options)


def padding_behind(draw: Draw, B: int, T: int) -> Tensor:
    """Tokens first; one sequence is full, the others have at least one token and padding."""
    lengths = torch.randint(1, T, (B,), generator=draw.generator)
    lengths[draw.integer(1, B - 1)] = T
    return torch.arange(T) >= lengths[:, None]


def padding_in_front(draw: Draw, B: int, T: int) -> Tensor:
    return padding_behind(draw, B, T).flip(1)


def padding_anywhere(draw: Draw, B: int, T: int) -> Tensor:
    """Gaps: sequence 0 is all padding; sequence 1 begins with a token and has a gap."""
    pad_mask = torch.rand(B, T, generator=draw.generator) < 0.4
    pad_mask[0] = True
    pad_mask[1, 0], pad_mask[1, 1] = False, True
    return pad_mask


def holes(draw: Draw, B: int, T: int) -> Tensor:
    """The first and third token of each text are padding, even in a batch of one text."""
    return (torch.arange(T) % 2 == 0).logical_and(torch.arange(T) < 3).expand(B, T).clone()


def blind(draw: Draw, B: int, T: int) -> Tensor:
    """Padding on the left; one text, not the first, is all padding."""
    mask = padding_in_front(draw, B, T)
    mask[draw.integer(1, B - 1)] = True
    return mask


# ---------------------------------------------------------------- cases


def head_case(
    draw: Draw,
    name: str,
    x: Tensor,
    d_out: int,
    context_length: int,
    pad_mask: Tensor | None = None,
    roles: str = "",
    bias: bool = False,
    made: str = "",
) -> Case:
    """A case for a head with random weights, created "by position", "by name", or by default."""
    d_in = x.shape[-1]
    arguments: dict[str, Any] = {"d_in": d_in, "d_out": d_out, "context_length": context_length}
    if made:
        arguments |= {"dropout": 0.0, "qkv_bias": bias}
    return class_case(
        name,
        {"x": x} if pad_mask is None else {"x": x, "pad_mask": pad_mask},
        arguments,
        projections(draw, d_in, d_out, bias, x.dtype),
        roles if pad_mask is None else f"{roles} masked",
        by_name=made == "by name",
        others={"context_length": 1, "dropout": 0.9},
    )


def head_cases(seed: int, padded: bool = False) -> list[Case]:
    """Cases for a head; with `padded`, most have a `pad_mask`."""
    draw = Draw(seed)

    def case(
        name: str,
        padding: Callable[..., Tensor] | None = padding_behind,
        sizes: tuple[int, ...] = (),
        roles: str = "",
        x: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        **more: Any,
    ) -> Case:
        """Sizes are `(B, T, d_in, d_out)`, and context_length if the text should fill it."""
        B, T, d_in, d_out, *limit = sizes or four_sizes(draw)
        x = draw.normal(B, T, d_in, dtype=dtype) if x is None else x
        pad_mask = padding(draw, B, T) if padded and padding else None
        limit = limit or [max(B, T, d_in, d_out) + draw.integer(1, 3)]
        return head_case(draw, name, x, d_out, limit[0], pad_mask, roles, **more)

    equal_scores = case("equal scores", padding_in_front)
    equal_scores.options["weights"]["query.weight"].zero_()
    B, T, d_in, d_out = four_sizes(draw)
    turned = draw.normal(B, d_in, T).mT
    return [
        by_hand_case(torch.tensor([[False, False, True]]) if padded else None),
        case("random numbers", roles="typical" if padded else "typical plain"),
        case("created by position", padding_in_front, bias=True, made="by position"),
        case("created by name", padding_anywhere, bias=True, made="by name"),
        case("float64", padding_anywhere, (2, 3, 5, 4), dtype=torch.float64),
        case("all sizes equal", padding_behind, (4, 4, 4, 4, 4), "small device"),
        scores_of_100(draw, padding_in_front(draw, 2, 5) if padded else None),
        equal_scores,
        case("not contiguous in memory", padding_behind, (B, T, d_in, d_out), x=turned),
        case("one token, one channel", every_second, (7, 1, 1, 1, 5), "small"),
        long_text(case),
        *(
            [
                case("one text", holes, (1, 5, 3, 4), "small"),
                case("no mask", None, roles="plain device"),
                case("a mask without padding", lambda draw, B, T: torch.zeros(B, T) > 0),
            ]
            if padded
            else []
        ),
        *dropping_heads(draw, padded),
    ]


def long_text(case: Callable[..., Case]) -> Case:
    """Longer than the sizes that people write into their code instead of an argument."""
    found = case("a long text", padding_behind, (2, 130, 3, 2, 131), "small stability")
    found.options["once"] = True
    return found


def dropping_heads(draw: Draw, padded: bool) -> list[Case]:
    """With dropout; of a padded head, without and with a mask."""
    part = attention.PaddedCausalSelfAttention if padded else attention.CausalSelfAttention
    masks = {"dropout": None} | (
        {"dropout, padded": torch.tensor([[False, True, False, False]])} if padded else {}
    )
    return [
        with_dropout(
            draw,
            part,
            head_case(Draw(1), name, Draw(2).normal(1, 4, 5), 4, 6, mask),
            {"dropout": "the weights"},
        )
        for name, mask in masks.items()
    ]


def four_sizes(draw: Draw) -> tuple[int, ...]:
    """B, T, d_in and d_out, all different; T at least 3."""
    B, d_in, d_out = draw.sizes(3, 2, 7)
    T = next(t for t in draw.sizes(5, 3, 7) if t not in (B, d_in, d_out))
    return B, T, d_in, d_out


def every_second(draw: Draw, B: int, T: int) -> Tensor:
    return (torch.arange(B)[:, None] % 2 == 1).expand(B, T)


def by_hand_case(pad_mask: Tensor | None = None) -> Case:
    """Three tokens that are their own queries, keys and values."""
    inputs = {"x": THREE_TOKENS[None]} | ({} if pad_mask is None else {"pad_mask": pad_mask})
    weights = {f"{name}.weight": torch.eye(3) for name in PROJECTIONS}
    arguments = {"d_in": 3, "d_out": 3, "context_length": 3}
    roles = "small" if pad_mask is None else "small masked"
    return class_case("three tokens by hand", inputs, arguments, weights, roles)


def scores_of_100(draw: Draw, pad_mask: Tensor | None = None) -> Case:
    """Visible scores near -100 and hidden ones near 100, except for the last token with itself.

    All numbers have few binary digits, so that float32 scores are exact in any order. Gradients are
    not: each score's is multiplied by a key of 16, and the products cancel.
    """
    x = (4 * draw.normal(2, 5, 3)).round() / 4
    x[..., 0], x[..., 1] = -1.0, 1.0
    x[:, -1, 0] = 1.0  # hidden from all other tokens
    case = head_case(draw, "scores from -100 to 100", x, 4, 8, pad_mask)
    weights = case.options["weights"]
    for name in ("query.weight", "key.weight"):
        weights[name] = (4 * weights[name]).round() / 8  # adds little to the scores
    weights["query.weight"][0] = torch.tensor([0.0, 12.0, 0.0])
    weights["key.weight"][0] = torch.tensor([16.0, 0.0, 0.0])  # 12 · 16 / √4 = 96
    case.options["tolerance"] = {torch.float32: 16 * 1e-5}
    return case


# ---------------------------------------------------------------- expectation


def attend(query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor | None) -> Tensor:
    """One head in float64, by PyTorch's own operator, whose mask is `True` where visible."""
    T = query.shape[1]
    visible = torch.ones(T, T, dtype=torch.bool).tril()
    if pad_mask is not None:
        visible = visible & ~pad_mask[:, None, :]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


def head_oracle(
    case: Case, weights: Mapping[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    query, key, value = (
        F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias")) for name in PROJECTIONS
    )
    return attend(query, key, value, pad_mask)


def values_of(case: Case, x: Tensor) -> Tensor:
    """The value of each token, from the case's weights: `(B, T, d_in)` to `(B, T, d_out)`."""
    weights = case.options["weights"]
    return F.linear(x, weights["value.weight"], weights.get("value.bias"))


# ---------------------------------------------------------------- evidence


def equal_tokens(case: Case) -> dict[str, Any]:
    no_mask = dict.fromkeys(case.inputs.keys() & {"pad_mask"})
    return {"x": case["x"][:, :1].expand_as(case["x"]), **no_mask}


MORE = {
    "": {"changed": other_tokens("x", (0, -1)), "equal": equal_tokens},
    "masked": {"other padding": other_tokens("x", "pad_mask")},
}


def see_head(make: Callable[..., Any], case: Case, observed: Observation) -> None:
    see_dropout(make, case, observed)
    see_turns(make, case, observed)


@true_of("The scores decide which earlier token is attended to", gate=True, role="plain")
def mixes(case: Case, observed: Observation, expected: Expected) -> Verdict:
    """The result is more than a constant, the values themselves, or their mean."""
    values = values_of(case, case["x"])
    mean = values.cumsum(1) / torch.arange(1, values.shape[1] + 1)[:, None]
    out = observed.tensors["out"]
    others = (torch.zeros_like(values), values, mean, observed.tensors["changed"])
    return not any(near(out[:, 1:], other[:, 1:]) for other in others)


@true_of("The first token sees only its own value", credit=True)
def first_token(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if "pad_mask" in case.inputs:
        return None
    return near(observed.tensors["out"][:, :1], values_of(case, case["x"][:, :1]))


@true_of("A later token does not affect an earlier one", credit=True)
def no_future(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return near(observed.tensors["changed"][0, :-1], observed.tensors["out"][0, :-1])


@true_of("Sequences of a batch don't mix")
def own_sequence(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if case["x"].shape[0] == 1:
        return None
    return near(observed.tensors["changed"][1:], observed.tensors["out"][1:])


@true_of("If all tokens are equal, the result is their value", credit=True)
def sums_to_one(case: Case, observed: Observation, expected: Expected) -> Verdict:
    x = case["x"]
    return near(observed.tensors["equal"], values_of(case, x[:, :1].expand_as(x)))


# The gradient of a weight sums a product for each of up to 42 tokens, of which most cancel: their
# sizes add up to some hundreds, whose rounding is up to 2⁻²⁴ of each.
HEAD_TOLERANCE = {torch.float32: 4e-5, torch.float64: 1e-6}

HEAD_PROPERTIES = (
    mixes,
    first_token,
    no_future,
    own_sequence,
    sums_to_one,
    nothing_kept,
    DROPOUT,
    *MODULE_PROPERTIES,
)
