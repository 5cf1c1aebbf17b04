"""How an answer to `FeedForward` is judged."""

import torch

from course_utils import transformer
from exercises.shared.blocks import each_apart, network_oracle, network_weights
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    ModuleProbe,
    expect_module,
    fresh,
    near,
    set_seed,
    true_of,
)


def network_case(draw, name, expansion=None, given="", x=None, dtype=torch.float32, roles=""):
    """`given` says how the constructor gets all its arguments: "by position" or "by name"."""
    if x is None:
        x = draw.normal(*three_sizes(draw, expansion or 4), dtype=dtype)
    C = x.shape[-1]
    named = {"d_model": C} | ({"expansion": expansion} if expansion else {})
    if given:
        named["dropout"] = 0.0
    by_name = given == "by name"
    options = {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": network_weights(draw, "", C, (expansion or 4) * C, dtype),
        "dtype": dtype,
    }
    if "typical" in roles:
        options["others"] = [((C + 1, 2), {"dropout": 0.9})]
    return Case(name, {"x": x}, options=options, roles=set(roles.split()))


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


def see_network(make, case, observed):
    """One token changed; all tokens twice as big, and all of zeros."""
    see_dropout(make, case, observed)
    if "typical" not in case.roles:
        return
    set_seed(1)  # a parameter too many is the same as before
    module, x = make(), case["x"]
    changed = x.clone()
    changed[0, 0] = another(x[0, 0])
    with torch.no_grad():
        for name, tokens in (("changed", changed), ("twice", 2 * x), ("nothing", 0 * x)):
            observed.put(name, module(fresh(tokens)))


def another(token):
    return 2 * token.roll(1) + 1  # another one to a norm, too


probe = ModuleProbe(gradients=("x",), extra=see_network)
expect = expect_module(lambda case, weights, x: network_oracle(weights, x))


@true_of("A token's numbers affect its result", gate=True, role="typical")
def depends(case, observed, expected):
    """More than nothing, or than the token itself passed on."""
    changed, out = observed.tensors["changed"][0, 0], observed.tensors["out"][0, 0]
    token = case["x"][0, 0]
    return not near(changed, out) and not near(changed, out + another(token) - token)


@true_of("Twice the input is not twice the output", credit=True, role="typical")
def bends(case, observed, expected):
    t = observed.tensors
    return not near(t["twice"] - t["nothing"], 2 * (t["out"] - t["nothing"]))


properties = (depends, each_apart, bends, DROPOUT, *MODULE_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_model", "pad_mask": "B T"}
