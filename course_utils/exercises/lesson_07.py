"""Lesson 07: one projection, split into heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import attention
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
)
from ..checking.calling import fresh
from ..checking.comparing import near, same
from ..checking.exercise import Expected, Verdict
from ..checking.quizzes import quiz, slip
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.draw import Draw
from .kit.heads import BUILT_IN
from .kit.many_heads import (
    ATTENTION_PROPERTIES,
    SPLIT,
    attention_cases,
    distinct_sizes,
    see_attention,
    split_oracle,
)
from .kit.steps import Merge, Split, SplitHeads
from .lesson_04 import HEAD_MISTAKES
from .lesson_07_copying import COPY_WRAPPER_TO_SPLIT
from .lesson_07_counting import COUNT_PARAMETERS

LESSON = "3-multi-head/07_split_heads"


# ---------------------------------------------------------------- split_heads and merge_heads


def _split_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    by_hand = torch.arange(1.0, 13.0).view(1, 3, 4)
    double = draw.normal(c.B, c.T, c.width, dtype=torch.float64)
    small, by_name = {"small"}, {"keywords": ("x", "num_heads")}

    def case(name: str, x: Tensor, num_heads: int, **more) -> Case:
        return Case(name, {"x": x, "num_heads": num_heads}, **more)

    def refused(width: int, heads: int, T: int = 5) -> Case:
        numbers = (str(width), str(heads))
        return case(
            f"{width} channels, {heads} heads", draw.normal(2, T, width), heads, refuses=numbers
        )

    return [
        case("three tokens by hand", by_hand, 2, roles=small),
        case("random numbers", draw.normal(a.B, a.T, a.width), a.H, roles={"typical"}),
        case("not contiguous", draw.normal(b.T, b.B, b.width).transpose(0, 1), b.H),
        case("float64, given by name", double, c.H, options=by_name),
        case("more heads than channels in one", draw.normal(d.B, d.T, d.width), d.D),
        case("one head", draw.normal(d.B, d.T, d.D), 1, roles=small),
        case("heads of width 1", draw.normal(d.B, d.T, d.H), d.H, roles=small),
        case("one token, 200 sequences", draw.normal(200, 1, 6), 3, roles=small),
        case("equal tokens", draw.normal(3, 1, 10).expand(3, 4, 10).clone(), 2),
        case("1,040 tokens", draw.normal(2, 1040, 15), 3),
        case("1,040 channels", draw.normal(3, 4, 1040), 130),
        refused(10, 4),
        refused(3, 7),
        refused(12, 7),
        refused(13, 4, T=12),
    ]


def _split_oracle(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def _merge_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    by_hand = torch.arange(1.0, 13.0).view(1, 2, 3, 2)
    turned = draw.normal(c.D, c.T, c.H, c.B).permute(3, 2, 1, 0)
    double = draw.normal(d.B, d.H, d.T, d.D, dtype=torch.float64)
    by_name, small = {"keywords": ("x",)}, {"small"}
    return [
        Case("three tokens, two heads by hand", {"x": by_hand}, roles=small),
        Case("random numbers", {"x": draw.normal(a.B, a.H, a.T, a.D)}, roles={"typical"}),
        Case("as it is after a split", {"x": draw.normal(b.B, b.T, b.H, b.D).transpose(1, 2)}),
        Case("not contiguous", {"x": turned}),
        Case("float64, given by name", {"x": double}, options=by_name),
        Case("one head", {"x": draw.normal(b.B, 1, b.T, b.D)}, roles=small),
        Case("heads of width 1", {"x": draw.normal(c.B, c.H, c.T, 1)}, roles=small),
        Case("one token, 200 sequences", {"x": draw.normal(200, d.H, 1, d.D)}, roles=small),
        Case("one sequence", {"x": draw.normal(1, a.H, a.T, a.D)}, roles=small),
        Case("1,040 tokens", {"x": draw.normal(2, 3, 1040, 5)}),
        Case("130 heads of 8", {"x": draw.normal(3, 130, 4, 8)}),
    ]


def _merge_oracle(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(dim=1), dim=-1)


def _all_there(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """No constant and no repetition: all numbers of x are there."""
    if case.refuses is not None:
        return None
    mine, wanted = (t["out"].flatten().sort().values for t in (seen.tensors, expected))
    return near(mine, wanted)


def _see_odd_numbers(answer: Any, case: Case, seen: Observation) -> None:
    """One more call in half precision, with infinities and NaN among the numbers."""
    if "typical" not in case.roles:
        return
    seen.put_judged("odd", answer(*map(fresh, _odd(case).values())))


def _odd(case: Case) -> dict[str, Any]:
    odd = {name: v.half() if isinstance(v, Tensor) else v for name, v in case.inputs.items()}
    odd["x"][0, 0], odd["x"][:, -1, -1, ...] = math.inf, math.nan
    return odd


def _odd_pass(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]) or "half_dtype" in seen.facts:
        return None
    oracle: Callable[..., Tensor] = _split_oracle if len(case.inputs) == 2 else _merge_oracle
    return same(seen.tensors.get("judged:odd"), oracle(*_odd(case).values()))


def _split_keeps_tokens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Each token's numbers are found at its position, in whatever order."""
    if case.refuses is not None:
        return None
    mine = seen.tensors["out"].transpose(1, 2).flatten(2).sort(-1).values
    return near(mine, case["x"].sort(-1).values)


