"""How an answer to `RMSNorm` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import depends, each_apart
from whywrong import MODULE_PROPERTIES, Case, Draw, ModuleProbe, expect_module, near, true_of
from whywrong.probing import inject

forbidden = ("rms_norm", "_fused_rms_norm", "layer_norm", "native_layer_norm")


def norm_case(draw, name, x=None, roles="", **made):
    """`made` holds what the constructor gets by name; without it, the width by position."""
    x = draw.normal(*draw.sizes(3, 3, 9)) + 0.5 if x is None else x
    C = x.shape[-1]
    options = {
        "args": () if made else (C,),
        "kwargs": {"d_model": C, **made} if made else {},
        "weights": {"scale": 1 + draw.normal(C, dtype=x.dtype) / 3},
        "dtype": x.dtype,
        "eps": made.get("eps", 1e-6),
    }
    if "typical" in roles:  # another one is made beside it, of another width
        options["others"] = [((C + 1, 0.1), {})]
    return Case(name, {"x": x}, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    by_hand = norm_case(draw, "two numbers by hand", torch.tensor([[[3.0, 4.0]]]), roles="small")
    by_hand.options["weights"].update(scale=torch.ones(2))
    new = norm_case(draw, "as it is made, no weights put in")
    new.options["weights"].clear()
    new.options["once"] = True
    return [
        by_hand,
        norm_case(draw, "random numbers", roles="typical device"),
        new,
        norm_case(draw, "made by name", eps=0.3),
        norm_case(draw, "an eps of 0", draw.normal(4, 2, 6) / 1000, eps=0.0),
        norm_case(draw, "small numbers", draw.normal(*draw.sizes(3, 3, 9)) / 1000),
        norm_case(draw, "float64", draw.normal(*draw.sizes(3, 3, 9), dtype=torch.float64)),
        norm_case(draw, "one token", draw.normal(6), roles="small"),
        norm_case(draw, "four dimensions", draw.normal(2, 3, 5, 4), roles="small"),
    ]


def see_norm(make, case, observed):
    """One token changed; with a scale of ones."""
    if "typical" not in case.roles:
        return
    module, changed = make(), case["x"].clone()
    changed[0, 0] = 2 * changed[0, 0].roll(1) + 1
    with torch.no_grad():
        observed.put("changed", module(changed))
        inject(module, {"scale": torch.ones(changed.shape[-1])})
        observed.put("plain", module(case["x"].clone()))


probe = ModuleProbe(gradients=("x",), extra=see_norm)
expect = expect_module(
    lambda case, weights, x: F.rms_norm(x, x.shape[-1:], weights.get("scale"), case.options["eps"])
)


@true_of("With a scale of 1, the squares of a token have a mean of 1", credit=True, role="typical")
def squares(case, observed, expected):
    plain, given = (t.double().square().mean(-1) for t in (observed.tensors["plain"], case["x"]))
    return near(plain, given / (given + case.options["eps"]), 1e-3)  # eps counts where it is small


properties = (depends, each_apart, squares, *MODULE_PROPERTIES)
letters = {"x": "B T d_model"}
