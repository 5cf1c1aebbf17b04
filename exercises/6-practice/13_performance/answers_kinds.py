"""Right and wrong answers for lesson 13: `make_mha`."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention as finished
from course_utils.attention import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    causal_and_padding,
    causal_mask,
    merge_heads,
    split_heads,
)

SDPA = F.scaled_dot_product_attention


class Split(nn.Module):
    """Style B by hand."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_in, d_out, qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout, self.num_heads = nn.Dropout(dropout), num_heads

    def forward(self, x, pad_mask=None):
        layers = self.query, self.key, self.value
        parts = [split_heads(layer(x), self.num_heads) for layer in layers]
        return self.out_proj(merge_heads(self.attended(*parts, pad_mask)))

    def attended(self, query, key, value, pad_mask):
        hidden = causal_mask(query.shape[2], query.device)
        if pad_mask is not None:
            hidden = causal_and_padding(pad_mask)[:, None]
        scores = finished.attention_scores(query, key)
        return self.dropout(finished.safe_masked_softmax(scores, hidden)) @ value


class ByFunction(Split):
    """Style B by the built-in function; a text that is too long is refused."""

    def __init__(self, d_in, d_out, context_length, *rest):
        super().__init__(d_in, d_out, context_length, *rest)
        self.limit = context_length

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.limit:
            raise ValueError(f"{x.shape[1]} tokens, at most {self.limit}")
        return super().forward(x, pad_mask)

    def attended(self, query, key, value, pad_mask):
        share = self.dropout.p if self.training else 0.0
        if pad_mask is None:
            return SDPA(query, key, value, dropout_p=share, is_causal=True)
        return SDPA(query, key, value, ~causal_and_padding(pad_mask)[:, None], share)


class OnlyUnmasked(ByFunction):
    """By hand where there is padding: no scores are saved there."""

    def attended(self, query, key, value, pad_mask):
        style = ByFunction if pad_mask is None else Split
        return style.attended(self, query, key, value, pad_mask)


class OwnHeads(nn.Module):
    """Style A from the reader's own heads."""

    class Head(nn.Module):
        def __init__(self, d_in, d_head, dropout, qkv_bias):
            super().__init__()
            self.query, self.key, self.value = (
                nn.Linear(d_in, d_head, bias=qkv_bias) for _ in range(3)
            )
            self.drop = nn.Dropout(dropout)

        def forward(self, x, hidden):
            scores = finished.attention_scores(self.query(x), self.key(x))
            return self.drop(finished.safe_masked_softmax(scores, hidden)) @ self.value(x)

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        made = (self.Head(d_in, d_head, dropout, qkv_bias) for _ in range(num_heads))
        self.heads = nn.ModuleList(made)
        self.out_proj = nn.Linear(num_heads * d_head, num_heads * d_head)

    def forward(self, x, pad_mask=None):
        hidden = causal_mask(x.shape[1], x.device)
        if pad_mask is not None:
            hidden = causal_and_padding(pad_mask)
        return self.out_proj(torch.cat([head(x, hidden) for head in self.heads], -1))


class ByModule(nn.Module):
    """The adapter, in steps that the others replace."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.core = self.built(d_out, num_heads, dropout, qkv_bias)

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        if not qkv_bias:
            core.register_parameter("in_proj_bias", None)
        return core

    def forward(self, x, pad_mask=None):
        return self.settled(self.attended(x, pad_mask), pad_mask)

    def attended(self, x, pad_mask):
        future = causal_mask(x.shape[1], x.device)
        return self.core(x, x, x, pad_mask, need_weights=False, attn_mask=future)[0]

    def settled(self, out, pad_mask):
        if pad_mask is None:
            return out
        empty = self.empty(pad_mask)
        return torch.where(empty[..., None], self.core.out_proj.bias.to(out.dtype), out)

    def empty(self, pad_mask):
        return pad_mask.long().cumprod(dim=1) > 0


class SelfSeeing(ByModule):
    """Rows of nothing see themselves, and are written over: no NaN arises at all."""

    def attended(self, x, pad_mask):
        B, T, _ = x.shape
        if pad_mask is None:
            pad_mask = torch.zeros(B, T, dtype=torch.bool, device=x.device)
        hidden = causal_and_padding(pad_mask)
        hidden = hidden & ~hidden.all(-1, keepdim=True)
        hidden = hidden.repeat_interleave(self.core.num_heads, dim=0)
        return self.core(x, x, x, attn_mask=hidden, need_weights=False)[0]


class TurnedAround(ByModule):
    """Sequence first inside, and batch first outside."""

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout)
        core.in_proj_bias = core.in_proj_bias if qkv_bias else None
        return core

    def forward(self, x, pad_mask=None):
        future = causal_mask(x.shape[1], x.device)
        x = x.transpose(0, 1)
        out, _ = self.core(x, x, x, pad_mask, need_weights=False, attn_mask=future)
        return self.settled(out.transpose(0, 1), pad_mask)


class BiasOfItsOwn(ByModule):
    """`bias=False`, and the bias of `out_proj` added outside."""

    def __init__(self, d_in, d_out, *rest):
        super().__init__(d_in, d_out, *rest)
        if self.core.out_proj.bias is None:
            self.last = nn.Parameter(torch.zeros(d_out))

    def built(self, width, heads, dropout, qkv_bias):
        return nn.MultiheadAttention(width, heads, dropout, bias=qkv_bias, batch_first=True)

    def settled(self, out, pad_mask):
        last = getattr(self, "last", None)
        bias = self.core.out_proj.bias if last is None else last
        out = out if last is None else out + last
        if pad_mask is None:
            return out
        return torch.where(self.empty(pad_mask)[..., None], bias.to(out.dtype), out)


class LinearPutIn(ByModule):
    """`bias=False`, and an `out_proj` with a bias instead."""

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout, bias=qkv_bias, batch_first=True)
        core.out_proj = nn.Linear(width, width)
        return core


class Inheriting(nn.MultiheadAttention):
    """Is one, and has none."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, num_heads, dropout, batch_first=True)
        if not qkv_bias:
            self.in_proj_bias = None
        self.register_buffer("future", causal_mask(context_length))

    def forward(self, x, pad_mask=None):
        future = self.future[: x.shape[1], : x.shape[1]]
        out, _ = super().forward(x, x, x, pad_mask, attn_mask=future, need_weights=False)
        if pad_mask is not None:
            empty = (~pad_mask).cumsum(1) == 0
            out = out.masked_fill(empty[..., None], 0.0)
            out = out + empty[..., None].to(out.dtype) * self.out_proj.bias
        return out


