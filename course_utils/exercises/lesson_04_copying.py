"""Lesson 04: the same head with bare matrices, and how weights are carried over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import MatrixSelfAttention, SelfAttention, copy_linear_to_matrix
from ..checking import Case, Exercise, Misconceptions, Mistake, Observation, Property
from ..checking.comparing import near
from ..checking.copies import COPY_PROPERTIES, CopyProbe
from ..checking.exercise import Expected, Verdict
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.heads import PROJECTIONS
from .kit.steps import Refusing

LESSON = "2-single-head/04_single_head"

# ---------------------------------------------------------------- copy_linear_to_matrix


class _AnotherOrder(MatrixSelfAttention):
    """The same matrices, made in another order: a copy has to go by name."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        for name in ("W_value", "W_query", "W_key"):
            parameter = getattr(self, name)
            delattr(self, name)
            setattr(self, name, parameter)


def _copy_case(
    draw: Draw,
    name: str,
    linear: tuple[int, int],
    matrix: tuple[int, int] | None = None,
    only: tuple[str, ...] = PROJECTIONS,
    roles: str = "",
    **options: Any,
) -> Case:
    """A case from `(d_in, d_out)` of the linear layers and of the matrices, where those differ in
    the matrices named in `only`."""
    dtype = options.get("dtype", torch.float32)
    sizes = {n: matrix if matrix and n in only else linear for n in PROJECTIONS}
    inputs = {
        "linear_attention": {
            # Scores of a hundred would come out of the softmax as rounding has it.
            f"{n}.weight": draw.normal(linear[1], linear[0], dtype=dtype) / 3
            for n in PROJECTIONS
        },
        "matrix_attention": {f"W_{n}": draw.normal(*sizes[n], dtype=dtype) for n in PROJECTIONS},
    }
    options["x"] = draw.normal(2, 3, linear[0], dtype=dtype)
    differ = [f"{a}" for a, b in zip(linear, matrix or linear, strict=True) if a != b]
    differ += [f"{b}" for a, b in zip(linear, matrix or linear, strict=True) if a != b]
    refuses = tuple(differ) if matrix else None
    return Case(name, inputs, refuses, options, roles=frozenset(roles.split()))


def _copy_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    d_in, d_out, width, other = draw.sizes(4, 4, 9)
    return [
        _copy_case(draw, "wider in than out", (12, d_out), roles="typical"),
        _copy_case(draw, "wider out than in, by name", (d_in, 11), keywords=BY_NAME),
        _copy_case(draw, "square", (width, width), roles="small"),
        _copy_case(draw, "float64", (d_in, d_out), dtype=torch.float64),
        _copy_case(draw, "matrices made in another order", (d_out, other), another_order=True),
        _copy_case(draw, "layers made in another order", (11, other), turned_round=True),
        _copy_case(draw, "more than layers in the source", (10, d_out), more=True),
        _copy_case(draw, "W_key frozen", (other, d_in), frozen=("W_key",)),
        _copy_case(draw, "one channel", (1, 1), roles="small"),
        _copy_case(draw, "matrices less wide", (d_in, 17), (d_in, 13)),
        _copy_case(draw, "matrices less long", (15, d_out), (14, d_out)),
        _copy_case(draw, "one channel out", (d_in, 1), (d_in, 16), roles="small"),
        _copy_case(draw, "one channel in", (1, d_out), (16, d_out), roles="small"),
        _copy_case(draw, "sizes swapped", (12, 19), (19, 12), roles="small"),
        _copy_case(draw, "W_query wider", (d_in, 13), (d_in, 14), ("query",)),
        _copy_case(draw, "W_query longer", (15, d_out), (16, d_out), ("query",)),
        # Square and frozen: no other error comes before the comparison of the one that differs.
        *(
            _copy_case(
                draw,
                f"W_{name} {how}",
                (13, 13),
                (13, 14) if how == "wider" else (14, 13),
                (name,),
                roles="small",
                frozen=tuple(f"W_{n}" for n in PROJECTIONS),
            )
            for name in ("key", "value")
            for how in ("wider", "longer")
        ),
    ]


