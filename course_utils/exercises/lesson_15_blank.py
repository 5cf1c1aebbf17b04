"""Lesson 15, first part: a whole language model on a blank page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .. import language_model
from ..checking import (
    Case,
    Exercise,
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


class AnotherEpsilon(Mistake):
    """The norms have an `eps` other than 1e-5.

    Why: It isn't among the weights, so no loading tells; published numbers need the same.
    Mend: Which number stands in the table beside `norm`? It is PyTorch's default, too.
    """

    def kept(self, eps):
        return 1e-6


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
    n.EpsilonOutside,
    AnotherEpsilon,
    n.RootForgotten,
    n.MeanNotSubtracted,
    n.RootMeanSquare,
    n.ScaleAndShiftUnused,
)

IN_TABLES = _inside("looking_up", p.PositionsFromOne, e.PlacesOfTheBatch, e.IdsTakenForPlaces)


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
        *IN_BLOCKS,
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
            mend="Leave dropout out: this model has none, in training neither.",
        ),
        w.LengthAndLayersSwapped,
        e.LeftToTheTable,
        m.LongTextCut,
        w.LongTextTail,
        m.FullLengthRefused,
        m.ChecksTheBatch,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        w.ProbabilitiesReturned,
        w.LastLogitsOnly,
        w.StreamReturned,
        m.Float32Result,
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
    other_way="""\
# One function for what depends on no weight; the modules only hold names, and einsum says the rest.
class Part(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class Norm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:], self.scale, self.shift)


def attend(query, key, value, H):
    query, key, value = (x.unflatten(-1, (H, -1)) for x in (query, key, value))  # (B, T, H, D)
    scores = torch.einsum("bthd,bshd->bhts", query, key) / query.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool()
    weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
    return torch.einsum("bhts,bshd->bthd", weights, value).flatten(2)


class MyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__()
        C, self.H, self.most = d_model, num_heads, context_length
        self.embed = Part(token=nn.Embedding(vocab_size, C), position=nn.Embedding(self.most, C))
        qkv = ("query", "key", "value")
        self.blocks = nn.ModuleList(
            Part(
                norm1=Norm(C),
                attention=Part(
                    **{name: nn.Linear(C, C, bias=False) for name in qkv}, out_proj=nn.Linear(C, C)
                ),
                norm2=Norm(C),
                feed_forward=Part(expand=nn.Linear(C, 4 * C), contract=nn.Linear(4 * C, C)),
            )
            for _ in range(num_layers)
        )
        self.norm, self.head = Norm(C), nn.Linear(C, vocab_size, bias=False)

    def forward(self, ids):
        T = ids.shape[1]
        if T > self.most:
            raise ValueError(f"{T} tokens, and only {self.most} fit")
        x = self.embed.token(ids) + self.embed.position.weight[:T]
        for block in self.blocks:
            a, f, normed = block.attention, block.feed_forward, block.norm1(x)
            heard = attend(a.query(normed), a.key(normed), a.value(normed), self.H)
            x = x + a.out_proj(heard)
            wide = nn.functional.gelu(f.expand(block.norm2(x)), approximate="tanh")
            x = x + f.contract(wide)
        return self.head(self.norm(x))
""",
)
