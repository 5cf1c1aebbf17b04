"""How an answer to `SwiGLU` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import depends, each_apart
from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    set_seed,
    true_of,
)


def network_case(draw, name, sizes=None, roles="", by_name=False, dtype=torch.float32, **options):
    B, T, C, wide = sizes or draw.sizes(4, 3, 11)

    def weight(rows, columns):
        return draw.normal(rows, columns, dtype=dtype) / columns**0.5

    weights = {"gate": weight(wide, C), "expand": weight(wide, C), "contract": weight(C, wide)}
    options |= {
        "args": () if by_name else (C, wide),
        "kwargs": {"d_model": C, "d_ff": wide} if by_name else {},
        "weights": {f"{layer}.weight": value for layer, value in weights.items()},
        "dtype": dtype,
    }
    if "typical" in roles:
        options["others"] = [((C + 1, wide + 1), {})]
    x = 2 * draw.normal(B, T, C, dtype=dtype)
    return Case(name, {"x": x}, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    return [
        network_case(draw, "random numbers", roles="typical device"),
        network_case(draw, "float64, made by name", dtype=torch.float64, by_name=True),
        network_case(draw, "one token", (3, 1, 5, 7), roles="small", once=True),
        network_case(draw, "narrower in the middle", (3, 5, 11, 7), once=True),
        network_case(draw, "one channel in the middle", (2, 3, 5, 1), roles="small", once=True),
    ]


def oracle(case, weights, x):
    gate, wide = F.linear(x, weights["gate.weight"]), F.linear(x, weights["expand.weight"])
    return F.linear(gate / (1 + (-gate).exp()) * wide, weights["contract.weight"])


def see_network(make, case, observed):
    """One token changed; all tokens negated, which a product of two linear layers doesn't see."""
    if "typical" not in case.roles:
        return
    set_seed(1)  # a parameter that nobody asked for has the same numbers again
    module, changed = make(), case["x"].clone()
    changed[0, 0] = 2 * changed[0, 0].roll(1) + 1
    with torch.no_grad():
        observed.put("changed", module(changed))
        observed.put("negated", module(-case["x"]))


probe = ModuleProbe(gradients=("x",), extra=see_network)
expect = expect_module(oracle)


@true_of("The gate is not linear", credit=True, role="typical")
def gated(case, observed, expected):
    out, negated = observed.tensors["out"], observed.tensors["negated"]
    return not near(out, negated) and not near(out, -negated)


properties = (depends, each_apart, gated, *MODULE_PROPERTIES)
letters = {"x": "B T d_model"}
