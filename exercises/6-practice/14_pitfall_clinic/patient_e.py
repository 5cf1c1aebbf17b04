"""How an answer to `patient_e` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.many_heads import distinct_sizes
from exercises.shared.patients import PARTS, past, with_another_last_token
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes, *roles, scale=1.0, dtype=torch.float32):
        inputs = {part: scale * draw.normal(*sizes, dtype=dtype) for part in PARTS}
        return Case(name, inputs, roles=set(roles))

    one, two, three = ((s.B, s.H, s.T, s.D) for s in (distinct_sizes(draw) for _ in range(3)))
    typical = with_another_last_token(case("random numbers", one, "typical"))
    ones = case("values of ones", two, "ones")
    ones["value"].fill_(1.0)
    return [
        typical,
        ones,
        case("float64", three, scale=3, dtype=torch.float64),
        far_scores(draw, "a last key near 100, the others near -50", -50.0, 100.0),
        far_scores(draw, "all scores near -100", -100.0, -100.0),
        case("one token", (2, 3, 1, 5), "small"),
        case("as many heads as texts, and as many channels as tokens", (3, 3, 4, 4), "small"),
    ]


def far_scores(draw, name, score, last):
    """Scores near `score`, and near `last` with the last key, which only its own query sees.

    All numbers have few binary digits, so that float32 gives exact scores in every order. Gradients
    are rounded: each score's is multiplied by a query of 32 / √4 = 16.
    """
    inputs = {part: (4 * draw.normal(3, 2, 5, 4)).round() / 4 for part in PARTS}
    inputs["query"][..., 0] = 32.0
    inputs["key"][..., 0] = score / 16  # 32 · score / 16 / √4 = score
    inputs["key"][..., -1, 0] = last / 16
    return Case(name, inputs, options={"tolerance": {torch.float32: 16 * 1e-5}})


def oracle(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


probe = FunctionProbe(gradients=PARTS)
expect = expect_function(oracle, gradients=PARTS)


@true_of(
    "A mean of ones is 1: the weights of each row sum to 1",
    credit=True,
    role="ones",
    breaks="A mean of ones is not 1: the weights of a row don't sum to 1",
)
def ones(case, observed, expected):
    return near(observed.tensors["out"], case["value"])


properties = (ones, past)
