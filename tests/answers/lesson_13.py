"""Right and wrong answers for lesson 13."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_utils import attention as finished
from course_utils.attention import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    causal_and_padding,
    causal_mask,
    merge_heads,
    split_heads,
)

from .lesson_07 import Fused as OneProjection
from .lesson_07 import HeadLoop, Split

INF = float("inf")
SDPA = F.scaled_dot_product_attention


# ---------------------------------------------------------------- sdpa_attention


def sdpa_plain(query, key, value, hidden=None):
    seen = None if hidden is None else torch.atleast_2d(torch.logical_not(hidden))
    return SDPA(query, key, value, seen)


def sdpa_added(query, key, value, hidden=None):
    if hidden is None:
        hidden = torch.zeros(1, 1, dtype=torch.bool, device=query.device)
    zeros = query.new_zeros(hidden.shape)
    return SDPA(query, key, value, attn_mask=torch.atleast_2d(zeros.masked_fill(hidden, -INF)))


def sdpa_expanded(query, key, value, hidden=None):
    B, H, T, _ = query.shape
    if hidden is not None:
        hidden = ~hidden.expand(B, H, T, key.shape[2])
    return SDPA(query, key, value, attn_mask=hidden)


def sdpa_by_head(query, key, value, hidden=None):
    B, H, T, _ = query.shape
    seen = query.new_ones(B, H, T, key.shape[2], dtype=torch.bool)
    if hidden is not None:
        seen = seen & ~hidden
    heads = [SDPA(query[:, h], key[:, h], value[:, h], seen[:, h]) for h in range(H)]
    return torch.stack(heads, dim=1)


def sdpa_scaled_before(query, key, value, hidden=None):
    query = query / query.shape[-1] ** 0.5
    mask = None if hidden is None else (hidden == 0).view((1,) * (4 - hidden.dim()) + hidden.shape)
    return SDPA(query, key, value, attn_mask=mask, scale=1.0)


def sdpa_by_math(query, key, value, hidden=None):
    with sdpa_kernel(SDPBackend.MATH):
        return sdpa_plain(query, key, value, hidden)


class SdpaObject:
    def __call__(self, query, key, value, hidden=None):
        return sdpa_added(query, key, value, hidden)


def sdpa_by_compat(query, key, value, hidden=None):
    """Nothing by position."""
    named = {"query": query, "key": key, "value": value}
    if hidden is not None:
        named["attn_mask"] = torch.where(torch.atleast_2d(hidden), False, True)
    return torch.nn.functional.scaled_dot_product_attention(**named)


def given(mask):
    """An answer that hands the built-in `mask(hidden, query)`."""

    def answer(query, key, value, hidden=None):
        mask_ = None if hidden is None else mask(torch.atleast_2d(hidden), query)
        return SDPA(query, key, value, attn_mask=mask_)

    return answer


def after(change):
    return lambda query, key, value, hidden=None: change(sdpa_plain(query, key, value, hidden))


def sdpa_empty_opened(query, key, value, hidden=None):
    if hidden is None:
        return SDPA(query, key, value)
    hidden = torch.atleast_2d(hidden)
    return SDPA(query, key, value, attn_mask=~hidden | hidden.all(-1, keepdim=True))


def sdpa_values_cleared(query, key, value, hidden=None):
    if hidden is None:
        return SDPA(query, key, value)
    scores = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1).masked_fill(hidden, 0)
    return scores @ value + 0 * SDPA(query, key, value)


def sdpa_by_hand_where_masked(query, key, value, hidden=None):
    if hidden is None:
        return SDPA(query, key, value)
    scores = finished.attention_scores(query, key)
    return finished.safe_masked_softmax(scores, hidden) @ value


def sdpa_causal_if_square(query, key, value, hidden=None):
    if query.shape[2] == key.shape[2]:
        return SDPA(query, key, value, is_causal=True)
    return sdpa_plain(query, key, value, hidden)


def sdpa_swapped_and_inverted(query, key, value, hidden=None):
    return SDPA(query, value, key, attn_mask=hidden)


def sdpa_no_gradient(query, key, value, hidden=None):
    with torch.no_grad():
        return sdpa_plain(query, key, value, hidden)


SDPA_WRONG = {
    "inverted, causal on top": lambda query, key, value, hidden=None: SDPA(
        query, key, value, attn_mask=hidden, is_causal=True
    ),
    "empty rows opened": sdpa_empty_opened,
    "hidden after the softmax": sdpa_values_cleared,
    "by hand where masked": sdpa_by_hand_where_masked,
    "causal if square": sdpa_causal_if_square,
    "causal where hidden": given(lambda hidden, query: causal_mask(query.shape[2]) & ~hidden),
    "swapped and inverted": sdpa_swapped_and_inverted,
    "no gradient": sdpa_no_gradient,
    "NaN for empty rows": after(lambda out: out.where(out != 0, torch.nan)),
    "heads merged": after(merge_heads),
    "half precision": lambda query, key, value, hidden=None: sdpa_plain(
        query.bfloat16(), key.bfloat16(), value.bfloat16(), hidden
    ).to(query.dtype),
    "float32 inside": lambda query, key, value, hidden=None: sdpa_plain(
        query.float(), key.float(), value.float(), hidden
    ),
    "first head's mask": given(lambda hidden, query: ~hidden[..., :1, :, :]),
    "first row's mask": given(lambda hidden, query: ~hidden[..., :1, :]),
    "minus a thousand": given(lambda hidden, query: -1000.0 * hidden.to(query.dtype)),
    "scaled twice and added": lambda query, key, value, hidden=None: SDPA(
        query / query.shape[-1] ** 0.5,
        key,
        value,
        None if hidden is None else torch.atleast_2d(hidden).to(query.dtype),
    ),
    "scaled by the model's width": lambda query, key, value, hidden=None: SDPA(
        query,
        key,
        value,
        None if hidden is None else ~torch.atleast_2d(hidden),
        scale=(query.shape[1] * query.shape[-1]) ** -0.5,
    ),
    "mask required": lambda query, key, value, hidden: sdpa_plain(query, key, value, hidden),
    "mask turned round in place": lambda query, key, value, hidden=None: SDPA(
        query, key, value, None if hidden is None else torch.atleast_2d(hidden.bitwise_not_())
    ),
    "grouped": lambda query, key, value, hidden=None: sdpa_plain(
        query, key[:, :1].expand_as(key), value, hidden
    ),
    "of the course": finished.sdpa_attention,
    "a pair": after(lambda out: (out, out)),
    "zeros": after(torch.zeros_like),
    "dropout of the seed": lambda query, key, value, hidden=None: SDPA(
        query, key, value, None if hidden is None else ~torch.atleast_2d(hidden), dropout_p=0.5
    ),
}


# ---------------------------------------------------------------- make_mha


class ByFunction(MultiHeadAttention):
    """Both masks in one, or PyTorch's own of the future."""

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} tokens, at most {self.context_length}")
        parts = [
            split_heads(part(x), self.num_heads) for part in (self.query, self.key, self.value)
        ]
        return self.out_proj(merge_heads(self.attended(*parts, pad_mask)))

    def attended(self, query, key, value, pad_mask):
        share = self.share()
        if pad_mask is None:
            return SDPA(query, key, value, dropout_p=share, is_causal=True)
        return SDPA(query, key, value, self.seen(causal_and_padding(pad_mask)[:, None]), share)

    def seen(self, hidden):
        return ~hidden

    def share(self):
        return self.dropout.p if self.training else 0.0


