"""What both styles of multi-head attention share: cases, expectation, evidence, properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...checking import Case, Observation, Property
from ...checking.calling import fresh, set_seed
from ...checking.comparing import near
from ...checking.exercise import Expected, Verdict
from ...checking.modules import MODULE_PROPERTIES, inject
from .draw import Draw
from .dropout import CONTEXT, D_IN, DROPOUT, TRAINS, WIDTH, beside, dropout_case, see_dropout, split
from .heads import (
    PROJECTIONS,
    linear_weights,
    padding_anywhere,
    padding_behind,
    padding_in_front,
    projections,
)

# ---------------------------------------------------------------- sizes and weights


@dataclass(frozen=True)
class Sizes:
    """Sizes of one case: D is the width of one head, `length` the constructor's context_length."""

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
    """All different, the width H · D too; T ≥ 3 and H ≤ 4."""
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
    """How one style is made: the name and size of its second argument, and its weights."""

    width_name: str
    width: Callable[[Sizes], int]
    weights: Callable[..., dict[str, Tensor]]
    join: Callable[[list[dict[str, Tensor]]], dict[str, Tensor]]

    def arguments(self, s: Sizes) -> dict[str, int]:
        width = {self.width_name: self.width(s)}
        return {"d_in": s.d_in, **width, "context_length": s.length, "num_heads": s.H}


SIDE_BY_SIDE = Style("d_head", lambda s: s.D, wrapper_weights, beside)
SPLIT = Style("d_out", lambda s: s.width, split_weights, split)


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
        *,
        x: Tensor | None = None,
        pad_mask: Tensor | None = None,
        bias: bool = False,
        dtype: torch.dtype = torch.float32,
        given: str = "",
        roles: tuple[str, ...] = (),
        **options: Any,
    ) -> Case:
        """`given` says how the constructor gets its arguments: four by position, all six "by
        position" or all six "by name"."""
        if x is None:
            x = self.draw.normal(s.B, s.T, s.d_in, dtype=dtype)
        inputs = {"x": x} if pad_mask is None else {"x": x, "pad_mask": pad_mask}
        named: dict[str, Any] = self.style.arguments(s)
        if given:
            named |= {"dropout": 0.0, "qkv_bias": bias}
        by_name = given == "by name"
        made = {
            "args": () if by_name else tuple(named.values()),
            "kwargs": named if by_name else {},
            "weights": self.style.weights(self.draw, s, bias, dtype),
            "dtype": dtype,
            "heads": s.H,
        }
        if "typical" in roles:  # others are made beside it, with a shorter context
            named |= {"context_length": 1, "dropout": 0.9}
            made["others"] = [((), named)]
        return Case(name, inputs, options=made | options, roles=set(roles))

    def refused(self, name: str, padded: bool, train: bool = False, times: int = 1) -> Case:
        """One token too many, or a text `times` as long as fits."""
        limit = self.draw.integer(8, 11)
        s = Sizes(2, times * limit + 1, 3, 5, 4, limit)
        inputs = {"x": self.draw.normal(s.B, s.T, s.d_in)}
        if padded:
            inputs["pad_mask"] = padding_behind(self.draw, s.B, s.T)
        made = {"args": tuple(self.style.arguments(s).values()), "kwargs": {}, "heads": s.H}
        made["train"] = train
        return Case(name, inputs, (str(s.T), str(limit)), made)

    def too_long(self) -> list[Case]:
        return [
            self.refused("one token too many", padded=False),
            self.refused("one token too many, padded", padded=True),
            self.refused("one token too many, in training", padded=False, train=True),
            self.refused("one token too many, padded, in training", padded=True, train=True),
            self.refused("twice as many tokens as fit", padded=False, times=2),
        ]

    def big_numbers(self, name: str) -> Case:
        """Scores in the ten thousands: no finite number is small enough to hide one. They lie so
        far apart that the rounding of a float32 step changes no weight."""
        s = Sizes(4, 5, 7, 3, 2, 8)
        while True:
            x = 300 * self.draw.normal(s.B, s.T, s.d_in, dtype=torch.float64)
            case = self.case(name, s, x=x, dtype=torch.float64)
            weights = side_by_side(case.options["weights"], s.H)
            query, key = (
                torch.stack([x @ weights[f"heads.{h}.{n}.weight"].mT for h in range(s.H)])
                for n in ("query", "key")
            )
            scores = query @ key.mT / math.sqrt(s.D)
            if bool((scores.sort(dim=-1).values.diff(dim=-1) > 100).all()):
                return case

    def dropout(self, H: int) -> Case:
        args = self.style.arguments(Sizes(0, 0, D_IN, WIDTH, H, CONTEXT))
        return dropout_case(self.draw, H, tuple(args.values()), self.style.join)


