"""How an answer to `FeedForward` is judged."""

import torch

from course_utils import transformer
from exercises.shared.blocks import each_apart, network_oracle, network_weights
from exercises.shared.classes import class_case, other_tokens
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    true_of,
)


def network_case(draw, name, expansion=None, given="", x=None, dtype=torch.float32, roles=""):
    """`given` says how the constructor gets all its arguments: "by position" or "by name"."""
    if x is None:
        x = draw.normal(*three_sizes(draw, expansion or 4), dtype=dtype)
    C = x.shape[-1]
    arguments = {"d_model": C} | ({"expansion": expansion} if expansion else {})
    if given:
        arguments["dropout"] = 0.0
    weights = network_weights(draw, "", C, (expansion or 4) * C, dtype)
    others = {"d_model": C + 1, "dropout": 0.9}
    by_name = given == "by name"
    return class_case(name, {"x": x}, arguments, weights, roles, by_name=by_name, others=others)


def three_sizes(draw, expansion):
    """B, T and C, of which none is the expansion or the width in the middle."""
    while True:
        B, T, C = draw.sizes(3, 2, 9)
        if len({B, T, C, expansion, expansion * C}) == 5:
            return B, T, C


def cases(seed):
    draw = Draw(seed)
    B, T, C = three_sizes(draw, 4)
    one, narrow = draw.normal(1, 1, 1), draw.normal(3, 5, 4)
    return [
        network_case(draw, "random numbers", roles="typical device"),
        network_case(draw, "made by name, three times as wide", 3, "by name"),
        network_case(draw, "float64, made by position", 2, "by position", dtype=torch.float64),
        network_case(draw, "no wider in the middle", 1, x=narrow, roles="small"),
        network_case(draw, "not contiguous in memory", x=draw.normal(B, C, T).mT),
        network_case(draw, "one token, one channel", 5, x=one, roles="small"),
        dropping(draw),
    ]


def dropping(draw):
    fixed = Draw(1)
    case = network_case(fixed, "dropout", 2, x=fixed.normal(1, 3, 6))
    middle = {
        "drops the hidden layer instead of the result": {"dropout": 0, "> contract": 1},
        "drops the hidden layer, too": {"> contract": 1},
    }
    places = {"dropout": "the result"}
    return with_dropout(draw, transformer.FeedForward, case, places, more=middle)


other_token = other_tokens("x", (0, 0))
more = {
    "typical": {
        "changed": other_token,
        "twice": lambda case: {"x": 2 * case["x"]},
        "nothing": lambda case: {"x": 0 * case["x"]},
    }
}
probe = ModuleProbe(gradients=("x",), more=more, extra=see_dropout)
expect = expect_module(lambda case, weights, x: network_oracle(weights, x))


@true_of("A token's numbers affect its result", gate=True, role="typical")
def depends(case, observed, expected):
    """More than nothing, or than the token itself passed on."""
    changed, out = observed.tensors["changed"][0, 0], observed.tensors["out"][0, 0]
    passed_on = out + other_token(case)["x"][0, 0] - case["x"][0, 0]
    return not near(changed, out) and not near(changed, passed_on)


@true_of("Twice the input is not twice the output", credit=True, role="typical")
def bends(case, observed, expected):
    t = observed.tensors
    return not near(t["twice"] - t["nothing"], 2 * (t["out"] - t["nothing"]))


properties = (depends, each_apart, bends, DROPOUT, *MODULE_PROPERTIES)
