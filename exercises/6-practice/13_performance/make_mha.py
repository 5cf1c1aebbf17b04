"""How an answer to `make_mha` is judged."""

from dataclasses import dataclass, replace

import torch

from exercises.shared.draw import Draw
from exercises.shared.dropout import CONTEXT, D_IN, WIDTH, beside, dropout_case
from exercises.shared.heads import blind, padding_anywhere
from exercises.shared.kinds import PROPERTIES, KindProbe
from exercises.shared.many_heads import (
    Sizes,
    distinct_sizes,
    see_attention,
    wrapper_oracle,
    wrapper_weights,
)
from whywrong import Case, expect_module


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

    def dropout(self, heads):
        """As `dropout_case`, with tokens as wide as what goes out."""
        C = heads * WIDTH
        made = dropout_case(self.draw, heads, (), beside)
        x, options = made["x"], dict(made.options)
        x = torch.cat([x, x.new_zeros(*x.shape[:2], C - D_IN)], -1)
        options["weights"] = {
            n: torch.cat([w, w.new_zeros(len(w), C - D_IN)], 1) if n.startswith("heads") else w
            for n, w in options["weights"].items()
        }
        sizes = {"d_in": C, "d_out": C, "num_heads": heads, "context_length": CONTEXT}
        options |= {"args": ("torch",), "once": True, "kwargs": sizes | options["kwargs"]}
        roles = {"dropout", "small"}
        return replace(made, name="dropout", inputs={"x": x}, options=options, roles=roles)


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
        draws.dropout(2),
    ]


probe = KindProbe(gradients=("x",), watch=False, extra=see_attention)
expect = expect_module(wrapper_oracle)


properties = PROPERTIES

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_in", "pad_mask": "B T", "scores": None}
