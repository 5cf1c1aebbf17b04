"""A whole small language model: the right answer in steps, cases, oracle, evidence, properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import transformer
from ...checking import Case, Observation, Property
from ...checking.calling import fresh, set_seed
from ...checking.comparing import near
from ...checking.exercise import Expected, Verdict
from .blocks import Block, Norm
from .draw import Draw
from .heads import linear_weights, projections
from .steps import Refusing

# ---------------------------------------------------------------- the right answer in steps


class Embedded(Refusing, nn.Module):
    """A row for what a token is, and one for where it stands."""

    def __init__(self, vocab_size, context_length, d_model):
        super().__init__()
        self.context_length, self.d_model = context_length, d_model
        self.make_tables(vocab_size, context_length, d_model)

    def make_tables(self, vocab_size, context_length, d_model):
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context_length, d_model)

    def forward(self, ids):
        ids = self.accepted(ids)
        return self.joined(self.words(ids), self.rows(ids))

    def accepted(self, ids):
        if self.too_many(ids.shape[1], self.context_length):
            self.complain(ids.shape[1], self.context_length)
        return ids

    def words(self, ids):
        return self.token(ids)

    def rows(self, ids):
        return self.position(self.places(ids))

    def places(self, ids):
        return self.first_place + torch.arange(ids.shape[1], device=ids.device)

    first_place = 0

    def joined(self, words, rows):
        return words + rows


class Tables(Embedded):
    """As part of a model, which has refused what is too long."""

    def accepted(self, ids):
        return ids


class Model(Refusing, nn.Module):
    """A small language model out of the course's finished parts."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = self.embedding(vocab_size, context_length, d_model)
        self.blocks = self.listed(
            [
                self.block(d_model, num_heads, context_length, dropout)
                for _ in range(self.layers(num_layers))
            ]
        )
        self.norm = self.last_norm(d_model)
        self.head = self.last_layer(d_model, vocab_size)

    def embedding(self, vocab_size, context_length, d_model):
        return transformer.TokenAndPosition(vocab_size, context_length, d_model)

    def block(self, d_model, num_heads, context_length, dropout):
        return self.blocking()(d_model, num_heads, context_length, self.rate(dropout))

    def blocking(self) -> Any:
        return transformer.TransformerBlock

    def rate(self, dropout):
        return dropout

    def layers(self, num_layers):
        return num_layers

    def listed(self, blocks):
        return nn.ModuleList(blocks)

    def last_norm(self, d_model):
        return transformer.LayerNorm(d_model)

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        return self.result(self.read(self.through(self.embedded(self.accepted(ids)))))

    def accepted(self, ids):
        if self.too_many(ids.shape[1], self.context_length):
            self.complain(ids.shape[1], self.context_length)
        return ids

    def embedded(self, ids):
        return self.embed(ids)

    def through(self, x):
        for block in self.blocks:
            x = self.passed(block, x)
        return x

    def passed(self, block, x):
        return block(x)

    def read(self, x):
        return self.head(self.norm(x))

    def result(self, logits):
        return logits


class WholeModel(Model):
    """The same from nothing but linear layers and tables."""

    def embedding(self, vocab_size, context_length, d_model):
        return self.looking_up()(vocab_size, context_length, d_model)

    def last_norm(self, d_model):
        return self.norming()(d_model)

    def blocking(self):
        norm = self.norming()
        return type("Block", (Block,), {"norming": lambda block: norm})

    def looking_up(self) -> Any:
        return Tables

    def norming(self) -> Any:
        return Norm


# ---------------------------------------------------------------- weights and the right result


def model_weights(
    draw: Draw, V: int, C: int, context: int, L: int, dtype: torch.dtype
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
            | {f"attention.{n}": w for n, w in projections(draw, C, C, False, dtype).items()}
            | linear_weights(draw, "attention.out_proj", C, C, True, dtype)
            | norm("norm2")
            | linear_weights(draw, "feed_forward.expand", C, 4 * C, True, dtype)
            | linear_weights(draw, "feed_forward.contract", 4 * C, C, True, dtype)
        )
        weights |= {f"blocks.{layer}.{name}": w for name, w in block.items()}
    return weights | norm("norm") | linear_weights(draw, "head", C, V, False, dtype)