def _split_first_head(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return None if case.refuses else near(seen.tensors["out"][:, 0], expected["out"][:, 0])


def _merge_keeps_tokens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"].sort(-1).values, expected["out"].sort(-1).values)


def _merge_first_head(case: Case, seen: Observation, expected: Expected) -> Verdict:
    D = case["x"].shape[-1]
    return near(seen.tensors["out"][..., :D], expected["out"][..., :D])


ALL_THERE = Property("all_there", "Every number of `x` is still there", _all_there, gate=True)
ODD_PASS = Property(
    "odd",
    "Half precision, infinities and NaN pass through as any number does",
    _odd_pass,
    role="typical",
    breaks="Half precision, infinities or NaN don't pass through as other numbers do",
)
TOKENS = "A position holds the numbers of its own token"

SPLIT_HEADS = Exercise(
    id="split_heads",
    lesson=LESSON,
    call="split_heads(x, num_heads)",
    points=2.0,
    cases=_split_cases,
    probe=FunctionProbe(gradients=("x",), extra=_see_odd_numbers),
    expect=expect_function(_split_oracle, gradients=("x",)),
    reference=attention.split_heads,
    properties=(
        ALL_THERE,
        Property("tokens", TOKENS, _split_keeps_tokens, credit=True),
        Property(
            "first_head",
            "Head 0 holds the first D channels of each token",
            _split_first_head,
            credit=True,
        ),
        ODD_PASS,
    ),
    misconceptions=Misconceptions.of(
        h.ViewWithoutTranspose,
        h.ViewedAtOnce,
        h.NotTransposed,
        h.WidthInFractions,
        h.SizesOfTheExample,
        h.RefusalLeftToView,
        h.ChannelsDropped,
        h.SplitInterleaved,
        h.HeadsAndWidthSwapped,
        h.TransposedAndReshaped,
        h.OtherPairReshaped,
        h.WidthBeforeTokens,
        h.HeadsBeforeBatch,
        h.HeadsInTheBatch,
        h.BatchMixed,
        h.TupleOfHeads,
        h.ListOfHeads,
        h.FirstChannelsRepeated,
        h.SplitReversed,
        m.ChangesItsInput.on(Split, what="The heads are written into the input itself."),
        m.Float32Result,
        m.CutOff,
        on=Split,
    ),
    hints=(
        "Two steps: cut the last dimension C into (H, D), then let tokens and heads change places.",
        "`x.view(B, T, num_heads, D)` with `D = C // num_heads` cuts. For `C % num_heads != 0`, "
        "raise a `ValueError` first that names both.",
        "After the cut the shape is (B, T, H, D). `.transpose(1, 2)` makes it (B, H, T, D).",
    ),
    other_way="""\
# `unflatten` cuts one dimension and leaves all others alone: nothing can get into the wrong place.
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{x.shape[-1]} channels can't be cut into {num_heads} heads")
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
""",
)

MERGE_HEADS = Exercise(
    id="merge_heads",
    lesson=LESSON,
    call="merge_heads(x)",
    points=1.0,
    cases=_merge_cases,
    probe=FunctionProbe(gradients=("x",), extra=_see_odd_numbers),
    expect=expect_function(_merge_oracle, gradients=("x",)),
    reference=attention.merge_heads,
    properties=(
        ALL_THERE,
        Property("tokens", TOKENS, _merge_keeps_tokens, credit=True),
        Property(
            "first_head",
            "Head 0 fills the first D channels",
            _merge_first_head,
            credit=True,
            breaks="Head 0 doesn't fill the first D channels with its own, in order",
        ),
        ODD_PASS,
    ),
    misconceptions=Misconceptions.of(
        h.MergedWithoutTranspose,
        h.ViewAfterTranspose,
        h.OrderedTooEarly,
        h.HeadsNotJoined,
        h.TokensSwappedWithWidth,
        h.HeadsSwappedWithWidth,
        h.MergedInterleaved,
        h.JoinedWithTokens,
        h.TokensJoinedWithWidth,
        h.JoinedWithBatch,
        h.SequencesJoined,
        h.HeadsAdded,
        h.HeadsAveraged,
        h.FirstHeadOnly,
        h.BatchAndTokensSwapped,
        h.MergedReversed,
        m.Float32Result,
        m.CutOff,
        on=Merge,
    ),
    hints=(
        "It is `split_heads` backwards: swap heads and tokens, then join the last two dimensions.",
        "`x.transpose(1, 2)` is (B, T, H, D). `view` would complain; `reshape` (or `contiguous()` "
        "before the `view`) copies the numbers into the new order.",
    ),
    other_way="""\
# Side by side, as in lesson 06: the heads one after the other along the channels.
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)
""",
)


# ---------------------------------------------------------------- MultiHeadAttention


def _attention_cases(seed: int) -> list[Case]:
    def refused(width: int, heads: int, **named: int | float | bool) -> Case:
        """Refused where it is made: there is no input."""
        made = {"args": () if named else (5, width, 6, heads), "kwargs": named}
        return Case(f"{width} channels, {heads} heads", {}, (str(width), str(heads)), made)

    named = {"d_in": 5, "d_out": 3, "context_length": 8, "num_heads": 7}
    return [
        *attention_cases(seed, SPLIT, most_tokens=1040),
        refused(10, 4),
        refused(3, 7, **named, dropout=0.1, qkv_bias=True),
    ]


class ArgumentsInAnotherOrder(Mistake):
    """The constructor takes `qkv_bias` before `dropout`.

    Why: Whoever passes both by position gets them the other way about, without an error.
    Mend: Compare the order with the one that was given: …, num_heads, dropout, qkv_bias.
    """

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False, dropout=0.0):
        super().__init__(d_in, d_out, context_length, num_heads, dropout, qkv_bias)


