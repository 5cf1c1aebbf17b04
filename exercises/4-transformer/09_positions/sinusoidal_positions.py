"""How an answer to `sinusoidal_positions` is judged."""

import math

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)
    pairs, length = draw.sizes(2, 3, 6)
    small = {"small"}

    def case(name, length, d_model, **more):
        return Case(name, {"length": length, "d_model": d_model}, **more)

    return [
        case("three positions by hand", 3, 4),
        case("random sizes", 2 * length + 1, 2 * pairs, roles={"typical"}),
        case("more channels than positions", 5, 2 * draw.integer(7, 12)),
        case("more positions than channels", draw.integer(41, 90), 6),
        case("one pair of channels", draw.integer(7, 20), 2),
        case("one position", 1, 2 * pairs, roles=small),
        case("as many positions as channels", 8, 8, roles=small),
        case("by name", 4, 10, options={"keywords": ("length", "d_model")}),
        case("many positions", 1_030, 2, options={"once": True}, roles={"stability"}),
    ]


def oracle(length, d_model):
    """Number by number, as in the formula."""
    wave = (math.sin, math.cos)
    rows = [
        [wave[c % 2](position / 10000 ** ((c - c % 2) / d_model)) for c in range(d_model)]
        for position in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


probe = FunctionProbe()
expect = expect_function(oracle, dtype=torch.float32)


@true_of("Positions have different rows", gate=True, role="typical")
def rows_differ(case, observed, expected):
    rows = observed.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


@true_of("Position 0 is 0, 1, 0, 1, …", credit=True)
def first_row(case, observed, expected):
    return near(observed.tensors["out"][0], expected["out"][0])


@true_of("Neighbours 2i and 2i + 1 are sine and cosine of one angle", credit=True)
def circle(case, observed, expected):
    squares = observed.tensors["out"].double().square()
    sums = squares[:, 0::2] + squares[:, 1::2]
    return near(sums, torch.ones_like(sums))


@true_of("The even channels are right", credit=True)
def even(case, observed, expected):
    return near(observed.tensors["out"][:, 0::2], expected["out"][:, 0::2])


@true_of(
    "From position to position, channels 2i and 2i + 1 change less than those before them",
    credit=True,
    role="typical",
)
def slower(case, observed, expected):
    """From position 0 to 1."""
    pairs = observed.tensors["out"][:2].double().unflatten(-1, (-1, 2))
    moved = (pairs[1] - pairs[0]).norm(dim=-1)
    return bool((moved.diff() < 0).all())


properties = (rows_differ, first_row, circle, even, slower)

letters = {"length": "T", "d_model": "C"}
