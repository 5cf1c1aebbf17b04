"""Right and wrong answers for lesson 07."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention as finished
from course_utils.attention import MultiHeadAttentionWrapper

INF = float("inf")


# ---------------------------------------------------------------- split_heads and merge_heads


def even(width, num_heads):
    if width % num_heads:
        raise ValueError(f"width {width} doesn't go into {num_heads} heads")
    return width // num_heads


def split_by_stack(x, num_heads):
    return torch.stack(x.split(even(x.shape[-1], num_heads), dim=-1), 1)


def split_by_unflatten(x, num_heads):
    even(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3).contiguous()


def split_by_loop(x, num_heads):
    B, T, C = x.shape
    D = even(C, num_heads)
    out = x.new_zeros(B, num_heads, T, D)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * D : (h + 1) * D]
    return out


def split_by_einsum(x, num_heads):
    B, T, C = x.shape
    D = even(C, num_heads)
    return torch.einsum("bthd->bhtd", x.reshape(B, T, num_heads, D))


def merge_by_cat(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


def merge_by_view(x):
    B, H, T, D = x.shape
    return x.transpose(1, 2).contiguous().view(B, T, H * D)


def merge_by_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(-2)


def merge_by_einsum(x):
    return torch.einsum("bhtd->bthd", x).reshape(x.shape[0], x.shape[2], -1)


# ---------------------------------------------------------------- MultiHeadAttention


class Split(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out, self.num_heads = d_in, d_out, num_heads
        self.D, self.context_length = even(d_out, num_heads), context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if self.context_length < T:
            raise ValueError(f"{T} > {self.context_length}")
        q, k, v = (split_by_loop(p(x), self.num_heads) for p in (self.query, self.key, self.value))
        return self.out_proj(merge_by_cat(self.attend(q, k, v, pad_mask)))

    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return self.dropout(self.weights(scores, self.hidden(scores, pad_mask))) @ v

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = torch.ones(T, T, dtype=torch.bool, device=scores.device).triu(1)
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]

    def weights(self, scores, hidden):
        blind = hidden.all(-1, keepdim=True)
        return scores.masked_fill(hidden & ~blind, -INF).softmax(-1).masked_fill(hidden, 0.0)


class HeadLoop(Split):
    """One head after the other on slices of the width."""

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if self.context_length < T:
            raise ValueError(f"{T} > {self.context_length}")
        q, k, v = self.query(x), self.key(x), self.value(x)
        cuts = [slice(h * self.D, (h + 1) * self.D) for h in range(self.num_heads)]
        heads = [
            self.attend(q[:, None, :, c], k[:, None, :, c], v[:, None, :, c], pad_mask)[:, 0]
            for c in cuts
        ]
        return self.out_proj(torch.cat(heads, -1))


class Einsum(Split):
    """By einsum, with an additive mask kept as a buffer."""

    def __init__(self, d_in, d_out, context_length, *args, **kwargs):
        super().__init__(d_in, d_out, context_length, *args, **kwargs)
        future = torch.full((context_length, context_length), -INF).triu(1)
        self.register_buffer("future", future)

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if self.context_length < T:
            raise ValueError(f"{T} > {self.context_length}")
        q, k, v = (
            p(x).unflatten(-1, (self.num_heads, self.D)) for p in (self.query, self.key, self.value)
        )
        bias = self.future[:T, :T].to(x.dtype)
        if pad_mask is not None:
            bias = (
                bias
                + torch.zeros_like(pad_mask, dtype=x.dtype).masked_fill(pad_mask, -INF)[
                    :, None, None
                ]
            )
        scores = torch.einsum("bthd,bshd->bhts", q * self.D**-0.5, k) + bias
        top = scores.amax(-1, keepdim=True).detach().clamp(min=-1e30)
        e = (scores - top).exp()
        weights = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
        context = torch.einsum("bhts,bshd->bthd", self.dropout(weights), v)
        return F.linear(context.flatten(2), self.out_proj.weight, self.out_proj.bias)


class Baddbmm(Split):
    """Batch and heads in one dimension, scores by `baddbmm`, the mask by `torch.where`."""

    def attend(self, q, k, v, pad_mask):
        B, H, T, D = q.shape
        q, k, v = (t.reshape(B * H, T, D) for t in (q, k, v))
        empty = torch.empty(B * H, T, T, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(empty, q, k.mT, beta=0, alpha=D**-0.5).view(B, H, T, T)
        hidden = self.hidden(scores, pad_mask).expand(B, H, T, T)
        seen = torch.where(hidden.all(-1, keepdim=True), False, ~hidden)
        safe = torch.where(seen.any(-1, keepdim=True), torch.where(seen, scores, -INF), 0.0)
        weights = torch.where(seen, safe.softmax(-1), 0.0)
        return torch.bmm(self.dropout(weights).view(B * H, T, T), v).view(B, H, T, D)


class Fused(Split):
    """One projection for query, key and value; the names give views of it."""

    class Part:
        def __init__(self, weight, bias):
            self.weight, self.bias = weight, bias

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        nn.Module.__init__(self)
        self.D, self.num_heads = even(d_out, num_heads), num_heads
        self.context_length = context_length
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def part(self, i):
        bias = None if self.qkv.bias is None else self.qkv.bias.chunk(3)[i]
        return self.Part(self.qkv.weight.chunk(3)[i], bias)

    query = property(lambda self: self.part(0))
    key = property(lambda self: self.part(1))
    value = property(lambda self: self.part(2))

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} tokens, limit {self.context_length}")
        B, T, _ = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.num_heads, self.D).permute(2, 0, 3, 1, 4)
        context = self.attend(*qkv, pad_mask)
        return self.out_proj(context.transpose(1, 2).reshape(B, T, -1))


class KeptMask(Split):
    """A frozen parameter as the mask: no gradient, and it moves along."""

    def __init__(self, d_in, d_out, context_length, *args, **kwargs):
        super().__init__(d_in, d_out, context_length, *args, **kwargs)
        mask = torch.ones(context_length, context_length).triu(1)
        self.mask = nn.Parameter(mask, requires_grad=False)

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = self.mask[:T, :T].bool()
        return hidden if pad_mask is None else torch.logical_or(hidden, pad_mask[:, None, None])


# ---------------------------------------------------------------- copies and counts


def check_sizes(wrapper, split):
    if len(wrapper.heads) != split.num_heads:
        raise ValueError(f"{len(wrapper.heads)} heads, {split.num_heads} heads")
    D, d_in = wrapper.heads[0].query.weight.shape
    for mine, theirs in [
        (d_in, split.query.in_features),
        (D * len(wrapper.heads), split.query.out_features),
    ]:
        if mine != theirs:
            raise ValueError(f"{mine} is not {theirs}")
    if wrapper.heads[0].query.bias is not None and split.query.bias is None:
        raise ValueError("the split has no biases")


def copy_row_by_row(wrapper, split):
    check_sizes(wrapper, split)
    D = wrapper.heads[0].query.out_features
    with torch.no_grad():
        for name in ("query", "key", "value"):
            target = getattr(split, name)
            for h, head in enumerate(wrapper.heads):
                source = getattr(head, name)
                target.weight[h * D : (h + 1) * D] = source.weight
                if target.bias is not None:
                    target.bias[h * D : (h + 1) * D] = 0.0 if source.bias is None else source.bias
        for mine, theirs in zip(
            split.out_proj.parameters(), wrapper.out_proj.parameters(), strict=True
        ):
            mine.copy_(theirs)


def copy_by_state_dict(wrapper, split):
    check_sizes(wrapper, split)
    state = {k: v for k, v in split.state_dict().items() if "hidden" not in k}
    given = wrapper.state_dict()
    for name in state:
        layer, kind = name.split(".")
        if layer == "out_proj":
            state[name] = given[name]
        elif f"heads.0.{name}" in given:
            state[name] = torch.cat(
                [given[f"heads.{h}.{layer}.{kind}"] for h in range(split.num_heads)]
            )
        else:
            state[name] = torch.zeros_like(state[name])
    split.load_state_dict(state, strict=False)


def copy_by_data(wrapper, split):
    """`.data` of memory of its own is no alias."""
    check_sizes(wrapper, split)
    for name in ("query", "key", "value"):
        target, sources = getattr(split, name), [getattr(h, name) for h in wrapper.heads]
        target.weight.data = torch.cat([s.weight.data for s in sources]).clone()
        if target.bias is not None:
            if sources[0].bias is None:
                target.bias.data.zero_()
            else:
                target.bias.data = torch.cat([s.bias.data for s in sources]).clone()
    split.out_proj.weight.data.copy_(wrapper.out_proj.weight.data)
    split.out_proj.bias.data = wrapper.out_proj.bias.data.clone()


def count_by_loop(module):
    total, seen = 0, set()
    for m in module.modules():
        for p in m._parameters.values():
            if p is not None and p.requires_grad and id(p) not in seen:
                seen.add(id(p))
                total += p.numel()
    return total


def count_by_shape(module):
    return sum(math.prod(p.shape) for _, p in module.named_parameters() if p.requires_grad)


def count_flat(module):
    trainable = [p.flatten() for p in module.parameters() if p.requires_grad]
    return int(torch.cat(trainable).shape[0]) if trainable else 0


# ---------------------------------------------------------------- the quiz

SHAPES = {
    "embedding": (1, 4, 768),
    "after view": (1, 4, 8, 96),
    "after transpose": (1, 8, 4, 96),
    "key transposed": (1, 8, 96, 4),
    "scores": (1, 8, 4, 4),
    "weighted values": (1, 8, 4, 96),
    "merged": (1, 4, 768),
    "logits": (1, 4, 9735),
}


def shapes(**changes):
    return SHAPES | {name.replace("_", " "): shape for name, shape in changes.items()}


RIGHT = {
    "split_heads": {
        "stack": split_by_stack,
        "unflatten": split_by_unflatten,
        "loop": split_by_loop,
        "einsum": split_by_einsum,
    },
    "merge_heads": {
        "cat": merge_by_cat,
        "contiguous view": merge_by_view,
        "flatten": merge_by_flatten,
        "einsum": merge_by_einsum,
    },
    "MultiHeadAttention": {
        "plain": Split,
        "a loop over heads": HeadLoop,
        "einsum and an additive mask": Einsum,
        "baddbmm and where": Baddbmm,
        "one fused projection": Fused,
        "a frozen parameter as mask": KeptMask,
    },
    "copy_wrapper_to_split": {
        "row by row": copy_row_by_row,
        "by state_dict": copy_by_state_dict,
        "by data of its own": copy_by_data,
    },
    "count_parameters": {"loop": count_by_loop, "shape": count_by_shape, "flat": count_flat},
    "head_shapes": {
        "lists": {name: list(shape) for name, shape in SHAPES.items()},
        "sizes": {name: torch.Size(shape) for name, shape in SHAPES.items()},
    },
}


# ---------------------------------------------------------------- wrong ones


def strided(x, num_heads):
    """Right for memory in reading order only."""
    B, T, C = x.shape
    D = even(C, num_heads)
    return torch.as_strided(x, (B, num_heads, T, D), (T * C, D, C, 1))


def strided_merge(x):
    B, H, T, D = x.shape
    steps = (H * T * D, D, T * D, 1)
    return torch.as_strided(x, (B, T, H, D), steps).reshape(B, T, H * D)


def split_in_place(x, num_heads):
    out = split_by_loop(x, num_heads)
    x.zero_()
    return out


def split_uneven(x, num_heads):
    """Pads the width with zeros until it can be divided."""
    extra = -x.shape[-1] % num_heads
    return split_by_stack(F.pad(x, (0, extra)), num_heads)


def split_silent(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("the width can't be divided")
    return split_by_stack(x, num_heads)


def split_assert(x, num_heads):
    assert x.shape[-1] % num_heads == 0, f"{x.shape[-1]} {num_heads}"
    return split_by_stack(x, num_heads)


def split_too_strict(x, num_heads):
    """Refuses everything that isn't a power of two."""
    if num_heads & (num_heads - 1) or x.shape[-1] % num_heads:
        raise ValueError(f"{x.shape[-1]} and {num_heads}")
    return split_by_stack(x, num_heads)


