"""Right and wrong answers for lesson 11."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention as finished
from course_utils import transformer as course
from course_utils.attention import MultiHeadAttention

# ---------------------------------------------------------------- CrossAttention


class Plain(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def heads(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.num_heads, self.d_head).transpose(1, 2)

    def hidden(self, x, context, mask):
        return None if mask is None else mask[:, None, None, :]

    def weigh(self, scores, hidden):
        if hidden is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        return scores.softmax(-1).masked_fill(hidden, 0.0)

    def sides(self, x, context):
        return self.query(x), self.key(context), self.value(context)

    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        scores = q @ k.mT / self.d_head**0.5
        weights = self.weigh(scores, self.hidden(x, context, context_pad_mask))
        out = self.dropout(weights) @ v
        return self.out_proj(out.transpose(1, 2).reshape(x.shape))


class FromParts(Plain):
    """From the finished parts of earlier lessons."""

    def forward(self, x, context, context_pad_mask=None):
        H = self.num_heads
        query = finished.split_heads(self.query(x), H)
        key = finished.split_heads(self.key(context), H)
        value = finished.split_heads(self.value(context), H)
        if context_pad_mask is None:
            context_pad_mask = torch.zeros(context.shape[:2], dtype=torch.bool, device=x.device)
        scores = finished.attention_scores(query, key)
        weights = finished.safe_masked_softmax(scores, context_pad_mask[:, None, None])
        return self.out_proj(finished.merge_heads(self.dropout(weights) @ value))


class BuiltIn(Plain):
    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        seen = None if context_pad_mask is None else ~context_pad_mask[:, None, None, :]
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=p)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class ByEinsum(Plain):
    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)) for t in self.sides(x, context))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.d_head**-0.5
        weights = self.dropout(self.weigh(scores, self.hidden(x, context, context_pad_mask)))
        out = torch.einsum("bhts,bshd->bthd", weights, v)
        return self.out_proj(out.flatten(2))


class HeadByHead(Plain):
    """A loop over heads, each with its rows of the weights."""

    def forward(self, x, context, context_pad_mask=None):
        found = []
        for rows in torch.arange(self.query.in_features, device=x.device).chunk(self.num_heads):
            q = x @ self.query.weight[rows].T
            k = context @ self.key.weight[rows].T
            v = context @ self.value.weight[rows].T
            hidden = None if context_pad_mask is None else context_pad_mask[:, None]
            weights = self.weigh(q @ k.transpose(1, 2) / math.sqrt(len(rows)), hidden)
            found.append(self.dropout(weights) @ v)
        return self.out_proj(torch.cat(found, -1))


class DropsResult(Plain):
    """Dropout sits at the end of the branch; the lesson leaves the place free."""

    def forward(self, x, context, context_pad_mask=None):
        p, self.dropout.p = self.dropout.p, 0.0
        out = super().forward(x, context, context_pad_mask)
        self.dropout.p = p
        return self.dropout(out)


class ScaledQueries(Plain):
    """The scale is in the queries; a text at a time."""

    def forward(self, x, context, context_pad_mask=None):
        rows = []
        for b in range(len(x)):
            q, k, v = (self.heads(t) for t in self.sides(x[b : b + 1], context[b : b + 1]))
            scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-1, -2)
            mask = None if context_pad_mask is None else context_pad_mask[b].expand(scores.shape)
            rows.append(self.dropout(self.weigh(scores, mask)) @ v)
        return self.out_proj(finished.merge_heads(torch.cat(rows)))


class DropsValues(Plain):
    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        scores = q @ k.mT / self.d_head**0.5
        weights = self.weigh(scores, self.hidden(x, context, context_pad_mask))
        return self.out_proj((weights @ self.dropout(v)).transpose(1, 2).reshape(x.shape))


# Wrong ones.


class SelfWhereItFits(Plain):
    """With as many tokens in both texts, the target looks at itself."""

    def sides(self, x, context):
        return super().sides(x, x if x.shape == context.shape else context)


class ContextAsked(Plain):
    def forward(self, x, context, context_pad_mask=None):
        return super().forward(context, x)


class SelfAlone(Plain):
    def sides(self, x, context):
        return self.query(x), self.key(x), self.value(x)


class SelfAndNotScaled(SelfAlone):
    """And a mask nowhere."""

    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        return self.out_proj((self.dropout((q @ k.mT).softmax(-1)) @ v).transpose(1, 2).flatten(2))


class AddedTexts(Plain):
    """The mean of the context is added to the keys of the target."""

    def sides(self, x, context):
        both = x + context.mean(1, keepdim=True)
        return self.query(x), self.key(both), self.value(both)

    def forward(self, x, context, context_pad_mask=None):
        return super().forward(x, context)


class MeanOfContext(Plain):
    """No scores: every query gets the mean of the values that aren't padding."""

    def forward(self, x, context, context_pad_mask=None):
        value = self.value(context)
        seen = torch.ones_like(value[..., :1])
        if context_pad_mask is not None:
            seen = (~context_pad_mask[..., None]).to(x.dtype)
        mean = (value * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1)
        return self.out_proj(mean.expand(x.shape))


