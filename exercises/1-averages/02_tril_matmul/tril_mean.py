"""How an answer to `tril_mean` is judged."""

import contextlib

from exercises.shared.means import FURTHER, MEAN_PROPERTIES, expect_mean, mean_cases
from whywrong import Case, Draw, FunctionProbe, Observation, fresh, true_of
from whywrong.probing import Operators, differentiate

# A loop over many more tokens or sequences runs at least as many operators more; a product that
# PyTorch computes differently for other sizes, one or two.
SLACK = 6
PRODUCTS = {"mm", "bmm", "matmul", "einsum", "baddbmm", "addmm", "addbmm", "mv", "linear"}


def cases(seed):
    *others, last = mean_cases(seed)
    draw = Draw(seed)
    # Small and large in each of B and T, so that no loop hides behind a size.
    B, T, C = draw.integer(2, 4), draw.integer(3, 6), draw.integer(2, 9)
    more = draw.integer(30, 40)
    shapes = (B, T, C), (B, T + more, C), (B + more, T, C)
    count = [draw.normal(*shape) for shape in shapes]
    return [*others, Case(last.name, last.inputs, None, {"count": count}, last.roles)]


def count_operators(answer, x):
    """How many run for the result and on the way back to its gradient."""
    answer(fresh(x))  # what is kept for this length is kept now
    given, operators = fresh(x, gradients=True) * 1.0, Operators()
    with operators.watch():
        out = answer(given)
        with contextlib.suppress(RuntimeError):  # of an answer that changed what it needs
            differentiate(out)
    return len(operators.executed)


def see_loops(answer, case, observed):
    if "count" not in case.options:
        return
    few, *more = (count_operators(answer, x) for x in case.options["count"])
    loops = {"loop over T": more[0], "loop over B": more[1]}
    observed.facts["traits"] = {name: count - few > SLACK for name, count in loops.items()}


probe = FunctionProbe(gradients=("x",), watch=True, more=FURTHER, extra=see_loops)
expect = expect_mean


@true_of(
    "The number of tensor operations grows with neither B nor T",
    method=True,
    breaks="The exercise asks for no loop: your number of tensor operations grows with B or T",
)
def no_loop(case, observed, expected):
    traits = observed.facts.get("traits")
    return not any(traits.values()) if traits else None


properties = (*MEAN_PROPERTIES, no_loop)


def notes(cases, observations):
    observed = observations[0] if observations else Observation()
    if "ops" not in observed.facts or PRODUCTS & set(observed.facts["ops"]):
        return []
    return [
        "You found a way without a loop and without a matrix product. It is right and costs "
        "nothing; the next lessons build on the product `weights @ x`, so look at that way too."
    ]
