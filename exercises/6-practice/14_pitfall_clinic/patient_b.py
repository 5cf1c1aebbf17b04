"""How an answer to `patient_b` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.heads import low_scores
from exercises.shared.many_heads import distinct_sizes
from exercises.shared.patients import PARTS, past_without_credit, with_another_last_token
from whywrong import Case, Draw, FunctionProbe, expect_function

# A step in float32 is no fault, so float64 is looked at as loosely.
tolerance = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-5}


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes, *roles, scale=1.0, dtype=torch.float32):
        inputs = {part: scale * draw.normal(*sizes, dtype=dtype) for part in PARTS}
        return Case(name, inputs, roles=set(roles))

    one, two = ((s.B, s.H, s.T, s.D) for s in (distinct_sizes(draw) for _ in range(2)))
    typical = with_another_last_token(case("random numbers", one, "typical"))
    return [
        typical,
        Case("float16, long queries and keys", overflowing(draw, 2, 3, 5, 96), roles={"central"}),
        case("float64, long queries", two, scale=4, dtype=torch.float64),
        case("a width of 300", (2, 3, 4, 300)),
        low_scores(draw, 2, 3, 5, 4),
        case("one token", (2, 3, 1, 5), "small"),
        case("as many channels as tokens", (3, 2, 4, 4), "small"),
    ]


def overflowing(draw, B, H, T, D):
    """Dot products far beyond what float16 can hold, that fit when they are scaled; in each row
    one is so much larger than the others that rounding changes no weight."""
    directions = torch.linalg.qr(draw.normal(B, H, D, T, dtype=torch.float64))[0].mT  # (B, H, T, D)
    order = torch.randperm(T, generator=draw.generator) + 1
    loud = 260 * order.double()[:, None] ** 0.5  # (T, 1)
    query = 380 * directions.sum(-2, keepdim=True).expand(B, H, T, D)
    inputs = {"query": query, "key": loud * directions, "value": draw.normal(B, H, T, D)}
    return {name: x.half() for name, x in inputs.items()}


def oracle(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


probe = FunctionProbe(gradients=PARTS)
expect = expect_function(oracle, gradients=PARTS)


properties = (past_without_credit,)
