"""Lesson 11, second part: the blocks of an encoder and of a decoder."""

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
from .kit import two_texts_mistakes as t
from .kit.blocks import InAttention, norm_oracle, under
from .kit.draw import Draw
from .kit.dropout import TRAINS
from .kit.heads import padding_anywhere, padding_behind
from .kit.many_heads import NOTHING_KEPT
from .kit.post_dropout import (
    HEADS,
    LENGTH,
    POST_DROPOUT,
    WIDE,
    WIDTH,
    post_dropout_case,
    see_post_dropout,
)
from .kit.two_texts import (
    Decoder,
    Encoder,
    TwoSizes,
    decoder_oracle,
    encoder_oracle,
    post_weights,
    two_sizes,
)
from .lesson_11_cross import LESSON, WHOLE, blind

ENCODER, DECODER = ("attention",), ("self_attention", "cross_attention")
LAYERS = ("_transformer_encoder_layer_fwd", *WHOLE)
Mask = Callable[[Draw, int, int], Tensor] | None


# ---------------------------------------------------------------- cases


def _case(
    draw: Draw,
    attentions: tuple[str, ...],
    name: str,
    s: TwoSizes | None = None,
    *,
    pad_mask: Mask = None,
    context_pad_mask: Mask = None,
    dtype: torch.dtype = torch.float32,
    given: str = "",
    roles: str = "",
    size: float = 1.0,
    loud: float = 1.0,
    **options: Any,
) -> Case:
    """`loud` is how much more than usual the middle of the network gets."""
    s = s or two_sizes(draw)
    inputs: dict[str, Any] = {"x": size * draw.normal(s.B, s.T, s.C, dtype=dtype)}
    masks: dict[str, Any] = {"pad_mask": pad_mask(draw, s.B, s.T)} if pad_mask else {}
    named: dict[str, Any] = {"d_model": s.C, "num_heads": s.H, "d_ff": s.wide}
    if attentions == DECODER:
        inputs["context"] = draw.normal(s.B, s.S, s.C, dtype=dtype)
        if context_pad_mask:
            masks.setdefault("pad_mask", None)
            masks["context_pad_mask"] = context_pad_mask(draw, s.B, s.S)
        named["context_length"] = s.length
    if given:
        named["dropout"] = 0.0
    by_name = given == "by name"
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": post_weights(draw, attentions, s.C, s.wide, dtype),
        "dtype": dtype,
        "heads": s.H,
    }
    options["weights"]["feed_forward.expand.weight"].mul_(loud)
    if "typical" in roles:  # others are made beside it
        options["others"] = [((), named | {"dropout": 0.9})]
    return Case(name, inputs | masks, options=options, roles=set(roles.split()))


def _refused(name: str, args: tuple[int, ...], *numbers: int) -> Case:
    """Refused where it is made: there is no input."""
    return Case(name, {}, tuple(map(str, numbers)), {"args": args, "kwargs": {}})


def _encoder_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw, ENCODER)
    weights = post_weights(draw, ENCODER, WIDTH, WIDE)
    long = TwoSizes(2, 150, 0, 5, 4, 22)
    return [
        case("random numbers", roles="typical"),
        case(
            "float64, padding in front, one text all padding",
            pad_mask=blind,
            dtype=torch.float64,
            roles="padded device",
        ),
        case(
            "padding anywhere, made by name", pad_mask=padding_anywhere, given="by name", once=True
        ),
        case(
            "small tokens, a loud network, made by position",
            size=0.05,
            loud=10.0,
            dtype=torch.float64,
            given="by position",
            once=True,
        ),
        post_dropout_case(draw, (WIDTH, HEADS, WIDE), weights, context=False),
        case("one token", TwoSizes(2, 1, 0, 5, 3, 7), roles="small", once=True),
        case(f"{long.T} tokens", long, pad_mask=padding_behind, roles="small", once=True),
        _refused("10 channels, 4 heads", (10, 4, 30), 10, 4),
    ]