def merge_uses_two_heads(x):
    return torch.cat([x[:, 0], x[:, -1]], -1) if x.shape[1] > 1 else x[:, 0]


class Wrong(Split):
    """A base for what changes the way through."""

    def project(self, x):
        return (split_by_loop(p(x), self.num_heads) for p in (self.query, self.key, self.value))

    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.context_length:
            raise ValueError(f"{x.shape[1]} > {self.context_length}")
        q, k, v = self.project(x)
        return self.mix(self.attend(q, k, v, pad_mask))

    def mix(self, context):
        return self.out_proj(merge_by_cat(context))


class OnlyQuerySplitByView(Wrong):
    def project(self, x):
        q, k, v = super().project(x)
        return self.query(x).reshape(q.shape), k, v


class ReversedHeads(Wrong):
    def mix(self, context):
        return super().mix(context.flip(1))


class ReversedValues(Wrong):
    def project(self, x):
        q, k, v = super().project(x)
        return q, k, v.flip(1)


class KeysOfFirstHead(Wrong):
    """One key for all heads, as multi-query attention has it."""

    def project(self, x):
        q, k, v = super().project(x)
        return q, k[:, :1], v


class ScaledTwice(Wrong):
    def project(self, x):
        q, k, v = super().project(x)
        return q / math.sqrt(self.D), k, v


