"""Right and wrong answers for lesson 01."""

import torch


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


MEANS = {
    "running sums": python_sums,
    "cumsum": cumulative,
    "einsum": einsum,
    "incremental": incremental,
    "list comprehension": list_comprehension,
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


WRONG = {
    "naive_mean": {
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
    },
}
