"""How an answer to `copy_linear_to_matrix` is judged."""

import torch
from torch import nn

from course_utils.attention import MatrixSelfAttention, SelfAttention
from exercises.shared.copies import COPY_PROPERTIES, CopyProbe
from exercises.shared.heads import PROJECTIONS
from whywrong import Case, Draw, near, true_of


class AnotherOrder(MatrixSelfAttention):
    """The same matrices, made in a different order: a copy has to go by name."""

    def __init__(self, d_in, d_out):
        super().__init__(d_in, d_out)
        for name in ("W_value", "W_query", "W_key"):
            parameter = getattr(self, name)
            delattr(self, name)
            setattr(self, name, parameter)


def cases(seed):
    draw = Draw(seed)

    def case(name, d_in, d_out, roles="", **options):
        dtype = options.setdefault("dtype", torch.float32)
        options["x"] = draw.normal(2, 3, d_in, dtype=dtype)
        # Divided by 3, since scores of a hundred would magnify what was rounded.
        layers = {f"{n}.weight": draw.normal(d_out, d_in, dtype=dtype) / 3 for n in PROJECTIONS}
        matrices = {f"W_{n}": draw.normal(d_in, d_out, dtype=dtype) for n in PROJECTIONS}
        inputs = {"linear_attention": layers, "matrix_attention": matrices}
        return Case(name, inputs, options=options, roles=set(roles.split()))

    d_in, d_out, width, other = draw.sizes(4, 4, 9)
    return [
        case("wider in than out", 12, d_out, roles="typical"),
        case("wider out than in", d_in, 11),
        case("square", width, width, roles="small"),
        case("float64", d_in, d_out, dtype=torch.float64),
        case("matrices made in a different order", d_out, other, another_order=True),
        case("layers made in a different order", 11, other, turned_round=True),
        case("W_key frozen", other, d_in, frozen=("W_key",)),
        case("one channel", 1, 1, roles="small"),
    ]


def make(case):
    linear, matrix = case.inputs.values()
    d_out, d_in = linear["query.weight"].shape
    target = (AnotherOrder if case.options.get("another_order") else MatrixSelfAttention)(1, 1)
    for name in [name for name, _ in target.named_parameters()]:
        setattr(target, name, nn.Parameter(torch.zeros_like(matrix[name])))
    return SelfAttention(d_in, d_out), target


probe = CopyProbe(make)


def expect(case):
    weights, x = case["linear_attention"], case.options["x"]
    query, key, value = (x.double() @ weights[f"{n}.weight"].double().mT for n in PROJECTIONS)
    out = nn.functional.scaled_dot_product_attention(query, key, value).to(x.dtype)
    return {f"W_{n}": weights[f"{n}.weight"].mT.contiguous() for n in PROJECTIONS} | {"out": out}


@true_of("`W_query` holds the weight of `query`", gate=True)
def query(case, observed, expected):
    return near(observed.tensors["W_query"], expected["W_query"])


@true_of("`W_key` holds the weight of `key`", credit=True)
def key(case, observed, expected):
    return near(observed.tensors["W_key"], expected["W_key"])


@true_of("`W_value` holds the weight of `value`", credit=True)
def value(case, observed, expected):
    return near(observed.tensors["W_value"], expected["W_value"])


@true_of("Both modules give the same output", credit=True)
def output(case, observed, expected):
    return near(observed.tensors["out"], expected["out"])


properties = (query, key, value, output, *COPY_PROPERTIES)

letters = {"x": "B T d_in"}
