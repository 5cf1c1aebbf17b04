"""How an answer to `softmax_mean` is judged."""

from exercises.shared.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from whywrong import FunctionProbe

SOFTMAXES = {"softmax", "_softmax", "exp", "exp_", "exp2", "log_softmax"}

cases = mean_cases
probe = FunctionProbe(gradients=("x",), watch=True, extra=see_changes)
expect = expect_mean
properties = MEAN_PROPERTIES


def notes(cases, observations):
    ops = {op for o in observations for op in o.facts.get("ops", ())}
    if ops & SOFTMAXES:
        return []
    return [
        "You found a way without a softmax. It is right and costs nothing; the next lessons build "
        "on zero scores, a mask and a softmax, so look at that way too."
    ]


# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T C"}
