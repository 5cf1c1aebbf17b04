"""Right and wrong answers for lesson 03."""

import math

import torch

from course_utils import attention
from tests.answers.means import WRONG_MEANS, built_in_attention, cumulative

INF = float("inf")


# ---------------------------------------------------------------- softmax


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
    e = math.e ** (scores - scores.amax(dim=dim, keepdim=True))
    return e / torch.sum(e, dim=dim, keepdim=True)


def with_epsilon(epsilon):
    """A number is added to the sum; a tiny one is lost in rounding."""

    def softmax(scores, dim=-1):
        e = (scores - scores.amax(dim, keepdim=True)).exp()
        return e / (e.sum(dim, keepdim=True) + epsilon)

    return softmax


# ---------------------------------------------------------------- masked_softmax


def by_where(scores, hidden):
    return torch.softmax(torch.where(hidden, -INF, scores), dim=-1)


def filled(fill):
    return lambda scores, hidden: torch.softmax(scores.masked_fill(hidden, fill), -1)


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
    for i in torch.cartesian_prod(*map(torch.arange, s.shape[:-1])).reshape(-1, s.dim() - 1):
        i = tuple(i.tolist())
        out[(*i, ~h[i])] = torch.softmax(s[i][~h[i]], 0)
    return out


# ---------------------------------------------------------------- softmax_mean


def mean_additive(x):
    T = x.shape[1]
    bias = torch.full((T, T), -INF, dtype=x.dtype, device=x.device).triu(1)
    return torch.einsum("ts,bsc->btc", bias.softmax(-1), x)


def mean_equal_scores(x):
    """Any equal scores do, not only zeros; a batch of them too."""
    T = x.shape[1]
    scores = x.new_full((x.shape[0], T, T), 7.0)
    return by_where(scores, x.new_ones(T, T).triu(1).bool()) @ x


def mean_of_low_fill(x):
    T = x.shape[1]
    return filled(-1e9)(x.new_zeros(T, T), x.new_ones(T, T).triu(1).bool()) @ x


def with_finished_steps(x):
    T = x.shape[1]
    return attention.masked_softmax(x.new_zeros(T, T), attention.causal_mask(T, x.device)) @ x


RIGHT = {
    "softmax": {
        "max": by_max,
        "detached maximum": detached_max,
        "through the logarithm": through_logarithm,
        "moved dimension": moved_dimension,
        "power of e": power_of_e,
        "a tiny epsilon": with_epsilon(1e-9),
    },
    "masked_softmax": {
        "where": by_where,
        "additive mask": additive,
        "by hand": by_hand,
        "row by row": row_by_row,
        "a fill of -1e9": filled(-1e9),
        "a fill of -1e4": filled(-1e4),
    },
    "softmax_mean": {
        "additive mask": mean_additive,
        "equal scores": mean_equal_scores,
        "a fill of -1e9": mean_of_low_fill,
        "built-in attention": built_in_attention,
        "finished steps": with_finished_steps,
    },
}


WRONG = {
    "softmax": {
        "the finished part": (0, lambda scores, dim=-1: attention.softmax(scores, dim)),
        "sigmoid": (0, lambda scores, dim=-1: 1 / (1 + (-scores).exp())),
        "one-hot": (
            0,
            lambda scores, dim=-1: (scores == scores.amax(dim, keepdim=True)).to(scores),
        ),
    },
    "masked_softmax": {
        "fills -1": (0.25, filled(-1.0)),
        "the finished part": (0, lambda scores, hidden: attention.masked_softmax(scores, hidden)),
    },
    "softmax_mean": {
        **WRONG_MEANS,
        "cumsum": (1, cumulative),
        "detached": (1, WRONG_MEANS["detached"][1]),
    },
}
