"""Lesson 04: one head, with weights from queries and keys."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..attention import (
    CausalSelfAttention,
    MatrixSelfAttention,
    SelfAttention,
    attention_scores,
    copy_linear_to_matrix,
)
from ..checking.exercise import Behaviour, Case, Exercise, Misconception, Observation
from ..checking.modules import COPY_BEHAVIOURS, CopyProbe, ModuleProbe, expect_module
from ..checking.probing import FunctionProbe, expect_function
from .drawing import Draw
from .single_head import (
    BUILT_IN,
    HEAD_BEHAVIOURS,
    INF,
    THREE_TOKENS,
    Head,
    head_cases,
    head_oracle,
    near,
    see_head,
)

LESSON = "2-single-head/04_single_head"


# ---------------------------------------------------------------- attention_scores


def _score_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, T, S, D = draw.sizes(4, 2, 8)
    b, t, d = draw.sizes(3, 3, 7)
    wide = draw.integer(60, 90)
    double = torch.float64
    return [
        Case("three tokens by hand", {"query": THREE_TOKENS[None], "key": THREE_TOKENS[None]}),
        Case("random numbers", {"query": draw.normal(B, T, D), "key": draw.normal(B, S, D)}),
        Case(
            "as many keys as queries", {"query": draw.normal(b, t, d), "key": draw.normal(b, t, d)}
        ),
        Case(
            "as many keys as channels", {"query": draw.normal(1, T, d), "key": draw.normal(1, d, d)}
        ),
        Case(
            "float64",
            {
                "query": draw.normal(B, S + 1, T, dtype=double),
                "key": draw.normal(B, D, T, dtype=double),
            },
        ),
        Case("wide vectors", {"query": draw.normal(2, 5, wide), "key": draw.normal(2, 3, wide)}),
        Case("one query", {"query": draw.normal(B, 1, D + 1), "key": draw.normal(B, S, D + 1)}),
        Case("one channel", {"query": draw.normal(3, T, 1), "key": draw.normal(3, S, 1)}),
        Case(
            "not contiguous in memory",
            {"query": draw.normal(T, D, B).permute(2, 0, 1), "key": draw.normal(B, D, S).mT},
        ),
        Case("many tokens", {"query": draw.normal(1, 34, 5), "key": draw.normal(1, 41, 5)}),
    ]


def _score_oracle(query: Tensor, key: Tensor) -> Tensor:
    return torch.einsum("btd,bsd->bts", query, key) * query.shape[-1] ** -0.5


def _unscaled(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


def _pairs(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    """Up to one factor, the dot products: a score belongs to its query and its key."""
    if case.name != "random numbers":
        return None
    out, right = seen.tensors["out"].double(), expected["out"].double()
    if out.shape != right.shape:
        return False
    factor = (out * right).sum() / (right * right).sum()
    return bool(factor > 0) and near(out / factor, right)


def _spread(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if case.name not in ("random numbers", "wide vectors"):
        return None
    ratio = seen.tensors["out"].double().std() / expected["out"].double().std()
    return bool((ratio - 1).abs() < 1e-3)


def _scores_in_place(query, key):
    query /= math.sqrt(query.shape[-1])
    return query @ key.transpose(-2, -1)


def _first_key_only(query, key):
    return (query * key[:, :1]).sum(-1, keepdim=True) / math.sqrt(query.shape[-1])


def _cosine(query, key):
    q = query / query.norm(dim=-1, keepdim=True)
    k = key / key.norm(dim=-1, keepdim=True)
    return q @ k.transpose(-2, -1)


ATTENTION_SCORES = Exercise(
    id="attention_scores",
    lesson=LESSON,
    call="attention_scores(query, key)",
    points=2.0,
    cases=_score_cases,
    probe=FunctionProbe(gradients=("query", "key"), watch=True),
    expect=expect_function(_score_oracle, gradients=("query", "key")),
    reference=attention_scores,
    behaviours=(
        Behaviour(
            "pairs",
            "The score in row t, column s compares query t with key s",
            _pairs,
            credit=True,
            gate=True,
        ),
        Behaviour("spread", "The scores spread as they should", _spread, credit=True),
    ),
    misconceptions=(
        Misconception(
            "not_scaled",
            _unscaled,
            "These are the dot products as they are, without the scale.",
            "Their spread grows with the width D, and the softmax of widely spread scores picks a "
            "single key.",
            "Which number, made from D, brings the variance back to 1?",
        ),
        Misconception(
            "multiplied",
            lambda query, key: _unscaled(query, key) * math.sqrt(query.shape[-1]),
            "You multiplied by √D where you should divide.",
            "The scores spread even more, and the softmax saturates at once.",
            "Dot products of long vectors are too big already. Should the scale shrink or grow "
            "them?",
        ),
        Misconception(
            "divided_by_width",
            lambda query, key: _unscaled(query, key) / query.shape[-1],
            "You divided by D; the root is missing.",
            "The variance of a dot product is D, and its spread is only √D. Divided by D, all "
            "scores shrink towards 0 and the weights become equal.",
            "By how much does the *standard deviation* grow with D?",
        ),
        Misconception(
            "scaled_by_keys",
            lambda query, key: _unscaled(query, key) / math.sqrt(key.shape[1]),
            "You divided by the root of the number of keys.",
            "The same two vectors would score less in a longer text, for no reason.",
            "Which dimension does the dot product add up over?",
        ),
        Misconception(
            "scaled_by_queries",
            lambda query, key: _unscaled(query, key) / math.sqrt(query.shape[1]),
            "You divided by the root of the number of queries.",
            "The same two vectors would score less in a longer text, for no reason.",
            "`query.shape` is `(B, T, D)`. Which of the three is the vectors' width?",
        ),
        Misconception(
            "scaled_by_example",
            lambda query, key: _unscaled(query, key) / math.sqrt(3),
            "You divided by √3, the width of the example, whatever the width is.",
            "Heads of real models are 64 or 128 wide.",
            "The last size of `query.shape` is the width of whatever comes in.",
        ),
        Misconception(
            "queries_and_keys_swapped",
            lambda query, key: key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1]),
            "Rows and columns are swapped: row s, column t holds query t against key s.",
            "The softmax over the last dimension would then make the queries compete, not the "
            "keys.",
            "The queries are the rows of the result, so they stand on the left of `@`.",
        ),
        Misconception(
            "not_transposed",
            lambda query, key: query @ key / math.sqrt(query.shape[-1]),
            "The keys were not transposed, so the product pairs channels with keys.",
            "It stops with an error unless there are as many keys as channels; then it gives "
            "numbers that mean nothing.",
            "For `(T, D) @ (?, ?)` to give `(T, S)`, which shape must stand on the right?",
        ),
        Misconception(
            "reshaped",
            lambda query, key: (
                query
                @ key.reshape(key.shape[0], key.shape[2], key.shape[1])
                / math.sqrt(query.shape[-1])
            ),
            "You gave the keys the right shape with `view` or `reshape`, which moves no number.",
            "The columns are then made of pieces of several keys: the shape fits, and every score "
            "is wrong.",
            "Rows should become columns. Which operation swaps two dimensions?",
        ),
        Misconception(
            "transposed_with_batch",
            lambda query, key: query @ key.T / math.sqrt(query.shape[-1]),
            "`.T` turned all dimensions round: the batch of the keys went to the end.",
            "`.T` is meant for matrices, and these tensors have a batch in front.",
            "Swap the last two dimensions only, and leave the batch where it is.",
        ),
        Misconception(
            "transposed_wrong_pair",
            lambda query, key: query @ key.transpose(0, 1) / math.sqrt(query.shape[-1]),
            "You swapped the batch of the keys with their positions.",
            "Then sequences of a batch meet as if they were tokens.",
            "Count dimensions from the end: which two belong to a single sequence?",
        ),
        Misconception(
            "element_by_element",
            lambda query, key: (query * key).sum(-1) / math.sqrt(query.shape[-1]),
            "You compared query t with key t only, element by element.",
            "Each query has to be compared with *every* key: T × S scores, not T.",
            "A matrix product does all pairs at once.",
        ),
        Misconception(
            "weights_already",
            lambda query, key: torch.softmax(
                _unscaled(query, key) / math.sqrt(query.shape[-1]), dim=-1
            ),
            "The softmax is in there already: these are weights, not scores.",
            "A mask has to come between scores and softmax, so the two steps stay apart.",
            "Stop before the softmax.",
        ),
        Misconception(
            "cosine",
            _cosine,
            "Both vectors were brought to length 1, so the scores lie between -1 and 1.",
            "A long key can then no longer call louder than a short one, and the softmax never "
            "gets far from equal weights.",
            "One factor for all scores is enough, and it depends on D alone.",
        ),
        Misconception(
            "changes_its_input",
            _scores_in_place,
            "The result is right, but `query` was divided in place.",
            "Whoever called the function still needs those queries.",
            "`a /= b` writes into `a`; `a / b` makes a new tensor.",
        ),
        Misconception(
            "float32_result",
            lambda query, key: _unscaled(query.float(), key.float()) / math.sqrt(query.shape[-1]),
            "The result is float32 whatever comes in.",
            "Whoever computes in float64 loses half of the digits here without a word.",
            "There is no need for a conversion: `@` and `/` keep the dtype.",
        ),
    ),
    hints=(
        "A dot product for every pair: queries as rows, keys as columns. One `@` does it, once the "
        "keys stand the right way.",
        "`key.transpose(-2, -1)` swaps the last two dimensions: `(B, S, D)` to `(B, D, S)`.",
        "`query @ key.transpose(-2, -1)` has the shape `(B, T, S)`; divide it by "
        "`math.sqrt(query.shape[-1])`.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the scores are yours to compute: the built-in attention comes later.",
)


# ---------------------------------------------------------------- CausalSelfAttention


class NoMask(Head):
    def future(self, x, diagonal=1):
        return super().future(x) & False


class MaskTooLate(Head):
    def future(self, x, diagonal=1):
        return super().future(x, 2)


class MaskTooEarly(Head):
    def future(self, x, diagonal=1):
        return super().future(x, 0)


class MaskInverted(Head):
    def future(self, x, diagonal=1):
        return ~super().future(x)


class PastHidden(Head):
    def future(self, x, diagonal=1):
        return super().future(x).T


class MaskAfter(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)


class MaskAfterRenormalised(Head):
    def weights(self, scores, hidden):
        weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
        return weights / weights.sum(dim=-1, keepdim=True)


class ZeroFill(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, 0.0), dim=-1)


class SmallFill(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -1e4), dim=-1)


class SoftmaxOverQueries(Head):
    def weights(self, scores, hidden):
        return torch.softmax(scores.masked_fill(hidden, -INF), dim=-2)


class NotScaled(Head):
    def scale(self, query):
        return 1.0


class ScaledByInput(Head):
    def scale(self, query):
        return math.sqrt(self.d_in)


class ScaledByTokens(Head):
    def scale(self, query):
        return math.sqrt(query.shape[1])


class ScaledByContext(Head):
    def scale(self, query):
        return math.sqrt(self.context_length)


class RootMissing(Head):
    def scale(self, query):
        return self.d_out


class QueryKeySwapped(Head):
    def scores(self, query, key):
        return super().scores(key, query)


class KeysFromQueries(Head):
    def project(self, x):
        return self.query(x), self.query(x), self.value(x)


class ValuesFromKeys(Head):
    def project(self, x):
        return self.query(x), self.key(x), self.key(x)


class TokensAsValues(Head):
    def project(self, x):
        return self.query(x), self.key(x), x


class BiasAlways(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, True)


class BiasNever(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, False)


class MaskLearned(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.mask = nn.Parameter(torch.ones(context_length, context_length).triu(1))

    def future(self, x, diagonal=1):
        return self.mask[: x.shape[1], : x.shape[1]].bool()


class MaskStaysBehind(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.mask = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)

    def future(self, x, diagonal=1):
        return self.mask[: x.shape[1], : x.shape[1]]


class MaskNotCut(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        mask = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def future(self, x, diagonal=1):
        return self.mask


class MaskOfExample(Head):
    mask: Tensor

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).triu(1), persistent=False)

    def future(self, x, diagonal=1):
        return self.mask[: x.shape[1], : x.shape[1]]


class LongTextAccepted(Head):
    def checked(self, x):
        return x


class LongTextCut(Head):
    def checked(self, x):
        return x[:, : self.context_length]


class FullLengthRefused(Head):
    def checked(self, x):
        if x.shape[1] >= self.context_length:
            raise ValueError(f"{x.shape[1]} tokens, and context_length is {self.context_length}")
        return x


class ChecksTheBatch(Head):
    def checked(self, x):
        if x.shape[0] > self.context_length:
            raise ValueError(f"{x.shape[0]} tokens, and context_length is {self.context_length}")
        return x


class DropoutOnScores(Head):
    def forward(self, x, pad_mask=None):
        x = self.checked(x)
        query, key, value = self.project(x)
        scores = self.dropout(self.scores(query, key))
        return self.context(self.weights(scores, self.hidden(x, pad_mask)), value)


class DropoutOnResult(Head):
    def forward(self, x, pad_mask=None):
        x = self.checked(x)
        query, key, value = self.project(x)
        weights = self.weights(self.scores(query, key), self.hidden(x, pad_mask))
        return self.dropout(self.context(weights, value))


class NoDropout(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, 0.0, qkv_bias)


class DropoutAlways(Head):
    def forward(self, x, pad_mask=None):
        x = self.checked(x)
        query, key, value = self.project(x)
        weights = self.weights(self.scores(query, key), self.hidden(x, pad_mask))
        weights = nn.functional.dropout(weights, self.dropout.p)
        return self.context(weights, value)


class FixedDropout(Head):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, 0.1, qkv_bias)


class WeightsReturned(Head):
    def context(self, weights, value):
        return weights


class PairReturned(Head):
    def context(self, weights, value):
        return weights @ value, weights


class LastTokenOnly(Head):
    def context(self, weights, value):
        return (weights @ value)[:, -1]


HEAD_MISCONCEPTIONS = (
    Misconception(
        "no_mask",
        NoMask,
        "Nothing is hidden: every token also sees the tokens after it.",
        "A model that predicts the next token must not see it: it would learn to copy.",
        "Where, between scores and weights, does the triangular mask come in, and is its result "
        "used?",
    ),
    Misconception(
        "mask_too_late",
        MaskTooLate,
        "The mask begins one column too late: token t also sees token t + 1.",
        "That one token is exactly the one a language model has to predict.",
        "For row 0, which columns are hidden? Compare with the diagonal your mask begins at.",
    ),
    Misconception(
        "mask_too_early",
        MaskTooEarly,
        "The mask hides the diagonal too: no token sees itself, and token 0 sees nothing (NaN).",
        "The softmax of nothing but -inf is 0/0, and one NaN spreads through the whole model.",
        "Which is the first diagonal that belongs to the future?",
    ),
    Misconception(
        "mask_inverted",
        MaskInverted,
        "The mask is the wrong way round: a token sees its future only, and the last one nothing.",
        "In this course `True` means hidden. A lower triangle of ones marks what may be *seen*.",
        "Turn the mask round, or build the other triangle.",
    ),
    Misconception(
        "past_hidden",
        PastHidden,
        "You hid the past: every token sees itself and its future.",
        "When text is generated there is no future yet, so this head would have nothing to look "
        "at.",
        "`tril` is the lower triangle, `triu` the upper. Which one is the future?",
    ),
    Misconception(
        "mask_after_softmax",
        MaskAfter,
        "The mask was applied after the softmax: the rows no longer sum to 1.",
        "The future already took its share of each row, so what it scored still changes the rest.",
        "Hidden scores should lose *in* the softmax. What value makes them lose, and when?",
    ),
    Misconception(
        "renormalised_after",
        MaskAfterRenormalised,
        "You masked after the softmax and divided by the new sums. For most scores that is right, "
        "but for big ones the visible weights are rounded to 0, and 0/0 is NaN.",
        "A hidden score that is far larger than the others wipes them out before you divide.",
        "Hide the scores before the softmax; then nothing has to be repaired.",
    ),
    Misconception(
        "zero_fill",
        ZeroFill,
        "Hidden scores were set to 0, and e⁰ = 1 is a weight like any other.",
        "The future leaks into every token.",
        "Which score has the exponential 0?",
    ),
    Misconception(
        "fill_not_small_enough",
        SmallFill,
        "You filled hidden scores with -10,000. Real scores can be lower than that, and then the "
        "hidden ones win.",
        "The mask works in tests and fails in the model that needs it.",
        "There is a number that no score is below.",
    ),
    Misconception(
        "over_queries",
        SoftmaxOverQueries,
        "The softmax runs over the queries: columns sum to 1, not rows.",
        "Each query should spread one unit of attention over its keys.",
        "In `(B, T, T)` the keys are the last dimension.",
    ),
    Misconception(
        "not_scaled",
        NotScaled,
        "The scores are not scaled.",
        "Their spread grows with the width of queries and keys, and the softmax saturates.",
        "Your `attention_scores` has the scale in it.",
    ),
    Misconception(
        "scaled_by_input_width",
        ScaledByInput,
        "You divided by √d_in, the width of the tokens that come in.",
        "The dot product adds up over the width of queries and keys, and only that width makes it "
        "grow.",
        "How wide are the vectors in *that* dot product?",
    ),
    Misconception(
        "scaled_by_tokens",
        ScaledByTokens,
        "You divided by √T, the root of the number of tokens.",
        "The same two vectors would score less in a longer text, for no reason.",
        "How wide are the vectors in the dot product?",
    ),
    Misconception(
        "scaled_by_context",
        ScaledByContext,
        "You divided by the root of context_length.",
        "How many tokens *could* come has nothing to do with how big a dot product gets.",
        "How wide are the vectors in the dot product?",
    ),
    Misconception(
        "root_missing",
        RootMissing,
        "You divided by the width itself, without the root.",
        "The spread of a dot product grows with √D; divided by D, the weights become nearly equal.",
        "The attention formula has a root over that number.",
    ),
    Misconception(
        "query_and_key_swapped",
        QueryKeySwapped,
        "Queries and keys are swapped: row t holds how others score token t.",
        "Each token would be mixed by what others look for, not by what it looks for itself.",
        "The queries are the rows of the scores: they stand on the left of the product.",
    ),
    Misconception(
        "keys_from_queries",
        KeysFromQueries,
        "The keys were made with the `query` projection; `key` has no effect.",
        "All tokens that look for the same thing then attend to each other, and `key` never "
        "learns.",
        "Read the three projection lines aloud: one name comes twice.",
    ),
    Misconception(
        "values_from_keys",
        ValuesFromKeys,
        "What is collected are the keys; the `value` projection has no effect.",
        "What a token is found by and what it hands over could no longer differ.",
        "Q looks for K and collects …?",
    ),
    Misconception(
        "tokens_as_values",
        TokensAsValues,
        "The weights mix the tokens themselves, so the result is `d_in` wide, not `d_out`.",
        "The `value` projection never comes into play and never learns.",
        "Q looks for K and collects …?",
    ),
    Misconception(
        "bias_always",
        BiasAlways,
        "The projections have a bias whatever `qkv_bias` says: `nn.Linear` adds one by default.",
        "The module has more parameters than its caller asked for, and weights copied in by name "
        "don't cover them.",
        "`nn.Linear` has an argument for it.",
    ),
    Misconception(
        "bias_never",
        BiasNever,
        "With `qkv_bias=True` the projections still have no bias.",
        "A model that was trained with biases can't be loaded.",
        "Pass `qkv_bias` on to each `nn.Linear`.",
    ),
    Misconception(
        "mask_is_learned",
        MaskLearned,
        "The mask is an `nn.Parameter`, so an optimizer would train it.",
        "What is hidden is decided once and for all; it is no number to learn.",
        "`register_buffer` is for tensors that belong to a module and are not learned.",
    ),
    Misconception(
        "mask_stays_behind",
        MaskStaysBehind,
        "The mask sits in a plain attribute, which `.to(device)` does not move.",
        "On a GPU the scores and their mask would meet on two devices, and that is an error.",
        "`register_buffer` makes a tensor travel with its module.",
    ),
    Misconception(
        "mask_not_cut",
        MaskNotCut,
        "The mask always has context_length rows and columns, however short the text is.",
        "Most texts are shorter than the limit.",
        "How many rows and columns of the mask belong to T tokens?",
    ),
    Misconception(
        "mask_of_fixed_size",
        MaskOfExample,
        "The mask has the size of the example, 6 × 6, instead of context_length.",
        "The next head is made for longer texts.",
        "The constructor knows how long texts can get.",
    ),
    Misconception(
        "long_text_accepted",
        LongTextAccepted,
        "A text longer than context_length was accepted without a word.",
        "Whoever made the head relied on that limit, and finds out much later that it was passed.",
        "Compare T with context_length at the start of `forward`, and raise a ValueError with both "
        "numbers.",
    ),
    Misconception(
        "long_text_cut",
        LongTextCut,
        "A text that is too long was cut off without a word.",
        "The caller gets fewer tokens back than they gave, and the rest of the text is lost.",
        "Refuse it: raise a ValueError with both numbers.",
    ),
    Misconception(
        "full_length_refused",
        FullLengthRefused,
        "A text of exactly context_length tokens was refused.",
        "The limit is the most tokens that fit, so that many must still be welcome.",
        'Which of `>` and `>=` says "more than"?',
    ),
    Misconception(
        "checks_the_batch",
        ChecksTheBatch,
        "You compared context_length with the number of sequences, not of tokens.",
        "A big batch of short texts is refused, and a text that is too long gets through.",
        "`x.shape` is `(B, T, d_in)`. Which of the three is the length?",
    ),
    Misconception(
        "dropout_on_scores",
        DropoutOnScores,
        "Dropout was applied to the scores, before the softmax.",
        'A score of 0 is not "ignored": its key keeps a weight, and the others change as well.',
        "Drop *weights*: which tensor holds them, and from which line on?",
    ),
    Misconception(
        "dropout_on_result",
        DropoutOnResult,
        "Dropout was applied to the result: single channels of a token become 0.",
        "Here it should make a token do without some of the others, so it belongs on the weights.",
        "Move it up, to between the softmax and the last product.",
    ),
    Misconception(
        "no_dropout",
        NoDropout,
        "Dropout has no effect in training.",
        "Whoever asks for dropout=0.5 expects half of the weights to be dropped.",
        "Make an `nn.Dropout(dropout)` in the constructor and send the weights through it.",
    ),
    Misconception(
        "dropout_in_evaluation",
        DropoutAlways,
        "Dropout is active in evaluation mode too: two calls give two results.",
        "`F.dropout` doesn't know the module's mode unless it is told.",
        "An `nn.Dropout` made in the constructor follows `.train()` and `.eval()` by itself.",
    ),
    Misconception(
        "dropout_of_fixed_size",
        FixedDropout,
        "The probability of dropout is written into the code, whatever `dropout` says.",
        "Even a head made with dropout=0.0 then drops weights in training.",
        "Pass the constructor's argument on to `nn.Dropout`.",
    ),
    Misconception(
        "weights_returned",
        WeightsReturned,
        "You return the weights; nothing has been collected with them yet.",
        "Weights say where to look. The result is what is found there.",
        "One product is missing: weights times …?",
    ),
    Misconception(
        "pair_returned",
        PairReturned,
        "You return the result and the weights as a pair.",
        "The next layer expects one tensor of shape `(B, T, d_out)`.",
        "Return the result alone.",
    ),
    Misconception(
        "last_token_only",
        LastTokenOnly,
        "You return the last token only: T is gone from the shape.",
        "In training every position predicts its next token, so every position is needed.",
        "Return all T rows.",
    ),
)

CAUSAL_SELF_ATTENTION = Exercise(
    id="CausalSelfAttention",
    lesson=LESSON,
    call="CausalSelfAttention(d_in, d_out, context_length, dropout=0.0, qkv_bias=False)",
    points=4.0,
    kind="class",
    cases=head_cases,
    probe=ModuleProbe(gradients=("x",), extra=see_head),
    expect=expect_module(head_oracle),
    reference=CausalSelfAttention,
    behaviours=HEAD_BEHAVIOURS,
    misconceptions=HEAD_MISCONCEPTIONS,
    uses=("attention_scores", "masked_softmax"),
    hints=(
        "The constructor makes three `nn.Linear(d_in, d_out, bias=qkv_bias)`, an "
        "`nn.Dropout(dropout)` and a bool mask of context_length × context_length as a buffer. "
        "`forward` uses them in the order of the formula.",
        "In `forward`: T from `x.shape`; refuse it if it is more than context_length; project "
        "three times; scores; hide the future with the first T rows and columns of the mask; "
        "softmax; dropout; weights @ value.",
        'In the constructor: `self.register_buffer("hidden", torch.ones(context_length, '
        "context_length, dtype=torch.bool).triu(diagonal=1))`. In `forward`: `weights = "
        "masked_softmax(attention_scores(query, key), self.hidden[:T, :T])`, then "
        "`self.dropout(weights) @ value`.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the attention is yours to build: from `attention_scores`, a mask, a "
    "softmax and a product.",
)


# ---------------------------------------------------------------- copy_linear_to_matrix

NAMES = ("query", "key", "value")


class _AnotherOrder(MatrixSelfAttention):
    """The same matrices, made in another order: a copy has to go by name."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        for name in ("W_value", "W_query", "W_key"):
            parameter = getattr(self, name)
            delattr(self, name)
            setattr(self, name, parameter)


