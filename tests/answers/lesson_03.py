"""Right and wrong answers for lesson 03."""

import threading

import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_utils import attention

from .lesson_01 import ALMOST, MEANS, cumulative

INF = float("inf")


def by_max(scores, dim=-1):
    shifted = scores - scores.max(dim, keepdim=True).values
    return shifted.exp() / shifted.exp().sum(dim, keepdim=True)


def detached_max(scores, dim=-1):
    top = scores.detach().amax(dim, keepdim=True)
    e = torch.exp(scores - top)
    return e * e.sum(dim, keepdim=True).reciprocal()


def through_logarithm(scores, dim=-1):
    top = scores.amax(dim, keepdim=True)
    return torch.exp(scores - top - torch.log(torch.exp(scores - top).sum(dim, keepdim=True)))


def moved_dimension(scores, dim=-1):
    s = scores.movedim(dim, 0)
    e = torch.exp(s - s.max(0).values)
    return (e / e.sum(0)).movedim(0, dim)


def power_of_e(scores, dim=-1):
    e = torch.e ** (scores - scores.amax(dim=dim, keepdim=True))
    return e / torch.sum(e, dim=dim, keepdim=True)


def by_where(scores, hidden):
    return torch.softmax(torch.where(hidden, -INF, scores), dim=-1)


def additive(scores, hidden):
    bias = torch.zeros_like(hidden, dtype=scores.dtype).masked_fill(hidden, -INF)
    return torch.softmax(scores + bias, dim=-1)


def by_hand(scores, hidden):
    s = scores.masked_fill(hidden, -INF)
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def row_by_row(scores, hidden):
    s, h = torch.broadcast_tensors(scores, hidden)
    out = torch.zeros_like(s)
    for i in torch.cartesian_prod(*[torch.arange(n) for n in s.shape[:-1]]).reshape(
        -1, s.dim() - 1
    ):
        i = tuple(i.tolist())
        out[(*i, ~h[i])] = torch.softmax(s[i][~h[i]], 0)
    return out


def smallest_number(scores, hidden):
    """What many libraries do: the smallest number of the dtype instead of -inf."""
    return torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)


def mean_additive(x):
    T = x.shape[1]
    bias = torch.full((T, T), -INF, dtype=x.dtype, device=x.device).triu(1)
    return torch.einsum("ts,bsc->btc", bias.softmax(-1), x)


def mean_equal_scores(x):
    """Any equal scores do, not only zeros."""
    T = x.shape[1]
    scores = x.new_full((x.shape[0], T, T), 7.0)
    return by_where(scores, x.new_ones(T, T).triu(1).bool()) @ x


RIGHT = {
    "softmax": {
        "max": by_max,
        "detached maximum": detached_max,
        "through the logarithm": through_logarithm,
        "moved dimension": moved_dimension,
        "power of e": power_of_e,
        "a tiny epsilon": lambda scores, dim=-1: (lambda e: e / (e.sum(dim, keepdim=True) + 1e-9))(
            (scores - scores.amax(dim, keepdim=True)).exp()
        ),
        "in float64 inside": lambda scores, dim=-1: by_max(scores.double(), dim).to(scores.dtype),
    },
    "masked_softmax": {
        "where": by_where,
        "additive mask": additive,
        "by hand": by_hand,
        "row by row": row_by_row,
        "smallest number of the dtype": smallest_number,
    },
    "softmax_mean": {
        "additive mask": mean_additive,
        "equal scores": mean_equal_scores,
        "cumsum": MEANS["cumsum"],
        "finished steps": lambda x: (
            attention.masked_softmax(
                x.new_zeros(x.shape[1], x.shape[1]), attention.causal_mask(x.shape[1], x.device)
            )
            @ x
        ),
    },
}


def _masked(scores, hidden, fill):
    return torch.softmax(scores.masked_fill(hidden, fill), -1)


def in_a_thread(scores, dim=-1):
    found = []
    worker = threading.Thread(target=lambda: found.append(torch.softmax(scores, dim)))
    worker.start()
    worker.join()
    return found[0]


def out_of_sight(scores, dim=-1):
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return torch.softmax(scores, dim)


def lecture_pattern(scores, hidden):
    """Zeroes that are hidden and zeroes that are scores are taken for the same."""
    w = scores * ~hidden
    return torch.softmax(w.masked_fill(w == 0, -INF), -1)


def overflowing(scores, hidden):
    e = torch.where(hidden, 0.0, scores.masked_fill(hidden, 0).clamp(min=-80).exp())
    return e / e.sum(-1, keepdim=True)


