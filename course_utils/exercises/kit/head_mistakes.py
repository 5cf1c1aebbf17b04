"""What goes wrong with several heads: where the width is cut, joined again and mixed.

As in `mistakes.py`: one idea, one id, one set of sentences.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from ...checking import Mistake
from . import mistakes as m
from .steps import SideBySide

# ---------------------------------------------------------------- cutting


def sizes(x, num_heads):
    B, T, C = x.shape
    return B, T, num_heads, C // num_heads


class ViewWithoutTranspose(Mistake):
    """You went from (B, T, C) to (B, H, T, D) in one `view`: a head now holds pieces of several
    tokens.

    Why: The shape is right, so nothing complains, and later tokens leak into earlier rows.
    Mend: `view` keeps the order in memory and only sets new borders. Cut C first, then swap two
        dimensions.
    """

    def split(self, x, num_heads):
        B, T, H, D = sizes(x, num_heads)
        return x.reshape(B, H, T, D)


def _viewed_and_not_refused(self, x, num_heads):
    return x.view(len(x), num_heads, x.shape[1], x.shape[-1] // num_heads)


# As a first attempt has it: neither the swap nor the check of the width.
ViewedAtOnce = ViewWithoutTranspose.but(
    split=_viewed_and_not_refused, refuse=lambda self, width, num_heads: None
)


class WidthInFractions(Mistake):
    """The width of a head came out as a float, and a shape takes whole numbers.

    Why: `/` gives a float even where it comes out even: 12 / 3 is 4.0.
    Mend: Which division gives whole numbers?
    """

    def refuse(self, width, num_heads):
        pass

    def split(self, x, num_heads):
        B, T, C = x.shape
        return x.view(B, T, num_heads, C / num_heads).transpose(1, 2)


class SizesOfTheExample(Mistake):
    """The sizes of the example are written into the function: 1 text, 3 tokens, 2 heads of 2.

    Why: Every other input has other sizes.
    Mend: `B, T, C = x.shape` tells them, and D follows from C and `num_heads`.
    """

    def refuse(self, width, num_heads):
        pass

    def split(self, x, num_heads):
        return x.view(1, 3, 2, 2).transpose(1, 2)


class NotTransposed(Mistake):
    """The width is cut, but the heads stand behind the tokens: (B, T, H, D).

    Why: `query @ key.transpose(-2, -1)` would compare heads with heads, not tokens with tokens.
    Mend: Which two dimensions must change places?
    """

    def split(self, x, num_heads):
        return x.reshape(sizes(x, num_heads))


class SplitInterleaved(Mistake):
    """You cut the width into D groups of H, so each head takes every H-th channel.

    Why: Saved weights, and the merge that follows, expect neighbouring channels in one head.
    Mend: In the shape you view as, which comes last: the number of heads or their width?
    """

    def split(self, x, num_heads):
        B, T, H, D = sizes(x, num_heads)
        return x.reshape(B, T, D, H).permute(0, 3, 1, 2)


class TransposedAndReshaped(Mistake):
    """You swapped two dimensions and then forced the shape with `reshape`.

    Why: `reshape` fills the new shape in reading order, so tokens and channels get mixed.
    Mend: Cut the width first, then swap exactly tokens and heads: the shape is right by itself.
    """

    def split(self, x, num_heads):
        B, T, H, D = sizes(x, num_heads)
        return x.transpose(1, 2).reshape(B, H, T, D)


def _swap_heads_and_width(self, x, num_heads):
    B, T, H, D = sizes(x, num_heads)
    return x.reshape(B, T, H, D).transpose(1, 3).reshape(B, H, T, D)


OtherPairReshaped = TransposedAndReshaped.but(split=_swap_heads_and_width)


class WidthBeforeTokens(Mistake):
    """The last two dimensions are swapped: (B, H, D, T).

    Why: That is the shape of Kᵀ in the scores; queries and values need (B, H, T, D).
    Mend: The width of a head stays last.
    """

    def split(self, x, num_heads):
        return super().split(x, num_heads).transpose(-2, -1)


class HeadsBeforeBatch(Mistake):
    """The heads stand in front of the batch: (H, B, T, D).

    Why: A padding mask of shape (B, 1, 1, T) lines up with the batch first.
    Mend: The batch stays where it is.
    """

    def split(self, x, num_heads):
        return super().split(x, num_heads).transpose(0, 1)


class HeadsInTheBatch(Mistake):
    """Heads and batch are one dimension: (B · H, T, D).

    Why: Some libraries do that; a mask of shape (B, 1, 1, T) no longer fits then.
    Mend: Four dimensions were asked for.
    """

    def split(self, x, num_heads):
        return super().split(x, num_heads).flatten(0, 1)


class BatchMixed(Mistake):
    """The cut went through the batch: a head holds pieces of other sequences.

    Why: Sequences of a batch are strangers, and their numbers must never mix.
    Mend: Only the last dimension is cut. Keep B and T in front of it.
    """

    def split(self, x, num_heads):
        B, T, H, D = sizes(x, num_heads)
        return x.reshape(H, B, T, D).transpose(0, 1)


class HeadsAndWidthSwapped(Mistake):
    """You made D heads of width `num_heads`, not `num_heads` heads of width D.

    Why: With 768 channels and 12 heads that would be 64 heads of 12.
    Mend: The heads come before their width: (…, num_heads, C // num_heads).
    """

    def split(self, x, num_heads):
        return super().split(x, x.shape[-1] // num_heads)


class FirstChannelsRepeated(Mistake):
    """Every head holds the first D channels.

    Why: The other channels are lost, and all heads see the same.
    Mend: Head h takes channels h · D to (h + 1) · D.
    """

    def split(self, x, num_heads):
        heads = super().split(x, num_heads)
        return heads[:, :1].expand_as(heads).clone()


class SplitReversed(Mistake):
    """The heads come out in reverse order: head 0 holds the last D channels.

    Why: Saved weights, and the merge that follows, expect the first channels in head 0.
    Mend: Head h takes channels h · D to (h + 1) · D.
    """

    def split(self, x, num_heads):
        return super().split(x, num_heads).flip(1)


class NeverSplit(Mistake):
    """The width was never cut: this is one head that is as wide as all together.

    Why: One head has one set of weights; several can look at several places at once.
    Mend: Queries, keys and values all have to be cut into heads.
    """

    def split(self, x, num_heads):
        return x[:, None]


class ChannelsDropped(Mistake):
    """A width that can't be divided is accepted, and the channels left over are dropped in silence.

    Why: A model of 10 channels and 4 heads would train, and two channels would do nothing.
    Mend: Check the remainder first, and raise a ValueError that names both numbers.
    """

    def refuse(self, width, num_heads):
        pass

    def split(self, x, num_heads):
        return super().split(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)


class RefusalLeftToView(Mistake):
    """A width that can't be divided is refused by `view`, with a RuntimeError about shapes.

    Why: "shape '[…]' is invalid" doesn't tell anyone how many heads don't fit into which width.
    Mend: Check the remainder yourself, and raise a ValueError with both numbers.
    """

    def refuse(self, width, num_heads):
        pass


class TupleOfHeads(Mistake):
    """The heads are a tuple or a list of tensors; one tensor was asked for.

    Why: The point of this style is that all heads go through one matrix product.
    Mend: Make the heads a dimension, `(B, H, T, D)`.
    """

    def split(self, x, num_heads):
        return super().split(x, num_heads).unbind(1)


ListOfHeads = TupleOfHeads.but(split=lambda self, x, num_heads: list(x.chunk(num_heads, -1)))


class UnevenHeadsAccepted(Mistake):
    """A width that can't be divided by `num_heads` is accepted where the module is made.

    Why: It fails only when it is called, far from the line at fault, or trains with channels that
        do nothing.
    Mend: The constructor knows both numbers: raise a ValueError there that names them.
    """

    def refuse(self, width, num_heads):
        pass


class KeyNotSplit(Mistake):
    """One of query, key and value was not split into heads.

    Why: Split are (B, H, T, D), unsplit (B, T, C): a product of the two fails, or comes out in
        another shape.
    Mend: Which of the three doesn't go through `split_heads`?
    """

    left = 1

    def projected(self, x):
        whole = self.merge(super().projected(x)[self.left])
        return tuple(whole if i == self.left else p for i, p in enumerate(super().projected(x)))


class KeysOfTheFirstHead(Mistake):
    """All heads share the keys of the first.

    Why: Some models do that to save memory; here each head compares in its own way.
    Mend: Keys are split into heads just as queries are.
    """

    def projected(self, x):
        query, key, value = super().projected(x)
        return query, key[:, :1], value


# ---------------------------------------------------------------- joining


class MergedWithoutTranspose(Mistake):
    """You reshaped (B, H, T, D) to (B, T, C) without swapping back: a row now holds numbers of
    several tokens.

    Why: The shape is right, so nothing complains, and the words of a sentence get scrambled.
    Mend: Undo the split in reverse: which of its two steps came last?
    """

    def merge(self, x):
        B, H, T, D = x.shape
        return x.reshape(B, T, H * D)


class MergedInterleaved(Mistake):
    """The channels of the heads alternate: first channel of each head, second of each, …

    Why: `out_proj` and saved weights expect one head after the other.
    Mend: Before the last two dimensions are joined, which should be the outer one?
    """

    def merge(self, x):
        return x.permute(0, 2, 3, 1).flatten(2)


class MergedReversed(Mistake):
    """The heads are joined in reverse order: the last head fills the first channels.

    Why: `out_proj` and saved weights expect head 0 in the first D channels.
    Mend: Head h fills channels h · D to (h + 1) · D.
    """

    def merge(self, x):
        return super().merge(x.flip(1))


class TokensSwappedWithWidth(Mistake):
    """You swapped tokens with channels, and the reshape then mixed them.

    Why: Swapping the wrong pair leaves no error, for the number of elements fits.
    Mend: Which two dimensions did the split swap?
    """

    def merge(self, x):
        B, H, T, D = x.shape
        return x.transpose(2, 3).reshape(B, T, H * D)


class HeadsSwappedWithWidth(Mistake):
    """You swapped heads with channels, and the reshape then mixed tokens.

    Why: Swapping the wrong pair leaves no error, for the number of elements fits.
    Mend: Which two dimensions did the split swap?
    """

    def merge(self, x):
        B, H, T, D = x.shape
        return x.transpose(1, 3).reshape(B, T, H * D)


class BatchAndTokensSwapped(Mistake):
    """The tokens were brought in front of the batch before the reshape.

    Why: A sequence then holds tokens of others that have nothing to do with it.
    Mend: The batch stays first all the way.
    """

    def merge(self, x):
        B, H, T, D = x.shape
        return x.permute(2, 0, 1, 3).reshape(B, T, H * D)


class ViewAfterTranspose(Mistake):
    """`view` refuses: after `transpose` the numbers no longer lie in the order it needs.

    Why: It works with one head or one token, which is why a small test may not notice.
    Mend: Bring the numbers into order first, or use the method that copies when it must.
    """

    def merge(self, x):
        B, H, T, D = x.shape
        return x.transpose(1, 2).view(B, T, H * D)


def _ordered_too_early(self, x):
    B, H, T, D = x.shape
    return x.contiguous().transpose(1, 2).view(B, T, H * D)


OrderedTooEarly = ViewAfterTranspose.but(merge=_ordered_too_early)


class HeadsNotJoined(Mistake):
    """The heads are back behind the tokens, but still a dimension of their own.

    Why: `out_proj` wants (B, T, C), with all heads in the last dimension.
    Mend: One step is missing: join the last two dimensions.
    """

    def merge(self, x):
        return x.transpose(1, 2)


class JoinedWithTokens(Mistake):
    """The heads were joined with the tokens: (B, H · T, D).

    Why: A text of T tokens must stay one of T tokens.
    Mend: The heads belong beside each other in the channels.
    """

    def merge(self, x):
        return x.flatten(1, 2)


class TokensJoinedWithWidth(Mistake):
    """The tokens were joined with the channels: (B, H, T · D).

    Why: The last two dimensions are T and D as long as the heads stand in front of them.
    Mend: Which step of the split has to be undone before anything is joined?
    """

    def merge(self, x):
        return x.flatten(2)


class JoinedWithBatch(Mistake):
    """The heads were joined with the batch: (H · B, T, D).

    Why: A batch of B texts must stay one of B texts.
    Mend: The heads belong beside each other in the channels.
    """

    def merge(self, x):
        return x.transpose(0, 1).flatten(0, 1)


class SequencesJoined(Mistake):
    """The texts of the batch were put side by side, and not the heads.

    Why: Going through a tensor goes through its first dimension, and that is the batch.
    Mend: Which dimension holds the heads?
    """

    def merge(self, x):
        return torch.cat(list(x), dim=-1)


class HeadsAdded(Mistake):
    """The heads were added up.

    Why: A sum can't be taken apart: what only one head found is mixed away.
    Mend: Each head keeps its own channels: C = H · D.
    """

    def merge(self, x):
        return x.sum(1)


class HeadsAveraged(Mistake):
    """The heads were averaged.

    Why: An average can't be taken apart: what only one head found is mixed away.
    Mend: Each head keeps its own channels: C = H · D.
    """

    def merge(self, x):
        return x.mean(1)


class FirstHeadOnly(Mistake):
    """Only the first head is left.

    Why: The work of the others is thrown away.
    Mend: Join all heads along the channels: C = H · D.
    """

    def merge(self, x):
        return x[:, 0]


class NeverTransposed(Mistake):
    """Heads were made by `view(B, H, T, D)` and merged by a reshape, without a swap: each head
    holds pieces of several tokens.

    Why: Each head then sees one stretch of the text and nothing of the others, and no error says
        so.
    Mend: Cut the last dimension only, then let tokens and heads change places; and back again.
    """

    split = ViewWithoutTranspose.split
    merge = MergedWithoutTranspose.merge


# ---------------------------------------------------------------- mixing


class NoOutProj(Mistake):
    """The heads side by side are returned as they are; `out_proj` exists but is not used.

    Why: Without it no channel ever holds something of two heads.
    Mend: One step is missing between joining the heads and `return`.
    """

    def mixed(self, merged):
        return merged


class OutProjAdded(Mistake):
    """What goes into `out_proj` is added to what comes out of it.

    Why: Such a shortcut belongs around the whole of attention, as in lesson 08.
    Mend: Return what `out_proj` gives, and nothing more.
    """

    def mixed(self, merged):
        return merged + super().mixed(merged)


class OutProjTwice(Mistake):
    """`out_proj` was applied twice.

    Why: The second time it mixes channels that no longer belong to one head each.
    Mend: It comes once, after the heads are side by side.
    """

    def mixed(self, merged):
        return self.out_proj(super().mixed(merged))


class OutProjTransposed(Mistake):
    """The weight of `out_proj` was used as (in, out): `x @ weight`.

    Why: It is square, so no error says that rows and columns are swapped.
    Mend: `nn.Linear` keeps its weight as (out, in); called as a layer, it knows.
    """

    def mixed(self, merged):
        return merged @ self.out_proj.weight + self.out_proj.bias


class OutProjBiasUnused(Mistake):
    """The bias of `out_proj` is not added.

    Why: It is there, counts as a parameter, and never learns.
    Mend: Call `out_proj` as a layer: it adds its bias by itself.
    """

    def mixed(self, merged):
        return nn.functional.linear(merged, self.out_proj.weight)


class OutProjWithoutBias(Mistake):
    """`out_proj` was made without a bias.

    Why: `qkv_bias` speaks of query, key and value alone; `out_proj` always has one.
    Mend: Leave `bias` of its `nn.Linear` as it is by default.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.out_proj = nn.Linear(*self.out_proj.weight.shape, bias=False)


class HeadsMixedApart(Mistake):
    """Each head went through its own block of `out_proj`: heads are never mixed.

    Why: What two heads found can then never be put together.
    Mend: Join the heads first, and let all channels go through `out_proj` at once.
    """

    def mixed(self, merged):
        weight, width = self.out_proj.weight, self.head_width()
        blocks = [
            nn.functional.linear(part, weight[i * width : (i + 1) * width].split(width, 1)[i])
            for i, part in enumerate(merged.split(width, -1))
        ]
        return torch.cat(blocks, -1) + self.out_proj.bias

    def head_width(self):
        heads = len(self.heads) if isinstance(self, SideBySide) else self.num_heads
        return self.out_proj.in_features // heads


class CutOff(Mistake):
    __doc__ = m.CutOff.__doc__

    def result(self, context, pad_mask):
        return super().result(context.detach(), pad_mask)


class OutProjBeforeMerge(Mistake):
    """`out_proj` was applied before the heads were merged, on what a reshape made as wide.

    Why: What it mixed there were pieces of different tokens.
    Mend: Merge first, so that a row holds all heads of one token.
    """

    def result(self, context, pad_mask):
        B, H, T, D = context.shape
        mixed = self.mixed(context.reshape(B, T, H * D))
        return self.merge(mixed.reshape(B, H, T, D))


class OutProjOnValues(Mistake):
    """`out_proj` was applied to the values, before the heads.

    Why: Then nothing mixes what the heads have found.
    Mend: It comes last: attend, merge, then project.
    """

    def projected(self, x):
        query, key, value = super().projected(x)
        return query, key, self.split(self.mixed(self.merge(value)), self.num_heads)

    def result(self, context, pad_mask):
        return self.merge(context)


# ---------------------------------------------------------------- scaling, masks


class ScaledByModelWidth(Mistake):
    """You divided by the root of the width of all heads together.

    Why: The scores come out too small, so every head looks too evenly at all tokens.
    Mend: The width of the vectors in *this* dot product makes it grow. How wide is one head?
    """

    def scale(self, query, key):
        return math.sqrt(self.d_out)


class ScaledByHeadCount(Mistake):
    """You divided by the root of the number of heads.

    Why: How big a dot product gets depends on its vectors, not on how many heads there are.
    Mend: The width of the vectors in *this* dot product makes it grow. How wide is one head?
    """

    def scale(self, query, key):
        return math.sqrt(self.num_heads)


class KeyNotTransposed(Mistake):
    """The key was not transposed, or other dimensions of it than its last two.

    Why: `query @ …` wants (B, H, D, T): the heads stay in front, and each compares for itself.
    Mend: Which two dimensions does a matrix product work on, counted from the end?
    """

    def compared(self, query, key):
        return query @ key


class OverHeads(Mistake):
    """The softmax runs over the heads.

    Why: Heads then compete with each other, where the keys of each head should.
    Mend: With four dimensions, keys are the last one.
    """

    def weights(self, scores, hidden):
        return scores.softmax(dim=1).masked_fill(hidden, 0.0)


class PaddingForSomeHeads(Mistake):
    """Some heads hide the padding, others see it.

    Why: `out_proj` mixes the heads, so one that leaks spoils every channel of the result.
    Mend: Every head looks at the same tokens, so every head needs the same mask.
    """

    def masked(self, h, heads):
        return h == 0

    def look(self, h, x, pad_mask):
        return super().look(h, x, pad_mask if self.masked(h, len(self.heads)) else None)

    def with_padding(self, future, pad_mask):
        padding, H = self.columns(pad_mask), self.num_heads
        return torch.cat([future | (padding & self.masked(h, H)) for h in range(H)], dim=1)


class PadMaskWithoutHeads(Mistake):
    """The padding mask has the shape (B, 1, T), which lines up with the heads and not the batch.

    Why: When B and H happen to be equal, it hides the wrong columns without an error.
    Mend: Shapes line up from the right. How many dimensions do the scores have?
    """

    def columns(self, pad_mask):
        return pad_mask[:, None, :]


class PadMaskAsItComes(Mistake):
    """The padding mask of shape (B, T) was used as it comes: its batch lines up with the queries.

    Why: Scores are (B, H, T, T); only when B and T happen to be equal is there no error.
    Mend: Give it two more dimensions, for the heads and for the queries.
    """

    def columns(self, pad_mask):
        return pad_mask


class MaskAlwaysUsed(Mistake):
    """`forward` uses `pad_mask` even where there is none, and None can't be indexed.

    Why: Most calls come without padding.
    Mend: Ask first whether there is a `pad_mask`; without one, the future alone is hidden.
    """

    def hidden(self, T, device, pad_mask=None):
        return self.with_padding(self.future(T, device), pad_mask)


class DropoutSharedByHeads(Mistake):
    """One draw of dropout serves for all heads.

    Why: Heads should do without different tokens, else one can't stand in for another.
    Mend: Send the weights of all heads through `nn.Dropout`; it draws for each of them.
    """

    def dropped(self, weights):
        return weights * super().dropped(torch.ones_like(weights[:, :1]))


PADDING_FOR_SOME_HEADS = (
    PaddingForSomeHeads,
    PaddingForSomeHeads.but(masked=lambda self, h, heads: h == heads - 1),
    PaddingForSomeHeads.but(masked=lambda self, h, heads: h < heads - 1),
    PaddingForSomeHeads.but(masked=lambda self, h, heads: h > 0),
    PaddingForSomeHeads.but(masked=lambda self, h, heads: h < heads // 2),
    PaddingForSomeHeads.but(masked=lambda self, h, heads: h % 2 == 0),
)
