"""More answers for lessons 04 and 05: right ones of unusual build, wrong ones of the kinds that
once got through."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils.attention import CausalSelfAttention as Finished

from .lesson_04 import INF, NAMES, Plain, by_einsum, refuse_unequal
from .lesson_05 import PlainPadded, by_where, refuse_lengths

# ---------------------------------------------------------------- right heads


class ByVmap(Plain):
    """Written for one sequence, mapped over the batch."""

    def attend(self, q, k, v):
        hidden = self.future(q @ k.mT)

        def weigh(query, key):
            scores = query @ key.T / math.sqrt(query.shape[-1])
            return scores.masked_fill(hidden, -INF).softmax(-1)

        return self.dropout(torch.vmap(weigh)(q, k)) @ v


@torch.jit.script
def scripted_weights(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5)
    T = scores.shape[-1]
    hidden = torch.ones(T, T, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1)


class Scripted(Plain):
    def attend(self, q, k, v):
        return self.dropout(scripted_weights(q, k)) @ v


class InPlaceOnItsOwn(Plain):
    """Writes over tensors that it made itself."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.dropout = nn.Dropout(dropout, inplace=True)

    def attend(self, q, k, v):
        scores = q @ k.mT
        scores /= math.sqrt(self.d_out)
        scores.masked_fill_(self.future(scores), -INF)
        return self.dropout(scores.softmax(-1).clone()) @ v


