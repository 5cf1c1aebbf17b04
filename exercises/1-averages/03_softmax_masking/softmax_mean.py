"""How an answer to `softmax_mean` is judged."""

from exercises.shared.heads import BUILT_IN
from exercises.shared.means import FURTHER, MEAN_PROPERTIES, expect_mean, mean_cases
from whywrong import FunctionProbe, true_of

SOFTMAXES = {"softmax", "_softmax", "exp", "exp_", "exp2", "pow", "log_softmax", *BUILT_IN}

cases = mean_cases
probe = FunctionProbe(gradients=("x",), watch=True, more=FURTHER)
expect = expect_mean


@true_of(
    "The weights come from a softmax",
    method=True,
    breaks="The exercise asks for weights from a masked softmax, and yours don't come from one",
)
def by_softmax(case, observed, expected):
    return bool(SOFTMAXES & set(observed.facts["ops"])) if "ops" in observed.facts else None


properties = (*MEAN_PROPERTIES, by_softmax)
