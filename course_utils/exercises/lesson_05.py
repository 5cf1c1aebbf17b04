"""Lesson 05: a batch of unequal lengths, and rows that see nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import (
    PaddedCausalSelfAttention,
    safe_masked_softmax,
)
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_function,
    expect_module,
)
from ..checking.calling import cotangent, fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Trial, Verdict
from ..experiments.nan_hunt import nan_on_the_way_back
from .kit import first_attempts as first
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import BUILT_IN, HEAD_PROPERTIES, head_cases, head_oracle, see_head
from .kit.steps import PaddedHead, SafeMaskedSoftmax
from .lesson_04 import HEAD_MISTAKES
from .lesson_05_masks import (
    CAUSAL_AND_PADDING,
    LESSON,
    PADDING_MASK,
    WHO_HEARS_PADDING,
    behind,
    mask_oracle,
)

# ---------------------------------------------------------------- safe_masked_softmax


def _safe_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    A, B, H, T, S = draw.sizes(5, 2, 7)
    masked = draw.with_empty_row

    def case(name: str, scores: Any, hidden: Tensor, roles: str = "", **options: Any) -> Case:
        scores = scores if isinstance(scores, Tensor) else draw.normal(*scores)
        inputs = {"scores": scores, "hidden": hidden}
        return Case(name, inputs, None, options, roles=frozenset(roles.split()))

    by_hand = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    hides = torch.tensor([[False, False, True], [True, True, True]])
    some = masked(S, T)
    some[0] = True
    loud = draw.normal(S, T).masked_fill(some, 10_000.0)
    quiet = masked(H, S)
    faint = draw.normal(H, S).masked_fill(~quiet, -3e38)
    high = draw.normal(H, S).masked_fill(~quiet, 5_000.0) + draw.normal(H, S)
    left = mask_oracle(behind([1, 3], 4).flip(1))
    flat = torch.zeros(T, S)
    level = torch.full((T, S), 3.0)
    holed = draw.normal(T, S).masked_fill(masked(T, S), 0.0)
    return [
        case("the second row sees nothing", by_hand, hides),
        case("every row sees something", (T, S), draw.hidden(T, S)),
        case("one empty row", (T, S), masked(T, S), "typical"),
        case("nothing hidden", (S, T), torch.zeros(S, T) > 0, "open"),
        case("all hidden", (H, T), torch.ones(H, T) > 0),
        case("padding in front", (2, 4, 4), left, "small"),
        case("a mask of columns", (B, T, S), masked(B, 1, S)),
        case("a mask for each row and sequence", (B, T, S), masked(B, T, S)),
        case("one mask for all rows", (T, S), masked(S)),
        case("one mask for all sequences", (B, T, S), masked(T, S)),
        case("the same in three dimensions", (B, T, S), masked(1, T, S), "small"),
        case("whole rows hidden", (B, T, S), torch.arange(T)[:, None] % 2 == 1, "small"),
        *_with_heads(case, masked, A, B, H, T, S),
        case("whole sequences hidden", (B, T, S), torch.arange(B)[:, None, None] == 0, "small"),
        case("a mask without dimensions", (T, S), torch.tensor(False)),
        case("one row", (S,), draw.hidden(S)),
        case("one row that sees nothing", (S,), torch.ones(S) > 0),
        case("one key", (H, T, 1), torch.arange(T)[:, None] > 1, "small"),
        case("not contiguous in memory", draw.normal(S, T).T, masked(T, S)),
        case("float64", draw.normal(T, S, dtype=torch.float64), masked(T, S)),
        case("scores of zeros", flat, masked(T, S)),
        case("equal scores", level, masked(T, S)),
        case("some scores of 0", holed, masked(T, S)),
        case("hidden scores of 10,000", loud, some),
        case("hidden scores of 3e38", loud.masked_fill(some, 3e38), some),
        case("visible scores of -3e38", faint, quiet),
        case("visible scores of 5,000", high, quiet),
        case("by name", (S, H), masked(S, H), keywords=("scores", "hidden")),
        case("1,040 keys", (T, 1040), masked(T, 1040)),
        case("1,040 queries", (H, 1040, S), masked(1040, S), once=True),
        case("1,040 sequences", (1040, 2, 3), masked(1040, 1, 3), "small", once=True),
    ]


def _with_heads(
    case: Callable[..., Case],
    masked: Callable[..., Tensor],
    A: int,
    B: int,
    H: int,
    T: int,
    S: int,
) -> list[Case]:
    """Scores of four dimensions and more, under masks of every shape that broadcasts to them."""
    return [
        case("one mask for batch and heads", (B, H, T, S), masked(T, S)),
        case("columns, for all heads", (B, H, T, S), masked(B, 1, 1, S), "small"),
        case("a mask for each sequence, for all heads", (B, H, T, S), masked(B, 1, T, S), "small"),
        case("a mask for each head, for all sequences", (B, H, T, S), masked(H, T, S)),
        case("a mask for each head and sequence", (B, H, T, S), masked(B, H, T, S)),
        case("five dimensions", (A, B, H, T, S), masked(A, 1, H, 1, S), "small"),
        case("five dimensions, a mask for each row", (A, B, H, T, S), masked(A, B, H, T, S)),
        case("six dimensions", (8, A, B, H, T, S), masked(8, A, B, H, T, S)),
        case("one mask, as many sequences as queries", (5, 5, S + 7), masked(5, S + 7), "small"),
        case("for each head, as many as sequences", (4, 4, T, S + 7), masked(4, T, S + 7), "small"),
    ]


def _safe_oracle(scores: Tensor, hidden: Tensor) -> Tensor:
    # The built-in attention gives its weights when keys and values are the identity, and zeros for
    # a row that sees nothing.
    rows, hidden = torch.atleast_2d(scores), hidden.expand_as(scores)
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype).expand(*rows.shape[:-2], -1, -1)
    visible = torch.atleast_2d(~hidden)
    out = F.scaled_dot_product_attention(rows, eye, eye, attn_mask=visible, scale=1.0)
    return out.view(scores.shape)


def _see_recorded(answer: Any, case: Case, seen: Observation) -> None:
    """One more call, while gradients are recorded."""
    if "typical" in case.roles:
        seen.put("recorded", answer(fresh(case["scores"], True), fresh(case["hidden"])))


def _same_when_recorded(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["recorded"], seen.tensors["out"])


def _empty_rows(case: Case) -> Tensor:
    return case["hidden"].expand_as(case["scores"]).all(-1)


def _empty_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    empty = _empty_rows(case)
    return bool((seen.tensors["out"][empty] == 0).all()) if bool(empty.any()) else None


def _others_as_ever(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out, empty = seen.tensors["out"], _empty_rows(case)
    hidden = case["hidden"].expand_as(case["scores"]) & ~empty[..., None]
    sums = out.double().sum(-1)[~empty]
    if not bool((out[hidden] == 0).all()):
        return "give hidden keys some weight"
    if not bool(((sums - 1).abs() < 1e-4).all()):
        return "don't sum to 1"
    return True if sums.numel() else None


def _scores_matter(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"].diff() * case["scores"].diff() > 0).all())


def _gradient_is_finite(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.tensors["grad:scores"].isfinite().all())


def _see_the_way_back(answer: Any, case: Case, seen: Observation) -> None:
    """Whether a NaN turns up in some gradient on the way, also one that gets no further."""
    try:
        out = answer(*(fresh(v, n == "scores") for n, v in case.inputs.items()))
        found = nan_on_the_way_back((out * cotangent(out)).sum())
    except Exception:  # what is wrong with it shows elsewhere
        return
    seen.facts["traits"] = {"nan": found}


def _see_both(answer: Any, case: Case, seen: Observation) -> None:
    _see_recorded(answer, case, seen)
    _see_the_way_back(answer, case, seen)


def _no_nan(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not seen.traits["nan"] if "nan" in seen.traits else None


def _explain_nan(t: Trial) -> tuple[str, str]:
    return (
        "A NaN arises on the way, there or back. The result is right, and that no NaN gets "
        "through to the scores is luck.",
        f"Case: {t.case.name}. {t.case.describe()}\n"
        "On the way back, an operation's gradient is NaN; `torch.autograd.detect_anomaly()` shows "
        "it.",
    )


def _minimum(self, scores, hidden):
    return self.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min))


class NanPatched(Mistake):
    """A NaN arises in the softmax, and is patched after it. Result and gradient are right, by luck.

    Why: The NaN is still there on the way back. `masked_fill` stops it; had the mask been added, it
        would reach the weights of the layers.
    Mend: Let no NaN arise: which scores could the softmax take in a row that sees nothing?
    """

    def weights(self, scores, hidden):
        return self.softmax(self.hide(scores, hidden)).nan_to_num()


class FiniteFillThenZeros(Mistake):
    """You filled with a negative number and cleared hidden weights afterwards. Visible scores below
    that number lose against hidden ones, and their weights are gone.

    Why: It holds for the scores of today, not for whatever finite value a score has.
    Mend: Only one value is below every finite score.
    """

    fill = -1e9

    def weights(self, scores, hidden):
        return self.softmax(self.hide(scores, hidden)).masked_fill(hidden, 0.0)


class OneKeyKept(Mistake):
    """A row that sees nothing was given the first key to look at.

    Why: Under left padding the first key *is* padding.
    Mend: Its weights should all be 0.
    """

    def weights(self, scores, hidden):
        blind = self.blind(hidden.expand_as(scores))
        first = torch.arange(scores.shape[-1], device=scores.device) == 0
        return self.softmax(self.hide(scores, hidden & ~(blind & first)))


class AnyForAll(Mistake):
    """Every row with *some* hidden key became zeros.

    Why: Under a causal mask that is every row but the last.
    Mend: A row is empty when *all* of its keys are hidden.
    """

    def blind(self, hidden):
        return hidden.any(dim=-1, keepdim=True)


class EmptyColumns(Mistake):
    """You looked for columns that nobody sees instead of rows that see nothing.

    Why: A row that sees nothing is still NaN, and a column that nobody sees can get a weight.
    Mend: The keys are the last dimension. Over which one must *all* be hidden?
    """

    def blind(self, hidden):
        return hidden.all(dim=-2, keepdim=True)


class EverythingZero(Mistake):
    """As soon as one row sees nothing, the whole result became zeros.

    Why: One empty row in a batch would silence all others.
    Mend: Treat the empty rows, and leave the others as they are.
    """

    def weights(self, scores, hidden):
        blind = self.blind(hidden.expand_as(scores))
        return super().weights(scores, hidden) * ~blind.any()


class RowsRemoved(Mistake):
    """Rows that see nothing were left out, so the shape is another.

    Why: Row t of the weights belongs to query t; without a row the queries no longer match.
    Mend: Keep the row and fill it with zeros.
    """

    def weights(self, scores, hidden):
        blind = self.blind(hidden.expand_as(scores))
        return super().weights(scores, hidden)[~blind[..., 0]]


class MaskNotExpanded(Mistake):
    """Empty rows were looked for in the mask as it came, and cleared by an index into the result.

    Why: A mask may be smaller than the scores, and then the index doesn't fit.
    Mend: `hidden.expand_as(scores)` makes it as large as the scores.
    """

    def weights(self, scores, hidden):
        weights = self.softmax(self.hide(scores, hidden)).clone()
        weights[hidden.all(dim=-1)] = 0.0
        return weights


class EmptyGuessed(Mistake):
    """Rows were taken for empty because of their numbers: equal scores, or weights that are equal.

    Why: A row of equal scores still sees all that isn't hidden, and should be the mean of that.
    Mend: Whether a row sees nothing stands in `hidden` alone.
    """

    def weights(self, scores, hidden):
        weights = self.softmax(scores.masked_fill(hidden, -1e30))
        equal = (weights - weights[..., :1]).abs().amax(-1, keepdim=True) == 0
        return weights.masked_fill(equal | hidden, 0.0)


def _guessed_among_several(self, scores, hidden):
    if scores.shape[-1] > 1:
        return EmptyGuessed.weights(self, scores, hidden)
    return self.softmax(scores.masked_fill(hidden, -1e30))


def _filled_in_place(self, scores, hidden):
    with torch.no_grad():
        scores.masked_fill_(hidden, -math.inf)
    return SafeMaskedSoftmax()(scores, hidden)


SAFE_MASKED_SOFTMAX = Exercise(
    id="safe_masked_softmax",
    lesson=LESSON,
    call="safe_masked_softmax(scores, hidden)",
    points=2.0,
    cases=_safe_cases,
    probe=FunctionProbe(gradients=("scores",), watch=True, extra=_see_both),
    expect=expect_function(_safe_oracle, gradients=("scores",)),
    reference=safe_masked_softmax,
    uses=("softmax", "masked_softmax"),
    properties=(
        Property(
            "matter",
            "A bigger score gets a bigger weight",
            _scores_matter,
            gate=True,
            role="open",
        ),
        Property("empty", "A row that sees nothing gets zeros", _empty_zero, credit=True),
        Property(
            "others",
            "Rows that see something give hidden keys exactly 0 and sum to 1",
            _others_as_ever,
            credit=True,
        ),
        Property(
            "finite_gradient",
            "No gradient is NaN",
            _gradient_is_finite,
            breaks="A NaN comes back as the gradient of the scores",
        ),
        Property(
            "no_nan",
            "No NaN arises on the way",
            _no_nan,
            credit=True,
            breaks="An operation on the way gives NaN, in its result or in its gradient",
            explain=_explain_nan,
        ),
        Property(
            "recorded",
            "Scores that ask for a gradient give the same weights",
            _same_when_recorded,
            role="typical",
            breaks="Scores that ask for a gradient give other weights",
        ),
    ),
    misconceptions=Misconceptions.of(
        m.NanRows,
        m.UniformOnHidden,
        m.UniformOnHidden.but(weights=_minimum),
        m.NanInGradient,
        NanPatched,
        m.MaskDroppedWhenEmpty,
        FiniteFillThenZeros,
        FiniteFillThenZeros.but(fill=-1e4),
        FiniteFillThenZeros.but(fill=-1e20),
        m.MaskAfterSoftmax,
        m.RenormalisedAfterSoftmax.on(
            SafeMaskedSoftmax,
            mend="Hide the scores before the softmax, and think of the row that sees nothing.",
        ),
        AnyForAll,
        EmptyColumns,
        first.WithoutKeepdim,
        MaskNotExpanded,
        OneKeyKept,
        EmptyGuessed,
        EverythingZero,
        RowsRemoved,
        m.OverQueries,
        m.SoftmaxTwice,
        m.Overflows,
        m.InfinityTimesZero,
        m.SubtractsBigNumber,
        m.ZeroTakenForHidden,
        m.ScoresIgnored,
        mm.OverSequences.on(
            SafeMaskedSoftmax,
            what="The softmax runs over the first dimension: over the sequences of a batch, where "
            "there is one.",
        ),
        m.MaskInverted.on(
            SafeMaskedSoftmax,
            why="In this course `True` means hidden.",
            mend="`hidden` is used as it comes: is there a `~` too many?",
        ),
        m.ZeroFill,
        m.PlusInfinity,
        m.ChangesItsInput.but(__call__=_filled_in_place).on(
            SafeMaskedSoftmax,
            what="The result is right, but -inf was written into the caller's scores.",
        ),
        m.Float32Result,
        m.CutOff,
        on=SafeMaskedSoftmax,
    ),
    hints=(
        "The trouble is a row of nothing but -inf. Find such rows from the mask: all of their keys "
        "are hidden.",
        "`hidden.all(dim=-1, keepdim=True)` marks them, in the shape `(…, T, 1)`. Give them equal "
        "scores before the softmax, so that no NaN arises, and clear their weights after it.",
        "`scores.masked_fill(hidden, -inf).masked_fill(empty, 0.0)`, softmax over the last "
        "dimension, then `.masked_fill(empty, 0.0)` once more.",
    ),
    other_way="""\
