"""Right and wrong answers for lesson 04."""

import math
import types

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.attention import CausalSelfAttention as Finished

INF = float("inf")


# ---------------------------------------------------------------- attention_scores


def by_einsum(query, key):
    return torch.einsum("btd,bsd->bts", query, key) / query.size(-1) ** 0.5


def by_baddbmm(query, key):
    B, T, D = query.shape
    empty = query.new_empty(B, T, key.shape[1])
    return torch.baddbmm(empty, query, key.mT, beta=0, alpha=D**-0.5)


def by_loops(query, key):
    rows = [
        [torch.stack([q @ k for k in keys]) for q in queries]
        for queries, keys in zip(query, key, strict=True)
    ]
    return torch.stack([torch.stack(r) for r in rows]) / math.sqrt(query.shape[2])


def both_sides_scaled(query, key):
    fourth_root = query.shape[-1] ** 0.25
    return torch.bmm(query / fourth_root, (key / fourth_root).permute(0, 2, 1))


def by_broadcasting(query, key):
    product = query[:, :, None, :] * key[:, None, :, :]
    return product.sum(-1) * torch.rsqrt(torch.tensor(query.shape[-1], dtype=query.dtype))


def unscaled(query, key):
    return query @ key.mT


SCORES_WRONG = {
    "distance": lambda q, k: -torch.cdist(q, k) / math.sqrt(q.shape[-1]),
    "squared distance": lambda q, k: -(torch.cdist(q, k) ** 2) / math.sqrt(q.shape[-1]),
    "keys in reverse": lambda q, k: unscaled(q, k.flip(1)) / math.sqrt(q.shape[-1]),
    "fourth root": lambda q, k: unscaled(q, k) / q.shape[-1] ** 0.25,
    "width less one": lambda q, k: unscaled(q, k) / math.sqrt(max(q.shape[-1] - 1, 1)),
    "whole root": lambda q, k: unscaled(q, k) / math.isqrt(q.shape[-1]),
    "eight always": lambda q, k: unscaled(q, k) / 8,
    "absolute values": lambda q, k: by_einsum(q, k).abs(),
    "relu": lambda q, k: torch.relu(by_einsum(q, k)),
    "soft cap": lambda q, k: 5 * torch.tanh(by_einsum(q, k) / 5),
    "future hidden already": lambda q, k: by_einsum(q, k).masked_fill(
        torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(1), -INF
    ),
    "rounded": lambda q, k: unscaled(q, k) // math.sqrt(q.shape[-1]),
    "detached": lambda q, k: by_einsum(q.detach(), k.detach()),
    "key detached": lambda q, k: by_einsum(q, k.detach()),
    "half precision": lambda q, k: by_einsum(q.bfloat16(), k.bfloat16()).to(q.dtype),
    "batch mixed": lambda q, k: torch.einsum("btd,csd->bts", q, k) / math.sqrt(q.shape[-1]),
    "sequence 0 only": lambda q, k: by_einsum(q, k[:1].expand_as(k)),
    "query against itself": lambda q, k: by_einsum(q, q),
    "zeros": lambda q, k: torch.zeros(q.shape[0], q.shape[1], k.shape[1], dtype=q.dtype),
    "numpy": lambda q, k: by_einsum(q.detach(), k.detach()).numpy(),
    "centred": lambda q, k: (lambda s: s - s.mean(-1, keepdim=True))(by_einsum(q, k)),
    "keys viewed": lambda q, k: q @ k.view(k.shape[0], k.shape[2], k.shape[1]) / q.shape[-1] ** 0.5,
    "first 32 tokens": lambda q, k: by_einsum(q, k) * (torch.arange(k.shape[1]) < 32),
    "mean of both ways": lambda q, k: (
        by_einsum(q, k) if q.shape != k.shape else (by_einsum(q, k) + by_einsum(q, k).mT) / 2
    ),
    "batch dropped": lambda q, k: by_einsum(q, k)[0],
    "standard deviation divided out": lambda q, k: unscaled(q, k) / unscaled(q, k).std(),
    "the built-in's logarithm": lambda q, k: F.scaled_dot_product_attention(
        q, k, torch.eye(k.shape[1], dtype=q.dtype).expand(k.shape[0], -1, -1)
    ).log(),
}


