"""Lesson 15, first part: a whole language model on a blank page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import language_model
from ..checking import (
    Case,
    Exercise,
    Misconception,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict, mixed
from ..checking.modules import MODULE_PROPERTIES, part
from . import lesson_08_norm as n
from . import lesson_09 as e
from .kit import block_mistakes as b
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import model_mistakes as w
from .kit import positions as p
from .kit.blocks import InAttention, block_oracle, network_oracle, norm_oracle, under
from .kit.draw import Draw
from .kit.heads import BUILT_IN
from .kit.many_heads import side_by_side, wrapper_oracle
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


# ---------------------------------------------------------------- evidence


def _see(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """Texts; each part by itself, where it has the course's name; what a new model begins with."""
    if "typical" not in case.roles:
        return
    see_texts(make, case, seen)
    set_seed(1)  # a parameter too many is the same in each
    model = make()
    for name, x in _tried(case).items():
        alone = part(model, name)
        with contextlib.suppress(Exception), torch.no_grad():
            seen.put_judged(name, alone(fresh(x)))
    with contextlib.suppress(Exception):
        _see_names(model, case, seen)
    with contextlib.suppress(Exception):
        _see_beginning(type(model)(*case.options["args"]), case, seen)


def _tried(case: Case) -> dict[str, Tensor]:
    """What parts are tried on. Every second token is so small that a norm's `eps` counts."""
    T, C = case["ids"].shape[1], case.options["args"][1]
    x = torch.randn(2, T, C, generator=torch.Generator().manual_seed(T))
    small = x * torch.where(torch.arange(T) % 2 == 0, 1.0, 0.01)[:, None]
    names = ("attention", "feed_forward")
    return {
        "embed": case["ids"],
        "norm": small,
        "blocks.0.norm1": small,
        "blocks.0.norm2": small,
        **{f"blocks.0.{name}": x for name in names},
        "blocks.0": x,
        "head": x,
    }


def _kept(model: Any, case: Case) -> dict[str, Tensor]:
    """Weights by the course's names, as far as attributes or the state dict give them."""
    state, found = model.state_dict(), {}
    for name in case.options["weights"]:
        value = part(model, name)
        value = value if isinstance(value, Tensor) else state.get(name)
        if isinstance(value, Tensor):
            found[name] = value.detach()
    return found


def _see_names(model: Any, case: Case, seen: Observation) -> None:
    kept = _kept(model, case)
    for name, weight in case.options["weights"].items():
        if name not in kept or not torch.equal(kept[name].cpu(), weight):
            seen.facts["not_given_back"] = name
            return


def _see_beginning(new: Any, case: Case, seen: Observation) -> None:
    kept = _kept(new, case)
    for kind in ("scale", "shift"):
        found = [value.cpu() for name, value in kept.items() if name.endswith(f".{kind}")]
        if found:
            seen.put_judged(kind, torch.cat(found))
    tables = [p.detach() for p in new.parameters() if p.dim() > 1]
    if tables:
        seen.put_judged("largest", max(p.abs().max() for p in tables))


# ---------------------------------------------------------------- what is right of a part


def _right_part(case: Case, name: str, x: Tensor) -> Tensor:
    weights = case.options["weights"]
    mine = under(weights, name)
    if name == "embed":
        return mine["token.weight"][x] + mine["position.weight"][: x.shape[1]]
    if name == "head":
        return x @ mine["weight"].mT
    if name == "blocks.0":
        return block_oracle(case, mine, x)
    if name.endswith("attention"):
        return wrapper_oracle(case, side_by_side(mine, case.options["heads"]), x)
    return network_oracle(mine, x) if name.endswith("forward") else norm_oracle(mine, x)


def _parts(case: Case, seen: Observation, *names: str) -> list[bool]:
    """Which of these parts are right, of those that could be tried."""
    return [
        near(seen.tensors[f"judged:{name}"], _right_part(case, name, x), 2e-5)
        for name, x in _tried(case).items()
        if name in names and f"judged:{name}" in seen.tensors
    ]


IN_BLOCK = ("blocks.0.norm1", "blocks.0.norm2", "blocks.0.attention", "blocks.0.feed_forward")
EVERY = ("embed", *IN_BLOCK, "blocks.0", "norm", "head")


