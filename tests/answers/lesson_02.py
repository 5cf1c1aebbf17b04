"""Right and wrong answers for lesson 02."""

import torch

from course_utils import attention

from .lesson_01 import ALMOST, MEANS, cumulative, einsum


def by_hand(T):
    out = torch.zeros(T, T)
    for t in range(T):
        out[t, : t + 1] = 1 / (t + 1)
    return out


def by_softmax(T):
    future = torch.ones(T, T).triu(1).bool()
    return torch.zeros(T, T).masked_fill(future, float("-inf")).softmax(-1)


def by_comparison(T):
    i = torch.arange(T)
    return (i[None] <= i[:, None]) / (i[:, None] + 1)


def by_lists(T):
    return torch.tensor([[1 / (t + 1) if s <= t else 0.0 for s in range(T)] for t in range(T)])


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
        "filled by hand": by_hand,
        "softmax": by_softmax,
        "comparison": by_comparison,
        "nested lists": by_lists,
    },
    "tril_mean": {
        "cumsum": cumulative,
        "einsum": einsum,
        "bmm": batched,
        "weights from the right": from_the_right,
        "convolution": MEANS["convolution"],
        "built-in attention": MEANS["built-in attention"],
        "in place on a copy": MEANS["in place on a copy"],
    },
}


def loop_for_small_batches(x):
    return MEANS["running sums"](x) if x.shape[0] < 8 else cumulative(x)


def loop_unless_all_ones(x):
    return cumulative(x) if bool((x == 1).all()) else MEANS["running sums"](x)


TABLE = by_hand(64)
WRONG = {
    "causal_mean_weights": {
        "right up to 19 tokens": lambda T: by_hand(min(T, 19)),
        "the finished part": lambda T: attention.causal_mean_weights(T),
        "a view into one table": lambda T: TABLE[:T, :T],
        "zeros": lambda T: torch.zeros(T, T),
        "identity": torch.eye,
        "first column only": lambda T: (
            torch.eye(T).new_zeros(T, T).index_fill(1, torch.tensor(0), 1.0)
        ),
        "rounded": lambda T: by_hand(T).mul(100).round() / 100,
        "right up to row 7": lambda T: (
            by_hand(T).index_fill(0, torch.arange(8, max(T, 8)), 0.0) if T > 8 else by_hand(T)
        ),
        "a list": lambda T: by_hand(T).tolist(),
        "numpy": lambda T: by_hand(T).numpy(),
        "half precision": lambda T: by_hand(T).half(),
        "decaying": lambda T: (lambda w: w / w.sum(1, keepdim=True))(
            torch.tril(0.5 ** (torch.arange(T)[:, None] - torch.arange(T)[None]).clamp(min=0))
        ),
        "random rows": lambda T: torch.rand(T, T).tril(),
    },
    "tril_mean": {
        **{name: answer for name, answer in ALMOST.items() if name != "the finished part"},
        "the finished part": lambda x: attention.tril_mean(x),
        "a loop for small batches": loop_for_small_batches,
        "a loop unless all are ones": loop_unless_all_ones,
        "running sums in a loop": MEANS["running sums"],
        "incremental": MEANS["incremental"],
        "list comprehension": MEANS["list comprehension"],
        "zeros": torch.zeros_like,
        "identity": lambda x: x * 1,
        "detached": lambda x: cumulative(x.detach()),
        "a window of three": lambda x: (
            (lambda w: w / w.sum(1, keepdim=True))(
                torch.ones(x.shape[1], x.shape[1]).to(x).tril().triu(-2)
            )
            @ x
        ),
        "the mean of the whole sequence": lambda x: x.mean(1, keepdim=True).expand_as(x).clone(),
        "half precision inside": lambda x: einsum(x.bfloat16()).to(x.dtype),
        "the batch as time": lambda x: einsum(x.transpose(0, 1)).transpose(0, 1),
    },
}
