"""How an answer to `patient_c` is judged."""

import torch

from exercises.shared.heads import low_scores
from exercises.shared.many_heads import distinct_sizes
from exercises.shared.patients import PARTS, oracle_by_heads, past, with_another_last_token
from whywrong import Case, Draw, FunctionProbe, expect_function, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, B, T, C, heads, *roles, refuses=None, **how):
        inputs = {part: draw.normal(B, T, C, **how) for part in PARTS}
        return Case(name, inputs | {"num_heads": heads}, refuses, roles=set(roles))

    def uneven(name, C, heads):
        return case(name, 2, 3, C, heads, "uneven", refuses=(str(C), str(heads)))

    one, two = distinct_sizes(draw), distinct_sizes(draw)
    many = draw.integer(7, 11)
    typical = with_another_last_token(
        case("random numbers", one.B, one.T, one.width, one.H, "typical")
    )
    return [
        with_another_last_token(typical),
        case("float64", two.B, two.T, two.width, two.H, dtype=torch.float64),
        low_scores(draw, 3, 5, 8, num_heads=2),
        case("one head", 3, 5, 4, 1, "small"),
        case("heads of width 1", 2, 4, 5, 5, "small"),
        case("one token", 3, 1, 8, 4, "small"),
        uneven("one channel too many", many * 4 + 1, 4),
        uneven("two channels too many", many * 4 + 2, 4),
        uneven("more heads than channels", 5, many),
    ]


probe = FunctionProbe(gradients=PARTS)
expect = expect_function(oracle_by_heads, gradients=PARTS)


@true_of(
    "A width that the heads can't share evenly is refused",
    gate=True,
    role="uneven",
    breaks="A width that the heads can't share evenly is not refused",
)
def even(case, observed, expected):
    return bool(observed.error) or "raises no error, so nobody learns that this width does not fit"


properties = (even, past)
letters = dict.fromkeys(PARTS, "B T C")
