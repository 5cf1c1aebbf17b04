"""Right and wrong answers for lesson 05."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .lesson_04 import Plain, by_einsum

INF = float("inf")


# ---------------------------------------------------------------- padding_mask


def refuse_lengths(lengths, max_length):
    """The lengths as a list of int, refused where they make no sense."""
    counts = lengths.tolist() if isinstance(lengths, torch.Tensor) else list(lengths)
    for n in counts:
        if not isinstance(n, int) or n < 0 or n > max_length:
            raise ValueError(f"length {n} is no integer between 0 and {max_length}")
    return counts


def _device(lengths):
    return lengths.device if isinstance(lengths, torch.Tensor) else None


def filled_row_by_row(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    mask = torch.ones(len(counts), max_length, dtype=torch.bool, device=_device(lengths))
    for row, n in zip(mask, counts, strict=True):
        row[:n] = False
    return mask


def of_lists(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    rows = [[False] * n + [True] * (max_length - n) for n in counts]
    return torch.tensor(rows, dtype=torch.bool, device=_device(lengths))


def by_cumsum(lengths, max_length):
    counts = torch.tensor(refuse_lengths(lengths, max_length), device=_device(lengths))
    places = torch.ones(len(counts), max_length, device=counts.device).cumsum(1)
    return places > counts.unsqueeze(1)


def by_tril(lengths, max_length):
    counts = torch.tensor(refuse_lengths(lengths, max_length), device=_device(lengths))
    table = torch.ones(max_length + 1, max_length, dtype=torch.bool, device=counts.device)
    return table.triu()[counts.long()]


def _mask_then(change):
    return lambda lengths, max_length: change(of_lists(lengths, max_length))


def _sorted(lengths, max_length):
    counts = sorted(refuse_lengths(lengths, max_length), reverse=True)
    return of_lists(counts, max_length)


def _from_next(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    return of_lists([*counts[1:], counts[0]], max_length)


def _clamped(lengths, max_length):
    counts = torch.as_tensor(lengths).clamp(0, max_length).int()
    return of_lists(counts, max_length)


def _cut_to_int(lengths, max_length):
    return of_lists([int(n) for n in lengths], max_length)


def _says_nothing(lengths, max_length):
    try:
        return of_lists(lengths, max_length)
    except ValueError:
        raise ValueError("wrong lengths") from None


def _says_limit_only(lengths, max_length):
    try:
        return of_lists(lengths, max_length)
    except ValueError:
        raise ValueError(f"lengths must be between 0 and {max_length}") from None


def _type_error(lengths, max_length):
    try:
        return of_lists(lengths, max_length)
    except ValueError as error:
        raise TypeError(str(error)) from None


def _first_length_checked(lengths, max_length):
    refuse_lengths(lengths[:1], max_length)
    return torch.arange(max_length) >= torch.as_tensor(lengths)[:, None]


def _sum_checked(lengths, max_length):
    if sum(lengths) > max_length * len(lengths):
        raise ValueError(f"{sum(lengths)} tokens don't fit into {max_length}")
    return torch.arange(max_length) >= torch.as_tensor(lengths)[:, None]


def _for_four(lengths, max_length):
    return torch.arange(4) >= torch.tensor(refuse_lengths(lengths, max_length))[:, None]


def _zero_means_full(lengths, max_length):
    counts = [n or max_length for n in refuse_lengths(lengths, max_length)]
    return of_lists(counts, max_length)


def _writes_lengths(lengths, max_length):
    mask = of_lists(lengths, max_length)
    if isinstance(lengths, torch.Tensor):
        lengths.sub_(1)
    else:
        lengths.append(0)
    return mask


# ---------------------------------------------------------------- causal_and_padding


def rows_of_loops(pad_mask):
    T = pad_mask.shape[1]
    hidden = pad_mask.unsqueeze(1).repeat(1, T, 1)
    for t in range(T):
        hidden[:, t, t + 1 :] = True
    return hidden


def what_is_seen(pad_mask):
    T = pad_mask.size(1)
    past = torch.tril(torch.ones(T, T, device=pad_mask.device)) > 0
    return torch.logical_not(past[None] & ~pad_mask.unsqueeze(-2))


def by_positions(pad_mask):
    at = torch.arange(pad_mask.shape[-1], device=pad_mask.device)
    return (at[None, None, :] > at[None, :, None]) | pad_mask[:, None]


def by_arithmetic(pad_mask):
    T = pad_mask.shape[1]
    future = torch.ones(T, T, device=pad_mask.device).triu(1)
    return (future[None] + pad_mask[:, None, :].float()).bool()


def _future(pad_mask, diagonal=1):
    T = pad_mask.shape[1]
    return torch.ones(T, T, dtype=torch.bool, device=pad_mask.device).triu(diagonal)


# ---------------------------------------------------------------- safe_masked_softmax


def by_where(scores, hidden):
    seen = ~hidden
    filled = torch.where(seen, scores, -INF)
    safe = torch.where(seen.any(-1, keepdim=True), filled, torch.zeros_like(filled))
    return torch.where(seen, safe.softmax(-1), 0.0)


def patched_leaf(scores, hidden):
    """The NaN arises and is patched; the gradient of the scores happens to be finite."""
    return scores.masked_fill(hidden, -INF).softmax(-1).nan_to_num()


def where_is_nan(scores, hidden):
    weights = torch.softmax(scores.masked_fill(hidden, -INF), -1)
    return weights.masked_fill(weights.isnan(), 0.0)


def cleared_afterwards(scores, hidden):
    weights = scores.masked_fill(hidden, -INF).softmax(-1)
    return torch.where(hidden.all(-1, keepdim=True), 0.0, weights)


def nan_in_place(scores, hidden):
    """By hand: 0 / 0 in an empty row, patched afterwards."""
    filled = scores.masked_fill(hidden, -INF)
    top = filled.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    e = (filled - top.detach()).exp()
    return (e / e.sum(-1, keepdim=True)).nan_to_num()


def smallest_then_cleared(scores, hidden):
    filled = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return filled.softmax(-1).masked_fill(hidden, 0.0)


def by_hand(scores, hidden):
    filled = scores.masked_fill(hidden, -INF)
    top = filled.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    e = (filled - top.detach()).exp()
    total = e.sum(-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1.0)


def full_rows_only(scores, hidden):
    hidden = hidden.expand_as(scores)
    full = ~hidden.all(-1)
    weights = torch.zeros_like(scores)
    weights[full] = scores[full].masked_fill(hidden[full], -INF).softmax(-1)
    return weights


def dummy_key(scores, hidden):
    """One more key that is seen by empty rows only."""
    hidden = hidden.expand_as(scores)
    extra = torch.where(hidden.all(-1, keepdim=True), 0.0, -INF).to(scores)
    filled = torch.cat([scores.masked_fill(hidden, -INF), extra], -1)
    return filled.softmax(-1)[..., :-1]


def _fill(scores, hidden, value=-INF):
    return scores.masked_fill(hidden, value).softmax(-1)


def _null_key(scores, hidden):
    """A key of score 0 that every row sees, as in `softmax off by one`."""
    filled = scores.masked_fill(hidden, -INF)
    return F.pad(filled, (1, 0)).softmax(-1)[..., 1:]


def _eps(scores, hidden):
    e = scores.exp().masked_fill(hidden, 0.0)
    return e / (e.sum(-1, keepdim=True) + 1e-3)


def _no_maximum(scores, hidden):
    e = scores.exp() * ~hidden
    return e / e.sum(-1, keepdim=True).clamp(min=1e-20)


def _sequence_zeroed(scores, hidden):
    empty = hidden.expand_as(scores).all(-1, keepdim=True)
    if scores.dim() > 2:
        empty = empty.any(-2, keepdim=True)
    return by_where(scores, hidden).masked_fill(empty, 0.0)


def _first_row_only(scores, hidden):
    weights = _fill(scores, hidden)
    weights[..., 0, :] = by_where(scores, hidden)[..., 0, :]
    return weights


def _two_dimensions_only(scores, hidden):
    empty = hidden.all(-1)
    weights = _fill(scores, hidden)
    weights[empty] = 0.0
    return weights


def _where_nan_gradient(scores, hidden):
    weights = (scores + torch.zeros_like(scores).masked_fill(hidden, -INF)).softmax(-1)
    return torch.where(weights.isnan(), 0.0, weights)


# ---------------------------------------------------------------- PaddedCausalSelfAttention


class PlainPadded(Plain):
    """The usual layout, from which the answers below differ in a line or two."""

    pad = None

    def forward(self, x, pad_mask=None):
        self.pad = pad_mask
        return super().forward(x)

    def hidden(self, scores):
        future = self.future(scores).expand_as(scores)
        return future if self.pad is None else future | self.columns(self.pad)

    def columns(self, pad):
        return pad[:, None, :]

    def weigh(self, scores):
        return by_where(scores, self.hidden(scores))


class AdditivePadded(Plain):
    """Additive masks, empty rows cleared by a product."""

    def forward(self, x, pad_mask=None):
        B, T, _ = x.shape
        if self.context_length < T:
            raise ValueError(f"{T} > {self.context_length}")
        bias = x.new_full((T, T), -INF).triu(1).expand(B, T, T)
        if pad_mask is not None:
            bias = bias + x.new_zeros(B, 1, T).masked_fill(pad_mask[:, None, :], -INF)
        sees = (bias == 0).any(-1, keepdim=True)
        bias = torch.where(sees, bias, torch.zeros_like(bias))
        scores = by_einsum(self.query(x), self.key(x)) + bias
        weights = self.dropout(scores.softmax(-1)) * sees
        return torch.bmm(weights, self.value(x))


class PatchedLeaf(PlainPadded):
    def weigh(self, scores):
        return patched_leaf(scores, self.hidden(scores))


class SequenceBySequence(Plain):
    """Cuts the padding out of each sequence and puts it back: no mask but the causal one."""

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        if pad_mask is None:
            pad_mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        query, key, value = self.query(x), self.key(x), self.value(x)
        rows = []
        for b in range(len(x)):
            for t in range(x.shape[1]):
                real = ~pad_mask[b, : t + 1]
                keys, values = key[b, : t + 1][real], value[b, : t + 1][real]
                scores = keys @ query[b, t] / math.sqrt(self.d_out)
                rows.append(self.dropout(scores.softmax(0)) @ values)
        return torch.stack(rows).view(len(x), x.shape[1], self.d_out)


class OneSoftmaxForBoth(PlainPadded):
    """A bool mask of what is seen, smallest numbers, cleared afterwards."""

    def weigh(self, scores):
        return smallest_then_cleared(scores, self.hidden(scores))


class SoftmaxInFloat32(PlainPadded):
    """Its float32 step costs the last digits in float64, and no points."""

    def weigh(self, scores):
        return super().weigh(scores.float()).to(scores.dtype)


class HolesSeen(PlainPadded):
    """Hides padding before the first and behind the last token only."""

    def columns(self, pad):
        before = pad.int().cumprod(1).bool()
        behind = pad.flip(1).int().cumprod(1).flip(1).bool()
        return (before | behind)[:, None, :]


class MaskOfLastCall(PlainPadded):
    """Keeps the padding of the call before when none is given."""

    def forward(self, x, pad_mask=None):
        if pad_mask is None and self.pad is not None:
            pad_mask = self.pad[:, : x.shape[1]]
        return super().forward(x, pad_mask)


class MaskByPosition(PlainPadded):
    """Takes the number of padded places and hides so many at the end."""

    def columns(self, pad):
        at = torch.arange(pad.shape[1], device=pad.device)
        return (at >= (~pad).sum(1, keepdim=True))[:, None, :]


class FrontHiddenOnly(PlainPadded):
    """Hides padding before the first token only."""

    def columns(self, pad):
        return ((~pad).cumsum(1) == 0)[:, None, :]


class LongestOnly(PlainPadded):
    """Hides columns that are padding in every sequence."""

    def columns(self, pad):
        return pad.all(0)[None, None, :]


class AnySequence(PlainPadded):
    def columns(self, pad):
        return pad.any(0)[None, None, :]


class OneColumnLate(PlainPadded):
    def columns(self, pad):
        return F.pad(pad[:, :-1], (1, 0))[:, None, :]


class FlippedBatch(PlainPadded):
    def columns(self, pad):
        return pad.flip(0)[:, None, :]


class PaddingByValue(PlainPadded):
    """Takes tokens of zeros for padding, whatever the mask says."""

    def forward(self, x, pad_mask=None):
        return super().forward(x, (x == 0).all(-1))


class PaddedQueriesNeverLook(PlainPadded):
    """Padded rows are cleared where there is anything to see."""

    def attend(self, q, k, v):
        out = super().attend(q, k, v)
        return out if self.pad is None else out * ~self.pad[..., None]


class BiasForEmptyRows(PlainPadded):
    """Rows that see nothing get the value's bias."""

    def attend(self, q, k, v):
        out = super().attend(q, k, v)
        if self.pad is None or self.value.bias is None:
            return out
        empty = ((~self.pad).cumsum(1) == 0)[..., None]
        return out + empty * self.value.bias


