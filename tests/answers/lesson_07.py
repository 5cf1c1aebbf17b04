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


def split_by_strides(x, num_heads):
    B, T, C = x.shape
    D = even(C, num_heads)
    b, t, c = x.stride()
    return x.as_strided((B, num_heads, T, D), (b, D * c, t, c))


def split_by_map(x, num_heads):
    D = even(x.shape[-1], num_heads)
    one = torch.vmap(lambda token: token.reshape(num_heads, D), out_dims=1)
    return torch.vmap(one)(x)


def split_by_index(x, num_heads):
    D = even(x.shape[-1], num_heads)
    channels = torch.arange(x.shape[-1], device=x.device).view(num_heads, D)
    return x[:, :, channels].movedim(2, 1)


def split_by_halves(x, num_heads):
    """Cuts off one head after the other."""
    D = even(x.shape[-1], num_heads)
    heads = []
    while x.shape[-1]:
        head, x = x[..., :D], x[..., D:]
        heads.append(head.unsqueeze(1))
    return torch.concatenate(heads, dim=1)


class Splitter:
    """A class whose instance is called."""

    def __call__(self, x, num_heads):
        return split_by_unflatten(x, num_heads)


def merge_into_place(x):
    B, H, T, D = x.shape
    out = x.new_empty(B, T, H * D)
    out.view(B, T, H, D).copy_(x.transpose(1, 2))
    return out


def merge_by_map(x):
    return torch.vmap(lambda heads: torch.cat(heads.unbind(0), -1))(x)


def merge_by_moving(x):
    return x.movedim(1, -2).reshape(*x.shape[:1], x.shape[2], -1)


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


class Additive(Split):
    """An additive mask of the lowest number, as some libraries have it, and empty rows cleared."""

    def weights(self, scores, hidden):
        hidden = hidden.expand_as(scores)
        scores = scores + hidden.to(scores.dtype) * torch.finfo(scores.dtype).min
        scores = scores.clamp(min=torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * ~hidden


class OwnSoftmax(Split):
    """From exponentials, in float32 at least, with empty rows divided by 1."""

    def weights(self, scores, hidden):
        wide = torch.promote_types(scores.dtype, torch.float32)
        shifted = scores.to(wide).masked_fill(hidden, -INF)
        top = shifted.detach().amax(-1, keepdim=True)
        exps = (shifted - top.nan_to_num(neginf=0.0)).exp()
        total = exps.sum(-1, keepdim=True)
        return (exps / total.masked_fill(total == 0, 1.0)).to(scores.dtype)


class KeptBias(Split):
    """The mask as a persistent (1, 1, L, L) buffer of numbers, as GPT-2 has it."""

    def __init__(self, d_in, d_out, context_length, *args, **kwargs):
        super().__init__(d_in, d_out, context_length, *args, **kwargs)
        L = context_length
        self.register_buffer("bias", torch.ones(L, L, dtype=torch.uint8).tril().view(1, 1, L, L))

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = self.bias[:, :, :T, :T] == 0
        return hidden if pad_mask is None else hidden.logical_or(pad_mask.view(-1, 1, 1, T))


class OneSequenceAtATime(Split):
    def attend(self, q, k, v, pad_mask):
        attend, out = super().attend, []
        for b in range(len(q)):
            mask = None if pad_mask is None else pad_mask[b : b + 1]
            out.append(attend(q[b : b + 1], k[b : b + 1], v[b : b + 1], mask))
        return torch.cat(out)


class OneQueryAtATime(Split):
    """Each row from the keys up to itself alone: nothing is hidden but padding."""

    def attend(self, q, k, v, pad_mask):
        rows = []
        for t in range(q.shape[2]):
            scores = q[:, :, t : t + 1] @ k[:, :, : t + 1].mT / math.sqrt(self.D)
            if pad_mask is None:
                weights = scores.softmax(-1)
            else:
                weights = self.weights(scores, pad_mask[:, None, None, : t + 1])
            rows.append(self.dropout(weights) @ v[:, :, : t + 1])
        return torch.cat(rows, dim=2)


class PerHeadMapped(Split):
    """By `vmap` over the heads in evaluation mode."""

    def attend(self, q, k, v, pad_mask):
        if self.training:
            return super().attend(q, k, v, pad_mask)
        attend = super().attend

        def one(q, k, v):
            return attend(q[:, None], k[:, None], v[:, None], pad_mask)[:, 0]

        return torch.vmap(one, in_dims=1, out_dims=1)(q, k, v)


class PlacesFromNumbers(Split):
    """Tensors made of Python's numbers, on the device of the scores."""

    def hidden(self, scores, pad_mask):
        places = torch.tensor(list(range(scores.shape[-1])), device=scores.device)
        hidden = torch.gt(places[None, :], places[:, None])
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]

    def weights(self, scores, hidden):
        lowest = scores.new_tensor([-INF])
        blind = hidden.all(-1, keepdim=True)
        return torch.where(hidden & ~blind, lowest, scores).softmax(-1).masked_fill(hidden, 0.0)