BY_NAME = ("linear_attention", "matrix_attention")


def _copy_make(case: Case) -> tuple[nn.Module, nn.Module]:
    linear, matrix = case.inputs.values()
    d_out, d_in = linear["query.weight"].shape
    target = (_AnotherOrder if case.options.get("another_order") else MatrixSelfAttention)(1, 1)
    for name in [n for n, _ in target.named_parameters()]:
        setattr(target, name, nn.Parameter(torch.zeros_like(matrix[name])))
    return SelfAttention(d_in, d_out), target


def _copy_expect(case: Case) -> dict[str, Tensor]:
    if case.refuses is not None:
        return {}
    weights: Mapping[str, Tensor] = case["linear_attention"]
    x = case.options["x"].double()
    query, key, value = (x @ weights[f"{n}.weight"].double().mT for n in PROJECTIONS)
    out = nn.functional.scaled_dot_product_attention(query, key, value)
    return {f"W_{n}": weights[f"{n}.weight"].mT.contiguous() for n in PROJECTIONS} | {
        "out": out.to(case.options["x"].dtype)
    }


def _right_matrix(name: str) -> Callable[[Case, Observation, Expected], Verdict]:
    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return near(seen.tensors[name], expected[name]) if expected else None

    return holds


class Copying(Refusing):
    """The right copy in steps."""

    def __call__(self, linear_attention, matrix_attention):
        with self.recording():
            for source, target in self.pairs():
                linear = getattr(linear_attention, source)
                matrix = getattr(matrix_attention, target)
                self.compare(self.turned(linear.weight), matrix)
                self.write(linear, matrix_attention, target)

    def recording(self):
        return torch.no_grad()

    def pairs(self):
        return [(n, f"W_{n}") for n in PROJECTIONS]

    def compare(self, given, matrix):
        if given.shape != matrix.shape:
            self.complain(tuple(given.shape), tuple(matrix.shape))

    def turned(self, weight):
        return weight.T

    def write(self, linear, matrix_attention, target):
        getattr(matrix_attention, target).copy_(self.turned(linear.weight))


class CopiedUntransposed(Mistake):
    """The matrices were filled with the layers' weights as they are, not transposed.

    Why: `nn.Linear` keeps its weight as `(d_out, d_in)` and the matrices are `(d_in, d_out)`.
        Square ones fit all the same, and then the output is wrong without an error.
    Mend: Which operation turns `(d_out, d_in)` into `(d_in, d_out)`?
    """

    def turned(self, weight):
        return weight


def _unturned_data(self, linear, matrix_attention, target):
    getattr(matrix_attention, target).data = linear.weight.detach().clone()


class SizesNotCompared(Mistake):
    """Sizes that don't fit are not refused with a ValueError: PyTorch's own error came, or none.

    Why: `copy_` broadcasts: a single column fills a whole matrix without an error.
    Mend: Compare the two shapes before you copy, and raise a ValueError that names both.
    """

    def compare(self, given, matrix):
        pass


class OneSizeCompared(Mistake):
    """Only one of the three matrices was compared with what goes into it.

    Why: The other two may have another size, and `copy_` stretches a column without an error.
    Mend: Compare each matrix with its own layer, inside the loop.
    """

    name = "W_query"

    def __call__(self, linear_attention, matrix_attention):
        self.compared = getattr(matrix_attention, self.name)
        super().__call__(linear_attention, matrix_attention)

    def compare(self, given, matrix):
        if matrix is self.compared:
            super().compare(given, matrix)


class OneWidthCompared(Mistake):
    """Only one of the two widths was compared.

    Why: A matrix whose other width differs gets through.
    Mend: Compare whole shapes: `a.shape != b.shape`.
    """

    axis = 1

    def compare(self, given, matrix):
        if given.shape[self.axis] != matrix.shape[self.axis]:
            super().compare(given, matrix)