def _copy_case(
    draw: Draw,
    name: str,
    linear: tuple[int, int],
    matrix: tuple[int, int] | None = None,
    refuses: tuple[str, ...] | None = None,
    **options,
) -> Case:
    """A case from `(d_in, d_out)` of the linear layers and of the matrices."""
    matrix = matrix or linear
    dtype = options.get("dtype", torch.float32)
    inputs = {
        "linear_attention": {
            f"{n}.weight": draw.normal(linear[1], linear[0], dtype=dtype) for n in NAMES
        },
        "matrix_attention": {
            f"W_{n}": draw.normal(matrix[0], matrix[1], dtype=dtype) for n in NAMES
        },
    }
    options["x"] = draw.normal(2, 3, linear[0], dtype=dtype)
    return Case(name, inputs, refuses, options)


def _copy_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    d_in, d_out, width, other = draw.sizes(4, 3, 9)
    return [
        _copy_case(draw, "wider in than out", (12, d_out)),
        _copy_case(draw, "wider out than in", (d_in, 11)),
        _copy_case(draw, "square", (width, width)),
        _copy_case(draw, "float64", (d_in, d_out), dtype=torch.float64),
        _copy_case(draw, "matrices made in another order", (d_out, other), another_order=True),
        _copy_case(draw, "W_key frozen", (other, d_in), frozen=("W_key",)),
        _copy_case(draw, "other widths out", (d_in, 13), (d_in, 17), refuses=("13", "17")),
        _copy_case(draw, "other widths in", (14, d_out), (15, d_out), refuses=("14", "15")),
        _copy_case(draw, "one channel out", (d_in, 1), (d_in, 16), refuses=("1", "16")),
        _copy_case(draw, "sizes swapped", (12, 19), (19, 12), refuses=("12", "19")),
    ]


