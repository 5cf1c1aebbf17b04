"""How an answer to `SwiGLU` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import depends, each_apart
from exercises.shared.classes import class_case, other_tokens
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    true_of,
)


def network_case(draw, name, sizes=None, roles="", by_name=False, dtype=torch.float32, **options):
    *before, C, wide = sizes or draw.sizes(4, 3, 11)

    def weight(rows, columns):
        return draw.normal(rows, columns, dtype=dtype) / columns**0.5

    weights = {"gate": weight(wide, C), "expand": weight(wide, C), "contract": weight(C, wide)}
    weights = {f"{layer}.weight": value for layer, value in weights.items()}
    arguments, others = {"d_model": C, "d_ff": wide}, {"d_model": C + 1, "d_ff": wide + 1}
    x = 2 * draw.normal(*before, C, dtype=dtype)
    return class_case(
        name, {"x": x}, arguments, weights, roles, by_name=by_name, others=others, **options
    )


def cases(seed):
    draw = Draw(seed)
    return [
        network_case(draw, "random numbers", roles="typical device"),
        network_case(draw, "float64, made by name", dtype=torch.float64, by_name=True),
        network_case(draw, "one token", (3, 1, 5, 7), roles="small", once=True),
        network_case(
            draw, "one text, narrower in the middle", (5, 11, 7), roles="stability", once=True
        ),
        network_case(draw, "one channel in the middle", (2, 3, 5, 1), roles="small", once=True),
    ]


def oracle(case, weights, x):
    gate, wide = F.linear(x, weights["gate.weight"]), F.linear(x, weights["expand.weight"])
    return F.linear(gate / (1 + (-gate).exp()) * wide, weights["contract.weight"])


more = {
    "typical": {
        "changed": other_tokens("x", (0, 0)),
        "negated": lambda case: {"x": -case["x"]},  # not seen by a product of two linear layers
    }
}
probe = ModuleProbe(gradients=("x",), more=more)
expect = expect_module(oracle)


@true_of("The gate is not linear", credit=True, role="typical")
def gated(case, observed, expected):
    out, negated = observed.tensors["out"], observed.tensors["negated"]
    return not near(out, negated) and not near(out, -negated)


def three_biases(trials):
    """Their initial numbers depend on the order in which the layers are made."""
    besides = {name for t in trials for name, _ in t.observed.facts.get("besides", ())}
    return besides == {"gate.bias", "expand.bias", "contract.bias"}


letters = {"x": "… d_model"}
properties = (depends, each_apart, gated, *MODULE_PROPERTIES)
signs = {"with_biases": three_biases}