_NOT_JOINED = {
    "what": "`out_proj` doesn't get all heads side by side: their dimension is still there, or was "
    "joined with another than the channels.",
    "why": "`out_proj` wants (B, T, C), with all heads in the last dimension.",
    "mend": "What is the shape in front of `out_proj`? `merge_heads` makes it (B, T, C).",
}
_ALL_SPLIT = "Queries, keys and values all go through `split_heads`: which shape does it give?"

MULTI_HEAD_ATTENTION = Exercise(
    id="MultiHeadAttention",
    lesson=LESSON,
    call="MultiHeadAttention(d_in, d_out, context_length, num_heads)",
    points=4.0,
    kind="class",
    cases=_attention_cases,
    probe=ModuleProbe(gradients=("x",), extra=see_attention),
    expect=expect_module(split_oracle),
    reference=attention.MultiHeadAttention,
    properties=ATTENTION_PROPERTIES,
    misconceptions=Misconceptions.of(
        h.ViewWithoutTranspose.on(
            SplitHeads, mend="Your merge swaps two dimensions. Does your split?"
        ),
        h.NeverTransposed,
        h.MergedWithoutTranspose,
        h.PadMaskWithoutHeads,
        h.PadMaskAsItComes,
        m.NanRows,
        h.NoOutProj,
        h.ScaledByModelWidth,
        m.PadMaskIgnored,
        h.UnevenHeadsAccepted,
        m.MaskRequired,
        h.MaskAlwaysUsed,
        h.KeyNotSplit,
        h.KeyNotSplit.but(left=0),
        h.KeyNotSplit.but(left=2),
        h.KeyNotTransposed,
        h.KeyNotTransposed.but(compared=lambda self, query, key: query @ key.transpose(1, 2)),
        h.KeyNotTransposed.but(compared=lambda self, query, key: query @ key.permute(3, 2, 1, 0)),
        h.NotTransposed.on(SplitHeads, mend=_ALL_SPLIT),
        h.HeadsNotJoined.on(SplitHeads, **_NOT_JOINED),
        h.HeadsNotJoined.but(merge=lambda self, x: x).on(SplitHeads, **_NOT_JOINED),
        h.ViewAfterTranspose,
        h.NeverSplit,
        *HEAD_MISTAKES,
        m.BlindToItself.on(
            SplitHeads,
            why="No token can then keep a share of itself, and token 0 is left with nothing.",
        ),
        m.MaskInverted,
        m.MaskIgnored,
        m.UniformOnHidden,
        m.NanInGradient,
        m.MaskDroppedWhenEmpty,
        m.PlusInfinity,
        h.OverHeads,
        *h.PADDING_FOR_SOME_HEADS,
        m.PaddingOnly,
        m.PaddingInverted,
        m.RowsHidden,
        m.RowsAndColumnsHidden,
        m.BothNeeded,
        mm.PaddingAfterSoftmax,
        m.FirstSequencesMask,
        mm.AnySequencesPadding,
        m.DiagonalKept,
        m.PaddedRowsCleared,
        m.TokensCleared,
        mm.PaddingKept,
        mm.PaddingInTrainingOnly,
        mm.PaddingInTrainingOnly.but(mode=False),
        mm.DropoutWithoutPaddingOnly,
        h.DropoutSharedByHeads,
        h.SplitInterleaved,
        h.MergedInterleaved,
        h.HeadsAndWidthSwapped,
        h.TransposedAndReshaped,
        h.OtherPairReshaped,
        h.BatchMixed,
        h.FirstChannelsRepeated,
        h.TokensSwappedWithWidth,
        h.HeadsSwappedWithWidth,
        h.BatchAndTokensSwapped,
        h.MergedReversed,
        h.KeysOfTheFirstHead,
        h.ScaledByHeadCount,
        h.OutProjBeforeMerge,
        h.OutProjOnValues,
        h.OutProjAdded,
        h.OutProjTwice,
        h.OutProjTransposed,
        h.OutProjBiasUnused,
        h.OutProjWithoutBias,
        h.HeadsMixedApart,
        ArgumentsInAnotherOrder,
        h.CutOff,
        on=SplitHeads,
    ),
    uses=(
        "attention_scores",
        "causal_and_padding",
        "safe_masked_softmax",
        "split_heads",
        "merge_heads",
    ),
    same_as=("MultiHeadAttentionWrapper",),
    hints=(
        "Four `nn.Linear`s, of which three go from `d_in` to `d_out`. Each of their results goes "
        "through `split_heads`; then all is as in lesson 05, with one dimension more.",
        "`attention_scores` and `safe_masked_softmax` work on the last two dimensions, so heads "
        "may stand in front. The causal mask is (T, T); `pad_mask` must become (B, 1, 1, T).",
        "`hidden = causal | pad_mask[:, None, None, :]`, weights through dropout, "
        "`merge_heads(weights @ value)`, and last `out_proj`.",
    ),
    other_way="""\
# causal_and_padding of lesson 05 makes (B, T, T); one None makes room for the heads.
class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"{d_out} channels can't be cut into {num_heads} heads")
        self.num_heads, self.context_length = num_heads, context_length
        for name in ["query", "key", "value"]:
            setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))
        self.out_proj, self.dropout = nn.Linear(d_out, d_out), nn.Dropout(dropout)

    def forward(self, x, pad_mask=None):
        B, T, _ = x.shape
        if T > self.context_length:
            raise ValueError(f"{T} tokens came in, at most {self.context_length} fit")
        if pad_mask is None:
            pad_mask = torch.zeros(B, T, dtype=torch.bool, device=x.device)
        hidden = attention.causal_and_padding(pad_mask)[:, None]  # (B, T, T) -> (B, 1, T, T)
        layers = [self.query, self.key, self.value]
        query, key, value = (split_heads(layer(x), self.num_heads) for layer in layers)
        scores = attention.attention_scores(query, key)  # (B, H, T, T)
        weights = self.dropout(attention.safe_masked_softmax(scores, hidden))
        return self.out_proj(merge_heads(weights @ value))
""",
    forbidden=BUILT_IN,
    forbidden_text="Here attention is yours to build: from scores, a mask, the softmax and `@`.",
)


