"""Right and wrong answers for lesson 05."""

import math

import torch
import torch.nn.functional as F

from course_utils.attention import CausalSelfAttention
from tests.answers.heads import Plain, PlainPadded, by_einsum, by_where

INF = float("inf")


# ---------------------------------------------------------------- padding_mask


def _counts(lengths):
    return lengths.tolist() if isinstance(lengths, torch.Tensor) else list(lengths)


def _device(lengths):
    return lengths.device if isinstance(lengths, torch.Tensor) else None


def filled_row_by_row(lengths, max_length):
    counts = _counts(lengths)
    mask = torch.ones(len(counts), max_length, dtype=torch.bool, device=_device(lengths))
    for row, n in zip(mask, counts, strict=True):
        row[:n] = False
    return mask


def of_lists(lengths, max_length):
    rows = [[False] * n + [True] * (max_length - n) for n in _counts(lengths)]
    return torch.tensor(rows, dtype=torch.bool, device=_device(lengths))


def by_cumsum(lengths, max_length):
    counts = torch.tensor(_counts(lengths), device=_device(lengths))
    return torch.ones(len(counts), max_length, device=counts.device).cumsum(1) > counts[:, None]


def by_vmap(lengths, max_length):
    lengths = torch.as_tensor(lengths)
    positions = torch.arange(max_length, device=lengths.device)
    return torch.vmap(torch.ge, in_dims=(None, 0))(positions, lengths)


# ---------------------------------------------------------------- causal_and_padding


def by_triu_indices(pad_mask):
    T = pad_mask.shape[1]
    hidden = pad_mask.unsqueeze(-2).repeat_interleave(T, dim=-2)
    rows, columns = torch.triu_indices(T, T, 1, device=pad_mask.device)
    hidden[:, rows, columns] = True
    return hidden


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
    return (_future(pad_mask).float() + pad_mask[:, None, :].float()).bool()


def _future(pad_mask, diagonal=1):
    T = pad_mask.shape[1]
    return torch.ones(T, T, dtype=torch.bool, device=pad_mask.device).triu(diagonal)


# ---------------------------------------------------------------- safe_masked_softmax


def added_numbers(scores, hidden):
    """A big negative number is added, and hidden weights are cleared."""
    return (scores - 1e9 * hidden.to(scores)).softmax(-1).masked_fill(hidden, 0.0)


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


# ---------------------------------------------------------------- PaddedCausalSelfAttention


class Inherited(CausalSelfAttention):
    """Only `forward` is new, as the lesson suggests."""

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        query, key, value = self.query(x), self.key(x), self.value(x)
        hidden = self.hidden[:T, :T]
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None, :]
        blind = hidden.all(-1, keepdim=True)
        scores = by_einsum(query, key).masked_fill(hidden, -INF).masked_fill(blind, 0.0)
        return self.dropout(scores.softmax(-1).masked_fill(blind, 0.0)) @ value


class AdditivePadded(Plain):
    """Additive masks, empty rows cleared by a product."""

    def forward(self, x, pad_mask=None):
        B, T, _ = x.shape
        bias = x.new_full((T, T), -INF).triu(1).expand(B, T, T)
        if pad_mask is not None:
            bias = bias + x.new_zeros(B, 1, T).masked_fill(pad_mask[:, None, :], -INF)
        sees = (bias == 0).any(-1, keepdim=True)
        bias = torch.where(sees, bias, torch.zeros_like(bias))
        scores = by_einsum(self.query(x), self.key(x)) + bias
        return torch.bmm(self.dropout(scores.softmax(-1)) * sees, self.value(x))


class SequenceBySequence(Plain):
    """Cuts the padding out of each row and needs no mask at all."""

    def forward(self, x, pad_mask=None):
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


class FillThenClear(PlainPadded):
    """A finite fill, and zeros for the rows that attend to nothing."""

    def weigh(self, scores):
        hidden = self.hidden(scores)
        return _fill(scores, hidden, -1e9) * ~hidden.all(-1, keepdim=True)


class PatchedLeaf(PlainPadded):
    """A NaN arises and `masked_fill` stops it: nothing wrong gets out of the head."""

    def weigh(self, scores):
        return _fill(scores, self.hidden(scores)).nan_to_num()


