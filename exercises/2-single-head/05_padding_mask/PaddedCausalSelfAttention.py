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


def see_padded(make, case, seen):
    """Besides what every head shows: the mask by name and left out, other content of the padding,
    each text alone."""
    see_head(make, case, seen)
    if "pad_mask" not in case.inputs:
        return
    x, pad_mask = case["x"], case["pad_mask"]

    def made(**how):
        set_seed(1)  # a parameter too many is the same in each
        return make(**how)

    with torch.no_grad():
        other = torch.where(pad_mask[..., None], x + 2.0, x)
        seen.put("other padding", made()(fresh(other), fresh(pad_mask)))
        if "typical" in case.roles:
            see_calls_in_turn(made, x, pad_mask, seen)


def see_calls_in_turn(made, x, pad_mask, seen):
    seen.put("by name", made()(fresh(x), pad_mask=fresh(pad_mask)))
    module = made(as_made=True)
    module(fresh(x), fresh(pad_mask))
    seen.put("mask left out", module(fresh(x)))
    seen.put("no mask", made(as_made=True)(fresh(x)))
    module = made()
    module(fresh(x), fresh(~pad_mask))
    seen.put("after another mask", module(fresh(x), fresh(pad_mask)))
    module = made()
    alone = [module(fresh(s[None, ~pad])) for s, pad in zip(x, pad_mask, strict=True)]
    if all(isinstance(a, torch.Tensor) and a.dim() == 3 for a in alone):
        seen.put("alone", torch.cat([a[0] for a in alone]))


probe = ModuleProbe(gradients=("x",), extra=see_padded)
expect = expect_module(head_oracle)
tolerance = HEAD_TOLERANCE


def sees_nothing(case):
    return (~case["pad_mask"]).cumsum(1) == 0


@true_of("A padded text gives what it gives alone", credit=True, role="typical")
def alone(case, seen, expected):
    return near(seen.tensors["out"][~case["pad_mask"]], seen.tensors["alone"])


@true_of("The content of the padding changes no token", credit=True)
def other_padding(case, seen, expected):
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["other padding"][real])


@true_of("A query that sees nothing gives zeros", credit=True)
def nothing(case, seen, expected):
    rows = sees_nothing(case)
    return bool((seen.tensors["out"][rows] == 0).all()) if bool(rows.any()) else None


@true_of("A padded query gives what it sees among earlier tokens")
def padded_rows(case, seen, expected):
    rows = case["pad_mask"] & ~sees_nothing(case)
    if not bool(rows.any()):
        return None
    return near(seen.tensors["out"][rows], expected["out"][rows])


@true_of(
    "Each call has its own mask, or none",
    role="typical",
    breaks="The mask of an earlier call affects a later one",
)
def each_call(case, seen, expected):
    t = seen.tensors
    return near(t["mask left out"], t["no mask"]) and near(t["after another mask"], t["out"])


@true_of("`forward(x, pad_mask=…)` is the same call", role="typical")
def by_name(case, seen, expected):
    return near(seen.tensors["by name"], seen.tensors["out"])


properties = (alone, other_padding, nothing, padded_rows, each_call, by_name, *HEAD_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_in", "pad_mask": "B T", "scores": None}
