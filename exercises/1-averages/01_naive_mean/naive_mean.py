"""How an answer to `naive_mean` is judged."""

from exercises.shared.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from whywrong import FunctionProbe

cases = mean_cases
probe = FunctionProbe(gradients=("x",), extra=see_changes)
expect = expect_mean
properties = MEAN_PROPERTIES

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T C"}