class WithParts(nn.Module):
    """A helper class for a head's work, a static method for the mask, and more options."""

    class Attend(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.drop = nn.Dropout(p=dropout)

        def forward(self, q, k, v, hidden):
            scores = torch.einsum("...td,...sd->...ts", q, k).mul_(q.shape[-1] ** -0.5)
            empty = hidden.all(-1, keepdim=True).expand_as(scores[..., :1])
            weights = torch.softmax(scores.masked_fill_(hidden & ~empty, -INF), -1)
            return self.drop(weights.masked_fill(hidden, 0)) @ v

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        even(d_out, num_heads)
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(d_in, d_out, bias=qkv_bias))
        self.attend, self.out_proj = self.Attend(dropout), nn.Linear(d_out, d_out)
        self.sizes = context_length, num_heads

    @staticmethod
    def hidden(T, device, pad_mask):
        places = torch.arange(T, device=device)
        hidden = places > places[:, None]
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]

    def forward(self, x, pad_mask=None, *, return_weights=False):
        limit, heads = self.sizes
        T = x.size(1)
        if T > limit:
            raise ValueError(f"got {T} tokens, the limit is {limit}")
        if pad_mask is not None and pad_mask.shape != x.shape[:2]:
            raise ValueError(f"pad_mask {tuple(pad_mask.shape)} for {tuple(x.shape)}")
        q, k, v = (
            layer(x).unflatten(-1, (heads, -1)).movedim(-2, -3)
            for layer in (self.query, self.key, self.value)
        )
        out = self.attend(q, k, v, self.hidden(T, x.device, pad_mask))
        return self.out_proj(torch.cat(out.unbind(-3), -1))


class ProjectedAtOnce(Split):
    """The three weights joined for one product, out_proj applied head by head."""

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} > {self.context_length}")
        layers = (self.query, self.key, self.value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        parts = F.linear(x, weight, bias).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (-1, self.D)).swapaxes(1, 2) for p in parts)
        context = self.attend(q, k, v, pad_mask)
        blocks = self.out_proj.weight.split(self.D, 1)
        mixed = [context[:, h] @ block.mT for h, block in enumerate(blocks)]
        return torch.stack(mixed).sum(0) + self.out_proj.bias


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


def copy_in_slices(wrapper, split):
    """Into views of the parameters' data, from biases that may be None."""
    check_sizes(wrapper, split)
    for name in ("query", "key", "value"):
        target = getattr(split, name)
        weights, biases = target.weight.data.chunk(split.num_heads), [None] * split.num_heads
        if target.bias is not None:
            biases = target.bias.data.zero_().chunk(split.num_heads)
        for head, weight, bias in zip(wrapper.heads, weights, biases, strict=True):
            source = getattr(head, name)
            weight[:] = source.weight.data
            if source.bias is not None:
                bias[:] = source.bias.data
    split.out_proj.load_state_dict(wrapper.out_proj.state_dict())


