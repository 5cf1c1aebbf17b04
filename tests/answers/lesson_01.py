"""Right and wrong answers for lesson 01."""

import torch

from course_utils import attention


def python_sums(x):
    """Running sums in Python, stacked at the end."""
    rows, total = [], torch.zeros_like(x[:, 0])
    for t in range(x.size(1)):
        total = total + x[:, t]
        rows.append(total / (t + 1))
    return torch.stack(rows, 1)


def cumulative(x):
    return torch.cumsum(x, 1) / torch.arange(1, x.shape[1] + 1).to(x).view(-1, 1)


def einsum(x):
    T = x.shape[1]
    w = torch.ones(T, T, dtype=x.dtype, device=x.device).tril()
    return torch.einsum("ts,bsc->btc", w / w.sum(1, keepdim=True), x)


def incremental(x):
    """Welford's update: the old mean plus a share of what is new."""
    means = [x[:, 0]]
    for t in range(1, x.shape[1]):
        means.append(means[-1] + (x[:, t] - means[-1]) / (t + 1))
    return torch.stack(means, dim=1)


def list_comprehension(x):
    return torch.stack(
        [torch.stack([s[: t + 1].mean(0) for t in range(len(s))]) for s in x.unbind(0)]
    )


def convolution(x):
    _, T, C = x.shape
    kernel = x.new_ones(C, 1, T)
    padded = torch.nn.functional.pad(x.transpose(1, 2), (T - 1, 0))
    sums = torch.nn.functional.conv1d(padded, kernel, groups=C).transpose(1, 2)
    return sums / torch.arange(1, T + 1).to(x)[:, None]


def built_in_attention(x):
    zeros = torch.zeros_like(x)
    return torch.nn.functional.scaled_dot_product_attention(zeros, zeros, x, is_causal=True)


def recursion_into_the_past(x):
    if x.shape[1] == 1:
        return x.clone()
    return torch.cat([recursion_into_the_past(x[:, :-1]), x.mean(1, keepdim=True)], 1)


def in_place_on_a_copy(x):
    counts = torch.arange(1, x.shape[1] + 1).to(x)[:, None]
    return x.clone().cumsum_(1).div_(counts)


def over_every_channel(x):
    B, T, C = x.shape
    out = torch.zeros(B, T, C).to(x)
    for b in range(B):
        for t in range(T):
            for c in range(C):
                out[b, t, c] = x[b, : t + 1, c].sum() / (t + 1)
    return out


MEANS = {
    "running sums": python_sums,
    "cumsum": cumulative,
    "einsum": einsum,
    "incremental": incremental,
    "list comprehension": list_comprehension,
    "convolution": convolution,
    "built-in attention": built_in_attention,
    "recursion": recursion_into_the_past,
    "in place on a copy": in_place_on_a_copy,
    "three loops": over_every_channel,
}

RIGHT = {
    "naive_mean": MEANS,
    "naive_mean_shapes": {
        "torch.Size": {
            "x[b, :t+1]": torch.Size((3, 2)),
            "x[b, :t+1].mean(0)": torch.Size((2,)),
            "out": torch.Size((4, 8, 2)),
        },
        "lists": {"x[b, :t+1]": [3, 2], "x[b, :t+1].mean(0)": [2], "out": [4, 8, 2]},
    },
}


def window_of_three(x):
    return torch.stack([x[:, max(0, t - 2) : t + 1].mean(1) for t in range(x.shape[1])], 1)


def even_odd(x):
    out = cumulative(x)
    out[:, 8:] = x[:, 8:]
    return out


def median(x):
    return torch.stack([x[:, : t + 1].median(1).values for t in range(x.shape[1])], 1)


_KEPT = {}

# Right for most inputs: each of these got past a check once.
ALMOST = {
    "clamped": lambda x: cumulative(x.clamp(-10, 10)),
    "shifted and shifted back": lambda x: cumulative(x + 8).sub(8).clamp(-9, 9),
    "zero for big numbers": lambda x: torch.where(x.abs() > 50, 0, cumulative(x)),
    "right up to 40 tokens": lambda x: cumulative(x) if x.shape[1] <= 40 else x * 1,
    "mixes the batch when B equals T": lambda x: (
        cumulative(x.transpose(0, 1) if x.shape[0] == x.shape[1] else x).transpose(0, 1)
        if x.shape[0] == x.shape[1]
        else cumulative(x)
    ),
    "reads memory in order": lambda x: cumulative(
        torch.as_strided(x, x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1))
    ),
    "remembers by address": lambda x: _KEPT.setdefault((x.data_ptr(), x.shape), cumulative(x)),
    "asks its input for gradients": lambda x: cumulative(x.requires_grad_()),
    "the finished part": lambda x: attention.naive_mean(x) + 0,
}

WRONG = {
    "naive_mean": {
        **ALMOST,
        "zeros": torch.zeros_like,
        "identity": lambda x: x.clone(),
        "a window of three tokens": window_of_three,
        "right up to position 7": even_odd,
        "median": median,
        "rounded": lambda x: (cumulative(x) * 1000).round() / 1000,
        "noise": lambda x: cumulative(x) + 1e-3 * torch.randn_like(x),
        "right shape, transposed reading": lambda x: cumulative(x.transpose(0, 1)).transpose(0, 1),
        "a numpy array": lambda x: cumulative(x).detach().numpy(),
        "a list": lambda x: list(cumulative(x)),
        "an extra dimension": lambda x: cumulative(x)[None],
        "detached": lambda x: cumulative(x).detach(),
    },
    "naive_mean_shapes": {
        "strings": {"x[b, :t+1]": "(3, 2)", "x[b, :t+1].mean(0)": "(2,)", "out": "(4, 8, 2)"},
        "floats": {"x[b, :t+1]": (3.0, 2.0), "x[b, :t+1].mean(0)": (2.0,), "out": (4.0, 8.0, 2.0)},
        "a number for a tuple": {"x[b, :t+1]": (3, 2), "x[b, :t+1].mean(0)": 2, "out": (4, 8, 2)},
        "not a dict": [(3, 2), (2,), (4, 8, 2)],
        "complex": {"x[b, :t+1]": (3 + 0j, 2), "x[b, :t+1].mean(0)": (2,), "out": (4, 8, 2)},
        "other names": {"rows": (3, 2), "mean": (2,), "result": (4, 8, 2)},
    },
}