def model_oracle(case: Case, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """PyTorch's own operators, one after the other."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.shift"])

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    H, L = case.options["heads"], case.options["layers"]
    x = F.embedding(ids, weights["embed.token.weight"])
    x = x + weights["embed.position.weight"][: ids.shape[1]]
    for block in (f"blocks.{layer}" for layer in range(L)):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{n}", normed).unflatten(-1, (H, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
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
    by_name: bool = False,
    refuses: tuple[str, ...] | None = None,
    dtype: torch.dtype = torch.float32,
    more: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Random ids for a model with random weights.

    Args:
        sizes: B, T, V, H, D, context_length, L; else drawn, all different.
        by_name: whether the constructor gets its arguments so.
        more: arguments of the constructor besides, by name.
    """
    B, T, V, H, D, context, L = sizes or seven_sizes(draw)
    ids = torch.randint(V, (B, T), generator=draw.generator)
    named = {
        "vocab_size": V,
        "d_model": H * D,
        "num_heads": H,
        "context_length": context,
        "num_layers": L,
    }
    more = dict(more or {})
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named | more if by_name else more,
        "names": tuple(named),
        "heads": H,
        "layers": L,
        "dtype": dtype,
    }
    if refuses is None:
        options["weights"] = model_weights(draw, V, H * D, context, L, dtype)
    return Case(name, {"ids": ids}, refuses, options, frozenset(roles.split()))


def too_long_case(draw: Draw, name: str, T: int, limit: int, train: bool = False) -> Case:
    refuses = (str(T), str(limit))
    return model_case(draw, name, (5, T, 11, 2, 4, limit, 3), refuses=refuses, train=train)


def seven_sizes(draw: Draw, layers: int = 3) -> tuple[int, ...]:
    """B, T, V, H, D, context_length and L, all different, and so are the widths H D and 4 H D; at
    most so many layers.

    A norm over few channels magnifies rounding where these happen to be nearly equal.
    """
    while True:
        B, T, V, H, D, L = draw.sizes(6, 2, 10)
        context = T + draw.integer(1, 5)
        every = {B, T, V, H, D, L, context, H * D, 4 * H * D}
        if len(every) == 9 and T >= 4 and 10 <= H * D <= 18 and L <= layers and V >= 4:
            return B, T, V, H, D, context, L


# ---------------------------------------------------------------- evidence


def see_texts(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More texts: a short one, another last token, another first, one token everywhere, the same
    again."""
    ids, V = fresh(case["ids"]), len(case.options["weights"]["head.weight"])
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % V
    first = ids.clone()
    first[:, 0] = (first[:, 0] + 1) % V
    set_seed(1)  # as the first one: a parameter too many is the same in both
    model = make()
    with torch.no_grad():
        seen.put("short", model(ids[:1, :2]))
        for name, other in (("changed", changed), ("first", first)):
            seen.put(name, model(other))
        seen.put("same", model(ids[:, :1].expand_as(ids)))
        seen.put("long again", model(ids))


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    long, changed = seen.tensors["long again"], seen.tensors["changed"]
    return near(long[:, :-1], changed[:, :-1]) if long.shape == changed.shape else None


def _knows_places(case: Case, seen: Observation, expected: Expected) -> Verdict:
    same = seen.tensors["same"]
    return not near(same[:, 1:], same[:, :-1])


def _any_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out = seen.tensors["out"]
    return near(seen.tensors["short"], out[:1, :2]) and near(seen.tensors["long again"], out)


TEXT_PROPERTIES = (
    Property("listens", "A token hears the tokens before it", _listens, gate=True, role="typical"),
    Property(
        "no_future",
        "A later token has no say in an earlier one",
        _no_future,
        credit=True,
        role="typical",
    ),
    Property(
        "places",
        "Where a token stands makes a difference",
        _knows_places,
        credit=True,
        role="typical",
    ),
    Property(
        "any_length",
        "Short texts come out as their longer ones begin, whatever came before",
        _any_length,
        credit=True,
        role="typical",
    ),
)
