"""Shared by both styles of multi-head attention: cases, expectation, evidence, properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import attention
from whywrong import MODULE_PROPERTIES, Case, Draw, Observation, near, true_of
from whywrong.probing import Expected, Verdict

from .classes import (
    FIRST,
    LAST,
    class_case,
    listens,
    no_future,
    nothing_kept,
    other_tokens,
    see_turns,
)
from .dropout import DROPOUT, see_dropout, with_dropout
from .heads import (
    PROJECTIONS,
    attend,
    holes,
    linear_weights,
    padding_anywhere,
    padding_behind,
    padding_in_front,
    projections,
)

# ---------------------------------------------------------------- sizes and weights


@dataclass(frozen=True)
class Sizes:
    """Sizes of one case: D is the width of a head, `length` the constructor's context_length."""

    B: int
    T: int
    d_in: int
    D: int
    H: int
    length: int

    @property
    def width(self) -> int:
        return self.H * self.D


def distinct_sizes(draw: Draw) -> Sizes:
    """Sizes that are all different, including H · D; T ≥ 3 and H ≤ 4."""
    while True:
        B, T, d_in, D, H = draw.sizes(5, 2, 7)
        s = Sizes(B, T, d_in, D, H, T + draw.integer(1, 6))
        if T >= 3 and H <= 4 and len({B, T, d_in, D, H, s.width, s.length}) == 7:
            return s