def attention_cases(seed: int, style: Style, most_tokens: int) -> list[Case]:
    """Cases for either style; one of them has `most_tokens`."""
    draw = Draw(seed)
    cases = Cases(draw, style)
    case, small, device = cases.case, ("small",), ("padded", "device")
    behind, front, anywhere = (distinct_sizes(draw) for _ in range(3))
    equal, turned, double = distinct_sizes(draw), Sizes(270, 3, 5, 4, 2, 6), torch.float64
    blind = padding_in_front(draw, front.B, front.T)
    blind[draw.integer(1, front.B - 1)] = True  # not the first: its mask for all would hide all
    holes = padding_anywhere(draw, anywhere.B, anywhere.T)
    full = torch.tensor([[True, False, False], [False, False, True]])
    long, wide = Sizes(1, most_tokens, 4, 2, 1, most_tokens + 3), Sizes(3, 4, 300, 64, 12, 7)
    return [
        case("three tokens, two heads of width 1", Sizes(1, 3, 3, 1, 2, 3), roles=small),
        case("random numbers", distinct_sizes(draw), roles=("typical",)),
        case("padding in front, one sequence all padding", front, pad_mask=blind, roles=device),
        case(
            "padding anywhere, made by name",
            anywhere,
            pad_mask=holes,
            roles=("padded",),
            bias=True,
            given="by name",
        ),
        case(
            "float64, made by position",
            behind,
            pad_mask=padding_behind(draw, behind.B, behind.T),
            bias=True,
            dtype=double,
            given="by position",
        ),
        case(
            "one head, as many tokens as fit",
            Sizes(2, 3, 5, 4, 1, 3),
            pad_mask=full,
            roles=("small", "device"),
        ),
        case("one token", Sizes(1, 1, 4, 3, 2, 5), roles=small),
        cases.big_numbers("big numbers"),
        equal_scores(case("equal scores, some tokens of zeros", equal)),
        cases.dropout(3),
        case(
            f"one head, {long.T:,} tokens",
            long,
            pad_mask=torch.arange(long.T)[None] % 5 == 4,
            roles=small,
            once=True,
        ),
        case(
            "270 sequences, not contiguous in memory",
            turned,
            x=draw.normal(270, 5, 3).mT,
            pad_mask=padding_anywhere(draw, 270, 3),
            once=True,
        ),
        case("300 channels in, 12 heads of 64", wide, once=True),
        *cases.too_long(),
    ]


def equal_scores(case: Case) -> Case:
    """Queries of zeros, tokens of zeros: neither tells what is hidden."""
    for name, weight in case.options["weights"].items():
        if name.endswith("query.weight"):
            weight.zero_()
    case["x"][0, ::2] = 0.0
    return case


# ---------------------------------------------------------------- the right answer


def attend(query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor | None) -> Tensor:
    """One head in float64 by PyTorch's own operator, in which `True` takes part."""
    T = query.shape[1]
    seen = torch.ones(T, T, dtype=torch.bool).tril()
    if pad_mask is not None:
        seen = seen & ~pad_mask[:, None, :]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


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
    """The weights of either style as those of H heads: neighbouring rows belong together."""
    heads = {n: w for n, w in weights.items() if n.startswith(("out_proj", "heads"))}
    for name, weight in weights.items():
        if name not in heads:
            heads |= {f"heads.{h}.{name}": part for h, part in enumerate(weight.chunk(H))}
    return heads


# ---------------------------------------------------------------- evidence


