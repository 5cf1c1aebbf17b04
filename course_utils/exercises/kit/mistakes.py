"""What goes wrong in attention, written once: one idea, one id, one set of sentences.

Put on the right answers of `steps.py` with `.on(…)` in every lesson where it can happen. Sentences
speak of no lesson and no variable of one; a lesson may replace one with `.on(right, mend="…")`.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from ...checking import Mistake
from .steps import INF, Weighing

# ---------------------------------------------------------------- the mask of the future


class NoMask(Mistake):
    """The future is not hidden: every token also sees the tokens after it.

    Why: A model that predicts the next token must not see it: it would learn to copy.
    Mend: Where does the mask of the future come in, and is its result used?
    """

    def future(self, T, device=None):
        return super().future(T, device) & False


class SeesNextToken(Mistake):
    """Each token also sees the one after it: the mask begins one column too late.

    Why: That one token is exactly the one a language model has to predict.
    Mend: For row 0, which columns are hidden? Compare with the diagonal your mask begins at.
    """

    first_diagonal = 2


class BlindToItself(Mistake):
    """No token sees itself: the diagonal is hidden too, and token 0 sees nothing.

    Why: The softmax of nothing but -inf is 0/0, and one NaN spreads through the whole model.
    Mend: Which is the first diagonal that belongs to the future?
    """

    first_diagonal = 0


class PastHidden(Mistake):
    """The past is hidden in place of the future: every token sees itself and what comes after it.

    Why: When text is generated there is no future yet, so there would be nothing to look at.
    Mend: `tril` is the lower triangle, `triu` the upper. Which one is the future?
    """

    def future(self, T, device=None):
        return super().future(T, device).mT


class MaskInverted(Mistake):
    """The mask is the wrong way round: what should be seen is hidden, and only that.

    Why: In this course `True` means hidden. A lower triangle of ones marks what may be *seen*.
    Mend: Turn the mask round, or build the other triangle.
    """

    def hide(self, scores, hidden):
        return super().hide(scores, ~hidden)


# ---------------------------------------------------------------- from scores to weights


class MaskAfterSoftmax(Mistake):
    """The mask was applied after the softmax: hidden weights are 0, but rows don't sum to 1.

    Why: The hidden scores took their share before they were removed, so the result shrinks.
    Mend: Hidden scores should lose *in* the softmax. Which score gives a weight of 0 there?
    """

    def weights(self, scores, hidden):
        return self.softmax(scores).masked_fill(hidden, 0.0)


class RenormalisedAfterSoftmax(Mistake):
    """You masked after the softmax and divided by the new sums: that is 0/0 where a row sees
    nothing, or where a big hidden score has pressed all visible weights to 0.

    Why: A hidden score should have no influence at all, however big it is.
    Mend: Hide the scores before the softmax: which score takes no share there?
    """

    def weights(self, scores, hidden):
        weights = self.softmax(scores).masked_fill(hidden, 0.0)
        return weights / weights.sum(dim=-1, keepdim=True)


class ZeroFill(Mistake):
    """Hidden scores were set to 0, and e⁰ = 1 is a weight like any other.

    Why: 0 is an ordinary score, and often bigger than the visible ones: what is hidden leaks.
    Mend: Which score has an exponential of 0?
    """

    fill = 0.0


class FillNotLowEnough(Mistake):
    """Hidden scores were set to a negative number in place of -inf. Where visible scores are lower
    still, the hidden ones win.

    Why: The mask works in tests and fails, without an error, in the model that needs it.
    Mend: There is one value that no score is below.
    """

    fill = -1e4


class PlusInfinity(Mistake):
    """You filled with +inf: inf − inf is NaN inside the softmax.

    Why: A hidden score should lose against every other, not win.
    Mend: Mind the sign.
    """

    fill = INF


class OverQueries(Mistake):
    """The softmax runs over the queries: columns sum to 1, not rows.

    Why: Each query should spread one unit of attention over its keys.
    Mend: In `(…, T, S)` the keys are the last dimension.
    """

    axis = -2


class MaskIgnored(Mistake):
    """The mask has no effect: this is the plain softmax.

    Why: All that should be hidden is seen. Tensor methods return a new tensor: a line with
        `scores.masked_fill(…)` alone changes nothing.
    Mend: Is the result of the masking used afterwards?
    """

    def hide(self, scores, hidden):
        return scores


class InfinityTimesZero(Mistake):
    """You multiplied the mask by -inf: where the mask is 0 that gives 0 · inf, which is NaN.

    Why: One NaN in a row makes the whole row NaN.
    Mend: Choose between two values instead of multiplying: `masked_fill` or `torch.where`.
    """

    def hide(self, scores, hidden):
        return scores + hidden.to(scores.dtype) * -INF


class SubtractsBigNumber(Mistake):
    """You subtracted a big number from the hidden scores, so what they hold still counts.

    Why: A hidden score that is bigger still, or visible ones that are lower, and the mask fails.
    Mend: What a hidden score holds should not matter at all: put something else in its place.
    """

    def hide(self, scores, hidden):
        return scores - hidden.to(scores.dtype) * 1e9


class ZeroTakenForHidden(Mistake):
    """Hidden scores were set to 0 and every 0 to -inf: scores that *are* 0 were hidden too.

    Why: 0 is an ordinary score, and a mask that is read off the numbers can't know better.
    Mend: Ask `hidden` which scores to replace, not the scores.
    """

    def hide(self, scores, hidden):
        shown = scores * ~hidden
        return shown.masked_fill(shown == 0, -INF)


class SoftmaxTwice(Mistake):
    """The softmax was taken twice: of the scores, and of the weights again.

    Why: Weights lie between 0 and 1, so their softmax is nearly flat, and hidden keys are back.
    Mend: One softmax, of the scores with the hidden ones at -inf.
    """

    def softmax(self, scores):
        return super().softmax(super().softmax(scores))


class ScoresIgnored(Mistake):
    """All visible keys got equal weights: the scores had no say.

    Why: That is the mean again; attention begins where the scores differ.
    Mend: Fill the mask into `scores`, not into zeros.
    """

    def hide(self, scores, hidden):
        return super().hide(torch.zeros_like(scores), hidden)


class Overflows(Mistake):
    """The formula is right on paper, but `exp` of a big score is infinite, and of scores far below
    zero it is 0: inf / inf and 0 / 0 are NaN.

    Why: Already at 89, in float64 at 710, `exp` overflows, and real scores do get that big.
    Mend: Adding the same number to all scores changes nothing. Which number makes the biggest
        score harmless?
    """

    def shifted(self, scores, dim):
        return scores

    def softmax(self, scores):
        exps = scores.exp()
        return exps / exps.sum(self.axis, keepdim=True)


class ClampsScores(Mistake):
    """You clamped the scores, so those beyond the limit became equal.

    Why: Two big scores that differ should get different weights.
    Mend: Shift all scores by the same amount instead of cutting them off.
    """

    def shifted(self, scores, dim):
        return scores.clamp(-80, 80)


# ---------------------------------------------------------------- rows that see nothing


class NanRows(Mistake):
    """A row that sees nothing is NaN: the softmax of nothing but -inf is 0/0.

    Why: NaN times anything is NaN, so one such row spreads through the model and its gradients.
    Mend: Find the rows that see nothing. What could stand in them so that the softmax is fine?
    """

    def weights(self, scores, hidden):
        return Weighing.weights(self, scores, hidden)


class NanInGradient(Mistake):
    """The result is right: the NaN was cleaned away, by `nan_to_num`, `torch.where` or
    `masked_fill`. But it was there, and it comes back in the gradients.

    Why: After one training step the weights are NaN, and the loss gave no warning.
    Mend: Don't let the NaN arise: give empty rows harmless scores before the softmax.
    """

    def weights(self, scores, hidden):
        bias = torch.zeros_like(scores).masked_fill(hidden, -INF)
        return self.softmax(scores + bias).nan_to_num()


class UniformOnHidden(Mistake):
    """A row that sees nothing gets equal weights on all that it should not see, as the softmax
    gives them for equal scores, such as -1e9 everywhere.

    Why: Nothing warns you, and what is hidden leaks into the result.
    Mend: Which weights should a row have that sees nothing?
    """

    def weights(self, scores, hidden):
        return self.softmax(scores.masked_fill(hidden, -1e9))


class MaskDroppedWhenEmpty(Mistake):
    """Where a row sees nothing the mask was dropped, and it sees everything.

    Why: The mask is ignored exactly where it hides everything.
    Mend: The weights of such a row should all be 0.
    """

    def weights(self, scores, hidden):
        empty = hidden.expand_as(scores).all(dim=-1, keepdim=True)
        return self.softmax(self.hide(scores, hidden & ~empty))


# ---------------------------------------------------------------- the scale


class NotScaled(Mistake):
    """The scores are not scaled.

    Why: Their spread grows with the width of queries and keys, and the softmax saturates.
    Mend: Which number, made from the width D, brings the variance back to 1?
    """

    def scale(self, query, key):
        return 1.0


class Multiplied(Mistake):
    """You multiplied by √D where you should divide.

    Why: The scores spread even more, and the softmax saturates at once.
    Mend: Dot products of long vectors are too big already. Should the scale shrink or grow them?
    """

    def scale(self, query, key):
        return 1 / super().scale(query, key)


class RootMissing(Mistake):
    """The scores were divided by the width D itself: the root is missing, or √D divides twice.

    Why: The spread of a dot product grows with √D; divided by D, the weights become nearly equal.
    Mend: By how much does the *standard deviation* of a dot product grow with D? And is there a
        second scale, inside a function that you call?
    """

    def scale(self, query, key):
        return query.shape[-1]


class ScaledByTokens(Mistake):
    """You divided by the root of the number of tokens.

    Why: The same two vectors would score less in a longer text, for no reason.
    Mend: Which dimension does the dot product add up over?
    """

    def scale(self, query, key):
        return math.sqrt(key.shape[-2])


class ScaledByInputWidth(Mistake):
    """You divided by √d_in, the width of the tokens that come in.

    Why: A dot product adds up over the width of queries and keys; only that width makes it grow.
    Mend: How wide are the vectors in *that* dot product?
    """

    def scale(self, query, key):
        return math.sqrt(self.d_in)


class ScaledByContext(Mistake):
    """You divided by the root of context_length.

    Why: How many tokens *could* come has nothing to do with how big a dot product gets.
    Mend: How wide are the vectors in the dot product?
    """

    def scale(self, query, key):
        return math.sqrt(self.context_length)


# ---------------------------------------------------------------- queries, keys, values


class QueryAndKeySwapped(Mistake):
    """Queries and keys are swapped: row t holds how others score token t.

    Why: Each token would be mixed by what others look for, not by what it looks for itself.
    Mend: The queries are the rows of the scores: they stand on the left of the product.
    """

    def compared(self, query, key):
        return super().compared(key, query)


class KeysFromQueries(Mistake):
    """The keys were made with the `query` projection; `key` has no effect.

    Why: Tokens that look for the same thing then attend to each other, and `key` never learns.
    Mend: Read the three projection lines aloud: one name comes twice.
    """

    def projected(self, x):
        query, _, value = super().projected(x)
        return query, query, value


class ValuesFromKeys(Mistake):
    """What is collected are the keys; the `value` projection has no effect.

    Why: What a token is found by and what it hands over could no longer differ.
    Mend: Q looks for K and collects …?
    """

    def projected(self, x):
        query, key, _ = super().projected(x)
        return query, key, key


# ---------------------------------------------------------------- padding


class PadMaskIgnored(Mistake):
    """`pad_mask` has no effect: the padding is heard like any other token.

    Why: A sequence can then change with the batch it is in.
    Mend: Where does `pad_mask` meet the mask of the future?
    """

    def with_padding(self, future, pad_mask):
        return future


class RowsHidden(Mistake):
    """The *rows* of padded tokens were hidden instead of their columns.

    Why: Padding that no other mask hides is still seen, and the padded queries see nothing.
    Mend: A row is a token that looks, a column one that is looked at. Which should padding not be?
    """

    def columns(self, pad_mask):
        return super().columns(pad_mask).mT


class RowsAndColumnsHidden(Mistake):
    """The rows of padded tokens were hidden as well as their columns.

    Why: A padded query is computed like any other; whoever uses the result leaves it out.
    Mend: Only columns have to go.
    """

    def columns(self, pad_mask):
        return super().columns(pad_mask) | super().columns(pad_mask).mT


class PaddingInverted(Mistake):
    """The padding mask is the wrong way round: the text is hidden, and the padding is seen.

    Why: In this course `True` means hidden, in every mask.
    Mend: `True` in `pad_mask` is padding, to be hidden. Only a built-in that asks who takes part
        wants it turned round, with `~`.
    """

    def columns(self, pad_mask):
        return ~super().columns(pad_mask)


class PaddingOnly(Mistake):
    """With a `pad_mask`, the future is no longer hidden.

    Why: Training batches are nearly always padded, so the model would always see the answer.
    Mend: Both masks hold at once: hidden is the future *or* padding.
    """

    def with_padding(self, future, pad_mask):
        return (future & False) | self.columns(pad_mask)


class BothNeeded(Mistake):
    """Only what is future *and* padding is hidden.

    Why: Real tokens of the future stay visible, and so does padding in the past.
    Mend: One reason is enough to hide a key.
    """

    def with_padding(self, future, pad_mask):
        return future & self.columns(pad_mask)


class FirstSequencesMask(Mistake):
    """Every sequence got the padding mask of sequence 0.

    Why: Sequences of a batch have different lengths; that is why there is a mask.
    Mend: Each sequence has its own row of `pad_mask`. Where is the first row taken for all?
    """

    def columns(self, pad_mask):
        return super().columns(pad_mask[:1].expand_as(pad_mask))


class DiagonalKept(Mistake):
    """Padding is allowed to see itself.

    Why: It avoids rows that see nothing, but what stands in the padding comes out at the other end.
    Mend: Let such rows be empty: a safe softmax gives them weights of 0.
    """

    def with_padding(self, future, pad_mask):
        own = torch.eye(len(future), dtype=torch.bool, device=future.device)
        return super().with_padding(future, pad_mask) & ~own


class PaddedRowsCleared(Mistake):
    """The results of padded queries are 0: their rows were hidden as well, or cleared afterwards.

    Why: A padded query may see real tokens, and is computed like any other; whoever uses the
        result leaves those rows out.
    Mend: Only columns of the scores have to go. Leave the rows of the result as they come out.
    """

    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        return out if pad_mask is None else out.masked_fill(pad_mask[..., None], 0.0)


class TokensCleared(Mistake):
    """Padded tokens were set to 0 in `x`; they are not hidden.

    Why: A token of zeros still has a key and a score, and takes its share of the weights.
    Mend: Hide their scores instead.
    """

    def forward(self, x, pad_mask=None):
        return super().forward(x if pad_mask is None else x * ~pad_mask[..., None])


class MaskRequired(Mistake):
    """`forward` can't be called without a `pad_mask`.

    Why: Most of the time there is no padding, as when text is generated.
    Mend: Give it the default None, and treat None as "nothing is padding".
    """

    def forward(self, x, pad_mask):
        return super().forward(x, pad_mask)


# ---------------------------------------------------------------- dropout


class DropoutOnScores(Mistake):
    """Dropout was applied to the scores, before the softmax.

    Why: A score of 0 is not "ignored": its key keeps a weight, and the others change as well.
    Mend: Drop *weights*: which tensor holds them, and from which line on?
    """

    def scores(self, query, key):
        return self.dropout(super().scores(query, key))

    def dropped(self, weights):
        return weights


class DropoutOnValues(Mistake):
    """Dropout was applied to the values: single channels of a token are missing for everybody.

    Why: Here it should make a token do without some of the others, so it belongs on the weights.
    Mend: Move it to between the softmax and the last product.
    """

    def dropped(self, weights):
        return weights

    def collected(self, weights, value):
        return super().collected(weights, self.dropout(value))


class DropoutOnResult(Mistake):
    """Dropout was applied to the result: single channels of a token become 0.

    Why: Here it should make a token do without some of the others, so it belongs on the weights.
    Mend: Move it up, to between the softmax and the last product.
    """

    def dropped(self, weights):
        return weights

    def result(self, context, pad_mask):
        return self.dropout(super().result(context, pad_mask))


class DropoutTwice(Mistake):
    """Dropout acts on the weights and once more on the result.

    Why: Together more is dropped than was asked for.
    Mend: Here dropout belongs to the weights and nowhere else.
    """

    def result(self, context, pad_mask):
        return self.dropout(super().result(context, pad_mask))


class NoDropout(Mistake):
    """Dropout has no effect in training.

    Why: Whoever asks for dropout=0.5 expects half of the weights to be dropped.
    Mend: Make an `nn.Dropout(dropout)` in the constructor and send the weights through it.
    """

    def dropped(self, weights):
        return weights


class DropoutInEvaluation(Mistake):
    """Dropout is active in evaluation mode too: two calls give two results.

    Why: `F.dropout` doesn't know the module's mode unless it is told.
    Mend: An `nn.Dropout` made in the constructor follows `.train()` and `.eval()` by itself.
    """

    def dropped(self, weights):
        return nn.functional.dropout(weights, self.dropout.p)


class DropoutFixed(Mistake):
    """The probability of dropout is written into the code, whatever `dropout` says.

    Why: Whoever asks for another share gets this one all the same, and a test at this very number
        doesn't show it.
    Mend: Pass the constructor's argument on to `nn.Dropout`.
    """

    def rate(self, dropout):
        return 0.1


# ---------------------------------------------------------------- biases, buffers, lengths


class BiasAlways(Mistake):
    """The projections have a bias whatever `qkv_bias` says: `nn.Linear` adds one by default.

    Why: The module has more parameters than its caller asked for, and weights copied in by name
        don't cover them.
    Mend: `nn.Linear` has an argument for it.
    """

    def biased(self, name, qkv_bias):
        return True


class BiasNever(Mistake):
    """With `qkv_bias=True` the projections still have no bias.

    Why: Weights of a model that has them (GPT-2, for one) would not fit in.
    Mend: Pass `qkv_bias` on to each `nn.Linear`.
    """

    def biased(self, name, qkv_bias):
        return False


class MaskIsLearned(Mistake):
    """The mask is an `nn.Parameter`, so an optimizer would train it.

    Why: What is hidden is decided once and for all; it is no number to learn.
    Mend: `register_buffer` is for tensors that belong to a module and are not learned.
    """

    def keep_mask(self, context_length):
        self.mask = nn.Parameter(torch.ones(context_length, context_length).triu(1))

    def future(self, T, device=None):
        return self.mask[:T, :T] > 0


class MaskStaysBehind(Mistake):
    """The mask stays on the CPU: it sits in a plain attribute, which `.to(device)` does not move,
    or is made in `forward` without a device.

    Why: On a GPU the scores and their mask would meet on two devices, and that is an error.
    Mend: `register_buffer` makes a tensor travel with its module; what `forward` makes should be
        made on the device of `x`.
    """

    def keep_mask(self, context_length):
        self.mask = torch.ones(context_length, context_length).triu(1).bool()

    def future(self, T, device=None):
        return self.mask[:T, :T]


class MaskNotCut(Mistake):
    """The mask always has context_length rows and columns, however short the text is.

    Why: Most texts are shorter than the limit.
    Mend: How many rows and columns of the mask belong to T tokens?
    """

    def future(self, T, device=None):
        return super().future(self.context_length, device)


class MaskOfFixedSize(Mistake):
    """The mask has a fixed size instead of context_length rows and columns.

    Why: The next head is made for longer texts.
    Mend: The constructor knows how long texts can get.
    """

    def future(self, T, device=None):
        return super().future(6, device)[:T, :T]


class LongTextAccepted(Mistake):
    """A text longer than context_length was accepted without a word.

    Why: Whoever made the module relied on that limit, and finds out much later that it was passed.
    Mend: Compare T with context_length at the start of `forward`, and raise a ValueError with both
        numbers.
    """

    def accepted(self, x):
        return x


class LongTextCut(Mistake):
    """A text that is too long was cut off without a word.

    Why: The caller gets fewer tokens back than they gave, and the rest of the text is lost.
    Mend: Refuse it: raise a ValueError with both numbers.
    """

    def accepted(self, x):
        return x[:, : self.context_length]


class FullLengthRefused(Mistake):
    """A text that is exactly as long as the limit was refused.

    Why: The limit is the most tokens that fit, so that many must still be welcome.
    Mend: Which of `>` and `>=` says "more than"?
    """

    def too_many(self, number, limit):
        return number >= limit


class ChecksTheBatch(Mistake):
    """You compared context_length with the number of sequences, not of tokens.

    Why: A big batch of short texts is refused, and a text that is too long gets through.
    Mend: `x.shape` is `(B, T, d_in)`. Which of the three is the length?
    """

    def accepted(self, x):
        if self.too_many(x.shape[0], self.context_length):
            self.complain(x.shape[0], self.context_length)
        return x


class RefusedWithoutNumbers(Mistake):
    """What makes no sense is refused, but the message doesn't hold all the numbers that
    say why.

    Why: Whoever meets the error has to find out by themselves what is wrong, and what would fit.
    Mend: Put the number and the limit, or both shapes, into the message, with an f-string.
    """

    def complain(self, *numbers):
        raise ValueError("this makes no sense")


class RefusedOtherwise(Mistake):
    """What makes no sense is stopped by an error that is no ValueError.

    Why: Whoever calls catches ValueErrors; an `assert`, if it is one, is even left out with `-O`.
    Mend: `raise ValueError(…)`, with the numbers in its message.
    """

    kind = AssertionError

    def complain(self, *numbers):
        raise self.kind(" and ".join(map(str, numbers)))


# ---------------------------------------------------------------- what is returned


class WeightsReturned(Mistake):
    """You return the weights; nothing has been collected with them yet.

    Why: Weights say where to look. The result is what is found there.
    Mend: One product is missing: weights times …?
    """

    def collected(self, weights, value):
        return weights


class PairReturned(Mistake):
    """You return a pair, such as the result and the weights; one tensor was asked for.

    Why: The next layer expects one tensor, with a row for each token.
    Mend: Return the result alone.
    """

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        return out, out


class LastTokenOnly(Mistake):
    """You return the last token only, and not all T of them.

    Why: In training every position predicts its next token, so every position is needed.
    Mend: Return all T rows.
    """

    def collected(self, weights, value):
        return super().collected(weights, value)[..., -1, :]


class ChangesItsInput(Mistake):
    """The result is right, but it was written into the input itself.

    Why: Whoever called still holds that tensor, and it now holds something else.
    Mend: Build a new tensor: no operation that ends in an underscore, and no assignment into a
        slice of the input.
    """

    def __call__(self, *args, **named):
        given = [*args, *named.values()][0]
        copy = given.detach().clone()
        args = [copy if a is given else a for a in args]
        named = {n: copy if a is given else a for n, a in named.items()}
        return given.copy_(super().__call__(*args, **named))


class Float32Result(Mistake):
    """The result is float32 whatever comes in.

    Why: Whoever computes in float64 loses half of the digits here without a word.
    Mend: Tensor operations keep the dtype by themselves; tensors you make can be made *like* `x`.
    """

    def __call__(self, *args, **named):
        return super().__call__(*args, **named).float()


class CutOff(Mistake):
    """The values are right, but the result is cut off from its input: `.detach()`, `.item()`,
    `.tolist()`, `torch.tensor(…)` or `torch.no_grad()` stands in between.

    Why: No gradient can flow back over the cut, so nothing before it could ever learn.
    Mend: Keep ordinary tensor operations all the way.
    """

    def __call__(self, *args, **named):
        return super().__call__(*args, **named).detach()