class ReshapedToFit(Mistake):
    """You made the sizes fit with a reshape, which moves no number to its new place.

    Why: Row 0 of the weight is spread over several rows of the matrix; a transpose makes it a
        column.
    Mend: Rows should become columns.
    """

    def compare(self, given, matrix):
        pass

    def write(self, linear, matrix_attention, target):
        matrix = getattr(matrix_attention, target)
        matrix.copy_(linear.weight.reshape(matrix.shape))


class SharesMemory(Mistake):
    """Both modules now use the same numbers in memory.

    Why: Training one of them changes the other without a word.
    Mend: A method of tensors copies numbers into a tensor that exists, and that is all it takes.
    """

    def write(self, linear, matrix_attention, target):
        getattr(matrix_attention, target).data = self.turned(linear.weight.data)


def _new_view(self, linear, matrix_attention, target):
    setattr(matrix_attention, target, nn.Parameter(self.turned(linear.weight)))


class NewParameter(Mistake):
    """The numbers are right, but the parameters were replaced by new ones.

    Why: An optimizer made before the copy holds the old ones and would train those.
    Mend: Fill the parameter that is there: copy into it in place.
    """

    def write(self, linear, matrix_attention, target):
        setattr(matrix_attention, target, nn.Parameter(self.turned(linear.weight).clone()))


class CopiedBackwards(Mistake):
    """You copied the matrices into the linear layers.

    Why: The layers that were trained are lost.
    Mend: The first argument is the source, the second the target.
    """

    def write(self, linear, matrix_attention, target):
        linear.weight.copy_(self.turned(getattr(matrix_attention, target)))


class QueryThreeTimes(Mistake):
    """All three matrices were filled from `query`.

    Why: Then every token looks for what it offers, and hands over the same thing.
    Mend: Does each matrix get its own layer's weight?
    """

    def pairs(self):
        return [("query", target) for _, target in super().pairs()]


class KeysAndValuesSwapped(Mistake):
    """`W_key` got the values' weight, and `W_value` the keys'.

    Why: Tokens are found by what they hand over, and hand over what they are found by.
    Mend: Each matrix takes the weight of the layer of its own name.
    """

    def pairs(self):
        return [("query", "W_query"), ("key", "W_value"), ("value", "W_key")]


class OneForgotten(Mistake):
    """One of the three matrices was left as it was.

    Why: Its projection is still the random one, so the outputs differ.
    Mend: Count: query, key and value.
    """

    left_out = "value"

    def pairs(self):
        return [(n, target) for n, target in super().pairs() if n != self.left_out]


class ByOrder(Mistake):
    """You copied in the order in which the parameters were made, not by name.

    Why: A module that makes its parameters in another order gets keys for queries.
    Mend: `getattr(module, name)` finds a part by its name.
    """

    def __call__(self, linear_attention, matrix_attention):
        self.order = [n for n, _ in matrix_attention.named_parameters()]
        super().__call__(linear_attention, matrix_attention)

    def pairs(self):
        return zip(PROJECTIONS, self.order, strict=True)


class NameBoundAnew(Mistake):
    """After the call the matrices are as they were: the numbers went somewhere else.

    Why: A local name, a dict from `state_dict()`, a copy that was made on the way: what is put
        there never reaches the module.
    Mend: Where do your numbers go? They have to go *into* the module's own tensor.
    """

    def write(self, linear, matrix_attention, target):
        pass


class GradientRecorded(Mistake):
    """PyTorch refuses to write into a parameter while it records operations for gradients.

    Why: Copying is no step of a computation that should be differentiated.
    Mend: There is a context in which nothing is recorded.
    """

    def recording(self):
        return torch.enable_grad()


class FrozenAfterwards(Mistake):
    """The numbers are right, but the matrices no longer ask for a gradient.

    Why: The module would not learn any more, without an error.
    Mend: Leave `requires_grad` as it is; to write in peace, stop the recording instead.
    """

    asks = False

    def write(self, linear, matrix_attention, target):
        super().write(linear, matrix_attention, target)
        getattr(matrix_attention, target).requires_grad_(self.asks)