class Boxed(nn.Module):
    """A module in a box, as a profiler may put it."""

    def __init__(self, made):
        super().__init__()
        self.inside = made

    def forward(self, *args, **named):
        return self.inside(*args, **named)


def maker(wrapper=OwnHeads, split=Split, sdpa=ByFunction, torch=ByModule, made=None):
    """A `make_mha` from four classes; `made(kind, *sizes)` makes one of them."""
    kinds = {"wrapper": wrapper, "split": split, "mha": split, "fast": split}
    kinds |= {"sdpa": sdpa, "torch": torch}

    def make_mha(kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        width = d_out // num_heads if kind == "wrapper" else d_out
        sizes = d_in, width, context_length, num_heads, dropout, qkv_bias
        return made(kinds[kind], *sizes) if made else kinds[kind](*sizes)

    return make_mha


def make_by_ifs(kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
    if d_out % num_heads != 0:
        raise ValueError(f"d_out {d_out} is not divisible by num_heads {num_heads}")
    sizes = {"context_length": context_length, "num_heads": num_heads}
    sizes |= {"dropout": dropout, "qkv_bias": qkv_bias}
    if kind == "wrapper":
        return MultiHeadAttentionWrapper(d_in, d_out // num_heads, **sizes)
    if kind in {"split", "mha", "fast"}:
        return MultiHeadAttention(d_in, d_out, **sizes)
    if kind == "sdpa":
        return ByFunction(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
    if kind == "torch":
        return SelfSeeing(d_in, d_out, **sizes)
    raise ValueError(f"unknown kind {kind!r}")


KINDS_RIGHT = {
    "by ifs": make_by_ifs,
    "inheriting": maker(torch=Inheriting),
    "turned around": maker(torch=TurnedAround),
    "a bias of its own": maker(torch=BiasOfItsOwn),
    "a linear put in": maker(torch=LinearPutIn),
    "boxed": maker(made=lambda kind, *sizes: Boxed(kind(*sizes))),
}


class GradientLost(ByModule):
    def settled(self, out, pad_mask):
        if pad_mask is None:
            return out
        bias = self.core.out_proj.bias.detach().to(out.dtype)
        return torch.where(self.empty(pad_mask)[..., None], bias, out)


class FirstMask(ByModule):
    def attended(self, x, pad_mask):
        return super().attended(x, None if pad_mask is None else pad_mask[:1].expand_as(pad_mask))


class NoFutureWhenPadded(ByModule):
    def attended(self, x, pad_mask):
        if pad_mask is None:
            return super().attended(x, None)
        return self.core(x, x, x, key_padding_mask=pad_mask, need_weights=False)[0]


KINDS_WRONG = {
    "the bias gets no gradient": maker(torch=GradientLost),
    "first text's padding": maker(torch=FirstMask),
    "no future where padded": maker(torch=NoFutureWhenPadded),
    "sdpa where unmasked": maker(sdpa=OnlyUnmasked),
    "bias and dropout swapped": maker(made=lambda kind, a, b, c, h, p, q: kind(a, b, c, h, q, p)),
    "finished torch": maker(torch=finished.TorchMultiHeadAttention),
    "evaluation mode": maker(made=lambda kind, *sizes: kind(*sizes).eval()),
    "kept and shared": functools.cache(maker()),
}


RIGHT = {
    "make_mha": KINDS_RIGHT,
}


WRONG = {
    "make_mha": KINDS_WRONG,
}