@torch.no_grad()
def copy_widths_first(wrapper, split):
    """Compares the widths of heads, in a function under `no_grad`."""
    D = wrapper.heads[0].value.out_features
    theirs = split.value.out_features // split.num_heads
    if theirs != D:
        raise ValueError(f"heads of {D} into heads of {theirs}")
    check_sizes(wrapper, split)
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            target = getattr(getattr(split, name), kind)
            parts = [getattr(getattr(head, name), kind) for head in wrapper.heads]
            if target is not None:
                target.fill_(0.0) if parts[0] is None else target.set_(torch.cat(parts).clone())
    for target, source in zip(
        split.out_proj.parameters(), wrapper.out_proj.parameters(), strict=True
    ):
        target.mul_(0).add_(source)


def copy_all_at_once(wrapper, split):
    """Through one vector of all numbers."""
    check_sizes(wrapper, split)
    made = []
    for name, parameter in split.named_parameters():
        layer, kind = name.split(".")
        if layer == "out_proj":
            made.append(wrapper.get_parameter(name))
        else:
            parts = [getattr(getattr(head, layer), kind) for head in wrapper.heads]
            made.append(torch.zeros_like(parameter) if parts[0] is None else torch.cat(parts))
    vector = torch.cat([m.detach().flatten() for m in made])
    sizes = [p.numel() for p in split.parameters()]
    for parameter, values in zip(split.parameters(), vector.split(sizes), strict=True):
        parameter.detach().copy_(values.view_as(parameter))


def count_by_numpy(module):
    import numpy as np

    sizes = [np.prod(p.shape, dtype=np.int64) for p in module.parameters() if p.requires_grad]
    return np.sum(sizes, dtype=np.int64)


def count_by_recursion(module, seen=None):
    seen = set() if seen is None else seen
    total = 0
    for parameter in module.parameters(recurse=False):
        if parameter.requires_grad and parameter not in seen:
            seen.add(parameter)
            total += parameter.nelement()
    return total + sum(count_by_recursion(child, seen) for child in module.children())


def count_by_dict(module):
    by_id = {id(p): p for p in module.parameters()}
    return sum(p.size().numel() for p in by_id.values() if p.requires_grad)


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


REASONS = {
    "token in row 0 of head 1": 2,
    "scores divided by": 4.0,
    "grows with more heads": "attention weights",
    "mask of text 1 hides keys from": "query 1 of every text",
    "also to be swapped": "columns of out_proj.weight",
}


def split_by_product(x, num_heads):
    D = even_width(x.shape[-1], num_heads)
    pick = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).view(num_heads, D, -1)
    return torch.einsum("btc,hdc->bhtd", x, pick)


def even_width(C, H):
    if C % H:
        raise ValueError(f"{C} channels don't go into {H} heads")
    return C // H


def split_refuses_some(x, num_heads):
    if x.shape[-1] % num_heads in (1, 2, 3):
        raise ValueError(f"{x.shape[-1]} {num_heads}")
    D = x.shape[-1] // num_heads
    return split_by_unflatten(x[..., : D * num_heads], num_heads)


def merge_by_product(x):
    H, D = x.shape[1], x.shape[3]
    put = torch.eye(H * D, dtype=x.dtype, device=x.device).view(H, D, H * D)
    return torch.einsum("bhtd,hdc->btc", x, put)


def split_by_chunks(x, num_heads):
    return torch.stack(x.split(even_width(x.shape[-1], num_heads), dim=-1)).transpose(0, 1)


def merge_by_hstack(x):
    return torch.dstack(x.unbind(1))


def then(change):
    """A right copy, and then something more."""

    def answer(wrapper, split):
        copy_all_at_once(wrapper, split)
        change(wrapper, split)

    return answer


def _no_dropout(wrapper, split):
    split.dropout.p = 0.0


def _mask_shared(wrapper, split):
    split.hidden = wrapper.heads[0].hidden


