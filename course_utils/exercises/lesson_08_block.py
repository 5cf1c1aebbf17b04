"""Lesson 08, second part: the whole block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import transformer
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES, inject
from .kit import block_mistakes as b
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.blocks import Block, BlockSizes, InAttention, block_oracle, block_sizes, block_weights
from .kit.branch_dropout import BRANCH_DROPOUT, block_dropout_case, see_branch_dropout
from .kit.draw import Draw
from .kit.dropout import TRAINS
from .kit.heads import padding_anywhere, padding_behind, padding_in_front
from .kit.many_heads import LISTENS, NO_FUTURE, NOTHING_KEPT, PADDING_SILENT

LESSON = "4-transformer/08_block"

GELUS = ("gelu", "gelu_", "GELU")


# ---------------------------------------------------------------- cases


def _case(
    draw: Draw,
    name: str,
    s: BlockSizes | None = None,
    *,
    x: Tensor | None = None,
    pad_mask: Callable[[Draw, int, int], Tensor] | Tensor | None = None,
    bias: bool = False,
    dtype: torch.dtype = torch.float32,
    size: float = 1.0,
    given: str = "",
    roles: str = "",
    **options: Any,
) -> Case:
    """`given` says how the constructor gets its arguments: three by position, all five "by
    position" or all five "by name"."""
    s = s or block_sizes(draw)
    if x is None:
        x = size * draw.normal(s.B, s.T, s.C, dtype=dtype)
    inputs = {"x": x}
    if pad_mask is not None:
        made = pad_mask if isinstance(pad_mask, Tensor) else pad_mask(draw, s.B, s.T)
        inputs["pad_mask"] = made
    named: dict[str, Any] = {"d_model": s.C, "num_heads": s.H, "context_length": s.length}
    if given:
        named |= {"dropout": 0.0, "qkv_bias": bias}
    by_name = given == "by name"
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": block_weights(draw, s, bias, dtype),
        "dtype": dtype,
        "heads": s.H,
    }
    if "typical" in roles:  # others are made beside it, with a shorter context
        options["others"] = [((), named | {"context_length": 1, "dropout": 0.9})]
    return Case(name, inputs, options=options, roles=set(roles.split()))


def _too_long(draw: Draw, name: str, padded: bool = False, times: int = 1) -> Case:
    limit = draw.integer(9, 12)
    B, T, C, H = 3, times * limit + 1, 20, 4
    inputs = {"x": draw.normal(B, T, C)}
    if padded:
        inputs["pad_mask"] = padding_behind(draw, B, T)
    made = {"args": (C, H, limit), "kwargs": {}, "heads": H, "train": padded}
    return Case(name, inputs, (str(T), str(limit)), made)


def _uneven(width: int, heads: int) -> Case:
    """Refused where it is made: there is no input."""
    made = {"args": (width, heads, 6), "kwargs": {}}
    return Case(f"{width} channels, {heads} heads", {}, (str(width), str(heads)), made)


def _blind(draw: Draw, B: int, T: int) -> Tensor:
    mask = padding_in_front(draw, B, T)
    mask[draw.integer(1, B - 1)] = True
    return mask


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw)
    full = torch.tensor([[True, False, False], [False, False, True]])
    turned, many = BlockSizes(270, 3, 5, 2, 6), BlockSizes(1, 500, 3, 2, 503)
    fifths = torch.arange(many.T)[None] % 5 == 4
    all_fit, one = BlockSizes(2, 3, 5, 1, 3), BlockSizes(1, 1, 3, 2, 5)
    given: dict[str, Any] = {"bias": True, "dtype": torch.float64, "given": "by position"}
    return [
        case("random numbers", roles="typical"),
        case("padding in front, one sequence all padding", pad_mask=_blind, roles="padded device"),
        case(
            "padding anywhere, made by name", pad_mask=padding_anywhere, bias=True, given="by name"
        ),
        case("float64, made by position", pad_mask=padding_behind, **given),
        case("one head, as many tokens as fit", all_fit, pad_mask=full, roles="small", once=True),
        case("one token", one, roles="small", once=True),
        case("a stream of big numbers", size=30.0, dtype=torch.float64),
        case("a stream of small numbers", size=0.01),
        block_dropout_case(draw),
        case(f"{many.T} tokens", many, pad_mask=fifths, roles="small", once=True),
        case(
            "270 sequences, not contiguous in memory",
            turned,
            x=draw.normal(270, turned.C, 3).mT,
            pad_mask=padding_anywhere,
            once=True,
        ),
        case("12 heads of 16", BlockSizes(2, 4, 16, 12, 7), once=True),
        _too_long(draw, "one token too many"),
        _too_long(draw, "one token too many, padded, in training", padded=True),
        _too_long(draw, "twice as many tokens as fit", times=2),
        _uneven(10, 4),
    ]