class CausalFromTheEnd(Plain):
    """A triangle that ends in the last corner: as a cache would have it."""

    def hidden(self, x, context, mask):
        T, S = x.shape[1], context.shape[1]
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(max(S - T, 0) + 1)
        return future if mask is None else future | mask[:, None, None, :]


class CausalAndNoPadding(Plain):
    def hidden(self, x, context, mask):
        T, S = x.shape[1], context.shape[1]
        return torch.ones(T, S, dtype=torch.bool, device=x.device).triu(1)


class PaddingMinusNine(Plain):
    def weigh(self, scores, hidden):
        return (scores if hidden is None else scores.masked_fill(hidden, -1e9)).softmax(-1)


class PaddingScaled(Plain):
    """The mask as numbers, subtracted."""

    def weigh(self, scores, hidden):
        return (scores if hidden is None else scores - 10 * hidden.to(scores.dtype)).softmax(-1)


class MaskAllOrNothing(Plain):
    """A mask that hides all is left out."""

    def weigh(self, scores, hidden):
        if hidden is not None and bool(hidden.all(-1).any()):
            return scores.softmax(-1)
        return super().weigh(scores, hidden)


class MaskAnd(Plain):
    """Keys are hidden where any head of any text hides them, and the scale is the model's."""

    def hidden(self, x, context, mask):
        return None if mask is None else mask.any(0)

    def weigh(self, scores, hidden):
        return super().weigh(scores / math.sqrt(self.num_heads), hidden)


class ZerosCounted(Plain):
    """Tokens of zeros are taken for padding."""

    def hidden(self, x, context, mask):
        zeros = (context == 0).all(-1)[:, None, None, :]
        return zeros if mask is None else zeros | mask[:, None, None, :]


class NotMixedAndSwapped(Plain):
    """No out_proj, keys and values swapped."""

    def sides(self, x, context):
        return self.query(x), self.value(context), self.key(context)

    def forward(self, x, context, context_pad_mask=None):
        mixed, self.out_proj = self.out_proj, nn.Identity()
        out = super().forward(x, context, context_pad_mask)
        self.out_proj = mixed
        return out


class Residual(Plain):
    def forward(self, x, context, context_pad_mask=None):
        return x + super().forward(x, context, context_pad_mask)


class Truncated(Plain):
    """The longer text is cut to the shorter one."""

    def forward(self, x, context, context_pad_mask=None):
        T = x.shape[1]
        mask = None if context_pad_mask is None else context_pad_mask[:, :T]
        return super().forward(x, context[:, :T], mask)


class WithBias(Plain):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__(d_model, num_heads, dropout)
        self.key = nn.Linear(d_model, d_model)


class WholeModule(Plain):
    """PyTorch's function does everything."""

    def forward(self, x, context, context_pad_mask=None):
        out, _ = F.multi_head_attention_forward(
            x.transpose(0, 1),
            context.transpose(0, 1),
            context.transpose(0, 1),
            x.shape[-1],
            self.num_heads,
            torch.cat([self.query.weight, self.key.weight, self.value.weight]),
            None,
            None,
            None,
            False,
            self.dropout.p,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=context_pad_mask,
            need_weights=False,
        )
        return out.transpose(0, 1)


class Finished(finished.CrossAttention):
    def forward(self, x, context, context_pad_mask=None):
        return super().forward(x, context, context_pad_mask)