# The smallest finite number in place of -inf: no row is empty, and clearing makes hidden exact.
def safe_masked_softmax(scores, hidden):
    hidden = hidden.expand_as(scores)
    weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(hidden, 0.0)""",
    forbidden=BUILT_IN,
    forbidden_text="Here the softmax under a mask is yours to build: `torch.softmax` is welcome, "
    "the built-in attention is not.",
)


# ---------------------------------------------------------------- PaddedCausalSelfAttention


def _padded_cases(seed: int) -> list[Case]:
    return head_cases(seed, padded=True)


def _see_padded(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """Beside what every head shows: the mask by name and left out, other padding, each sequence
    alone."""
    see_head(make, case, seen)
    if "pad_mask" not in case.inputs:
        return
    x, pad_mask = case["x"], case["pad_mask"]

    def made(**how: Any) -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return make(**how)

    with torch.no_grad():
        other = torch.where(pad_mask[..., None], x + 2.0, x)
        seen.put("other padding", made()(fresh(other), fresh(pad_mask)))
        if "typical" not in case.roles:
            return
        seen.put("by name", made()(fresh(x), pad_mask=fresh(pad_mask)))
        module = made(as_made=True)
        module(fresh(x), fresh(pad_mask))
        seen.put("mask left out", module(fresh(x)))
        seen.put("no mask", made(as_made=True)(fresh(x)))
        module = made()
        module(fresh(x), fresh(~pad_mask))
        seen.put("after another mask", module(fresh(x), fresh(pad_mask)))
        alone = [module(fresh(s[None, ~pad])) for s, pad in zip(x, pad_mask, strict=True)]
        if all(isinstance(a, Tensor) and a.dim() == 3 for a in alone):
            alone = [a[0] for a in alone if a.shape[-1] == alone[0].shape[-1]]
            seen.put("alone", torch.cat(alone))


def _alone(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][~case["pad_mask"]], seen.tensors["alone"])


def _other_padding(case: Case, seen: Observation, expected: Expected) -> Verdict:
    real = ~case["pad_mask"]
    return near(seen.tensors["out"][real], seen.tensors["other padding"][real])


def _sees_nothing(case: Case) -> Tensor:
    return (~case["pad_mask"]).cumsum(1) == 0


def _nothing_is_zero(case: Case, seen: Observation, expected: Expected) -> Verdict:
    empty = _sees_nothing(case)
    return bool((seen.tensors["out"][empty] == 0).all()) if bool(empty.any()) else None


def _padded_rows(case: Case, seen: Observation, expected: Expected) -> Verdict:
    rows = case["pad_mask"] & ~_sees_nothing(case)
    if not bool(rows.any()):
        return None
    return near(seen.tensors["out"][rows], expected["out"][rows])


def _each_call(case: Case, seen: Observation, expected: Expected) -> Verdict:
    t = seen.tensors
    return near(t["mask left out"], t["no mask"]) and near(t["after another mask"], t["out"])


def _by_name(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["by name"], seen.tensors["out"])


def _writes_into(name: str) -> Callable[..., Any]:
    def forward(self, x, pad_mask=None):
        out = PaddedHead.forward(self, x, pad_mask)
        if pad_mask is not None and name == "x":
            with torch.no_grad():
                x.masked_fill_(pad_mask[:, :, None], 0.0)
        elif pad_mask is not None:
            pad_mask.logical_not_()
        return out

    return forward


PADDED_CAUSAL_SELF_ATTENTION = Exercise(
    id="PaddedCausalSelfAttention",
    lesson=LESSON,
    call="PaddedCausalSelfAttention(d_in, d_out, context_length, dropout=0.0, qkv_bias=False)",
    points=3.0,
    kind="class",
    cases=_padded_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_padded),
    expect=expect_module(head_oracle),
    reference=PaddedCausalSelfAttention,
    properties=(
        Property(
            "alone",
            "A padded sequence gives what it gives alone",
            _alone,
            credit=True,
            role="typical",
        ),
        Property(
            "other_padding",
            "What stands in the padding changes no token",
            _other_padding,
            credit=True,
        ),
        Property("nothing", "A query that sees nothing gives zeros", _nothing_is_zero, credit=True),
        Property(
            "padded_rows", "A padded query gives what it sees among earlier tokens", _padded_rows
        ),
        Property(
            "each_call",
            "Each call has its own mask, or none",
            _each_call,
            role="typical",
            breaks="The mask of an earlier call has a say in a later one",
        ),
        Property("by_name", "`forward(x, pad_mask=…)` is the same call", _by_name, role="typical"),
        *HEAD_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        m.NanRows,
        m.PadMaskIgnored,
        m.RowsHidden,
        first.LinedUpFromTheRight,
        first.MaskWrittenOver.but(hidden=first.padding_written_over),
        first.MaskWrittenOver.but(hidden=first.padding_written_over_a_cut),
        m.PaddingOnly,
        m.UniformOnHidden,
        m.NanInGradient,
        m.PaddedRowsCleared,
        m.PaddingInverted,
        m.BothNeeded,
        mm.PaddingAfterSoftmax,
        m.TokensCleared,
        m.MaskRequired,
        m.DiagonalKept,
        m.FirstSequencesMask,
        m.MaskDroppedWhenEmpty,
        *HEAD_MISTAKES,
        mm.DropoutWithoutPaddingOnly,
        mm.AnySequencesPadding,
        mm.PaddingKept,
        mm.PaddingInTrainingOnly,
        mm.PaddingInTrainingOnly.but(mode=False),
        m.ChangesItsInput.but(__call__=nn.Module.__call__, forward=_writes_into("pad_mask")).on(
            PaddedHead, what="The result is right, but `pad_mask` was changed in place."
        ),
        m.ChangesItsInput.but(__call__=nn.Module.__call__, forward=_writes_into("x")).on(
            PaddedHead, what="The result is right, but the padded tokens of `x` were overwritten."
        ),
        EmptyGuessed,
        EmptyGuessed.but(weights=_guessed_among_several),
        on=PaddedHead,
    ),
    uses=("attention_scores", "masked_softmax", "causal_and_padding", "safe_masked_softmax"),
    same_as=("MultiHeadAttentionWrapper", "MultiHeadAttention"),
    hints=(
        "Start from your `CausalSelfAttention`. Two lines change: the mask, which now may hold "
        "padding too, and the softmax, which must stand a row that sees nothing.",
        "`class PaddedCausalSelfAttention(attention.CausalSelfAttention):` keeps the constructor "
        "of the finished head; only `forward(self, x, pad_mask=None)` is new. Without a pad_mask "
        "the hidden part is the future, as before.",
        "`hidden = self.hidden[:T, :T]`; if pad_mask is not None: `hidden = hidden | "
        "pad_mask[:, None, :]`. Then `safe_masked_softmax(scores, hidden)`, dropout, and @ value.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the attention is yours to build: from scores, both masks, "
    "`safe_masked_softmax` and a product.",
)

EXERCISES = (
    PADDING_MASK,
    CAUSAL_AND_PADDING,
    WHO_HEARS_PADDING,
    SAFE_MASKED_SOFTMAX,
    PADDED_CAUSAL_SELF_ATTENTION,
)