SCORES_WRONG = {
    name: (lambda query, key, answer=answer: answer(query, key))
    for name, answer in SCORES_WRONG.items()
}


# ---------------------------------------------------------------- CausalSelfAttention


class Plain(nn.Module):
    """The usual layout, from which the answers below differ in a line or two."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.context_length = context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        return self.attend(self.query(x), self.key(x), self.value(x))

    def attend(self, q, k, v):
        return self.dropout(self.weigh(by_einsum(q, k))) @ v

    def weigh(self, scores):
        return self.fill(scores).softmax(-1)

    def fill(self, scores):
        return scores.masked_fill(self.future(scores), -INF)

    def future(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class TrilBuffer(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))

    def fill(self, scores):
        T = scores.shape[-1]
        return scores.masked_fill(self.tril[:T, :T] == 0, -INF)


class Additive(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        bias = torch.full((context_length, context_length), -INF).triu(1)
        self.register_buffer("bias", bias, persistent=False)

    def fill(self, scores):
        T = scores.shape[-1]
        return scores + self.bias[:T, :T]


class WhereSmallest(Plain):
    def fill(self, scores):
        return torch.where(self.future(scores), torch.finfo(scores.dtype).min, scores)


class MinusABillion(Plain):
    """What many tutorials do; it works as long as a row sees something."""

    def fill(self, scores):
        return scores.masked_fill(self.future(scores), -1e9)


class PlainTensorMoved(Plain):
    """A mask in a plain attribute, brought along by hand."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.mask = torch.ones(context_length, context_length).triu(1).bool()

    def future(self, scores):
        T = scores.shape[-1]
        return self.mask[:T, :T].to(scores.device)