class ContextCutOff(Plain):
    def sides(self, x, context):
        return super().sides(x, context.detach())


class ContextKept(Plain):
    """Keys and values of the first context are kept: true while one text is written."""

    kept = None

    def sides(self, x, context):
        if self.kept is None or self.kept.shape != context.shape:
            self.kept = context
        return super().sides(x, self.kept)


class NoDropoutInHeads(Plain):
    """Dropout on queries, and not on weights."""

    def sides(self, x, context):
        q, k, v = super().sides(x, context)
        return self.dropout(q), k, v

    def forward(self, x, context, context_pad_mask=None):
        q, k, v = (self.heads(t) for t in self.sides(x, context))
        scores = q @ k.mT / self.d_head**0.5
        weights = self.weigh(scores, self.hidden(x, context, context_pad_mask))
        return self.out_proj((weights @ v).transpose(1, 2).reshape(x.shape))


class Float32(Plain):
    def forward(self, x, context, context_pad_mask=None):
        return super().forward(x, context, context_pad_mask).float()


# ---------------------------------------------------------------- the blocks


class Network(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def bend(self, x):
        return x.clamp(min=0)

    def forward(self, x):
        return self.dropout(self.contract(self.bend(self.expand(x))))


class Reads(nn.Module):
    """An encoder block, in steps that the others replace."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.attention = Plain(d_model, num_heads, dropout)
        self.norm1, self.norm2 = course.LayerNorm(d_model), course.LayerNorm(d_model)
        self.feed_forward = Network(d_model, d_ff, dropout)
        self.dropout = nn.Dropout(dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.attention(x, x, pad_mask))

    def think(self, x):
        return self.feed_forward(x)

    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        return self.norm2(x + self.think(x))


class ReadsWithParts(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.attention = finished.CrossAttention(d_model, num_heads, dropout)
        self.feed_forward = course.ReLUFeedForward(d_model, d_ff, dropout)


class ReadsInSequence(Reads):
    """The network as a Sequential with names; attention's weights alone are dropped."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.feed_forward = nn.Sequential(
            OrderedDict(
                expand=nn.Linear(d_model, d_ff),
                bend=nn.ReLU(),
                drop=nn.Dropout(dropout),
                contract=nn.Linear(d_ff, d_model),
            )
        )

    def listen(self, x, pad_mask):
        return self.attention(x, x, pad_mask)


class ReadsAsTorch(Reads):
    """Dropout where PyTorch's layer has it: weights, end, middle, end."""

    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(self.dropout(torch.relu(ff.expand(x)))))


class ReadsByLoop(Reads):
    def forward(self, x, pad_mask=None):
        branches = [(self.norm1, lambda t: self.listen(t, pad_mask)), (self.norm2, self.think)]
        for norm, branch in branches:
            x = norm(torch.stack([x, branch(x)]).sum(0))
        return x


class ReadsPlainly(Reads):
    """Norms written out, the network from two layers in a ModuleDict."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.feed_forward = nn.ModuleDict(
            {"expand": nn.Linear(d_model, d_ff), "contract": nn.Linear(d_ff, d_model)}
        )

    def think(self, x):
        wide = F.relu(self.feed_forward["expand"](x))
        return self.dropout(self.feed_forward["contract"](wide))


class PreLN(Reads):
    def forward(self, x, pad_mask=None):
        normed = self.norm1(x)
        x = x + self.dropout(self.attention(normed, normed, pad_mask))
        return x + self.think(self.norm2(x))


class PreLNGelu(PreLN):
    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(F.gelu(ff.expand(x))))


class PreLNFinalNorm(Reads):
    """Pre-LN with one norm at the end, where two were asked for."""

    def forward(self, x, pad_mask=None):
        normed = self.norm1(x)
        x = x + self.dropout(self.attention(normed, normed, pad_mask))
        return self.norm2(x + self.think(x))


class PostThenPre(Reads):
    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        return x + self.think(self.norm2(x))


class NetworkUnnormed(Reads):
    """The network reads the sum before its norm."""

    def forward(self, x, pad_mask=None):
        middle = x + self.listen(x, pad_mask)
        return self.norm2(self.norm1(middle) + self.think(middle))


class StreamUnnormed(Reads):
    """The network reads normed tokens, and is added to the sum before the norm."""

    def forward(self, x, pad_mask=None):
        middle = x + self.listen(x, pad_mask)
        return self.norm2(middle + self.think(self.norm1(middle)))


class NormTwiceAtTheEnd(Reads):
    def forward(self, x, pad_mask=None):
        return self.norm2(self.norm1(super().forward(x, pad_mask)))


class BranchesAndSumsNormed(Reads):
    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.norm1(self.listen(x, pad_mask)))
        return self.norm2(x + self.norm2(self.think(x)))


class CausalReader(Reads):
    """The decoder's attention, cut to its length."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.attention = MultiHeadAttention(d_model, d_model, 1024, num_heads, dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.attention(x, pad_mask))