def _right_alone(id: str, text: str, *names: str, but: Sequence[str] = ()) -> Property:
    """That parts with these names are right by themselves; told only where the whole is wrong.

    Args:
        but: parts that must be right for it to be told.
    """

    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        if near(seen.tensors["out"], expected["out"], 1e-5):
            return None  # how it is cut into parts is nobody's affair
        if not all(_parts(case, seen, *but)):
            return None
        found = _parts(case, seen, *names)
        return all(found) if found else None

    return Property(id, text, holds, secondary=True, role="typical")


def _well_joined(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if near(seen.tensors["out"], expected["out"], 1e-5):
        return None
    found = _parts(case, seen, *EVERY)
    return False if len(found) == len(EVERY) and all(found) else None


def _begins_well(case: Case, seen: Observation, expected: Expected) -> Verdict:
    for kind, wanted in (("scale", 1.0), ("shift", 0.0)):
        found = seen.tensors.get(f"judged:{kind}")
        if found is not None and not near(found, torch.full_like(found, wanted)):
            return f"have another `{kind}`"
    largest = seen.tensors.get("judged:largest")
    return "have nothing but zeros" if largest is not None and largest == 0 else True


ALONE = "tried by itself, gives what the course's gives"
PART_PROPERTIES = (
    _right_alone("embed_alone", f"Your `embed`, {ALONE}", "embed"),
    _right_alone(
        "norms_alone",
        "Your norms, tried by themselves, give what the course's give",
        "norm",
        *IN_BLOCK[:2],
    ),
    _right_alone("attention_alone", f"Your `attention`, {ALONE}", IN_BLOCK[2]),
    _right_alone("network_alone", f"Your `feed_forward`, {ALONE}", IN_BLOCK[3]),
    _right_alone(
        "block_alone", "Your block joins its parts as the course's does", "blocks.0", but=IN_BLOCK
    ),
    _right_alone("head_alone", f"Your `head`, {ALONE}", "head"),
    Property(
        "well_joined",
        "Its parts are right by themselves, and joined as they should be",
        _well_joined,
        secondary=True,
        role="typical",
        breaks="Each part is right by itself, so what is wrong stands in `MyGPT`'s own `forward`, "
        "or in what it does with the list of blocks",
    ),
    Property(
        "begins",
        "Made anew, its norms have a `scale` of 1 and a `shift` of 0, and not all weights are 0",
        _begins_well,
        secondary=True,
        role="typical",
    ),
)


def _notes(cases: Sequence[Case], seen: Sequence[Observation]) -> list[str]:
    told = [(o.facts.get("not_given_back"), c) for c, o in zip(cases, seen, strict=False)]
    lost = next((name for name, c in told if name in c.options.get("weights", {})), None)
    if lost is None:
        return []
    return [
        f"Your model takes weights by the course's names and doesn't give `{lost}` back: its "
        "`state_dict()` has no such entry, or another value. It costs nothing here. In section 7 "
        "the course's instruments read your weights by these names: a `state_dict` of your own "
        "can give them."
    ]


# ---------------------------------------------------------------- mistakes


def _inside(step: str, *mistakes: type[Mistake]) -> list[type[Mistake]]:
    """Mistakes of a part, put into a whole model."""
    return [InAttention.of(mistake, step) for mistake in mistakes]


def _over_heads(self: Any, scores: Tensor, hidden: Tensor) -> Tensor:
    """What is hidden is hidden to all heads, and 0/0 is NaN."""
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=1)


HeadsCompete = h.OverHeads.but(weights=_over_heads)


class EpsilonTooLarge(Mistake):
    """The norms' `eps` is larger than 1e-5.

    Why: Where the channels of a token are nearly equal the result is another.
    Mend: 1e-5, added to the variance, inside the root.
    """

    def kept(self, eps):
        return 1e-3


class TwoDefaults(Mistake):
    """Two defaults of PyTorch at once: `var` divides by C - 1, and `F.gelu` is the exact one.

    Why: Either changes the numbers a little, so neither shows where the two are looked at together.
    Mend: `var(…, unbiased=False)`, and `F.gelu(…, approximate="tanh")`.
    """

    def norming(self):
        return mixed(super().norming(), n.UnbiasedVariance)

    def blocking(self):
        return mixed(super().blocking(), b.ExactGelu)


class TokensAsHead(Mistake):
    """`head` is made and never called: the logits come from the table of the tokens.

    Why: GPT-2 ties the two; here they are two tables, each with weights of its own.
    Mend: What does `head` give for the normed stream?
    """

    def read(self, x):
        return self.norm(x) @ self.embed.token.weight.mT