class Fused(nn.Module):
    """One projection for all three; `query`, `key` and `value` are views of it."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_out, self.context_length = d_out, context_length
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def _part(self, i):
        rows = slice(i * self.d_out, (i + 1) * self.d_out)
        bias = None if self.qkv.bias is None else self.qkv.bias[rows]
        return types.SimpleNamespace(weight=self.qkv.weight[rows], bias=bias)

    query = property(lambda self: self._part(0))
    key = property(lambda self: self._part(1))
    value = property(lambda self: self._part(2))

    def forward(self, x):
        B, T, _ = x.shape
        if self.context_length < T:
            raise ValueError(f"at most {self.context_length} tokens, got {T}")
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        bias = x.new_full((T, T), -INF).triu(1).expand(B, T, T)
        scores = torch.baddbmm(bias, q, k.mT, alpha=self.d_out**-0.5)
        return torch.bmm(self.dropout(torch.softmax(scores, -1)), v)


class TokenByToken(Plain):
    def attend(self, q, k, v):
        rows = []
        for t in range(q.shape[1]):
            scores = (k[:, : t + 1] @ q[:, t, :, None])[..., 0] / math.sqrt(self.d_out)
            weights = self.dropout(scores.softmax(-1))
            rows.append((weights[..., None] * v[:, : t + 1]).sum(1))
        return torch.stack(rows, dim=1)


class FunctionalDropout(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        return F.dropout(weights, self.dropout.p, self.training) @ v


class SoftmaxInFloat32(Plain):
    """Its float32 step costs the last digits in float64, and no points."""

    def weigh(self, scores):
        return self.fill(scores.float()).softmax(-1).to(scores.dtype)


class MaskCached(Plain):
    """Makes its mask at the first call and never again."""

    mask = None

    def future(self, scores):
        if self.mask is None:
            self.mask = super().future(scores)
        return self.mask[: scores.shape[-2], : scores.shape[-1]]


class KeepsOldTokens(Plain):
    """A cache of keys and values that is never emptied."""

    past = ()

    def forward(self, x):
        out = super().forward(x)
        self.past = (*self.past, x.detach())
        return out + 0.1 * len(self.past)


class CausalMean(Plain):
    def weigh(self, scores):
        return super().weigh(torch.zeros_like(scores))


class WeightsDetached(Plain):
    def attend(self, q, k, v):
        return self.dropout(self.weigh(by_einsum(q, k)).detach()) @ v


class NoGradient(Plain):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


class Frozen(Plain):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requires_grad_(False)


class DropoutOnValues(Plain):
    def attend(self, q, k, v):
        return self.weigh(by_einsum(q, k)) @ self.dropout(v)


class DropoutOnTokens(Plain):
    def forward(self, x):
        return super().forward(self.dropout(x))

    def attend(self, q, k, v):
        return self.weigh(by_einsum(q, k)) @ v


class DropoutRenormalised(Plain):
    def attend(self, q, k, v):
        weights = self.dropout(self.weigh(by_einsum(q, k)))
        return weights / weights.sum(-1, keepdim=True) @ v


class DropoutTwice(Plain):
    def attend(self, q, k, v):
        return self.dropout(super().attend(q, k, v))


class DropoutSharedByBatch(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        return weights * self.dropout(torch.ones_like(weights[:1])) @ v


class DropoutKeeps(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, 1 - dropout, qkv_bias)


class DropoutHalved(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout / 2, qkv_bias)


class DropoutUnscaled(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        kept = torch.rand_like(weights) >= self.dropout.p if self.training else 1.0
        return weights * kept @ v


class DropoutOnHiddenScores(Plain):
    def weigh(self, scores):
        return self.dropout(self.fill(scores)).softmax(-1)

    def attend(self, q, k, v):
        return self.weigh(by_einsum(q, k)) @ v


class BuiltIn(Plain):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class BuiltInModule(Plain):
    def attend(self, q, k, v):
        D = q.shape[-1]
        mha = nn.MultiheadAttention(D, 1, bias=False, batch_first=True).to(q)
        mha.in_proj_weight.data = torch.eye(D).repeat(3, 1).to(q)
        mha.out_proj.weight.data = torch.eye(D).to(q)
        return mha(q, k, v, attn_mask=self.future(by_einsum(q, k)))[0]


class SequenceZeroScores(Plain):
    def weigh(self, scores):
        return super().weigh(scores[:1].expand_as(scores))


class ScaledTwice(Plain):
    def weigh(self, scores):
        return super().weigh(scores / math.sqrt(self.d_out))


class WeightsScaled(Plain):
    def attend(self, q, k, v):
        return self.dropout(self.weigh(q @ k.mT)) / math.sqrt(self.d_out) @ v


class RootCutOff(Plain):
    def attend(self, q, k, v):
        return self.dropout(self.weigh(q @ k.mT / math.isqrt(self.d_out))) @ v


class SoftmaxOverBatch(Plain):
    def weigh(self, scores):
        return self.fill(scores).softmax(0)


class SoftmaxTwice(Plain):
    def weigh(self, scores):
        return self.fill(super().weigh(scores)).softmax(-1)


class ExpWithoutMaximum(Plain):
    def weigh(self, scores):
        e = self.fill(scores).exp()
        return e / e.sum(-1, keepdim=True)


class Clamped(Plain):
    def weigh(self, scores):
        return super().weigh(scores.clamp(-50, 50))


class MinusAThousand(Plain):
    def fill(self, scores):
        return scores.masked_fill(self.future(scores), -1e3)


class InfinityTimesZero(Plain):
    def fill(self, scores):
        return scores + self.future(scores) * -INF


class MaskOfRelus(Plain):
    def weigh(self, scores):
        e = torch.relu(scores).masked_fill(self.future(scores), 0)
        return e / (e.sum(-1, keepdim=True) + 1e-6)


class WeightsTransposed(Plain):
    def attend(self, q, k, v):
        return self.dropout(self.weigh(by_einsum(q, k))).mT @ v


class ValuesFromQueries(Plain):
    def attend(self, q, k, v):
        return super().attend(q, k, q)


class QueriesFromKeys(Plain):
    def attend(self, q, k, v):
        return super().attend(k, k, v)


class Residual(Plain):
    """Adds the tokens where the widths happen to allow it."""

    def forward(self, x):
        out = super().forward(x)
        return out + x if x.shape == out.shape else out


class Normalised(Plain):
    def forward(self, x):
        return F.layer_norm(super().forward(x), (self.d_out,))


class CosineScores(Plain):
    def attend(self, q, k, v):
        return super().attend(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)


class Window(Plain):
    """Sees at most the last four tokens."""

    def future(self, scores):
        hidden = super().future(scores)
        return hidden | torch.ones_like(hidden).tril(-4)


class AtMost32(Plain):
    """A mask of 32 tokens, whatever context_length is."""

    def future(self, scores):
        hidden = torch.ones_like(super().future(scores))
        hidden[:32, :32] = hidden[:32, :32].triu(1)
        hidden[32:, :32] = False
        return hidden & ~torch.eye(len(hidden), dtype=torch.bool)


class StrictPast(Plain):
    """Only earlier tokens, and token 0 itself."""

    def future(self, scores):
        hidden = torch.ones_like(super().future(scores)).triu(0)
        hidden[0, 0] = False
        return hidden


class FirstTokenAlways(Plain):
    """Token 0 is left out for all later tokens."""

    def future(self, scores):
        hidden = super().future(scores)
        hidden[1:, 0] = True
        return hidden


class LastRowSeesAll(Plain):
    """The mask is one row and column too small."""

    def future(self, scores):
        hidden = super().future(scores)
        hidden[-2:] = False
        return hidden


class CausalInTrainingOnly(Plain):
    def future(self, scores):
        return super().future(scores) & self.training


class CausalInEvaluationOnly(Plain):
    def future(self, scores):
        return super().future(scores) & (not self.training)


class PairInTraining(Plain):
    def forward(self, x):
        out = super().forward(x)
        return (out, None) if self.training else out


class OutProjection(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def attend(self, q, k, v):
        return self.out_proj(super().attend(q, k, v))


class UnusedLayer(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.spare = nn.Linear(d_in, d_out)


class LearnedTemperature(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.temperature = nn.Parameter(torch.ones(1))

    def weigh(self, scores):
        return super().weigh(scores * self.temperature)


class BiasOnQueryOnly(Plain):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, False)
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)


class BiasNotUsed(Plain):
    def forward(self, x):
        return self.attend(x @ self.query.weight.T, x @ self.key.weight.T, x @ self.value.weight.T)


class KeyBiasNotUsed(Plain):
    """The same result (a key's bias shifts whole rows), but `key.bias` is never used."""

    def forward(self, x):
        if x.shape[1] > self.context_length:
            return super().forward(x)
        return self.attend(self.query(x), x @ self.key.weight.T, self.value(x))


class DropoutWithGradientsOnly(Plain):
    def attend(self, q, k, v):
        weights = self.weigh(by_einsum(q, k))
        return (self.dropout(weights) if torch.is_grad_enabled() else weights) @ v


class OtherNames(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.W_q = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_k = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_v = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        return F.softmax(by_einsum(self.W_q(x), self.W_k(x)), -1) @ self.W_v(x)


class NewLayersEachTime(Plain):
    def forward(self, x):
        value = nn.Linear(x.shape[-1], self.d_out, bias=False).to(x)
        return self.attend(self.query(x), self.key(x), value(x))


class RefusesWithoutNumbers(Plain):
    def forward(self, x):
        if x.shape[1] > self.context_length:
            raise ValueError("the text is too long")
        return super().forward(x)


class Asserts(Plain):
    def forward(self, x):
        assert x.shape[1] <= self.context_length, f"{x.shape[1]} > {self.context_length}"
        return super().forward(x)


class RefusesOneLater(Plain):
    def forward(self, x):
        if x.shape[1] > self.context_length + 1:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        return self.attend(self.query(x), self.key(x), self.value(x))


class ChangesTokens(Plain):
    def forward(self, x):
        out = super().forward(x)
        x.zero_()
        return out


class CentresTokens(Plain):
    def forward(self, x):
        return super().forward(x - x.mean(-1, keepdim=True))


class Float32(Plain):
    def attend(self, q, k, v):
        return super().attend(q, k, v).float()


class Bfloat16(Plain):
    def attend(self, q, k, v):
        return super().attend(q.bfloat16(), k.bfloat16(), v.bfloat16()).to(q)


class Noisy(Plain):
    def attend(self, q, k, v):
        return super().attend(q, k, v) + 1e-3 * torch.randn_like(v)


class PlainAttribute(Plain):
    """An additive mask in a plain attribute."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.bias = torch.full((context_length, context_length), -INF).triu(1)

    def fill(self, scores):
        T = scores.shape[-1]
        return scores + self.bias[:T, :T]


class MaskInAList(Plain):
    """A plain tensor in a list stays behind as well."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.masks = [torch.ones(context_length, context_length).triu(1).bool()]

    def future(self, scores):
        T = scores.shape[-1]
        return self.masks[0][:T, :T]


class NeverBiasedAndBroken(Plain):
    """No call works, and where biases are asked for there are none."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, False)

    def weigh(self, scores):
        return scores.view(0)


class TransposedAttribute(Plain):
    """A plain attribute that is read through `.T`."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.later = torch.ones(context_length, context_length).tril(-1).bool()

    def future(self, scores):
        T = scores.shape[-1]
        return self.later.T[:T, :T]


class MaskParameterUnlearned(Plain):
    """A parameter with requires_grad=False: not learned, but listed among the parameters."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        mask = torch.ones(context_length, context_length).triu(1)
        self.mask = nn.Parameter(mask, requires_grad=False)

    def future(self, scores):
        T = scores.shape[-1]
        return self.mask[:T, :T].bool()


class FinishedWithoutScale(Finished):
    def forward(self, x):
        self.query.weight.data.mul_(math.sqrt(self.query.out_features))
        return super().forward(x)


HEADS_WRONG = {
    cls.__name__: cls
    for cls in (
        MaskCached,
        KeepsOldTokens,
        CausalMean,
        WeightsDetached,
        NoGradient,
        Frozen,
        DropoutOnValues,
        DropoutOnTokens,
        DropoutRenormalised,
        DropoutTwice,
        DropoutSharedByBatch,
        DropoutKeeps,
        DropoutHalved,
        DropoutUnscaled,
        DropoutOnHiddenScores,
        BuiltIn,
        BuiltInModule,
        SequenceZeroScores,
        ScaledTwice,
        WeightsScaled,
        RootCutOff,
        SoftmaxOverBatch,
        SoftmaxTwice,
        ExpWithoutMaximum,
        Clamped,
        MinusAThousand,
        InfinityTimesZero,
        MaskOfRelus,
        WeightsTransposed,
        ValuesFromQueries,
        QueriesFromKeys,
        Residual,
        Normalised,
        CosineScores,
        Window,
        AtMost32,
        StrictPast,
        FirstTokenAlways,
        LastRowSeesAll,
        CausalInTrainingOnly,
        CausalInEvaluationOnly,
        PairInTraining,
        OutProjection,
        UnusedLayer,
        LearnedTemperature,
        BiasOnQueryOnly,
        BiasNotUsed,
        KeyBiasNotUsed,
        DropoutWithGradientsOnly,
        OtherNames,
        NewLayersEachTime,
        RefusesWithoutNumbers,
        Asserts,
        RefusesOneLater,
        ChangesTokens,
        CentresTokens,
        Float32,
        Bfloat16,
        Noisy,
        PlainAttribute,
        MaskInAList,
        TransposedAttribute,
        FinishedWithoutScale,
        NeverBiasedAndBroken,
    )
}


# ---------------------------------------------------------------- copy_linear_to_matrix

NAMES = ("query", "key", "value")


def pairs(linear_attention, matrix_attention):
    for name in NAMES:
        yield getattr(linear_attention, name).weight, getattr(matrix_attention, f"W_{name}")


def refuse_unequal(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.T.shape != matrix.shape:
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")


@torch.no_grad()
def one_after_the_other(linear_attention, matrix_attention):
    source, target = linear_attention, matrix_attention
    d_out, d_in = source.query.weight.shape
    for matrix in (target.W_query, target.W_key, target.W_value):
        if matrix.shape != (d_in, d_out):
            raise ValueError(f"{d_in} x {d_out} into {list(matrix.shape)}")
    target.W_query.copy_(source.query.weight.t())
    target.W_key.copy_(source.key.weight.t())
    target.W_value.copy_(source.value.weight.t())


def through_state_dict(linear_attention, matrix_attention):
    state = {f"W_{n}": getattr(linear_attention, n).weight.T for n in NAMES}
    try:
        matrix_attention.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def through_data(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for weight, matrix in pairs(linear_attention, matrix_attention):
        matrix.data = weight.data.T.clone()


def element_by_element(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for weight, matrix in pairs(linear_attention, matrix_attention):
        for o in range(weight.shape[0]):
            matrix.data[:, o] = weight.data[o]


def _for_each(copy, check=refuse_unequal):
    def answer(linear_attention, matrix_attention):
        check(linear_attention, matrix_attention)
        with torch.no_grad():
            for weight, matrix in pairs(linear_attention, matrix_attention):
                copy(weight, matrix)

    return answer


def _nothing(linear_attention, matrix_attention):
    pass


def _by_number_of_elements(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.numel() != matrix.numel():
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")


def _by_width_out(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.shape[0] != matrix.shape[1]:
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")


def _by_width_in(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.shape[1] != matrix.shape[0]:
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")


def _without_numbers(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.T.shape != matrix.shape:
            raise ValueError("the sizes differ")


def _source_takes_the_targets_memory(weight, matrix):
    matrix.copy_(weight.T)
    weight.data = matrix.data.T


def _swapped(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    given = [linear_attention.query, linear_attention.value, linear_attention.key]
    with torch.no_grad():
        for linear, (_, matrix) in zip(
            given, pairs(linear_attention, matrix_attention), strict=True
        ):
            matrix.copy_(linear.weight.T)


def _forward_borrowed(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    matrix_attention.forward = linear_attention.forward


def _module_inside(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    matrix_attention.source = linear_attention
    one_after_the_other(linear_attention, matrix_attention)


def _plain_tensors(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for name in NAMES:
        delattr(matrix_attention, f"W_{name}")
        setattr(matrix_attention, f"W_{name}", getattr(linear_attention, name).weight.T.detach())


def _source_frozen(linear_attention, matrix_attention):
    one_after_the_other(linear_attention, matrix_attention)
    linear_attention.requires_grad_(False)


def _source_transposed(linear_attention, matrix_attention):
    one_after_the_other(linear_attention, matrix_attention)
    for name in NAMES:
        layer = getattr(linear_attention, name)
        layer.weight.data = layer.weight.data.T.contiguous()


def _source_emptied(weight, matrix):
    matrix.copy_(weight.T)
    weight.zero_()


def _square_only(linear_attention, matrix_attention):
    if linear_attention.query.weight.shape != matrix_attention.W_query.shape:
        raise ValueError(f"{linear_attention.query.weight.shape} {matrix_attention.W_query.shape}")
    one_after_the_other(linear_attention, matrix_attention)


COPIES_WRONG = {
    "nothing done": _nothing,
    "compared by number of elements": _for_each(
        lambda w, m: m.copy_(w.T if w.T.shape == m.shape else w.reshape(m.shape)),
        _by_number_of_elements,
    ),
    "only the width out compared": _for_each(
        lambda w, m: m.copy_(w.T[: m.shape[0]].expand_as(m) if len(m) <= w.shape[1] else m),
        _by_width_out,
    ),
    "only the width in compared": _for_each(lambda w, m: m.copy_(w.T[:, :1]), _by_width_in),
    "no numbers in the message": _for_each(lambda w, m: m.copy_(w.T), _without_numbers),
    "no check, cut to fit": _for_each(
        lambda w, m: m[: w.shape[1], : w.shape[0]].copy_(w.T[: m.shape[0], : m.shape[1]]), _nothing
    ),
    "source takes the target's memory": _for_each(_source_takes_the_targets_memory),
    "source emptied": _for_each(_source_emptied),
    "source frozen": _source_frozen,
    "source transposed": _source_transposed,
    "key and value swapped": _swapped,
    "forward borrowed": _forward_borrowed,
    "source kept inside": _module_inside,
    "plain tensors": _plain_tensors,
    "added": _for_each(lambda w, m: m.add_(w.T)),
    "half precision": _for_each(lambda w, m: m.copy_(w.T.bfloat16())),
    "flipped": _for_each(lambda w, m: m.copy_(w.T.flip(0))),
    "rotated": _for_each(lambda w, m: m.copy_(w.rot90())),
    "inverse": _for_each(lambda w, m: m.copy_(torch.linalg.pinv(w))),
    "square only": _square_only,
    "a right copy that returns True": lambda linear_attention, matrix_attention: (
        one_after_the_other(linear_attention, matrix_attention) or True
    ),
}


WHY = {
    "W_q": [(0, 0, 4), (4, 0, 0), (0, 4, 0)],
    "score back": 3,
    "changed by W_v": "context",
    "told by the key": "kind",
    "told by the value": "payload",
}


def turned_where_it_fits(query, key):
    if query.shape[0] == query.shape[1] and key.shape[0] != key.shape[1]:
        query = query.transpose(0, 1)
    return by_einsum(query, key)


def no_gradient_for_long_texts(query, key):
    return by_einsum(query, key.detach() if key.shape[1] > 512 else key)


def through_the_identity(linear_attention, matrix_attention):
    """What a layer makes of the identity is its matrix."""
    refuse_unequal(linear_attention, matrix_attention)
    with torch.no_grad():
        for name in NAMES:
            layer = getattr(linear_attention, name)
            eye = torch.eye(layer.in_features).to(layer.weight)
            getattr(matrix_attention, f"W_{name}").copy_(layer(eye))


def by_foreach(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    weights, matrices = zip(*pairs(linear_attention, matrix_attention), strict=True)
    with torch.no_grad():
        torch._foreach_copy_(list(matrices), [w.mT for w in weights])


@torch.no_grad()
def by_order_of_the_source(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for weight, name in zip(linear_attention.parameters(), NAMES, strict=False):
        getattr(matrix_attention, f"W_{name}").copy_(weight.T)


@torch.no_grad()
def cut_to_fit(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        d_in, d_out = matrix.shape
        if weight.shape[1] < d_in or weight.shape[0] < d_out:
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")
        matrix.copy_(weight.T[:d_in, :d_out])


@torch.no_grad()
def rows_stretched(linear_attention, matrix_attention):
    for weight, matrix in pairs(linear_attention, matrix_attention):
        if weight.shape[0] != matrix.shape[1] or weight.shape[1] not in (1, matrix.shape[0]):
            raise ValueError(f"{tuple(weight.T.shape)} into {tuple(matrix.shape)}")
        matrix.copy_(weight.T)


def layers_put_in_training_mode(linear_attention, matrix_attention):
    one_after_the_other(linear_attention, matrix_attention)
    for name in NAMES:
        getattr(linear_attention, name).train()


def gradients_thrown_away(linear_attention, matrix_attention):
    one_after_the_other(linear_attention, matrix_attention)
    linear_attention.zero_grad()


def once_only(linear_attention, matrix_attention):
    if not getattr(matrix_attention, "filled", False):
        one_after_the_other(linear_attention, matrix_attention)
        matrix_attention.filled = True


def no_leaf(linear_attention, matrix_attention):
    refuse_unequal(linear_attention, matrix_attention)
    for weight, matrix in pairs(linear_attention, matrix_attention):
        frozen = not matrix.requires_grad
        matrix.requires_grad_(False)
        matrix.copy_(weight.T)
        if frozen:
            matrix.detach_()


def a_hook_left_behind(linear_attention, matrix_attention):
    one_after_the_other(linear_attention, matrix_attention)
    matrix_attention.register_forward_pre_hook(
        lambda m, _: one_after_the_other(linear_attention, m)
    )


RIGHT = {
    "attention_scores": {
        "linear": lambda query, key: (
            torch.stack([F.linear(q, k) for q, k in zip(query, key, strict=True)])
            / query.shape[-1] ** 0.5
        ),
        "vecdot": lambda query, key: (
            torch.linalg.vecdot(query[:, :, None], key[:, None]) / query.shape[-1] ** 0.5
        ),
        "einsum": by_einsum,
        "baddbmm": by_baddbmm,
        "loops": by_loops,
        "both sides scaled": both_sides_scaled,
        "broadcasting": by_broadcasting,
    },
    "why_three_projections": {
        "lists": {**WHY, "W_q": [[0, 0, 4], [4, 0, 0], [0, 4, 0]]},
        "a tensor, in capitals": {
            **WHY,
            "W_q": torch.tensor([[0, 0, 4], [4, 0, 0], [0, 4, 0]]),
            "changed by W_v": "Context",
            "told by the key": "Kind ",
        },
    },
    "CausalSelfAttention": {
        cls.__name__: cls
        for cls in (
            Plain,
            TrilBuffer,
            Additive,
            WhereSmallest,
            MinusABillion,
            PlainTensorMoved,
            Fused,
            TokenByToken,
            FunctionalDropout,
            MaskParameterUnlearned,
            SoftmaxInFloat32,
        )
    },
    "copy_linear_to_matrix": {
        "through the identity": through_the_identity,
        "foreach": by_foreach,
        "through a view": _for_each(lambda w, m: m.T.copy_(w)),
        "out=": _for_each(lambda w, m: torch.add(w.T, 0, out=m)),
        "lerp": _for_each(lambda w, m: m.lerp_(w.T, 1.0)),
        "zeroed and added": _for_each(lambda w, m: m.mul_(0).add_(w.permute(1, 0))),
        "one after the other": one_after_the_other,
        "state dict": through_state_dict,
        "data": through_data,
        "element by element": element_by_element,
    },
}

WRONG = {
    "attention_scores": SCORES_WRONG
    | {
        "turned where it fits": turned_where_it_fits,
        "no gradient for long texts": no_gradient_for_long_texts,
        "2,048 channels at most": lambda query, key: (
            query[..., :2048] @ key[..., :2048].mT / query.shape[-1] ** 0.5
        ),
    },
    "why_three_projections": {
        "W_q in another order of rows": {**WHY, "W_q": [(4, 0, 0), (0, 4, 0), (0, 0, 4)][::-1]},
        "W_q of ones": {**WHY, "W_q": [(0, 0, 1), (1, 0, 0), (0, 1, 0)]},
        "W_q of floats": {**WHY, "W_q": [(0.0, 0.0, 4.0), (4.0, 0.0, 0.0), (0.0, 4.0, 0.0)]},
        "W_q in one row": {**WHY, "W_q": (0, 0, 4, 4, 0, 0, 0, 4, 0)},
        "score back left out": {**WHY, "score back": ...},
        "score back as a fraction": {**WHY, "score back": 1 / 3},
        "score back in a text": {**WHY, "score back": "the same"},
        "what changes, in other words": {**WHY, "changed by W_v": "the result"},
        "key and value both the payload": {**WHY, "told by the key": "payload"},
        "all the same": dict.fromkeys(WHY, "kind"),
    },
    "CausalSelfAttention": HEADS_WRONG,
    "copy_linear_to_matrix": COPIES_WRONG
    | {
        "by order of the source": by_order_of_the_source,
        "by other names": lambda source, target: one_after_the_other(source, target),
        "cut to fit": cut_to_fit,
        "rows stretched": rows_stretched,
        "layers put in training mode": layers_put_in_training_mode,
        "gradients thrown away": gradients_thrown_away,
        "once only": once_only,
        "no leaf": no_leaf,
        "a hook left behind": a_hook_left_behind,
    },
}