class CausalPreLN(CausalReader):
    def forward(self, x, pad_mask=None):
        x = x + self.listen(self.norm1(x), pad_mask)
        return x + self.think(self.norm2(x))


class MaskedKeysAndRows(Reads):
    def listen(self, x, pad_mask):
        found = super().listen(x, pad_mask)
        return found if pad_mask is None else found * ~pad_mask[..., None]


class NoMaskNoBend(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.feed_forward.bend = nn.Identity()

    def listen(self, x, pad_mask):
        return super().listen(x, None)


class LeakyNetwork(Reads):
    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(F.leaky_relu(ff.expand(x))))


class SquaredNetwork(Reads):
    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(F.relu(ff.expand(x)).square()))


class GeluDroppedTwice(Reads):
    def think(self, x):
        ff = self.feed_forward
        return self.dropout(ff.dropout(ff.contract(F.gelu(ff.expand(x)))))


class CappedNetwork(Reads):
    def think(self, x):
        ff = self.feed_forward
        return ff.dropout(ff.contract(F.relu6(ff.expand(x))))


class HalfTheRate(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout / 2)


class TorchNorms(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)


class OtherEps(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.norm1 = course.LayerNorm(d_model, eps=1e-3)


class ScaledSums(Reads):
    def forward(self, x, pad_mask=None):
        x = self.norm1(2 * x + self.listen(x, pad_mask))
        return self.norm2(x + self.think(x))


class DropsSums(Reads):
    def listen(self, x, pad_mask):
        return self.attention(x, x, pad_mask)

    def forward(self, x, pad_mask=None):
        x = self.dropout(self.norm1(x + self.listen(x, pad_mask)))
        return self.norm2(x + self.think(x))


class NetworkNeverDropped(Reads):
    def think(self, x):
        ff = self.feed_forward
        return ff.contract(ff.bend(ff.expand(x)))


class AttentionNeverDropped(Reads):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.attention = Plain(d_model, num_heads)

    def listen(self, x, pad_mask):
        return self.attention(x, x, pad_mask)


class FinishedReader(course.EncoderBlock):
    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask)


class Writes(nn.Module):
    """A decoder block, in steps that the others replace."""

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__()
        self.self_attention = self.looking_back(d_model, num_heads, context_length, dropout)
        self.norm1 = course.LayerNorm(d_model)
        self.cross_attention = Plain(d_model, num_heads, dropout)
        self.norm2 = course.LayerNorm(d_model)
        self.feed_forward = Network(d_model, d_ff, dropout)
        self.norm3 = course.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def looking_back(self, d_model, num_heads, context_length, dropout):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.self_attention(x, pad_mask))

    def ask(self, x, context, mask):
        return self.dropout(self.cross_attention(x, context, mask))

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        x = self.norm2(x + self.ask(x, context, context_pad_mask))
        return self.norm3(x + self.feed_forward(x))


class WritesWithParts(Writes):
    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, context_length, dropout)
        self.cross_attention = finished.CrossAttention(d_model, num_heads, dropout)
        self.feed_forward = course.ReLUFeedForward(d_model, d_ff, dropout)