class Mask(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("seen", torch.ones(size, size).tril().bool())

    def forward(self, scores):
        T = scores.shape[-1]
        return torch.where(self.seen[:T, :T], scores, scores.new_tensor(-INF))


class OfParts(Plain):
    """Small modules in a chain."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        parts = Mask(context_length), nn.Softmax(dim=-1), nn.Dropout(dropout)
        self.chain = nn.Sequential(*parts)

    def attend(self, q, k, v):
        return self.chain(by_einsum(q, k)) @ v


class NumpyMask(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        hidden = np.triu(np.ones((context_length, context_length), dtype=bool), 1)
        self.register_buffer("mask", torch.from_numpy(hidden))

    def future(self, scores):
        T = scores.shape[-1]
        return self.mask[:T, :T]


class OwnDropout(Plain):
    """A Bernoulli draw for each weight."""

    def attend(self, q, k, v):
        weights, p = self.weigh(by_einsum(q, k)), self.dropout.p
        if self.training and p > 0:
            kept = torch.distributions.Bernoulli(torch.full_like(weights, 1 - p)).sample()
            weights = weights * kept / (1 - p)
        return weights @ v


class UniformDropout(Plain):
    def attend(self, q, k, v):
        weights, p = self.weigh(by_einsum(q, k)), self.dropout.p
        if self.training:
            weights = torch.where(torch.rand_like(weights) < p, 0.0, weights / (1 - p))
        return weights @ v


class TooLong(ValueError):
    pass


class OwnKindOfError(Plain):
    def forward(self, x):
        T = x.size(1)
        if T > self.context_length:
            raise TooLong("too long", T, self.context_length)
        return self.attend(self.query(x), self.key(x), self.value(x))


class GrowingMask(Plain):
    """A buffer that grows when a longer text comes."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("mask", torch.zeros(0, 0, dtype=torch.bool), persistent=False)

    def future(self, scores):
        T = scores.shape[-1]
        if len(self.mask) < T or self.mask.device != scores.device:
            self.mask = super().future(scores)
        return self.mask[:T, :T]


class SoftmaxByHand(Plain):
    def weigh(self, scores):
        scores = self.fill(scores)
        exps = (scores - scores.amax(-1, keepdim=True)).exp()
        return exps / exps.sum(-1, keepdim=True)


class LogarithmOfTheMask(Plain):
    def fill(self, scores):
        return scores + torch.ones_like(scores).tril().log()


class Checkpointed(Plain):
    """Computes a second time on the way back, to save memory."""

    def attend(self, q, k, v):
        return checkpoint(super().attend, q, k, v, use_reentrant=False)


class Functional(nn.Module):
    """Layers for their weights alone, and no `nn.Dropout`."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        for name in NAMES:
            setattr(self, name, nn.Linear(d_in, d_out, qkv_bias))
        self.context_length, self.p = context_length, dropout

    def forward(self, x):
        T = x.size(-2)
        if not T <= self.context_length:
            raise ValueError(f"{T} tokens, limit {self.context_length}")
        layers = (getattr(self, name) for name in NAMES)
        q, k, v = (F.linear(x, layer.weight, layer.bias) for layer in layers)
        scores = torch.matmul(q, k.permute(0, 2, 1)).div(q.size(-1) ** 0.5)
        at = torch.arange(T, device=x.device)
        scores = scores.masked_fill(at[None, :] > at[:, None], -INF)
        return F.dropout(F.softmax(scores, -1), self.p, self.training).matmul(v)


class KeysAsRows(Plain):
    """Everything transposed, and turned back at the end."""

    def attend(self, q, k, v):
        scores = k @ q.mT / self.d_out**0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).tril(-1)
        return self.dropout(scores.masked_fill(hidden, -INF).softmax(-2)).mT @ v


class AnyArguments(Plain):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)


class Inherited(Finished):
    """Only `forward` is new, as the lesson suggests."""

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} tokens came in, at most {self.context_length} fit")
        query, key, value = self.query(x), self.key(x), self.value(x)
        hidden = self.hidden[:T, :T]
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None, :]
        blind = hidden.all(-1, keepdim=True)
        scores = by_einsum(query, key).masked_fill(hidden, -INF).masked_fill(blind, 0.0)
        return self.dropout(scores.softmax(-1).masked_fill(blind, 0.0)) @ value


class PaddedByVmap(PlainPadded):
    def forward(self, x, pad_mask=None):
        if pad_mask is None:
            pad_mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return super().forward(x, pad_mask)

    def attend(self, q, k, v):
        T = q.shape[1]
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)

        def weigh(query, key, pad):
            return by_where(query @ key.mT / self.d_out**0.5, future | pad[None])

        return self.dropout(torch.vmap(weigh)(q, k, self.pad)) @ v


class FillThenClear(PlainPadded):
    def weigh(self, scores):
        hidden = self.hidden(scores)
        weights = scores.masked_fill(hidden, -1e30).softmax(-1)
        return weights * ~hidden.all(-1, keepdim=True)


# ---------------------------------------------------------------- wrong heads


class ZeroIsHidden(Plain):
    """Takes a score of 0 for a hidden one."""

    def fill(self, scores):
        scores = scores.tril()
        return scores.masked_fill(scores == 0, -INF)


class RefusesInEvaluationOnly(Plain):
    def forward(self, x):
        if not self.training and x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        return self.attend(self.query(x), self.key(x), self.value(x))


class Noise(Plain):
    """Multiplies by noise in place of dropping."""

    def attend(self, q, k, v):
        weights, p = self.weigh(by_einsum(q, k)), self.dropout.p
        if self.training and p:
            weights = weights * (1 + torch.randn_like(weights) * math.sqrt(p / (1 - p)))
        return weights @ v


class OwnTokenKept(Plain):
    """Never drops the weight of the token itself."""

    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        own = torch.eye(len(weights[0]), dtype=torch.bool, device=q.device)
        return torch.where(own, weights, self.dropout(weights)) @ v


class DropsBeforeTheMask(Plain):
    def weigh(self, scores):
        if self.training:
            scores = scores.masked_fill(torch.rand_like(scores) < self.dropout.p, -1e30)
        return super().weigh(scores)

    def attend(self, q, k, v):
        return self.weigh(by_einsum(q, k)) @ v


class _OtherDropout(Plain):
    kind = nn.Dropout1d

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.dropout = self.kind(dropout)


class Dropout1d(_OtherDropout):
    pass


class AlphaDropout(_OtherDropout):
    kind = nn.AlphaDropout


class DropoutLineWithoutEffect(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        self.dropout(weights)
        return weights @ v


class EverySecondSequence(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        even = torch.arange(len(q), device=q.device)[:, None, None] % 2 == 0
        return torch.where(even, self.dropout(weights), weights) @ v


class DrawKept(Plain):
    """One draw for all calls of a size."""

    kept = None

    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        if not self.training:
            return weights @ v
        if self.kept is None or self.kept.shape != weights.shape:
            self.kept = self.dropout(torch.ones_like(weights)).detach()
        return weights * self.kept @ v


class OwnSeed(Plain):
    """Every module draws the same."""

    def attend(self, q, k, v):
        weights, p = self.weigh(by_einsum(q, k)), self.dropout.p
        if self.training:
            if not hasattr(self, "source"):
                self.source = torch.Generator().manual_seed(0)
            kept = torch.rand(weights.shape, generator=self.source) >= p
            weights = weights * kept / (1 - p)
        return weights @ v


class ValuesDetachedInTraining(Plain):
    def attend(self, q, k, v):
        return super().attend(q, k, v.detach() if self.training else v)


class QueriesDetached(Plain):
    def attend(self, q, k, v):
        return super().attend(q.detach(), k, v)


class AtMost1024(Plain):
    def future(self, scores):
        hidden = super().future(scores)
        return hidden & (torch.arange(len(hidden), device=scores.device)[:, None] < 1024)


class MaskOfTheClass(Plain):
    mask = torch.ones(2000, 2000, dtype=torch.bool).triu(1)

    def future(self, scores):
        T = scores.shape[-1]
        return self.mask[:T, :T]


class ForwardMisspelt(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        for name in NAMES:
            setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))

    def foward(self, x):
        return by_einsum(self.query(x), self.key(x)).softmax(-1) @ self.value(x)


class ArgumentsInAnotherOrder(Plain):
    def __init__(self, d_in, d_out, context_length, qkv_bias=False, dropout=0.0):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)


class ArgumentsOfOtherNames(Plain):
    def __init__(self, d_in, d_out, block_size, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, block_size, dropout, qkv_bias)


class MaskExpected(Plain):
    def forward(self, x, mask):
        return super().forward(x)


class EmptyByEqualWeights(PlainPadded):
    """Guesses from equal weights that a row sees nothing."""

    def weigh(self, scores):
        weights = scores.masked_fill(self.hidden(scores), -1e30).softmax(-1)
        equal = (weights - weights[..., :1]).abs().amax(-1, keepdim=True) == 0
        return weights.masked_fill(equal & (weights.shape[-1] > 1), 0.0)


class RowsDroppedWherePadded(PlainPadded):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        if self.pad is None:
            return self.dropout(weights) @ v
        return weights * self.dropout(torch.ones_like(weights[..., :1])) @ v


class DroppedTwiceWherePadded(PlainPadded):
    def attend(self, q, k, v):
        weights = self.dropout(self.weigh(by_einsum(q, k)))
        return (weights if self.pad is None else self.dropout(weights)) @ v


class NothingDroppedWherePadded(PlainPadded):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        return (self.dropout(weights) if self.pad is None else weights) @ v


class RefusesUnpaddedOnly(PlainPadded):
    def forward(self, x, pad_mask=None):
        self.pad = pad_mask
        if pad_mask is None and x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        return self.attend(self.query(x), self.key(x), self.value(x))


class PaddingUpTo64(PlainPadded):
    def columns(self, pad):
        return (pad & (torch.arange(pad.shape[1], device=pad.device) < 64))[:, None, :]


class PaddingOnTheCpu(PlainPadded):
    def columns(self, pad):
        return torch.tensor(pad.tolist())[:, None, :]


# ---------------------------------------------------------------- functions


@torch.jit.script
def scripted_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return query @ key.transpose(-2, -1) / (query.shape[-1] ** 0.5)


def channel_by_channel(query, key):
    scores = query.new_zeros(query.shape[0], query.shape[1], key.shape[1])
    for d in range(query.shape[-1]):
        scores = scores + query[:, :, d, None] * key[:, None, :, d]
    return scores / float(np.sqrt(query.shape[-1]))


def sequence_by_sequence(query, key):
    pairs = zip(query, key, strict=True)
    return torch.stack([torch.tensordot(q, k, ([1], [1])) for q, k in pairs]) / query.size(2) ** 0.5


def up_to_1024(query, key):
    return query[..., :1024] @ key[..., :1024].mT / math.sqrt(query.shape[-1])


def key_divided(query, key):
    key /= math.sqrt(key.shape[-1])
    return query @ key.mT


def kind_looked_at(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point():
        raise ValueError(f"no integers: {lengths.tolist()}")
    lengths = lengths.long()  # as bytes, 255 > 300 would be 255 > 44
    if bool(((lengths < 0) | (lengths > max_length)).any()):
        raise ValueError(f"{lengths.tolist()} are not all between 0 and {max_length}")
    return torch.arange(max_length, device=lengths.device) >= lengths.unsqueeze(1)


def counted_one_by_one(lengths, max_length):
    for n in lengths:
        n = n.item() if isinstance(n, torch.Tensor) else n
        if type(n) is not int or not 0 <= n <= max_length:
            raise ValueError(f"{n} is not between 0 and {max_length}")
    lengths = torch.as_tensor(lengths)
    mask = torch.ones(len(lengths), max_length, dtype=torch.bool, device=lengths.device)
    for row, n in enumerate(lengths):
        mask[row, : int(n)] = False
    return mask


def takes_whole_floats(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    for n in lengths.tolist():
        if n != int(n) or not 0 <= n <= max_length:
            raise ValueError(f"{n} is not between 0 and {max_length}")
    return torch.arange(max_length, device=lengths.device) >= lengths[:, None]


def made_on_the_cpu(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    return torch.tensor([[s >= n for s in range(max_length)] for n in counts])


def tensors_not_looked_at(lengths, max_length):
    if isinstance(lengths, list):
        refuse_lengths(lengths, max_length)
    lengths = torch.as_tensor(lengths)
    return torch.arange(max_length, device=lengths.device) >= lengths[:, None]


def last_length_looked_at(lengths, max_length):
    refuse_lengths(lengths[-1:], max_length)
    lengths = torch.as_tensor(lengths)
    return torch.arange(max_length, device=lengths.device) >= lengths[:, None]


def row_by_row(scores, hidden):
    hidden = hidden.expand_as(scores)

    def weigh(row, blind):
        safe = torch.where(blind, -INF, row).where(~blind.all(), torch.zeros_like(row))
        return safe.softmax(-1).where(~blind.all(), torch.zeros_like(row))

    S = scores.shape[-1]
    return torch.vmap(weigh)(scores.reshape(-1, S), hidden.reshape(-1, S)).view(scores.shape)


def by_exponentials(scores, hidden):
    top = scores.masked_fill(hidden, -3e38).amax(-1, keepdim=True)
    exps = torch.where(hidden, 0.0, (scores - top).masked_fill(hidden, 0.0).exp())
    return exps / exps.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


def in_place_on_a_copy(scores, hidden):
    hidden = hidden.expand_as(scores)
    empty, scores = hidden.all(-1), scores.clone()
    scores[hidden] = -INF
    scores[empty] = 0.0
    weights = scores.softmax(-1).clone()
    weights[empty] = 0.0
    return weights


def first_mask_for_all(scores, hidden):
    hidden = hidden.expand_as(scores)
    return by_where(scores, hidden[:1].expand_as(hidden) if hidden.dim() > 2 else hidden)


def two_dimensions_of_mask(scores, hidden):
    hidden = hidden.expand_as(scores)
    while hidden.dim() > 2:
        hidden = hidden[0]
    return by_where(scores, hidden)


def up_to_512(scores, hidden):
    shown = torch.arange(scores.shape[-1], device=scores.device) >= 512
    return by_where(scores, hidden & ~shown)


def zeros_hidden_too(scores, hidden):
    return by_where(scores, hidden.expand_as(scores) | (scores == 0))


def clamped_above(scores, hidden):
    return by_where(scores.clamp(max=100), hidden)


def times_ones_of_the_cpu(scores, hidden):
    return by_where(scores, hidden) * torch.ones(scores.shape[-1])


def filled_with_zeros_first(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    with torch.no_grad():
        for name in NAMES:
            matrix = getattr(matrix_attention, f"W_{name}")
            matrix.zero_().add_(getattr(linear_attention, name).weight.t())


def sliced_in(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for name in NAMES:
        getattr(matrix_attention, f"W_{name}").data[:] = getattr(linear_attention, name).weight.mT


def _compares_only(*names):
    def answer(linear_attention, matrix_attention):
        for name in NAMES:
            weight = getattr(linear_attention, name).weight.T
            matrix = getattr(matrix_attention, f"W_{name}")
            if name in names and weight.shape != matrix.shape:
                raise ValueError(f"{tuple(weight.shape)} into {tuple(matrix.shape)}")
            with torch.no_grad():
                matrix.copy_(weight)

    return answer


def assigned(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    weights = {f"W_{n}": getattr(linear_attention, n).weight.T.clone() for n in NAMES}
    matrix_attention.load_state_dict(weights, assign=True)


def _by_name(*answers):
    return {answer.__name__.replace("_", " "): answer for answer in answers}


def _classes(*answers):
    return {answer.__name__: answer for answer in answers}


RIGHT = {
    "attention_scores": {
        "scripted": lambda query, key: scripted_scores(query, key),
        "vmap": lambda query, key: torch.vmap(torch.matmul)(query, key.mT) / key.shape[-1] ** 0.5,
    }
    | _by_name(channel_by_channel, sequence_by_sequence),
    "CausalSelfAttention": _classes(
        ByVmap,
        Scripted,
        InPlaceOnItsOwn,
        OfParts,
        NumpyMask,
        OwnDropout,
        UniformDropout,
        OwnKindOfError,
        GrowingMask,
        SoftmaxByHand,
        LogarithmOfTheMask,
        Checkpointed,
        Functional,
        KeysAsRows,
        AnyArguments,
    ),
    "copy_linear_to_matrix": _by_name(filled_with_zeros_first, sliced_in),
    "padding_mask": _by_name(kind_looked_at, counted_one_by_one),
    "safe_masked_softmax": _by_name(row_by_row, by_exponentials, in_place_on_a_copy),
    "PaddedCausalSelfAttention": _classes(Inherited, PaddedByVmap, FillThenClear),
}

WRONG = {
    "attention_scores": _by_name(up_to_1024, key_divided)
    | {"other names": lambda q, k: by_einsum(q, k)},
    "CausalSelfAttention": _classes(
        ZeroIsHidden,
        RefusesInEvaluationOnly,
        Noise,
        OwnTokenKept,
        DropsBeforeTheMask,
        Dropout1d,
        AlphaDropout,
        DropoutLineWithoutEffect,
        EverySecondSequence,
        DrawKept,
        OwnSeed,
        ValuesDetachedInTraining,
        QueriesDetached,
        AtMost1024,
        MaskOfTheClass,
        ForwardMisspelt,
        ArgumentsInAnotherOrder,
        ArgumentsOfOtherNames,
        MaskExpected,
    ),
    "copy_linear_to_matrix": _by_name(assigned)
    | {
        "only the query compared": _compares_only("query"),
        "the value not compared": _compares_only("query", "key"),
    },
    "padding_mask": _by_name(
        takes_whole_floats, made_on_the_cpu, tensors_not_looked_at, last_length_looked_at
    ),
    "safe_masked_softmax": _by_name(
        first_mask_for_all,
        two_dimensions_of_mask,
        up_to_512,
        zeros_hidden_too,
        clamped_above,
        times_ones_of_the_cpu,
    ),
    "PaddedCausalSelfAttention": _classes(
        EmptyByEqualWeights,
        RowsDroppedWherePadded,
        DroppedTwiceWherePadded,
        NothingDroppedWherePadded,
        RefusesUnpaddedOnly,
        PaddingUpTo64,
        PaddingOnTheCpu,
    ),
}
