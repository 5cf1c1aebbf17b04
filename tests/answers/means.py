"""Right and wrong answers for the three ways to compute a mean (lessons 01 to 03)."""

from __future__ import annotations

import torch
from torch import Tensor


def cumulative(x: Tensor) -> Tensor:
    return torch.cumsum(x, 1) / torch.arange(1, x.shape[1] + 1).to(x).view(-1, 1)


def running_sums(x: Tensor) -> Tensor:
    """Running sums in a Python loop, stacked at the end."""
    rows, total = [], torch.zeros_like(x[:, 0])
    for t in range(x.size(1)):
        total = total + x[:, t]
        rows.append(total / (t + 1))
    return torch.stack(rows, 1)


def incremental(x: Tensor) -> Tensor:
    """Welford's update: the old mean plus a fraction of the difference."""
    means = [x[:, 0]]
    for t in range(1, x.shape[1]):
        means.append(means[-1] + (x[:, t] - means[-1]) / (t + 1))
    return torch.stack(means, dim=1)


def list_comprehension(x: Tensor) -> Tensor:
    return torch.stack(
        [torch.stack([s[: t + 1].mean(0) for t in range(len(s))]) for s in x.unbind(0)]
    )


def einsum(x: Tensor) -> Tensor:
    T = x.shape[1]
    w = torch.ones(T, T, dtype=x.dtype, device=x.device).tril()
    return torch.einsum("ts,bsc->btc", w / w.sum(1, keepdim=True), x)


def built_in_attention(x: Tensor) -> Tensor:
    zeros = torch.zeros_like(x)
    return torch.nn.functional.scaled_dot_product_attention(zeros, zeros, x, is_causal=True)


def window_of_three(x: Tensor) -> Tensor:
    return torch.stack([x[:, max(0, t - 2) : t + 1].mean(1) for t in range(x.shape[1])], 1)


# Wrong answers for all three ways, with their points.
WRONG_MEANS = {
    "zeros": (0, torch.zeros_like),
    "identity": (0, lambda x: x.clone()),
    "a window of three tokens": (0.5, window_of_three),
    "the batch as time": (0, lambda x: cumulative(x.transpose(0, 1)).transpose(0, 1)),
    "detached": (1.5, lambda x: cumulative(x.detach())),
    "half precision inside": (0.25, lambda x: cumulative(x.bfloat16()).to(x.dtype)),
}
