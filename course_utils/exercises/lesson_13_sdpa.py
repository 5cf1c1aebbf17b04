"""Lesson 13, first part: scores, mask, softmax and sum by PyTorch's own function."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import attention
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
    expect_function,
)
from ..checking.calling import fresh
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import BUILT_IN
from .kit.steps import INF
from .kit.traits import trait

LESSON = "6-practice/13_performance"
PARTS = ("query", "key", "value")


# ---------------------------------------------------------------- cases


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, H, T, S, D = draw.sizes(5, 2, 7)
    while H * D in (B, T, S):
        B, H, T, S, D = draw.sizes(5, 2, 7)

    def case(name: str, hidden: Tensor | None = None, roles: str = "", **options: Any) -> Case:
        dtype, factor = options.pop("dtype", torch.float32), options.pop("factor", 1.0)
        sizes = options.pop("sizes", (B, H, T, S, D))
        b, heads, t, s, d = sizes
        inputs: dict[str, Any] = {
            "query": factor * draw.normal(b, heads, t, d, dtype=dtype),
            "key": factor * draw.normal(b, heads, s, d, dtype=dtype),
            "value": draw.normal(b, heads, s, d, dtype=dtype),
        }
        if hidden is not None:
            inputs["hidden"] = hidden
        return Case(name, inputs, None, options, roles=frozenset(roles.split()))

    double = torch.float64
    turned = case("not contiguous in memory", draw.with_empty_row(T, S))
    for name in PARTS:  # as they come from `split_heads`
        turned.inputs[name] = turned[name].transpose(1, 2).contiguous().transpose(1, 2)  # type: ignore[index]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    every = (*PARTS, "hidden")
    return [
        case("nothing hidden", roles="plain"),
        case("a mask for each text", draw.hidden(B, 1, T, S), "typical"),
        case("rows that see nothing", draw.with_empty_row(B, 1, T, S), "empty"),
        case("float64, one mask for all", draw.hidden(T, S), dtype=double),
        case("a mask for each head", draw.with_empty_row(H, T, S)),
        case("padding, by name", draw.hidden(B, 1, 1, S), keywords=every),
        case("a mask for each head of each text", draw.with_empty_row(B, H, T, S), once=True),
        turned,
        case("big numbers", draw.hidden(B, 1, T, S), dtype=double, factor=90.0, once=True),
        case("the future", future, "small", sizes=(2, 3, 5, 5, 4), once=True),
        case("as many queries as keys", None, "small", sizes=(2, 3, 5, 5, 4), once=True),
        case("1,040 keys", draw.hidden(1, 1040), sizes=(2, 3, 4, 1040, 5), once=True),
    ]


def _oracle(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
    """By the parts of lessons 04 and 05."""
    scores = attention.attention_scores(query, key)
    if hidden is None:
        return torch.softmax(scores, dim=-1) @ value
    return attention.safe_masked_softmax(scores, hidden) @ value


# ---------------------------------------------------------------- evidence


def _see_row(answer: Any, case: Case, seen: Observation) -> None:
    """Whether a built-in ran; and one more call with a mask of a single row, `(S,)`."""
    seen.facts["traits"] = {"built_in": bool({*seen.facts["ops"]} & {*BUILT_IN})}
    if "typical" not in case.roles:
        return
    with contextlib.suppress(Exception):
        seen.put_judged("row", answer(*map(fresh, _with_a_row(case))))


def _with_a_row(case: Case) -> tuple[Tensor, ...]:
    return *(case[n] for n in PARTS), case["hidden"][0, 0, 0]  # the last one is (S,)


def _row(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "typical" not in case.roles or "built_in" not in seen.traits:
        return None
    mine = seen.tensors.get("judged:row")
    if mine is None:
        return False
    if not _as_expected(case, seen, expected):
        return None  # told elsewhere
    return near(mine, _oracle(*_with_a_row(case)))


def _hides(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """It gives neither what no mask gives, nor a mean."""
    query, key, value = (case[n].double() for n in PARTS)
    blank = _oracle(query, key, value)
    mean = value.mean(2, keepdim=True).expand_as(blank)
    out = seen.tensors["out"]
    return not near(out, blank) and not near(out, mean)


def _as_expected(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"], expected["out"])


def _zeros(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out = seen.tensors["out"]  # (B, H, T, D)
    nothing = case["hidden"].all(dim=-1).expand(out.shape[:-1])
    return near(out[nothing], torch.zeros_like(out[nothing]))


# ---------------------------------------------------------------- the right answer, and mistakes


class Sdpa:
    """The right answer in steps."""

    causal = False
    rate = 0.0

    def __call__(self, query, key, value, hidden=None):
        return self.attended(query, key, value, self.mask(hidden, query))

    def mask(self, hidden, query):
        return None if hidden is None else self.seen(hidden, query)

    def seen(self, hidden, query):
        return torch.atleast_2d(~hidden)

    def attended(self, query, key, value, mask):
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.rate,
            is_causal=self.causal_here(mask),
            scale=self.factor(query),
        )

    def causal_here(self, mask):
        return self.causal

    def factor(self, query):
        return None


class OneRowRefused(Mistake):
    """A mask of one row, `(S,)`, stops with an error about dimensions.

    Why: It broadcasts to `(B, H, T, S)` as any other, and was promised; the built-in wants two
        dimensions at least.
    Mend: `torch.atleast_2d` puts a dimension of size 1 in front where one is missing.
    """

    def seen(self, hidden, query):
        return ~hidden


class MaskAddedToScores(Mistake):
    """The mask went in as numbers, and numbers are added to the scores: 1 where it is `True`.

    Why: That hides nothing. There is no error, and the result is only a little off.
    Mend: Which dtype must a mask have for the built-in to read it as "takes part" or "doesn't"?
    """

    def seen(self, hidden, query):
        return torch.atleast_2d(hidden).to(query.dtype)


class CausalOnTop(Mistake):
    """`is_causal=True` hides the future as well as what the mask hides.

    Why: Nothing here is said to be causal; given both, some kernels apply both, and others refuse.
    Mend: Who decides what is hidden: `hidden` alone?
    """

    causal = True


class CausalWithoutMask(Mistake):
    """Without a mask, the future was hidden.

    Why: None hides nothing; whoever wants the future hidden says so in `hidden`.
    Mend: What should a query see where `hidden` is None?
    """

    def causal_here(self, mask):
        return mask is None


class ByHand(Mistake):
    """The numbers are right, and were computed by hand, scores and all.

    Why: The scores of all queries and keys are then stored, and those are what the built-in saves.
    Mend: One call of `F.scaled_dot_product_attention` does all three steps.
    """

    def attended(self, query, key, value, mask):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return self.weights(scores, mask) @ value

    def weights(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return attention.safe_masked_softmax(scores, ~mask)


def _weights_with_nan(self, scores, mask):
    return (scores if mask is None else scores.masked_fill(~mask, -INF)).softmax(-1)


class NanRows(ByHand):
    __doc__ = m.NanRows.__doc__

    weights = _weights_with_nan


def _filled_with(fill: float) -> Any:
    def seen(self, hidden, query):
        numbers = query.new_zeros(hidden.shape).masked_fill(hidden, fill)
        return torch.atleast_2d(numbers)

    return seen


def _turned_in_place(self, hidden, query):
    return torch.atleast_2d(hidden.logical_not_())


SDPA_ATTENTION = Exercise(
    id="sdpa_attention",
    lesson=LESSON,
    call="sdpa_attention(query, key, value, hidden=None)",
    points=1.0,
    cases=_cases,
    probe=FunctionProbe(gradients=PARTS, watch=True, extra=_see_row),
    expect=expect_function(_oracle, gradients=PARTS),
    reference=attention.sdpa_attention,
    properties=(
        Property(
            "hides",
            "A mask has an effect",
            _hides,
            role="typical",
            breaks="A mask has no effect, or the same one on every key",
        ),
        Property("plain", "Without a mask the result is right", _as_expected, True, role="plain"),
        Property(
            "masked",
            "With a mask the result is right",
            _as_expected,
            True,
            role="typical",
        ),
        Property("empty", "A query that sees nothing gives zeros", _zeros, True, role="empty"),
        Property(
            "row",
            "A mask of one row, `(S,)`, is taken too",
            _row,
            secondary=True,
            role="typical",
            breaks="A mask of one row, `(S,)`, is not taken, or gives something else",
        ),
        Property(
            "built_in",
            "PyTorch's own function does the work",
            trait("built_in"),
            secondary=True,
            breaks="The work is done by hand: `F.scaled_dot_product_attention` was asked for",
        ),
    ),
    misconceptions=Misconceptions.of(
        m.MaskInverted.but(seen=lambda self, hidden, query: torch.atleast_2d(hidden)).on(
            Sdpa,
            why="In this course `True` means hidden; the built-in reads `True` as seen.",
            mend="In the built-in, `True` takes part; here, `True` is hidden. What turns a mask "
            "round?",
        ),
        OneRowRefused,
        h.MaskAlwaysUsed.but(mask=lambda self, hidden, query: self.seen(hidden, query)).on(
            Sdpa,
            what="`hidden` is used even where it is None, and None can't be turned round.",
            why="Most calls come without a mask.",
            mend="Ask first whether there is a mask; the built-in takes None for none.",
        ),
        m.MaskIgnored.but(mask=lambda self, hidden, query: None).on(
            Sdpa,
            why="All that should be hidden is seen.",
            mend="Which argument of the built-in takes a mask?",
        ),
        CausalOnTop,
        CausalWithoutMask,
        MaskAddedToScores,
        MaskAddedToScores.but(
            seen=lambda self, hidden, query: torch.atleast_2d(~hidden).to(query.dtype)
        ),
        m.RootMissing.but(factor=lambda self, query: 1 / query.shape[-1]),
        m.NotScaled.but(factor=lambda self, query: 1.0),
        m.Multiplied.but(factor=lambda self, query: math.sqrt(query.shape[-1])),
        m.UniformOnHidden.but(seen=_filled_with(-1e9)),
        m.FillNotLowEnough.but(seen=_filled_with(-1e4)),
        ByHand,
        NanRows,
        m.DropoutInEvaluation.but(rate=0.1).on(
            Sdpa,
            what="Weights are dropped: two calls give two results.",
            why="The built-in is a function and doesn't know of `train()` and `eval()`: it drops "
            "whenever it is told to.",
            mend="No dropout was asked for here: leave `dropout_p` at 0.",
        ),
        mm.KeysAndValuesSwapped.but(
            attended=lambda self, query, key, value, mask: Sdpa.attended(
                self, query, value, key, mask
            )
        ),
        m.FirstSequencesMask.but(
            seen=lambda self, hidden, query: ~(hidden[:1] if hidden.dim() == 4 else hidden)
        ).on(Sdpa, mend="The built-in takes `(B, 1, T, S)` as it is."),
        m.ChangesItsInput.but(seen=_turned_in_place, __call__=Sdpa.__call__).on(
            Sdpa,
            what="The result is right, but the mask was turned round in place: `hidden` now says "
            "the opposite.",
            mend="`~hidden` makes a new mask; an operation that ends in an underscore writes into "
            "the old one.",
        ),
        m.CutOff,
        m.Float32Result,
        on=Sdpa,
    ),
    hints=(
        "One call. Its mask is a bool tensor, too, but there `True` says that a key takes part.",
        "`~hidden` turns a mask round; None stays None. And the built-in wants masks of two "
        "dimensions at least: `torch.atleast_2d`.",
        "`seen = None if hidden is None else torch.atleast_2d(~hidden)`, then "
        "`F.scaled_dot_product_attention(query, key, value, attn_mask=seen)`.",
    ),
    other_way="""\
# The same mask as numbers: 0 is added where a key is seen, and -inf where it is hidden.
def sdpa_attention(query, key, value, hidden=None):
    bias = None
    if hidden is not None:
        bias = torch.zeros_like(hidden, dtype=query.dtype).masked_fill(hidden, float("-inf"))
        bias = torch.atleast_2d(bias)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
""",
)