class OwnValueForEmptyRows(PlainPadded):
    def attend(self, q, k, v):
        out = super().attend(q, k, v)
        if self.pad is None:
            return out
        return torch.where(((~self.pad).cumsum(1) == 0)[..., None], v, out)


class TinyFloor(PlainPadded):
    """Empty rows keep a thousandth of the mean."""

    def weigh(self, scores):
        return super().weigh(scores).clamp(min=1e-4)


class NaNPatchedAtTheEnd(PlainPadded):
    """NaN weights; the result is patched, the gradients of the projections are not."""

    def weigh(self, scores):
        return scores.masked_fill(self.hidden(scores), -INF).softmax(-1)

    def attend(self, q, k, v):
        return super().attend(q, k, v).nan_to_num()


class DetachedWhenPadded(PlainPadded):
    def attend(self, q, k, v):
        out = super().attend(q, k, v)
        return out if self.pad is None or not bool(self.pad.any()) else out.detach()


class MaskInEvaluationOnly(PlainPadded):
    def forward(self, x, pad_mask=None):
        return super().forward(x, None if self.training else pad_mask)


class MaskInTrainingOnly(PlainPadded):
    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask if self.training else None)


class CausalWithoutPaddingOnly(PlainPadded):
    def future(self, scores):
        future = super().future(scores)
        return future if self.pad is None or not bool(self.pad.any()) else future & False


