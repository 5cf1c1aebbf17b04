"""How an answer to `split_heads` is judged."""

import torch

from exercises.shared.many_heads import distinct_sizes
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)
    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    by_hand = torch.arange(1.0, 13.0).view(1, 3, 4)
    turned = draw.normal(b.T, b.B, b.width).transpose(0, 1)
    double = draw.normal(c.B, c.T, c.width, dtype=torch.float64)

    def case(name, x, num_heads, **more):
        return Case(name, {"x": x, "num_heads": num_heads}, **more)

    def refused(width, heads):
        name, numbers = f"{width} channels, {heads} heads", (str(width), str(heads))
        return case(name, draw.normal(2, 5, width), heads, refuses=numbers)

    by_name = {"keywords": ("x", "num_heads")}
    return [
        case("three tokens by hand", by_hand, 2, roles={"small"}),
        case("random numbers", draw.normal(a.B, a.T, a.width), a.H, roles={"typical"}),
        case("not contiguous", turned, b.H),
        case("float64, given by name", double, c.H, options=by_name),
        case("number and width of the heads swapped", draw.normal(d.B, d.T, d.width), d.D),
        case("one head", draw.normal(d.B, d.T, d.D), 1, roles={"small"}),
        case("heads of width 1", draw.normal(d.B, d.T, d.H), d.H, roles={"small"}),
        case("one token", draw.normal(7, 1, 6), 3, roles={"small"}),
        refused(10, 4),
        refused(3, 7),
        refused(13, 4),
    ]


def oracle(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


probe = FunctionProbe(gradients=("x",))
expect = expect_function(oracle, gradients=("x",))


@true_of("Every number of `x` is still there", gate=True)
def all_there(case, observed, expected):
    if case.refuses is not None:
        return None
    mine, wanted = (t["out"].flatten().sort().values for t in (observed.tensors, expected))
    return near(mine, wanted)


@true_of("A position holds the numbers of its own token", credit=True)
def tokens(case, observed, expected):
    """In whatever order."""
    if case.refuses is not None:
        return None
    mine = observed.tensors["out"].transpose(1, 2).flatten(2).sort(-1).values
    return near(mine, case["x"].sort(-1).values)


@true_of("Head 0 holds the first D channels of each token", credit=True)
def first_head(case, observed, expected):
    return None if case.refuses else near(observed.tensors["out"][:, 0], expected["out"][:, 0])


properties = (all_there, tokens, first_head)