# ---------------------------------------------------------------- the quiz

EMBEDDED, VIEWED, TURNED = (1, 4, 768), (1, 4, 8, 96), (1, 8, 4, 96)

HEAD_SHAPES = quiz(
    "head_shapes",
    lesson=LESSON,
    points=1.0,
    about="ids (1, 4), width 768, 8 heads of 96, vocabulary of 9,735",
    entries=(
        Entry(
            "embedding",
            EMBEDDED,
            "Each of the 4 ids becomes a vector of 768.",
            "How many ids are there, and how wide is the model?",
        ),
        Entry(
            "after view",
            VIEWED,
            "The last dimension is cut into 8 heads of 96; nothing else moves.",
            "Which dimension does the cut make two of?",
        ),
        Entry(
            "after transpose",
            TURNED,
            "Tokens and heads have changed places.",
            "`transpose(1, 2)` swaps which two sizes?",
        ),
        Entry(
            "key transposed",
            (1, 8, 96, 4),
            "The last two dimensions have changed places, so that query @ key fits.",
            "`transpose(-2, -1)` swaps the last two sizes of a key (1, 8, 4, 96).",
        ),
        Entry(
            "scores",
            (1, 8, 4, 4),
            "(4, 96) @ (96, 4) in each head: a score for each pair of tokens.",
            "Of (…, 4, 96) @ (…, 96, 4), which sizes are left?",
        ),
        Entry(
            "weighted values",
            TURNED,
            "(4, 4) @ (4, 96): the weights mix tokens and leave the width.",
            "Of (…, 4, 4) @ (…, 4, 96), which sizes are left?",
        ),
        Entry(
            "merged",
            EMBEDDED,
            "Swapped back, and 8 heads of 96 side by side are 768 again.",
            "How wide are 8 heads of 96 side by side?",
        ),
        Entry(
            "logits",
            (1, 4, 9735),
            "A score for each of the 9,735 words, at each of the 4 positions.",
            "The last layer turns each token's 768 channels into one score a word.",
        ),
    ),
    misconceptions=(
        slip(
            "not_transposed",
            {
                "after transpose": VIEWED,
                "key transposed": (1, 4, 96, 8),
                "scores": (1, 4, 8, 8),
                "weighted values": VIEWED,
            },
            "You left the heads behind the tokens all the way.",
            "Then (8, 96) @ (96, 8) compares heads with heads, and no token with another.",
            "`transpose(1, 2)` swaps the sizes at places 1 and 2.",
        ),
        slip(
            "view_without_transpose",
            {"after view": TURNED, "after transpose": VIEWED},
            "You took view and transpose in the other order.",
            "A view that brings the heads in front mixes tokens: that is this lesson's wrong way.",
            "The view only cuts the last dimension.",
        ),
        slip(
            "heads_and_width_swapped",
            {"after view": (1, 4, 96, 8), "after transpose": (1, 96, 4, 8)},
            "You cut the width into 96 heads of 8.",
            "Number and width of the heads multiply to the same 768, so no error would tell.",
            "The number of heads comes first, then the width of one.",
        ),
        slip(
            "full_width_in_every_head",
            {
                "after view": (1, 4, 8, 768),
                "after transpose": (1, 8, 4, 768),
                "key transposed": (1, 8, 768, 4),
                "weighted values": (1, 8, 4, 768),
            },
            "You gave every head the full width of 768.",
            "A view makes no new numbers: 4 · 8 · 768 is eight times what there is.",
            "Each head has its share of the width: 768 / 8.",
        ),
        slip(
            "key_transposed_everywhere",
            {"key transposed": (1, 96, 4, 8)},
            "You swapped the heads of the key with its width.",
            "A product multiplies the last two dimensions; batch and heads stay in front.",
            "`transpose(-2, -1)` touches the last two dimensions only.",
        ),
        slip(
            "scores_over_channels",
            {"scores": (1, 8, 96, 96)},
            "Your scores compare channels with channels.",
            "Attention compares tokens: one score for each query and each key.",
            "(4, 96) @ (96, 4): the inner size goes, the outer ones stay.",
        ),
        slip(
            "one_score_matrix",
            {"scores": (1, 4, 4)},
            "You have one matrix of scores for all heads.",
            "Each head compares the tokens in its own way: that is what heads are for.",
            "The dimensions of batch and heads stay in front of the product.",
        ),
        slip(
            "weights_returned",
            {"weighted values": (1, 8, 4, 4)},
            "You gave the weighted values the shape of the weights.",
            "Weights say how much; the result holds what was collected, 96 numbers a token.",
            "(4, 4) @ (4, 96): which sizes are left?",
        ),
        slip(
            "heads_not_joined",
            {"merged": VIEWED},
            "You swapped the heads back and left them a dimension of their own.",
            "`out_proj` takes 768 channels a token.",
            "How wide are 8 heads of 96 side by side?",
        ),
        slip(
            "last_token_only",
            {"logits": (1, 9735)},
            "You counted logits for the last token only.",
            "In training, every position predicts its own next token.",
            "The last layer works on each token alone: only the width changes.",
        ),
        slip(
            "ids_not_embedded",
            {"embedding": (1, 4)},
            "You gave the embedding the shape of the ids.",
            "An id is one number; the embedding replaces it by a vector.",
            "How wide is the model?",
        ),
        slip(
            "batch_forgotten",
            {"embedding": (4, 768), "after view": (4, 8, 96), "after transpose": (8, 4, 96)},
            "Some of your shapes are those of one sequence, without the batch.",
            "All sequences of a batch go through at once; B stays in front all the way.",
            "The ids are (1, 4). Where does the 1 go?",
        ),
    ),
    hints=(
        "`view` cuts the last dimension, 768 = 8 · 96. `transpose(1, 2)` swaps the sizes at places "
        "1 and 2.",
        "A product works on the last two dimensions: (4, 96) @ (96, 4) gives (4, 4), and "
        "(4, 4) @ (4, 96) gives (4, 96); batch and heads stay in front.",
    ),
)