def _copy_make(case: Case) -> tuple[nn.Module, nn.Module]:
    linear, matrix = case.inputs.values()
    d_out, d_in = linear["query.weight"].shape
    kind = _AnotherOrder if case.options.get("another_order") else MatrixSelfAttention
    return SelfAttention(d_in, d_out), kind(*matrix["W_query"].shape)


def _copy_expect(case: Case) -> dict[str, Tensor]:
    if case.refuses is not None:
        return {}
    weights = case["linear_attention"]
    x = case.options["x"].double()
    query, key, value = (x @ weights[f"{n}.weight"].double().mT for n in NAMES)
    out = nn.functional.scaled_dot_product_attention(query, key, value)
    return {f"W_{n}": weights[f"{n}.weight"].mT.contiguous() for n in NAMES} | {
        "out": out.to(case.options["x"].dtype)
    }


def _right_matrix(name: str):
    def holds(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
        return near(seen.tensors[name], expected[name]) if expected else None

    return holds


def _each(copy):
    """An answer that does `copy(linear, matrix, name)` for query, key and value."""

    def answer(linear_attention, matrix_attention):
        with torch.no_grad():
            for name in NAMES:
                copy(getattr(linear_attention, name), matrix_attention, f"W_{name}")

    return answer


def _checked(copy):
    """As `_each`, with the sizes compared first."""

    def checked(linear, matrix, name):
        wanted, given = getattr(matrix, name).shape, linear.weight.T.shape
        if wanted != given:
            raise ValueError(f"{tuple(given)} doesn't fit into {name}: {tuple(wanted)}")
        copy(linear, matrix, name)

    return _each(checked)


def _without_transpose(linear, matrix, name):
    getattr(matrix, name).data = linear.weight.detach().clone()


def _without_transpose_checked(linear, matrix, name):
    wanted, given = getattr(matrix, name).shape, linear.weight.shape
    if wanted != given:
        raise ValueError(f"{tuple(given)} doesn't fit into {name}: {tuple(wanted)}")
    getattr(matrix, name).copy_(linear.weight)


def _alias(linear, matrix, name):
    getattr(matrix, name).data = linear.weight.data.T


def _new_alias(linear, matrix, name):
    setattr(matrix, name, nn.Parameter(linear.weight.T))


def _new_parameter(linear, matrix, name):
    setattr(matrix, name, nn.Parameter(linear.weight.T.clone()))


def _copy_in(linear, matrix, name):
    getattr(matrix, name).copy_(linear.weight.T)


def _reshaped(linear, matrix, name):
    getattr(matrix, name).copy_(linear.weight.reshape(getattr(matrix, name).shape))


def _backwards(linear_attention, matrix_attention):
    with torch.no_grad():
        for name in NAMES:
            linear = getattr(linear_attention, name)
            matrix = getattr(matrix_attention, f"W_{name}")
            if linear.weight.T.shape != matrix.shape:
                raise ValueError(f"{tuple(linear.weight.T.shape)}, {tuple(matrix.shape)}")
            linear.weight.copy_(matrix.T)


def _query_only(linear_attention, matrix_attention):
    with torch.no_grad():
        for name in NAMES:
            given = linear_attention.query.weight.T
            matrix = getattr(matrix_attention, f"W_{name}")
            if given.shape != matrix.shape:
                raise ValueError(f"{tuple(given.shape)}, {tuple(matrix.shape)}")
            matrix.copy_(given)


def _in_order(linear_attention, matrix_attention):
    with torch.no_grad():
        for given, matrix in zip(
            linear_attention.parameters(), matrix_attention.parameters(), strict=True
        ):
            if given.T.shape != matrix.shape:
                raise ValueError(f"{tuple(given.T.shape)}, {tuple(matrix.shape)}")
            matrix.copy_(given.T)


def _rebound(linear_attention, matrix_attention):
    for name in NAMES:
        matrix = getattr(matrix_attention, f"W_{name}")
        given = getattr(linear_attention, name).weight
        if matrix.shape != given.T.shape:
            raise ValueError(f"{tuple(given.T.shape)}, {tuple(matrix.shape)}")
        matrix = given.T.clone()


def _with_gradient(linear_attention, matrix_attention):
    for name in NAMES:
        getattr(matrix_attention, f"W_{name}").copy_(getattr(linear_attention, name).weight.T)


def _returned(linear_attention, matrix_attention):
    _checked(_copy_in)(linear_attention, matrix_attention)
    return matrix_attention


def _frozen_afterwards(linear, matrix, name):
    getattr(matrix, name).requires_grad_(False).copy_(linear.weight.T)


def _unfrozen_afterwards(linear, matrix, name):
    getattr(matrix, name).copy_(linear.weight.T)
    getattr(matrix, name).requires_grad_(True)


COPY_LINEAR_TO_MATRIX = Exercise(
    id="copy_linear_to_matrix",
    lesson=LESSON,
    call="copy_linear_to_matrix(linear_attention, matrix_attention)",
    points=2.0,
    cases=_copy_cases,
    probe=CopyProbe(_copy_make),
    expect=_copy_expect,
    reference=copy_linear_to_matrix,
    behaviours=(
        Behaviour("query", "`W_query` holds the query", _right_matrix("W_query"), gate=True),
        Behaviour("key", "`W_key` holds the key", _right_matrix("W_key"), credit=True),
        Behaviour("value", "`W_value` holds the value", _right_matrix("W_value"), credit=True),
        Behaviour("output", "Both modules give the same output", _right_matrix("out"), credit=True),
        *COPY_BEHAVIOURS,
    ),
    misconceptions=(
        Misconception(
            "not_transposed",
            _each(_without_transpose),
            "The matrices were filled with the layers' weights as they are, not transposed.",
            "`nn.Linear` keeps its weight as `(d_out, d_in)` and the matrices are `(d_in, d_out)`. "
            "Square ones fit all the same, and then the output is wrong without an error.",
            "Which operation turns `(d_out, d_in)` into `(d_in, d_out)`?",
        ),
        Misconception(
            "not_transposed_but_checked",
            _each(_without_transpose_checked),
            "You compared and copied the weights as they are, not transposed.",
            "`nn.Linear` keeps its weight as `(d_out, d_in)` and the matrices are `(d_in, d_out)`: "
            "sizes that belong together are refused, and square ones give a wrong output.",
            "Turn the weight round before you compare and copy it.",
        ),
        Misconception(
            "reshaped",
            _each(_reshaped),
            "You made the sizes fit with a reshape, which moves no number to its new place.",
            "Row 0 of the weight is spread over several rows of the matrix; a transpose makes it a "
            "column.",
            "Rows should become columns.",
        ),
        Misconception(
            "shares_memory",
            _each(_alias),
            "`.data = ….T` copies nothing: both modules now use the same numbers.",
            "Training one of them changes the other without a word.",
            "There is a method of tensors that copies numbers into a tensor that exists.",
        ),
        Misconception(
            "new_parameter_shares_memory",
            _each(_new_alias),
            "You made a new `nn.Parameter` over the layer's own numbers: nothing was copied.",
            "Training one module changes the other, and an optimizer made before goes on training "
            "the old parameter.",
            "Keep the parameter that is there, and copy numbers into it.",
        ),
        Misconception(
            "new_parameter",
            _checked(_new_parameter),
            "The numbers are right, but the parameters were replaced by new ones.",
            "An optimizer made before the copy holds the old ones and would train those.",
            "Fill the parameter that is there: copy into it in place.",
        ),
        Misconception(
            "sizes_not_checked",
            _each(_copy_in),
            "Where sizes fit the copy is right; where they don't, PyTorch's own error came, or "
            "none at all.",
            "`copy_` broadcasts: a single column fills a whole matrix without an error.",
            "Compare the two shapes before you copy, and raise a ValueError that names both.",
        ),
        Misconception(
            "copied_backwards",
            _backwards,
            "You copied the matrices into the linear layers.",
            "The layers that were trained are lost.",
            "The first argument is the source, the second the target.",
        ),
        Misconception(
            "query_three_times",
            _query_only,
            "All three matrices were filled from `query`.",
            "Then every token looks for what it offers, and hands over the same thing.",
            "Does each matrix get its own layer's weight?",
        ),
        Misconception(
            "by_order",
            _in_order,
            "You copied in the order in which the parameters were made, not by name.",
            "A module that makes its parameters in another order gets keys for queries.",
            "`getattr(module, name)` finds a part by its name.",
        ),
        Misconception(
            "name_bound_anew",
            _rebound,
            "The matrices are as they were: you gave a local name another value.",
            "`w = …` makes `w` stand for another tensor; the module never hears of it.",
            "The numbers have to go *into* the module's tensor.",
        ),
        Misconception(
            "gradient_recorded",
            _with_gradient,
            "PyTorch refuses to write into a parameter while it records operations for gradients.",
            "Copying is no step of a computation that should be differentiated.",
            "There is a context in which nothing is recorded.",
        ),
        Misconception(
            "frozen_afterwards",
            _checked(_frozen_afterwards),
            "The numbers are right, but the matrices no longer ask for a gradient.",
            "The module would not learn any more, without an error.",
            "Leave `requires_grad` as it is; to write in peace, stop the recording instead.",
        ),
        Misconception(
            "unfrozen_afterwards",
            _checked(_unfrozen_afterwards),
            "The numbers are right, but a matrix that was frozen asks for a gradient now.",
            "Whoever froze it wanted it to stay as it is in training.",
            "Leave `requires_grad` as it is.",
        ),
        Misconception(
            "module_returned",
            _returned,
            "The copy is right, but the function also returns the module.",
            "What works in place returns None by Python's custom, so that nobody takes it for a "
            "copy.",
            "Leave the `return` out.",
        ),
    ),
    hints=(
        "For each of query, key and value: the layer's weight, transposed, goes into the matrix of "
        "that name. Compare the two shapes first.",
        "Writing into a parameter needs `with torch.no_grad():`, and `matrix.copy_(numbers)` "
        "writes numbers into the tensor that is there.",
        '`for name in ["query", "key", "value"]`: `weight = getattr(linear_attention, name)'
        '.weight` and `matrix = getattr(matrix_attention, f"W_{name}")`; if `weight.T.shape != '
        "matrix.shape`, raise a ValueError with both shapes; else `matrix.copy_(weight.T)`.",
    ),
)

EXERCISES = (ATTENTION_SCORES, CAUSAL_SELF_ATTENTION, COPY_LINEAR_TO_MATRIX)
