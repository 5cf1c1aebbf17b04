"""What goes wrong where a block is wired: the stream, its norms, its branches, their dropout.

As in `mistakes.py`: one idea, one id, one set of sentences. For right answers built on
`blocks.Block`.
"""

from __future__ import annotations

import torch
from torch import nn

from ...checking import Mistake
from .blocks import Network, Norm

# ---------------------------------------------------------------- the stream


class NoResidual(Mistake):
    """Neither branch is added to its input: what comes out is what the last branch made.

    Why: Twelve such layers make all tokens alike, and the first ones get no gradient.
    Mend: A branch adds to the stream. What should stand in front of each `+`?
    """

    def joined(self, x, branch):
        return branch

    def finished(self, x, middle, branch):
        return branch


class NoFirstResidual(Mistake):
    """What attention finds takes the place of the tokens; it is not added to them.

    Why: A token forgets what it was and keeps only what it heard.
    Mend: One of the two branches has a `+` in front of it. Does the other?
    """

    def joined(self, x, branch):
        return branch


class NoSecondResidual(Mistake):
    """What the feed-forward network makes takes the place of the tokens; it is not added to them.

    Why: All that attention wrote into the stream has to pass the network or is lost.
    Mend: One of the two branches has a `+` in front of it. Does the other?
    """

    def finished(self, x, middle, branch):
        return branch


class ResidualAroundNormed(Mistake):
    """The branches are added to the *normed* tokens: x itself was overwritten by its norm.

    Why: Then a norm stands on the way from input to output, in every block.
    Mend: The norm is for the branch alone. Which name holds the tokens as they came?
    """

    def joined(self, x, branch):
        return self.read(x) + branch

    def finished(self, x, middle, branch):
        return self.read_again(middle) + branch


class FirstResidualAroundNormed(Mistake):
    """What attention finds is added to the *normed* tokens: x was overwritten by its norm.

    Why: Then a norm stands on the way from input to output, in every block.
    Mend: The norm is for the branch alone. Which name holds the tokens as they came?
    """

    def joined(self, x, branch):
        return self.read(x) + branch


class SecondResidualAroundNormed(Mistake):
    """What the network makes is added to the *normed* tokens: they were overwritten by their norm.

    Why: Then a norm stands on the way from input to output, in every block.
    Mend: The norm is for the branch alone. Which name holds the tokens after the first `+`?
    """

    def finished(self, x, middle, branch):
        return self.read_again(middle) + branch


class ResidualFromInput(Mistake):
    """The second branch is added to the tokens as they came into the block.

    Why: What attention found was added and is lost again: only the network has heard it.
    Mend: The second `+` begins where the first one ended.
    """

    def finished(self, x, middle, branch):
        return x + branch


class InputAddedAgain(Mistake):
    """The tokens as they came in are added twice: once in each sum.

    Why: The stream doubles in every block, and what the branches add is drowned.
    Mend: After the first sum, x is in it already.
    """

    def finished(self, x, middle, branch):
        return x + middle + branch


class Parallel(Mistake):
    """Both branches read the tokens as they came in; the network doesn't see what attention found.

    Why: Some models do that to save time, but here the network is to think about what was heard.
    Mend: What does the second branch read: x before, or after the first sum?
    """

    def thought(self, x, middle):
        return super().thought(x, x)


class NetworkReadsBranch(Mistake):
    """The network reads what attention found alone, not the stream with it added.

    Why: It then can't weigh what a token heard against what it is.
    Mend: Add first, then norm, then the network.
    """

    def thought(self, x, middle):
        return super().thought(x, middle - x)


class NetworkFirst(Mistake):
    """The feed-forward network comes before attention.

    Why: The names stay and the weights of a trained model would load, into another function.
    Mend: First tokens listen, then each thinks about what it heard.
    """

    def forward(self, x, pad_mask=None):
        middle = x + self.thought(x, x)
        return middle + self.listened(middle, pad_mask)


class Averaged(Mistake):
    """Stream and branch were averaged; a sum was asked for.

    Why: Each block then leaves a quarter of what those before it wrote.
    Mend: Add, and leave the size to the norms.
    """

    def joined(self, x, branch):
        return super().joined(x, branch) / 2

    def finished(self, x, middle, branch):
        return super().finished(x, middle, branch) / 2


