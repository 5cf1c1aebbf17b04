"""How an answer to `bracket_scores` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, L, H, T, N, roles="", dtype=torch.float32):
        scores = 2 * draw.normal(L, H, T, T, dtype=dtype)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        pairs = []
        while len(pairs) < N:  # as in a text, each token before a closing bracket once
            query = draw.integer(2, T - 2)
            key = draw.integer(0, query - 1)
            if query not in [pair[0] for pair in pairs]:
                pairs.append((query, key))
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        inputs = {"weights": weights, "pairs": pairs}
        return Case(name, inputs, roles=frozenset(roles.split()))

    by_hand = torch.zeros(1, 2, 3, 3)
    by_hand[0, 0] = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]])
    by_hand[0, 1] = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0]])
    inputs = {"weights": by_hand, "pairs": [(1, 0), (2, 0)]}
    return [
        Case("two pairs by hand", inputs, roles={"small"}),
        case("random weights", 2, 3, 13, 5, "typical"),
        case("many pairs", 3, 2, 17, 9),
        case("one pair", 2, 4, 11, 1, "small"),
        case("one layer with one head", 1, 1, 12, 4, "small"),
        case("float64", 4, 2, 11, 3, dtype=torch.float64),
    ]


probe = FunctionProbe()


@expect_function
def expect(weights, pairs):
    chosen = torch.zeros(weights.shape[-2:], dtype=torch.float64)
    for query, key in pairs:
        chosen[query, key] += 1 / len(pairs)
    return (weights * chosen).sum(dim=(-2, -1))


@true_of("Each head has a score of its own", credit=True, role="typical")
def of_each_head(case, observed, expected):
    out = observed.tensors["out"]
    return out.shape == case["weights"].shape[:2] and len(out.unique()) == out.numel()


@true_of("No score is larger than 1", credit=True)
def at_most_one(case, observed, expected):
    return bool((observed.tensors["out"] <= 1 + 1e-6).all())


@true_of("For one pair, the score is its weight", credit=True)
def of_one_pair(case, observed, expected):
    if len(case["pairs"]) > 1:
        return None
    return near(observed.tensors["out"], expected["out"])


properties = (of_each_head, at_most_one, of_one_pair)
letters = {"weights": "L H T T"}