class NormsOfPyTorch(w.NormOfPyTorch):
    """The norms are PyTorch's own, which call their parameters `weight` and `bias`.

    Why: Weights of a model are loaded by name.
    Mend: A norm of your own, whose parameters are `scale` and `shift`.
    """

    @classmethod
    def id(cls):
        return w.NormOfPyTorch.id()

    def norming(self):
        return nn.LayerNorm


class NothingToSee(m.BlindToItself):
    """The diagonal is hidden too: token 0 sees nothing.

    Why: The softmax of nothing but -inf is 0/0, and one NaN spreads through the whole model.
    Mend: Which is the first diagonal that belongs to the future?
    """

    @classmethod
    def id(cls):
        return m.BlindToItself.id()

    def blind(self, hidden):
        return hidden[..., :1] & False


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
    b.NetworkFirst,
    b.Parallel,
    InAttention.of(h.NeverTransposed),
    InAttention.of(HeadsCompete),
)

IN_NORMS = _inside(
    "norming",
    n.UnbiasedVariance,
    n.OverTokens,
    n.RootForgotten,
    n.MeanNotSubtracted,
    n.RootMeanSquare,
    n.ScaleAndShiftUnused,
    n.OverTokensAndChannels,
    n.NormedOverEverything,
    n.EpsilonForgotten,
    n.EpsilonOutside,
    n.ScaleUnused,
    n.ShiftUnused,
    n.ScaleAndShiftSwapped,
    n.ShiftedFirst,
    EpsilonTooLarge,
    n.UnbiasedVariance.but(root=n.EpsilonOutside.root),  # `std`, and `eps` behind it
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
    "exact_gelu": {"mend": '`F.gelu(x, approximate="tanh")`, or the formula with 0.044715.'},
    "epsilon_forgotten": {
        "what": "The norms' `eps` is smaller than 1e-5, or not added at all.",
        "why": "Where the channels of a token are nearly equal the result is another.",
        "mend": "1e-5, added to the variance, inside the root.",
    },
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
    properties=(*TEXT_PROPERTIES, *MODULE_PROPERTIES, *PART_PROPERTIES),
    misconceptions=Misconceptions.of(
        w.NormNotUsed,
        w.NormNotMade.on(
            WholeModel, mend="`self.norm`, one more of your own, between the last block and `head`."
        ),
        w.HeadWithBias,
        w.HeadTied,
        w.BlocksInAPlainList,
        w.OneBlockForAll.on(
            WholeModel,
            mend="Make a new block for each layer: `Block(…) for _ in range(num_layers)`.",
        ),
        *_in_words(IN_BLOCKS),
        *IN_NORMS,
        *IN_TABLES,
        w.PositionsNotAdded.on(
            WholeModel, mend="`embed` has two tables. Which of them does your `forward` read?"
        ),
        w.EmbeddingWithoutPositions.on(
            WholeModel, mend="`embed` is a module with two tables, `token` and `position`."
        ),
        w.EmbeddingScaled.on(
            WholeModel, mend="The two rows are added as they come out of their tables."
        ),
        w.AllInOneSequential,
        w.NormOfPyTorch.on(
            WholeModel, mend="A norm of your own, whose parameters are `scale` and `shift`."
        ),
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
        TwoDefaults,
        TokensAsHead,
        NormsOfPyTorch,
        InAttention.of(InAttention.of(NothingToSee), "blocking"),
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
    notes=_notes,
    forbidden=BUILT_IN,
    forbidden_text="The attention is yours to write: PyTorch's own is not allowed on this page.",
    hints=(
        "Write it from the inside out: a norm, an attention, a block, the model. Small classes "
        "whose attributes have the names printed in section 1. Does one fail? Load "
        "`small.state_dict()` into yours and compare part by part: `mine.norm(x)` with "
        "`small.norm(x)`, then `blocks[0].attention`, `blocks[0].feed_forward`, `blocks[0]`.",
        "Norm: `var(…, unbiased=False)`, `eps` under the root. Attention: three projections, "
        "`view(B, T, H, D).transpose(1, 2)`, scores over √D, the future at `-inf`, softmax, "
        "product, `transpose(1, 2).reshape(B, T, C)`, `out_proj`. Network: "
        '`F.gelu(…, approximate="tanh")`. Block: `x = x + attention(norm1(x))`, and the same '
        "with the network.",
        "The model: `embed` is a module with two tables, `token` and `position`; `blocks` an "
        "`nn.ModuleList`; `forward` refuses T > context_length, adds `position` of "
        "`torch.arange(T)`, goes through the blocks, and returns `head(norm(x))`.",
    ),
)