# ---------------------------------------------------------------- all of them


HEARS = {
    "behind": 0,
    "in front": 2,
    "visible to 'rains'": (4, 5),
    "rows that attend to nothing": 4,
    "rows with the padding mask alone": 0,
    "shape": (4, 1, 5),
}

RIGHT = {
    "who_hears_padding": {
        "lists": {**HEARS, "visible to 'rains'": [4, 5], "shape": [4, 1, 5]},
        "tensors": {
            **HEARS,
            "behind": torch.tensor(0),
            "visible to 'rains'": torch.tensor([4, 5]),
            "shape": torch.Size([4, 1, 5]),
        },
    },
    "padding_mask": {
        "row by row": filled_row_by_row,
        "lists": of_lists,
        "cumsum": by_cumsum,
        "vmap": by_vmap,
    },
    "causal_and_padding": {
        "indices of a triangle": by_triu_indices,
        "loops": rows_of_loops,
        "what is seen, turned round": what_is_seen,
        "positions": by_positions,
        "arithmetic": by_arithmetic,
    },
    "safe_masked_softmax": {
        "where": by_where,
        "a big number added": added_numbers,
        "by hand": by_hand,
        "full rows only": full_rows_only,
        "one more key": dummy_key,
        "a fill of -1e4": lambda scores, hidden: _fill(scores, hidden, -1e4).masked_fill(
            hidden, 0.0
        ),
    },
    "PaddedCausalSelfAttention": {
        answer.__name__: answer
        for answer in (Inherited, AdditivePadded, SequenceBySequence, FillThenClear, PatchedLeaf)
    },
}


def marked_by_one_hot(lengths, max_length):
    """`one_hot` takes no other integers than int64."""
    return F.one_hot(torch.as_tensor(lengths), max_length + 1).cumsum(-1)[:, :-1].bool()


def hidden_keys_counted(scores, hidden):
    """A mask of one column hides all keys of a row."""
    empty = hidden.sum(-1, keepdim=True) == scores.shape[-1]
    scores = scores.masked_fill(hidden, -INF).masked_fill(empty, 0.0)
    return torch.softmax(scores, -1).masked_fill(empty, 0.0)


WRONG = {
    "padding_mask": {"int64 only": (0.75, marked_by_one_hot)},
    "who_hears_padding": {
        "rows instead of a count": (0.75, {**HEARS, "rows that attend to nothing": (0, 1, 2, 3)}),
        "one place instead of a tuple": (0.75, {**HEARS, "visible to 'rains'": 4}),
        "backwards": (0.75, {**HEARS, "visible to 'rains'": (5, 4)}),
        "in words": (0.5, {**HEARS, "behind": "none", "in front": "both"}),
        "left out": (0.75, {**HEARS, "shape": ...}),
        "one row too many": (0.75, {**HEARS, "rows that attend to nothing": 5}),
        "with heads": (0.75, {**HEARS, "shape": (4, 1, 1, 5)}),
        "all zero": (0.25, dict.fromkeys(HEARS, 0)),
    },
    "causal_and_padding": {
        "one mask for all": (0, lambda p: _future(p) | p[0]),
        "padding of the next": (0, lambda p: _future(p) | p.roll(1, 0)[:, None, :]),
        "columns reversed": (0, lambda p: _future(p) | p.flip(1)[:, None, :]),
        "all hidden after the first padding": (
            0.25,
            lambda p: _future(p) | p.cummax(1).values[:, None, :],
        ),
        "padding in front forgotten": (
            0.25,
            lambda p: _future(p) | (p & ((~p).cumsum(1) > 0))[:, None, :],
        ),
        "padded rows opened": (0.25, lambda p: (_future(p) | p[:, None, :]) & ~p[:, :, None]),
    },
    "safe_masked_softmax": {
        "clamped scores": (0.5, lambda s, h: by_where(s.clamp(-30, 30), h)),
        "hidden keys counted": (1.5, hidden_keys_counted),
    },
}

# Under the names that the check calls by.
WRONG["causal_and_padding"] = {
    name: (points, lambda pad_mask, answer=answer: answer(pad_mask))
    for name, (points, answer) in WRONG["causal_and_padding"].items()
}
