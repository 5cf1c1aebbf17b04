"""Right and wrong answers for lesson 13: `make_mha`."""

import torch
from torch import nn

from course_utils.attention import causal_and_padding, causal_mask


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


def maker(torch=ByModule, made=None):
    """A `make_mha` whose kind "torch" is this class; `made(kind, *sizes)` makes one."""

    def make_mha(kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        sizes = d_in, d_out, context_length, num_heads, dropout, qkv_bias
        return made(torch, *sizes) if made else torch(*sizes)

    return make_mha


KINDS_RIGHT = {
    "rows of nothing see themselves": maker(torch=SelfSeeing),
    "inheriting": maker(torch=Inheriting),
    "turned around": maker(torch=TurnedAround),
    "a bias of its own": maker(torch=BiasOfItsOwn),
    "a linear put in": maker(torch=LinearPutIn),
    "boxed": maker(made=lambda kind, *sizes: Boxed(kind(*sizes))),
}


RIGHT = {
    "make_mha": KINDS_RIGHT,
}