def _too_long(draw: Draw, name: str, padded: bool = False) -> Case:
    limit = draw.integer(9, 12)
    B, T, S, C, H = 3, limit + 1, 6, 20, 4
    inputs = {"x": draw.normal(B, T, C), "context": draw.normal(B, S, C)}
    if padded:
        inputs["pad_mask"] = padding_behind(draw, B, T)
    made = {"args": (C, H, 30, limit), "kwargs": {}, "heads": H, "train": padded}
    return Case(name, inputs, (str(T), str(limit)), made)


def _decoder_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw, DECODER)
    weights = post_weights(draw, DECODER, WIDTH, WIDE)
    same, long = TwoSizes(3, 4, 4, 5, 2, 11, 6), TwoSizes(1, 7, 300, 5, 2, 12, 7)
    return [
        case("random numbers", roles="typical"),
        case(
            "float64, both padded, one context all padding",
            pad_mask=padding_anywhere,
            context_pad_mask=blind,
            dtype=torch.float64,
            roles="padded device",
        ),
        case(
            "the context padded, a loud network",
            context_pad_mask=padding_behind,
            loud=10.0,
            dtype=torch.float64,
            once=True,
        ),
        case(
            "the target padded, made by name",
            pad_mask=padding_anywhere,
            given="by name",
            once=True,
        ),
        case(
            "as many tokens in both texts",
            same,
            pad_mask=padding_behind,
            context_pad_mask=padding_anywhere,
            given="by position",
            roles="small",
            once=True,
        ),
        post_dropout_case(draw, (WIDTH, HEADS, WIDE, LENGTH), weights, context=True),
        case("one token each", TwoSizes(2, 1, 1, 5, 3, 7, 4), roles="small", once=True),
        case(
            "as many tokens as fit, a long context",
            long,
            context_pad_mask=padding_behind_some,
            roles="small",
            once=True,
        ),
        _too_long(draw, "one token too many"),
        _too_long(draw, "one token too many, padded, in training", padded=True),
        _refused("10 channels, 4 heads", (10, 4, 30, 6), 10, 4),
    ]


def padding_behind_some(draw: Draw, B: int, S: int) -> Tensor:
    return (torch.arange(S) % 5 == 4).expand(B, -1).clone()


# ---------------------------------------------------------------- evidence


def _other(tokens: Tensor) -> Tensor:
    return tokens.roll(1, -1) * 2 + 1  # other tokens to a norm, too


def _silence(module: Any, names: list[str]) -> Any:
    """These layers add nothing."""
    zeros: dict[str, Tensor] = {}
    for name in names:
        layer = module.get_submodule(name)
        zeros |= {f"{name}.{n}": torch.zeros_like(p) for n, p in layer.named_parameters()}
    inject(module, zeros)
    return module


def _look(
    make: Callable[..., Any], case: Case, seen: Observation, attentions: tuple[str, ...]
) -> None:
    """More calls, by name: other first and last tokens, other padding, short texts after long ones,
    no mask after a mask, branches that add nothing; dropout at work."""
    see_post_dropout(make, case, seen)
    if not case.roles & {"typical", "padded"}:
        return
    given = dict(case.inputs)

    def call(module: Any, **changed: Any) -> Any:
        with torch.no_grad():
            return module(**{n: fresh(v) for n, v in (given | changed).items()})

    def made(training: bool = False) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return make(as_made=training)

    one, two = made(training=True), made()  # with a dropout of 0 either mode gives the same
    seen.put("in training", call(one))
    texts = {"x": "pad_mask", "context": "context_pad_mask"}
    for text, mask in texts.items():
        if text not in given:
            continue
        if case.roles & {"typical"}:
            for place in (0, -1):
                changed = given[text].clone()
                changed[:, place] = _other(changed[:, place])
                seen.put(f"{text} {place}", call(two, **{text: changed}))
        else:
            changed = given[text].clone()
            changed[given[mask]] = _other(changed[given[mask]])
            seen.put(f"other padding in {text}", call(two, **{text: changed}))
    if "typical" in case.roles:
        layers = [*(f"{name}.out_proj" for name in attentions), "feed_forward.contract"]
        seen.put("silent", call(_silence(made(), layers)))
    else:
        none = {mask: None for mask in texts.values() if mask in given}
        seen.put("unmasked second", call(one, **none))
        seen.put("masked third", call(one))
        seen.put("unmasked first", call(made(), **none))
    short = {n: v[1:, :2] for n, v in given.items()}
    seen.put("short second", call(one, **short))
    seen.put("short first", call(two, **short))
    seen.put("long second", call(two))