def wrapper_weights(
    draw: Draw, s: Sizes, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    heads = [projections(draw, s.d_in, s.D, bias, dtype) for _ in range(s.H)]
    weights = {f"heads.{h}.{name}": w for h, head in enumerate(heads) for name, w in head.items()}
    return weights | linear_weights(draw, "out_proj", s.width, s.width, True, dtype)


def split_weights(
    draw: Draw, s: Sizes, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    weights = projections(draw, s.d_in, s.width, bias, dtype)
    return weights | linear_weights(draw, "out_proj", s.width, s.width, True, dtype)


@dataclass(frozen=True)
class Style:
    """The constructor of one style: the name and size of its second argument, and its weights."""

    width_name: str
    width: Callable[[Sizes], int]
    weights: Callable[..., dict[str, Tensor]]
    part: Callable[..., nn.Module]

    def arguments(self, s: Sizes) -> dict[str, int]:
        width = {self.width_name: self.width(s)}
        return {"d_in": s.d_in, **width, "context_length": s.length, "num_heads": s.H}


SIDE_BY_SIDE = Style("d_head", lambda s: s.D, wrapper_weights, attention.MultiHeadAttentionWrapper)
SPLIT = Style("d_out", lambda s: s.width, split_weights, attention.MultiHeadAttention)


# ---------------------------------------------------------------- cases


@dataclass
class Cases:
    """Draws the cases of one style."""

    draw: Draw
    style: Style

    def case(
        self,
        name: str,
        s: Sizes,
        pad_mask: Tensor | None = None,
        *,
        x: Tensor | None = None,
        bias: bool = False,
        dtype: torch.dtype = torch.float32,
        given: str = "",
        roles: str = "",
        once: bool = False,
    ) -> Case:
        """`given` says how the constructor gets its arguments: four by position, all six "by
        position", or all six "by name"."""
        if x is None:
            x = self.draw.normal(s.B, s.T, s.d_in, dtype=dtype)
        inputs = {"x": x} if pad_mask is None else {"x": x, "pad_mask": pad_mask}
        arguments: dict[str, Any] = self.style.arguments(s)
        if given:
            arguments |= {"dropout": 0.0, "qkv_bias": bias}
        return class_case(
            name,
            inputs,
            arguments,
            self.style.weights(self.draw, s, bias, dtype),
            roles,
            by_name=given == "by name",
            others={"context_length": 1, "dropout": 0.9},
            heads=s.H,
            once=once,
        )

    def equal_scores(self, s: Sizes) -> Case:
        """Queries of zeros and tokens of zeros, neither of which may reveal hidden tokens."""
        case = self.case("equal scores, some tokens of zeros", s)
        for name, weight in case.options["weights"].items():
            if name.endswith("query.weight"):
                weight.zero_()
        case["x"][0, ::2] = 0.0
        return case

    def loud(self) -> Case:
        """Scores of real tokens down to -98, and of padding up to 98, so far apart that rounding
        changes no weight. Gradients are left out because they would show the rounding."""
        sizes = torch.tensor([[1.0, 0.8, -1.0, 0.6], [-1.0, 1.0, 0.7, 0.4]])
        s = Sizes(2, 4, 5, 7, 3, 8)
        x = self.draw.normal(s.B, s.T, s.d_in)
        x[..., 0] = sizes
        case = self.case("scores up to 98, hidden ones the highest", s, sizes < 0, x=x, once=True)
        for name, weight in case.options["weights"].items():
            if name.endswith(("query.weight", "key.weight")):
                weight.zero_()[:, 0] = math.sqrt(98 / math.sqrt(s.D))
            if name.endswith("key.weight"):
                weight.neg_()
        return case

    def dropout(self, name: str, pad_mask: Tensor | None = None) -> Case:
        s, fixed = Sizes(1, 4, 5, 2, 3, 6), Cases(Draw(3), self.style)
        case = fixed.case(name, s, pad_mask)
        weights = ["dropout"] if self.style is SPLIT else [f"heads.{h}.dropout" for h in range(s.H)]
        more = {
            "drops the result instead of the weights": {"> out_proj": 1}
            | dict.fromkeys(weights, 0),
            "drops the result, too": {"out_proj >": 1},
            "drops what `out_proj` reads, too": {"> out_proj": 1},
        }
        places = {weights[0]: "the weights"}
        return with_dropout(self.draw, self.style.part, case, places, more=more)


def attention_cases(seed: int, style: Style) -> list[Case]:
    """Cases for either style."""
    draw = Draw(seed)
    cases = Cases(draw, style)
    case = cases.case
    behind, front, anywhere, turned = (distinct_sizes(draw) for _ in range(4))
    blind = padding_in_front(draw, front.B, front.T)
    blind[draw.integer(1, front.B - 1)] = True  # not the first, whose mask would hide all
    one = Sizes(1, 5, 3, 4, 2, 7)
    full = torch.tensor([[True, False, False], [False, False, True]])
    return [
        case("three tokens, two heads of width 1", Sizes(1, 3, 3, 1, 2, 3), roles="small"),
        case("random numbers", distinct_sizes(draw), roles="typical"),
        case("padding on the left, one sequence all padding", front, blind, roles="padded device"),
        case(
            "padding anywhere, created by name",
            anywhere,
            padding_anywhere(draw, anywhere.B, anywhere.T),
            bias=True,
            given="by name",
            roles="padded",
        ),
        case(
            "float64, created by position",
            behind,
            padding_behind(draw, behind.B, behind.T),
            bias=True,
            dtype=torch.float64,
            given="by position",
        ),
        case(
            "one head, as many tokens as fit", Sizes(2, 3, 5, 4, 1, 3), full, roles="small device"
        ),
        case("one token", Sizes(1, 1, 4, 3, 2, 5), roles="small"),
        case("one text, padded", one, holes(draw, 1, one.T), roles="small", once=True),
        cases.loud(),
        cases.equal_scores(distinct_sizes(draw)),
        case("a long text", Sizes(1, 130, 3, 2, 2, 131), roles="small stability", once=True),
        cases.dropout("dropout"),
        cases.dropout("dropout, padded", torch.tensor([[False, True, False, False]])),
        case(
            "not contiguous in memory",
            turned,
            padding_anywhere(draw, turned.B, turned.T),
            x=draw.normal(turned.B, turned.d_in, turned.T).mT,
        ),
    ]


# ---------------------------------------------------------------- the right answer


def wrapper_oracle(
    case: Case, weights: Mapping[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    contexts = []
    for h in range(case.options["heads"]):
        q, k, v = (
            F.linear(x, weights[f"heads.{h}.{n}.weight"], weights.get(f"heads.{h}.{n}.bias"))
            for n in PROJECTIONS
        )
        contexts.append(attend(q, k, v, pad_mask))
    return F.linear(torch.cat(contexts, -1), weights["out_proj.weight"], weights["out_proj.bias"])


def split_oracle(
    case: Case, weights: Mapping[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    return wrapper_oracle(case, side_by_side(weights, case.options["heads"]), x, pad_mask)


def side_by_side(weights: Mapping[str, Tensor], H: int) -> dict[str, Tensor]:
    """The weights of either style, as those of H heads: each has neighbouring rows."""
    heads = {n: w for n, w in weights.items() if n.startswith(("out_proj", "heads"))}
    for name, weight in weights.items():
        if name not in heads:
            heads |= {f"heads.{h}.{name}": part for h, part in enumerate(weight.chunk(H))}
    return heads


# ---------------------------------------------------------------- evidence


def see_attention(make: Callable[..., Any], case: Case, observed: Observation) -> None:
    see_dropout(make, case, observed)
    see_turns(make, case, observed)


def unmixed(case: Case) -> dict[str, Any]:
    """The output layer gives what the heads give."""
    width = len(case.options["weights"]["out_proj.weight"])
    return {"weights": {"out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}}


other_padding = other_tokens("x", "pad_mask")
MORE = {
    "typical": {"changed": other_tokens("x", LAST), "first": other_tokens("x", FIRST)},
    "padded": {
        "changed": other_padding,
        "heads": unmixed,
        "heads changed": lambda case: unmixed(case) | other_padding(case),
    },
}


# ---------------------------------------------------------------- properties


@true_of("Padding does not affect real tokens", credit=True, role="padded")
def padding(case: Case, observed: Observation, expected: Expected) -> Verdict:
    real = ~case["pad_mask"]
    if near(observed.tensors["out"][real], observed.tensors["changed"][real]):
        return True
    if "heads" not in observed.tensors:
        return False
    H = case.options["heads"]
    before, after = (observed.tensors[n][real].chunk(H, -1) for n in ("heads", "heads changed"))
    leaking = [str(h) for h in range(H) if not near(before[h], after[h])]
    if not leaking or len(leaking) == H:
        return False
    heads = "head " + leaking[0] if len(leaking) == 1 else "heads " + ", ".join(leaking)
    return f"lets padding into {heads} of {H}, counted from 0"


@true_of(
    "A token that can attend to nothing gives the bias of `out_proj`", credit=True, role="padded"
)
def nothing_seen(case: Case, observed: Observation, expected: Expected) -> Verdict:
    blind = case["pad_mask"].long().cumprod(1).bool()
    if not bool(blind.any()):
        return None
    rows = observed.tensors["out"][blind]
    return near(rows, case.options["weights"]["out_proj.bias"].expand_as(rows))


ATTENTION_PROPERTIES = (
    listens,
    no_future,
    padding,
    nothing_seen,
    nothing_kept,
    DROPOUT,
    *MODULE_PROPERTIES,
)
