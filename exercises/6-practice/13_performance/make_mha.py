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
from whywrong import Case, expect_module, true_of

ALIASES = {"mha": "split", "fast": "split"}
WAYS = {
    "wrapper": ("side by side", "hand"),
    "split": ("split", "hand"),
    "sdpa": ("split", "function"),
    "torch": ("built-in", "module"),
}
STYLES = {"side by side": "heads side by side", "split": "one split projection"}
BY = {"hand": "hand", "function": "the built-in function", "module": "the built-in module"}


@dataclass
class Draws:
    """Draws the cases of all kinds."""

    draw: Draw

    def case(
        self, name, kind, s=None, padding=None, bias=None, dtype=torch.float32, roles="", **options
    ):
        s = s or distinct_sizes(self.draw)
        if kind == "torch":
            s = replace(s, d_in=s.width)
            roles += " small"
        inputs = {"x": self.draw.normal(s.B, s.T, s.d_in, dtype=dtype)}
        if padding is not None:
            inputs["pad_mask"] = padding(self.draw, s.B, s.T)
        made = {"d_in": s.d_in, "d_out": s.width, "num_heads": s.H, "context_length": s.length}
        if bias is not None:
            made |= {"qkv_bias": bias, "dropout": 0.0}
        options |= {
            "args": (kind,),
            "kwargs": made,
            "weights": wrapper_weights(self.draw, s, bool(bias), dtype),
            "dtype": dtype,
            "heads": s.H,
        }
        if "typical" in roles:  # others are made as well
            other = made | {"context_length": 1, "dropout": 0.9}
            options["others"] = [(("wrapper",), other), (("sdpa",), other)]
        return Case(name, inputs, options=options, roles=set(roles.split()))

    def full(self, name, kind, **more):
        s = distinct_sizes(self.draw)
        return self.case(name, kind, replace(s, length=s.T), once=True, roles="way small", **more)

    def dropout(self, kind, heads):
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
        options |= {"args": (kind,), "once": True, "kwargs": sizes | options["kwargs"]}
        roles = {"dropout", "small"}
        return replace(made, name=f"{kind}: dropout", inputs={"x": x}, options=options, roles=roles)


def in_many_places(draw, B, T):
    """Holes, texts of padding alone, and texts that begin with padding and go on with tokens."""
    mask = padding_anywhere(draw, B, T)
    mask[2:, 0], mask[2:, 1] = True, False
    return mask


def cases(seed):
    draws = Draws(Draw(seed))
    case, tall = draws.case, Sizes(5, 4, 6, 3, 2, 7)
    front = "padded blind device way"
    return [
        case("split", "split", roles="typical way"),
        case("torch: padding in front", "torch", padding=blind, roles=front),
        case("sdpa: padding in front", "sdpa", padding=blind, roles=front),
        case("torch: float64, qkv_bias", "torch", bias=True, dtype=torch.float64, once=True),
        case("sdpa: qkv_bias", "sdpa", bias=True, once=True, roles="way"),
        case("wrapper: qkv_bias", "wrapper", padding=blind, bias=True, roles="blind", once=True),
        draws.full("wrapper: as many tokens as fit", "wrapper"),
        draws.full("torch: as many tokens as fit", "torch", bias=False),
        draws.full("mha: as many tokens as fit", "mha"),
        draws.full("fast: padding anywhere", "fast", padding=padding_anywhere),
        case(
            "torch: padding anywhere", "torch", tall, in_many_places, True, roles="blind", once=True
        ),
        case("torch: as many texts as tokens", "torch", replace(tall, B=4), once=True),
        *(draws.dropout(kind, 1 + (kind != "wrapper")) for kind in WAYS),
    ]


probe = KindProbe(gradients=("x",), watch=False, extra=see_attention)
expect = expect_module(wrapper_oracle)


@true_of(
    "Each kind is what its name says",
    credit=True,
    breaks="Each kind should be what its name says",
)
def kind(case, seen, expected):
    if "style" not in seen.traits:
        return None
    (name,) = case.options["args"]
    style, by = WAYS[ALIASES.get(name, name)]
    right = (style in ("built-in", seen.traits["style"]), by == seen.traits["by"])
    if all(right) or (right[0] and style == "side by side"):
        return True
    found = STYLES.get(seen.traits["style"], "nn.MultiheadAttention")
    return f'gives {found}, computed by {BY[seen.traits["by"]]}, for "{name}"'


properties = (kind, *PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_in", "pad_mask": "B T", "scores": None}
