"""How an answer to `PaddedCausalSelfAttention` is judged."""

import torch

from exercises.shared.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    HEAD_TOLERANCE,
    MORE,
    head_cases,
    head_oracle,
    see_head,
)
from whywrong import ModuleProbe, expect_module, fresh, near, set_seed, true_of

forbidden = BUILT_IN


def cases(seed):
    return head_cases(seed, padded=True)


def see_padded(make, case, observed):
    """Besides what every head shows: each text alone."""
    see_head(make, case, observed)
    if "typical" in case.roles:
        set_seed(1)  # a parameter too many is the same as before
        module, pairs = make(), zip(case["x"], case["pad_mask"], strict=True)
        with torch.no_grad():
            alone = [module(fresh(text[None, ~padding])) for text, padding in pairs]
        if all(isinstance(a, torch.Tensor) and a.dim() == 3 for a in alone):
            observed.put("alone", torch.cat([a[0] for a in alone]))


probe = ModuleProbe(gradients=("x",), more=MORE, extra=see_padded)
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


@true_of("A query that attends to nothing gives zeros", credit=True)
def nothing(case, observed, expected):
    rows = sees_nothing(case)
    return bool((observed.tensors["out"][rows] == 0).all()) if bool(rows.any()) else None


@true_of("A padded query gives what it sees among earlier tokens")
def padded_rows(case, observed, expected):
    rows = case["pad_mask"] & ~sees_nothing(case)
    if not bool(rows.any()):
        return None
    return near(observed.tensors["out"][rows], expected["out"][rows])


properties = (alone, other_padding, nothing, padded_rows, *HEAD_PROPERTIES)
