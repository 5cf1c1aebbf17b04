"""Lesson 13, second part: one attention in four ways, asked for by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import attention
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    Mistake,
    Observation,
    Property,
    expect_module,
)
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import block_mistakes as b
from .kit import dropout as d
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.blocks import InAttention
from .kit.draw import Draw
from .kit.heads import blind, padding_anywhere
from .kit.kinds import PROPERTIES, KindProbe
from .kit.many_heads import (
    Sizes,
    distinct_sizes,
    see_attention,
    wrapper_oracle,
    wrapper_weights,
)
from .kit.steps import Hiding, Refusing, SideBySide, SplitHeads
from .lesson_13_sdpa import LESSON

ALIASES = {"mha": "split", "fast": "split"}


# ---------------------------------------------------------------- cases


@dataclass
class Draws:
    draw: Draw

    def case(
        self,
        name: str,
        kind: str,
        s: Sizes | None = None,
        *,
        x: Tensor | None = None,
        pad_mask: Callable[[Draw, int, int], Tensor] | None = None,
        bias: bool | None = None,
        dtype: torch.dtype = torch.float32,
        roles: str = "",
        **options: Any,
    ) -> Case:
        s = s or distinct_sizes(self.draw)
        if kind == "torch":
            s = replace(s, d_in=s.width)
            roles += " small"
        if x is None:
            x = self.draw.normal(s.B, s.T, s.d_in, dtype=dtype)
        inputs = {"x": x}
        if pad_mask is not None:
            inputs["pad_mask"] = pad_mask(self.draw, s.B, s.T)
        named: dict[str, Any] = {"d_in": s.d_in, "d_out": s.width}
        named |= {"num_heads": s.H, "context_length": s.length}
        if bias is not None:
            named |= {"qkv_bias": bias, "dropout": 0.0}
        options |= {
            "args": (kind,),
            "kwargs": named,
            "weights": wrapper_weights(self.draw, s, bool(bias), dtype),
            "dtype": dtype,
            "heads": s.H,
        }
        if "typical" in roles:  # others are made beside it
            other = named | {"context_length": 1, "dropout": 0.9}
            options["others"] = [(("wrapper",), other), (("sdpa",), other)]
        return Case(name, inputs, options=options, roles=set(roles.split()))

    def dropout(self, kind: str, heads: int) -> Case:
        """As `dropout.dropout_case`, with tokens as wide as what goes out."""
        C = heads * d.WIDTH
        made = d.dropout_case(self.draw, heads, (), d.beside)
        x, options = made["x"], dict(made.options)
        x = torch.cat([x, x.new_zeros(*x.shape[:2], C - d.D_IN)], -1)
        options["weights"] = {
            n: torch.cat([w, w.new_zeros(len(w), C - d.D_IN)], 1) if n.startswith("heads") else w
            for n, w in options["weights"].items()
        }
        options |= {"args": (kind,), "once": True}
        options["kwargs"] = {
            "d_in": C,
            "d_out": C,
            "num_heads": heads,
            "context_length": d.CONTEXT,
            **options["kwargs"],
        }
        return replace(
            made,
            name=f"{kind}: dropout",
            inputs={"x": x},
            options=options,
            roles={"dropout", "small"},
        )

    def uneven(self, kind: str) -> Case:
        """Refused where it is made: there is no input."""
        width, heads = (10, 4) if kind in ("split", "torch") else (11, 3)
        d_in = width if kind == "torch" else 7
        named = {"d_in": d_in, "d_out": width, "num_heads": heads, "context_length": 6}
        name = f"{kind}: {width} channels, {heads} heads"
        made = {"args": (kind,), "kwargs": named}
        roles = {"small"} if kind == "torch" else set[str]()
        return Case(name, {}, (str(width), str(heads)), made, roles)

    def too_long(self, kind: str) -> Case:
        limit = self.draw.integer(8, 11)
        s = Sizes(2, limit + 1, 3, 5, 4, limit)
        made = self.case(f"{kind}: one token too many", kind, s)
        options = {n: v for n, v in made.options.items() if n != "weights"}
        return replace(made, refuses=(str(s.T), str(limit)), options=options)


def in_many_places(draw: Draw, B: int, T: int) -> Tensor:
    """Holes, texts of padding alone, and texts that begin with padding and go on with tokens."""
    mask = padding_anywhere(draw, B, T)
    mask[2:, 0], mask[2:, 1] = True, False
    return mask


def _cases(seed: int) -> list[Case]:
    draws = Draws(Draw(seed))
    case, double = draws.case, torch.float64
    front, anywhere = blind, padding_anywhere
    unknown = {"d_in": 7, "d_out": 6, "num_heads": 2, "context_length": 5}
    kinds = ("wrapper", "split", "sdpa", "torch")

    tall = Sizes(5, 4, 6, 3, 2, 7)

    def full(name: str, kind: str, **more: Any) -> Case:
        s = distinct_sizes(draws.draw)
        return case(name, kind, replace(s, length=s.T), once=True, roles="way small", **more)

    return [
        case("split", "split", roles="typical way"),
        case("torch: padding in front", "torch", pad_mask=front, roles="padded blind device way"),
        case("sdpa: padding in front", "sdpa", pad_mask=front, roles="padded blind device way"),
        case("torch: float64, qkv_bias", "torch", bias=True, dtype=double),
        case("sdpa: float64, qkv_bias", "sdpa", bias=True, dtype=double, roles="way"),
        case(
            "wrapper: padding in front",
            "wrapper",
            pad_mask=front,
            bias=True,
            roles="blind",
            once=True,
        ),
        case(
            "split: float64, padding",
            "split",
            pad_mask=anywhere,
            bias=True,
            dtype=double,
            once=True,
        ),
        full("wrapper: as many tokens as fit", "wrapper"),
        full("sdpa: as many tokens as fit", "sdpa"),
        full("torch: as many tokens as fit", "torch", bias=False),
        full("mha: as many tokens as fit", "mha"),
        full("fast: padding anywhere", "fast", pad_mask=anywhere),
        case(
            "torch: padding anywhere",
            "torch",
            tall,
            pad_mask=in_many_places,
            bias=True,
            roles="blind",
            once=True,
        ),
        case(
            "sdpa: padding anywhere", "sdpa", pad_mask=anywhere, bias=True, roles="blind", once=True
        ),
        case("torch: as many texts as tokens", "torch", Sizes(4, 4, 6, 3, 2, 7), once=True),
        *(draws.dropout(kind, heads) for kind, heads in zip(kinds, (1, 2, 2, 2), strict=True)),
        *map(draws.uneven, kinds),
        *map(draws.too_long, kinds),
        Case("an unknown kind", {}, (), {"args": ("flash",), "kwargs": unknown}),
        Case("a kind in capitals", {}, (), {"args": ("SDPA",), "kwargs": unknown}),
    ]


# ---------------------------------------------------------------- properties

WAYS = {
    "wrapper": ("side by side", "hand"),
    "split": ("split", "hand"),
    "sdpa": ("split", "function"),
    "torch": ("built-in", "module"),
}


def _its_kind(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if case.refuses is not None or "style" not in seen.traits:
        return None
    (kind,) = case.options["args"]
    style, by = WAYS[ALIASES.get(kind, kind)]
    right = (style in ("built-in", seen.traits["style"]), by == seen.traits["by"])
    if all(right) or (right[0] and style == "side by side"):
        return True
    made = {"side by side": "heads side by side", "split": "one split projection"}
    found = made.get(seen.traits["style"], "nn.MultiheadAttention")
    return f'gives {found}, computed by {_BY[seen.traits["by"]]}, for "{kind}"'


_BY = {"hand": "hand", "function": "the built-in function", "module": "the built-in module"}

DROPOUT = next(x for x in PROPERTIES if x.id == "dropout")


def _weights_dropped(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """None where other weights than the right ones are dropped: that is told elsewhere."""
    verdict = DROPOUT.holds(case, seen, expected)
    return verdict if verdict is True or near(seen.tensors["out"], expected["out"]) else None


KIND = Property(
    "kind",
    "Each kind is what its name says",
    _its_kind,
    credit=True,
    breaks="Each kind should be what its name says",
)


# ---------------------------------------------------------------- the right answer in steps


class FusedHeads(SplitHeads):
    """Style B by the built-in function."""

    def forward(self, x, pad_mask=None):
        x = self.accepted(x)
        query, key, value = self.projected(x)
        mask = self.seen(self.hidden(x.shape[1], x.device, pad_mask))
        context = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.share()
        )
        return self.result(context, pad_mask)

    def seen(self, hidden):
        return ~hidden

    def share(self):
        return self.dropout.p if self.training else 0.0


class Adapter(Hiding, Refusing, nn.Module):
    """`nn.MultiheadAttention`, called as ours."""

    batch_first, needs = True, False

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.context_length, self.num_heads = context_length, num_heads
        self.attention = nn.MultiheadAttention(
            d_out,
            num_heads,
            dropout=self.rate(dropout),
            bias=self.with_bias(qkv_bias),
            batch_first=self.batch_first,
        )
        if not self.biased("in_proj", qkv_bias):
            self.attention.in_proj_bias = None

    def rate(self, dropout):
        return dropout

    def with_bias(self, qkv_bias):
        return True

    def biased(self, name, qkv_bias):
        return qkv_bias

    def columns(self, pad_mask):
        return pad_mask

    def forward(self, x, pad_mask=None):
        x = self.accepted(x)
        columns = None if pad_mask is None else self.columns(pad_mask)
        future = self.future(x.shape[1], x.device)
        return self.result(self.attended(x, columns, future), pad_mask)

    def accepted(self, x):
        if self.too_many(x.shape[1], self.context_length):
            self.complain(x.shape[1], self.context_length)
        return x

    def attended(self, x, columns, future):
        out, _ = self.attention(
            x, x, x, key_padding_mask=columns, attn_mask=future, need_weights=self.needs
        )
        return out

    def result(self, out, pad_mask):
        if pad_mask is None:
            return out
        nothing = pad_mask.int().cumprod(1).bool()[:, :, None]
        return torch.where(nothing, self.of_nothing(out), out)

    def of_nothing(self, out):
        return self.attention.out_proj.bias.to(out.dtype)


class Make(Refusing):
    """The right answer in steps."""

    def __call__(
        self, kind, *, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False
    ):
        name = self.name(kind)
        if name not in WAYS:
            self.unknown(kind)
        if not self.fits(d_out, num_heads):
            self.complain(d_out, num_heads)
        sizes = d_in, self.width(name, d_out, num_heads), context_length, num_heads
        return self.made(self.one_of(name), sizes, self.rate(dropout), self.bias(qkv_bias))

    def name(self, kind):
        return ALIASES.get(kind, kind)

    def unknown(self, kind):
        raise ValueError(f"no kind {kind!r}")

    def fits(self, d_out, num_heads):
        return d_out % num_heads == 0

    def width(self, name, d_out, num_heads):
        return d_out // num_heads if name == "wrapper" else d_out

    def one_of(self, name):
        return getattr(self, f"{name}_class")()

    def wrapper_class(self):
        return SideBySide

    def split_class(self):
        return SplitHeads

    def sdpa_class(self):
        return FusedHeads

    def torch_class(self):
        return Adapter

    def rate(self, dropout):
        return dropout

    def bias(self, qkv_bias):
        return qkv_bias

    def made(self, one, sizes, dropout, qkv_bias):
        return one(*sizes, dropout, qkv_bias)


def in_torch(mistake: type[Mistake]) -> type[Mistake]:
    return InAttention.of(mistake, "torch_class")


def in_sdpa(mistake: type[Mistake]) -> type[Mistake]:
    return InAttention.of(mistake, "sdpa_class")


# ---------------------------------------------------------------- mistakes


class SequenceFirst(Mistake):
    """`nn.MultiheadAttention` takes the sequence first unless it is told otherwise: it took your
    texts for tokens, and mixed the texts of the batch.

    Why: Without a mask there is no error, for (B, T, C) has as many dimensions as (T, B, C).
    Mend: Its constructor has an argument for it.
    """

    batch_first = False


def _mask_that_fits(self, x, columns, future):
    """A mask made to fit what the error asked for."""
    future = self.future(len(x), x.device)
    columns = None if columns is None else columns.mT
    return Adapter.attended(self, x, columns, future)


def _not_turned_back(self, x, columns, future):
    return Adapter.attended(self, x.transpose(0, 1), columns, future)


class OutProjWithoutBias(Mistake):
    __doc__ = h.OutProjWithoutBias.__doc__

    def with_bias(self, qkv_bias):
        return qkv_bias


class NothingGivesZeros(Mistake):
    """A token that sees nothing gives zeros, and not the bias of `out_proj`.

    Why: Its context is zero, and `out_proj` adds its bias to that as to any other; the other kinds
        do so.
    Mend: What does `out_proj` make of a row of zeros?
    """

    def of_nothing(self, out):
        return torch.zeros_like(out)


class NanCleared(Mistake):
    """`nan_to_num` turned what is NaN into zeros, and a token that sees nothing gives zeros.

    Why: The other kinds give the bias of `out_proj` there, and in training the NaN comes back in
        the gradients.
    Mend: Which tokens see nothing? Give them what `out_proj` makes of a row of zeros.
    """

    needs = True

    def result(self, out, pad_mask):
        return out.nan_to_num()


class PaddedRowsGiveBias(Mistake):
    """All padded tokens give the bias of `out_proj`, also those that see real tokens before them.

    Why: A padded query is computed like any other; only those that see nothing differ.
    Mend: A token sees nothing if all up to it, itself included, are padding.
    """

    def result(self, out, pad_mask):
        if pad_mask is None:
            return out
        return torch.where(pad_mask[:, :, None], self.of_nothing(out), out)


class CausalPromised(Mistake):
    """`is_causal=True` alone: `nn.MultiheadAttention` takes it for a promise about a mask, and
    there is none.

    Why: In `F.scaled_dot_product_attention` the same words make the mask; here they don't.
    Mend: Give it the mask of the future as `attn_mask`.
    """

    def attended(self, x, columns, future):
        out, _ = self.attention(
            x, x, x, key_padding_mask=columns, need_weights=False, is_causal=True
        )
        return out


class MaskForTheOther(Mistake):
    """`nn.MultiheadAttention` got a mask in which `True` takes part; there, `True` is hidden.

    Why: PyTorch's two built-ins read the same mask the opposite way.
    Mend: Only `F.scaled_dot_product_attention` wants the mask turned round.
    """

    @classmethod
    def id(cls):
        return m.MaskInverted.id()

    def future(self, T, device=None):
        return ~super().future(T, device)


MaskForTheOther.__doc__ = m.MaskInverted.__doc__


class UnknownTakenForSplit(Mistake):
    """An unknown kind gives one of the known ones.

    Why: Whoever mistypes "sdpa" measures something else, and never finds out.
    Mend: What remains when none of the names fits? Raise a ValueError there.
    """

    def name(self, kind):
        name = super().name(kind)
        return name if name in WAYS else "split"


class CaseIgnored(Mistake):
    """Names in capitals are accepted as well.

    Why: Two spellings of one name soon become two entries of a table; only the six names are known.
    Mend: Compare the name as it comes.
    """

    def name(self, kind):
        return super().name(kind.lower())


class AliasesMissing(Mistake):
    """`"mha"` and `"fast"`, two other names of `"split"`, are refused.

    Why: Older notebooks ask for these names.
    Mend: How many names does a table of kinds need?
    """

    def name(self, kind):
        return kind


class FastTakenForSdpa(Mistake):
    """`"fast"` gives the kind `"sdpa"`.

    Why: The name is older than that kind, and means `"split"`: fast, compared with the wrapper.
    Mend: Read once more which names mean the same.
    """

    def name(self, kind):
        return "sdpa" if kind == "fast" else super().name(kind)


class OneKindForAll(Mistake):
    """All names give the same kind.

    Why: The numbers are right, but there is nothing to compare: their cost is the same too.
    Mend: Four kinds, four classes.
    """

    def one_of(self, name):
        return self.split_class()

    def width(self, name, d_out, num_heads):
        return d_out


class SdpaByHand(Mistake):
    """The kind `"sdpa"` computes by hand.

    Why: It stores all the scores, and that is what this kind is there to save.
    Mend: `F.scaled_dot_product_attention` does scores, mask, softmax and sum in one call.
    """

    def sdpa_class(self):
        return SplitHeads


class HeadsAsWideAsTheModel(Mistake):
    """Each head of the wrapper got the whole width: `d_head` is the width of *one* head.

    Why: Side by side they are H times as wide as was asked.
    Mend: How wide must H heads be, so that side by side they fill `d_out`?
    """

    def width(self, name, d_out, num_heads):
        return d_out


class ContextAndHeadsSwapped(Mistake):
    __doc__ = b.ContextAndHeadsSwapped.__doc__

    def made(self, one, sizes, dropout, qkv_bias):
        d_in, width, context_length, num_heads = sizes
        return one(d_in, width, num_heads, context_length, dropout, qkv_bias)


class ClassReturned(Mistake):
    """You return a class; a module made of it was asked for.

    Why: A class can't be called with tokens: it waits for its sizes.
    Mend: Brackets with the sizes make a module of a class.
    """

    def made(self, one, sizes, dropout, qkv_bias):
        return one


def _bias_not_handed_on(self, one, sizes, dropout, qkv_bias):
    return one(*sizes, dropout)


MAKE_MHA = Exercise(
    id="make_mha",
    lesson=LESSON,
    call="make_mha(kind, d_in=…, d_out=…, num_heads=…, context_length=…)",
    points=2.0,
    cases=_cases,
    probe=KindProbe(gradients=("x",), watch=False, extra=see_attention),
    expect=expect_module(wrapper_oracle),
    reference=attention.make_mha,
    properties=(
        KIND,
        *(replace(x, holds=_weights_dropped) if x is DROPOUT else x for x in PROPERTIES),
    ),
    misconceptions=Misconceptions.of(
        in_torch(SequenceFirst),
        in_torch(SequenceFirst.but(attended=_mask_that_fits)),
        in_torch(SequenceFirst.but(attended=_not_turned_back)),
        in_torch(OutProjWithoutBias).on(
            Make,
            what="`bias=False` of `nn.MultiheadAttention` took the bias of `out_proj` too.",
            mend="Keep its biases, and take the one for queries, keys and values away: "
            "`in_proj_bias`.",
        ),
        in_torch(m.BiasAlways).on(
            Make,
            what="`nn.MultiheadAttention` has biases for queries, keys and values whatever "
            "`qkv_bias` says.",
            mend="They are one parameter, `in_proj_bias`; None takes its place where it isn't "
            "wanted.",
        ),
        *(
            in_torch(m.NanRows.but(result=lambda self, out, pad_mask: out, **how)).on(
                Make,
                mend="Its scores are out of reach. Which tokens see nothing? Give them, in its "
                "place, what `out_proj` makes of a row of zeros.",
            )
            for how in ({"needs": True}, {})
        ),
        in_torch(m.NanInGradient.but(needs=True)).on(
            Make,
            what="The result is right: what was NaN was written over. But the NaN was there, and "
            "it comes back in the gradients.",
            mend="`need_weights=False` takes another way, on which no NaN arises in training.",
        ),
        in_torch(NanCleared),
        in_torch(NothingGivesZeros),
        in_torch(m.NoMask),
        in_torch(CausalPromised),
        in_torch(MaskForTheOther).on(
            Make,
            why="In `nn.MultiheadAttention` `True` means hidden, as in this course.",
            mend="Which of PyTorch's two built-ins wants a mask turned round?",
        ),
        in_torch(m.PadMaskIgnored.but(columns=lambda self, pad_mask: pad_mask & False)).on(
            Make, mend="Which argument of `nn.MultiheadAttention` takes a padding mask?"
        ),
        in_torch(m.PaddingInverted),
        in_torch(PaddedRowsGiveBias),
        in_torch(m.PairReturned).on(
            Make,
            what="You return what `nn.MultiheadAttention` returns: a pair.",
        ),
        in_torch(m.MaskRequired),
        in_torch(m.LongTextAccepted),
        in_torch(m.FullLengthRefused),
        in_torch(m.NoDropout.but(rate=lambda self, dropout: 0.0)).on(
            Make, mend="`nn.MultiheadAttention` has an argument for it."
        ),
        in_sdpa(m.NoDropout.but(share=lambda self: 0.0)).on(
            Make, mend="`F.scaled_dot_product_attention` has an argument for it, `dropout_p`."
        ),
        in_sdpa(m.DropoutInEvaluation.but(share=lambda self: self.dropout.p)).on(
            Make,
            why="`F.scaled_dot_product_attention` is a function: it doesn't know of `train()` and "
            "`eval()`.",
            mend="Give it a share above 0 only where `self.training` is True.",
        ),
        in_sdpa(m.MaskInverted.but(seen=lambda self, hidden: hidden)).on(
            Make,
            why="In this course `True` means hidden; `F.scaled_dot_product_attention` reads it as "
            "seen.",
            mend="Which of PyTorch's two built-ins wants a mask turned round?",
        ),
        in_sdpa(m.PadMaskIgnored),
        in_sdpa(m.PaddingOnly),
        in_sdpa(m.NoMask),
        SdpaByHand,
        OneKindForAll,
        AliasesMissing,
        FastTakenForSdpa,
        UnknownTakenForSplit,
        CaseIgnored,
        m.RefusedOtherwise.but(
            unknown=lambda self, kind: WAYS[kind], complain=Refusing.complain
        ).on(
            Make,
            what="An unknown kind is stopped by a KeyError of your table.",
            why="Whoever calls catches ValueErrors, as everywhere in this course.",
            mend="Ask whether the name is known before you look it up.",
        ),
        h.UnevenHeadsAccepted.but(fits=lambda self, d_out, num_heads: True),
        m.RefusedWithoutNumbers,
        HeadsAsWideAsTheModel,
        ContextAndHeadsSwapped.on(
            Make,
            why="Both are whole numbers: an error comes only where one happens not to divide the "
            "width, and speaks of heads.",
        ),
        ClassReturned,
        mm.DropoutKeepsShare,
        m.NoDropout.but(rate=lambda self, dropout: 0.0).on(
            Make, mend="Pass `dropout` on to each class."
        ),
        m.BiasNever.but(made=_bias_not_handed_on).on(
            Make, mend="Pass `qkv_bias` on to each class."
        ),
        on=Make,
    ),
    hints=(
        "Three kinds are a choice among classes that are there: lesson 06's, lesson 07's, and the "
        "one shown above. Refuse first what is unknown or can't be divided. `d_head` of the "
        "wrapper is `d_out // num_heads`.",
        "`nn.MultiheadAttention(d_out, num_heads, dropout=dropout, batch_first=True)`, and "
        "`attention.in_proj_bias = None` without `qkv_bias`. Call it with `key_padding_mask`, "
        "`attn_mask=causal_mask(T, x.device)` and `need_weights=False`, and take the first of the "
        "two that come back.",
        "`(~pad_mask).cumsum(dim=1) == 0` is True where no token is seen up to there. "
        "`torch.where(nothing[:, :, None], self.attention.out_proj.bias, out)` puts the bias in.",
    ),
    uses=("sdpa_attention",),
    same_as=(attention.SDPAMultiHeadAttention, attention.TorchMultiHeadAttention),
)
