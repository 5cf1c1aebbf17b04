"""How an answer to `PaddedCausalSelfAttention` is judged."""

import torch

from exercises.shared.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    HEAD_TOLERANCE,
    head_cases,
    head_oracle,
    see_head,
)
from whywrong import ModuleProbe, expect_module, fresh, near, set_seed, true_of

forbidden = BUILT_IN


def cases(seed):
    return head_cases(seed, padded=True)


def see_padded(make, case, observed):
    """Besides what every head shows: the mask by name and left out, other content of the padding,
    each text alone."""
    see_head(make, case, observed)
    if "pad_mask" not in case.inputs:
        return
    x, pad_mask = case["x"], case["pad_mask"]

    def made(**how):
        set_seed(1)  # a parameter too many is the same in each
        return make(**how)

    with torch.no_grad():
        other = torch.where(pad_mask[..., None], x + 2.0, x)
        observed.put("other padding", made()(fresh(other), fresh(pad_mask)))
        if "typical" in case.roles:
            see_calls_in_turn(made, x, pad_mask, observed)


def see_calls_in_turn(made, x, pad_mask, observed):
    observed.put("by name", made()(fresh(x), pad_mask=fresh(pad_mask)))
    module = made(as_made=True)
    module(fresh(x), fresh(pad_mask))
    observed.put("mask left out", module(fresh(x)))
    observed.put("no mask", made(as_made=True)(fresh(x)))
    module = made()
    module(fresh(x), fresh(~pad_mask))
    observed.put("after another mask", module(fresh(x), fresh(pad_mask)))
    module = made()
    alone = [module(fresh(s[None, ~pad])) for s, pad in zip(x, pad_mask, strict=True)]
    if all(isinstance(a, torch.Tensor) and a.dim() == 3 for a in alone):
        observed.put("alone", torch.cat([a[0] for a in alone]))


probe = ModuleProbe(gradients=("x",), extra=see_padded)
expect = expect_module(head_oracle)
tolerance = HEAD_TOLERANCE


def sees_nothing(case):
    return (~case["pad_mask"]).cumsum(1) == 0


@true_of("A padded text gives what it gives alone", credit=True, role="typical")
def alone(case, observed, expected):
    return near(observed.tensors["out"][~case["pad_mask"]], observed.tensors["alone"])


@true_of("The content of the padding changes no token", credit=True)
def other_padding(case, observed, expected):
    real = ~case["pad_mask"]
    return near(observed.tensors["out"][real], observed.tensors["other padding"][real])


@true_of("A query that sees nothing gives zeros", credit=True)
def nothing(case, observed, expected):
    rows = sees_nothing(case)
    return bool((observed.tensors["out"][rows] == 0).all()) if bool(rows.any()) else None


@true_of("A padded query gives what it sees among earlier tokens")
def padded_rows(case, observed, expected):
    rows = case["pad_mask"] & ~sees_nothing(case)
    if not bool(rows.any()):
        return None
    return near(observed.tensors["out"][rows], expected["out"][rows])


@true_of(
    "Each call has its own mask, or none",
    role="typical",
    breaks="The mask of an earlier call affects a later one",
)
def each_call(case, observed, expected):
    t = observed.tensors
    return near(t["mask left out"], t["no mask"]) and near(t["after another mask"], t["out"])


@true_of("`forward(x, pad_mask=…)` is the same call", role="typical")
def by_name(case, observed, expected):
    return near(observed.tensors["by name"], observed.tensors["out"])


properties = (alone, other_padding, nothing, padded_rows, each_call, by_name, *HEAD_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_in", "pad_mask": "B T", "scores": None}
