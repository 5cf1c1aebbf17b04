"""What goes wrong in a module that attends, beside its scores and masks: projections, padding,
where dropout acts.

As in `mistakes.py`: one idea, one id, one set of sentences.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ...checking import Mistake

# ---------------------------------------------------------------- scores and weights


class Cosine(Mistake):
    """Queries and keys were brought to length 1, so the scores lie between -1 and 1.

    Why: A long key can then no longer call louder than a short one, and the softmax never gets far
        from equal weights.
    Mend: One factor for all scores is enough, and it depends on the width alone.
    """

    def scores(self, query, key):
        return self.compared(F.normalize(query, dim=-1), F.normalize(key, dim=-1))


class ScaledByConstant(Mistake):
    """You divided by a number that is always the same, whatever the width is.

    Why: It fits one width; heads of real models are 64 or 128 wide.
    Mend: The last size of `query.shape` is the width of whatever comes in.
    """

    def scale(self, query, key):
        return math.sqrt(3)


class ScaledAfterSoftmax(Mistake):
    """You divided the weights, after the softmax, not the scores before it.

    Why: The rows no longer sum to 1, and the softmax is as saturated as without a scale.
    Mend: The scale belongs between the product of queries and keys and the softmax.
    """

    def scale(self, query, key):
        self.divisor = super().scale(query, key)
        return 1.0

    def dropped(self, weights):
        return super().dropped(weights) / self.divisor


class ScaledByRoundedRoot(Mistake):
    """The root of the width was cut off to a whole number.

    Why: √5 is not 2: the scores are a little too big, for most widths.
    Mend: `math.isqrt` and `//` cut off; `math.sqrt` or `** 0.5` don't.
    """

    def scale(self, query, key):
        return math.isqrt(query.shape[-1])


class NoSoftmax(Mistake):
    """There is no softmax: the scores themselves were used as weights.

    Why: Scores may be negative, and a row of them sums to anything.
    Mend: Which function makes positive weights that sum to 1 of any scores?
    """

    def weights(self, scores, hidden):
        return scores.masked_fill(hidden, 0.0)


class OverSequences(Mistake):
    """The softmax runs over the sequences of the batch.

    Why: Texts that happen to lie in one batch then share their attention.
    Mend: In `(…, T, S)` the keys are the last dimension.
    """

    axis = 0


class WeightsTransposed(Mistake):
    """The weights were transposed before the product: a value goes to those who are looked at.

    Why: The first token then collects from all tokens after it.
    Mend: Row t of the weights belongs to token t of the result: leave them as they are.
    """

    def collected(self, weights, value):
        return super().collected(weights.mT, value)


# ---------------------------------------------------------------- queries, keys, values


class TokensAsValues(Mistake):
    """The weights mix the tokens themselves, not their values.

    Why: The `value` projection never comes into play and never learns.
    Mend: Q looks for K and collects …?
    """

    def projected(self, x):
        query, key, _ = super().projected(x)
        return query, key, x


class QueriesFromKeys(Mistake):
    """Queries and keys were made with one projection, `key`; `query` has no effect.

    Why: What a token looks for and what it offers could no longer differ.
    Mend: Read aloud the lines that make the three layers, and those that call them: one name comes
        twice.
    """

    def projected(self, x):
        _, key, value = super().projected(x)
        return key, key, value


class ValuesFromQueries(Mistake):
    """What is collected are the queries; the `value` projection has no effect.

    Why: A token would hand over what it looks for, and `value` never learns.
    Mend: Q looks for K and collects …?
    """

    def projected(self, x):
        query, key, _ = super().projected(x)
        return query, key, query


class OneProjectionForAll(Mistake):
    """Queries, keys and values all came from one projection.

    Why: Each token then looks for itself: the roles could no longer differ.
    Mend: Three layers were made. Is each of them called?
    """

    def projected(self, x):
        query, _, _ = super().projected(x)
        return query, query, query


class KeysAndValuesSwapped(Mistake):
    """Keys and values are swapped.

    Why: Tokens are found by what they hand over, and hand over what they are found by.
    Mend: Queries meet keys; the weights meet values.
    """

    def projected(self, x):
        query, key, value = super().projected(x)
        return query, value, key


class WeightUsedUntransposed(Mistake):
    """A weight was used as `x @ weight`, and `nn.Linear` keeps it as `(d_out, d_in)`.

    Why: Where both widths are equal it is wrong without an error.
    Mend: Call the layer: `self.query(x)`.
    """

    def project(self, layer, x):
        return x @ layer.weight


class BiasUnused(Mistake):
    """The projections have biases when asked to, but these are never added.

    Why: The biases of a trained model would have no effect, without an error.
    Mend: Call the layer, `self.query(x)`; its weight alone is only half of it.
    """

    def project(self, layer, x):
        return x @ layer.weight.mT


class BiasOnSome(Mistake):
    """With `qkv_bias=True` only some of the projections have a bias.

    Why: Weights of a model that has all three would not fit in.
    Mend: Pass `qkv_bias` on to each `nn.Linear`.
    """

    with_bias = ("query",)

    def biased(self, name, qkv_bias):
        return qkv_bias and name in self.with_bias


# ---------------------------------------------------------------- padding


class PaddingAfterSoftmax(Mistake):
    """Padding kept its share of each row: it was hidden after the softmax, or only its values were
    cleared.

    Why: The weights of real tokens no longer sum to 1, so a token fades the more padding there is.
    Mend: Join both masks first, and hide once, before the softmax.
    """

    padding = None

    def with_padding(self, future, pad_mask):
        self.padding = self.columns(pad_mask)
        return future

    def dropped(self, weights):
        padding, self.padding = self.padding, None
        weights = super().dropped(weights)
        return weights if padding is None else weights.masked_fill(padding, 0.0)


class PaddingKept(Mistake):
    """The padding of an earlier call was used in a later one.

    Why: Each batch has its own padding, and a call without a `pad_mask` has none.
    Mend: Don't keep `pad_mask` in the module: pass it on as an argument.
    """

    kept = None

    def forward(self, x, pad_mask=None):
        if pad_mask is not None:
            self.kept = pad_mask
        elif self.kept is not None and self.kept.shape == x.shape[:2]:
            pad_mask = self.kept
        return super().forward(x, pad_mask)


class AnySequencesPadding(Mistake):
    """A key that is padding in *one* sequence was hidden in all of them.

    Why: Sequences of a batch have different lengths; that is why there is a mask.
    Mend: `pad_mask` is `(B, S)`: no `any` or `all` over the batch is needed.
    """

    def columns(self, pad_mask):
        return super().columns(pad_mask.any(0, keepdim=True).expand_as(pad_mask))


class PaddingInTrainingOnly(Mistake):
    """`pad_mask` takes effect in one mode only, in training or in evaluation.

    Why: A model that is trained on other sums than it is used with learns for nothing.
    Mend: Only dropout depends on the mode.
    """

    mode = True

    def with_padding(self, future, pad_mask):
        return super().with_padding(
            future, pad_mask if self.training == self.mode else pad_mask & False
        )


class FutureInTrainingOnly(Mistake):
    """The future is hidden in one mode only, in training or in evaluation.

    Why: The model would use in one mode what it never sees in the other.
    Mend: Only dropout depends on the mode.
    """

    mode = True

    def future(self, T, device=None):
        hidden = super().future(T, device)
        return hidden if self.training == self.mode else hidden & False


# ---------------------------------------------------------------- dropout


class DropoutKeepsShare(Mistake):
    """`dropout` was taken for the share that is kept; `nn.Dropout` takes the share that is dropped.

    Why: With dropout=0.1 nine of ten weights would be dropped.
    Mend: Pass the constructor's argument on as it is.
    """

    def rate(self, dropout):
        return 1 - dropout if dropout else dropout


class DropoutTwiceOnWeights(Mistake):
    """The weights go through dropout twice.

    Why: Together more is dropped than was asked for, and what is left is scaled up twice.
    Mend: One line with `self.dropout` is enough: look for the second.
    """

    def dropped(self, weights):
        return super().dropped(super().dropped(weights))


class DropoutRenormalised(Mistake):
    """After dropout the weights were divided by their new sum, or the masked scores went through
    dropout: 0 / 0 and 0 · inf are NaN.

    Why: Dropout scales what is left by 1/(1 - p), so that the sum is 1 on average; a row that sees
        nothing, or loses all, has the sum 0.
    Mend: Send the weights through dropout, after the softmax, and leave them as they come out.
    """

    def dropped(self, weights):
        weights = super().dropped(weights)
        return weights / weights.sum(-1, keepdim=True)


class DropoutNotScaledUp(Mistake):
    """What dropout leaves is not scaled up by 1/(1 - p).

    Why: In training each token gets less than in evaluation, where nothing is dropped.
    Mend: `nn.Dropout` does both, the dropping and the scaling.
    """

    def dropped(self, weights):
        return super().dropped(weights) * (1 - self.dropout.p if self.training else 1.0)


class DropoutOnRows(Mistake):
    """Dropout drops all weights of a query together.

    Why: A token then collects nothing at all, where it should do without some of the others.
    Mend: Send the weights themselves through `nn.Dropout`; it draws for each of them.
    """

    def dropped(self, weights):
        return weights * super().dropped(torch.ones_like(weights[..., :1]))


class DropoutOnKeys(Mistake):
    """Dropout drops a key for all queries together.

    Why: Each query should do without other tokens.
    Mend: Send the weights themselves through `nn.Dropout`; it draws for each of them.
    """

    def dropped(self, weights):
        return weights * super().dropped(torch.ones_like(weights[..., :1, :]))


class DropoutSharedByBatch(Mistake):
    """One draw of dropout serves for all sequences of a batch.

    Why: Sequences should do without different tokens, else a batch teaches less.
    Mend: Send the weights themselves through `nn.Dropout`; it draws for each of them.
    """

    def dropped(self, weights):
        return weights * super().dropped(torch.ones_like(weights[:1]))


class DropoutOnQueries(Mistake):
    """Dropout was applied to queries or keys.

    Why: All scores of a token change, and no weight becomes 0.
    Mend: Drop *weights*: which tensor holds them, and from which line on?
    """

    def compared(self, query, key):
        return super().compared(self.dropout(query), key)

    def dropped(self, weights):
        return weights


class DropoutOnTokens(Mistake):
    """Dropout was applied to the tokens that come in.

    Why: Queries, keys and values all change, and no weight becomes 0.
    Mend: Drop *weights*: which tensor holds them, and from which line on?
    """

    def projected(self, x):
        return super().projected(self.dropout(x))

    def dropped(self, weights):
        return weights


class DropoutWithoutPaddingOnly(Mistake):
    """Where a `pad_mask` comes in, no weight is dropped.

    Why: Training batches are nearly always padded, so dropout would hardly ever act.
    Mend: Are there two ways through `forward`? Both need the dropout, or better, only one way.
    """

    padding = None

    def hidden(self, T, device, pad_mask=None):
        self.padding = pad_mask
        return super().hidden(T, device, pad_mask)

    def dropped(self, weights):
        padding, self.padding = self.padding, None
        return super().dropped(weights) if padding is None else weights