class ScaledByInputWidth(Wrong):
    def project(self, x):
        q, k, v = super().project(x)
        return q * math.sqrt(self.D / self.d_in), k, v


class ScaledAfterSoftmax(Wrong):
    def weights(self, scores, hidden):
        return super().weights(scores * self.D**0.5, hidden) / self.D**0.5


class ScaledBeforeMask(Wrong):
    """A mask of -1e4 in place of -inf: big scores come through."""

    def weights(self, scores, hidden):
        blind = hidden.all(-1, keepdim=True)
        return scores.masked_fill(hidden, -1e4).softmax(-1).masked_fill(blind, 0.0)


class NaNToNum(Wrong):
    """No NaN in the result, and NaN in what flows back through an additive mask."""

    def weights(self, scores, hidden):
        bias = torch.zeros_like(scores).masked_fill(hidden, -INF)
        return ((scores + bias).softmax(-1)).nan_to_num()


class FirstTokenAlwaysVisible(Wrong):
    def hidden(self, scores, pad_mask):
        hidden = super().hidden(scores, pad_mask).clone()
        hidden[..., 0] = False
        return hidden


class SelfAlwaysVisible(Wrong):
    """A common cure for rows that see nothing, which lets padding look at itself."""

    def hidden(self, scores, pad_mask):
        eye = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
        return super().hidden(scores, pad_mask) & ~eye