def copy_widths_by_copy(wrapper, split):
    """Heads and channels compared, widths left to `copy_`, which stretches 1 to 4."""
    first = wrapper.heads[0].query
    for a, b in (
        (len(wrapper.heads), split.num_heads),
        (first.in_features, split.query.in_features),
        (first.bias is not None and split.query.bias is None, False),
    ):
        if a != b:
            raise ValueError(f"{a} is not {b}")
    try:
        with torch.no_grad():
            for name in ("query", "key", "value"):
                target, sources = getattr(split, name), [getattr(h, name) for h in wrapper.heads]
                target.weight.copy_(torch.cat([s.weight for s in sources]))
                if target.bias is not None:
                    biases = [s.bias for s in sources if s.bias is not None]
                    target.bias.copy_(torch.cat(biases) if biases else target.bias * 0)
            split.out_proj.weight.copy_(wrapper.out_proj.weight)
            split.out_proj.bias.copy_(wrapper.out_proj.bias)
    except RuntimeError as error:
        widths = wrapper.out_proj.out_features, split.out_proj.out_features
        raise ValueError(f"{widths}") from error


def copy_by_foreach(wrapper, split):
    targets, values = [], []
    for name, parameter in split.named_parameters():
        layer, kind = name.split(".")
        targets.append(parameter)
        if layer == "out_proj":
            values.append(wrapper.get_parameter(name))
        else:
            parts = [getattr(getattr(head, layer), kind) for head in wrapper.heads]
            values.append(torch.zeros_like(parameter) if parts[0] is None else torch.cat(parts))
    lost = wrapper.heads[0].query.bias is not None and split.query.bias is None
    shapes = [(tuple(v.shape), tuple(t.shape)) for v, t in zip(values, targets, strict=True)]
    if len(wrapper.heads) != split.num_heads or lost or any(a != b for a, b in shapes):
        raise ValueError(f"{len(wrapper.heads)} heads into {split.num_heads}, {shapes}")
    with torch.no_grad():
        torch._foreach_copy_(targets, values)


def count_in_float32(module):
    counts = [p.numel() for p in module.parameters() if p.requires_grad]
    return int(torch.tensor(counts, dtype=torch.float32).sum())


def count_through_half(module):
    module.half().float()
    return count_by_loop(module)


def count_and_clear(module):
    module.zero_grad()
    return count_by_loop(module)


RIGHT = {
    "split_heads": {
        "chunks": split_by_chunks,
        "tensor_split": lambda x, num_heads: torch.stack(
            x.tensor_split(num_heads * bool(even_width(x.shape[-1], num_heads)), -1), 1
        ),
        "stack": split_by_stack,
        "unflatten": split_by_unflatten,
        "loop": split_by_loop,
        "einsum": split_by_einsum,
        "strides": split_by_strides,
        "vmap": split_by_map,
        "index": split_by_index,
        "one head cut off after the other": split_by_halves,
        "an object": Splitter(),
    },
    "merge_heads": {
        "dstack": merge_by_hstack,
        "permute and flatten": lambda x: x.permute(0, 2, 1, 3).flatten(-2),
        "cat": merge_by_cat,
        "contiguous view": merge_by_view,
        "flatten": merge_by_flatten,
        "einsum": merge_by_einsum,
        "into place": merge_into_place,
        "vmap": merge_by_map,
        "movedim": merge_by_moving,
    },
    "MultiHeadAttention": {
        "plain": Split,
        "a loop over heads": HeadLoop,
        "einsum and an additive mask": Einsum,
        "baddbmm and where": Baddbmm,
        "one fused projection": Fused,
        "a frozen parameter as mask": KeptMask,
        "the lowest number added": Additive,
        "a softmax of its own": OwnSoftmax,
        "a persistent mask of numbers": KeptBias,
        "one sequence at a time": OneSequenceAtATime,
        "one query at a time": OneQueryAtATime,
        "vmap over heads": PerHeadMapped,
        "with parts": WithParts,
        "places from numbers": PlacesFromNumbers,
        "projected at once": ProjectedAtOnce,
    },
    "copy_wrapper_to_split": {
        "foreach": copy_by_foreach,
        "row by row": copy_row_by_row,
        "by state_dict": copy_by_state_dict,
        "by data of its own": copy_by_data,
        "in slices": copy_in_slices,
        "widths first": copy_widths_first,
        "all at once": copy_all_at_once,
    },
    "count_parameters": {
        "by id": lambda module: sum(
            {id(p): p.numel() for p in module.parameters() if p.requires_grad}.values()
        ),
        "products of sizes": lambda module: sum(
            math.prod(p.size()) for p in module.parameters() if p.requires_grad
        ),
        "loop": count_by_loop,
        "shape": count_by_shape,
        "flat": count_flat,
        "numpy": count_by_numpy,
        "recursion": count_by_recursion,
        "dict": count_by_dict,
    },
    "split_reasons": {
        "a whole number for the root": {**REASONS, "scores divided by": 4},
        "in capitals, with blanks": {
            name: f" {a.upper()} " if isinstance(a, str) else a for name, a in REASONS.items()
        },
        "a bit off": {**REASONS, "scores divided by": 16**0.5 + 1e-9},
    },
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


class MaskOfClass(Wrong):
    """One mask for all modules, on the CPU, made when the class is."""

    FUTURE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = self.FUTURE[:T, :T]
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]


