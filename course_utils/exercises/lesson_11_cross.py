"""Lesson 11, first part: attention from one text to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import attention
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
from ..checking.modules import MODULE_PROPERTIES
from .kit import dropout as d
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit import two_texts_mistakes as t
from .kit.draw import Draw
from .kit.dropout import TRAINS, see_dropout
from .kit.heads import blind, padding_anywhere, padding_behind
from .kit.many_heads import NOTHING_KEPT
from .kit.two_texts import Cross, TwoSizes, cross_oracle, cross_weights, two_sizes

LESSON = "5-encoder-decoder/11_cross_attention"

WHOLE = ("multi_head_attention_forward", "_native_multi_head_attention")


# ---------------------------------------------------------------- cases


def _case(
    draw: Draw,
    name: str,
    s: TwoSizes | None = None,
    *,
    texts: tuple[Tensor, Tensor] | None = None,
    pad_mask: Callable[[Draw, int, int], Tensor] | Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    given: str = "",
    roles: str = "",
    **options: Any,
) -> Case:
    s = s or two_sizes(draw)
    x, context = texts or (
        draw.normal(s.B, s.T, s.C, dtype=dtype),
        draw.normal(s.B, s.S, s.C, dtype=dtype),
    )
    inputs = {"x": x, "context": context}
    if pad_mask is not None:
        made = pad_mask if isinstance(pad_mask, Tensor) else pad_mask(draw, s.B, s.S)
        inputs["context_pad_mask"] = made
    named: dict[str, Any] = {"d_model": s.C, "num_heads": s.H}
    if given:
        named |= {"dropout": 0.0}
    by_name = given == "by name"
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": cross_weights(draw, s.C, dtype),
        "dtype": dtype,
        "heads": s.H,
    }
    if "typical" in roles:
        options["others"] = [((), named | {"dropout": 0.9})]
    return Case(name, inputs, options=options, roles=set(roles.split()))


def _big_numbers(draw: Draw) -> Case:
    """Scores in the ten thousands, so far apart that rounding changes no weight."""
    s = TwoSizes(4, 5, 3, 7, 2)
    while True:
        x, context = (300 * draw.normal(s.B, n, s.C, dtype=torch.float64) for n in (s.T, s.S))
        case = _case(
            draw,
            "big numbers",
            s,
            texts=(x, context),
            dtype=torch.float64,
            pad_mask=padding_behind,
            once=True,
        )
        weights = case.options["weights"]
        query, key = (
            (tokens @ weights[f"{n}.weight"].mT).unflatten(-1, (s.H, s.D)).transpose(1, 2)
            for n, tokens in (("query", x), ("key", context))
        )
        scores = query @ key.mT / math.sqrt(s.D)
        if bool((scores.sort(dim=-1).values.diff(dim=-1) > 100).all()):
            return case


def _dropout_case(draw: Draw, heads: int) -> Case:
    """As `dropout.dropout_case`, from three queries to four keys; what comes in is as wide as what
    goes out."""
    C = heads * d.WIDTH
    places = torch.eye(d.TOKENS).expand(d.SEQUENCES, -1, -1)
    told = draw.normal(d.SEQUENCES, d.TOKENS, d.FEATURES)
    asked = draw.normal(d.SEQUENCES, d.TOKENS - 1, d.FEATURES)
    context, x = torch.zeros(*told.shape[:2], C), torch.zeros(*asked.shape[:2], C)
    context[..., : d.TOKENS], context[..., d.TOKENS : d.D_IN] = places, told
    x[..., d.TOKENS : d.D_IN] = asked
    made = [d._head(draw) for _ in range(heads)]
    weights = d.split(made)
    for name in ("query", "key", "value"):
        narrow = weights[f"{name}.weight"]
        weights[f"{name}.weight"] = torch.cat([narrow, narrow.new_zeros(C, C - d.D_IN)], 1)
    scores = [
        (x[..., : d.D_IN].double() @ one["query.weight"].double().mT)
        @ (context[..., : d.D_IN].double() @ one["key.weight"].double().mT).mT
        / math.sqrt(d.WIDTH)
        for one in made
    ]
    options = {
        "args": (C, heads),
        "kwargs": {"dropout": (23, 33, 43)[draw.integer(0, 2)] / 100},
        "weights": weights,
        "scores": torch.stack(scores, 1),
        "pad_mask": torch.rand(context.shape[:2], generator=draw.generator) < 0.25,
        "heads": heads,
    }
    return Case("dropout", {"x": x, "context": context}, options=options, roles={"dropout"})


def _uneven(width: int, heads: int) -> Case:
    """Refused where it is made: there is no input."""
    made = {"args": (width, heads), "kwargs": {}}
    return Case(f"{width} channels, {heads} heads", {}, (str(width), str(heads)), made)


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw)
    equal = case("equal scores, some tokens of zeros", once=True)
    equal.options["weights"]["query.weight"].zero_()
    equal["context"][0, ::2] = 0.0
    same, double = TwoSizes(3, 4, 4, 5, 2), torch.float64
    turned, long = TwoSizes(270, 3, 4, 5, 2), TwoSizes(2, 3, 500, 5, 4)
    strided = draw.normal(270, turned.C, 3).mT, draw.normal(270, turned.C, 4).mT
    fifths = (torch.arange(long.S) % 5 == 4).expand(2, -1)
    return [
        case("random numbers", roles="typical"),
        case(
            "float64, padding in front, one context all padding",
            pad_mask=blind,
            dtype=double,
            roles="padded device",
        ),
        case(
            "padding anywhere, made by name", pad_mask=padding_anywhere, given="by name", once=True
        ),
        case("float64, made by position", dtype=double, given="by position", once=True),
        case("as many queries as keys", same, pad_mask=padding_behind, roles="small", once=True),
        case("one query, one head", TwoSizes(2, 1, 3, 5, 1), roles="small", once=True),
        case("one key", TwoSizes(2, 3, 1, 5, 2), roles="small", once=True),
        _big_numbers(draw),
        equal,
        _dropout_case(draw, 2),
        case(f"{long.S} keys", long, pad_mask=fifths, roles="small", once=True),
        case("270 texts, not contiguous in memory", turned, texts=strided, once=True),
        case("12 heads of 16", TwoSizes(2, 4, 5, 16, 12), once=True),
        _uneven(10, 4),
    ]


# ---------------------------------------------------------------- evidence


def _see_cross(build: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More calls, by name: other last tokens on either side, other padding, short texts after long
    ones, no mask after a mask, another context as long; dropout at work."""
    see_dropout(build, case, seen)
    if not case.roles & {"typical", "padded"}:
        return
    x, context, mask = case["x"], case["context"], case.inputs.get("context_pad_mask")

    def call(module: Any, x: Tensor, context: Tensor, mask: Tensor | None = mask) -> Any:
        mask = None if mask is None else fresh(mask[-len(x) :, : context.shape[1]])
        with torch.no_grad():
            return module(x=fresh(x), context=fresh(context), context_pad_mask=mask)

    def made(training: bool = False) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return build(as_made=training)

    one, other = made(training=True), made()  # with a dropout of 0 either mode gives the same
    seen.put("in training", call(one, x, context))
    if mask is None:
        changed = context.clone()
        changed[:, -1] += 1.0
        seen.put("last key", call(other, x, changed))
        asked = x.clone()
        asked[:, -1] += 1.0
        seen.put("last query", call(made(), asked, context))
    else:
        changed = context.clone()
        changed[mask] += 1.0
        seen.put("other padding", call(other, x, changed))
        seen.put("unmasked second", call(one, x, context, None))
        seen.put("masked third", call(one, x, context))
        seen.put("unmasked first", call(made(), x, context, None))
    seen.put("few second", call(one, x, context.flip(0)))
    seen.put("few first", call(made(training=True), x, context.flip(0)))
    seen.put("short second", call(one, x[1:, :2], context[1:, :2]))
    seen.put("short first", call(other, x[1:, :2], context[1:, :2]))
    seen.put("long second", call(other, x, context))


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out, other = seen.tensors["out"], seen.tensors["last key"]
    return not near(out[:, -1], other[:, -1])


