"""Lesson 04: one head, with weights from queries and keys."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..attention import CausalSelfAttention, attention_scores
from ..checking import (
    Case,
    Entry,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_function,
    expect_module,
    quiz,
    slip,
)
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import first_attempts as first
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import (
    BUILT_IN,
    HEAD_PROPERTIES,
    THREE_TOKENS,
    head_cases,
    head_oracle,
    see_head,
)
from .kit.steps import AttentionScores, Head, Scoring
from .lesson_04_copying import COPY_LINEAR_TO_MATRIX

LESSON = "2-single-head/04_single_head"


# ---------------------------------------------------------------- attention_scores


def _score_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, sizes: Any = (), roles: str = "", scale: float = 1.0, **more: Any) -> Case:
        """Sizes are `(B, T, S, D)`."""
        B, T, S, D = sizes or draw.sizes(4, 2, 8)
        dtype = more.pop("dtype", torch.float32)
        inputs = {"query": draw.normal(B, T, D, dtype=dtype), "key": draw.normal(B, S, D)}
        inputs["key"] = inputs["key"].to(dtype) * scale
        return Case(name, inputs, options=more, roles=frozenset(roles.split()))

    B, T, S, D = draw.sizes(4, 2, 8)
    turned = {"query": draw.normal(T, D, B).permute(2, 0, 1), "key": draw.normal(B, D, S).mT}
    zeros = case("vectors of zeros")
    zeros["query"][:, 0] = 0.0
    zeros["key"][0] = 0.0
    wide = draw.integer(60, 90)
    by_hand = {"query": THREE_TOKENS[None], "key": THREE_TOKENS[None]}
    return [
        Case("three tokens by hand", by_hand, roles={"small"}),
        case("random numbers", roles="typical spread"),
        case("as many keys as queries", (T, D, D, S), "small"),
        case("as many keys as channels", (S, T, D, D), "small"),
        case("as many sequences as queries", (T, T, S, D), "small"),
        case("as many sequences as keys", (S, T, S, D), "small"),
        case("all sizes equal", (T, T, T, T), "small"),
        case("float64", (B, S, T, D), dtype=torch.float64),
        case("wide vectors", (2, 5, 3, wide), "spread"),
        case("one query", (B, 1, S, D), "small"),
        case("one key", (B, T, 1, D), "small"),
        case("one channel", (B, T, S, 1), "small"),
        case("one sequence", (1, T, S, D), "small"),
        case("by name", keywords=("query", "key")),
        case("big numbers", scale=1000.0, dtype=torch.float64),
        zeros,
        Case("not contiguous in memory", turned),
        case("1,040 queries", (2, 1040, 3, 4)),
        case("1,040 keys", (2, 3, 1040, 4)),
        case("2,100 channels", (3, 2, 4, 2100), once=True),
        case("1,040 sequences", (1040, 2, 3, 4), once=True),
    ]


def _score_oracle(query: Tensor, key: Tensor) -> Tensor:
    return torch.einsum("btd,bsd->bts", query, key) * query.shape[-1] ** -0.5


def _pairs(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Up to one factor, the dot products: a score belongs to its query and its key."""
    out, right = seen.tensors["out"].double(), expected["out"].double()
    factor = (out * right).sum() / (right * right).sum()
    return bool(factor > 0) and near(out / factor, right)


def _spread(case: Case, seen: Observation, expected: Expected) -> Verdict:
    ratio = seen.tensors["out"].double().std() / expected["out"].double().std()
    return bool((ratio - 1).abs() < 1e-3)


class KeysNotTransposed(Mistake):
    """The keys were not transposed, so the product pairs channels with keys.

    Why: It stops with an error unless there are as many keys as channels; then it gives numbers
        that mean nothing.
    Mend: For `(T, D) @ (?, ?)` to give `(T, S)`, which shape must stand on the right?
    """

    def compared(self, query, key):
        return query @ key