class MaskOf1024(Wrong):
    """The mask ends at 1,024 tokens; what is beyond sees everything."""

    def hidden(self, scores, pad_mask):
        T = scores.shape[-1]
        hidden = super().hidden(scores, pad_mask).clone()
        if T > 1024:
            hidden[..., 1024:, 1024:] = False
        return hidden


class ArangeOnCpu(Wrong):
    def hidden(self, scores, pad_mask):
        places = torch.arange(scores.shape[-1])
        hidden = places > places[:, None]
        return hidden if pad_mask is None else hidden | pad_mask[:, None, None]


class ZeroScoresHidden(Wrong):
    """Multiplies by a triangle, and takes every score of 0 for hidden."""

    def weights(self, scores, hidden):
        seen = scores * ~hidden
        seen = seen.masked_fill(seen == 0, -INF)
        return seen.softmax(-1).nan_to_num()


class EmptyRowsGuessed(Wrong):
    """Takes a row of equal scores for one that sees nothing."""

    def weights(self, scores, hidden):
        filled = scores.masked_fill(hidden, -1e9)
        weights = filled.softmax(-1)
        alike = filled.amax(-1, keepdim=True) == filled.amin(-1, keepdim=True)
        return weights.masked_fill(alike, 0.0)


class ZeroTokensHidden(Wrong):
    def forward(self, x, pad_mask=None):
        zeros = (x == 0).all(-1)
        return super().forward(x, zeros if pad_mask is None else zeros | pad_mask)


class ExponentialsUnshifted(Wrong):
    def weights(self, scores, hidden):
        exps = scores.exp().masked_fill(hidden, 0.0)
        return exps / exps.sum(-1, keepdim=True).clamp(min=1e-30)


class ClampedScores(Wrong):
    def weights(self, scores, hidden):
        return super().weights(scores.clamp(-50, 50), hidden)


class LengthCheckedWithoutMask(Wrong):
    def forward(self, x, pad_mask=None):
        limit = self.context_length
        self.context_length = limit if pad_mask is None else x.shape[1]
        try:
            return super().forward(x, pad_mask)
        finally:
            self.context_length = limit


class OneMoreAccepted(Wrong):
    def __init__(self, d_in, d_out, context_length, *args, **kwargs):
        super().__init__(d_in, d_out, context_length + 1, *args, **kwargs)


