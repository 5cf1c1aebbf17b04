"""How an answer to `patient_g` is judged."""

import torch

from exercises.shared.heads import low_scores
from exercises.shared.many_heads import distinct_sizes
from exercises.shared.patients import PARTS, oracle_by_heads, past, with_another_last_token
from whywrong import Case, Draw, FunctionProbe, expect_function, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, B, T, C, heads, *roles, scale=1.0, dtype=torch.float32):
        inputs = {part: scale * draw.normal(B, T, C, dtype=dtype) for part in PARTS}
        return Case(name, inputs | {"num_heads": heads}, roles=set(roles))

    return [
        three_alike(case, draw),
        *(
            case(name, s.B, s.T, s.width, s.H, scale=scale, dtype=dtype)
            for name, s, scale, dtype in (
                ("float64, large scores", distinct_sizes(draw), 3, torch.float64),
                ("other sizes", distinct_sizes(draw), 1, torch.float32),
            )
        ),
        low_scores(draw, 3, 5, 8, num_heads=2),
        case("as many heads as tokens", 2, 4, 12, 4, "small"),
        case("one head", 3, 5, 4, 1, "small"),
        case("heads of width 1", 2, 4, 5, 5, "small"),
        case("one token", 3, 1, 8, 4, "small"),
    ]


def three_alike(case, draw):
    """Text 1 is text 0 with another last token, text 2 is text 0 with another first value."""
    s = distinct_sizes(draw)
    while s.B < 3:
        s = distinct_sizes(draw)
    typical = case("random numbers", s.B, s.T, s.width, s.H, "typical")
    for part in PARTS:
        typical[part][2] = typical[part][0]
    typical["value"][2, 0] += 100.0
    return with_another_last_token(typical)


probe = FunctionProbe(gradients=PARTS)
expect = expect_function(oracle_by_heads, gradients=PARTS)


@true_of(
    "The last token sees the first, in every head",
    gate=True,
    role="typical",
    breaks="The last token doesn't see the first in every head",
)
def first_seen(case, observed, expected):
    out = observed.tensors["out"]
    return bool(((out[2] - out[0])[-1].abs() > 1e-4).all())


properties = (past, first_seen)
letters = dict.fromkeys(PARTS, "B T C")