class ReshapedNotTransposed(Mistake):
    """You gave the keys the right shape with `view` or `reshape`, which moves no number.

    Why: The columns are then made of pieces of several keys: the shape fits, and every score is
        wrong.
    Mend: Rows should become columns. Which operation swaps two dimensions?
    """

    def compared(self, query, key):
        return query @ key.reshape(key.shape[0], key.shape[2], key.shape[1])


class TransposedWithBatch(Mistake):
    """`.T` turned all dimensions round: the batch of the keys went to the end.

    Why: `.T` is meant for matrices, and these tensors have a batch in front.
    Mend: Swap the last two dimensions only, and leave the batch where it is.
    """

    def compared(self, query, key):
        return query @ key.permute(2, 1, 0)


class TransposedWrongPair(Mistake):
    """You swapped the batch of the keys with their positions.

    Why: Then sequences of a batch meet as if they were tokens.
    Mend: Count dimensions from the end: which two belong to a single sequence?
    """

    def compared(self, query, key):
        return query @ key.transpose(0, 1)


class ElementByElement(Mistake):
    """You compared query t with key t only, element by element.

    Why: Each query has to be compared with *every* key: T × S scores, not T.
    Mend: A matrix product does all pairs at once.
    """

    def compared(self, query, key):
        return (query * key).sum(-1)


class WeightsAlready(Mistake):
    """The softmax is in there already: these are weights, not scores.

    Why: A mask has to come between scores and softmax, so the two steps stay apart.
    Mend: Stop before the softmax.
    """

    def scores(self, query, key):
        return torch.softmax(super().scores(query, key), dim=-1)


class MaskAlready(Mistake):
    """The future is hidden in there already.

    Why: Not every attention is causal, and the mask is a step of its own that comes next.
    Mend: Stop at the scaled products.
    """

    def scores(self, query, key):
        scores = super().scores(query, key)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, -math.inf)


class Distances(Mistake):
    """You measured how far queries and keys lie apart.

    Why: The attention of this course, and of Transformers, compares by dot products.
    Mend: Multiply the channels of both and add up: which product does that for all pairs?
    """

    def compared(self, query, key):
        return -torch.cdist(query, key)


class OneSequenceForAll(Mistake):
    """Only the keys of sequence 0 were used, for all sequences.

    Why: Each sequence of a batch has its own keys.
    Mend: Leave the batch dimension in front; `@` multiplies sequence by sequence.
    """

    def compared(self, query, key):
        return super().compared(query, key[:1].expand_as(key))


def _query_divided(self, query, key):
    query /= math.sqrt(query.shape[-1])
    return query @ key.transpose(-2, -1)


ATTENTION_SCORES = Exercise(
    id="attention_scores",
    lesson=LESSON,
    call="attention_scores(query, key)",
    points=2.0,
    cases=_score_cases,
    probe=FunctionProbe(gradients=("query", "key"), watch=True),
    expect=expect_function(_score_oracle, gradients=("query", "key")),
    reference=attention_scores,
    properties=(
        Property(
            "pairs",
            "The score in row t, column s compares query t with key s",
            _pairs,
            credit=True,
            gate=True,
            role="typical",
        ),
        Property("spread", "The scores spread as they should", _spread, credit=True, role="spread"),
    ),
    misconceptions=Misconceptions.of(
        m.NotScaled,
        m.RootMissing,
        KeysNotTransposed,
        m.QueryAndKeySwapped,
        TransposedWithBatch,
        m.ScaledByTokens,
        m.ScaledByTokens.but(scale=lambda self, query, key: math.sqrt(query.shape[-2])),
        m.Multiplied,
        *(
            mm.ScaledByConstant.but(scale=lambda self, query, key, root=root: root)
            for root in (math.sqrt(3), 8.0, 2.0, math.sqrt(2))
        ),
        ReshapedNotTransposed,
        TransposedWrongPair,
        ElementByElement,
        WeightsAlready,
        mm.Cosine,
        mm.ScaledByRoundedRoot,
        MaskAlready,
        Distances,
        OneSequenceForAll,
        m.ChangesItsInput.but(__call__=_query_divided).on(
            AttentionScores, what="The result is right, but `query` was divided in place."
        ),
        m.Float32Result,
        m.CutOff,
        on=AttentionScores,
    ),
    hints=(
        "A dot product for every pair: queries as rows, keys as columns. One `@` does it, once the "
        "keys stand the right way.",
        "`key.transpose(-2, -1)` swaps the last two dimensions: `(B, S, D)` to `(B, D, S)`.",
        "`query @ key.transpose(-2, -1)` has the shape `(B, T, S)`; divide it by "
        "`math.sqrt(query.shape[-1])`.",
    ),
    other_way="""\
# einsum names the dimensions: d stands in both and not in the result, so it is added up.
def attention_scores(query, key):
    return torch.einsum("btd,bsd->bts", query, key) / query.shape[-1] ** 0.5""",
    forbidden=BUILT_IN,
    forbidden_text="Here the scores are yours to compute: the built-in attention comes later.",
)