class WritesByLoop(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        steps = [
            (self.norm1, lambda x: self.listen(x, pad_mask)),
            (self.norm2, lambda x: self.ask(x, context=context, mask=context_pad_mask)),
            (self.norm3, self.feed_forward),
        ]
        for norm, branch in steps:
            x = norm(x + branch(x))
        return x


class WritesWithTriangle(Writes):
    """Self-attention is cross-attention on itself, with a triangle of its own."""

    class Back(Plain):
        def __init__(self, d_model, num_heads, length, dropout):
            super().__init__(d_model, num_heads, dropout)
            self.length = length

        def hidden(self, x, context, mask):
            T = x.shape[1]
            if self.length < T:
                raise ValueError(f"{T} tokens are too many: {self.length}")
            future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            return future if mask is None else future | mask[:, None, None]

        def forward(self, x, pad_mask=None):
            return super().forward(x, x, pad_mask)

    def looking_back(self, d_model, num_heads, context_length, dropout):
        return self.Back(d_model, num_heads, context_length, dropout)


class WritesWithThreeDropouts(Writes):
    """A dropout of its own for each branch; PyTorch's place in the middle as well."""

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, context_length, dropout)
        self.drops = nn.ModuleList(nn.Dropout(dropout) for _ in range(2))

    def ask(self, x, context, mask):
        return self.drops[0](self.cross_attention(x, context, mask))

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        found = self.norm1(x + self.listen(x, pad_mask))
        told = self.norm2(found + self.ask(found, context, context_pad_mask))
        ff = self.feed_forward
        thought = ff.dropout(ff.contract(self.drops[1](ff.bend(ff.expand(told)))))
        return self.norm3(told + thought)


class WritesPreLN(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = x + self.listen(self.norm1(x), pad_mask)
        x = x + self.ask(self.norm2(x), context, context_pad_mask)
        return x + self.feed_forward(self.norm3(x))


class SeesAll(Writes):
    """Self-attention without a triangle or a limit."""

    def looking_back(self, d_model, num_heads, context_length, dropout):
        return Plain(d_model, num_heads, dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.self_attention(x, x, pad_mask))


class SeesAllPreLN(SeesAll):
    forward = WritesPreLN.forward


class AsksItself(Writes):
    """The context's mask, too, is left out."""

    def ask(self, x, context, mask):
        return super().ask(x, x, None)


class OneMaskForBoth(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        mask = context_pad_mask if pad_mask is None else pad_mask
        fits = mask is not None and mask.shape[1] == context.shape[1]
        return super().forward(x, context, pad_mask, mask if fits else None)


class TargetPaddingBoth(Writes):
    """The target's padding is forgotten, the context's inverted."""

    def listen(self, x, pad_mask):
        return super().listen(x, None)

    def ask(self, x, context, mask):
        return super().ask(x, context, None if mask is None else ~mask)


class CrossBeforeSelf(Writes):
    """And no ReLU."""

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.ask(x, context, context_pad_mask))
        x = self.norm2(x + self.listen(x, pad_mask))
        ff = self.feed_forward
        return self.norm3(x + ff.dropout(ff.contract(ff.expand(x))))


class NetworkBetween(Writes):
    """The network comes before cross-attention."""

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        x = self.norm2(x + self.feed_forward(x))
        return self.norm3(x + self.ask(x, context, context_pad_mask))


class NormsTwoAndThreeSwapped(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        x = self.norm3(x + self.ask(x, context, context_pad_mask))
        return self.norm2(x + self.feed_forward(x))


class TwoSumsOneNorm(Writes):
    """No norm between self- and cross-attention."""

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = x + self.listen(x, pad_mask)
        x = self.norm2(x + self.ask(x, context, context_pad_mask))
        return self.norm3(x + self.feed_forward(x))


class ContextProjectedByNetwork(Writes):
    """The context is thought about first."""

    def ask(self, x, context, mask):
        return super().ask(x, context + self.feed_forward(context), mask)


class ContextAdded(Writes):
    """The mean of the context is added, in place of attention's result."""

    def ask(self, x, context, mask):
        return self.dropout(self.cross_attention.out_proj(context.mean(1, keepdim=True)))


class SharedAttention(Writes):
    """Cross-attention uses the keys and values of self-attention's layers."""

    def ask(self, x, context, mask):
        own, cross = self.self_attention, self.cross_attention
        key, value = cross.key, cross.value
        cross.key, cross.value = own.key, own.value
        out = super().ask(x, context, mask)
        cross.key, cross.value = key, value
        return out


class CausalBoth(Writes):
    """Both attentions hide what stands further on than the query."""

    def ask(self, x, context, mask):
        T, S = x.shape[1], context.shape[1]
        rows = []
        for t in range(T):
            hidden = torch.arange(S, device=x.device)[None] > t
            hidden = hidden if mask is None else hidden | mask
            rows.append(super().ask(x[:, t : t + 1], context, hidden.expand(len(x), S)))
        return torch.cat(rows, 1)


class LongCut(Writes):
    def looking_back(self, d_model, num_heads, context_length, dropout):
        return MultiHeadAttention(d_model, d_model, 1024, num_heads, dropout)


class RefusesLongContext(Writes):
    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, context_length, dropout)
        self.limit = context_length

    def ask(self, x, context, mask):
        if context.shape[1] > self.limit:
            raise ValueError(f"{context.shape[1]} tokens, {self.limit} fit")
        return super().ask(x, context, mask)


class CrossNotDropped(Writes):
    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, context_length, dropout)
        self.cross_attention = Plain(d_model, num_heads)

    def ask(self, x, context, mask):
        return self.cross_attention(x, context, mask)


