"""How an answer to `CausalSelfAttention` is judged."""

from exercises.shared.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    HEAD_TOLERANCE,
    MORE,
    head_cases,
    head_oracle,
    see_head,
)
from whywrong import ModuleProbe, expect_module

forbidden = BUILT_IN
cases = head_cases
probe = ModuleProbe(gradients=("x",), more=MORE, extra=see_head)
expect = expect_module(head_oracle)
properties = HEAD_PROPERTIES
tolerance = HEAD_TOLERANCE