# ---------------------------------------------------------------- the quiz

SEEKS, BACK, CHANGED = "W_q", "score back", "changed by W_v"
BY_KEY, BY_VALUE = "told by the key", "told by the value"
TOLD = ("kind", "payload")

WHY_THREE_PROJECTIONS = quiz(
    "why_three_projections",
    lesson=LESSON,
    points=1.0,
    about="an article seeks a noun, a noun a verb, a verb an article",
    entries=(
        Entry(
            SEEKS,
            [(0, 0, 4), (4, 0, 0), (0, 4, 0)],
            "Column by column: an article's 4 stands in the row of nouns, a noun's in the row of "
            "verbs, a verb's in the row of articles.",
            "An article is (1, 0, 0) and picks the first column, a noun the second, a verb the "
            "third. In which row must the 4 of each be?",
            ordered=True,
        ),
        Entry(
            BACK,
            3,
            "With one matrix each token's query is its key, and a dot product is the same both "
            "ways.",
            "The query of each is also its key. Does a dot product know which side came first?",
        ),
        Entry(
            CHANGED,
            "context",
            "Scores and weights are made of queries and keys alone.",
            "Which of the three are made before any value is looked at?",
            choices=("scores", "weights", "context"),
        ),
        Entry(
            BY_KEY,
            "kind",
            "A token is sought by its kind, so the key has to show it.",
            "What does the token that looks for it know of it?",
            choices=TOLD,
        ),
        Entry(
            BY_VALUE,
            "payload",
            "What is handed over is the payload; whoever looked knows the kind already.",
            "What should arrive at the token that looked?",
            choices=TOLD,
        ),
    ),
    misconceptions=(
        slip(
            "rows_and_columns_of_a_matrix_swapped",
            {SEEKS: [(0, 4, 0), (0, 0, 4), (4, 0, 0)]},
            "Rows and columns of W_q are swapped: with yours a noun seeks an article.",
            "A matrix times a vector with one 1 picks a column, so who seeks stands in the "
            "columns.",
            "Multiply your matrix by (1, 0, 0), an article. Where is the 4?",
        ),
        slip(
            "seeks_its_own_kind",
            {SEEKS: [(4, 0, 0), (0, 4, 0), (0, 0, 4)]},
            "With your W_q each kind seeks its own kind.",
            "That is what a head without a query matrix does already.",
            "Multiply your matrix by (1, 0, 0), an article. Which kind's channel has the 4?",
        ),
        slip(
            "keeps_the_matrix_of_the_example",
            {SEEKS: [(0, 4, 0), (4, 0, 4), (0, 0, 0)]},
            "This is the matrix of section 3: with it a noun seeks an article, and nobody a verb.",
            "Another wish needs other columns, one for each kind that seeks.",
            "Take the kinds one by one: which column does a noun pick, and what should it seek?",
        ),
        slip(
            "a_shared_matrix_looks_one_way",
            {BACK: 0},
            "You let 'cat' look at 'chased' and not the other way round.",
            "With one matrix for both there is no other way round: looking and being looked at are "
            "the same. That is why a ring of seekers can't be learned.",
            "Write the score as a dot product of two vectors, then swap them.",
        ),
        slip(
            "a_shared_matrix_turns_the_sign",
            {BACK: -3},
            "You turned the sign of the score for the way back.",
            "A dot product adds up products of numbers, and 2 · 5 is 5 · 2.",
            "Write the score as a dot product of two vectors, then swap them.",
        ),
        slip(
            "values_make_the_weights",
            {CHANGED: "weights"},
            "You let the values have a say in the weights.",
            "Where to look and what is found there are two questions, and values answer the "
            "second.",
            "Which two of the three vectors meet in a score?",
        ),
        slip(
            "values_make_the_weights",
            {CHANGED: "scores"},
            "You let the values have a say in the scores.",
            "Where to look and what is found there are two questions, and values answer the "
            "second.",
            "Which two of the three vectors meet in a score?",
        ),
        slip(
            "key_and_value_told_apart_wrongly",
            {BY_KEY: "payload", BY_VALUE: "kind"},
            "You swapped what a token is found by and what it hands over.",
            "A payload is random: nobody could look for it.",
            "The seeker knows which kind it wants. Which vector must show that?",
        ),
        slip(
            "value_is_the_key",
            {BY_VALUE: "kind"},
            "You let a token hand over what it is found by.",
            "Whoever looked knows the kind already, and learns nothing new.",
            "What did each token of the lookup want to fetch?",
        ),
        slip(
            "key_is_the_value",
            {BY_KEY: "payload"},
            "You let a token be found by what it hands over.",
            "A payload is random: nobody could look for it.",
            "The seeker knows which kind it wants. Which vector must show that?",
        ),
    ),
    hints=(
        "A matrix times a vector that holds a single 1 picks a column. Article, noun and verb pick "
        "the first, the second and the third column of W_q.",
        "The query of an article should be (0, 4, 0), of a noun (0, 0, 4), of a verb (4, 0, 0). "
        "These are the columns; you write rows.",
    ),
)