def _silent_branches(case: Case, seen: Observation, expected: Expected) -> Verdict:
    x, place = case["x"].double(), 1
    weights = {n: w.double() for n, w in case.options["weights"].items()}
    while norm := under(weights, f"norm{place}"):
        x, place = norm_oracle(norm, x), place + 1
    return near(seen.tensors["silent"], x)


def _hears(text: str, place: int, by: int) -> Callable[[Case, Observation, Expected], Verdict]:
    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return not near(seen.tensors["out"][:, by], seen.tensors[f"{text} {place}"][:, by])

    return holds


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, :-1], seen.tensors["x -1"][:, :-1])


def _padding_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["other padding in x"][real])


def _context_padding_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"], seen.tensors["other padding in context"])


SILENT = Property(
    "silent_branches",
    "Where no branch adds anything, x comes out normed, once by each norm",
    _silent_branches,
    credit=True,
    role="typical",
)
PADDING = Property(
    "padding",
    "What stands in the padding has no say in real tokens",
    _padding_silent,
    credit=True,
    role="padded",
)
SAME_FOR_BOTH = (NOTHING_KEPT, POST_DROPOUT, TRAINS, *MODULE_PROPERTIES)

ENCODER_PROPERTIES = (
    Property(
        "listens",
        "A token listens to the tokens before it",
        _hears("x", 0, by=-1),
        gate=True,
        role="typical",
    ),
    Property(
        "looks_ahead",
        "A token listens to the tokens after it: a text that is read is there as a whole",
        _hears("x", -1, by=0),
        credit=True,
        role="typical",
    ),
    SILENT,
    PADDING,
    *SAME_FOR_BOTH,
)
DECODER_PROPERTIES = (
    Property(
        "listens",
        "A token listens to the context",
        _hears("context", -1, by=-1),
        gate=True,
        role="typical",
    ),
    Property(
        "whole_context",
        "The first token may look at the last one of the context",
        _hears("context", -1, by=0),
        credit=True,
        role="typical",
    ),
    Property(
        "looks_back",
        "A token listens to the tokens before it",
        _hears("x", 0, by=-1),
        credit=True,
        role="typical",
    ),
    Property(
        "no_future",
        "A later token of the target has no say in an earlier one",
        _no_future,
        credit=True,
        role="typical",
    ),
    SILENT,
    PADDING,
    Property(
        "context_padding",
        "What stands in the context's padding has no say",
        _context_padding_silent,
        credit=True,
        role="padded",
    ),
    *SAME_FOR_BOTH,
)


# ---------------------------------------------------------------- misconceptions of both


def _norm_mistakes(block: type) -> tuple[Any, ...]:
    """What goes wrong with the norms of either block."""
    sums = "Add first, then norm the sum."
    return (
        t.PreNorm,
        b.BranchNormed.on(
            block,
            what="The norms are applied to what the branches give, not to the sums.",
            why="The stream itself is then never normed, and grows from block to block.",
            mend="Which comes first in Post-LN, the `+` or the norm?",
        ),
        t.NormedBeforeTheSum,
        t.GeluForRelu,
        t.NoBend,
        b.NoNorms.on(
            block,
            what="The norms exist but are not used: the sums go on as they are.",
            mend=sums,
        ),
        b.FirstNormUnused.on(block, what="The first sum goes on without a norm.", mend=sums),
        b.OneNormTwice.on(
            block,
            what="`norm1` serves after each sum; the other norms are never used.",
            why="Made anew all give the same, so nothing shows; trained, each has its own scale "
            "and shift.",
            mend="Read the lines aloud: one name comes again.",
        ),
        b.OneNormShared.on(
            block,
            what="The norms are one and the same module.",
            why="Each sum needs a scale and a shift of its own.",
            mend="Make a new `LayerNorm` for each in the constructor.",
        ),
        b.NormNamesSwapped,
        t.NormedOnBothSides,
        t.LastSumNotNormed,
    )