def see_attention(build: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More calls, by name: other padding or another future, another first token, short and long
    texts in turn, no mask after a mask, what each head hears of the padding; dropout at work."""
    see_dropout(build, case, seen)
    if case.refuses is not None or not case.roles & {"typical", "padded"}:
        return
    x, pad_mask = case["x"], case.inputs.get("pad_mask")
    half = (x.shape[1] + 1) // 2

    def call(module: Any, x: Tensor, mask: Tensor | None = pad_mask) -> Any:
        mask = None if mask is None else fresh(mask[-len(x) :, : x.shape[1]])
        return module(x=fresh(x), pad_mask=mask)

    changed = x.clone()
    if pad_mask is None:
        changed[:, half:] += 1.0
    else:
        changed[pad_mask] += 1.0

    def made(training: bool = False) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return build(as_made=training)

    one, other = made(training=True), made()  # with a dropout of 0 either mode gives the same
    seen.put("changed", call(other, changed))
    seen.put("in training", call(one, x))
    if pad_mask is None:
        first = x.clone()
        first[:, 0] += 1.0
        seen.put("first", call(other, first))
    else:
        seen.put("unmasked second", call(one, x, None))
        seen.put("masked third", call(one, x))
        seen.put("unmasked first", call(made(), x, None))
    seen.put("few second", call(one, x[1:]))
    seen.put("few first", call(made(training=True), x[1:]))
    seen.put("short second", call(one, x[1:, :half]))
    seen.put("short first", call(other, x[1:, :half]))
    seen.put("long second", call(other, x))
    if pad_mask is not None:
        width = case.options["weights"]["out_proj.weight"].shape[0]
        unmixed = {"out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}
        inject(other, unmixed)
        seen.put("heads", call(other, x))
        seen.put("heads changed", call(other, changed))


# ---------------------------------------------------------------- properties


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    half = (case["x"].shape[1] + 1) // 2
    return near(seen.tensors["out"][:, :half], seen.tensors["changed"][:, :half])


def _padding_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    real = ~case["pad_mask"]
    if near(seen.tensors["out"][real], seen.tensors["changed"][real]):
        return True
    if "heads" not in seen.tensors:
        return False
    H = case.options["heads"]
    before, after = (seen.tensors[n][real].chunk(H, -1) for n in ("heads", "heads changed"))
    leaking = [str(h) for h in range(H) if not near(before[h], after[h])]
    if not leaking or len(leaking) == H:
        return False
    heads = "head " + leaking[0] if len(leaking) == 1 else "heads " + ", ".join(leaking)
    return f"lets it have one in {heads} of {H}, counted from 0"


def _nothing_seen(case: Case, seen: Observation, expected: Expected) -> Verdict:
    blind = case["pad_mask"].long().cumprod(1).bool()
    if not bool(blind.any()):
        return None
    rows = seen.tensors["out"][blind]
    return near(rows, case.options["weights"]["out_proj.bias"].expand_as(rows))


def _nothing_kept(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not case.roles & {"typical", "padded"}:
        return None
    t = seen.tensors
    if "in training" in t and not near(t["in training"], t["out"]):
        return "is another one in training mode, without any dropout"
    pairs = [("short second", "short first"), ("long second", "out")]
    pairs += [("masked third", "out")] if "masked third" in t else []
    pairs += [(f"{n} second", f"{n} first") for n in ("few", "unmasked") if f"{n} first" in t]
    return all(near(t[again], t[first]) for again, first in pairs) or "remembers something"


LISTENS = Property(
    "listens", "A token listens to the tokens before it", _listens, gate=True, role="typical"
)
NO_FUTURE = Property(
    "no_future",
    "A later token has no say in an earlier one",
    _no_future,
    credit=True,
    role="typical",
)
PADDING_SILENT = Property(
    "padding",
    "What stands in the padding has no say in real tokens",
    _padding_silent,
    credit=True,
    role="padded",
)
NOTHING_KEPT = Property(
    "nothing_kept",
    "A call keeps nothing of the calls before it, and hangs on no mode",
    _nothing_kept,
    breaks="The result should hang on the text and its mask, not on the mode or the calls before",
)
ATTENTION_PROPERTIES = (
    LISTENS,
    NO_FUTURE,
    PADDING_SILENT,
    Property(
        "nothing_seen",
        "A token that sees nothing gives the bias of `out_proj`",
        _nothing_seen,
        credit=True,
        role="padded",
    ),
    NOTHING_KEPT,
    DROPOUT,
    TRAINS,
    *MODULE_PROPERTIES,
)