# ---------------------------------------------------------------- CausalSelfAttention


def _clamped(self, query, key):
    return Scoring.scores(self, query, key).clamp(-50, 50)


# What a head can get wrong in lessons 04 and 05 alike, the likeliest first.
HEAD_MISTAKES = (
    m.NotScaled,
    m.NoMask,
    m.LongTextAccepted,
    m.NoDropout,
    m.BiasAlways,
    m.BiasNever,
    m.SeesNextToken,
    m.MaskAfterSoftmax,
    m.OverQueries,
    m.MaskNotCut,
    first.MaskOfNumbers,
    first.MaskWrittenOver,
    m.MaskStaysBehind,
    m.MaskIsLearned,
    m.DropoutOnScores,
    m.DropoutOnResult,
    m.QueryAndKeySwapped,
    m.KeysFromQueries,
    m.ValuesFromKeys,
    m.ScaledByInputWidth,
    m.RootMissing,
    m.Multiplied,
    m.ScaledByTokens,
    m.ScaledByContext,
    m.SoftmaxTwice,
    m.FillNotLowEnough.but(fill=-1e4),
    m.FillNotLowEnough.but(fill=-1e3),
    m.FillNotLowEnough.but(fill=-100.0),
    m.RenormalisedAfterSoftmax,
    m.ZeroFill,
    m.PastHidden,
    m.WeightsReturned,
    m.PairReturned,
    m.LastTokenOnly,
    m.DropoutInEvaluation,
    m.DropoutFixed,
    m.DropoutFixed.but(rate=lambda self, dropout: 0.5),
    m.DropoutFixed.but(rate=lambda self, dropout: 0.2),
    m.DropoutFixed.but(rate=lambda self, dropout: 0.5 if dropout else 0.0),
    m.DropoutFixed.but(rate=lambda self, dropout: 0.1 if dropout else 0.0),
    m.FullLengthRefused,
    m.ChecksTheBatch,
    m.LongTextCut,
    m.RefusedWithoutNumbers,
    m.RefusedOtherwise,
    m.RefusedOtherwise.but(kind=RuntimeError),
    m.MaskOfFixedSize,
    m.MaskOfFixedSize.but(
        future=lambda self, T, device=None: torch.ones(32, 32, device=device).triu(1)[:T, :T] > 0
    ),
    m.DropoutOnValues,
    mm.DropoutTwiceOnWeights,
    m.DropoutTwice,
    mm.DropoutKeepsShare,
    mm.DropoutRenormalised,
    mm.DropoutNotScaledUp,
    mm.DropoutOnRows,
    mm.DropoutOnKeys,
    mm.DropoutSharedByBatch,
    mm.DropoutOnQueries,
    mm.DropoutOnTokens,
    mm.QueriesFromKeys,
    mm.ValuesFromQueries,
    mm.OneProjectionForAll,
    mm.KeysAndValuesSwapped,
    mm.TokensAsValues,
    mm.WeightUsedUntransposed,
    mm.BiasUnused,
    mm.BiasOnSome,
    mm.BiasOnSome.but(with_bias=("query", "key")),
    mm.BiasOnSome.but(with_bias=("value",)),
    mm.BiasOnSome.but(with_bias=("query", "value")),
    mm.NoSoftmax,
    m.ScoresIgnored,
    m.Overflows,
    m.ClampsScores.but(scores=_clamped),
    m.InfinityTimesZero,
    m.ZeroTakenForHidden,
    mm.OverSequences,
    mm.WeightsTransposed,
    mm.Cosine,
    mm.ScaledAfterSoftmax,
    mm.ScaledByConstant,
    mm.ScaledByConstant.but(scale=lambda self, query, key: 8.0),
    mm.ScaledByRoundedRoot,
    mm.FutureInTrainingOnly,
    mm.FutureInTrainingOnly.but(mode=False),
    m.Float32Result,
    m.CutOff,
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
    properties=HEAD_PROPERTIES,
    misconceptions=Misconceptions.of(*HEAD_MISTAKES, m.BlindToItself, m.MaskInverted, on=Head),
    uses=("attention_scores", "masked_softmax"),
    same_as=("PaddedCausalSelfAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention"),
    hints=(
        "The constructor makes three `nn.Linear(d_in, d_out, bias=qkv_bias)`, an "
        "`nn.Dropout(dropout)` and a bool mask of context_length × context_length as a buffer. "
        "`forward` uses them in the order of the formula.",
        "In `forward`: T from `x.shape`; refuse it if it is more than context_length; project "
        "three times; scores; hide the future with the first T rows and columns of the mask; "
        "softmax; dropout; weights @ value.",
        'In the constructor: `self.register_buffer("hidden", torch.ones(context_length, '
        "context_length, dtype=torch.bool).triu(diagonal=1))`. In `forward`: `weights = "
        "attention.masked_softmax(attention_scores(query, key), self.hidden[:T, :T])`, then "
        "`self.dropout(weights) @ value`.",
    ),
    other_way="""\
# The mask as the formula has it: zeros and -inf, added to the scores.
class CausalSelfAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.context_length = context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        future = torch.full((context_length, context_length), -torch.inf).triu(diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        T = x.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} tokens came in, at most {self.context_length} fit")
        scores = attention_scores(self.query(x), self.key(x)) + self.future[:T, :T]
        return self.dropout(torch.softmax(scores, dim=-1)) @ self.value(x)""",
    forbidden=BUILT_IN,
    forbidden_text="Here the attention is yours to build: from `attention_scores`, a mask, a "
    "softmax and a product.",
)


EXERCISES = (
    ATTENTION_SCORES,
    WHY_THREE_PROJECTIONS,
    CAUSAL_SELF_ATTENTION,
    COPY_LINEAR_TO_MATRIX,
)