def _stream_mistakes(block: type) -> tuple[Any, ...]:
    """What goes wrong with the stream and the branches of either block."""
    return (
        b.NoFirstResidual.on(block, mend="Every other branch has a `+` before it. Does this?"),
        b.NoSecondResidual.on(block, mend="Every other branch has a `+` before it. Does this?"),
        b.ResidualFromInput.on(
            block,
            what="The last branch is added to the tokens as they came into the block.",
            mend="The last `+` begins where the one before it ended.",
        ),
        b.Parallel.on(
            block,
            what="The network reads the tokens as they came in; it doesn't see what attention "
            "found.",
            mend="What does the last branch read: x before, or after the sum before it?",
        ),
        b.Averaged.on(
            block,
            why="A norm hides it nearly, and the numbers of a trained model miss.",
            mend="Add, and leave the size to the norm.",
        ),
        b.AttentionUnused,
        b.NetworkUnused.on(
            block,
            why="What was heard is never thought about, and many parameters do nothing.",
            mend="What should the last branch add?",
        ),
        t.BentAtTheEnd,
        t.FourTimesAsWide,
        b.PadMaskNotHandedOn,
        b.PaddingInverted,
        b.BranchesCutOff,
        b.StreamCutOff,
        b.AddedInPlace,
        t.NothingDropped,
        b.NetworkNotDropped.on(
            block,
            what="What the network adds is not dropped.",
            why="Whoever asks for dropout=0.1 expects it on each branch.",
            mend="Does the network get `dropout`, and does what it gives go through it?",
        ),
        t.SumDropped,
        b.InEvaluation,
        m.PairReturned,
        b.LastTokenOnly,
    )


IN_EITHER = (
    m.NotScaled,
    h.ScaledByModelWidth,
    h.NeverTransposed,
    h.MergedWithoutTranspose,
    h.NoOutProj,
    m.MaskAfterSoftmax,
    m.NanRows,
    m.RowsHidden,
)


# ---------------------------------------------------------------- EncoderBlock


def _network_first(self, x, pad_mask=None):
    middle = self.settled(x + self.thought(x, x))
    return self.settled_again(middle + self.listened(middle, pad_mask))


ENCODER_BLOCK = Exercise(
    id="EncoderBlock",
    lesson=LESSON,
    call="EncoderBlock(d_model, num_heads, d_ff)",
    points=1.5,
    kind="class",
    cases=_encoder_cases,
    probe=ModuleProbe(gradients=("x",), extra=partial(_look, attentions=ENCODER)),
    expect=expect_module(encoder_oracle),
    reference=transformer.EncoderBlock,
    properties=ENCODER_PROPERTIES,
    misconceptions=Misconceptions.of(
        InAttention.of(t.CausalHere),
        *_norm_mistakes(Encoder),
        *_stream_mistakes(Encoder),
        b.NoResidual,
        b.NetworkFirst.but(forward=_network_first),
        m.MaskRequired,
        m.PaddedRowsCleared.on(
            Encoder,
            mend="Attention alone needs `pad_mask`, for its columns. The stream of a padded token "
            "goes on like any other.",
        ),
        m.TokensCleared,
        mm.PaddingKept,
        *(InAttention.of(mistake) for mistake in IN_EITHER),
        InAttention.of(h.UnevenHeadsAccepted),
        on=Encoder,
    ),
    uses=("CrossAttention", "LayerNorm", "FeedForward", "gelu"),
    hints=(
        "Two branches as in lesson 08, but each sum is normed, and what a branch reads is not.",
        "`CrossAttention` takes two texts. Who asks here, and who is asked? The network is "
        "`expand`, ReLU, `contract`, and its width is `d_ff`.",
        "`x = self.norm1(x + self.dropout(self.attention(x, x, pad_mask)))`, and the second line "
        "has the same form.",
    ),
    other_way="""\
# The network as a Sequential with named layers: `feed_forward.expand` is the same name as before.
from collections import OrderedDict

class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.attention = attention.CrossAttention(d_model, num_heads, dropout)
        self.feed_forward = nn.Sequential(OrderedDict(
            expand=nn.Linear(d_model, d_ff), bend=nn.ReLU(),
            contract=nn.Linear(d_ff, d_model), drop=nn.Dropout(dropout),
        ))
        self.norm1 = transformer.LayerNorm(d_model)
        self.norm2 = transformer.LayerNorm(d_model)

    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.attention(x, context=x, context_pad_mask=pad_mask))
        return self.norm2(x + self.feed_forward(x))
""",
    forbidden=LAYERS,
    forbidden_text="The block is the exercise: put it together from attention, network and norms.",
)