class ByFunctionAlone(nn.Module):
    """From its own layers, one projection for all three, whose parts have the names."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.limit, self.num_heads, self.p = context_length, num_heads, dropout

    part = OneProjection.part
    Part = OneProjection.Part
    query = property(lambda self: self.part(0))
    key = property(lambda self: self.part(1))
    value = property(lambda self: self.part(2))

    def forward(self, x, pad_mask=None):
        B, T, _ = x.shape
        if T > self.limit:
            raise ValueError(f"{T} > {self.limit}")
        query, key, value = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        bias = torch.full((T, T), -INF, dtype=x.dtype, device=x.device).triu(1)
        if pad_mask is not None:
            bias = bias + x.new_zeros(B, 1, 1, T).masked_fill(pad_mask[:, None, None], -INF)
        out = SDPA(query, key, value, bias, self.p * self.training)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class ByModule(nn.Module):
    """The adapter, in steps that the others replace."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.limit = context_length
        self.core = self.built(d_out, num_heads, dropout, qkv_bias)

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        if not qkv_bias:
            core.register_parameter("in_proj_bias", None)
        return core

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.limit:
            raise ValueError(f"{x.shape[1]} tokens, at most {self.limit}")
        return self.settled(self.attended(x, pad_mask), pad_mask)

    def attended(self, x, pad_mask):
        future = causal_mask(x.shape[1], x.device)
        return self.core(x, x, x, key_padding_mask=pad_mask, attn_mask=future, need_weights=False)[
            0
        ]

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


