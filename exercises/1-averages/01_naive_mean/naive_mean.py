"""How an answer to `naive_mean` is judged."""

from exercises.shared.means import FURTHER, MEAN_PROPERTIES, expect_mean, mean_cases
from whywrong import FunctionProbe

cases = mean_cases
probe = FunctionProbe(gradients=("x",), more=FURTHER)
expect = expect_mean
properties = MEAN_PROPERTIES