# ---------------------------------------------------------------- DecoderBlock

DECODER_BLOCK = Exercise(
    id="DecoderBlock",
    lesson=LESSON,
    call="DecoderBlock(d_model, num_heads, d_ff, context_length)",
    points=2.0,
    kind="class",
    cases=_decoder_cases,
    probe=ModuleProbe(gradients=("x", "context"), extra=partial(_look, attentions=DECODER)),
    expect=expect_module(decoder_oracle, gradients=("x", "context")),
    reference=transformer.DecoderBlock,
    properties=DECODER_PROPERTIES,
    misconceptions=Misconceptions.of(
        InAttention.of(m.NoMask),
        t.CrossFirst,
        t.TargetForContext,
        t.MasksSwapped,
        t.ContextMaskNotHandedOn,
        t.TargetMaskOnContext,
        t.AskedWithInput,
        t.AskedNotNormed,
        t.TextsSwapped,
        *_norm_mistakes(Decoder),
        *_stream_mistakes(Decoder),
        b.NoResidual.but(joined_again=lambda self, x, middle, branch: branch).on(
            Decoder,
            what="No branch is added to its input: what comes out is what the last branch made.",
        ),
        b.SecondNormUnused.on(
            Decoder, what="The second sum goes on without a norm.", mend="Each sum has its norm."
        ),
        t.ContextUnused,
        t.NoCrossResidual,
        t.CrossAddedToInput,
        t.CrossFirstWithItsNorm,
        t.SideBySideBranches,
        t.ContextNormed,
        t.ContextMaskInverted,
        t.OneAttentionForBoth,
        t.CrossCutOff,
        t.BothMasksRequired,
        t.WidthAndContextSwapped,
        InAttention.of(t.CausalHere, "crossing"),
        InAttention.of(t.CausalWhereItFits, "crossing"),
        *(InAttention.of(mistake) for mistake in IN_EITHER),
        InAttention.of(m.SeesNextToken),
        InAttention.of(m.PaddingOnly),
        InAttention.of(m.FullLengthRefused),
        InAttention.of(m.LongTextAccepted).on(
            Decoder,
            mend="Self-attention refuses by itself: does it get the block's `context_length`?",
        ),
        on=Decoder,
    ),
    uses=("CrossAttention", "EncoderBlock", "MultiHeadAttention", "LayerNorm", "FeedForward"),
    hints=(
        "Three branches, three sums, three norms. The first looks back at the target, the second "
        "asks the context, the third thinks.",
        "Self-attention is causal and gets `pad_mask`. Cross-attention asks with what the first "
        "norm gave; it looks at `context`, and gets `context_pad_mask`.",
        "`x = self.norm2(x + self.dropout(self.cross_attention(x, context, context_pad_mask)))` is "
        "the second of three lines of one form.",
    ),
    other_way="""\
# One rule for all three: a branch, a sum, a norm.
class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__()
        self.self_attention = attention.MultiHeadAttention(
            d_in=d_model, d_out=d_model, context_length=context_length,
            num_heads=num_heads, dropout=dropout,
        )
        self.cross_attention = attention.CrossAttention(d_model, num_heads, dropout)
        self.feed_forward = transformer.ReLUFeedForward(d_model, d_ff, dropout)
        self.norm1 = transformer.LayerNorm(d_model)
        self.norm2 = transformer.LayerNorm(d_model)
        self.norm3 = transformer.LayerNorm(d_model)

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        steps = [
            (self.norm1, lambda x: self.self_attention(x, pad_mask)),
            (self.norm2, lambda x: self.cross_attention(x, context, context_pad_mask)),
            (self.norm3, self.feed_forward),
        ]
        for norm, branch in steps:
            x = norm(x + branch(x))
        return x
""",
    forbidden=LAYERS,
    forbidden_text="The block is the exercise: put it together from attentions, network and norms.",
)
