"""How an answer to `RMSNorm` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import depends, each_apart
from exercises.shared.classes import class_case, other_tokens
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, expect_module, near, true_of

forbidden = ("rms_norm", "_fused_rms_norm", "layer_norm", "native_layer_norm")


def norm_case(draw, name, x=None, roles="", **made):
    """`made` holds what the constructor gets by name; without it, the width by position."""
    x = draw.normal(*draw.sizes(3, 3, 9)) + 0.5 if x is None else x
    C = x.shape[-1]
    arguments, weights = {"d_model": C, **made}, {"scale": 1 + draw.normal(C, dtype=x.dtype) / 3}
    others = {"d_model": C + 1, "eps": 0.1}
    eps = made.get("eps", 1e-6)
    return class_case(
        name, {"x": x}, arguments, weights, roles, by_name=bool(made), others=others, eps=eps
    )


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


more = {
    "typical": {
        "changed": other_tokens("x", (0, 0)),
        "plain": lambda case: {"weights": {"scale": torch.ones(case["x"].shape[-1])}},
    }
}
probe = ModuleProbe(gradients=("x",), more=more)
expect = expect_module(
    lambda case, weights, x: F.rms_norm(x, x.shape[-1:], weights.get("scale"), case.options["eps"])
)


@true_of("With a scale of 1, the squares of a token have a mean of 1", credit=True, role="typical")
def squares(case, observed, expected):
    plain, given = (t.double().square().mean(-1) for t in (observed.tensors["plain"], case["x"]))
    return near(plain, given / (given + case.options["eps"]), 1e-3)  # eps counts where it is small


properties = (depends, each_apart, squares, *MODULE_PROPERTIES)