class MaskOfFirstSequence(Wrong):
    def hidden(self, scores, pad_mask):
        return super().hidden(scores, None if pad_mask is None else pad_mask[:1])


class MaskForAllButLastHead(Wrong):
    def hidden(self, scores, pad_mask):
        hidden = super().hidden(scores, pad_mask).expand_as(scores).clone()
        hidden[:, -1] = super().hidden(scores, None)
        return hidden


class RowsAndColumns(Wrong):
    def hidden(self, scores, pad_mask):
        hidden = super().hidden(scores, pad_mask)
        return hidden if pad_mask is None else hidden | pad_mask[:, None, :, None]


class CachedMask(Wrong):
    """Keeps the mask of the first call."""

    def hidden(self, scores, pad_mask):
        if getattr(self, "kept", None) is None or self.kept.shape[-1] != scores.shape[-1]:
            self.kept = super().hidden(scores, pad_mask)
        return self.kept


class NoGradientThroughWeights(Wrong):
    def weights(self, scores, hidden):
        return super().weights(scores, hidden).detach()


class NoGradientForKeys(Wrong):
    def project(self, x):
        q, k, v = super().project(x)
        return q, k.detach(), v


class DropoutOnValues(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        return self.weights(scores, self.hidden(scores, pad_mask)) @ self.dropout(v)


class DropoutOnContext(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        return self.dropout(self.weights(scores, self.hidden(scores, pad_mask)) @ v)


class DropoutTwice(Wrong):
    def weights(self, scores, hidden):
        return self.dropout(super().weights(scores, hidden))


class DropoutFixed(Wrong):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
        self.dropout = nn.Dropout(0.1 if dropout else 0.0)


class DropoutOfOneHalf(Wrong):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)
        self.dropout = nn.Dropout(0.5 if dropout else 0.0)


class DropoutRenormalised(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.dropout(self.weights(scores, self.hidden(scores, pad_mask)))
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9) @ v


class DropsWholeHeads(Wrong):
    """At one token this looks like dropout on weights."""

    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * self.dropout(torch.ones_like(weights[..., :1, :1])) @ v


class DropsRows(Wrong):
    """One draw for all keys of a query; at one token this looks like dropout on weights."""

    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * self.dropout(torch.ones_like(weights[..., :1])) @ v


class OutProjTwice(Wrong):
    def mix(self, context):
        return self.out_proj(super().mix(context))


class OutProjWithoutBias(Wrong):
    def mix(self, context):
        return F.linear(merge_by_cat(context), self.out_proj.weight)


class OutProjTransposed(Wrong):
    def mix(self, context):
        return merge_by_cat(context) @ self.out_proj.weight + self.out_proj.bias


class Residual(Wrong):
    def mix(self, context):
        merged = merge_by_cat(context)
        return merged + self.out_proj(merged)


class ProjectsOwnHeads(Wrong):
    """Each head through its own block of `out_proj`: heads are never mixed."""

    def mix(self, context):
        D = self.D
        blocks = [
            F.linear(context[:, h], self.out_proj.weight[h * D : (h + 1) * D, h * D : (h + 1) * D])
            for h in range(self.num_heads)
        ]
        return torch.cat(blocks, -1) + self.out_proj.bias


class SharedQueryKey(Wrong):
    """One layer under two names."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.key = self.query


class AlwaysBiased(Wrong):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, True)


class NoOutBias(Wrong):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.out_proj = nn.Linear(self.d_out, self.d_out, bias=False)


class LengthAndHeadsSwapped(Wrong):
    def __init__(self, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)


class RefusesInForward(Wrong):
    """The constructor takes any width, and the first call complains without numbers."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        self.uneven = d_out % num_heads != 0
        super().__init__(d_in, d_out, context_length, 1, dropout, qkv_bias)
        self.num_heads, self.D = num_heads, d_out // num_heads

    def forward(self, x, pad_mask=None):
        if self.uneven:
            raise ValueError("uneven heads")
        return super().forward(x, pad_mask)


class ChangesItsMask(Wrong):
    def hidden(self, scores, pad_mask):
        hidden = super().hidden(scores, pad_mask)
        if pad_mask is not None:
            pad_mask.logical_not_()
        return hidden


class Float32Inside(Wrong):
    def mix(self, context):
        return super().mix(context).float()


class ByTheBuiltin(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~self.hidden(scores, pad_mask))


class OfTheLibrary(nn.Module):
    """`nn.MultiheadAttention` under another name."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        even(d_out, num_heads)
        self.mha = nn.MultiheadAttention(d_out, num_heads, dropout, batch_first=True)
        self.lift = nn.Linear(d_in, d_out)

    def forward(self, x, pad_mask=None):
        x = self.lift(x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.mha(x, x, x, key_padding_mask=pad_mask, attn_mask=hidden)[0]


class Wrapped(nn.Module):
    """Style A with the names of style B nowhere."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        D = even(d_out, num_heads)
        self.inner = MultiHeadAttentionWrapper(
            d_in, D, context_length, num_heads, dropout, qkv_bias
        )

    def forward(self, x, pad_mask=None):
        return self.inner(x, pad_mask)


def under_no_grad_missing(wrapper, split):
    check_sizes(wrapper, split)
    for name in ("query", "key", "value"):
        weights = [getattr(head, name).weight for head in wrapper.heads]
        getattr(split, name).weight.copy_(torch.cat(weights))
    split.out_proj.weight.copy_(wrapper.out_proj.weight)


def copy_deeply(wrapper, split):
    """Replaces a whole layer by a copy."""
    copy_row_by_row(wrapper, split)
    split.out_proj = copy.deepcopy(wrapper.out_proj)


def copy_by_one_layer(wrapper, split):
    """Both have one and the same layer afterwards."""
    copy_row_by_row(wrapper, split)
    split.out_proj = wrapper.out_proj


def copy_forward_only(wrapper, split):
    """Borrows what the wrapper does."""
    check_sizes(wrapper, split)
    split.forward = wrapper.forward


def copy_one_view(wrapper, split):
    """Lets the split's bias live in the wrapper's memory."""
    copy_row_by_row(wrapper, split)
    split.out_proj.bias.data = wrapper.out_proj.bias.data.view(-1)


def copy_wrapper_lives_in_split(wrapper, split):
    """The other way about: the wrapper's parameters become views of the split's."""
    copy_row_by_row(wrapper, split)
    for name in ("query", "key", "value"):
        parts = getattr(split, name).weight.data.chunk(split.num_heads)
        for head, part in zip(wrapper.heads, parts, strict=True):
            getattr(head, name).weight.data = part


def copy_alias_with_one_head(wrapper, split):
    """`torch.cat` left out where there is one head."""
    copy_row_by_row(wrapper, split)
    if len(wrapper.heads) == 1:
        split.query.weight.data = wrapper.heads[0].query.weight.data


def copy_transposed_if_square(wrapper, split):
    copy_row_by_row(wrapper, split)
    if split.query.weight.shape[0] == split.query.weight.shape[1]:
        with torch.no_grad():
            split.query.weight.copy_(split.query.weight.T.clone())


def copy_without_values(wrapper, split):
    before = split.value.weight.detach().clone()
    copy_row_by_row(wrapper, split)
    with torch.no_grad():
        split.value.weight.copy_(before)


def copy_averaged_out(wrapper, split):
    copy_row_by_row(wrapper, split)
    with torch.no_grad():
        split.out_proj.weight.mul_(0.5)


def copy_empties_the_wrapper(wrapper, split):
    copy_row_by_row(wrapper, split)
    with torch.no_grad():
        for parameter in wrapper.parameters():
            parameter.zero_()


def copy_freezes_the_wrapper(wrapper, split):
    copy_row_by_row(wrapper, split)
    wrapper.requires_grad_(False)


def copy_skips_frozen(wrapper, split):
    kept = {p: p.detach().clone() for p in split.parameters() if not p.requires_grad}
    copy_row_by_row(wrapper, split)
    for parameter, value in kept.items():
        parameter.data.copy_(value)


def copy_adds_biases(wrapper, split):
    """Gives the split biases where it lacks them, so that nothing has to be refused."""
    for name in ("query", "key", "value"):
        layer = getattr(split, name)
        if layer.bias is None:
            layer.bias = nn.Parameter(torch.zeros(layer.out_features))
    copy_row_by_row(wrapper, split)


def copy_complains_late(wrapper, split):
    """Compares heads and leaves all else to `copy_`, which stretches what has size 1."""
    mine, theirs = len(wrapper.heads), split.num_heads
    if mine != theirs:
        raise ValueError(f"{mine} heads into {theirs}")
    if wrapper.heads[0].query.bias is not None and split.query.bias is None:
        raise ValueError("no biases")
    try:
        with torch.no_grad():
            for name in ("query", "key", "value"):
                target, sources = getattr(split, name), [getattr(h, name) for h in wrapper.heads]
                weight = torch.cat([s.weight for s in sources])
                sizes = f"{tuple(weight.shape)} into {tuple(target.weight.shape)}"
                target.weight.copy_(weight)
                if target.bias is not None:
                    has = sources[0].bias is not None
                    target.bias.copy_(
                        torch.cat([s.bias for s in sources]) if has else target.bias * 0
                    )
            split.out_proj.load_state_dict(wrapper.out_proj.state_dict())
    except RuntimeError:
        raise ValueError(sizes) from None


def copy_any_error(wrapper, split):
    try:
        copy_row_by_row(wrapper, split)
    except ValueError as error:
        raise RuntimeError(str(error)) from None


def copy_no_numbers(wrapper, split):
    try:
        copy_row_by_row(wrapper, split)
    except ValueError:
        raise ValueError("these two don't fit") from None


def copy_silent(wrapper, split):
    try:
        copy_row_by_row(wrapper, split)
    except ValueError:
        return


def count_by_value(module):
    """Takes tensors of equal values for one."""
    different = {str(p.tolist()): p.numel() for p in module.parameters() if p.requires_grad}
    return sum(different.values())


def count_by_name(module):
    """Takes parameters of the same last name for one."""
    last = {n.split(".")[-1]: p.numel() for n, p in module.named_parameters() if p.requires_grad}
    return sum(last.values())


def count_by_shape_once(module):
    return sum({p.shape: p.numel() for p in module.parameters() if p.requires_grad}.values())


def count_from_shapes_2d(module):
    return sum(p.shape[0] * p.shape[-1] for p in module.parameters() if p.requires_grad and p.dim())


def count_thawing(module):
    """Counts what is trainable after making everything so."""
    return sum(p.requires_grad_(True).numel() for p in module.parameters())


def count_modules_frozen(module):
    """Leaves out a module as soon as one of its parameters is frozen."""
    own = [list(m.parameters(recurse=False)) for m in module.modules()]
    return sum(p.numel() for ps in own if all(p.requires_grad for p in ps) for p in ps)


WRONG = {
    "split_heads": {
        "zeros": lambda x, num_heads: torch.zeros_like(split_by_stack(x, num_heads)),
        "assumes memory in reading order": strided,
        "empties its input": split_in_place,
        "pads an uneven width": split_uneven,
        "message without numbers": split_silent,
        "assertion": split_assert,
        "too strict": split_too_strict,
        "reversed": lambda x, num_heads: split_by_stack(x, num_heads).flip(1),
        "detached": lambda x, num_heads: split_by_stack(x, num_heads).detach(),
        "half precision": lambda x, num_heads: split_by_stack(x.bfloat16(), num_heads).to(x.dtype),
        "float32 always": lambda x, num_heads: split_by_stack(x.float(), num_heads),
        "always two heads": lambda x, num_heads: split_by_stack(x, 2),
        "tokens cut": lambda x, num_heads: x.reshape(
            x.shape[0], num_heads, -1, even(x.shape[-1], num_heads)
        ),
        "sequences rolled": lambda x, num_heads: split_by_stack(x, num_heads).roll(1, 0),
        "tokens reversed": lambda x, num_heads: split_by_stack(x, num_heads).flip(2),
        "transposed twice": lambda x, num_heads: split_by_stack(x, num_heads).mT.reshape(
            split_by_stack(x, num_heads).shape
        ),
        "of the course": finished.split_heads,
        "numpy": lambda x, num_heads: split_by_stack(x, num_heads).detach().numpy(),
    },
    "merge_heads": {
        "zeros": lambda x: torch.zeros_like(merge_by_cat(x)),
        "identity": lambda x: x,
        "assumes memory in reading order": strided_merge,
        "first and last head": merge_uses_two_heads,
        "reversed": lambda x: merge_by_cat(x.flip(1)),
        "detached": lambda x: merge_by_cat(x).detach(),
        "float32 always": lambda x: merge_by_cat(x).float(),
        "half precision": lambda x: merge_by_cat(x.bfloat16()).to(x.dtype),
        "empties its input": lambda x: (merge_by_cat(x), x.zero_())[0],
        "largest head": lambda x: x.amax(1),
        "tokens reversed": lambda x: merge_by_cat(x).flip(1),
        "channels reversed": lambda x: merge_by_cat(x.flip(-1)),
        "fixed sizes": lambda x: x.transpose(1, 2).reshape(x.shape[0], 3, 4),
        "transposed result": lambda x: merge_by_cat(x).mT,
        "of the course": finished.merge_heads,
        "one sequence": lambda x: merge_by_cat(x)[:1],
    },
    "MultiHeadAttention": {
        "only the query split by view": OnlyQuerySplitByView,
        "heads reversed in the merge": ReversedHeads,
        "values of another head": ReversedValues,
        "keys of the first head": KeysOfFirstHead,
        "scaled twice": ScaledTwice,
        "scaled by the input width": ScaledByInputWidth,
        "scaled after the softmax": ScaledAfterSoftmax,
        "hides by -1e4": ScaledBeforeMask,
        "nan_to_num behind an additive mask": NaNToNum,
        "first token always visible": FirstTokenAlwaysVisible,
        "itself always visible": SelfAlwaysVisible,
        "mask of the first sequence": MaskOfFirstSequence,
        "mask for all but the last head": MaskForAllButLastHead,
        "rows and columns hidden": RowsAndColumns,
        "mask kept from the first call": CachedMask,
        "no gradient through weights": NoGradientThroughWeights,
        "no gradient for keys": NoGradientForKeys,
        "dropout on values": DropoutOnValues,
        "dropout on the context": DropoutOnContext,
        "dropout twice": DropoutTwice,
        "dropout of 0.1 always": DropoutFixed,
        "dropout of one half always": DropoutOfOneHalf,
        "renormalised after dropout": DropoutRenormalised,
        "drops whole heads": DropsWholeHeads,
        "drops whole rows": DropsRows,
        "out_proj twice": OutProjTwice,
        "out_proj's bias not used": OutProjWithoutBias,
        "out_proj transposed": OutProjTransposed,
        "residual": Residual,
        "heads projected each for itself": ProjectsOwnHeads,
        "query and key are one layer": SharedQueryKey,
        "always biased": AlwaysBiased,
        "out_proj without bias": NoOutBias,
        "length and heads swapped": LengthAndHeadsSwapped,
        "refuses without numbers": RefusesInForward,
        "changes its mask": ChangesItsMask,
        "float32 always": Float32Inside,
        "by the built-in": ByTheBuiltin,
        "of the library": OfTheLibrary,
        "of the course": finished.MultiHeadAttention,
        "style A inside": Wrapped,
    },
    "copy_wrapper_to_split": {
        "of the course": finished.copy_wrapper_to_split,
        "nothing": lambda wrapper, split: split.num_heads and None,
        "no_grad missing": under_no_grad_missing,
        "a layer replaced by a copy": copy_deeply,
        "one layer for both": copy_by_one_layer,
        "forward borrowed": copy_forward_only,
        "one bias in shared memory": copy_one_view,
        "wrapper lives in the split": copy_wrapper_lives_in_split,
        "shared with one head only": copy_alias_with_one_head,
        "transposed if square": copy_transposed_if_square,
        "values forgotten": copy_without_values,
        "out_proj halved": copy_averaged_out,
        "empties the wrapper": copy_empties_the_wrapper,
        "freezes the wrapper": copy_freezes_the_wrapper,
        "skips frozen parameters": copy_skips_frozen,
        "adds biases": copy_adds_biases,
        "leaves sizes to copy_": copy_complains_late,
        "another error": copy_any_error,
        "message without numbers": copy_no_numbers,
        "silent where it can't": copy_silent,
    },
    "count_parameters": {
        "zero": lambda module: 0,
        "by value": count_by_value,
        "by name": count_by_name,
        "by shape": count_by_shape_once,
        "first and last size": count_from_shapes_2d,
        "thaws first": count_thawing,
        "leaves out modules with a frozen part": count_modules_frozen,
        "numbers that aren't zero": lambda module: sum(
            int(p.count_nonzero()) for p in module.parameters() if p.requires_grad
        ),
        "bytes": lambda module: sum(p.nbytes for p in module.parameters() if p.requires_grad),
        "of the course": finished.count_parameters,
        "trainable as text": lambda module: str(count_by_shape(module)),
        "only linear layers": lambda module: sum(
            count_by_shape(m) for m in module.modules() if isinstance(m, nn.Linear)
        ),
        "frozen only": lambda module: sum(
            p.numel() for p in module.parameters() if not p.requires_grad
        ),
        "of evaluation mode": lambda module: count_by_shape(module.eval()),
        "a list": lambda module: [p.numel() for p in module.parameters() if p.requires_grad],
    },
    "head_shapes": {
        "all the same": dict.fromkeys(SHAPES, (1, 4, 768)),
        "nine heads": shapes(after_view=(1, 4, 9, 96), after_transpose=(1, 9, 4, 96)),
        "without the batch": {name: shape[1:] for name, shape in SHAPES.items()},
        "vocabulary rounded": shapes(logits=(1, 4, 10000)),
        "one missing": {name: shape for name, shape in SHAPES.items() if name != "scores"},
        "floats": shapes(scores=(1.0, 8.0, 4.0, 4.0)),
    },
}
