"""How an answer to `make_mha` is judged."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from course_utils import attention
from exercises.shared.dropout import with_dropout
from exercises.shared.heads import blind, padding_anywhere
from exercises.shared.kinds import PROPERTIES, KindProbe
from exercises.shared.many_heads import (
    MORE,
    Sizes,
    distinct_sizes,
    see_attention,
    wrapper_oracle,
    wrapper_weights,
)
from whywrong import Case, Draw, expect_module, true_of


@dataclass
class Draws:
    """Draws the cases, all of the kind "torch"."""

    draw: Draw

    def case(self, name, s=None, padding=None, bias=None, dtype=torch.float32, roles="", **options):
        s = s or distinct_sizes(self.draw)
        s = replace(s, d_in=s.width)
        inputs = {"x": self.draw.normal(s.B, s.T, s.d_in, dtype=dtype)}
        if padding is not None:
            inputs["pad_mask"] = padding(self.draw, s.B, s.T)
        made = {"d_in": s.d_in, "d_out": s.width, "num_heads": s.H, "context_length": s.length}
        if bias is not None:
            made |= {"qkv_bias": bias, "dropout": 0.0}
        options |= {
            "args": ("torch",),
            "kwargs": made,
            "weights": wrapper_weights(self.draw, s, bool(bias), dtype),
            "dtype": dtype,
            "heads": s.H,
        }
        if "typical" in roles:  # others are made as well
            other = made | {"context_length": 1, "dropout": 0.9}
            options["others"] = [(("torch",), other)]
        return Case(
            name,
            inputs,
            options=options,
            roles={*roles.split()} | ({"small"} if roles != "typical" else set()),
        )

    def dropout(self):
        case = Draws(Draw(1)).case("dropout", Sizes(1, 4, 6, 3, 2, 6))
        return with_dropout(self.draw, as_asked, case, {})


def as_asked(kind, d_in, d_out, num_heads, context_length, dropout):
    sizes = d_in, d_out // num_heads, context_length, num_heads
    return attention.MultiHeadAttentionWrapper(*sizes, dropout)


def in_many_places(draw, B, T):
    """Holes, texts of padding alone, and texts that begin with padding and go on with tokens."""
    mask = padding_anywhere(draw, B, T)
    mask[2:, 0], mask[2:, 1] = True, False
    return mask


def cases(seed):
    draws = Draws(Draw(seed))
    case, tall = draws.case, Sizes(5, 4, 6, 3, 2, 7)
    full = distinct_sizes(draws.draw)
    double = torch.float64
    return [
        case("no padding", roles="typical"),
        case("padding in front", padding=blind, roles="padded blind device"),
        case("float64, qkv_bias", bias=True, dtype=double, once=True),
        case("as many tokens as fit", replace(full, length=full.T), bias=False, once=True),
        case("padding anywhere", tall, in_many_places, True, roles="blind", once=True),
        case("as many texts as tokens", replace(tall, B=4), once=True),
        draws.dropout(),
    ]


def see_module(build, case, observed):
    """Whether PyTorch's module is in it, and what `see_attention` shows."""
    parts = build().modules()
    observed.traits["built_in"] = any(isinstance(part, nn.MultiheadAttention) for part in parts)
    see_attention(build, case, observed)


probe = KindProbe(gradients=("x",), watch=False, more=MORE, extra=see_module)
expect = expect_module(wrapper_oracle)


@true_of(
    "`nn.MultiheadAttention` does the work",
    method=True,
    breaks="The work is done by another module: `nn.MultiheadAttention` was asked for",
)
def built_in(case, observed, expected):
    return observed.traits.get("built_in")


properties = (*PROPERTIES, built_in)
