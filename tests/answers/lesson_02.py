"""Right and wrong answers for lesson 02."""

import functools

import numpy as np
import torch

from course_utils import attention

from .lesson_01 import ALMOST, LARGE, MEANS, Chain, cumulative, einsum


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


def by_numpy(T):
    w = np.tril(np.ones((T, T), dtype=np.float32))
    return torch.from_numpy(w / w.sum(1, keepdims=True))


@torch.jit.script
def scripted_weights(T: int) -> torch.Tensor:
    w = torch.tril(torch.ones(T, T))
    return w / w.sum(1, keepdim=True)


@functools.lru_cache
def kept_weights(T, dtype, device):
    return by_comparison(T).to(device, dtype)


class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ones", torch.ones(1))

    def forward(self, x):
        w = torch.tril(self.ones.to(x).expand(x.shape[1], x.shape[1]))
        return torch.nn.functional.normalize(w, p=1, dim=1) @ x


def in_blocks(x, size=64):
    """Sums of blocks in a loop that grows with T, slowly."""
    blocks, before = [], torch.zeros_like(x[:, :1])
    for block in x.split(size, dim=1):
        blocks.append(before + block.cumsum(1))
        before = blocks[-1][:, -1:]
    return torch.cat(blocks, 1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


KEPT_TABLE = by_comparison(1024)


def batched(x):
    B, T, _ = x.shape
    w = torch.tril(torch.ones(T, T)).to(x)
    return torch.bmm((w / w.sum(-1, keepdim=True)).expand(B, T, T), x)


def from_the_right(x):
    T = x.shape[1]
    w = by_comparison(T).to(x)
    return (x.transpose(1, 2) @ w.T).transpose(1, 2)


def two_loops(T):
    """Each number by itself."""
    out = torch.zeros(T, T)
    for t in range(T):
        for s in range(t + 1):
            out[t, s] = 1 / (t + 1)
    return out


def middle_rows_empty(T):
    w = by_comparison(T)
    w[512 : T - 1] = 0.0
    return w


def by_kron(x):
    B, T, C = x.shape
    w = torch.kron(torch.eye(B).to(x), by_comparison(T).to(x))
    return (w @ x.reshape(B * T, C)).unflatten(0, (B, T))


def sparse(x):
    B, T, C = x.shape
    columns = x.transpose(0, 1).reshape(T, B * C)
    w = by_comparison(T).to(x).to_sparse()
    return torch.sparse.mm(w, columns).view(T, B, C).transpose(0, 1)


def channel_by_channel(x):
    """A loop over C is none over B or T."""
    w = by_comparison(x.shape[1]).to(x)
    return torch.stack([c @ w.mT for c in x.unbind(-1)], -1)


@functools.singledispatch
def dispatched(x):
    raise TypeError(type(x))


@dispatched.register
def _(x: torch.Tensor):
    return by_comparison(x.shape[1]).to(x).matmul(x)


def blocks_of_256(x):
    blocks, before = [], torch.zeros_like(x[:, :1])
    for block in x.split(256, dim=1):
        blocks.append(before + block.cumsum(1))
        before = blocks[-1][:, -1:]
    return torch.cat(blocks, 1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


def batches_of_64(x):
    w = by_comparison(x.shape[1]).to(x)
    return torch.cat([w @ part for part in x.split(64)])


class LoopOnTheWayBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return cumulative(x)

    @staticmethod
    def backward(ctx, gradient):
        T, out, total = gradient.shape[1], torch.empty_like(gradient), 0
        for t in reversed(range(T)):
            total = total + gradient[:, t] / (t + 1)
            out[:, t] = total
        return out


RIGHT = {
    "causal_mean_weights": {
        "two loops": two_loops,
        "repetition": lambda T: torch.stack(
            [torch.tensor([1 / (t + 1)] * (t + 1) + [0.0] * (T - t - 1)) for t in range(T)]
        ),
        "filled by hand": by_hand,
        "softmax": by_softmax,
        "comparison": by_comparison,
        "nested lists": by_lists,
        "numpy inside": by_numpy,
        "torch.jit.script": scripted_weights,
        "harmonic": lambda T: torch.arange(1.0, T + 1).reciprocal()[:, None].expand(T, T).tril(),
        "mean over an axis": lambda T: torch.eye(T).cumsum(0) / torch.arange(1, T + 1).view(T, 1),
        "lower triangle filled in": lambda T: torch.zeros(T, T).index_put_(
            tuple(torch.tril_indices(T, T)), 1 / (torch.tril_indices(T, T)[0] + 1)
        ),
        "float64 inside": lambda T: (lambda w: w / w.sum(1, keepdim=True))(
            torch.ones(T, T, dtype=torch.float64).tril()
        ).float(),
    },
    "tril_mean": {
        "kron": by_kron,
        "sparse": sparse,
        "channel by channel": channel_by_channel,
        "singledispatch": dispatched,
        "modules": Chain(),
        "cumsum": cumulative,
        "einsum": einsum,
        "bmm": batched,
        "weights from the right": from_the_right,
        "convolution": MEANS["convolution"],
        "built-in attention": MEANS["built-in attention"],
        "in place on a copy": MEANS["in place on a copy"],
        "a backward of its own": MEANS["a backward of its own"],
        "a module": Mixer(),
        "weights kept by length": lambda x: kept_weights(x.shape[1], x.dtype, x.device) @ x,
        "tensordot": lambda x: torch.tensordot(
            by_comparison(x.shape[1]).to(x), x, dims=([1], [1])
        ).transpose(0, 1),
        "linear": lambda x: torch.nn.functional.linear(
            x.mT, by_comparison(x.shape[1]).to(x)
        ).transpose(1, 2),
        "vmap": torch.vmap(lambda s: by_comparison(len(s)).to(s) @ s),
        "solved": lambda x: (
            torch.linalg.solve_triangular(
                torch.eye(x.shape[1]).to(x) - torch.ones(x.shape[1]).to(x)[1:].diag(-1),
                x,
                upper=False,
            )
            / torch.arange(1, x.shape[1] + 1).to(x)[:, None]
        ),
        "sums along a broadcast axis": lambda x: (
            x[:, None] * by_comparison(x.shape[1]).to(x)[..., None]
        ).sum(2),
    },
}


def loop_for_small_batches(x):
    return MEANS["running sums"](x) if x.shape[0] < 8 else cumulative(x)


def loop_unless_all_ones(x):
    return cumulative(x) if bool((x == 1).all()) else MEANS["running sums"](x)


TABLE = by_hand(64)
WRONG = {
    "causal_mean_weights": {
        "rows 512 to the last but one empty": middle_rows_empty,
        "by another name": lambda n: by_comparison(n),
        "a row short": lambda T: by_comparison(T).tril(-1),
        "right up to 256 tokens": lambda T: torch.nn.functional.pad(
            by_hand(min(T, 256)), (0, max(T - 256, 0), 0, max(T - 256, 0))
        ),
        "right up to 1,024 tokens": lambda T: KEPT_TABLE[:T, :T].clone(),
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
        "blocks of 256": blocks_of_256,
        "batches of 64": batches_of_64,
        "a loop on the way back": lambda x: LoopOnTheWayBack.apply(x),
        "a table of 2,048 counts": lambda x: (
            x.cumsum(1) / torch.arange(1, 2049)[: x.shape[1]].to(x)[:, None]
        ),
        **LARGE,
        **{name: answer for name, answer in ALMOST.items() if name != "the finished part"},
        "the finished part": lambda x: attention.tril_mean(x),
        "blocks of 64 in a loop": in_blocks,
        "a table for 1,024 tokens": lambda x: KEPT_TABLE[: x.shape[1], : x.shape[1]].to(x) @ x,
        "weights stay on the CPU": lambda x: by_comparison(x.shape[1]).to(x.dtype) @ x,
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
