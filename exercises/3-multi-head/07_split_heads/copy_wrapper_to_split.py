"""How an answer to `copy_wrapper_to_split` is judged."""

import torch

from course_utils import attention
from exercises.shared.copies import COPY_PROPERTIES, CopyProbe
from exercises.shared.heads import PROJECTIONS
from exercises.shared.many_heads import (
    Sizes,
    distinct_sizes,
    split_oracle,
    split_weights,
    wrapper_weights,
)
from whywrong import Case, Draw, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, s, biases=(False, False), dtype=torch.float32, roles=(), **options):
        """`biases` says whether wrapper and split have biases in query, key and value."""
        weights = {
            "wrapper": wrapper_weights(draw, s, biases[0], dtype),
            "split": split_weights(draw, s, biases[1], dtype),
        }
        x = draw.normal(s.B, s.T, s.d_in, dtype=dtype)
        options |= {"sizes": (s.d_in, s.D, s.H, s.length), "heads": s.H, "x": x, "dtype": dtype}
        return Case(name, weights, options=options, roles=set(roles))

    def sizes(d_in, D, H):
        return Sizes(7, 9, d_in, D, H, 11)

    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    some, both, small = ("query.weight", "value.weight", "out_proj.bias"), (True, True), {"small"}
    return [
        case("random numbers", a, roles={"typical"}),
        case("both with biases, float64", b, both, torch.float64),
        case("biases in the split only", c, (False, True)),
        case("partly frozen", d, both, frozen=some),
        case("parts made in a different order", b, turned_round=True),
        case("by name", d, keywords=("wrapper", "split")),
        case("one head", sizes(5, 4, 1), roles=small),
        case("heads of width 1", sizes(5, 1, 3), roles=small),
        case("as wide inside as outside", sizes(6, 2, 3), roles=small),
    ]


def make(case):
    d_in, D, H, length = case.options["sizes"]
    given, target = case.inputs.values()
    return (
        attention.MultiHeadAttentionWrapper(
            d_in, D, length, H, 0.2, qkv_bias="heads.0.query.bias" in given
        ),
        attention.MultiHeadAttention(d_in, H * D, length, H, 0.3, qkv_bias="query.bias" in target),
    )


probe = CopyProbe(make)


def expect(case):
    wrapper, split = case.inputs.values()
    expected = {}
    for name, value in split.items():
        if name in wrapper:
            expected[name] = wrapper[name]
        elif f"heads.0.{name}" in wrapper:
            heads = range(case.options["heads"])
            expected[name] = torch.cat([wrapper[f"heads.{h}.{name}"] for h in heads])
        else:
            expected[name] = torch.zeros_like(value)
    doubles = {name: value.double() for name, value in expected.items()}
    out = split_oracle(case, doubles, case.options["x"].double())
    return expected | {"out": out.to(case.options["dtype"])}


@true_of("The weights of every head have arrived", gate=True, role="typical")
def heads(case, observed, expected):
    """The numbers of all heads are there, in whatever order."""
    weights = [f"{name}.weight" for name in PROJECTIONS]
    sorted_ones = [
        [t[n].flatten().sort().values for n in weights] for t in (observed.tensors, expected)
    ]
    return all(near(mine, wanted) for mine, wanted in zip(*sorted_ones, strict=True))


@true_of("`out_proj` has arrived, weight and bias", credit=True)
def out_proj(case, observed, expected):
    names = ("out_proj.weight", "out_proj.bias")
    return all(near(observed.tensors[n], expected[n]) for n in names)


properties = (heads, out_proj, *COPY_PROPERTIES)

letters = {"x": "B T d_in", "sizes": "d_in d_head num_heads context_length"}
