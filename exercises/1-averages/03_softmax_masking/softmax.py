"""How an answer to `softmax` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of

INF = float("inf")


def cases(seed):
    draw = Draw(seed)
    a, b, c, d = draw.sizes(4, 2, 7)
    middle = draw.normal(a, b, c)
    double = draw.normal(c, a, dtype=torch.float64)
    by_hand = torch.tensor([[0.0, 1.0, 2.0]])
    by_name = {"keywords": ("dim",)}
    return [
        Case("three scores by hand", {"scores": by_hand}, roles={"small", "moderate"}),
        Case("random scores", {"scores": draw.normal(b, c)}, roles={"typical", "moderate"}),
        Case("three dimensions", {"scores": middle}),
        Case("along dimension 0", {"scores": middle, "dim": 0}),
        Case("dim by its name", {"scores": middle, "dim": 1}, options=by_name),
        Case("four dimensions", {"scores": draw.normal(a, d, b, c), "dim": 2}),
        Case("sizes that coincide", {"scores": draw.normal(a, a, a), "dim": 1}, roles={"small"}),
        Case("not contiguous in memory", {"scores": draw.normal(c, a).T}),
        Case("float64", {"scores": double, "dim": -2}),
        Case("one dimension", {"scores": draw.normal(b + c)}),
        *extreme_cases(draw, a, b, c, d),
    ]


def extreme_cases(draw, a, b, c, d):
    """Scores that are equal, as big as the lesson allows, far apart, or -inf."""
    every_other = torch.arange(a) % 2 == 0
    equal = torch.where(every_other, 0.0, 500.0)[:, None].repeat(1, d)
    offsets = torch.where(every_other, 900.0, -900.0)[:, None]
    wide = torch.tensor([[1_000.0, -1_000.0, 0.0], [1.0, 2.0, 3.0]])
    big = {"stability"}
    # A logarithm of a sum near 1,000 is rounded to 6e-5, and so are the weights that it gives.
    rounded = {"tolerance": {torch.float32: 2e-4}}
    with_inf = draw.normal(b, c)
    with_inf[0, 1] = with_inf[-1, 0] = -INF
    return [
        Case("all scores of a row equal", {"scores": equal}, None, rounded, big),
        Case("scores near 1,000", {"scores": draw.normal(a, b) * 3 + 1_000}, None, rounded, big),
        Case("scores near -1,000", {"scores": draw.normal(a, b) * 3 - 1_000}, None, rounded, big),
        Case("rows near 900 and -900", {"scores": draw.normal(a, c) + offsets}, None, rounded, big),
        Case("scores far apart", {"scores": wide}, roles=big),
        Case("some scores are -inf", {"scores": with_inf}, roles=big),
    ]


def built_in(scores, dim=-1):
    return torch.softmax(scores, dim=dim)


more = {"typical": {"shifted": lambda case: {"scores": case["scores"] + 3.0}}}
probe = FunctionProbe(gradients=("scores",), watch=True, more=more)
expect = expect_function(built_in, gradients=("scores",))


@true_of("A bigger score gets a bigger weight", gate=True, role="moderate")
def order(case, observed, expected):
    return bool((observed.tensors["out"].diff() * case["scores"].diff() > 0).all())


@true_of("The weights along `dim` sum to 1", credit=True)
def sums(case, observed, expected):
    total = observed.tensors["out"].double().sum(case.inputs.get("dim", -1))
    rounding = 2e-4 if "tolerance" in case.options else 1e-5
    return near(total, torch.ones_like(total), rounding)


@true_of(
    "A score of -inf gets weight exactly 0",
    breaks="Not every score of -inf gets a weight of exactly 0",
)
def zero(case, observed, expected):
    hidden = case["scores"] == -INF
    return bool((observed.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


@true_of("Adding 3 to all scores changes nothing", credit=True, role="typical")
def shift(case, observed, expected):
    return near(observed.tensors["shifted"], observed.tensors["out"])


properties = (order, sums, zero, shift)
FORBIDDEN = """
softmax _softmax _safe_softmax log_softmax _log_softmax logsumexp softmin cross_entropy
cross_entropy_loss nll_loss gumbel_softmax logcumsumexp _logcumsumexp logaddexp logaddexp2
scaled_dot_product_attention _masked_softmax _sparse_softmax _sparse_log_softmax
multi_head_attention_forward
"""
forbidden = tuple(FORBIDDEN.split())
# A weight and its gradient are off by a few units of 6e-8, as one of 0.5 to 1 has them.
tolerance = {torch.float32: 2e-6, torch.float64: 1e-6}