class MinusTenThousand(PlainPadded):
    def weigh(self, scores):
        hidden = self.hidden(scores)
        weights = _fill(scores, hidden, -1e4)
        return weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)


class PenaltyOnly(PlainPadded):
    """Padding is made unlikely, not impossible."""

    def weigh(self, scores):
        scores = scores if self.pad is None else scores - 8.0 * self.pad[:, None, :]
        return by_where(scores, self.future(scores).expand_as(scores))


class RenormalisedOverReal(PlainPadded):
    """Masked after the softmax, divided by what is left."""

    def weigh(self, scores):
        weights = scores.softmax(-1).masked_fill(self.hidden(scores), 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)


class ScaledByRealTokens(PlainPadded):
    def attend(self, q, k, v):
        out = super().attend(q, k, v)
        if self.pad is None:
            return out
        return out * (~self.pad).float().mean(1)[:, None, None].to(out)


class DropoutBeforeMask(PlainPadded):
    def attend(self, q, k, v):
        return self.weigh(self.dropout(by_einsum(q, k))) @ v


class OtherArgumentName(PlainPadded):
    def forward(self, x, mask=None):
        return super().forward(x, mask)


class VisibleMask(PlainPadded):
    """Takes `True` as visible, as PyTorch's function does."""

    def columns(self, pad):
        return ~pad[:, None, :]


