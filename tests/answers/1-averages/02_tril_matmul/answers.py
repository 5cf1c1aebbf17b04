"""Right and wrong answers for lesson 02."""

import numpy as np
import torch

from tests.answers.means import (
    WRONG_MEANS,
    built_in_attention,
    cumulative,
    einsum,
)


def by_comparison(T):
    i = torch.arange(T)
    return (i[None] <= i[:, None]) / (i[:, None] + 1)


def by_lists(T):
    return torch.tensor([[1 / (t + 1) if s <= t else 0.0 for s in range(T)] for t in range(T)])


def by_numpy(T):
    w = np.tril(np.ones((T, T), dtype=np.float32))
    return torch.from_numpy(w / w.sum(1, keepdims=True))


def batched(x):
    B, T, _ = x.shape
    w = torch.tril(torch.ones(T, T)).to(x)
    return torch.bmm((w / w.sum(-1, keepdim=True)).expand(B, T, T), x)


def from_the_right(x):
    T = x.shape[1]
    w = by_comparison(T).to(x)
    return (x.transpose(1, 2) @ w.T).transpose(1, 2)


RIGHT = {
    "causal_mean_weights": {
        "comparison": by_comparison,
        "nested lists": by_lists,
        "numpy inside": by_numpy,
        "mean over an axis": lambda T: torch.eye(T).cumsum(0) / torch.arange(1, T + 1).view(T, 1),
    },
    "tril_mean": {
        "cumsum": cumulative,
        "einsum": einsum,
        "bmm": batched,
        "weights from the right": from_the_right,
        "built-in attention": built_in_attention,
        "sums along a broadcast axis": lambda x: (
            x[:, None] * by_comparison(x.shape[1]).to(x)[..., None]
        ).sum(2),
    },
}


WRONG = {
    "causal_mean_weights": {
        "divided by one more": (
            0.25,
            lambda T: torch.ones(T, T).tril() / torch.arange(2, T + 2)[:, None],
        ),
        "transposed": (0, lambda T: by_comparison(T).T),
        "a batch dimension": (0, lambda T: by_comparison(T)[None]),
        "zeros": (0, lambda T: torch.zeros(T, T)),
        "identity": (0, torch.eye),
    },
    "tril_mean": {
        **WRONG_MEANS,
    },
}
