"""How an answer to `softmax_mean` is judged."""

from exercises.shared.heads import BUILT_IN
from exercises.shared.means import MEAN_PROPERTIES, expect_mean, mean_cases, see_changes
from whywrong import FunctionProbe, true_of

SOFTMAXES = {"softmax", "_softmax", "exp", "exp_", "exp2", "pow", "log_softmax", *BUILT_IN}

cases = mean_cases
probe = FunctionProbe(gradients=("x",), watch=True, extra=see_changes)
expect = expect_mean


@true_of(
    "The weights come from a softmax",
    method=True,
    breaks="The exercise asks for weights from a masked softmax, and yours don't come from one",
)
def by_softmax(case, observed, expected):
    return bool(SOFTMAXES & set(observed.facts["ops"])) if "ops" in observed.facts else None


properties = (*MEAN_PROPERTIES, by_softmax)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T C"}
