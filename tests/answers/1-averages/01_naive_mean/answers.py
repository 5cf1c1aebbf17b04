"""Right and wrong answers for lesson 01."""

import torch

from tests.answers.means import (
    WRONG_MEANS,
    cumulative,
    einsum,
    incremental,
    list_comprehension,
    running_sums,
)


def three_loops(x):
    B, T, C = x.shape
    out = torch.zeros(B, T, C).to(x)
    for b in range(B):
        for t in range(T):
            for c in range(C):
                out[b, t, c] = x[b, : t + 1, c].sum() / (t + 1)
    return out


RIGHT = {
    "naive_mean": {
        "running sums": running_sums,
        "cumsum": cumulative,
        "einsum": einsum,
        "incremental": incremental,
        "list comprehension": list_comprehension,
        "three loops": three_loops,
    },
    "naive_mean_shapes": {
        "torch.Size": {
            "x[b, :t+1]": torch.Size((3, 2)),
            "x[b, :t+1].mean(0)": torch.Size((2,)),
            "out": torch.Size((4, 8, 2)),
        },
        "lists": {"x[b, :t+1]": [3, 2], "x[b, :t+1].mean(0)": [2], "out": [4, 8, 2]},
    },
}


def sums_never_cleared(x):
    """One running sum for all sequences: the second begins with what the first left."""
    out, total = torch.zeros_like(x), torch.zeros_like(x[0, 0])
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            total = total + x[b, t]
            out[b, t] = total / (t + 1)
    return out


def median(x):
    return torch.stack([x[:, : t + 1].median(1).values for t in range(x.shape[1])], 1)


WRONG = {
    "naive_mean": {
        **WRONG_MEANS,
        "sums never cleared": (0.25, sums_never_cleared),
    },
    "naive_mean_shapes": {
        "strings": (0, {"x[b, :t+1]": "(3, 2)", "x[b, :t+1].mean(0)": "(2,)", "out": "(4, 8, 2)"}),
        "a number for a tuple": (
            0.5,
            {"x[b, :t+1]": (3, 2), "x[b, :t+1].mean(0)": 2, "out": (4, 8, 2)},
        ),
        "not a dict": (0, [(3, 2), (2,), (4, 8, 2)]),
        "other names": (0, {"rows": (3, 2), "mean": (2,), "result": (4, 8, 2)}),
    },
}
