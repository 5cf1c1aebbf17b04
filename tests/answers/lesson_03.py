"""Right and wrong answers for lesson 03."""

import math
import threading

import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_utils import attention

from .lesson_01 import ALMOST, LARGE, MEANS, Chain, by_halves, cumulative

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


def moved_exponentials(scores, dim):
    s = scores.movedim(dim, -1)
    return torch.exp(s - s.amax(-1, keepdim=True))


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


class OwnSoftmax(torch.autograd.Function):
    """With a backward of its own."""

    @staticmethod
    def forward(ctx, scores, dim):
        weights = by_max(scores, dim)
        ctx.save_for_backward(weights)
        ctx.dim = dim
        return weights

    @staticmethod
    def backward(ctx, gradient):
        (weights,) = ctx.saved_tensors
        inner = (gradient * weights).sum(ctx.dim, keepdim=True)
        return weights * (gradient - inner), None


@torch.jit.script
def scripted_softmax(scores: torch.Tensor, dim: int = -1) -> torch.Tensor:
    e = torch.exp(scores - torch.amax(scores, dim, True))
    return e / e.sum(dim, True)


@torch.jit.script
def scripted_masked(scores: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores.masked_fill(hidden, -float("inf")), -1)


class Weigher(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.normalise = torch.nn.Softmax(dim=-1)

    def forward(self, scores, hidden):
        return self.normalise(scores.masked_fill(hidden, -INF))


def in_place_on_a_copy(scores, dim=-1):
    e = scores.clone()
    e -= scores.amax(dim, keepdim=True)
    e = e.exp_()
    return e / e.sum(dim, keepdim=True)


def maximum_overwritten(scores, dim=-1):
    """The copy whose maximum is wanted is changed: right numbers, and backward raises."""
    e = scores.clone()
    e -= e.amax(dim, keepdim=True)
    return e.exp() / e.exp().sum(dim, keepdim=True)


def by_attention(scores, hidden):
    """The built-in attention with the identity as keys and values."""
    eye = torch.eye(scores.shape[-1]).to(scores)
    eye = eye.expand(*scores.shape[:-2], *eye.shape)
    seen = ~hidden.expand_as(scores)
    return torch.nn.functional.scaled_dot_product_attention(
        scores.masked_fill(hidden, 0), eye, eye, attn_mask=seen, scale=1.0
    )


def by_library_mask(x):
    T = x.shape[1]
    bias = torch.nn.Transformer.generate_square_subsequent_mask(T, device=x.device, dtype=x.dtype)
    return bias.softmax(-1) @ x


def by_norm(scores, dim=-1):
    """The exponentials are positive: their sum is their 1-norm."""
    return torch.nn.functional.normalize(
        (scores - scores.amax(dim, keepdim=True)).exp(), p=1, dim=dim, eps=0.0
    )


def by_flatten(scores, dim=-1):
    turned = scores.transpose(dim, -1)
    rows = turned.reshape(-1, turned.shape[-1])
    return by_max(rows).view(turned.shape).transpose(dim, -1)


def by_masked_scatter(scores, hidden):
    hidden = hidden.expand_as(scores)
    low = scores.new_full((int(hidden.sum()),), -INF)
    return scores.masked_scatter(hidden, low).softmax(-1)


def built_in_for_half(scores, dim=-1):
    half = scores.dtype in (torch.float16, torch.bfloat16)
    return torch.softmax(scores, dim) if half else by_max(scores, dim)


def padding_where_it_fits(scores, hidden):
    if scores.dim() == 3 and hidden.dim() == 2 and hidden.shape[0] == scores.shape[0]:
        hidden = hidden[:, None, :]
    return by_where(scores, hidden)


def heads_put_in_where_it_fits(scores, hidden):
    if hidden.dim() == scores.dim() - 1 and hidden.dim() > 2 and len(hidden) == len(scores):
        hidden = hidden.unsqueeze(1)
    return by_where(scores, hidden)


def maximum_of_hidden_too(scores, hidden):
    e = (scores - scores.amax(-1, keepdim=True)).exp().masked_fill(hidden, 0.0)
    return e / e.sum(-1, keepdim=True)


RIGHT = {
    "softmax": {
        "1-norm": by_norm,
        "flattened": by_flatten,
        "mean": lambda scores, dim=-1: (lambda e: e / (e.mean(dim, True) * e.shape[dim]))(
            torch.exp(scores - scores.amax(dim, True))
        ),
        "max": by_max,
        "detached maximum": detached_max,
        "through the logarithm": through_logarithm,
        "moved dimension": moved_dimension,
        "power of e": power_of_e,
        "a tiny epsilon": lambda scores, dim=-1: (lambda e: e / (e.sum(dim, keepdim=True) + 1e-9))(
            (scores - scores.amax(dim, keepdim=True)).exp()
        ),
        "in float64 inside": lambda scores, dim=-1: by_max(scores.double(), dim).to(scores.dtype),
        "a backward of its own": lambda scores, dim=-1: OwnSoftmax.apply(scores, dim),
        "torch.jit.script": scripted_softmax,
        "in place on a copy": in_place_on_a_copy,
        "power of two": lambda scores, dim=-1: (lambda e: e / e.sum(dim, keepdim=True))(
            torch.exp2((scores - scores.amax(dim, keepdim=True)) * math.log2(math.e))
        ),
        "normalize": lambda scores, dim=-1: torch.nn.functional.normalize(
            torch.exp(scores - scores.amax(dim, keepdim=True)), p=1, dim=dim
        ),
        "the maximum by sorting": lambda scores, dim=-1: (lambda e: e / e.sum(dim, keepdim=True))(
            (scores - scores.sort(dim, descending=True).values.narrow(dim, 0, 1)).exp()
        ),
        "sums by a product": lambda scores, dim=-1: (
            lambda e: (e / (e @ torch.ones(e.shape[-1], 1).to(e))).movedim(-1, dim)
        )(moved_exponentials(scores, dim)),
        "more arguments": lambda scores, dim=-1, temperature=1.0: by_max(scores / temperature, dim),
    },
    "masked_softmax": {
        "masked_scatter": by_masked_scatter,
        "logarithm of the mask": lambda scores, hidden: torch.softmax(
            scores + (~hidden).to(scores).log(), -1
        ),
        "broadcast_to": lambda scores, hidden: by_where(scores, hidden.broadcast_to(scores.shape)),
        "where": by_where,
        "additive mask": additive,
        "by hand": by_hand,
        "row by row": row_by_row,
        "smallest number of the dtype": smallest_number,
        "built-in attention": by_attention,
        "torch.jit.script": scripted_masked,
        "a module": Weigher(),
        "float mask": lambda scores, hidden: torch.softmax(
            scores + torch.where(hidden, -INF, 0.0).to(scores), dim=-1
        ),
        "exponentials times mask": lambda scores, hidden: (lambda e: e / e.sum(-1, keepdim=True))(
            torch.exp(
                (scores - scores.masked_fill(hidden, -INF).amax(-1, keepdim=True)).masked_fill(
                    hidden, -INF
                )
            )
        ),
        "in place on a copy": lambda scores, hidden: (
            scores.clone().masked_fill_(hidden, -INF).softmax(-1)
        ),
        "own softmax": lambda scores, hidden: by_max(scores.masked_fill(hidden, -INF)),
        "swapped and back": lambda scores, hidden: (
            scores.masked_fill(hidden, -INF).mT.softmax(-2).mT
        ),
    },
    "softmax_mean": {
        "modules": Chain(),
        "halves": by_halves,
        "additive mask": mean_additive,
        "equal scores": mean_equal_scores,
        "cumsum": MEANS["cumsum"],
        "a library's mask": by_library_mask,
        "built-in attention": MEANS["built-in attention"],
        "a module": MEANS["a module"],
        "a big equal score": lambda x: (
            torch.softmax(
                x.new_full((x.shape[1], x.shape[1]), 300.0).masked_fill(
                    torch.ones_like(x[0, :, :1] @ x[0, :, :1].mT).triu(1).bool(), -INF
                ),
                -1,
            )
            @ x
        ),
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


FUTURE = torch.full((1024, 1024), -INF).triu(1)
WRONG = {
    "softmax": {
        "built in for half": built_in_for_half,
        "five dimensions at most": lambda scores, dim=-1: by_max(
            scores, dim if scores.dim() < 6 else -1
        ),
        "the built-in in a thread": in_a_thread,
        "the built-in out of sight": out_of_sight,
        "the finished part": lambda scores, dim=-1: attention.softmax(scores, dim),
        "right up to 1,024 scores": lambda scores, dim=-1: (
            by_max(scores, dim)
            if scores.shape[dim] <= 1024
            else torch.full_like(scores, 1 / scores.shape[dim])
        ),
        "zeros take no part": lambda scores, dim=-1: by_max(
            scores.masked_fill(scores == 0, -INF), dim
        ),
        "zero where all are equal": lambda scores, dim=-1: torch.where(
            scores.amax(dim, keepdim=True) == scores.amin(dim, keepdim=True),
            0.0,
            by_max(scores, dim),
        ),
        "maximum overwritten": maximum_overwritten,
        "four dimensions at most": lambda scores, dim=-1: by_max(
            scores, dim if scores.dim() < 5 else -1
        ),
        "clamps at 400": lambda scores, dim=-1: by_max(scores.clamp(-400, 400), dim),
        "dim by position only": lambda scores, *rest: by_max(scores, *rest),
        "torch.special": lambda scores, dim=-1: torch.special.softmax(scores, dim),
        "cross entropy": lambda scores, dim=-1: torch.special.log_softmax(scores, dim).exp(),
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
        "padding where it fits": padding_where_it_fits,
        "heads put in where it fits": heads_put_in_where_it_fits,
        "a fill of -1e38": lambda scores, hidden: torch.softmax(
            scores.masked_fill(hidden, -1e38), -1
        ),
        "a mask of one dimension at least": lambda scores, hidden: by_where(
            scores, hidden[..., : scores.shape[-1]]
        ),
        "2,048 keys at most": lambda scores, hidden: by_where(
            scores, hidden | (torch.arange(scores.shape[-1], device=scores.device) >= 2048)
        ),
        "maximum of hidden too": maximum_of_hidden_too,
        "the pattern of a lecture": lecture_pattern,
        "overflows by hand": overflowing,
        "a squeezed mask": lambda scores, hidden: by_where(scores, hidden.squeeze()),
        "the first sequence's mask in five dimensions": lambda scores, hidden: by_where(
            scores, hidden[:1] if hidden.dim() == 5 else hidden
        ),
        "masks of four dimensions at most": lambda scores, hidden: by_where(
            scores, hidden if scores.dim() < 5 else hidden & False
        ),
        "the first row's mask": lambda scores, hidden: by_where(
            scores, hidden[..., :1, :] if hidden.dim() == 4 else hidden
        ),
        "columns only": lambda scores, hidden: by_where(
            scores, hidden.all(-2, keepdim=True) if hidden.dim() > 1 else hidden
        ),
        "right up to 1,024 keys": lambda scores, hidden: by_where(scores, hidden)[..., :1024],
        "equal scores hide nothing": lambda scores, hidden: by_where(
            scores, hidden & (scores.amax(-1, keepdim=True) != scores.amin(-1, keepdim=True))
        ),
        "big scores are hidden": lambda scores, hidden: by_where(scores, hidden | (scores > 400)),
        "the mask left where it was": lambda scores, hidden: by_where(scores, hidden.cpu()),
        "other names": lambda logits, mask: by_where(logits, mask),
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
        **LARGE,
        **{name: answer for name, answer in ALMOST.items() if name != "the finished part"},
        "the finished part": lambda x: attention.softmax_mean(x),
        "an earlier finished part": lambda x: attention.tril_mean(x),
        "zeros": torch.zeros_like,
        "identity": lambda x: x.clone(),
        "a table for 1,024 tokens": lambda x: (
            FUTURE[: x.shape[1], : x.shape[1]].to(x).softmax(-1) @ x
        ),
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