class WithWeights(ByModule):
    """With the weights that nobody asked for, and masks of numbers: NaN on the way back."""

    def attended(self, x, pad_mask):
        T = x.shape[1]
        future = torch.full((T, T), -INF, dtype=x.dtype, device=x.device).triu(1)
        if pad_mask is not None:
            pad_mask = x.new_zeros(pad_mask.shape).masked_fill(pad_mask, -INF)
        return self.core(x, x, x, key_padding_mask=pad_mask, attn_mask=future)[0]


class TurnedRound(ByModule):
    """Sequence first inside, and batch first outside."""

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout)
        core.in_proj_bias = core.in_proj_bias if qkv_bias else None
        return core

    def attended(self, x, pad_mask):
        return super().attended(x.swapaxes(0, 1), None, pad_mask).swapaxes(0, 1)

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if T > self.limit:
            raise ValueError(f"{T} tokens, at most {self.limit}")
        x = x.transpose(0, 1)
        future = causal_mask(T, x.device)
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


class FrozenZeros(ByModule):
    """Biases that stay zero for ever: nothing is trained there."""

    def built(self, width, heads, dropout, qkv_bias):
        core = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        core.in_proj_bias.requires_grad_(qkv_bias)
        return core


class LinearPutIn(ByModule):
    """`bias=False`, and an `out_proj` with a bias put in its place."""

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
        T, limit = x.shape[1], len(self.future)
        if T > limit:
            raise ValueError(f"{T} tokens for {limit} places")
        out, _ = super().forward(
            x, x, x, attn_mask=self.future[:T, :T], key_padding_mask=pad_mask, need_weights=False
        )
        if pad_mask is not None:
            empty = (~pad_mask).cumsum(1) == 0
            out = out.masked_fill(empty[..., None], 0.0)
            out = out + empty[..., None].to(out.dtype) * self.out_proj.bias
        return out


class ByItsFunction(ByModule):
    """The function behind the module, on the module's parameters; rows of nothing see all."""

    def attended(self, x, pad_mask):
        core, T = self.core, x.shape[1]
        future = x.new_zeros(T, T).masked_fill(causal_mask(T, x.device), -INF)
        x = x.transpose(0, 1)
        if pad_mask is not None:
            pad_mask = pad_mask.to(x.dtype).masked_fill(pad_mask, -INF)
        out, _ = F.multi_head_attention_forward(
            x, x, x, core.embed_dim, core.num_heads, core.in_proj_weight, core.in_proj_bias,
            None, None, False, core.dropout, core.out_proj.weight, core.out_proj.bias,
            training=self.training, key_padding_mask=pad_mask, need_weights=False,
            attn_mask=future,
        )  # fmt: skip
        return out.transpose(0, 1)