class CrossDroppedTwice(Writes):
    def ask(self, x, context, mask):
        return self.dropout(super().ask(x, context, mask))


class PreLNInTheMiddle(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        x = x + self.ask(self.norm2(x), context, context_pad_mask)
        return self.norm3(x + self.feed_forward(x))


class PaddedTargetCleared(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        out = super().forward(x, context, pad_mask, context_pad_mask)
        return out if pad_mask is None else out.masked_fill(pad_mask[..., None], 0.0)


class FinishedWriter(course.DecoderBlock):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        return super().forward(x, context, pad_mask, context_pad_mask)


# ---------------------------------------------------------------- all of them

SHAPES = {
    "query": (1, 8, 6, 96),
    "key": (1, 8, 4, 96),
    "key transposed": (1, 8, 96, 4),
    "scores": (1, 8, 6, 4),
    "context": (1, 8, 6, 96),
    "result": (1, 6, 768),
}
REASONS = {
    "only the source changes": "key and value",
    "shape of the source mask": (2, 1, 1, 4),
    "the target's mask, T = S": "nothing",
    "no history": "cross-attention",
    "may look at source token 3": 6,
    "keys of the source": 1,
}
RECALLED = {"the target at 3": 9, "attention is added to": "x", "scores divided by": 8}

RIGHT = {
    "recall_11": {
        "in capitals": {**RECALLED, "attention is added to": "X"},
        "as float": {**RECALLED, "attention is added to": " x "},
    },
    "cross_attention_shapes": {
        "lists for tuples": {**SHAPES, "result": [1, 6, 768]},
        "sizes": {**SHAPES, "scores": torch.Size([1, 8, 6, 4])},
    },
    "CrossAttention": {
        "plain": Plain,
        "from finished parts": FromParts,
        "built in": BuiltIn,
        "by einsum": ByEinsum,
        "head by head": HeadByHead,
        "drops the result": DropsResult,
        "a text at a time": ScaledQueries,
        "drops the values": DropsValues,
    },
    "EncoderBlock": {
        "plain": Reads,
        "from finished parts": ReadsWithParts,
        "in sequence": ReadsInSequence,
        "dropout as in torch": ReadsAsTorch,
        "in a loop": ReadsByLoop,
        "network in a dict": ReadsPlainly,
    },
    "DecoderBlock": {
        "plain": Writes,
        "from finished parts": WritesWithParts,
        "in a loop": WritesByLoop,
        "a triangle of its own": WritesWithTriangle,
        "three dropouts": WritesWithThreeDropouts,
    },
    "cross_attention_reasons": {
        "lists for tuples": {**REASONS, "shape of the source mask": [2, 1, 1, 4]},
        "in capitals": {**REASONS, "the target's mask, T = S": "Nothing"},
    },
}

WRONG = {
    "recall_11": {
        "all wrong": {
            "the target at 3": 4,
            "attention is added to": "norm1(x)",
            "scores divided by": 4,
        },
        "no root": {**RECALLED, "scores divided by": 256},
        "in words": {**RECALLED, "the target at 3": "the next"},
        "one left out": {**RECALLED, "attention is added to": ...},
    },
    "cross_attention_shapes": {
        "all of the source": {**SHAPES, "context": (1, 8, 4, 96), "result": (1, 4, 768)},
        "no batch": {**SHAPES, "result": (6, 768)},
        "unsplit": {**SHAPES, "query": (1, 6, 768), "key": (1, 4, 768)},
        "one left out": {**SHAPES, "scores": ...},
        "two wrong": {**SHAPES, "scores": (1, 8, 4, 6), "key transposed": (1, 8, 4, 96)},
    },
    "CrossAttention": {
        "sides swapped, no mask": ContextAsked,
        "self where lengths agree": SelfWhereItFits,
        "self alone": SelfAlone,
        "self alone, not scaled, no mask": SelfAndNotScaled,
        "context added to the target": AddedTexts,
        "mean of the context": MeanOfContext,
        "causal from the end": CausalFromTheEnd,
        "causal, no padding": CausalAndNoPadding,
        "padding at -1e9": PaddingMinusNine,
        "padding less ten": PaddingScaled,
        "mask left out where it hides all": MaskAllOrNothing,
        "any text's padding, scaled twice": MaskAnd,
        "zeros taken for padding": ZerosCounted,
        "not mixed, keys and values swapped": NotMixedAndSwapped,
        "residual": Residual,
        "context cut": Truncated,
        "key with a bias": WithBias,
        "PyTorch's function": WholeModule,
        "finished": Finished,
        "context cut off": ContextCutOff,
        "context kept": ContextKept,
        "queries dropped": NoDropoutInHeads,
        "float32": Float32,
    },
    "EncoderBlock": {
        "pre norm": PreLN,
        "pre norm, gelu": PreLNGelu,
        "pre norm, final norm": PreLNFinalNorm,
        "post, then pre": PostThenPre,
        "network reads before the norm": NetworkUnnormed,
        "network added before the norm": StreamUnnormed,
        "normed twice at the end": NormTwiceAtTheEnd,
        "branches normed as well": BranchesAndSumsNormed,
        "causal": CausalReader,
        "causal, pre norm": CausalPreLN,
        "padded rows hear nothing": MaskedKeysAndRows,
        "no mask, no bend": NoMaskNoBend,
        "leaky": LeakyNetwork,
        "squared": SquaredNetwork,
        "gelu, dropped twice": GeluDroppedTwice,
        "capped at 6": CappedNetwork,
        "half the rate": HalfTheRate,
        "torch norms": TorchNorms,
        "another eps": OtherEps,
        "twice the stream": ScaledSums,
        "drops the sum": DropsSums,
        "network never dropped": NetworkNeverDropped,
        "attention never dropped": AttentionNeverDropped,
        "finished": FinishedReader,
    },
    "DecoderBlock": {
        "pre norm": WritesPreLN,
        "sees all": SeesAll,
        "sees all, pre norm": SeesAllPreLN,
        "asks itself": AsksItself,
        "one mask for both": OneMaskForBoth,
        "no target padding, context inverted": TargetPaddingBoth,
        "cross first, no bend": CrossBeforeSelf,
        "network between": NetworkBetween,
        "norms 2 and 3 swapped": NormsTwoAndThreeSwapped,
        "two sums, one norm": TwoSumsOneNorm,
        "context thought about": ContextProjectedByNetwork,
        "context added": ContextAdded,
        "shared keys and values": SharedAttention,
        "causal in both": CausalBoth,
        "long texts accepted": LongCut,
        "long context refused": RefusesLongContext,
        "cross never dropped": CrossNotDropped,
        "cross dropped twice": CrossDroppedTwice,
        "pre norm in the middle": PreLNInTheMiddle,
        "padded rows cleared": PaddedTargetCleared,
        "finished": FinishedWriter,
    },
    "cross_attention_reasons": {
        "all wrong": {
            "only the source changes": "query",
            "shape of the source mask": (2, 1, 1, 6),
            "the target's mask, T = S": "an error",
            "no history": "ReLU",
            "may look at source token 3": 4,
            "keys of the source": 4,
        },
        "mask of the target": {**REASONS, "shape of the source mask": (2, 1, 6, 4)},
        "a word for a number": {**REASONS, "keys of the source": "once"},
        "two wrong": {**REASONS, "may look at source token 3": 2, "keys of the source": 0},
        "one left out": {**REASONS, "no history": ...},
    },
}