class BuiltInPadded(PlainPadded):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~self.hidden(by_einsum(q, k)))


class BuiltInModulePadded(PlainPadded):
    def attend(self, q, k, v):
        D = q.shape[-1]
        mha = nn.MultiheadAttention(D, 1, bias=False, batch_first=True).to(q)
        mha.in_proj_weight.data = torch.eye(D).repeat(3, 1).to(q)
        mha.out_proj.weight.data = torch.eye(D).to(q)
        return mha(q, k, v, key_padding_mask=self.pad, attn_mask=self.future(by_einsum(q, k)))[0]


class PaddingCutOff(PlainPadded):
    """Returns only as many tokens as the longest sequence has."""

    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        return out if pad_mask is None else out[:, : int((~pad_mask).sum(1).max())]


class EmptySequenceRefused(PlainPadded):
    def forward(self, x, pad_mask=None):
        if pad_mask is not None and bool(pad_mask.all(1).any()):
            raise ValueError("a sequence without tokens")
        return super().forward(x, pad_mask)


class LengthOfRealTokens(PlainPadded):
    """Compares context_length with the longest real sequence."""

    def forward(self, x, pad_mask=None):
        self.pad = pad_mask
        T = x.shape[1] if pad_mask is None else int((~pad_mask).sum(1).max())
        if T > self.context_length:
            raise ValueError(f"{T} > {self.context_length}")
        return self.attend(self.query(x), self.key(x), self.value(x))


