"""Right and wrong answers for lesson 01."""

import functools
import itertools

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


class RunningMean(torch.autograd.Function):
    """With a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        counts = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        ctx.save_for_backward(counts)
        return x.cumsum(1) / counts.to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (counts,) = ctx.saved_tensors
        return (gradient / counts.to(gradient)).flip(1).cumsum(1).flip(1)


class Averager(torch.nn.Module):
    """A module in place of a function, with a cache of its own tensors by length."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def forward(self, x):
        place = x.shape[1], x.dtype, x.device
        if place not in self.counts:
            self.counts[place] = torch.arange(1, x.shape[1] + 1).to(x)[:, None]
        return x.cumsum(1) / self.counts[place]


class Helper:
    def __init__(self, x):
        self.x = x

    def at(self, t):
        return self.x[:, : t + 1].sum(dim=1).div_(t + 1)

    def all(self):
        out = torch.empty_like(self.x)
        for t in range(out.size(1)):
            out[:, t] = self.at(t)
        return out


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for t in range(x.size(1)):
        out[:, t] = x[:, : t + 1].mean(1)
    return out


def by_accumulate(x):
    sums = itertools.accumulate(x.unbind(1), torch.add)
    return torch.stack([s / n for n, s in enumerate(sums, start=1)], dim=1)


def by_boolean_index(x):
    positions = torch.arange(x.shape[1], device=x.device)
    return torch.stack([x[:, positions <= t].mean(1) for t in range(x.shape[1])], 1)


def in_float64(x):
    return cumulative(x.double()).to(x.dtype)


def in_slices_of_one_tensor(x):
    out = x.clone()
    for t in range(1, x.shape[1]):
        out[:, t] = out[:, t - 1] + x[:, t]
    return out / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


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
    "a backward of its own": RunningMean.apply,
    "a module": Averager(),
    "a helper class": lambda x: Helper(x).all(),
    "torch.jit.script": scripted,
    "itertools.accumulate": by_accumulate,
    "boolean index": by_boolean_index,
    "in float64": in_float64,
    "sums kept in the result": in_slices_of_one_tensor,
    "vmap": torch.vmap(lambda s: cumulative(s[None])[0]),
    "partial": functools.partial(lambda scale, x: cumulative(x) * scale, 1.0),
    "unfold": lambda x: (
        torch.nn.functional.pad(x, (0, 0, x.shape[1] - 1, 0))
        .unfold(1, x.shape[1], 1)
        .sum(-1)
        .div(torch.arange(1, x.shape[1] + 1).to(x)[:, None])
    ),
}


def by_halves(x):
    """Sums of halves, put together on the way back."""

    def sums(part):
        T = part.shape[1]
        if T == 1:
            return part
        left, right = sums(part[:, : T // 2]), sums(part[:, T // 2 :])
        return torch.cat([left, right + left[:, -1:]], 1)

    return sums(x) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]


def by_doubling(x):
    """Sums over 1, 2, 4, … tokens."""
    out, step = x, 1
    while step < x.shape[1]:
        out = out + torch.nn.functional.pad(out, (0, 0, step, 0))[:, : x.shape[1]]
        step *= 2
    return out / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]


def by_narrow(x):
    rows = [x.narrow(1, 0, t + 1).mean(1, keepdim=True) for t in range(x.size(1))]
    return torch.cat(rows, dim=1)


class Chain(torch.nn.Sequential):
    """Modules one after the other: what goes in has no name."""

    def __init__(self):
        super().__init__(Turn(), Sums(), Turn())


class Turn(torch.nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Sums(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(-1) / torch.arange(1, x.size(-1) + 1, device=x.device)


def in_place_without_gradients(x):
    counts = torch.arange(1, x.shape[1] + 1).to(x)[:, None]
    return cumulative(x) if torch.is_grad_enabled() else x.cumsum_(1).div_(counts)


# Wrong where sizes or numbers are larger than usual.
LARGE = {
    "16 channels at most": lambda x: torch.cat([cumulative(x[..., :16]), x[..., 16:]], -1),
    "16 sequences at most": lambda x: torch.cat([cumulative(x[:16]), x[16:]], 0),
    "clamped at 20,000": lambda x: cumulative(x.clamp(-2e4, 2e4)),
    "one more where gradients are wanted": lambda x: cumulative(x) + int(x.requires_grad),
    "in place without gradients": in_place_without_gradients,
}


RIGHT = {
    "naive_mean": MEANS
    | {"halves": by_halves, "doubling": by_doubling, "narrow": by_narrow, "modules": Chain()},
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
    "zeros don't count": lambda x: x.cumsum(1) / (x != 0).cumsum(1).clamp(min=1),
    "tokens of zeros left as they are": lambda x: torch.where(
        (x == 0).all(-1, keepdim=True), x, cumulative(x)
    ),
    "right up to 256 tokens": lambda x: torch.cat([cumulative(x)[:, :256], x[:, 256:]], 1),
    "clamped at 5,000": lambda x: cumulative(x.clamp(-5e3, 5e3)),
    "no gradient for one sequence": lambda x: cumulative(x if len(x) > 1 else x.detach()),
    "remembers by address": lambda x: _KEPT.setdefault((x.data_ptr(), x.shape), cumulative(x)),
    "asks its input for gradients": lambda x: cumulative(x.requires_grad_()),
    "the finished part": lambda x: attention.naive_mean(x) + 0,
}

WRONG = {
    "naive_mean": LARGE
    | {
        "a table of 512 counts": lambda x: (
            x.cumsum(1) / torch.arange(1, 513)[: x.shape[1]].to(x)[:, None]
        ),
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
