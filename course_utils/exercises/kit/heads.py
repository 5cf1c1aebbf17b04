"""What the heads of lessons 04 and 05 share: cases, oracle, evidence, behaviours, and a head whose
steps a misconception replaces one at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checking.exercise import Behaviour, Case, Observation
from ..checking.modules import MODULE_BEHAVIOURS
from ..checking.probing import fresh
from .drawing import Draw

INF = float("inf")

# The built-in attention is the exercise of lessons 04 to 07, however it is called.
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
)

THREE_TOKENS = torch.tensor([[0.4, 0.2, 0.9], [0.6, 0.8, 0.7], [0.2, 0.5, 0.3]])


# ---------------------------------------------------------------- cases


def projections(
    draw: Draw, d_in: int, d_out: int, bias: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights of query, key and value by name, at a scale that keeps scores near 1."""
    weights = {}
    for name in ("query", "key", "value"):
        weights[f"{name}.weight"] = draw.normal(d_out, d_in, dtype=dtype) / math.sqrt(d_in)
        if bias:
            weights[f"{name}.bias"] = draw.normal(d_out, dtype=dtype)
    return weights


def head_case(
    draw: Draw,
    name: str,
    x: Tensor,
    d_out: int,
    context_length: int,
    *,
    pad_mask: Tensor | None = None,
    refuses: tuple[str, ...] | None = None,
    **kwargs: Any,
) -> Case:
    """A case for a head: made with `(d_in, d_out, context_length, **kwargs)`, random weights."""
    d_in = x.shape[-1]
    inputs = {"x": x} if pad_mask is None else {"x": x, "pad_mask": pad_mask}
    weights = projections(draw, d_in, d_out, kwargs.get("qkv_bias", False), x.dtype)
    made = {"args": (d_in, d_out, context_length), "kwargs": kwargs}
    return Case(name, inputs, refuses, made | {"weights": weights, "dtype": x.dtype})


def by_hand_case(pad_mask: Tensor | None = None) -> Case:
    """Three tokens that are their own queries, keys and values."""
    inputs = {"x": THREE_TOKENS[None]} | ({} if pad_mask is None else {"pad_mask": pad_mask})
    weights = {f"{name}.weight": torch.eye(3) for name in ("query", "key", "value")}
    return Case(
        "three tokens by hand", inputs, None, {"args": (3, 3, 3), "kwargs": {}, "weights": weights}
    )


def head_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, d_in, d_out = draw.sizes(4, 2, 7)
    b, t, c, d = draw.sizes(4, 3, 8)
    longest = draw.integer(9, 12)
    too_long = draw.integer(14, 17)
    double = torch.float64
    return [
        by_hand_case(),
        head_case(draw, "random numbers", draw.normal(B, T + 1, d_in), d_out, longest),
        head_case(draw, "as many tokens as fit", draw.normal(b, t, c), d, t),
        head_case(draw, "with biases", draw.normal(t, b, d), c, longest, qkv_bias=True),
        # Few tokens: gradients add up over them, and with them what a float32 step rounds off.
        head_case(draw, "float64", draw.normal(2, 4, d_in + 1, dtype=double), d_out, longest),
        big_numbers(draw),
        head_case(draw, "one token, more sequences than fit", draw.normal(7, 1, d_in), d_out, 5),
        head_case(draw, "not contiguous in memory", draw.normal(b, c, t).mT, d, t + 1),
        head_case(draw, "many tokens", draw.normal(1, 36, 3), 5, 40),
        head_case(draw, "dropout", draw.normal(3, 5, 4), 2, 6, dropout=0.5),
        head_case(
            draw,
            "one token too many",
            draw.normal(3, too_long, 4),
            5,
            too_long - 1,
            refuses=(str(too_long), str(too_long - 1)),
        ),
    ]


def big_numbers(draw: Draw, pad_mask: Tensor | None = None) -> Case:
    """Visible scores far below zero, so that only a fill far below them hides anything.

    All scores of a row lie so far apart that the rounding of a float32 step changes no weight.
    """
    while True:
        x = 300 * draw.normal(2, 5, 3, dtype=torch.float64)
        case = head_case(draw, "big numbers", x, 4, 8, pad_mask=pad_mask)
        weights = case.options["weights"]
        weights["key.weight"] = -weights["query.weight"]
        query = x @ weights["query.weight"].mT
        scores = -query @ query.mT / 2
        if bool((scores.sort(dim=-1).values.diff(dim=-1) > 100).all()):
            return case


# ---------------------------------------------------------------- expectation


def head_oracle(
    case: Case, weights: dict[str, Tensor], x: Tensor, pad_mask: Tensor | None = None
) -> Tensor:
    """PyTorch's own attention on projections by hand."""
    query, key, value = (
        F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        for name in ("query", "key", "value")
    )
    if pad_mask is None:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    T = x.shape[1]
    visible = torch.ones(T, T, dtype=torch.bool).tril() & ~pad_mask[:, None, :]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


def values_of(case: Case, x: Tensor) -> Tensor:
    """The value of each token, from the case's weights: `(B, T, d_in)` to `(B, T, d_out)`."""
    weights = case.options["weights"]
    return F.linear(x, weights["value.weight"], weights.get("value.bias"))


# ---------------------------------------------------------------- evidence


