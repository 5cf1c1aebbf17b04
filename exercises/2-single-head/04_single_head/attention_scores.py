"""How an answer to `attention_scores` is judged."""

import torch

from exercises.shared.heads import BUILT_IN, THREE_TOKENS
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of

forbidden = BUILT_IN


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes, roles="", dtype=torch.float32):
        """Sizes are `(B, T, S, D)`."""
        B, T, S, D = sizes
        inputs = {"query": draw.normal(B, T, D, dtype=dtype), "key": draw.normal(B, S, D)}
        return Case(name, inputs | {"key": inputs["key"].to(dtype)}, roles=set(roles.split()))

    B, T, S, D = draw.sizes(4, 2, 8)
    by_hand = {"query": THREE_TOKENS[None], "key": THREE_TOKENS[None]}
    turned = {"query": draw.normal(T, D, B).permute(2, 0, 1), "key": draw.normal(B, D, S).mT}
    return [
        Case("three tokens by hand", by_hand, roles={"small"}),
        case("random numbers", (B, T, S, D), "typical spread"),
        case("as many keys as queries", (T, D, D, S), "small"),
        case("as many keys as channels", (S, T, D, D), "small"),
        case("all sizes equal", (T, T, T, T), "small"),
        case("float64", (B, S, T, D), dtype=torch.float64),
        case("wide vectors", (2, 5, 3, draw.integer(60, 90)), "spread"),
        case("one query", (B, 1, S, D), "small"),
        case("one key, one channel", (B, T, 1, 1), "small"),
        Case("not contiguous in memory", turned),
    ]


def oracle(query, key):
    return torch.einsum("btd,bsd->bts", query, key) * query.shape[-1] ** -0.5


probe = FunctionProbe(gradients=("query", "key"), watch=True)
expect = expect_function(oracle, gradients=("query", "key"))


@true_of(
    "The score in row t, column s compares query t with key s",
    credit=True,
    gate=True,
    role="typical",
)
def pairs(case, observed, expected):
    """Up to one factor, the scores are the dot products."""
    out, right = observed.tensors["out"].double(), expected["out"].double()
    factor = (out * right).sum() / (right * right).sum()
    return bool(factor > 0) and near(out / factor, right)


@true_of("The scores have the right standard deviation", credit=True, role="spread")
def spread(case, observed, expected):
    ratio = observed.tensors["out"].double().std() / expected["out"].double().std()
    return bool((ratio - 1).abs() < 1e-3)


properties = (pairs, spread)

letters = {"query": "B T D", "key": "B S D"}
