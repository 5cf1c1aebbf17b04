"""How an answer to `masked_softmax` is judged."""

import torch

from course_utils.attention import causal_mask
from exercises.shared.masks import as_many_texts, filled_with_a_number
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)
    B, H, T, S = draw.sizes(4, 4, 9)
    hidden = draw.hidden(T, S)
    by_hand = {"scores": torch.tensor([[1.0, 2.0, 3.0]]).repeat(3, 1), "hidden": causal_mask(3)}
    nothing = {"scores": draw.normal(S, T), "hidden": torch.zeros(S, T, dtype=torch.bool)}
    double = draw.normal(T, S, dtype=torch.float64)
    alike = {"scores": draw.normal(H, S, S), "hidden": draw.hidden(H, S, S)}
    loud = (draw.normal(T, S) - 50.0).masked_fill(hidden, 100.0)  # e⁻¹⁵⁰ is 0 in float32
    zeros = draw.normal(T, S)
    zeros[draw.integer(0, T - 1)] = 0.0
    faint = draw.normal(T, S) - 100.0
    return [
        Case("the future hidden", by_hand, roles={"small"}),
        Case("a random mask", {"scores": draw.normal(T, S), "hidden": hidden}, roles={"typical"}),
        Case("nothing hidden", nothing, roles={"nothing hidden"}),
        *mask_shapes(draw, B, H, T, S),
        Case("float64", {"scores": double * 2, "hidden": hidden}),
        Case("as many keys as queries", alike, roles={"small"}),
        Case(
            "one query",
            {"scores": draw.normal(1, 1, S), "hidden": draw.hidden(1, S)},
            roles={"small"},
        ),
        Case("visible scores of 0", {"scores": zeros, "hidden": draw.hidden(T, S)}),
        Case("visible scores near -100", {"scores": faint, "hidden": hidden}),
        Case("visible scores near -1,000", {"scores": faint - 900.0, "hidden": hidden}),
        Case(
            "hidden scores of 100, others near -50",
            {"scores": loud, "hidden": hidden},
            roles={"stability"},
        ),
        *as_many_texts(draw, draw.hidden, T, S),
    ]


def mask_shapes(draw, B, H, T, S):
    """The ways in which a mask can be smaller than its scores, and none."""
    shapes = {
        "one mask for the batch": ((B, T, S), (T, S)),
        "one mask for batch and heads": ((B, H, T, S), (T, S)),
        "a mask of columns": ((B, T, S), (B, 1, S)),
        "a mask for each sequence": ((B, T, S), (B, T, S)),
        "a mask of columns for batch and heads": ((B, H, T, S), (B, 1, 1, S)),
        "a mask for each head, for all sequences": ((B, H, T, S), (H, T, S)),
        "a mask for each sequence and head": ((B, H, T, S), (B, H, T, S)),
    }
    return [
        Case(name, {"scores": draw.normal(*scores), "hidden": draw.hidden(*mask)})
        for name, (scores, mask) in shapes.items()
    ]


def oracle(scores, hidden):
    """The built-in attention with the identity as values: its result is its weights."""
    S = scores.shape[-1]
    query, key = scores.new_zeros(*scores.shape[:-1], 1), scores.new_zeros(*scores.shape[:-2], S, 1)
    bias = scores.masked_fill(hidden, float("-inf"))
    values = torch.eye(S, dtype=scores.dtype).expand(*scores.shape[:-2], S, S)
    return torch.nn.functional.scaled_dot_product_attention(query, key, values, attn_mask=bias)


def louder(case):
    """Hidden scores are bigger."""
    return {"scores": torch.where(case["hidden"], case["scores"] + 2.0, case["scores"])}


probe = FunctionProbe(gradients=("scores",), more={"": {"louder": louder}})
expect = expect_function(oracle, gradients=("scores",))


@true_of("A bigger score gets a bigger weight", gate=True, role="nothing hidden")
def scores_matter(case, observed, expected):
    return bool((observed.tensors["out"].diff() * case["scores"].diff() > 0).all())


@true_of(
    "Hidden keys get weight exactly 0",
    credit=True,
    breaks="Not every hidden key gets a weight of exactly 0",
)
def zero(case, observed, expected):
    hidden = case["hidden"].expand_as(case["scores"])
    return bool((observed.tensors["out"][hidden] == 0).all()) if bool(hidden.any()) else None


@true_of("Every row sums to 1", credit=True)
def rows(case, observed, expected):
    total = observed.tensors["out"].double().sum(-1)
    return near(total, torch.ones_like(total))


@true_of("The value of a hidden score changes nothing", credit=True)
def silent(case, observed, expected):
    if not bool(case["hidden"].any()):
        return None
    return near(observed.tensors["louder"], observed.tensors["out"], 1e-5)


properties = (scores_matter, zero, rows, silent)
signs = {"fill_not_low_enough": filled_with_a_number}
