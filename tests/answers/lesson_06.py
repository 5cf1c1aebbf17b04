"""Right and wrong answers for lesson 06."""

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.attention import (
    CausalSelfAttention,
    MultiHeadAttentionWrapper,
    PaddedCausalSelfAttention,
)


class Wrapper(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.d_head, self.context_length = num_heads, d_head, context_length
        self.heads = nn.ModuleList(
            [
                PaddedCausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
                for _ in range(num_heads)
            ]
        )
        self.out_proj = nn.Linear(num_heads * d_head, num_heads * d_head)

    def contexts(self, x, pad_mask):
        return [head(x, pad_mask) for head in self.heads]

    def forward(self, x, pad_mask=None):
        return self.out_proj(torch.cat(self.contexts(x, pad_mask), -1))


class WrittenIntoPlace(Wrapper):
    """Fills a tensor of the final shape, head by head."""

    def forward(self, x, pad_mask=None):
        out = x.new_empty(*x.shape[:2], self.num_heads * self.d_head)
        for h, head in enumerate(self.heads):
            out[..., h * self.d_head : (h + 1) * self.d_head] = head(x, pad_mask=pad_mask)
        return self.out_proj(out)


class StackedAndFlattened(Wrapper):
    def forward(self, x, pad_mask=None):
        return self.out_proj(torch.stack(self.contexts(x, pad_mask), dim=2).flatten(2))


class SumOfProjectedHeads(Wrapper):
    """Each head times its own columns of `out_proj`, added up: the same by block matrices."""

    def forward(self, x, pad_mask=None):
        columns = self.out_proj.weight.split(self.d_head, dim=1)
        contexts = self.contexts(x, pad_mask)
        return sum(F.linear(c, w) for c, w in zip(contexts, columns, strict=True)) + (
            self.out_proj.bias
        )


class OwnHead(nn.Module):
    """One head by einsum and an additive mask, with the projections fused into one parameter."""

    class Part:
        def __init__(self, weight, bias):
            self.weight, self.bias = weight, bias

    def __init__(self, d_in, d_head, context_length, dropout, qkv_bias):
        super().__init__()
        self.qkv = nn.Linear(d_in, 3 * d_head, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.limit = context_length

    def part(self, i):
        bias = None if self.qkv.bias is None else self.qkv.bias.chunk(3)[i]
        return self.Part(self.qkv.weight.chunk(3)[i], bias)

    query = property(lambda self: self.part(0))
    key = property(lambda self: self.part(1))
    value = property(lambda self: self.part(2))

    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        if T > self.limit:
            raise ValueError(f"{T} tokens, at most {self.limit}")
        q, k, v = self.qkv(x).chunk(3, -1)
        bias = torch.full((T, T), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        if pad_mask is not None:
            bias = torch.where(pad_mask[:, None], -torch.inf, bias)
        scores = torch.einsum("btd,bsd->bts", q, k) * q.shape[-1] ** -0.5 + bias
        blind = torch.isinf(scores).all(-1, keepdim=True)
        weights = torch.where(blind, 0.0, torch.where(blind, 0.0, scores).softmax(-1))
        return torch.einsum("bts,bsd->btd", self.dropout(weights), v)


class OwnHeads(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, qkv_bias)
        self.heads = nn.ModuleList(
            OwnHead(d_in, d_head, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )


class PrependedFromTheLast(Wrapper):
    """The heads from the last to the first, each put in front."""

    def contexts(self, x, pad_mask):
        made = []
        for head in reversed(self.heads):
            made.insert(0, head(x, pad_mask=pad_mask))
        return made


class Accumulated(Wrapper):
    """One wider tensor a round, from a list that grows by `append`."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        nn.Module.__init__(self)
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            head = PaddedCausalSelfAttention(
                d_in=d_in,
                d_out=d_head,
                context_length=context_length,
                dropout=dropout,
                qkv_bias=qkv_bias,
            )
            self.heads.append(head)
        self.out_proj = nn.Linear(in_features=d_head * num_heads, out_features=d_head * num_heads)

    def forward(self, x, pad_mask=None):
        context = x[..., :0]
        for head in self.heads:
            context = torch.cat((context, head(x, pad_mask)), 2)
        return self.out_proj(context)


class Sequenced(Wrapper):
    """The heads in an `nn.Sequential`, used as a list."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heads = nn.Sequential(*self.heads)


class HeadsInTheBatch(Wrapper):
    """All heads' queries, keys and values in one batch."""

    def contexts(self, x, pad_mask):
        first = self.heads[0]
        if x.shape[1] > first.context_length:
            raise ValueError(f"{x.shape[1]} tokens, not more than {first.context_length}")
        q, k, v = (
            torch.stack([getattr(head, n)(x) for head in self.heads])
            for n in ("query", "key", "value")
        )
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None]
        scores = (q @ k.mT / self.d_head**0.5).masked_fill(hidden, -torch.inf)
        weights = scores.masked_fill(hidden.all(-1, keepdim=True), 0.0).softmax(-1)
        weights = weights.masked_fill(hidden, 0.0)
        return list(first.dropout(weights) @ v)


class ByMap(Wrapper):
    """Through `vmap` over the heads' stacked parameters where nothing is dropped."""

    def contexts(self, x, pad_mask):
        if self.training:
            return super().contexts(x, pad_mask)
        names = [n for n, _ in self.heads[0].named_parameters()]
        stacked = {n: torch.stack([h.get_parameter(n) for h in self.heads]) for n in names}

        def one(parameters):
            return torch.func.functional_call(self.heads[0], parameters, (x, pad_mask))

        return list(torch.vmap(one)(stacked))


class InOnesAndZeros(Wrapper):
    """A mask of numbers turned back into one of booleans, and the bias added by hand."""

    def forward(self, x, pad_mask=None):
        if pad_mask is not None:
            pad_mask = pad_mask.to(x.dtype).ne(0)
        context = torch.concat(self.contexts(x, pad_mask), dim=x.dim() - 1)
        return torch.addmm(
            self.out_proj.bias, context.flatten(0, 1), self.out_proj.weight.t()
        ).unflatten(0, x.shape[:2])


RIGHT = {
    "MultiHeadAttentionWrapper": {
        "prepended from the last": PrependedFromTheLast,
        "accumulated": Accumulated,
        "heads in a Sequential": Sequenced,
        "heads in the batch": HeadsInTheBatch,
        "by vmap": ByMap,
        "addmm": InOnesAndZeros,
        "plain": Wrapper,
        "written into place": WrittenIntoPlace,
        "stacked and flattened": StackedAndFlattened,
        "sum of projected heads": SumOfProjectedHeads,
        "heads with fused projections": OwnHeads,
    },
    "wrapper_shapes": {
        "lists": {
            "one head": [2, 5, 4],
            "concatenation": [2, 5, 12],
            "result": torch.Size([2, 5, 12]),
            "pairs that give width 2": [(2, 1), (1, 2)],
        },
        "a set of pairs": {
            "one head": (2, 5, 4),
            "concatenation": (2, 5, 12),
            "result": (2, 5, 12),
            "pairs that give width 2": {(2, 1), (1, 2)},
        },
    },
}


# ---------------------------------------------------------------- wrong ones


class Detached(Wrapper):
    def forward(self, x, pad_mask=None):
        with torch.no_grad():
            context = torch.cat(self.contexts(x, pad_mask), -1)
        return self.out_proj(context)


class OneHeadDetached(Wrapper):
    def contexts(self, x, pad_mask):
        first, *rest = super().contexts(x, pad_mask)
        return [first.detach(), *rest]


class Reversed(Wrapper):
    def contexts(self, x, pad_mask):
        return super().contexts(x, pad_mask)[::-1]


class TransposedProjection(Wrapper):
    def forward(self, x, pad_mask=None):
        return torch.cat(self.contexts(x, pad_mask), -1) @ self.out_proj.weight + self.out_proj.bias


class WithoutItsBias(Wrapper):
    def forward(self, x, pad_mask=None):
        return F.linear(torch.cat(self.contexts(x, pad_mask), -1), self.out_proj.weight)


class NoBias(Wrapper):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.out_proj = nn.Linear(*self.out_proj.weight.shape, bias=False)


class ProjectedTwice(Wrapper):
    def forward(self, x, pad_mask=None):
        return self.out_proj(super().forward(x, pad_mask))


class Activated(Wrapper):
    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask).relu()


class AverageOut(Wrapper):
    """Heads added and `out_proj` as wide as one of them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.out_proj = nn.Linear(self.d_head, self.d_head)

    def forward(self, x, pad_mask=None):
        return self.out_proj(sum(self.contexts(x, pad_mask)))


class BackToInput(Wrapper):
    def __init__(self, d_in, d_head, *args, **kwargs):
        super().__init__(d_in, d_head, *args, **kwargs)
        self.out_proj = nn.Linear(self.num_heads * d_head, d_in)


class NoPadding(Wrapper):
    """The heads of lesson 04, which know no padding, and the mask swallowed."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, qkv_bias)
        self.heads = nn.ModuleList(
            CausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )

    def contexts(self, x, pad_mask):
        return [head(x) for head in self.heads]


class MaskForAllButOne(Wrapper):
    """With two heads this is the first head only; with more, one alone leaks."""

    def contexts(self, x, pad_mask):
        *most, last = self.heads
        return [head(x, pad_mask) for head in most] + [last(x)]


class MaskUsedUp(Wrapper):
    """A mask that the first head empties for the others."""

    def contexts(self, x, pad_mask):
        contexts = []
        for head in self.heads:
            contexts.append(head(x, pad_mask))
            if pad_mask is not None:
                pad_mask.zero_()
        return contexts


class MaskOnlyInTraining(Wrapper):
    def contexts(self, x, pad_mask):
        return super().contexts(x, pad_mask if self.training else None)


class MaskOnlyInEvaluation(Wrapper):
    def contexts(self, x, pad_mask):
        return super().contexts(x, None if self.training else pad_mask)


class MaskOfFirstSequence(Wrapper):
    def contexts(self, x, pad_mask):
        if pad_mask is not None:
            pad_mask = pad_mask[:1].expand_as(pad_mask)
        return super().contexts(x, pad_mask)


class MaskTurnedOffWhenAllPadding(Wrapper):
    """Shuns rows that see nothing by showing them everything."""

    def contexts(self, x, pad_mask):
        if pad_mask is not None:
            pad_mask = pad_mask & ~pad_mask.all(1, keepdim=True)
        return super().contexts(x, pad_mask)


class AlwaysBiased(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, True)


class BiasAndDropoutSwapped(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, qkv_bias=False, dropout=0.0):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, bool(qkv_bias))


class DropoutAlways(Wrapper):
    def forward(self, x, pad_mask=None):
        return F.dropout(super().forward(x, pad_mask), 0.1)


class DropoutOnContexts(Wrapper):
    """Dropout on the channels of the contexts in place of the weights."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, 0.0, qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def contexts(self, x, pad_mask):
        return [self.dropout(c) for c in super().contexts(x, pad_mask)]


class ForeverInTraining(Wrapper):
    """Heads that are switched back to training at each call."""

    def contexts(self, x, pad_mask):
        self.heads.train()
        return super().contexts(x, pad_mask)


class FixedHeads(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, 2, dropout, qkv_bias)


class OneMoreParameter(Wrapper):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask) * self.scale


class FrozenHeads(Wrapper):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heads.requires_grad_(False)


class InPlace(Wrapper):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        with torch.no_grad():
            x.zero_()
        return out


class Half(Wrapper):
    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask).bfloat16().to(x.dtype)


class Longer(Wrapper):
    """Takes any number of tokens, in pieces."""

    def forward(self, x, pad_mask=None):
        n = self.context_length
        masks = [None] * 99 if pad_mask is None else pad_mask.split(n, 1)
        pieces = zip(x.split(n, 1), masks, strict=False)
        return torch.cat([super(Longer, self).forward(a, b) for a, b in pieces], 1)


class WrongMessage(Wrapper):
    def forward(self, x, pad_mask=None):
        if x.shape[1] > self.context_length:
            raise ValueError("too many tokens")
        return super().forward(x, pad_mask)


class ChannelsShared(Wrapper):
    """Style B by mistake: each head reads its own part of the input."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(
            max(d_in // num_heads, 1), d_head, context_length, num_heads, dropout, qkv_bias
        )


class ByTheBuiltin(Wrapper):
    def forward(self, x, pad_mask=None):
        T = x.shape[1]
        seen = torch.ones(T, T, dtype=torch.bool).tril()
        if pad_mask is not None:
            seen = seen & ~pad_mask[:, None]
        contexts = [
            F.scaled_dot_product_attention(h.query(x), h.key(x), h.value(x), attn_mask=seen)
            for h in self.heads
        ]
        return self.out_proj(torch.cat(contexts, -1))


class Remembering(Wrapper):
    """Keeps the mask of an earlier call when none is given."""

    def forward(self, x, pad_mask=None):
        kept = getattr(self, "kept", None)
        if pad_mask is None and kept is not None and kept.shape == x.shape[:2]:
            pad_mask = kept
        self.kept = pad_mask
        return super().forward(x, pad_mask)


class HalfOfTheHeads(Wrapper):
    """Every second head sees the padding."""

    def contexts(self, x, pad_mask):
        return [head(x, None if h % 2 else pad_mask) for h, head in enumerate(self.heads)]


class NothingHandedOn(Wrapper):
    """Neither dropout nor biases reach the heads."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads)


class DropoutOnlyWithoutMask(Wrapper):
    def contexts(self, x, pad_mask):
        if pad_mask is None:
            return super().contexts(x, None)
        for head in self.heads:
            head.dropout.p, head.kept = 0.0, head.dropout.p
        out = super().contexts(x, pad_mask)
        for head in self.heads:
            head.dropout.p = head.kept
        return out


class OneDrawForAllHeads(Wrapper):
    def contexts(self, x, pad_mask):
        out, state = [], torch.get_rng_state()
        for head in self.heads:
            torch.set_rng_state(state)
            out.append(head(x, pad_mask))
        return out


class HalfDropout(Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        rate = 0.5 if dropout else 0.0
        super().__init__(d_in, d_head, context_length, num_heads, rate, qkv_bias)


class FirstHeadWithoutDropout(Wrapper):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heads[0].dropout.p = 0.0


class CutOffInTraining(Wrapper):
    def contexts(self, x, pad_mask):
        made = super().contexts(x, pad_mask)
        return [c.detach() for c in made] if self.training else made


class OneBuffer(Wrapper):
    """Writes each result into the same tensor."""

    kept = None

    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        if self.kept is None or self.kept.shape != out.shape:
            self.kept = torch.empty_like(out)
        return self.kept.detach_().copy_(out)


class OtherNames(Wrapper):
    def forward(self, tokens, mask=None):
        return super().forward(tokens, mask)


class LengthCheckedWithoutMask(Wrapper):
    """With a mask, longer texts go through in pieces."""

    def forward(self, x, pad_mask=None):
        n = self.context_length
        if pad_mask is None or x.shape[1] <= n:
            return super().forward(x, pad_mask)
        return torch.cat(
            [
                super(LengthCheckedWithoutMask, self).forward(a, b)
                for a, b in zip(x.split(n, 1), pad_mask.split(n, 1), strict=True)
            ],
            1,
        )


class ZeroMeansHidden(Wrapper):
    """Takes tokens of zeros for padding."""

    def contexts(self, x, pad_mask):
        zeros = (x == 0).all(-1)
        return super().contexts(x, zeros if pad_mask is None else pad_mask | zeros)


class SwitchesGradientsOff(Wrapper):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        torch.set_grad_enabled(False)
        return out


class ValuesAlone(Wrapper):
    """Every token keeps its own value; nobody listens."""

    def contexts(self, x, pad_mask):
        return [head.value(x) for head in self.heads]


WRONG = {
    "MultiHeadAttentionWrapper": {
        "values alone": ValuesAlone,
        "padding for every second head": HalfOfTheHeads,
        "nothing handed on": NothingHandedOn,
        "dropout only without a mask": DropoutOnlyWithoutMask,
        "one draw for all heads": OneDrawForAllHeads,
        "dropout of one half": HalfDropout,
        "first head without dropout": FirstHeadWithoutDropout,
        "cut off in training": CutOffInTraining,
        "one buffer for all results": OneBuffer,
        "other names": OtherNames,
        "length checked only without a mask": LengthCheckedWithoutMask,
        "zero means hidden": ZeroMeansHidden,
        "switches gradients off": SwitchesGradientsOff,
        "detached": Detached,
        "one head detached": OneHeadDetached,
        "reversed": Reversed,
        "transposed projection": TransposedProjection,
        "bias of out_proj not used": WithoutItsBias,
        "out_proj without bias": NoBias,
        "projected twice": ProjectedTwice,
        "activated": Activated,
        "heads added": AverageOut,
        "back to the input width": BackToInput,
        "heads without padding": NoPadding,
        "mask for all but one head": MaskForAllButOne,
        "mask emptied by the first head": MaskUsedUp,
        "mask in training only": MaskOnlyInTraining,
        "mask in evaluation only": MaskOnlyInEvaluation,
        "mask of the first sequence": MaskOfFirstSequence,
        "no mask where all is padding": MaskTurnedOffWhenAllPadding,
        "always biased": AlwaysBiased,
        "bias and dropout swapped": BiasAndDropoutSwapped,
        "dropout in evaluation": DropoutAlways,
        "dropout on contexts": DropoutOnContexts,
        "forever in training": ForeverInTraining,
        "always two heads": FixedHeads,
        "one more parameter": OneMoreParameter,
        "frozen heads": FrozenHeads,
        "changes its input": InPlace,
        "half precision at the end": Half,
        "takes any length": Longer,
        "message without numbers": WrongMessage,
        "input shared out": ChannelsShared,
        "by the built-in": ByTheBuiltin,
        "remembers the last mask": Remembering,
        "of the course": MultiHeadAttentionWrapper,
    },
    "wrapper_shapes": {
        "all the same": dict.fromkeys(
            ("one head", "concatenation", "result", "pairs that give width 2"), (2, 5, 12)
        ),
        "without the batch": {
            "one head": (5, 4),
            "concatenation": (5, 12),
            "result": (5, 12),
            "pairs that give width 2": [(1, 2), (2, 1)],
        },
        "pairs twice": {
            "one head": (2, 5, 4),
            "concatenation": (2, 5, 12),
            "result": (2, 5, 12),
            "pairs that give width 2": [(1, 2), (1, 2)],
        },
        "pairs that are numbers": {
            "one head": (2, 5, 4),
            "concatenation": (2, 5, 12),
            "result": (2, 5, 12),
            "pairs that give width 2": 2,
        },
        "pairs in a text": {
            "one head": (2, 5, 4),
            "concatenation": (2, 5, 12),
            "result": (2, 5, 12),
            "pairs that give width 2": "(1, 2), (2, 1)",
        },
        "one pair as a tuple": {
            "one head": (2, 5, 4),
            "concatenation": (2, 5, 12),
            "result": (2, 5, 12),
            "pairs that give width 2": (1, 2),
        },
        "floats": {
            "one head": (2.0, 5.0, 4.0),
            "concatenation": (2.0, 5.0, 12.0),
            "result": (2.0, 5.0, 12.0),
            "pairs that give width 2": [(1.0, 2.0), (2.0, 1.0)],
        },
    },
}
