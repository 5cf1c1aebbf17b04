"""What both styles of multi-head attention share: cases, expectation, evidence, behaviours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checking.exercise import Behaviour, Case, Observation
from ..checking.probing import fresh
from .drawing import Draw
from .single_head import near

PROJECTIONS = ("query", "key", "value")


# ---------------------------------------------------------------- cases


def distinct_sizes(draw: Draw) -> tuple[int, int, int, int, int]:
    """B, T, d_in, D and H, all different and none of them the width H · D; T ≥ 3 and H ≤ 4."""
    while True:
        B, T, d_in, D, H = draw.sizes(5, 2, 7)
        if T >= 3 and H <= 4 and H * D not in (B, T, d_in):
            return B, T, d_in, D, H


def linear(
    draw: Draw, name: str, d_in: int, d_out: int, bias: bool, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Weights for an `nn.Linear` at 1/√d_in, so that float32 rounding stays below the tolerance."""
    weights = {f"{name}.weight": draw.normal(d_out, d_in, dtype=dtype) / math.sqrt(d_in)}
    return weights | ({f"{name}.bias": draw.normal(d_out, dtype=dtype) / 2} if bias else {})


def wrapper_weights(
    draw: Draw, d_in: int, D: int, H: int, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for h, name in itertools.product(range(H), PROJECTIONS):
        weights |= linear(draw, f"heads.{h}.{name}", d_in, D, bias, dtype)
    return weights | linear(draw, "out_proj", H * D, H * D, True, dtype)


def split_weights(
    draw: Draw, d_in: int, D: int, H: int, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name in PROJECTIONS:
        weights |= linear(draw, name, d_in, H * D, bias, dtype)
    return weights | linear(draw, "out_proj", H * D, H * D, True, dtype)


def attention_cases(
    seed: int,
    arguments: Callable[[int, int, int, int], tuple[int, int, int, int]],
    draw_weights: Callable[..., dict[str, Tensor]],
) -> list[Case]:
    """Cases for either style: `arguments(d_in, D, context_length, H)` as its constructor takes."""
    draw = Draw(seed)

    def case(
        name: str,
        B: int,
        T: int,
        d_in: int,
        D: int,
        H: int,
        more: int = 2,
        *,
        pad_mask: Tensor | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
        size: float = 1.0,
        turned: bool = False,
    ) -> Case:
        args: tuple[Any, ...] = arguments(d_in, D, T + more, H)
        x = draw.normal(B, d_in, T).mT if turned else size * draw.normal(B, T, d_in, dtype=dtype)
        inputs: dict[str, Any] = {"x": x}
        if pad_mask is not None:
            inputs["pad_mask"] = pad_mask
        return Case(
            name,
            inputs,
            options={
                # All six by position where there are biases, so that their order is seen.
                "args": (*args, 0.0, True) if bias else args,
                "kwargs": {"dropout": dropout} if dropout else {},
                "weights": draw_weights(draw, d_in, D, H, bias, dtype),
                "dtype": dtype,
                "heads": H,
            },
        )

    B, T, d_in, D, H = distinct_sizes(draw)
    first = case("random sizes", B, T, d_in, D, H)
    B, T, d_in, D, H = distinct_sizes(draw)
    lengths = torch.randint(1, T, (B,), generator=draw.generator)
    lengths[draw.integer(0, B - 1)] = T
    behind = torch.arange(T) >= lengths[:, None]
    second = case("padding at the end", B, T, d_in, D, H, pad_mask=behind)
    B, T, d_in, D, H = distinct_sizes(draw)
    lengths = torch.randint(1, T, (B,), generator=draw.generator)
    in_front = torch.arange(T) < lengths[:, None]
    in_front[draw.integer(0, B - 1)] = True
    third = case("padding in front, one sequence all padding", B, T, d_in, D, H, pad_mask=in_front)
    B, T, d_in, D, H = distinct_sizes(draw)
    anywhere = torch.rand(B, T, generator=draw.generator) < 0.4
    anywhere[:, 0], anywhere[:, 1] = False, True
    fourth = case(
        "float64 with biases",
        B,
        T,
        d_in,
        D,
        H,
        pad_mask=anywhere,
        bias=True,
        dtype=torch.float64,
    )
    limit, width, share = (
        draw.integer(8, 9),
        draw.integer(3, 5),
        (0.3, 0.4, 0.6)[draw.integer(0, 2)],
    )
    return [
        case("three tokens, two heads of width 1", 1, 3, 3, 1, 2, 0),
        first,
        second,
        third,
        fourth,
        case("one head", 2, 3, 5, 4, 1, 1),
        case("one token", 1, 1, 4, 3, 2, 1),
        # Scores in the ten thousands: no finite number is small enough to hide one.
        case("big numbers", 9, 4, 5, 3, 2, dtype=torch.float64, size=300.0),
        case("many tokens", 1, 36, 4, 3, 2, pad_mask=torch.arange(36)[None] % 5 == 4),
        case("not contiguous in memory", 3, 4, 2, 5, 2, turned=True),
        case("dropout", draw.integer(16, 20), 3, 5, width, 2, dropout=share),
        Case(
            "more tokens than context_length",
            {"x": draw.normal(1, limit + 4, 3)},
            refuses=(str(limit + 4), str(limit)),
            options={"args": arguments(3, 2, limit, 2), "kwargs": {}, "heads": 2},
        ),
    ]


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
    """The weights of the split style as those of H heads: neighbouring rows belong together."""
    heads = {n: w for n, w in weights.items() if n.startswith("out_proj")}
    for name, weight in weights.items():
        if name not in heads:
            heads |= {f"heads.{h}.{name}": part for h, part in enumerate(weight.chunk(H))}
    return heads


# ---------------------------------------------------------------- evidence and behaviours


def see_attention(build: Callable[[], Any], case: Case, seen: Observation) -> None:
    """More calls, with `pad_mask` by name: other padding or another future, another first token,
    short and long texts in turn, no mask after a mask, and dropout in training."""
    if case.refuses is not None:
        return
    x, pad_mask = case["x"], case.inputs.get("pad_mask")
    half = (x.shape[1] + 1) // 2

    def call(module: Any, x: Tensor, mask: Tensor | None = pad_mask) -> Any:
        mask = None if mask is None else fresh(mask[:, : x.shape[1]])
        return module(fresh(x), pad_mask=mask)

    changed, first = x.clone(), x.clone()
    if pad_mask is None:
        changed[:, half:] += 1.0
    else:
        changed[pad_mask] += 1.0
    first[:, 0] += 1.0
    one, other = build(), build()
    seen.put("changed", call(one, changed))
    seen.put("first", call(one, first))
    if pad_mask is not None:
        seen.put("unmasked second", call(one, x, None))
        seen.put("unmasked first", call(build(), x, None))
    seen.put("short second", call(one, x[:, :half]))
    seen.put("short first", call(other, x[:, :half]))
    seen.put("long second", call(other, x))
    if case.options["kwargs"]:
        torch.manual_seed(3)
        seen.put("dropped", one.train()(fresh(x)))


def _listens(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name != "random sizes":
        return None
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


def _no_future(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    T = case["x"].shape[1]
    if case.inputs.get("pad_mask") is not None or T == 1:
        return None
    half = (T + 1) // 2
    return near(seen.tensors["out"][:, :half], seen.tensors["changed"][:, :half])


def _padding_silent(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.inputs.get("pad_mask") is None:
        return None
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["changed"][real])


def _nothing_seen(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.inputs.get("pad_mask") is None:
        return None
    blind = case["pad_mask"].long().cumprod(1).bool()
    if not bool(blind.any()):
        return None
    rows = seen.tensors["out"][blind]
    return near(rows, case.options["weights"]["out_proj.bias"].expand_as(rows))


def _nothing_kept(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    t, half = seen.tensors, (case["x"].shape[1] + 1) // 2
    pairs = [("short second", t["out"][:, :half]), ("short first", t["out"][:, :half])]
    pairs += [("long second", t["out"])]
    if "unmasked first" in t:
        pairs += [("unmasked second", t["unmasked first"])]
    return all(near(t[name], wanted) for name, wanted in pairs)


def drops_weights(heads_of: Callable[[Case], Mapping[str, Tensor]]) -> Behaviour:
    """Dropout p makes each weight of the last of three tokens 0 or 1/(1 - p) times itself.

    So its result must be one of the 2^(3 H) that this can give, and not always one where a whole
    head is dropped or kept.

    Args:
        heads_of: the case's weights under the wrapper's names.
    """

    def holds(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
        if not case.options.get("kwargs"):
            return None
        x, H = case["x"].double(), case.options["heads"]
        given = {name: value.double() for name, value in heads_of(case).items()}
        grown = 1 / (1 - case.options["kwargs"]["dropout"])
        factors = torch.tensor(list(itertools.product((0.0, grown), repeat=3))).double()  # (8, 3)
        contexts = []  # H of (8, B, D)
        for h in range(H):
            q, k, v = (x @ given[f"heads.{h}.{n}.weight"].mT for n in PROJECTIONS)
            weights = torch.softmax(q[:, -1:] @ k.mT / math.sqrt(q.shape[-1]), -1)  # (B, 1, 3)
            contexts.append(((factors[:, None, None] * weights) @ v)[:, :, 0])
        choices = list(itertools.product(range(8), repeat=H))
        possible = torch.stack(
            [
                torch.cat([c[i] for c, i in zip(contexts, choice, strict=True)], -1)
                for choice in choices
            ]
        )
        possible = F.linear(possible, given["out_proj.weight"], given["out_proj.bias"])
        matches = ((possible - seen.tensors["dropped"][:, -1].double()).abs() < 1e-4).all(-1)
        drawn = {choices[i] for i in matches.int().argmax(0).tolist()}
        return bool(matches.any(0).all()) and any(set(choice) - {0, 7} for choice in drawn)

    return Behaviour(
        "dropout",
        "In training, dropout sets attention weights to 0 and scales the others up",
        holds,
        breaks="In training, dropout does not do its work on the attention weights, and there only",
    )


ATTENTION_BEHAVIOURS = (
    Behaviour("listens", "A token listens to the tokens before it", _listens, gate=True),
    Behaviour("no_future", "A later token has no say in an earlier one", _no_future, credit=True),
    Behaviour(
        "padding",
        "What stands in the padding has no say in real tokens",
        _padding_silent,
        credit=True,
    ),
    Behaviour(
        "nothing_seen",
        "A token that sees nothing gives the bias of `out_proj`",
        _nothing_seen,
        credit=True,
    ),
    Behaviour(
        "nothing_kept",
        "A call keeps nothing of the calls before it",
        _nothing_kept,
        breaks="The result depends on the calls before: another length or mask is remembered",
    ),
)