WRONG = {
    "softmax": {
        "the built-in in a thread": in_a_thread,
        "the built-in out of sight": out_of_sight,
        "the finished part": lambda scores, dim=-1: attention.softmax(scores, dim),
        "-inf made finite": lambda scores, dim=-1: by_max(
            scores.masked_fill(scores == -INF, -1e4), dim
        ),
        "a little for -inf": lambda scores, dim=-1: by_max(scores, dim).clamp(min=9e-7),
        "three dimensions at most": lambda scores, dim=-1: (
            scores if scores.dim() > 3 else by_max(scores, dim)
        ),
        "dim under another name": lambda scores, axis=-1: by_max(scores, axis),
        "short rows only": lambda scores, dim=-1: (
            torch.full_like(scores, 1 / scores.shape[dim])
            if scores.shape[dim] > 40
            else by_max(scores, dim)
        ),
        "torch.softmax": torch.softmax,
        "the method": lambda scores, dim=-1: scores.softmax(dim),
        "nn.Softmax": lambda scores, dim=-1: torch.nn.Softmax(dim)(scores),
        "log_softmax": lambda scores, dim=-1: torch.log_softmax(scores, dim).exp(),
        "logsumexp": lambda scores, dim=-1: (
            scores - torch.logsumexp(scores, dim, keepdim=True)
        ).exp(),
        "softmin": lambda scores, dim=-1: torch.nn.functional.softmin(-scores, dim),
        "the operator itself": lambda scores, dim=-1: torch.ops.aten._softmax(scores, dim, False),
        "uniform": lambda scores, dim=-1: torch.ones_like(scores) / scores.shape[dim],
        "one-hot": lambda scores, dim=-1: (scores == scores.amax(dim, keepdim=True)).to(scores),
        "squares": lambda scores, dim=-1: scores**2 / (scores**2).sum(dim, keepdim=True),
        "mean subtracted": lambda scores, dim=-1: (lambda e: e / e.sum(dim, keepdim=True))(
            (scores - scores.mean(dim, keepdim=True)).exp()
        ),
        "temperature two": lambda scores, dim=-1: by_max(scores / 2, dim),
        "scaled by the maximum": lambda scores, dim=-1: by_max(
            scores / scores.abs().max().clamp(min=1), dim
        ),
        "detached": lambda scores, dim=-1: by_max(scores.detach(), dim),
        "a big epsilon": lambda scores, dim=-1: (lambda e: e / (e.sum(dim, keepdim=True) + 1e-3))(
            (scores - scores.amax(dim, keepdim=True)).exp()
        ),
        "half precision inside": lambda scores, dim=-1: by_max(scores.bfloat16(), dim).to(scores),
        "maximum of dimension 0": lambda scores, dim=-1: (lambda e: e / e.sum(dim, keepdim=True))(
            (scores - scores.amax(0, keepdim=True)).exp()
        ),
    },
    "masked_softmax": {
        "the pattern of a lecture": lecture_pattern,
        "overflows by hand": overflowing,
        "clamps at 6": lambda scores, hidden: by_where(scores.clamp(max=6), hidden),
        "clamps at 50": lambda scores, hidden: by_where(scores.clamp(-50, 50), hidden),
        "subtracts 3e38": lambda scores, hidden: torch.softmax(scores + hidden * -3e38, -1),
        "subtracts 1e38": lambda scores, hidden: torch.softmax(
            torch.where(hidden, scores - 1e38, scores), -1
        ),
        "the first head's mask for all": lambda scores, hidden: by_where(
            scores, hidden[:1, :1] if scores.dim() == hidden.dim() == 4 else hidden
        ),
        "the finished part": lambda scores, hidden: attention.masked_softmax(scores, hidden),
        "zeros": lambda scores, hidden: torch.zeros_like(scores),
        "fills -1e4": lambda scores, hidden: _masked(scores, hidden, -1e4),
        "fills -1e30": lambda scores, hidden: _masked(scores, hidden, -1e30),
        "fills the row's minimum": lambda scores, hidden: torch.softmax(
            torch.where(hidden, scores.amin(-1, keepdim=True), scores), -1
        ),
        "multiplies by the mask": lambda scores, hidden: torch.softmax(scores * ~hidden, -1),
        "softmax of softmax": lambda scores, hidden: torch.softmax(by_where(scores, hidden), -1),
        "detached": lambda scores, hidden: by_where(scores.detach(), hidden),
        "normalised by the visible count": lambda scores, hidden: (
            torch.softmax(scores, -1)
            .masked_fill(hidden, 0)
            .mul(1 / (~hidden).sum(-1, keepdim=True))
        ),
        "drops hidden keys": lambda scores, hidden: torch.softmax(scores, -1)[
            ~hidden.expand_as(scores)
        ],
        "tiny weight left": lambda scores, hidden: by_where(scores, hidden).clamp(min=1e-6),
        "flattened": lambda scores, hidden: torch.softmax(
            scores.masked_fill(hidden, -INF).flatten(), 0
        ).view_as(scores),
    },
    "softmax_mean": {
        **{name: answer for name, answer in ALMOST.items() if name != "the finished part"},
        "the finished part": lambda x: attention.softmax_mean(x),
        "an earlier finished part": lambda x: attention.tril_mean(x),
        "zeros": torch.zeros_like,
        "identity": lambda x: x.clone(),
        "fills -5": lambda x: (
            _masked(
                x.new_zeros(x.shape[1], x.shape[1]),
                torch.ones(x.shape[1], x.shape[1]).triu(1) > 0,
                -5.0,
            )
            @ x
        ),
        "scores by distance": lambda x: (
            by_where(
                -torch.arange(x.shape[1]).to(x).expand(x.shape[1], -1),
                torch.ones(x.shape[1], x.shape[1]).triu(1) > 0,
            )
            @ x
        ),
        "detached": lambda x: cumulative(x.detach()),
        "right up to position 7": lambda x: torch.cat([cumulative(x)[:, :8], x[:, 8:]], 1),
        "weights returned": lambda x: by_where(
            x.new_zeros(x.shape[0], x.shape[1], x.shape[1]),
            torch.ones(x.shape[1], x.shape[1]).triu(1) > 0,
        ),
        "softmax of the mean": lambda x: torch.softmax(cumulative(x), -1),
        "drops token 0": lambda x: cumulative(x)[:, 1:],
        "half precision inside": lambda x: cumulative(x.bfloat16()).to(x.dtype),
    },
}