def _whole(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out, other = seen.tensors["out"], seen.tensors["last key"]
    return bool(((out - other).abs().amax(-1) > 1e-4).all())


def _own_question(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out, other = seen.tensors["out"], seen.tensors["last query"]
    return near(out[:, :-1], other[:, :-1]) and not near(out[:, -1], other[:, -1])


def _padding_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"], seen.tensors["other padding"])


def _nothing_seen(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = seen.tensors["out"][case["context_pad_mask"].all(1)]
    return near(rows, case.options["weights"]["out_proj.bias"].expand_as(rows))


ELSEWHERE = ("drops channels of the values", "drops channels of the result")


def _dropout(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """On the weights, the values or the result, but once."""
    found = d._dropout(case, seen, expected)
    if not isinstance(found, str) or found.removesuffix(d.PADDED) not in ELSEWHERE:
        return found
    draws = [seen.tensors[f"draw:{name}"].double() for name in ("1", "1 again", "2", "2 again")]
    if torch.equal(draws[0], draws[1]) or torch.equal(draws[0], draws[2]):
        return "draws once for all calls"
    still = seen.tensors["out"].double()
    mean = float((torch.stack(draws).mean(0) * still).sum() / still.square().sum())
    return True if abs(mean - 1) < 0.1 else "doesn't scale what is left by 1/(1 - p)"


PROPERTIES = (
    Property("listens", "A query listens to the context", _listens, gate=True, role="typical"),
    Property(
        "whole_context",
        "Every query may look at the last key: nothing is causal here",
        _whole,
        credit=True,
        role="typical",
    ),
    Property(
        "own_question",
        "A query changes its own row, and no other",
        _own_question,
        credit=True,
        role="typical",
    ),
    Property(
        "padding",
        "What stands in the context's padding has no say",
        _padding_silent,
        credit=True,
        role="padded",
    ),
    Property(
        "nothing_seen",
        "Where all of the context is padding, the bias of `out_proj` comes out",
        _nothing_seen,
        credit=True,
        role="padded",
    ),
    NOTHING_KEPT,
    Property(
        "dropout",
        "In training, dropout sets single weights or channels to 0, once, and scales the others by "
        "1/(1 - p)",
        _dropout,
        role="dropout",
        any_number=True,
        draws=True,
        breaks=d.DROPOUT.breaks,
    ),
    TRAINS,
    *MODULE_PROPERTIES,
)


# ---------------------------------------------------------------- the exercise

_CONTEXTS = {
    "why": "A translation changes with the batch that its source is in.",
    "mend": "`context_pad_mask` is `(B, S)`. Where do scores, (B, H, T, S), have the keys?",
}

CROSS_MISTAKES = (
    t.CausalHere,
    t.CausalWhereItFits,
    t.SidesSwapped,
    t.ContextIgnored,
    m.NotScaled,
    h.ScaledByModelWidth.on(
        Cross, what="You divided by the root of `d_model`, the width of all heads together."
    ),
    m.PadMaskIgnored.on(Cross, what="`context_pad_mask` has no effect.", **_CONTEXTS),
    m.RowsHidden.on(
        Cross,
        what="The context's mask was laid over the *rows* of the scores, not over their columns.",
        why="Rows belong to `x`: with as many tokens in both texts there is no error, only the "
        "wrong mask.",
        mend="Rows ask, columns are asked. Which of them are the tokens of the context?",
    ),
    m.PaddingInverted.on(
        Cross,
        mend="`True` in `context_pad_mask` is padding, to be hidden. Only a built-in that asks who "
        "takes part wants it turned round, with `~`.",
    ),
    m.NanRows,
)

CROSS_ATTENTION = Exercise(
    id="CrossAttention",
    lesson=LESSON,
    call="CrossAttention(d_model, num_heads)",
    points=2.0,
    kind="class",
    cases=_cases,
    probe=ModuleProbe(gradients=("x", "context"), extra=_see_cross),
    expect=expect_module(cross_oracle, gradients=("x", "context")),
    reference=attention.CrossAttention,
    properties=PROPERTIES,
    misconceptions=Misconceptions.of(
        *CROSS_MISTAKES,
        t.KeysFromTarget,
        t.ValuesFromTarget,
        t.TargetIgnored,
        t.QueriesFromContext,
        t.BothTextsHeard,
        h.PadMaskWithoutHeads.on(
            Cross,
            what="The context's padding mask has the shape (B, 1, S), which lines up with the "
            "heads and not the batch.",
        ),
        h.PadMaskAsItComes.on(
            Cross,
            what="The context's padding mask of shape (B, S) was used as it comes: its batch lines "
            "up with the queries.",
            why="Scores are (B, H, T, S); only when B and T happen to be equal is there no error.",
        ),
        t.ContextMaskRequired.on(
            Cross, what="`forward` can't be called without a `context_pad_mask`."
        ),
        h.MaskAlwaysUsed.on(
            Cross,
            what="`forward` uses `context_pad_mask` even where there is none, and None can't be "
            "indexed.",
            mend="Ask first whether there is a `context_pad_mask`; without one, nothing is hidden.",
        ),
        h.NeverTransposed,
        h.ViewWithoutTranspose,
        h.MergedWithoutTranspose,
        h.ViewAfterTranspose,
        h.HeadsNotJoined,
        h.NeverSplit,
        h.NoOutProj,
        h.OutProjWithoutBias.on(
            Cross, why="Query, key and value have none here; `out_proj` always has one."
        ),
        m.BiasAlways.on(
            Cross,
            what="The projections have a bias: `nn.Linear` adds one by default.",
        ),
        h.UnevenHeadsAccepted.on(
            Cross,
            what="A `d_model` that can't be divided by `num_heads` is accepted where the module is "
            "made.",
        ),
        h.KeyNotTransposed.on(
            Cross,
            why="`query @ …` wants (B, H, D, S): the heads stay in front, and each compares for "
            "itself.",
        ),
        h.KeyNotSplit,
        m.QueryAndKeySwapped,
        t.KeysFromQueries,
        t.QueriesFromKeys,
        t.ValuesFromKeys,
        t.TokensAsValues,
        mm.KeysAndValuesSwapped,
        mm.WeightUsedUntransposed,
        m.RootMissing,
        m.Multiplied,
        m.ScaledByTokens,
        mm.ScaledAfterSoftmax,
        m.MaskAfterSoftmax,
        m.UniformOnHidden,
        m.NanInGradient,
        m.MaskDroppedWhenEmpty,
        m.ZeroFill,
        m.FillNotLowEnough,
        m.MaskInverted.on(
            Cross, why="In this course `True` means hidden.", mend="Turn the mask round."
        ),
        m.OverQueries,
        m.FirstSequencesMask.on(
            Cross,
            what="Every text got the context's padding mask of text 0.",
            why="The contexts of a batch have different lengths; that is why there is a mask.",
            mend="Each has its own row of `context_pad_mask`. Where is the first taken for all?",
        ),
        mm.AnySequencesPadding.on(
            Cross,
            mend="`context_pad_mask` is `(B, S)`: no `any` or `all` over the batch is needed.",
        ),
        t.ContextCleared,
        t.ContextPaddingKept.on(
            Cross,
            why="Each batch has its own padding, and a call without a `context_pad_mask` has none.",
            mend="Don't keep `context_pad_mask` in the module: use it as an argument.",
        ),
        mm.PaddingInTrainingOnly.on(
            Cross,
            what="`context_pad_mask` takes effect in one mode only, in training or in evaluation.",
        ),
        h.PaddingForSomeHeads,
        h.SplitInterleaved,
        h.MergedInterleaved,
        h.OutProjAdded,
        h.OutProjBiasUnused,
        h.KeysOfTheFirstHead,
        m.NoDropout,
        m.DropoutInEvaluation,
        m.DropoutFixed,
        m.DropoutOnScores,
        m.DropoutTwice,
        mm.DropoutKeepsShare,
        mm.DropoutTwiceOnWeights,
        mm.DropoutNotScaledUp,
        h.DropoutSharedByHeads,
        m.PairReturned,
        h.CutOff,
        mm.DropoutOnQueries,
        on=Cross,
    ),
    uses=("attention_scores", "safe_masked_softmax", "split_heads", "merge_heads"),
    hints=(
        "It is lesson 07's attention with two changes: which text each of the three projections "
        "reads, and what is hidden.",
        "`query` reads `x`; `key` and `value` read `context`. The scores are (B, H, T, S): the "
        "mask must stand where S is, and no triangle is needed.",
        "`hidden = context_pad_mask[:, None, None, :]`, weights by `safe_masked_softmax`, through "
        "dropout, `merge_heads(weights @ value)`, and last `out_proj`.",
    ),
    other_way="""\
# The built-in does it too; there `True` takes part, so the mask is turned round.
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} channels can't be cut into {num_heads} heads")
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        for name in ["query", "key", "value"]:
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, context, context_pad_mask=None):
        sides = [(self.query, x), (self.key, context), (self.value, context)]
        query, key, value = (
            layer(text).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, text in sides
        )
        seen = None if context_pad_mask is None else ~context_pad_mask[:, None, None, :]
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, seen, dropout_p=self.dropout.p if self.training else 0.0
        )
        return self.out_proj(found.transpose(1, 2).flatten(2))
""",
    forbidden=WHOLE,
    forbidden_text="That is the whole exercise in one call: build it from projections, scores, a "
    "mask and the softmax.",
)
