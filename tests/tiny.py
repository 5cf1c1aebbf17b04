"""Small exercises of the tests' own, one of each kind, so that the engine is held to what it does
and not to what the course asks."""

from __future__ import annotations

import torch
from torch import nn

from course_utils.checking import (
    Case,
    Catalogue,
    Entry,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Property,
    expect_function,
    expect_module,
    quiz,
    slip,
)
from course_utils.checking.comparing import near
from course_utils.checking.copies import COPY_PROPERTIES, CopyProbe
from course_utils.checking.modules import MODULE_PROPERTIES
from course_utils.exercises.kit.draw import Draw

LESSON = "9-tiny/01_tiny"

# ---------------------------------------------------------------- a function


class Standardised:
    """(x - mean) / standard deviation over the last dimension, in steps."""

    axis = -1
    correction = 0

    def __call__(self, x):
        self.refuse(x)
        return self.centred(x) / self.spread(x)

    def refuse(self, x):
        if x.shape[-1] < 2:
            raise ValueError(f"{x.shape[-1]} channel has no spread")

    def centred(self, x):
        return x - x.mean(self.axis, keepdim=True)

    def spread(self, x):
        return x.var(self.axis, correction=self.correction, keepdim=True).sqrt()


class NotCentred(Mistake):
    """The mean is still in it. Why: It would drift. Mend: What must each row sum to?"""

    def centred(self, x):
        return x


class Corrected(Mistake):
    """Divided by N - 1. Why: Other numbers than everybody's. Mend: Which variance is biased?"""

    correction = 1


class Variance(Mistake):
    """The root is missing. Why: The spread is not 1 then. Mend: Which power has its unit?"""

    def spread(self, x):
        return super().spread(x).square()


def as_it_came(x):
    """Nothing was done. Why: Nothing is gained. Mend: What is asked?"""
    return x.clone()


def _standardise(x):
    return (x - x.mean(-1, keepdim=True)) / x.var(-1, correction=0, keepdim=True).sqrt()


def standardised(x):
    if x.shape[-1] < 2:
        raise ValueError(f"{x.shape[-1]} channel has no spread")
    return _standardise(x)


def standardised_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, C = draw.sizes(3, 3, 8)
    return [
        Case("by hand", {"x": torch.tensor([[1.0, 3.0]])}),
        Case("random numbers", {"x": draw.normal(B, T, C)}, roles={"typical"}),
        Case("float64", {"x": draw.normal(C, B, dtype=torch.float64)}),
        Case("one channel", {"x": draw.normal(B, 1)}, refuses=("1",), roles={"small"}),
    ]


STANDARDISED = Exercise(
    "standardised",
    LESSON,
    call="standardised(x)",
    points=2.0,
    cases=standardised_cases,
    probe=FunctionProbe(gradients=("x",), watch=True),
    expect=expect_function(_standardise, gradients=("x",)),
    reference=standardised,
    properties=(
        Property(
            "moves",
            "The numbers change",
            lambda case, seen, expected: not near(seen.tensors["out"], case["x"]),
            gate=True,
            role="typical",
        ),
        Property(
            "centred",
            "Each row sums to 0",
            lambda case, seen, expected: bool((seen.tensors["out"].sum(-1).abs() < 1e-4).all()),
            credit=True,
        ),
    ),
    misconceptions=Misconceptions.of(NotCentred, Corrected, Variance, as_it_came, on=Standardised),
    hints=("One.", "Two.", "Three."),
    forbidden=("layer_norm",),
    forbidden_text="`layer_norm` is the exercise itself.",
)

# ---------------------------------------------------------------- a class


class CausalMean(nn.Module):
    """The mean of the projected tokens so far, in steps."""

    def __init__(self, d_in, d_out, dropout=0.0):
        super().__init__()
        self.value = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        shares = self.shares(self.visible(x))
        return self.dropout(shares) @ self.value(x)

    def visible(self, x):
        return x.new_ones(x.shape[1], x.shape[1]).tril()

    def shares(self, visible):
        return visible / visible.sum(-1, keepdim=True)


