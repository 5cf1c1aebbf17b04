"""How an answer to `CausalSelfAttention` is judged."""

from exercises.shared.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    HEAD_TOLERANCE,
    head_cases,
    head_oracle,
    see_head,
)
from whywrong import ModuleProbe, expect_module

forbidden = BUILT_IN
cases = head_cases
probe = ModuleProbe(gradients=("x",), extra=see_head)
expect = expect_module(head_oracle)
properties = HEAD_PROPERTIES
tolerance = HEAD_TOLERANCE

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_in", "pad_mask": "B T", "scores": None}