class UnevenAtTheCall(Wrong):
    """Names both numbers, but only when it is called."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, 1, dropout, qkv_bias)
        self.num_heads, self.D = num_heads, d_out // num_heads

    def forward(self, x, pad_mask=None):
        even(self.d_out, self.num_heads)
        return super().forward(x, pad_mask)


class OnlyFewerChannelsRefused(Wrong):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        if d_out < num_heads:
            raise ValueError(f"{d_out} < {num_heads}")
        d = d_out if d_out % num_heads == 0 else num_heads
        super().__init__(d_in, d, context_length, num_heads, dropout, qkv_bias)


class OtherNames(Wrong):
    def forward(self, x, mask=None):
        return super().forward(x, mask)


class OtherOrder(Wrong):
    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False, dropout=0.0):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)


class CutOffInTraining(Wrong):
    def weights(self, scores, hidden):
        weights = super().weights(scores, hidden)
        return weights.detach() if self.training else weights


class NoMaskInTraining(Wrong):
    def hidden(self, scores, pad_mask):
        return super().hidden(scores, None if self.training else pad_mask)


class DropoutWithoutMaskOnly(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return (self.dropout(weights) if pad_mask is None else weights) @ v


class DropoutOnQueries(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = self.dropout(q) @ k.mT / math.sqrt(self.D)
        return self.weights(scores, self.hidden(scores, pad_mask)) @ v


class OneDrawForAllHeads(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * self.dropout(torch.ones_like(weights[:, :1])) @ v


class OneDrawForTheBatch(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * self.dropout(torch.ones_like(weights[:1])) @ v


class DropsWholeKeys(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * self.dropout(torch.ones_like(weights[..., :1, :])) @ v


class FixedDraw(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        if self.training:
            generator = torch.Generator().manual_seed(0)
            p = self.dropout.p
            kept = torch.rand(weights.shape, generator=generator) >= p
            weights = weights * kept / (1 - p)
        return weights @ v


class NotScaledUp(Wrong):
    def attend(self, q, k, v, pad_mask):
        scores = q @ k.mT / math.sqrt(self.D)
        weights = self.weights(scores, self.hidden(scores, pad_mask))
        return weights * (self.dropout(torch.ones_like(weights)) > 0) @ v


class OneBuffer(Wrong):
    kept = None

    def mix(self, context):
        out = super().mix(context)
        if self.kept is None or self.kept.shape != out.shape:
            self.kept = torch.empty_like(out)
        return self.kept.detach_().copy_(out)


class AsksItsInput(Wrong):
    def forward(self, x, pad_mask=None):
        if not x.requires_grad:
            x.requires_grad_()
        return super().forward(x, pad_mask)


class FillsTheMask(Wrong):
    """The causal mask written into the padding mask it was given, where it fits."""

    def hidden(self, scores, pad_mask):
        hidden = super().hidden(scores, pad_mask)
        if pad_mask is not None and pad_mask.all(1).any():
            pad_mask[pad_mask.all(1)] = False
        return hidden


class SetsTheDtype(Wrong):
    def forward(self, x, pad_mask=None):
        torch.set_default_dtype(x.dtype)
        torch.manual_seed(0)
        return super().forward(x, pad_mask)


def copy_reversed(wrapper, split):
    copy_row_by_row(wrapper, split)
    with torch.no_grad():
        for name in ("query", "key", "value"):
            for parameter in getattr(split, name).parameters():
                parameter.copy_(torch.cat(parameter.chunk(split.num_heads)[::-1]))


def copy_assigned(wrapper, split):
    """Assigns the tensor that `torch.cat` gives."""
    check_sizes(wrapper, split)
    with torch.no_grad():
        split.query.weight = torch.cat([head.query.weight for head in wrapper.heads])


def copy_half_of_the_heads(wrapper, split):
    check_sizes(wrapper, split)
    D, half = wrapper.heads[0].query.out_features, (len(wrapper.heads) + 1) // 2
    with torch.no_grad():
        for name in ("query", "key", "value"):
            target = getattr(split, name)
            for h, head in enumerate(wrapper.heads[:half]):
                target.weight[h * D : (h + 1) * D] = getattr(head, name).weight
        split.out_proj.load_state_dict(wrapper.out_proj.state_dict())


def copy_shares_biases(wrapper, split):
    copy_row_by_row(wrapper, split)
    if split.query.bias is not None and len(wrapper.heads) == 1:
        split.query.bias.data = wrapper.heads[0].query.bias.data
    split.out_proj.bias.data = wrapper.out_proj.bias.data


def copy_one_head_more(wrapper, split):
    """Takes a split with fewer heads."""
    if len(wrapper.heads) > split.num_heads:
        kept, split.num_heads = split.num_heads, len(wrapper.heads)
        try:
            return copy_row_by_row(wrapper, split)
        finally:
            split.num_heads = kept
    return copy_row_by_row(wrapper, split)


def copy_moves_gradients(wrapper, split):
    copy_row_by_row(wrapper, split)
    return [p.requires_grad_() for p in split.parameters()] and None


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


def count_by_address(module):
    """Tells shared parameters by where their numbers lie."""
    return sum({p.data_ptr(): p.numel() for p in module.parameters() if p.requires_grad}.values())


_counted = 0


def count_globally(module):
    """Adds to a number that is never set back."""
    global _counted
    for parameter in module.parameters():
        if parameter.requires_grad:
            _counted += parameter.numel()
    return _counted


def count_known_layers(module):
    kinds = (nn.Linear, nn.LayerNorm, nn.Embedding, nn.Conv1d, nn.BatchNorm1d)
    own = {p for m in module.modules() if isinstance(m, kinds) for p in m.parameters(recurse=False)}
    return sum(p.numel() for p in own if p.requires_grad)


def count_with_gradients(module):
    return sum(p.numel() for p in module.parameters() if p.grad is not None)


def count_height_and_width(module):
    sizes = [(*p.shape, 1, 1)[:2] for p in module.parameters() if p.requires_grad]
    return sum(a * b for a, b in sizes)


def count_two_levels(module):
    parts = [module, *module.children()]
    found = {p for m in parts for p in m.parameters(recurse=False)}
    return sum(p.numel() for p in found if p.requires_grad)


def count_by_attributes(module):
    """Only what is reached by `weight` and `bias`."""
    found = set()
    for m in module.modules():
        found |= {getattr(m, n, None) for n in ("weight", "bias")}
    return sum(p.numel() for p in found if isinstance(p, nn.Parameter) and p.requires_grad)


def count_by_value(module):
    """Takes tensors that begin with equal values for one."""
    trained = [p for p in module.parameters() if p.requires_grad]
    return sum({(p.shape, str(p.flatten()[:99].tolist())): p.numel() for p in trained}.values())


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
        "a product with ones and zeros": split_by_product,
        "remainders 1 to 3 refused": split_refuses_some,
        "64 sequences": lambda x, num_heads: split_by_unflatten(x[:64], num_heads),
        "NaN cleared": lambda x, num_heads: split_by_unflatten(x, num_heads).nan_to_num(),
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
        "other names": lambda tokens, heads: split_by_stack(tokens, heads),
        "at most 64 heads": lambda x, num_heads: split_by_stack(x, min(num_heads, 64)),
        "at most 1,024 tokens": lambda x, num_heads: split_by_stack(x, num_heads)[:, :, :1024],
        "refuses fewer channels than heads": lambda x, num_heads: (
            even(x.shape[-1], num_heads)
            if x.shape[-1] < num_heads
            else split_by_stack(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)
        ),
        "shifted a little": lambda x, num_heads: split_by_stack(x, num_heads) + 1e-3,
    },
    "merge_heads": {
        "a product with ones and zeros": merge_by_product,
        "64 sequences": lambda x: merge_by_flatten(x[:64]),
        "NaN cleared": lambda x: merge_by_flatten(x).nan_to_num(),
        "zeros": lambda x: torch.zeros_like(merge_by_cat(x)),
        "the first head alone": lambda x: merge_by_cat(
            torch.cat([x[:, :1], torch.zeros_like(x[:, 1:])], dim=1)
        ),
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
        "other names": lambda heads: merge_by_cat(heads),
        "at most 64 heads": lambda x: merge_by_cat(x[:, :64]),
        "at most 1,024 tokens": lambda x: merge_by_cat(x[:, :, :1024]),
        "asks its input": lambda x: merge_by_cat(x.requires_grad_()),
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
        "mask of the class": MaskOfClass,
        "mask of 1,024": MaskOf1024,
        "places on the CPU": ArangeOnCpu,
        "scores of zero hidden": ZeroScoresHidden,
        "empty rows guessed": EmptyRowsGuessed,
        "tokens of zeros hidden": ZeroTokensHidden,
        "exponentials unshifted": ExponentialsUnshifted,
        "scores clamped": ClampedScores,
        "length checked only without a mask": LengthCheckedWithoutMask,
        "one more accepted": OneMoreAccepted,
        "uneven refused at the call": UnevenAtTheCall,
        "only fewer channels refused": OnlyFewerChannelsRefused,
        "other names": OtherNames,
        "other order": OtherOrder,
        "cut off in training": CutOffInTraining,
        "no mask in training": NoMaskInTraining,
        "dropout without a mask only": DropoutWithoutMaskOnly,
        "dropout on queries": DropoutOnQueries,
        "one draw for all heads": OneDrawForAllHeads,
        "one draw for the batch": OneDrawForTheBatch,
        "drops whole keys": DropsWholeKeys,
        "fixed draw": FixedDraw,
        "not scaled up": NotScaledUp,
        "one buffer for all results": OneBuffer,
        "asks its input": AsksItsInput,
        "clears the mask of empty sequences": FillsTheMask,
        "sets the default dtype": SetsTheDtype,
    },
    "copy_wrapper_to_split": {
        "wrapper to evaluation": then(lambda wrapper, split: wrapper.eval()),
        "no dropout any more": then(_no_dropout),
        "dropout off": then(lambda wrapper, split: split.dropout.eval()),
        "mask shared": then(_mask_shared),
        "gradients cleared": then(lambda wrapper, split: wrapper.zero_grad()),
        "by other names": lambda source, target: copy_all_at_once(source, target),
        "widths left to copy_": copy_widths_by_copy,
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
        "heads reversed": copy_reversed,
        "assigned": copy_assigned,
        "half of the heads": copy_half_of_the_heads,
        "shares biases": copy_shares_biases,
        "into a split with fewer heads": copy_one_head_more,
        "thaws all": copy_moves_gradients,
    },
    "count_parameters": {
        "in float32": count_in_float32,
        "through half": count_through_half,
        "gradients cleared": count_and_clear,
        "by another name": lambda model: count_by_loop(model),
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
        "parts alone, each number once": lambda module: sum(
            p.numel()
            for p in {p for part in module.children() for p in part.parameters()}
            if p.requires_grad
        ),
        "nothing for a layer that stands alone": lambda module: (
            0 if isinstance(module, nn.Linear) else count_by_shape(module)
        ),
        "trainable as text": lambda module: str(count_by_shape(module)),
        "only linear layers": lambda module: sum(
            count_by_shape(m) for m in module.modules() if isinstance(m, nn.Linear)
        ),
        "frozen only": lambda module: sum(
            p.numel() for p in module.parameters() if not p.requires_grad
        ),
        "of evaluation mode": lambda module: count_by_shape(module.eval()),
        "a list": lambda module: [p.numel() for p in module.parameters() if p.requires_grad],
        "by address": count_by_address,
        "added to a global": count_globally,
        "known layers": count_known_layers,
        "with gradients": count_with_gradients,
        "height and width": count_height_and_width,
        "two levels": count_two_levels,
        "weight and bias": count_by_attributes,
    },
    "split_reasons": {
        "token 3": {**REASONS, "token in row 0 of head 1": 3},
        "the number, not its token": {**REASONS, "token in row 0 of head 1": 12},
        "multiplied": {**REASONS, "scores divided by": 0.25},
        "columns of another weight": {**REASONS, "also to be swapped": "columns"},
        "one missing": {n: a for n, a in REASONS.items() if n != "also to be swapped"},
        "a head's width in words": {**REASONS, "scores divided by": "4"},
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
