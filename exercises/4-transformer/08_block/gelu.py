"""How an answer to `gelu` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import GELUS
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of

forbidden = GELUS


def cases(seed):
    draw = Draw(seed)
    sizes = [draw.sizes(3, 2, 9) for _ in range(4)]
    double = {"x": 2 * draw.normal(*sizes[1], dtype=torch.float64)}
    wide = {"x": 5 * draw.normal(*sizes[2], dtype=torch.float64)}
    return [
        Case("three numbers by hand", {"x": torch.tensor([[[-3.0, 0.0, 3.0]]])}, roles={"small"}),
        Case("random numbers", {"x": draw.normal(*sizes[0])}, roles={"typical"}),
        Case("float64, given by name", double, options={"keywords": ("x",)}),
        Case("float64, wide numbers", wide),
        Case("tiny numbers", {"x": 0.001 * draw.normal(*sizes[3])}),
        Case("far from 0", {"x": 1e4 * draw.normal(*sizes[0])}),
        Case("not contiguous in memory", {"x": draw.normal(*sizes[1]).mT}),
        Case("a single number", {"x": draw.normal(1)[0]}, roles={"small"}),
        Case("a row", {"x": draw.normal(7)}, roles={"small"}),
    ]


more = {"typical": {"minus": lambda case: {"x": -case["x"]}}}
probe = FunctionProbe(gradients=("x",), watch=True, more=more)
expect = expect_function(lambda x: F.gelu(x, approximate="tanh"), gradients=("x",))


@true_of(
    "The result is a bent curve",
    gate=True,
    role="typical",
    breaks="The result is a constant, a straight line or ReLU",
)
def bends(case, observed, expected):
    x, out = case["x"].double(), observed.tensors["out"].double()
    line = x * (out * x).sum() / (x * x).sum()
    return not any(near(out, other) for other in (out.mean().expand_as(out), line, x.relu()))


@true_of("Far from 0 it is x on the right, and 0 on the left", credit=True)
def far_out(case, observed, expected):
    x, out = case["x"], observed.tensors["out"]
    far = x.abs() > 6
    return near(out[far], x[far].clamp(min=0.0)) if bool(far.any()) else None


@true_of("`gelu(x) - gelu(-x)` is x", credit=True, role="typical")
def adds_to_x(case, observed, expected):
    return near(observed.tensors["out"] - observed.tensors["minus"], case["x"], 1e-5)


properties = (bends, far_out, adds_to_x)
