"""How an answer to `MultiHeadAttentionWrapper` is judged."""

from exercises.shared.heads import BUILT_IN
from exercises.shared.many_heads import (
    ATTENTION_PROPERTIES,
    MORE,
    SIDE_BY_SIDE,
    attention_cases,
    see_attention,
    wrapper_oracle,
)
from whywrong import ModuleProbe, expect_module


def cases(seed):
    return attention_cases(seed, SIDE_BY_SIDE)


probe = ModuleProbe(gradients=("x",), more=MORE, extra=see_attention)
expect = expect_module(wrapper_oracle)
properties = ATTENTION_PROPERTIES
forbidden = BUILT_IN