def see_head(make: Callable[[], Any], case: Case, seen: Observation) -> None:
    """More calls: another ending, equal tokens, short and long texts in turn, dropout at work."""
    if case.refuses is not None:
        return  # a refusal of these calls would pass for the one that was asked for
    x, pad_mask = case["x"], case.inputs.get("pad_mask")
    T = x.shape[1]
    half = (T + 1) // 2

    def call(module: Any, x: Tensor) -> Any:
        if pad_mask is None:
            return module(fresh(x))
        return module(fresh(x), fresh(pad_mask[:, : x.shape[1]]))

    changed = x.clone()
    changed[0, half:] += 1.0
    seen.put("changed", call(make(), changed))
    seen.put("equal", make()(fresh(x[:, :1].expand_as(x))))
    one, other = make(), make()
    for name, module, length in [
        ("long first", one, T),
        ("short second", one, half),
        ("short first", other, half),
        ("long second", other, T),
    ]:
        seen.put(name, call(module, x[:, :length]))
    if case.options["kwargs"].get("dropout"):
        seen.facts["traits"]["dropout"] = _dropout_at(make, case)


def _dropout_at(make: Callable[[], Any], case: Case) -> str:
    """Where a head with dropout 0.5 drops, told without comparing draws.

    A single token has the one weight 1, which dropout makes 0 or 2: so the whole result becomes 0
    or twice itself.
    """
    x = fresh(case["x"])
    module = make()
    alone = x[:, :1].repeat(8, 1, 1)  # (8 B, 1, d_in)

    def trained(x: Tensor, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return module.train()(x).detach()

    with torch.no_grad():
        as_it_is = module.eval()(alone)
        dropped = trained(alone, 3)
        doubled, zero, same = (
            (dropped - factor * as_it_is).abs() < 1e-4 for factor in (2.0, 0.0, 1.0)
        )
        whole = doubled.all(-1) | zero.all(-1)
        if bool(whole.all()) and bool(doubled.all(-1).any()) and bool(zero.all(-1).any()):
            return "weights"
        if bool((doubled | zero).all()):
            return "elements"
        if not bool(same.all()):
            return "elsewhere"
        return "nowhere" if torch.equal(trained(x, 3), trained(x, 4)) else "scores"


# ---------------------------------------------------------------- behaviours


def near(a: Tensor, b: Tensor, tolerance: float = 1e-4) -> bool:
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    return bool(((a - b).abs() <= tolerance * b.abs().clamp(min=1.0)).all())


def _mixes(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """More than a constant, the values themselves, or their mean."""
    if case.name not in ("random numbers", "no mask"):
        return None
    values = values_of(case, case["x"])
    mean = values.cumsum(1) / torch.arange(1, values.shape[1] + 1)[:, None]
    out = seen.tensors["out"]
    others = (torch.zeros_like(values), values, mean, seen.tensors["changed"])
    return not any(near(out[:, 1:], other[:, 1:]) for other in others)


def _first_token(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "pad_mask" in case.inputs:
        return None
    return near(seen.tensors["out"][:, :1], values_of(case, case["x"][:, :1]))


def _no_future(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    T = case["x"].shape[1]
    if T == 1:
        return None
    half = (T + 1) // 2
    return near(seen.tensors["changed"][0, :half], seen.tensors["out"][0, :half])


def _own_sequence(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case["x"].shape[0] == 1:
        return None
    return near(seen.tensors["changed"][1:], seen.tensors["out"][1:])


def _sums_to_one(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    x = case["x"]
    return near(seen.tensors["equal"], values_of(case, x[:, :1].expand_as(x)))


def _any_length(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool:
    t = seen.tensors
    return near(t["short second"], t["short first"]) and near(t["long second"], t["long first"])


def _dropout(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "dropout" not in seen.facts.get("traits", {}):
        return None
    return seen.facts["traits"]["dropout"] == "weights"


HEAD_BEHAVIOURS = (
    Behaviour("mixes", "Scores decide which earlier token is heard", _mixes, gate=True),
    Behaviour("first_token", "The first token sees only its own value", _first_token, credit=True),
    Behaviour("no_future", "A later token has no say in an earlier one", _no_future, credit=True),
    Behaviour("own_sequence", "Sequences of a batch don't mix", _own_sequence),
    Behaviour(
        "sums_to_one", "Among equal tokens the result is their value", _sums_to_one, credit=True
    ),
    Behaviour("any_length", "One module takes long and short texts in turn", _any_length),
    Behaviour(
        "dropout",
        "In training, dropout sets whole weights to 0, after the softmax",
        _dropout,
        breaks="In training, dropout with the given probability should set whole weights to 0, "
        "after the softmax",
    ),
    *MODULE_BEHAVIOURS,
)


# ---------------------------------------------------------------- a head to spoil


class Head(nn.Module):
    """A right causal head in small steps; a misconception overrides one of them."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out, self.context_length = d_in, d_out, context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        x = self.checked(x)
        query, key, value = self.project(x)
        scores = self.scores(query, key)
        weights = self.weights(scores, self.hidden(x, pad_mask))
        return self.context(self.dropout(weights), value)

    def checked(self, x):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} tokens, and context_length is {self.context_length}")
        return x

    def project(self, x):
        return self.query(x), self.key(x), self.value(x)

    def scores(self, query, key):
        return query @ key.transpose(-2, -1) / self.scale(query)

    def scale(self, query):
        return math.sqrt(query.shape[-1])

    def hidden(self, x, pad_mask):
        future = self.future(x)
        return future if pad_mask is None else self.with_padding(future, pad_mask)

    def future(self, x, diagonal=1):
        T = x.shape[1]
        return torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal)

    def with_padding(self, future, pad_mask):
        return future | pad_mask[:, None, :]

    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -INF), dim=-1)

    def context(self, weights, value):
        return weights @ value