class BranchesCutOff(Mistake):
    """The values are right, but what is added is cut off from the tokens it was read from.

    Why: No gradient can flow back through a branch that is cut off: it never learns.
    Mend: No `.detach()`, no `torch.no_grad()`: ordinary tensor operations all the way.
    """

    def joined(self, x, branch):
        return super().joined(x, branch.detach())


class StreamCutOff(Mistake):
    """The values are right, but the stream itself is cut off from the input.

    Why: The short way back, for which residuals are there, is closed to gradients.
    Mend: No `.detach()`, no `x.data`: ordinary tensor operations all the way.
    """

    def joined(self, x, branch):
        return super().joined(x.detach(), branch)


class AddedInPlace(Mistake):
    """The result is right, but it was added into the input itself, with `x += …`.

    Why: Whoever called still holds that tensor, and it now holds something else.
    Mend: `x = x + …` makes a new tensor.
    """

    def joined(self, x, branch):
        x += branch
        return x


# ---------------------------------------------------------------- norms


class PostNorm(Mistake):
    """Each norm comes after the addition: that is Post-LN, the wiring of the paper of 2017.

    Why: The stream then passes a norm after every branch, which makes deep models hard to train.
    Mend: Norm what a branch reads; leave what is added, and the sum, as they are.
    """

    def read(self, x):
        return x

    def read_again(self, middle):
        return middle

    def joined(self, x, branch):
        return self.norm1(super().joined(x, branch))

    def finished(self, x, middle, branch):
        return self.norm2(super().finished(x, middle, branch))


class BranchNormed(Mistake):
    """The norms are applied to what the branches give, not to what they read.

    Why: Attention then reads the stream at whatever size it has grown to, and its softmax
        saturates.
    Mend: A norm stands between the stream and its branch.
    """

    def read(self, x):
        return x

    def read_again(self, middle):
        return middle

    def joined(self, x, branch):
        return super().joined(x, self.norm1(branch))

    def finished(self, x, middle, branch):
        return super().finished(x, middle, self.norm2(branch))

    def settled(self, middle):
        return middle

    def settled_again(self, out):
        return out


class NoNorms(Mistake):
    """The norms exist but are not used: the branches read the stream as it is.

    Why: The stream grows from block to block, and the softmax of attention saturates.
    Mend: Each branch reads through its own norm.
    """

    def normed(self, place, x):
        return x


class FirstNormUnused(Mistake):
    """Attention reads the stream without a norm.

    Why: The stream grows from block to block, and the softmax saturates.
    Mend: Each branch reads through its own norm.
    """

    unused = 1

    def normed(self, place, x):
        return x if place == self.unused else super().normed(place, x)


class SecondNormUnused(Mistake):
    """The feed-forward network reads the stream without a norm.

    Why: The stream grows from block to block, and the network meets numbers it never learned on.
    Mend: Each branch reads through its own norm.
    """

    unused = 2

    def normed(self, place, x):
        return x if place == self.unused else super().normed(place, x)


class OneNormTwice(Mistake):
    """`norm1` serves both branches; `norm2` is never used.

    Why: Made anew both give the same, so nothing shows; trained, each has its own scale and shift.
    Mend: Read the two lines aloud: one name comes twice.
    """

    def normed(self, place, x):
        return super().normed(1, x)


class NormNamesSwapped(Mistake):
    """`norm1` and `norm2` changed places.

    Why: Made anew both give the same, so nothing shows; the weights of a trained model go wrong.
    Mend: `norm1` belongs to attention, which comes first.
    """

    def normed(self, place, x):
        return super().normed({1: 2, 2: 1}.get(place, place), x)