class ByItsFunctionAlone(nn.Module):
    """The function behind the module, on projections of its own."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_in, d_out, qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.limit, self.num_heads, self.p = context_length, num_heads, dropout

    def forward(self, x, pad_mask=None):
        _, T, C = x.shape
        if T > self.limit:
            raise ValueError(f"{T} tokens, at most {self.limit}")
        layers = self.query, self.key, self.value
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        weights = dict(
            zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), layers, strict=True)
        )
        turned = x.transpose(0, 1)
        out, _ = F.multi_head_attention_forward(
            turned, turned, turned, C, self.num_heads, None, bias, None, None, False, self.p,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=pad_mask, need_weights=False, attn_mask=causal_mask(T, x.device),
            use_separate_proj_weight=True, **{n: w.weight for n, w in weights.items()},
        )  # fmt: skip
        return out.transpose(0, 1)


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
        self.context_length = context_length

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]}, {self.context_length}")
        hidden = causal_mask(x.shape[1], x.device)
        if pad_mask is not None:
            hidden = causal_and_padding(pad_mask)
        return self.out_proj(torch.cat([head(x, hidden) for head in self.heads], -1))


def maker(wrapper=MultiHeadAttentionWrapper, split=Split, sdpa=ByFunction, torch=ByModule, **steps):
    """A `make_mha` from four classes; `steps` replace `names`, `fits`, `refuse` and `made`."""
    kinds = {"split": split, "mha": split, "fast": split, "sdpa": sdpa, "torch": torch}

    def refuse(said):
        raise ValueError(said)

    refuse = steps.get("refuse", refuse)
    made = steps.get("made", lambda kind, *sizes: kind(*sizes))
    kinds |= steps.get("names", {})

    def make_mha(kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        if kind not in ("wrapper", *kinds):
            refuse(f"{kind!r} is no kind")
        if steps.get("fits", lambda width, heads: width % heads == 0)(d_out, num_heads) is False:
            refuse(f"{d_out} channels, {num_heads} heads")
        if kind == "wrapper":
            return made(
                wrapper, d_in, d_out // num_heads, context_length, num_heads, dropout, qkv_bias
            )
        return made(kinds[kind], d_in, d_out, context_length, num_heads, dropout, qkv_bias)

    return make_mha


def make_by_ifs(kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
    if d_out % num_heads != 0:
        raise ValueError(f"d_out {d_out} is not divisible by num_heads {num_heads}")
    common = {
        "context_length": context_length,
        "num_heads": num_heads,
        "dropout": dropout,
        "qkv_bias": qkv_bias,
    }
    if kind == "wrapper":
        return MultiHeadAttentionWrapper(d_in, d_out // num_heads, **common)
    if kind in {"split", "mha", "fast"}:
        return MultiHeadAttention(d_in, d_out, **common)
    if kind == "sdpa":
        return ByFunction(d_in, d_out, **common)
    if kind == "torch":
        return SelfSeeing(d_in, d_out, **common)
    raise ValueError(f"unknown kind {kind!r}")


class Boxed(nn.Module):
    """A module in a box, as a profiler may put it."""

    def __init__(self, made):
        super().__init__()
        self.inside = made

    def forward(self, *args, **named):
        return self.inside(*args, **named)


def make_by_match(kind: str, **sizes):
    sizes = {"dropout": 0.0, "qkv_bias": False, **sizes}
    make = maker(OwnHeads, MultiHeadAttention, ByFunctionAlone, Inheriting)
    match kind:
        case "split" | "mha" | "fast" | "wrapper" | "sdpa" | "torch":
            return make(kind, **sizes)
        case _:
            raise ValueError("one of: wrapper, split, mha, fast, sdpa, torch")


KINDS_RIGHT = {
    "by ifs": make_by_ifs,
    "by match": make_by_match,
    "turned round": maker(torch=TurnedRound, split=HeadLoop),
    "a bias of its own": maker(torch=BiasOfItsOwn, split=OneProjection),
    "frozen zeros": maker(torch=FrozenZeros),
    "a linear put in": maker(torch=LinearPutIn),
    "its function alone": maker(torch=ByItsFunctionAlone),
    "its function": maker(torch=ByItsFunction, wrapper=OwnHeads),
    "boxed": maker(made=lambda kind, *sizes: Boxed(kind(*sizes))),
    "an object": functools.partial(maker(sdpa=ByFunctionAlone)),
}


class LastBlind(ByModule):
    def empty(self, pad_mask):
        return pad_mask.all(1, keepdim=True).expand_as(pad_mask)


class GradientLost(ByModule):
    def settled(self, out, pad_mask):
        if pad_mask is None:
            return out
        bias = self.core.out_proj.bias.detach().to(out.dtype)
        return torch.where(self.empty(pad_mask)[..., None], bias, out)


class TrainsOnly(ByModule):
    """Heals in training mode and leaves NaN in evaluation mode."""

    def settled(self, out, pad_mask):
        return super().settled(out, pad_mask if self.training else None)


class BiasesKept(ByModule):
    def built(self, width, heads, dropout, qkv_bias):
        return nn.MultiheadAttention(width, heads, dropout, batch_first=True)


class NoBiases(ByModule):
    def built(self, width, heads, dropout, qkv_bias):
        return nn.MultiheadAttention(width, heads, dropout, bias=False, batch_first=True)


class FirstMask(ByModule):
    def attended(self, x, pad_mask):
        return super().attended(x, None if pad_mask is None else pad_mask[:1].expand_as(pad_mask))


class NoFutureWhenPadded(ByModule):
    def attended(self, x, pad_mask):
        if pad_mask is None:
            return super().attended(x, None)
        return self.core(x, x, x, key_padding_mask=pad_mask, need_weights=False)[0]


class NotAModule:
    def __init__(self, *sizes):
        self.inner = ByModule(*sizes)

    def __call__(self, x, pad_mask=None):
        return self.inner(x, pad_mask)


class SdpaInverted(ByFunction):
    def seen(self, hidden):
        return hidden


class SdpaDropsWithGradients(ByFunction):
    def share(self):
        return self.dropout.p if torch.is_grad_enabled() else 0.0


class SdpaOnlyUnmasked(ByFunction):
    """By hand where there is padding: still no scores saved there."""

    def attended(self, query, key, value, pad_mask):
        if pad_mask is None:
            return super().attended(query, key, value, None)
        scores = finished.attention_scores(query, key)
        weights = finished.safe_masked_softmax(scores, causal_and_padding(pad_mask)[:, None])
        return self.dropout(weights) @ value


KINDS_WRONG = {
    "blind if all is": maker(torch=LastBlind),
    "the bias gets no gradient": maker(torch=GradientLost),
    "with weights": maker(torch=WithWeights),
    "healed in training only": maker(torch=TrainsOnly),
    "biases kept, no dropout": maker(
        torch=BiasesKept, made=lambda kind, a, b, c, h, p, q: kind(a, b, c, h, 0.0, q)
    ),
    "no biases at all": maker(torch=NoBiases),
    "first text's padding": maker(torch=FirstMask),
    "no future where padded": maker(torch=NoFutureWhenPadded),
    "no module": maker(torch=NotAModule),
    "sdpa inverted": maker(sdpa=SdpaInverted, torch=NoBiases),
    "drops wherever gradients are": maker(sdpa=SdpaDropsWithGradients),
    "sdpa where unmasked": maker(sdpa=SdpaOnlyUnmasked),
    "torch for sdpa": maker(sdpa=ByModule),
    "split for the wrapper": maker(
        wrapper=lambda d_in, d_head, length, heads, *rest: Split(
            d_in, d_head * heads, length, heads, *rest
        )
    ),
    "an assertion": maker(refuse=lambda said: (_ for _ in ()).throw(AssertionError(said))),
    "bias and dropout swapped": maker(made=lambda kind, a, b, c, h, p, q: kind(a, b, c, h, q, p)),
    "one for all": maker(MultiHeadAttentionWrapper, Split, Split, Split),
    "finished sdpa": maker(sdpa=finished.SDPAMultiHeadAttention),
    "finished torch": maker(torch=finished.TorchMultiHeadAttention),
    "of the course": finished.make_mha,
    "evaluation mode": maker(made=lambda kind, *sizes: kind(*sizes).eval()),
    "kept and shared": functools.cache(maker()),
}


# ---------------------------------------------------------------- cached_attention_step


def step(join=None, attend=None, back=None, begin=None):
    """An answer in steps: join(kept, new), attend(query, keys, values), back(out, keys, values)."""

    def cached_attention_step(query, key, value, cache):
        if cache is None:
            keys, values = (begin or (lambda key, value: (key, value)))(key, value)
        else:
            grow = join or (lambda kept, new: torch.cat((kept, new), 2))
            keys, values = grow(cache[0], key), grow(cache[1], value)
        out = (attend or SDPA)(query, keys, values)
        return (back or (lambda out, keys, values: (out, (keys, values))))(out, keys, values)

    return cached_attention_step


def step_by_stack(query, key, value, cache):
    """The kept ones row by row."""
    kept = ([], []) if cache is None else (list(t.unbind(2)) for t in cache)
    keys, values = (
        torch.stack([*rows, new[:, :, 0]], 2) for rows, new in zip(kept, (key, value), strict=True)
    )
    weights = torch.einsum("bhtd,bhsd->bhts", query, keys).div(query.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhts,bhsd->bhtd", weights, values), (keys, values)


def step_by_empty(query, key, value, cache):
    """An empty cache, in place of none."""
    empty = key[:, :, :0], value[:, :, :0]
    past_keys, past_values = empty if cache is None else cache
    keys = torch.cat([past_keys, key], dim=-2)
    values = torch.cat([past_values, value], dim=-2)
    mask = torch.ones(1, keys.shape[2], dtype=torch.bool, device=query.device)
    return SDPA(query, keys, values, attn_mask=mask), (keys, values)


def step_by_full_mask(query, key, value, cache):
    """All queries as the one, and the last row."""
    past = cache or (key[:, :, :0], value[:, :, :0])
    keys, values = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
    S = keys.shape[2]
    scores = query.expand(-1, -1, S, -1) @ keys.mT / math.sqrt(key.shape[-1])
    weights = scores.masked_fill(causal_mask(S, query.device), -INF).softmax(-1)
    return (weights @ values)[:, :, -1:], (keys, values)


def step_by_running_softmax(query, key, value, cache):
    """The softmax in two parts, as fused kernels do it: of what is kept, and of what is new."""
    root = query.shape[-1] ** 0.5
    new = (query * key).sum(-1, keepdim=True) / root  # (B, H, 1, 1)
    if cache is None:
        return value.clone(), (key, value)
    scores = query @ cache[0].mT / root
    top = torch.maximum(scores.amax(-1, keepdim=True), new)
    kept, own = (scores - top).exp(), (new - top).exp()
    out = (kept @ cache[1] + own * value) / (kept.sum(-1, keepdim=True) + own)
    return out, (torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2))


def step_with_room(query, key, value, cache):
    """Into room that is made anew each time."""
    S = 0 if cache is None else cache[0].shape[2]
    grown = []
    for i, new in enumerate((key, value)):
        room = new.new_empty(*new.shape[:2], S + 1, new.shape[3])
        if S:
            room[:, :, :S] = cache[i]
        room[:, :, S:] = new
        grown.append(room)
    return SDPA(query, *grown), tuple(grown)


def step_of_a_list(query, key, value, cache):
    keys, values = [], []
    if cache is not None:
        keys, values = [cache[0]], [cache[1]]
    cache = [torch.cat([*keys, key], 2), torch.cat([*values, value], 2)]
    return [finished.sdpa_attention(query, *cache), cache]


_room = {}


def step_in_spare_room(query, key, value, cache):
    """Grows in memory that it shares with the cache that came in."""
    S = 0 if cache is None else cache[0].shape[2]
    grown = []
    for i, new in enumerate((key, value)):
        kept = None if cache is None else cache[i]
        room = None if kept is None else _room.get(kept.data_ptr())
        if room is None:
            room = new.new_zeros(*new.shape[:2], S + 64, new.shape[3])
            if S:
                room[:, :, :S] = kept.detach()
            _room[room.data_ptr()] = room
        room[:, :, S : S + 1] = new.detach()
        grown.append(room[:, :, : S + 1])
    return SDPA(query, *grown), tuple(grown)


_kept = []


def step_with_a_memory(query, key, value, cache):
    """Keeps the cache itself."""
    if cache is None:
        _kept.clear()
    _kept.append((key, value))
    keys, values = (torch.cat([pair[i] for pair in _kept], 2) for i in (0, 1))
    return SDPA(query, keys, values), (keys, values)


def windowed(most):
    return step(join=lambda kept, new: torch.cat([kept, new], 2)[:, :, -most:])


STEP_WRONG = {
    "spare room": step_in_spare_room,
    "a memory of its own": step_with_a_memory,
    "at most 512": windowed(512),
    "at most 6": windowed(6),
    "is_causal": step(attend=lambda q, k, v: SDPA(q, k, v, is_causal=True)),
    "is_causal, newest in front": step(
        join=lambda kept, new: torch.cat([new, kept], 2),
        attend=lambda q, k, v: SDPA(q, k, v, is_causal=True),
    ),
    "newest in front": step(join=lambda kept, new: torch.cat([new, kept], 2)),
    "old cache, newest not heard": lambda query, key, value, cache: (
        (value, (key, value)) if cache is None else (SDPA(query, *cache), cache)
    ),
    "output without a scale": step(attend=lambda q, k, v: (q @ k.mT).softmax(-1) @ v),
    "scaled by length": step(attend=lambda q, k, v: (q @ k.mT / k.shape[2] ** 0.5).softmax(-1) @ v),
    "a mean": step(attend=lambda q, k, v: v.mean(2, keepdim=True)),
    "the likeliest alone": step(
        attend=lambda q, k, v: (q @ k.mT == (q @ k.mT).amax(-1, keepdim=True)).to(v.dtype) @ v
    ),
    "the cache detached": lambda query, key, value, cache: step()(
        query, key, value, cache and tuple(t.detach() for t in cache)
    ),
    "no gradients": torch.no_grad()(step()),
    "a stacked cache": step(back=lambda out, keys, values: (out, torch.stack([keys, values]))),
    "a dict": step(back=lambda out, k, v: {"output": out, "cache": (k, v)}),
    "the pair reversed": step(back=lambda out, keys, values: ((keys, values), out)),
    "values first": step(back=lambda out, keys, values: (out, (values, keys))),
    "three things": step(back=lambda out, keys, values: (out, keys, values)),
    "the last channel": step(back=lambda out, k, v: (out[..., -1:], (k, v))),
    "squeezed": step(back=lambda out, keys, values: (out[:, :, 0], (keys, values))),
    "begins with zeros": step(
        begin=lambda key, value: (torch.cat([0 * key, key], 2), torch.cat([0 * value, value], 2))
    ),
    "begins with the value alone": step(begin=lambda key, value: (value, value)),
    "half precision": step(
        attend=lambda q, k, v: SDPA(q.bfloat16(), k.bfloat16(), v.bfloat16()).to(q.dtype)
    ),
    "float32 kept": step(back=lambda out, k, v: (out, (k.float(), v.float()))),
    "half precision kept": step(back=lambda out, k, v: (out, (k.half().to(k), v.half().to(v)))),
    "same keys for all heads": step(attend=lambda q, k, v: SDPA(q, k[:, :1].expand_as(k), v)),
    "along the heads": step(join=lambda kept, new: torch.cat([kept, new], 1)),
    "added up": step(join=lambda kept, new: kept + new),
    "mended in place": lambda query, key, value, cache: step()(
        query, key, value, cache and tuple(t.mul_(1.0).add_(0.001) for t in cache)
    ),
    "of the course": finished.cached_attention_step,
    "two steps": step(join=lambda kept, new: torch.cat([kept, new, new], 2)),
}


# ---------------------------------------------------------------- all of them

QUIZZES_WRONG = {
    "recall_13": {
        "nothing right": {
            "winner of the beam": "the shorter",
            "temperature 0.5": "less likely",
            "running sum, twice the tokens": 4,
        },
        "numbers": {
            "winner of the beam": -0.5,
            "temperature 0.5": 2,
            "running sum, twice the tokens": 2,
        },
        "words": {"winner of the beam": "the longer", "temperature 0.5": "likelier"},
        "a float": {
            "winner of the beam": "the longer",
            "temperature 0.5": "likelier",
            "running sum, twice the tokens": 2.5,
        },
    },
    "attention_cost": {
        "all the same": dict.fromkeys(
            ("Q Kᵀ", "weights · V", "scores", "bytes of the cache"), 12_000
        ),
        "shapes": {"Q Kᵀ": (3, 5, 10, 10), "weights · V": (3, 5, 10, 8), "scores": (10, 10)},
        "both products in one": {
            "Q Kᵀ": 24_000,
            "weights · V": 24_000,
            "scores": 1_500,
            "bytes of the cache": 57_600,
        },
        "half is hidden": {
            "Q Kᵀ": 6_600,
            "weights · V": 6_600,
            "scores": 825,
            "bytes of the cache": 57_600,
        },
        "in text": {"Q Kᵀ": "12000", "weights · V": 12_000, "scores": 1_500},
    },
    "performance_reasons": {
        "squares everywhere": {"scores, T doubles: times": 4, "cache, T doubles: times": 4},
        "bytes for MiB": {"MiB of GPT-2's cache": 37_748_736},
        "millions of bytes": {"MiB of GPT-2's cache": 37.7},
        "no tuple": {"texts and tokens read": 8, "keys seen": 0},
        "swapped": {"positions without a cache": 10, "positions with a cache": 55},
    },
}

RIGHT = {
    "recall_13": {
        "in capitals": {
            "winner of the beam": "The longer",
            "temperature 0.5": "LIKELIER",
            "running sum, twice the tokens": 2,
        },
        "as a tensor": {
            "winner of the beam": "the longer",
            "temperature 0.5": "likelier",
            "running sum, twice the tokens": torch.tensor(2),
        },
    },
    "sdpa_attention": {
        "plain": sdpa_plain,
        "numbers added": sdpa_added,
        "expanded": sdpa_expanded,
        "head by head": sdpa_by_head,
        "scaled before": sdpa_scaled_before,
        "the math kernel": sdpa_by_math,
        "an object": SdpaObject(),
        "by name": sdpa_by_compat,
    },
    "make_mha": KINDS_RIGHT,
    "cached_attention_step": {
        "in steps": step(),
        "by stack": step_by_stack,
        "an empty cache": step_by_empty,
        "the last row of all": step_by_full_mask,
        "a running softmax": step_by_running_softmax,
        "room made anew": step_with_room,
        "lists": step_of_a_list,
    },
    "attention_cost": {
        "computed": {
            "Q Kᵀ": 3 * 5 * 10 * 10 * 8,
            "weights · V": 3 * 5 * 10 * 10 * 8,
            "scores": math.prod((3, 5, 10, 10)),
            "bytes of the cache": 2 * 6 * 3 * 5 * 10 * 8 * 4,
        },
        "from tensors": {
            "Q Kᵀ": torch.zeros(3, 5, 10, 10).numel() * 8,
            "weights · V": torch.tensor(12_000),
            "scores": torch.zeros(3, 5, 10, 10).numel(),
            "bytes of the cache": torch.zeros(2, 6, 3, 5, 10, 8).nbytes,
        },
    },
    "performance_reasons": {
        "computed": {
            "scores, T doubles: times": 2**2,
            "cache, T doubles: times": 2,
            "MiB of GPT-2's cache": 2 * 12 * 768 * 1024 * 2 // 2**20,
            "positions without a cache": sum(range(1, 11)),
            "positions with a cache": 10,
            "keys seen": 1,
            "512 + 1 in bfloat16": int(torch.tensor(513).bfloat16()),
            "SDPA without a mask saves": "Memory",
            "texts and tokens read": [8, 3],
        },
        "sizes": {
            "scores, T doubles: times": 4,
            "cache, T doubles: times": 2,
            "MiB of GPT-2's cache": 36,
            "positions without a cache": 55,
            "positions with a cache": 10,
            "keys seen": 1,
            "512 + 1 in bfloat16": 512,
            "SDPA without a mask saves": "memory",
            "texts and tokens read": torch.zeros(8, 3).shape,
        },
    },
}

WRONG = {
    "sdpa_attention": SDPA_WRONG,
    "make_mha": KINDS_WRONG,
    "cached_attention_step": STEP_WRONG,
    **QUIZZES_WRONG,
}