class UnfrozenAfterwards(FrozenAfterwards):
    """The numbers are right, but a matrix that was frozen asks for a gradient now.

    Why: Whoever froze it wanted it to stay as it is in training.
    Mend: Leave `requires_grad` as it is.
    """

    asks = True


class ResultsOfTheLayers(Mistake):
    """The copying was recorded: the matrices became results of the layers' weights.

    Why: No optimizer takes what is a result, and training the target would train the source.
    Mend: Leave `requires_grad` as it is, and stop the recording while you copy.
    """

    def recording(self):
        return torch.enable_grad()

    def write(self, linear, matrix_attention, target):
        getattr(matrix_attention, target).requires_grad_(False)
        super().write(linear, matrix_attention, target)


class ModuleReturned(Mistake):
    """The copy is right, but the function also returns the module.

    Why: What works in place returns None by Python's custom, so that nobody takes it for a copy.
    Mend: Leave the `return` out.
    """

    def __call__(self, linear_attention, matrix_attention):
        super().__call__(linear_attention, matrix_attention)
        return matrix_attention


COPY_LINEAR_TO_MATRIX = Exercise(
    id="copy_linear_to_matrix",
    lesson=LESSON,
    call="copy_linear_to_matrix(linear_attention, matrix_attention)",
    points=1.0,
    cases=_copy_cases,
    probe=CopyProbe(_copy_make),
    expect=_copy_expect,
    reference=copy_linear_to_matrix,
    properties=(
        Property("query", "`W_query` holds the query", _right_matrix("W_query"), gate=True),
        Property("key", "`W_key` holds the key", _right_matrix("W_key"), credit=True),
        Property("value", "`W_value` holds the value", _right_matrix("W_value"), credit=True),
        Property("output", "Both modules give the same output", _right_matrix("out"), credit=True),
        *COPY_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        SizesNotCompared,
        CopiedUntransposed,
        CopiedUntransposed.but(write=_unturned_data, compare=SizesNotCompared.compare),
        CopiedUntransposed.but(compare=SizesNotCompared.compare),
        GradientRecorded,
        ResultsOfTheLayers,
        SharesMemory,
        SharesMemory.but(write=_new_view),
        NewParameter,
        OneSizeCompared,
        OneSizeCompared.but(name="W_key"),
        OneSizeCompared.but(name="W_value"),
        OneWidthCompared,
        OneWidthCompared.but(axis=0),
        NameBoundAnew,
        ReshapedToFit,
        CopiedBackwards,
        QueryThreeTimes,
        KeysAndValuesSwapped,
        OneForgotten,
        OneForgotten.but(left_out="key"),
        ByOrder,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        m.RefusedOtherwise.but(kind=TypeError),
        FrozenAfterwards,
        UnfrozenAfterwards,
        ModuleReturned,
        on=Copying,
    ),
    hints=(
        "For each of query, key and value: the layer's weight, transposed, goes into the matrix of "
        "that name. Compare the two shapes first.",
        "Writing into a parameter needs `with torch.no_grad():`, and `matrix.copy_(numbers)` "
        "writes numbers into the tensor that is there.",
        '`for name in ["query", "key", "value"]`: `weight = getattr(linear_attention, name)'
        '.weight` and `matrix = getattr(matrix_attention, f"W_{name}")`; if `weight.T.shape != '
        "matrix.shape`, raise a ValueError with both shapes; else `matrix.copy_(weight.T)`.",
    ),
    other_way="""\
# load_state_dict copies in place and by name, and compares sizes: its RuntimeError names both.
def copy_linear_to_matrix(linear_attention, matrix_attention):
    names = ["query", "key", "value"]
    turned = {f"W_{name}": getattr(linear_attention, name).weight.T for name in names}
    try:
        matrix_attention.load_state_dict(turned)
    except RuntimeError as error:
        raise ValueError(error) from None""",
)
