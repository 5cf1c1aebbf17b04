"""How an answer to `LayerNorm` is judged."""

import torch

from exercises.shared.blocks import depends, each_apart, norm_oracle, norm_weights
from exercises.shared.classes import class_case, nothing_kept, other_tokens, see_turns
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    true_of,
)

forbidden = (
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "native_group_norm",
    "instance_norm",
    "batch_norm",
    "native_batch_norm",
    "rms_norm",
    "_fused_rms_norm",
)


def norm_case(draw, name, x=None, roles="", **made):
    """`made` holds what the constructor gets by name; without it, the width by position."""
    x = apart(draw.normal(*draw.sizes(3, 3, 9))) if x is None else x
    C = x.shape[-1]
    arguments, weights = {"d_model": C, **made}, norm_weights(draw, "", C, x.dtype)
    others = {"d_model": C + 1, "eps": 0.1}
    eps = made.get("eps", 1e-5)
    return class_case(
        name, {"x": x}, arguments, weights, roles, by_name=bool(made), others=others, eps=eps
    )


def apart(x):
    """Every second channel is raised: where all are nearly alike by chance, a norm magnifies the
    last digit, and right answers differ."""
    return x + 8 * (torch.arange(x.shape[-1]) % 2).to(x)


def ones_and_zeros(C):
    return {"scale": torch.ones(C), "shift": torch.zeros(C)}


def far_from_zero(draw):
    """The rounding of their squares is as large as their variance; that of the numbers isn't."""
    x = 10_000 + apart(draw.normal(2, 5, 8))
    case = norm_case(draw, "numbers near 10,000", x, roles="stability")
    case.options.update(once=True, tolerance={torch.float32: 1e-2})
    return case


def cases(seed):
    draw = Draw(seed)
    by_hand = norm_case(
        draw, "three numbers by hand", torch.tensor([[[1.0, 2.0, 6.0]]]), roles="small"
    )
    by_hand.options["weights"].update(ones_and_zeros(3))
    new = norm_case(draw, "as it is made, no weights put in")
    new.options["weights"].clear()
    new.options["once"] = True
    B, T, C = draw.sizes(3, 3, 9)
    equal = draw.normal(B, T, C, dtype=torch.float64)
    equal[:, ::2] = 1 / 3
    far = 40 + 3 * draw.normal(*draw.sizes(3, 3, 9), dtype=torch.float64)
    flat = apart(draw.normal(*draw.sizes(3, 3, 9)))
    flat[0] *= 0.001
    by_position = norm_case(draw, "made by position, with eps", eps=0.5)
    by_position.options.update(args=(by_position["x"].shape[-1], 0.5), kwargs={})
    return [
        by_hand,
        norm_case(draw, "random numbers", roles="typical device"),
        new,
        norm_case(draw, "made by name", eps=0.3),
        by_position,
        norm_case(draw, "tokens of almost no variance", flat),
        norm_case(draw, "float64, tokens whose channels are all equal", equal),
        norm_case(draw, "float64, numbers far from 0", far),
        far_from_zero(draw),
        norm_case(draw, "an eps of 0", 0.001 * apart(draw.normal(4, 2, 6)), eps=0.0),
        norm_case(draw, "not contiguous in memory", apart(draw.normal(B, C, T).mT)),
        norm_case(draw, "one text", draw.normal(5, 7), roles="small"),
        norm_case(draw, "one token", draw.normal(6), roles="small"),
        norm_case(draw, "four dimensions", apart(draw.normal(2, 3, 5, 4)), roles="small"),
    ]


more = {
    "typical": {
        "changed": other_tokens("x", (0, 0)),
        "plain": lambda case: {"weights": ones_and_zeros(case["x"].shape[-1])},
    }
}
probe = ModuleProbe(gradients=("x",), more=more, extra=see_turns)
expect = expect_module(lambda case, weights, x: norm_oracle(weights, x, case.options["eps"]))


@true_of("With a scale of 1 and a shift of 0, each token has mean 0", credit=True, role="typical")
def mean_zero(case, observed, expected):
    plain = observed.tensors["plain"].mean(-1)
    return near(plain, torch.zeros_like(plain))


@true_of(
    "With a scale of 1 and a shift of 0, each token has variance 1", credit=True, role="typical"
)
def variance_one(case, observed, expected):
    plain, given = (
        t.double().var(-1, correction=0) for t in (observed.tensors["plain"], case["x"])
    )
    return near(plain, given / (given + case.options["eps"]), 1e-3)  # eps counts where it is small


def differs_far_from_zero(trials):
    off = [t.case for t in trials if not near(t.observed.tensors["out"], t.expected["out"], 1e-2)]
    return bool(off) and all("stability" in case.roles for case in off)


signs = {"variance_by_difference": differs_far_from_zero}  # rounding depends on the last step
properties = (depends, each_apart, mean_zero, variance_one, nothing_kept, *MODULE_PROPERTIES)