# ---------------------------------------------------------------- why it is built so

ROW, DIVISOR, GROWS = "token in row 0 of head 1", "scores divided by", "grows with more heads"
HIDDEN, SWAPPED = "mask of text 1 hides keys from", "also to be swapped"
MORE_HEADS = ("parameters", "attention weights", "both", "neither")
FROM_WHOM = ("text 1", "head 1 of every text", "query 1 of every text")
OUT_PROJ = ("nothing", "rows of out_proj.weight", "columns of out_proj.weight")

SPLIT_REASONS = quiz(
    "split_reasons",
    lesson=LESSON,
    points=1.0,
    about="why heads are cut, scaled, masked and mixed the way they are",
    entries=(
        Entry(
            ROW,
            2,
            "`view` counts on: 4 rows of 3 numbers are in head 0, so row 0 of head 1 begins at "
            "number 12, the first one of token 2.",
            "How many numbers does head 0 take up, and to which token does the next one belong?",
        ),
        Entry(
            DIVISOR,
            4.0,
            "A head is 144 / 9 = 16 wide, and √16 = 4.",
            "Which vectors are multiplied here, and how wide are they?",
        ),
        Entry(
            GROWS,
            "attention weights",
            "The layers go from C to C whatever H is; each head has a (T, T) matrix of weights.",
            "What has a dimension H in it: a layer's weight, or the weights of the softmax?",
            MORE_HEADS,
        ),
        Entry(
            HIDDEN,
            "query 1 of every text",
            "Shapes line up from the right: (B, T) meets (queries, keys).",
            "Line (4, 4) up with (B, H, T, T) from the right: which two sizes does it meet?",
            FROM_WHOM,
        ),
        Entry(
            SWAPPED,
            "columns of out_proj.weight",
            "A column of a weight belongs to a channel that comes in, and those have changed "
            "places.",
            "`out_proj.weight` is (out, in). On which side do the heads come?",
            OUT_PROJ,
        ),
    ),
    misconceptions=(
        slip(
            "view_taken_for_split",
            {ROW: 0},
            "You read the view as if it were a split: row 0 of every head is token 0.",
            "That is so after a cut and a swap. A single view counts on through the memory.",
            "Number the 24 numbers from 0, and write them into 2 tables of 4 rows and 3 columns.",
        ),
        slip(
            "head_taken_for_token",
            {ROW: 1},
            "You let head 1 begin at token 1.",
            "Head 0 takes up half of all numbers, and that is two tokens of four.",
            "Number the 24 numbers from 0, and write them into 2 tables of 4 rows and 3 columns.",
        ),
        slip(
            "scaled_by_model_width",
            {DIVISOR: 12.0},
            "You took the root of C, the width of all heads together.",
            "The scores come out too small, so every head looks too evenly at all tokens.",
            "How wide is one head?",
        ),
        slip(
            "scaled_by_head_count",
            {DIVISOR: 3.0},
            "You took the root of the number of heads.",
            "How big a dot product gets depends on its vectors, not on how many heads there are.",
            "How wide is one head?",
        ),
        slip(
            "root_missing",
            {DIVISOR: 16.0},
            "You divided by D; its root is missing.",
            "The spread of a dot product grows with √D; divided by D, the weights become nearly "
            "equal.",
            "16 is the width of a head. What is asked?",
        ),
        slip(
            "parameters_grow_with_heads",
            {GROWS: "parameters"},
            "You let the parameters grow with the heads.",
            "More heads are narrower heads: together they are C wide, as before.",
            "What are the sizes of `query.weight` with 12 heads, and with 24?",
        ),
        slip(
            "all_grows_with_heads",
            {GROWS: "both"},
            "You let the parameters grow along with the weights of the softmax.",
            "More heads are narrower heads: together they are C wide, as before.",
            "What are the sizes of `query.weight` with 12 heads, and with 24?",
        ),
        slip(
            "heads_cost_nothing",
            {GROWS: "neither"},
            "You found that nothing grows.",
            "Each head compares all tokens with all tokens, and keeps what it found.",
            "What is the shape of the scores with 12 heads, and with 24?",
        ),
        slip(
            "pad_mask_as_it_comes",
            {HIDDEN: "text 1"},
            "You took it that B finds B by itself.",
            "Scores are (B, H, T, T); only when B and T happen to be equal is there no error.",
            "Shapes line up from the right.",
        ),
        slip(
            "pad_mask_without_heads",
            {HIDDEN: "head 1 of every text"},
            "You lined the mask up with the heads.",
            "When B and H happen to be equal, it hides the wrong columns without an error.",
            "That is so with `[:, None, :]`. Here the mask has two dimensions.",
        ),
        slip(
            "out_proj_finds_heads",
            {SWAPPED: "nothing"},
            "You left `out_proj` as it was.",
            "It knows a head by the place of its channels alone.",
            "Which channels does head 0 fill before the swap, and which after it?",
        ),
        slip(
            "rows_for_columns",
            {SWAPPED: "rows of out_proj.weight"},
            "You swapped the rows of `out_proj.weight`.",
            "A row makes a channel that comes out, and those are mixtures of all heads.",
            "`out_proj.weight` is (out, in). On which side do the heads come?",
        ),
    ),
    hints=(
        "For the first: number the 24 numbers from 0, six a token, and write them into 2 tables "
        "of 4 rows and 3 columns. For the second: what is multiplied with what?",
        "For the third, write down the shapes of `query.weight` and of the scores. For the "
        "fourth, line the shapes up from the right. For the last, `weight` is (out, in).",
    ),
)

EXERCISES = (
    SPLIT_HEADS,
    MERGE_HEADS,
    HEAD_SHAPES,
    MULTI_HEAD_ATTENTION,
    SPLIT_REASONS,
    COPY_WRAPPER_TO_SPLIT,
    COUNT_PARAMETERS,
)
