"""How an answer to `MultiHeadAttention` is judged."""

import contextlib

import torch

from exercises.shared.heads import BUILT_IN
from exercises.shared.many_heads import (
    ATTENTION_PROPERTIES,
    MORE,
    SPLIT,
    attention_cases,
    see_attention,
    split_oracle,
)
from whywrong import ModuleProbe, expect_module, true_of
from whywrong.probing import Operators

# With four more heads, a loop runs at least four of these more.
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "dot"}


def cases(seed):
    return attention_cases(seed, SPLIT)


def count_products(answer, num_heads):
    """How many matrix products run for 6 tokens of width 12, split among so many heads."""
    module, operators = answer(12, 12, 6, num_heads), Operators()
    with operators.watch(), torch.no_grad():
        module(torch.ones(2, 6, 12))
    return sum(name in PRODUCTS for name in operators.executed)


def see_loops(make, case, observed):
    see_attention(make, case, observed)
    if "typical" in case.roles:
        with contextlib.suppress(Exception):  # what is wrong with it shows elsewhere
            few, many = (count_products(make.args[0], H) for H in (2, 6))
            observed.facts["traits"]["loop over heads"] = many - few >= 4


probe = ModuleProbe(gradients=("x",), more=MORE, extra=see_loops)
expect = expect_module(split_oracle)


@true_of(
    "All heads are computed at once",
    method=True,
    breaks="The exercise asks for all heads in one product: your number of products grows with "
    "the heads",
)
def at_once(case, observed, expected):
    return not observed.traits["loop over heads"] if "loop over heads" in observed.traits else None


properties = (*ATTENTION_PROPERTIES, at_once)
forbidden = BUILT_IN