class OneNormShared(Mistake):
    """`norm1` and `norm2` are one and the same module.

    Why: Two branches read at different places of the stream; each needs a scale of its own.
    Mend: Make a second `LayerNorm` in the constructor.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm2 = self.norm1
        if hasattr(self, "norm3"):
            self.norm3 = self.norm1


class NormedTwice(Mistake):
    """A branch reads through two norms.

    Why: Its scale and shift then act on numbers that were scaled and shifted already.
    Mend: One norm a branch: is there one inside a part that you call, too?
    """

    def read(self, x):
        return self.norm2(super().read(x))


class _WrongNorm(Mistake):
    def __init__(self, d_model, *args, **kwargs):
        super().__init__(d_model, *args, **kwargs)
        for name, _ in [*self.named_children()]:
            if name.startswith("norm"):
                setattr(self, name, self.norm(d_model))


class _Unbiased(Norm):
    correction = 1


class _OverTokens(Norm):
    axis = -2


class UnbiasedVariance(_WrongNorm):
    """The variance was divided by C - 1, as `var` and `std` do by default.

    Why: That is meant for samples. A norm divides by C, so that the result has variance 1.
    Mend: `var` has an argument for it: `unbiased` or `correction`.
    """

    norm = _Unbiased


class OverTokens(_WrongNorm):
    """The norm runs over the tokens, not over the channels.

    Why: A token's numbers then hang on the others, on those after it too: the future leaks.
    Mend: In `(B, T, C)`, which dimension holds the channels of one token?
    """

    norm = _OverTokens


# ---------------------------------------------------------------- the branches


class PadMaskNotHandedOn(Mistake):
    """`pad_mask` has no effect: it is not handed on to the attention.

    Why: A sequence can then change with the batch it is in.
    Mend: Which part of a block lets tokens see each other? It must know what is padding.
    """

    @classmethod
    def id(cls):
        return "pad_mask_ignored"

    def handed_on(self, pad_mask):
        return None


class PaddingInverted(Mistake):
    """The padding mask is the wrong way round: the text is hidden, and the padding is seen.

    Why: In this course `True` means hidden, in every mask.
    Mend: `True` in `pad_mask` is padding, to be hidden. Only a built-in that asks who takes part
        wants it turned round, with `~`.
    """

    def handed_on(self, pad_mask):
        return None if pad_mask is None else ~pad_mask


class AttentionUnused(Mistake):
    """The block makes an attention and never calls it.

    Why: Nothing else in a block lets tokens hear each other.
    Mend: What should the first branch add?
    """

    def joined(self, x, branch):
        return x


class NetworkUnused(Mistake):
    """The block makes a feed-forward network and never calls it.

    Why: Two thirds of the parameters do nothing.
    Mend: What should the second branch add?
    """

    def finished(self, x, middle, branch):
        return middle


class NetworkTwice(Mistake):
    """The feed-forward network comes twice.

    Why: The second time it reads what it wrote itself.
    Mend: Two sums are enough: one for each branch.
    """

    def finished(self, x, middle, branch):
        return super().finished(x, middle, branch) + self.thought(x, middle + branch)


class _Rectified(Network):
    def bent(self, wide):
        return wide.relu()


class _Exact(Network):
    def bent(self, wide):
        return 0.5 * wide * (1 + torch.erf(wide / 2**0.5))


class _Straight(Network):
    def bent(self, wide):
        return wide


class _WrongNetwork(Mistake):
    def thinking(self):
        return self.network


class Relu(_WrongNetwork):
    """The network bends with ReLU, not with the GELU of this lesson.

    Why: Weights that were trained with the one give other numbers with the other.
    Mend: `gelu` stands between the two linear layers.
    """

    network = _Rectified


class ExactGelu(_WrongNetwork):
    """That is the exact GELU, with `erf`; the form with `tanh` was asked for.

    Why: They differ by up to 0.0005: too little to see, enough to miss published numbers.
    Mend: The formula with 0.044715 is the one that GPT-2 uses. `nn.GELU()` is the other.
    """

    network = _Exact


class NoBend(_WrongNetwork):
    """Nothing bends between the two linear layers.

    Why: Two linear layers in a row are one: four times the width, for nothing.
    Mend: `gelu` stands between them.
    """

    network: type = _Straight


# ---------------------------------------------------------------- arguments


class ContextAndHeadsSwapped(Mistake):
    """`num_heads` and `context_length` changed places on the way to the attention.

    Why: Both are whole numbers, so an error comes only where they happen not to fit.
    Mend: Compare with the attention's signature, or pass them by name.
    """

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, context_length, num_heads, dropout, qkv_bias)


class BiasNotHandedOn(Mistake):
    """With `qkv_bias=True` the attention still has no biases: it was not handed on.

    Why: Weights of a model that has them (GPT-2, for one) would not fit in.
    Mend: Which of the constructor's arguments does the attention get?
    """

    @classmethod
    def id(cls):
        return "bias_never"

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout)


class BiasTakenForDropout(Mistake):
    """The attention got `qkv_bias` where it takes `dropout`, or the other way about.

    Why: By position, what stands in the wrong place is taken for something else without an error.
    Mend: Compare with the attention's signature, or pass them by name.
    """

    def __init__(self, d_model, num_heads, context_length, qkv_bias=False, dropout=0.0):
        super().__init__(d_model, num_heads, context_length, dropout, bool(qkv_bias))


class ContextFixed(Mistake):
    """The attention is made for a fixed number of tokens, whatever `context_length` says.

    Why: Longer texts than were asked for are accepted, or shorter ones refused.
    Mend: Hand the constructor's argument on.
    """

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, 1024, dropout, qkv_bias)


# ---------------------------------------------------------------- dropout


class AttentionNotDropped(Mistake):
    """What attention adds is not dropped: only its weights are.

    Why: The block keeps a `dropout` of its own for that, and the published numbers have it.
    Mend: The network ends in a dropout. What of attention goes through the block's?
    """

    def attended_dropped(self, found):
        return found


class AttentionDroppedTwice(Mistake):
    """What attention adds goes through the block's dropout twice.

    Why: Together more is dropped than was asked for, and what is left is scaled up twice.
    Mend: Once a branch, right before the `+`.
    """

    def attended_dropped(self, found):
        return super().attended_dropped(super().attended_dropped(found))


class NetworkDroppedTwice(Mistake):
    """What the network adds is dropped twice: at its own end, and by the block.

    Why: Together more is dropped than was asked for; the published numbers come from once.
    Mend: The network ends in a dropout already.
    """

    def thought_dropped(self, out):
        return self.dropout(out)


class NetworkNotDropped(Mistake):
    """What the network adds is not dropped: it was made without the block's `dropout`.

    Why: Its own last dropout then has the probability 0.
    Mend: Which arguments does the network get in the constructor?
    """

    def network_rate(self, dropout):
        return 0.0


class WeightsNotDropped(Mistake):
    """The attention weights are not dropped: the attention was made without `dropout`.

    Why: The attention then has the probability 0, and the published numbers another.
    Mend: Which arguments does the attention get in the constructor?
    """

    def weights_rate(self, dropout):
        return 0.0


class StreamDropped(Mistake):
    """The stream itself was dropped, in a sum or as it came in: what a token was is lost in some
    channels.

    Why: What is dropped from the stream is gone for all blocks after it.
    Mend: Which calls of dropout act on more than what a branch adds?
    """

    def attended_dropped(self, found):
        return found

    def joined(self, x, branch):
        return self.dropout(super().joined(x, branch))


class ReadDropped(Mistake):
    """Dropout acts on what the branches read, not on what they add.

    Why: The published numbers, and every model built like this one, drop what is added.
    Mend: Right before the `+`, once a branch.
    """

    def attended(self, normed, pad_mask):
        return super().attended(self.dropout(normed), pad_mask)

    def attended_dropped(self, found):
        return found


class _DroppedInside(Network):
    def bent(self, wide):
        return self.dropout(super().bent(wide))

    def dropped(self, out):
        return out


class DroppedInTheMiddle(_WrongNetwork):
    """Dropout acts in the wide middle of the network, not at its end.

    Why: Both are in use, but the numbers of this model come from dropping what is added.
    Mend: The dropout comes last, after `contract`.
    """

    network = _DroppedInside


class InEvaluation(Mistake):
    """Dropout is active in evaluation mode too: two calls give two results.

    Why: `F.dropout` doesn't know the module's mode unless it is told.
    Mend: An `nn.Dropout` made in the constructor follows `.train()` and `.eval()` by itself.
    """

    @classmethod
    def id(cls):
        return "dropout_in_evaluation"

    def attended_dropped(self, found):
        return nn.functional.dropout(found, self.dropout.p)


class LastTokenOnly(Mistake):
    """You return the last token only, and not all T of them.

    Why: The next block needs all of them.
    Mend: Return all T rows.
    """

    def finished(self, x, middle, branch):
        return super().finished(x, middle, branch)[:, -1]