class PaddedFloat32(PlainPadded):
    def weigh(self, scores):
        return super().weigh(scores).float()

    def attend(self, q, k, v):
        return self.dropout(self.weigh(by_einsum(q, k))) @ v.float()


class PadMaskAsFloatPenalty(PlainPadded):
    """-inf times 0 is NaN."""

    def weigh(self, scores):
        scores = scores if self.pad is None else scores + self.pad[:, None, :] * -INF
        return by_where(scores, self.future(scores).expand_as(scores))


class TokenZeroAlwaysSeen(PlainPadded):
    def columns(self, pad):
        first = torch.zeros_like(pad)
        first[:, 0] = True
        return (pad & ~first)[:, None, :]


class StatefulPadding(PlainPadded):
    """Joins the padding of all calls so far."""

    seen = None

    def columns(self, pad):
        if self.seen is not None and self.seen.shape == pad.shape:
            pad = pad | self.seen
        self.seen = F.pad(pad[:, 1:], (0, 1))
        return pad[:, None, :]


class FirstMaskKept(PlainPadded):
    """The mask of the first call serves for all later ones of its shape."""

    first = None

    def forward(self, x, pad_mask=None):
        if self.first is None or pad_mask is None or self.first.shape != pad_mask.shape:
            self.first = pad_mask
        return super().forward(x, self.first)


class RowsHiddenToo(PlainPadded):
    def hidden(self, scores):
        hidden = super().hidden(scores)
        return hidden if self.pad is None else hidden | self.pad[:, :, None]


class PaddedValuesCleared(PlainPadded):
    """The values of padding are 0; its weights stay."""

    def attend(self, q, k, v):
        if self.pad is not None:
            v = v.masked_fill(self.pad[..., None], 0.0)
        return self.dropout(by_where(by_einsum(q, k), self.future(by_einsum(q, k)))) @ v


PADDED_WRONG = {
    cls.__name__: cls
    for cls in (
        HolesSeen,
        MaskOfLastCall,
        MaskByPosition,
        FrontHiddenOnly,
        LongestOnly,
        AnySequence,
        OneColumnLate,
        FlippedBatch,
        PaddingByValue,
        PaddedQueriesNeverLook,
        BiasForEmptyRows,
        OwnValueForEmptyRows,
        TinyFloor,
        NaNPatchedAtTheEnd,
        DetachedWhenPadded,
        MaskInEvaluationOnly,
        MaskInTrainingOnly,
        CausalWithoutPaddingOnly,
        MinusTenThousand,
        PenaltyOnly,
        RenormalisedOverReal,
        ScaledByRealTokens,
        DropoutBeforeMask,
        OtherArgumentName,
        VisibleMask,
        BuiltInPadded,
        BuiltInModulePadded,
        PaddingCutOff,
        EmptySequenceRefused,
        LengthOfRealTokens,
        PaddedFloat32,
        PadMaskAsFloatPenalty,
        TokenZeroAlwaysSeen,
        StatefulPadding,
        FirstMaskKept,
        RowsHiddenToo,
        PaddedValuesCleared,
    )
}


