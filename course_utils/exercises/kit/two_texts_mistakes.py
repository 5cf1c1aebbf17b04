"""What goes wrong between two texts: sides, masks, the order of the branches, Post-LN.

As in `mistakes.py`: one idea, one id, one set of sentences. For right answers built on
`two_texts.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ...checking import Mistake
from . import block_mistakes as b
from . import mistakes as m
from . import module_mistakes as mm
from .blocks import Gelu
from .two_texts import Cross, ReluNetwork

# ---------------------------------------------------------------- which text is on which side


class SidesSwapped(Mistake):
    """The sides are swapped: queries come from `context`, keys and values from `x`.

    Why: What comes out has a row for each token of the context, and the decoder has another number.
    Mend: Who asks? The text that is being written; the other one answers.
    """

    def sides(self, x, context):
        return context, x, x


class ContextIgnored(Mistake):
    """Queries, keys and values all come from `x`: `context` has no say.

    Why: The shape is right, so nothing complains, and the decoder never hears a word of the source.
    Mend: What does a token of the target look at here? Two of the three layers read it.
    """

    def sides(self, x, context):
        return x, x, x


class TargetIgnored(Mistake):
    """Queries, keys and values all come from `context`: `x` has no say.

    Why: The source then looks at itself, and what is being written can't ask it anything.
    Mend: One of the three layers reads `x`. Which one asks?
    """

    def sides(self, x, context):
        return context, context, context


class KeysFromTarget(Mistake):
    """The keys come from `x`, the values from `context`.

    Why: A token finds a place in its own text and collects what stands at that place in the other.
    Mend: Keys and values belong to the same tokens: those that are looked at.
    """

    def sides(self, x, context):
        return x, x, context


class ValuesFromTarget(Mistake):
    """The values come from `x`, the keys from `context`.

    Why: A token looks at the source and takes home something of its own text.
    Mend: Keys and values belong to the same tokens: those that are looked at.
    """

    def sides(self, x, context):
        return x, context, x


class QueriesFromContext(Mistake):
    """The queries come from `context` like keys and values; only the shape is that of `x`.

    Why: Row t should ask what token t of the target needs, and no other token.
    Mend: One of the three layers reads `x`. Which one asks?
    """

    def sides(self, x, context):
        T, S = x.shape[1], context.shape[1]
        return context.repeat(1, -(-T // S), 1)[:, :T], context, context


class BothTextsHeard(Mistake):
    """Keys and values come from both texts, one behind the other.

    Why: Self-attention has looked at the target already, under its mask; here its future leaks.
    Mend: Here only the other text answers.
    """

    def sides(self, x, context):
        both = torch.cat([context, x], dim=1)
        self.own_tokens = x.shape[1]
        return x, both, both

    def with_padding(self, future, pad_mask):
        return future | F.pad(self.columns(pad_mask), (0, self.own_tokens))


class CausalHere(Mistake):
    """A causal mask hides keys: query t sees the first t + 1 of them alone.

    Why: The source is there as a whole before the first word is written; nothing in it is future.
    Mend: Who may look at what? Only padding has to be hidden here.
    """

    def future(self, lengths, device=None):
        T, S = lengths
        return torch.ones(T, S, dtype=torch.bool, device=device).triu(1)


class CausalWhereItFits(CausalHere):
    """A causal mask hides keys where there are as many keys as queries.

    Why: The source is there as a whole before the first word is written; nothing in it is future.
    Mend: Who may look at what? Only padding has to be hidden here.
    """

    @classmethod
    def id(cls):
        return "causal_here"

    def future(self, lengths, device=None):
        T, S = lengths
        hidden = super().future(lengths, device)
        return hidden if T == S else hidden & False


def layers(mistake: type[Mistake], *names: str) -> type[Mistake]:
    """A mistake about which layer makes which of query, key and value, each from its own text."""

    def projected(self, texts):
        made = zip((getattr(self, n) for n in names), self.sides(*texts), strict=True)
        return tuple(self.split(self.project(*one), self.num_heads) for one in made)

    return mistake.but(projected=projected)


KeysFromQueries = layers(m.KeysFromQueries, "query", "query", "value")
ValuesFromKeys = layers(m.ValuesFromKeys, "query", "key", "key")
QueriesFromKeys = layers(mm.QueriesFromKeys, "key", "key", "value")


def _tokens_as_values(self, texts):
    query, key, _ = Cross.projected(self, texts)
    return query, key, self.split(self.sides(*texts)[2], self.num_heads)


TokensAsValues = mm.TokensAsValues.but(projected=_tokens_as_values)


# The same ideas where the mask belongs to the context.


def _mask_required(self, x, context, context_pad_mask):
    return Cross.forward(self, x, context, context_pad_mask)


def _padding_kept(self, x, context, context_pad_mask=None):
    if context_pad_mask is not None:
        self.kept = context_pad_mask
    elif self.kept is not None and self.kept.shape == context.shape[:2]:
        context_pad_mask = self.kept
    return Cross.forward(self, x, context, context_pad_mask)


ContextMaskRequired = m.MaskRequired.but(forward=_mask_required)


class ContextCleared(m.TokensCleared):
    """Padded tokens were set to 0 in `context`; they are not hidden.

    Why: A token of zeros still has a key and a score, and takes its share of the weights.
    Mend: Hide their scores instead.
    """

    def forward(self, x, context, context_pad_mask=None):
        if context_pad_mask is not None:
            context = context * ~context_pad_mask[..., None]
        return Cross.forward(self, x, context)

    @classmethod
    def id(cls):
        return "tokens_cleared"


ContextPaddingKept = mm.PaddingKept.but(forward=_padding_kept)


# ---------------------------------------------------------------- Post-LN


class _SumsAsTheyAre:
    """No norm takes a sum."""

    def settled(self, middle):
        return middle

    def settled_between(self, told):
        return told

    def settled_again(self, out):
        return out


class PreNorm(_SumsAsTheyAre, Mistake):
    """Each branch reads through its norm, and the sums are left as they are: that is Pre-LN.

    Why: Most models since 2019 do so, but the weights of this one go with the other wiring.
    Mend: Add first; then the norm takes the whole sum.
    """

    def read(self, x):
        return self.normed(1, x)

    def asking(self, x, middle):
        return self.normed(2, middle)

    def read_again(self, middle):
        return self.normed(self.last, middle)


class NormedOnBothSides(Mistake):
    """Each branch reads through its norm, and the sums are normed too.

    Why: Then each norm does two jobs with one scale and one shift.
    Mend: In Post-LN a branch reads the stream as it is: the norm before has seen to its size.
    """

    def read(self, x):
        return self.normed(1, x)

    def asking(self, x, middle):
        return self.normed(2, middle)

    def read_again(self, middle):
        return self.normed(self.last, middle)


class LastSumNotNormed(Mistake):
    """The last sum is returned as it is; the norms before are right.

    Why: The next block counts on normed tokens.
    Mend: Each sum has its norm. How many sums does this block have?
    """

    def settled_again(self, out):
        return out


class NormedBeforeTheSum(_SumsAsTheyAre, Mistake):
    """The stream was normed and the branch added afterwards.

    Why: What comes out is as big as the branch makes it, and the next block counts on normed
        tokens.
    Mend: The norm takes the whole sum: where does its bracket close?
    """

    def joined(self, x, branch):
        return self.normed(1, x) + branch

    def joined_again(self, x, middle, branch):
        return self.normed(2, middle) + branch

    def finished(self, x, middle, branch):
        return self.normed(self.last, middle) + branch


class _Gelu(ReluNetwork):
    def bent(self, wide):
        return Gelu()(wide)


class _Straight(ReluNetwork):
    def bent(self, wide):
        return wide


class _BentAtTheEnd(ReluNetwork):
    def bent(self, wide):
        return wide

    def contracted(self, wide):
        return super().contracted(wide).relu()


class _Rectangular(ReluNetwork):
    """Four times as wide, whatever d_ff says."""

    def width(self, d_model, d_ff):
        return 4 * d_model


class GeluForRelu(b._WrongNetwork):
    """The network bends with GELU, not with the ReLU of this lesson.

    Why: Weights that were trained with the one give other numbers with the other.
    Mend: The model of 2017 is older than GELU: max(0, x) stands between its two layers.
    """

    network = _Gelu


class NoBend(b.NoBend):
    """Nothing bends between the two linear layers.

    Why: Two linear layers in a row are one: the width `d_ff` is for nothing.
    Mend: ReLU, max(0, x), stands between them.
    """

    network = _Straight


class BentAtTheEnd(b._WrongNetwork):
    """ReLU comes after the second layer, not between the two.

    Why: Two linear layers in a row are one, and a bend at the end lets little or nothing below 0
        through.
    Mend: Widen, bend, narrow: the bend is in the middle.
    """

    network = _BentAtTheEnd


class FourTimesAsWide(b._WrongNetwork):
    """The middle is four times as wide as a token, whatever `d_ff` says.

    Why: Here the width is given, and not a factor.
    Mend: From `d_model` to which number, and back?
    """

    network = _Rectangular


class NothingDropped(Mistake):
    """Dropout has no effect on what attention adds, or on any branch at all.

    Why: Whoever asks for dropout=0.1 expects that something is dropped of each branch.
    Mend: Hand `dropout` on to the parts, and drop what every branch adds.
    """

    def weights_rate(self, dropout):
        return 0.0

    def branch_rate(self, dropout):
        return 0.0

    def network_rate(self, dropout):
        return 0.0


class SumDropped(b.StreamDropped):
    """The stream itself was dropped, in a sum or as it came in: what a token was is lost in some
    channels.

    Why: What is dropped from the stream is gone for all blocks after it.
    Mend: Which calls of dropout act on more than what a branch adds?
    """

    @classmethod
    def id(cls):
        return "stream_dropped"


# ---------------------------------------------------------------- the decoder


class ContextUnused(Mistake):
    """The block makes a cross-attention and never adds what it finds.

    Why: The decoder then writes without ever having read the source.
    Mend: Three sums: listen back, ask the context, think.
    """

    def joined_again(self, x, middle, branch):
        return middle


class TargetForContext(Mistake):
    """Cross-attention gets the target itself in place of `context`.

    Why: The shape is right, so nothing complains; but the source is never read, and without a
        causal mask the future leaks.
    Mend: It takes two texts: who asks, and who is asked?
    """

    def source(self, asks, context):
        return asks


class TextsSwapped(Mistake):
    """Cross-attention gets its two texts the other way about.

    Why: What comes out has a row for each token of the context, and can't be added to the target.
    Mend: First the one that asks, then the one that is asked.
    """

    def asked(self, asks, context, context_pad_mask):
        return self.cross_attention(context, asks, context_pad_mask)


class AskedWithInput(Mistake):
    """Cross-attention asks with the tokens as they came into the block.

    Why: What self-attention found is not in the question.
    Mend: Each branch reads what the one before it left.
    """

    def asking(self, x, middle):
        return x


class AskedNotNormed(Mistake):
    """Cross-attention asks with the first sum before its norm.

    Why: In Post-LN a branch reads normed tokens, else the softmax saturates as the stream grows.
    Mend: The first line ends in a norm. Does the second begin with its result?
    """

    kept = None

    def settled(self, middle):
        self.kept = middle
        return super().settled(middle)

    def asking(self, x, middle):
        kept, self.kept = self.kept, None
        return kept


class ContextNormed(Mistake):
    """The context goes through a norm of this block.

    Why: It comes from the encoder, normed already, and belongs to all decoder blocks alike.
    Mend: The norms are for the stream of the target.
    """

    def source(self, asks, context):
        return self.normed(2, context)


class CrossFirst(Mistake):
    """Cross-attention comes before self-attention.

    Why: The names stay and the weights of a trained model would load, into another function.
    Mend: First what was written so far, then the source, then the network.
    """

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        middle = self.normed(1, x + self.asked_dropped(self.asked(x, context, context_pad_mask)))
        told = self.normed(2, middle + self.listened(middle, pad_mask))
        return self.settled_again(self.finished(x, told, self.thought(x, told)))


class CrossFirstWithItsNorm(CrossFirst):
    """Cross-attention comes before self-attention, and takes its norm along.

    Why: The names stay and the weights of a trained model would load, into another function.
    Mend: First what was written so far, then the source, then the network.
    """

    @classmethod
    def id(cls):
        return "cross_first"

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        middle = self.normed(2, x + self.asked_dropped(self.asked(x, context, context_pad_mask)))
        told = self.normed(1, middle + self.listened(middle, pad_mask))
        return self.settled_again(self.finished(x, told, self.thought(x, told)))


class SideBySideBranches(Mistake):
    """Both attentions read the tokens as they came in, and are added in one sum.

    Why: The question to the source then knows nothing of what was written before.
    Mend: Each branch reads what the one before it left, and each sum has its norm.
    """

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        found = self.asked_dropped(self.asked(x, context, context_pad_mask))
        told = self.normed(1, x + self.listened(x, pad_mask) + found)
        return self.settled_again(self.finished(x, told, self.thought(x, told)))


class NoCrossResidual(Mistake):
    """What cross-attention finds takes the place of the tokens; it is not added to them.

    Why: A token forgets what it was and what it heard of its own text.
    Mend: Two of the three branches have a `+` in front of them. Does the third?
    """

    def joined_again(self, x, middle, branch):
        return branch


class CrossAddedToInput(Mistake):
    """What cross-attention finds is added to the tokens as they came in.

    Why: What self-attention found is lost again, but for the question it led to.
    Mend: The second `+` begins where the first one ended.
    """

    def joined_again(self, x, middle, branch):
        return x + branch


class MasksSwapped(Mistake):
    """`pad_mask` and `context_pad_mask` are swapped.

    Why: With as many tokens in both texts there is no error: each text is heard without some of
        its words and with its padding.
    Mend: Each mask belongs to the text that is *looked at*.
    """

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        return super().forward(x, context, context_pad_mask, pad_mask)


class ContextMaskNotHandedOn(Mistake):
    """`context_pad_mask` has no effect: it is not handed on to the cross-attention.

    Why: A translation changes with the batch that its source is in.
    Mend: Which part looks at the context? It must know what is padding there.
    """

    def source_mask(self, context_pad_mask):
        return None


class TargetMaskOnContext(Mistake):
    """The target's `pad_mask` was handed on to the cross-attention.

    Why: With as many tokens in both texts there is no error, and words of the source are hidden.
    Mend: A mask belongs to the text that is *looked at*. Which one is that here?
    """

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        self.target_mask = pad_mask
        return super().forward(x, context, pad_mask, context_pad_mask)

    def source_mask(self, context_pad_mask):
        return self.target_mask


class ContextMaskInverted(Mistake):
    """The mask of the context is the wrong way round: its text is hidden, its padding is seen.

    Why: In this course `True` means hidden, in every mask.
    Mend: `True` in `context_pad_mask` is padding, to be hidden. Only a built-in that asks
        who takes part wants it turned round, with `~`.
    """

    def source_mask(self, context_pad_mask):
        return None if context_pad_mask is None else ~context_pad_mask


class OneAttentionForBoth(Mistake):
    """Self-attention and cross-attention share their weights: one's layers serve both.

    Why: Looking back and asking the source are two jobs, and each has its own weights.
    Mend: Two attentions are made in the constructor. Is each of them called?
    """

    def asked(self, asks, context, context_pad_mask):
        own = self.self_attention
        cross = self.cross_attention
        names = ("query", "key", "value", "out_proj")
        kept = {name: getattr(cross, name) for name in names}
        for name in names:
            setattr(cross, name, getattr(own, name))
        found = super().asked(asks, context, context_pad_mask)
        for name in names:
            setattr(cross, name, kept[name])
        return found


class CrossCutOff(Mistake):
    """The values are right, but no gradient reaches the context.

    Why: The encoder then never learns: what it does has no consequence that training could see.
    Mend: No `.detach()`, no `torch.no_grad()`: the context is a tensor like any other.
    """

    def source(self, asks, context):
        return context.detach()


class BothMasksRequired(m.MaskRequired):
    """`forward` can't be called without masks.

    Why: Most of the time there is no padding, as when text is generated.
    Mend: Give both the default None, and treat None as "nothing is padding".
    """

    @classmethod
    def id(cls):
        return "mask_required"

    def forward(self, x, context, pad_mask, context_pad_mask):
        return super(m.MaskRequired, self).forward(x, context, pad_mask, context_pad_mask)


class WidthAndContextSwapped(Mistake):
    """`d_ff` and `context_length` changed places.

    Why: Both are whole numbers, so no error tells until a long text comes.
    Mend: Compare with the signature that was asked for.
    """

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, context_length, d_ff, dropout)