# ---------------------------------------------------------------- evidence


def _see_block(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More calls, by name: another future or other padding, another first token, short and long
    texts in turn, no mask after a mask, branches that add nothing; dropout at work."""
    see_branch_dropout(make, case, seen)
    if not case.roles & {"typical", "padded"}:
        return
    x, pad_mask = case["x"], case.inputs.get("pad_mask")
    half = (x.shape[1] + 1) // 2

    def call(module: Any, x: Tensor, mask: Tensor | None = pad_mask) -> Any:
        mask = None if mask is None else fresh(mask[-len(x) :, : x.shape[1]])
        with torch.no_grad():
            return module(x=fresh(x), pad_mask=mask)

    def made(training: bool = False) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return make(as_made=training)

    def other(tokens: Tensor) -> Tensor:
        return tokens.roll(1, -1) * 2 + 1  # other tokens to a norm, too

    one, two = made(training=True), made()  # with a dropout of 0 either mode gives the same
    seen.put("in training", call(one, x))
    changed = x.clone()
    if pad_mask is None:
        changed[:, half:] = other(x[:, half:])
        first = x.clone()
        first[:, 0] = other(x[:, 0])
        seen.put("first", call(two, first))
        _silence(silent := made())
        seen.put("silent", call(silent, x))
    else:
        changed[pad_mask] = other(x[pad_mask])
        seen.put("unmasked second", call(one, x, None))
        seen.put("masked third", call(one, x))
        seen.put("unmasked first", call(made(), x, None))
    seen.put("changed", call(two, changed))
    seen.put("short second", call(one, x[1:, :half]))
    seen.put("short first", call(two, x[1:, :half]))
    seen.put("long second", call(two, x))


def _silence(module: Any) -> None:
    """Both branches add nothing."""
    zeros: dict[str, Tensor] = {}
    for layer in ("attention.out_proj", "feed_forward.contract"):
        parts = module.get_submodule(layer)
        zeros |= {f"{layer}.{n}": torch.zeros_like(p) for n, p in parts.named_parameters()}
    inject(module, zeros)


def _untouched(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["silent"], case["x"])


PROPERTIES = (
    LISTENS,
    Property(
        "untouched",
        "Where `out_proj` and `contract` are zero, x comes out as it went in",
        _untouched,
        credit=True,
        role="typical",
    ),
    NO_FUTURE,
    PADDING_SILENT,
    NOTHING_KEPT,
    BRANCH_DROPOUT,
    TRAINS,
    *MODULE_PROPERTIES,
)


# ---------------------------------------------------------------- the exercise

IN_ATTENTION = tuple(
    InAttention.of(mistake)
    for mistake in (
        m.NoMask,
        m.SeesNextToken,
        m.NotScaled,
        h.ScaledByModelWidth,
        m.MaskAfterSoftmax,
        m.NanRows,
        m.UniformOnHidden,
        m.RowsHidden,
        m.RowsAndColumnsHidden,
        m.PaddingOnly,
        m.FirstSequencesMask,
        h.NeverTransposed,
        h.ViewWithoutTranspose,
        h.MergedWithoutTranspose,
        h.NeverSplit,
        h.NoOutProj,
        m.DropoutOnScores,
        m.DropoutInEvaluation,
        m.BiasAlways,
        m.FullLengthRefused,
        m.RefusedWithoutNumbers,
        mm.PaddingKept,
        mm.PaddingInTrainingOnly,
        mm.PaddingInTrainingOnly.but(mode=False),
    )
)

TRANSFORMER_BLOCK = Exercise(
    id="TransformerBlock",
    lesson=LESSON,
    call="TransformerBlock(d_model, num_heads, context_length)",
    points=2.5,
    kind="class",
    cases=_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_block),
    expect=expect_module(block_oracle),
    reference=transformer.TransformerBlock,
    properties=PROPERTIES,
    misconceptions=Misconceptions.of(
        b.ResidualAroundNormed,
        b.PostNorm,
        b.PadMaskNotHandedOn,
        b.OneNormTwice,
        b.NetworkDroppedTwice,
        b.AttentionNotDropped,
        b.NoResidual,
        b.NoSecondResidual,
        b.NoFirstResidual,
        b.FirstResidualAroundNormed,
        b.SecondResidualAroundNormed,
        b.ResidualFromInput,
        b.Parallel,
        b.WeightsNotDropped,
        b.NetworkNotDropped,
        b.BiasNotHandedOn,
        b.ContextAndHeadsSwapped,
        m.MaskRequired,
        b.NoNorms,
        b.FirstNormUnused,
        b.SecondNormUnused,
        b.BranchNormed,
        b.NormNamesSwapped,
        b.OneNormShared,
        b.NormedTwice,
        b.InputAddedAgain,
        b.NetworkReadsBranch,
        b.NetworkFirst,
        b.Averaged,
        b.AttentionUnused,
        b.NetworkUnused,
        b.NetworkTwice,
        b.StreamCutOff,
        b.BranchesCutOff,
        b.AddedInPlace,
        b.UnbiasedVariance,
        b.OverTokens,
        b.ExactGelu,
        b.Relu,
        b.NoBend,
        b.PaddingInverted,
        m.PaddedRowsCleared.on(
            Block,
            mend="Attention alone needs `pad_mask`, for its columns. The stream of a padded token "
            "goes on like any other.",
        ),
        m.TokensCleared,
        b.AttentionDroppedTwice,
        b.StreamDropped,
        b.ReadDropped,
        b.DroppedInTheMiddle,
        b.InEvaluation,
        b.BiasTakenForDropout,
        b.ContextFixed,
        m.PairReturned,
        b.LastTokenOnly,
        *IN_ATTENTION,
        on=Block,
    ),
    uses=("LayerNorm", "FeedForward", "gelu", "MultiHeadAttention"),
    hints=(
        "Five parts: `norm1`, `attention`, `dropout`, `norm2`, `feed_forward`. Each branch reads "
        "the stream through its norm, and what it finds is added to the stream *as it was*.",
        "The first branch: `norm1`, then attention with the `pad_mask`, then `dropout`. The "
        "second: `norm2`, then the network, which drops by itself. It reads the first sum.",
        "`x = x + self.dropout(self.attention(self.norm1(x), pad_mask))`, and the second line has "
        "the same form. Attention takes (d_in, d_out, context_length, num_heads, …).",
    ),
    other_way="""\
# A branch as a function of its own: the stream stays in sight, and nothing can be added twice.
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.attention = attention.MultiHeadAttention(
            d_in=d_model, d_out=d_model, context_length=context_length, num_heads=num_heads,
            dropout=dropout, qkv_bias=qkv_bias,
        )
        self.feed_forward = FeedForward(d_model, dropout=dropout)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        def listen(x):
            return self.dropout(self.attention(self.norm1(x), pad_mask))

        def think(x):
            return self.feed_forward(self.norm2(x))

        for branch in [listen, think]:
            x = x + branch(x)
        return x
""",
    forbidden=("_transformer_encoder_layer_fwd",),
    forbidden_text="The block is the exercise: put it together from norms, attention and network.",
)