class FinishedCausalMean(nn.Module):
    """As the course would write it: not in steps, and not to be borrowed."""

    def __init__(self, d_in, d_out, dropout=0.0):
        super().__init__()
        self.value = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        visible = x.new_ones(x.shape[1], x.shape[1]).tril()
        return self.dropout(visible / visible.sum(-1, keepdim=True)) @ self.value(x)


class SeesAll(Mistake):
    """All tokens count. Why: The future is not there yet. Mend: Which triangle is visible?"""

    def visible(self, x):
        return super().visible(x) * 0 + 1


class Sums(Mistake):
    """Sums and no means. Why: Sums grow. Mend: Divided by what?"""

    def shares(self, visible):
        return visible


def causal_mean_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name, dtype=torch.float32, roles=(), dropout=0.0):
        B, T, d_in, d_out = draw.sizes(4, 2, 9)
        weights = {"value.weight": draw.normal(d_out, d_in, dtype=dtype) / d_in**0.5}
        options = {"args": (d_in, d_out), "kwargs": {"dropout": dropout}}
        options |= {"weights": weights, "dtype": dtype}
        return Case(name, {"x": draw.normal(B, T, d_in, dtype=dtype)}, None, options, set(roles))

    return [
        case("random numbers", roles={"typical"}),
        case("float64", torch.float64),
        case("dropout", dropout=0.5),
    ]


def _causal_mean(case, weights, x):
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
    return (x @ weights["value.weight"].mT).cumsum(1) / counts


CAUSAL_MEAN = Exercise(
    "CausalMean",
    LESSON,
    call="CausalMean(d_in, d_out, dropout=0.0)",
    points=2.0,
    kind="class",
    cases=causal_mean_cases,
    probe=ModuleProbe(),
    expect=expect_module(_causal_mean),
    reference=FinishedCausalMean,
    properties=MODULE_PROPERTIES,
    misconceptions=Misconceptions.of(SeesAll, Sums, on=CausalMean),
    hints=("One.",),
)

# ---------------------------------------------------------------- a copy


def _pair(case):
    d_out, d_in = case["source"]["weight"].shape
    return nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)


def copy_linear(source, target):
    with torch.no_grad():
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)


def weight_alone(source, target):
    """The bias stayed behind. Why: The outputs differ. Mend: What else has a Linear?"""
    with torch.no_grad():
        target.weight.copy_(source.weight)


def shares_memory(source, target):
    """Both share one memory. Why: Training one changes both. Mend: Whose numbers are they?"""
    target.weight.data = source.weight.data
    target.bias.data = source.bias.data


def copy_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, d_in, d_out = draw.sizes(3, 2, 9)
    modules = [
        {"weight": draw.normal(d_out, d_in), "bias": draw.normal(d_out)}
        for _ in ("source", "target")
    ]
    inputs = dict(zip(("source", "target"), modules, strict=True))
    return [Case("random", inputs, options={"x": draw.normal(B, d_in)}, roles={"typical"})]


def _copied(case):
    source, x = case["source"], case.options["x"]
    return {**source, "out": x @ source["weight"].mT + source["bias"]}


COPY_LINEAR = Exercise(
    "copy_linear",
    LESSON,
    call="copy_linear(source, target)",
    points=1.0,
    cases=copy_cases,
    probe=CopyProbe(_pair),
    expect=_copied,
    reference=copy_linear,
    properties=COPY_PROPERTIES,
    misconceptions=Misconceptions.of(weight_alone, shares_memory),
    hints=("One.",),
)

# ---------------------------------------------------------------- a quiz

SHAPES = quiz(
    "tiny_shapes",
    lesson=LESSON,
    points=1.0,
    about="x of shape (2, 3)",
    entries=[
        Entry("x.T", (3, 2), "Transposing swaps.", "What does it swap?"),
        Entry("x.sum(0)", (3,), "Dimension 0 is gone.", "Which one is gone?"),
    ],
    misconceptions=[
        slip("other_axis", {"x.sum(0)": (2,)}, "The other one.", "It differs.", "Which is 0?")
    ],
    hints=("One.",),
)

TINY = Catalogue.of(STANDARDISED, CAUSAL_MEAN, COPY_LINEAR, SHAPES)
