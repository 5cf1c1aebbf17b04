"""Lesson 15, first part: a whole language model on a blank page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .. import language_model
from ..checking import (
    Case,
    Exercise,
    Misconception,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    expect_module,
)
from ..checking.modules import MODULE_PROPERTIES
from . import lesson_08_norm as n
from . import lesson_09 as e
from .kit import block_mistakes as b
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import model_mistakes as w
from .kit import positions as p
from .kit.blocks import InAttention
from .kit.draw import Draw
from .kit.heads import BUILT_IN
from .kit.models import (
    TEXT_PROPERTIES,
    WholeModel,
    model_case,
    model_oracle,
    see_texts,
    seven_sizes,
    too_long_case,
)

LESSON = "7-capstone/15_capstone"


# ---------------------------------------------------------------- cases


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    limit = draw.integer(14, 17)
    case, too_long = partial(model_case, draw, state_dict=True), partial(too_long_case, draw)
    return [
        case("three tokens, one head", (1, 3, 5, 1, 9, 3, 1), roles="small", once=True),
        case("random tokens", seven_sizes(draw, layers=2), roles="typical"),
        case("float64, made by name", dtype=torch.float64, by_name=True, once=True),
        case("as many tokens as fit", (3, 7, 11, 2, 5, 7, 2), roles="small", once=True),
        case("90 texts, four layers", (90, 3, 50, 2, 6, 7, 4), roles="small", once=True),
        too_long("one token too many", limit + 1, limit),
        too_long("twice as many tokens as fit, in training", 2 * limit, limit, train=True),
    ]


def _see(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    if "typical" in case.roles:
        see_texts(make, case, seen)


# ---------------------------------------------------------------- mistakes


def _inside(step: str, *mistakes: type[Mistake]) -> list[type[Mistake]]:
    """Mistakes of a part, put into a whole model."""
    return [InAttention.of(mistake, step) for mistake in mistakes]


IN_ATTENTION = [
    InAttention.of(mistake)
    for mistake in (
        m.NoMask,
        m.NotScaled,
        h.ScaledByModelWidth,
        h.ViewWithoutTranspose,
        h.MergedWithoutTranspose,
        m.MaskAfterSoftmax,
        m.ZeroFill,
        m.SeesNextToken,
        m.PastHidden,
        m.BlindToItself,
        m.RootMissing,
        m.OverQueries,
        m.QueryAndKeySwapped,
        m.KeysFromQueries,
        m.ValuesFromKeys,
        h.HeadsAndWidthSwapped,
        h.NeverSplit,
        h.NoOutProj,
        h.OutProjWithoutBias,
        m.BiasAlways,
    )
]

IN_BLOCKS = _inside(
    "blocking",
    b.PostNorm,
    b.NoResidual,
    b.ResidualAroundNormed,
    b.NoFirstResidual,
    b.NoSecondResidual,
    b.OneNormTwice,
    b.NormNamesSwapped,
    b.NoNorms,
    b.FirstNormUnused,
    b.SecondNormUnused,
    b.AttentionUnused,
    b.NetworkUnused,
    b.ExactGelu,
    b.Relu,
    b.NoBend,
    b.BranchesCutOff,
    b.StreamCutOff,
    *IN_ATTENTION,
)

IN_NORMS = _inside(
    "norming",
    n.UnbiasedVariance,
    n.OverTokens,
    n.RootForgotten,
    n.MeanNotSubtracted,
    n.RootMeanSquare,
    n.ScaleAndShiftUnused,
)

IN_TABLES = _inside("looking_up", p.PositionsFromOne, e.PlacesOfTheBatch, e.IdsTakenForPlaces)

WORDS = {  # where those of a part speak of what this model has not
    "blind_to_itself": {
        "why": "Token 0 then hears nothing at all, and no token hears itself through attention."
    },
    "scaled_by_model_width": {
        "what": "You divided by the root of `d_model`, the width of all heads together."
    },
    "out_proj_without_bias": {"why": "Of the four layers only query, key and value have none."},
    "bias_always": {
        "what": "Query, key and value have a bias: `nn.Linear` adds one by default.",
        "why": "The module has more parameters than were asked for, and weights copied in by name "
        "don't cover them.",
    },
    "relu": {"what": "The network bends with ReLU, not with GELU."},
}


def _in_words(mistakes: Sequence[type[Mistake]]) -> list[Misconception]:
    return [mistake.on(WholeModel, **WORDS.get(mistake.id(), {})) for mistake in mistakes]


# ---------------------------------------------------------------- the exercise

MY_GPT = Exercise(
    id="MyGPT",
    lesson=LESSON,
    call="MyGPT(vocab_size, d_model, num_heads, context_length, num_layers)",
    points=5.0,
    kind="class",
    cases=_cases,
    probe=ModuleProbe(gradients=(), watch=False, extra=_see),
    expect=expect_module(model_oracle, gradients=()),
    reference=language_model.TinyLM,
    properties=(*TEXT_PROPERTIES, *MODULE_PROPERTIES),
    misconceptions=Misconceptions.of(
        w.NormNotUsed,
        w.NormNotMade,
        w.HeadWithBias,
        w.HeadTied,
        w.BlocksInAPlainList,
        w.OneBlockForAll,
        *_in_words(IN_BLOCKS),
        *IN_NORMS,
        *IN_TABLES,
        w.PositionsNotAdded,
        w.EmbeddingWithoutPositions,
        w.EmbeddingScaled,
        w.AllInOneSequential,
        w.NormOfPyTorch,
        w.NormBeforeTheBlocks,
        w.NormAfterEachBlock,
        w.FirstBlockOnly,
        w.LastBlockLeftOut,
        w.BlocksInReverse,
        w.AddedAgain,
        w.DropoutFixedInBlocks.on(
            WholeModel,
            what="The blocks drop, and nobody asked for it.",
            why="Training should be as exact as evaluation.",
            mend="Leave dropout out: this model has none, in training neither.",
        ),
        w.LengthAndLayersSwapped.on(
            WholeModel,
            mend="Compare the order with the one that was given: …, context_length, num_layers.",
        ),
        e.LeftToTheTable,
        m.LongTextCut,
        w.LongTextTail,
        m.FullLengthRefused,
        m.ChecksTheBatch.on(
            WholeModel, mend="`ids.shape` is `(B, T)`. Which of the two is the length?"
        ),
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        w.ProbabilitiesReturned,
        w.LastLogitsOnly,
        w.StreamReturned,
        m.Float32Result.on(WholeModel, **w.FLOAT32_WORDS),
        m.CutOff,
        on=WholeModel,
    ),
    same_as=(
        "attention_scores",
        "masked_softmax",
        "safe_masked_softmax",
        "split_heads",
        "merge_heads",
        "CausalSelfAttention",
        "PaddedCausalSelfAttention",
        "MultiHeadAttentionWrapper",
        "MultiHeadAttention",
        "LayerNorm",
        "gelu",
        "FeedForward",
        "TransformerBlock",
        "TokenAndPosition",
        "TinyLM",
        "sdpa_attention",
        "make_mha",
    ),
    forbidden=BUILT_IN,
    forbidden_text="The attention is yours to write: PyTorch's own is not allowed on this page.",
    hints=(
        "Write it from the inside out: a norm, an attention, a block, the model. Four small "
        "classes whose attributes have the names of the table. Try each by itself on "
        "`torch.randn(2, 5, C)` before you go on.",
        "Attention: three projections, `view(B, T, H, D).transpose(1, 2)`, scores over √D, the "
        "future at `-inf`, softmax, product, `transpose(1, 2).reshape(B, T, C)`, `out_proj`. "
        "Block: `x = x + attention(norm1(x))`, and the same with the network.",
        "The model: `embed` is a module with two tables, `token` and `position`; `blocks` an "
        "`nn.ModuleList`; `forward` refuses T > context_length, adds `position` of "
        "`torch.arange(T)`, goes through the blocks, and returns `head(norm(x))`.",
    ),
)