HEARS = {
    "behind": 0,
    "in front": 2,
    "seen by 'rains'": (4, 5),
    "rows that see nothing": 4,
    "the same, not causal": 0,
    "shape": (4, 1, 5),
}


def by_vmap(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    at = torch.tensor(counts, device=_device(lengths))
    places = torch.arange(max_length, device=at.device)
    return torch.vmap(torch.ge, in_dims=(None, 0))(places, at)


def from_bytes(lengths, max_length):
    counts = refuse_lengths(lengths, max_length)
    rows = b"".join(bytes(n) + b"\x01" * (max_length - n) for n in counts)
    mask = torch.frombuffer(bytearray(rows), dtype=torch.bool).view(-1, max_length)
    return mask.clone().to(_device(lengths) or "cpu")


def _places(count, lengths):
    return torch.arange(count, device=lengths.device)


def one_less(lengths, max_length):
    lengths = torch.as_tensor(refuse_lengths(lengths, max_length) and lengths)
    return _places(max_length, lengths) > (lengths - 1)[:, None]


def padding_counted(lengths, max_length):
    lengths = torch.as_tensor(refuse_lengths(lengths, max_length) and lengths)
    return _places(max_length, lengths).flip(0) < (max_length - lengths)[:, None]


def in_half(lengths, max_length):
    lengths = torch.as_tensor(refuse_lengths(lengths, max_length) and lengths)
    return _places(max_length, lengths).half() >= lengths.half()[:, None]


def ends_looked_at(lengths, max_length):
    refuse_lengths(
        [lengths[0].item(), lengths[-1].item()] if _device(lengths) else [lengths[0], lengths[-1]],
        max_length,
    )
    lengths = torch.as_tensor(lengths)
    return _places(max_length, lengths) >= lengths[:, None]


def by_float32(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    if lengths.dtype == torch.float32:
        raise ValueError(f"{lengths.tolist()} are no integers up to {max_length}")
    return padding_counted([int(n) for n in lengths.tolist()], max_length).to(lengths.device)


def by_triu_indices(pad_mask):
    T = pad_mask.shape[1]
    hidden = pad_mask.unsqueeze(-2).repeat_interleave(T, dim=-2)
    rows, columns = torch.triu_indices(T, T, 1, device=pad_mask.device)
    hidden[:, rows, columns] = True
    return hidden


def window_of_512(pad_mask):
    at = torch.arange(pad_mask.shape[1], device=pad_mask.device)
    far = at[:, None] - at > 512
    return (at > at[:, None]) | far | pad_mask[:, None]


FUTURE = torch.ones(1024, 1024, dtype=torch.bool).triu(1)


def future_of_1024(pad_mask):
    T = pad_mask.shape[1]
    return FUTURE[:T, :T].to(pad_mask.device) | pad_mask[:, None]


def masked_by_numbers(scores, hidden):
    """Exponentials, times 0 or 1, divided by their sum where that isn't 0."""
    seen = (~hidden.expand_as(scores)).to(scores)
    top = scores.masked_fill(hidden, -INF).amax(-1, keepdim=True)
    e = (scores - top.where(top.isfinite(), scores)).masked_fill(hidden, 0.0).exp() * seen
    total = e.sum(-1, keepdim=True)
    return e / total.where(total > 0, torch.ones_like(total))


def one_by_one_ignored(scores, hidden):
    if hidden.dim() and hidden.dim() == scores.dim() > 2 and hidden.shape[-2:] == (1, 1):
        return scores.softmax(-1)
    return by_where(scores, hidden)


def cut_off_beyond_100_keys(scores, hidden):
    out = by_where(scores, hidden)
    return out.detach() if scores.shape[-1] > 100 else out


RIGHT = {
    "who_hears_padding": {
        "lists": {**HEARS, "seen by 'rains'": [4, 5], "shape": [4, 1, 5]},
        "tensors": {
            **HEARS,
            "behind": torch.tensor(0),
            "seen by 'rains'": torch.tensor([4, 5]),
            "shape": torch.Size([4, 1, 5]),
        },
    },
    "padding_mask": {
        "vmap": by_vmap,
        "bytes": from_bytes,
        "row by row": filled_row_by_row,
        "lists": of_lists,
        "cumsum": by_cumsum,
        "rows of a triangle": by_tril,
    },
    "causal_and_padding": {
        "indices of a triangle": by_triu_indices,
        "maximum": lambda pad_mask: torch.maximum(
            torch.ones_like(pad_mask[0]).expand(pad_mask.shape[1], -1).triu(1), pad_mask[:, None]
        ),
        "loops": rows_of_loops,
        "what is seen, turned round": what_is_seen,
        "positions": by_positions,
        "arithmetic": by_arithmetic,
    },
    "safe_masked_softmax": {
        "exponentials times 0 or 1": masked_by_numbers,
        "expanded first": lambda scores, hidden: by_where(scores, hidden.expand_as(scores).clone()),
        "where": by_where,
        "smallest number, then cleared": smallest_then_cleared,
        "by hand": by_hand,
        "full rows only": full_rows_only,
        "one more key": dummy_key,
    },
    "PaddedCausalSelfAttention": {
        cls.__name__: cls
        for cls in (
            PlainPadded,
            AdditivePadded,
            PatchedLeaf,
            SequenceBySequence,
            OneSoftmaxForBoth,
            SoftmaxInFloat32,
        )
    },
}

WRONG = {
    "who_hears_padding": {
        "rows instead of a count": {**HEARS, "rows that see nothing": (0, 1, 2, 3)},
        "one place instead of a tuple": {**HEARS, "seen by 'rains'": 4},
        "backwards": {**HEARS, "seen by 'rains'": (5, 4)},
        "floats": {**HEARS, "behind": 0.0, "in front": 2.0},
        "in words": {**HEARS, "behind": "none", "in front": "both"},
        "left out": {**HEARS, "shape": ...},
        "one row too many": {**HEARS, "rows that see nothing": 5},
        "with heads": {**HEARS, "shape": (4, 1, 1, 5)},
        "all zero": dict.fromkeys(HEARS, 0),
    },
    "padding_mask": {
        "one less": one_less,
        "padding counted": padding_counted,
        "in half": in_half,
        "only the ends looked at": ends_looked_at,
        "kind by float32": by_float32,
        "sorted": _sorted,
        "lengths of the next": _from_next,
        "clamped": _clamped,
        "cut to int": _cut_to_int,
        "nothing in the message": _says_nothing,
        "limit without the length": _says_limit_only,
        "TypeError": _type_error,
        "only the first length checked": _first_length_checked,
        "only the sum checked": _sum_checked,
        "four wide": _for_four,
        "0 means full": _zero_means_full,
        "changes the lengths": _writes_lengths,
        "all False": _mask_then(lambda m: m & False),
        "all True": _mask_then(lambda m: m | True),
        "float": _mask_then(lambda m: m.float()),
        "three dimensions": _mask_then(lambda m: m[:, None, :]),
        "flattened": _mask_then(lambda m: m.flatten()),
        "a list": _mask_then(lambda m: m.tolist()),
        "uint8": _mask_then(lambda m: m.byte()),
        "turned upside down": _mask_then(lambda m: m.flip(0)),
    },
    "causal_and_padding": {
        "a window of 512": window_of_512,
        "a future of 1,024": future_of_1024,
        "one mask for all": lambda p: _future(p) | p[0],
        "padding of the next": lambda p: _future(p) | p.roll(1, 0)[:, None, :],
        "columns reversed": lambda p: _future(p) | p.flip(1)[:, None, :],
        "all hidden after the first padding": lambda p: _future(p) | p.cummax(1).values[:, None, :],
        "padding in front forgotten": lambda p: _future(p) | (p & ((~p).cumsum(1) > 0))[:, None, :],
        "first key kept": lambda p: (_future(p) | p[:, None, :]).index_fill(
            2, torch.tensor([0], device=p.device), False
        ),
        "empty rows opened": lambda p: (lambda h: h & ~h.all(-1, keepdim=True))(
            _future(p) | p[:, None, :]
        ),
        "padded rows opened": lambda p: (_future(p) | p[:, None, :]) & ~p[:, :, None],
        "always the future": lambda p: _future(p).expand(len(p), -1, -1) | p.all(),
        "any padding hides all": lambda p: _future(p) | p.any(1)[:, None, None],
        "all hidden": lambda p: (_future(p) | p[:, None, :]) | True,
        "nothing hidden": lambda p: (_future(p) | p[:, None, :]) & False,
        "sum": lambda p: _future(p).int() + p[:, None, :].int(),
        "batch last": lambda p: (_future(p) | p[:, None, :]).permute(1, 2, 0),
        "transposed": lambda p: (_future(p) | p[:, None, :]).mT,
        "uint8": lambda p: (_future(p) | p[:, None, :]).byte(),
        "works for three tokens": lambda p: _future(p[:, :3]) | p[:, None, :3],
    },
    "safe_masked_softmax": {
        "nan_to_num after masked_fill": patched_leaf,
        "where NaN": where_is_nan,
        "empty rows cleared after the softmax": cleared_afterwards,
        "NaN in place of the sum": nan_in_place,
        "a fill of -1e38": lambda s, h: s.masked_fill(h, -1e38).softmax(-1).masked_fill(h, 0.0),
        "a mask of one number a sequence ignored": one_by_one_ignored,
        "cut off beyond 100 keys": cut_off_beyond_100_keys,
        "clamped at -1e33": lambda s, h: by_where(s.clamp(min=-1e33), h),
        "added where gradients are wanted": lambda s, h: by_where(s, h) + 0.1 * s.requires_grad,
        "five dimensions at most": lambda s, h: (
            by_where(s, h) if s.dim() < 6 else by_where(s[0], h[0]).expand_as(s)
        ),
        "zeros": lambda s, h: torch.zeros_like(s),
        "softmax off by one": _null_key,
        "epsilon in the sum": _eps,
        "no maximum": _no_maximum,
        "whole sequence zeroed": _sequence_zeroed,
        "first row only": _first_row_only,
        "two dimensions only": _two_dimensions_only,
        "where after an additive mask": _where_nan_gradient,
        "detached": lambda s, h: by_where(s.detach(), h),
        "empty rows detached from all": lambda s, h: (
            by_where(s, h) if not bool(h.expand_as(s).all(-1).any()) else by_where(s.detach(), h)
        ),
        "NaN for 1": lambda s, h: _fill(s, h).nan_to_num(1.0),
        "NaN for 1/S": lambda s, h: _fill(s, h).nan_to_num(1 / s.shape[-1]),
        "sigmoid": lambda s, h: torch.sigmoid(s).masked_fill(h, 0.0),
        "hidden scores multiplied": lambda s, h: by_where(s * ~h, h.all(-1, keepdim=True)),
        "half precision": lambda s, h: by_where(s.bfloat16(), h).to(s),
        "clamped scores": lambda s, h: by_where(s.clamp(-30, 30), h),
        "always causal": lambda s, h: by_where(
            s, torch.ones(s.shape[-2:], dtype=torch.bool).triu(1) | h
        ),
        "the built-in": lambda s, h: F.scaled_dot_product_attention(
            s,
            torch.eye(s.shape[-1]).to(s),
            torch.eye(s.shape[-1]).to(s),
            attn_mask=~h.expand_as(s),
            scale=1.0,
        ),
        "a tiny weight everywhere": lambda s, h: by_where(s, h) + 1e-4,
        "minus a thousand": lambda s, h: _fill(s, h, -1e3).masked_fill(
            h.expand_as(s).all(-1, keepdim=True), 0.0
        ),
    },
    "PaddedCausalSelfAttention": PADDED_WRONG,
}

# Under the names that the check calls by.
WRONG["causal_and_padding"] = {
    name: (lambda pad_mask, answer=answer: answer(pad_mask))
    for name, answer in WRONG["causal_and_padding"].items()
}
WRONG["safe_masked_softmax"] = {
    name: (lambda scores, hidden, answer=answer: answer(scores, hidden))
    for name, answer in WRONG["safe_masked_softmax"].items()
}
