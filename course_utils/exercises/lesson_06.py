"""Lesson 06: heads side by side, concatenated and mixed."""

from __future__ import annotations

from torch import nn

from ..attention import MultiHeadAttentionWrapper
from ..checking import Entry, Exercise, Misconceptions, Mistake, ModuleProbe, expect_module
from ..checking.quizzes import quiz, slip
from .kit import head_mistakes as h
from .kit import mistakes as m
from .kit import module_mistakes as mm
from .kit.heads import BUILT_IN
from .kit.many_heads import (
    ATTENTION_PROPERTIES,
    SIDE_BY_SIDE,
    attention_cases,
    see_attention,
    wrapper_oracle,
)
from .kit.steps import SideBySide

LESSON = "3-multi-head/06_heads_side_by_side"


# ---------------------------------------------------------------- the wrapper


class PadMaskIgnored(Mistake):
    """`forward` takes `pad_mask`, but no head receives it: the padding is attended to.

    Why: Nothing complains, and each sentence's result depends on how long its neighbours in the
        batch are.
    Mend: What do you hand to each head? Compare it with the arguments of the head's `forward`.
    """

    def look(self, h, x, pad_mask):
        return self.heads[h](x)


class PaddingInverted(Mistake):
    """The heads hide the real tokens and look at the padding.

    Why: In this course `True` means hidden; some of PyTorch's functions mean the opposite.
    Mend: The mask that comes in is already the one that a head takes.
    """

    def look(self, h, x, pad_mask):
        return super().look(h, x, None if pad_mask is None else ~pad_mask)


class FirstSequencesMask(Mistake):
    """Every sequence got the padding mask of sequence 0.

    Why: Sequences of a batch have different lengths; that is why there is a mask.
    Mend: Hand `pad_mask` to each head as it comes.
    """

    def look(self, h, x, pad_mask):
        pad_mask = None if pad_mask is None else pad_mask[:1].expand_as(pad_mask)
        return super().look(h, x, pad_mask)


class PaddingInTrainingOnly(Mistake):
    __doc__ = mm.PaddingInTrainingOnly.__doc__
    mode = True

    def look(self, h, x, pad_mask):
        return super().look(h, x, pad_mask if self.training == self.mode else None)


class MaskDroppedWhenEmpty(Mistake):
    __doc__ = m.MaskDroppedWhenEmpty.__doc__

    def look(self, h, x, pad_mask):
        if pad_mask is not None:
            pad_mask = pad_mask & ~pad_mask.all(1, keepdim=True)
        return super().look(h, x, pad_mask)


class FirstHeadEverywhere(Mistake):
    """Every part of the result comes from the first head.

    Why: The other heads are paid for, and they never see a token.
    Mend: Which head does your loop call in its second round?
    """

    def look(self, h, x, pad_mask):
        return super().look(0, x, pad_mask)


class EachHeadOnTheLast(Mistake):
    """Each head reads what the head before it made: they stand in a row, not side by side.

    Why: All heads should look at the same tokens, each in its own way.
    Mend: What does your loop hand to the second head: `x`, or the first head's result?
    """

    def contexts(self, x, pad_mask):
        made = []
        for head in self.heads:
            x = head(x, pad_mask)
            made.append(x)
        return made


class OneHeadRepeated(Mistake):
    """The list holds one and the same head several times.

    Why: `[head] * n` repeats the object, so all heads share their weights and learn the same.
    Mend: Build a new head in each round of the loop.
    """

    def listed(self, heads):
        return nn.ModuleList([next(heads)] * self.num_heads)


class HeadsInAPlainList(Mistake):
    """The heads sit in a Python list, where PyTorch doesn't find them.

    Why: No optimizer trains them, and they stay behind when the module moves or changes its dtype.
    Mend: PyTorch has a list of modules of its own.
    """

    def listed(self, heads):
        return list(heads)


class NoDropout(Mistake):
    """`dropout` never reaches the heads: in training, no weight is dropped.

    Why: The argument is there, and whoever sets it gets no effect and no error.
    Mend: Which of your arguments do you pass on when you build a head?
    """

    def rate(self, dropout):
        return 0.0


class DropoutOnResult(m.DropoutOnResult):
    """Dropout acts on what the heads collected or on the result, and not on the weights.

    Why: Here it should make a token do without some of the others, and each head takes care of
        that.
    Mend: Pass `dropout` on to the heads, and use it nowhere else.
    """

    def head(self, d_in, d_head, context_length, dropout, qkv_bias):
        return super().head(d_in, d_head, context_length, 0.0, qkv_bias)


class DropoutInEvaluation(Mistake):
    """Dropout is active in evaluation mode too: two calls give two results.

    Why: `F.dropout` doesn't know the module's mode unless it is told.
    Mend: Pass `dropout` on to the heads: theirs follows `.train()` and `.eval()` by itself.
    """

    def mixed(self, merged):
        return nn.functional.dropout(super().mixed(merged), self.dropout.p or 0.1)


class BiasNever(Mistake):
    """`qkv_bias` never reaches the heads: they have no biases even when asked to.

    Why: Weights of a model that has them (GPT-2, for one) would not fit in.
    Mend: Which of your arguments do you pass on when you build a head?
    """

    def bias(self, qkv_bias):
        return False


class BiasAlways(Mistake):
    """The heads have biases whatever `qkv_bias` says.

    Why: The module has more parameters than its caller asked for.
    Mend: Which of your arguments do you pass on when you build a head, and in which order?
    """

    def bias(self, qkv_bias):
        return True


class BiasAndDropoutSwapped(Mistake):
    """`dropout` and `qkv_bias` changed places on their way to the heads.

    Why: Both are accepted without an error, and neither does what was asked.
    Mend: Compare the order with the head's constructor, or pass them by name.
    """

    def head(self, d_in, d_head, context_length, dropout, qkv_bias):
        return super().head(d_in, d_head, context_length, float(qkv_bias), bool(dropout))


class ArgumentsNotHandedOn(Mistake):
    """Neither `dropout` nor `qkv_bias` reaches the heads.

    Why: The arguments are there, and whoever sets them gets no effect and no error.
    Mend: Which of your arguments do you pass on when you build a head?
    """

    def rate(self, dropout):
        return 0.0

    def bias(self, qkv_bias):
        return False


class LongTextCut(m.LongTextCut):
    """Tokens beyond context_length were cut off without a word.

    Why: Whoever passes too much gets a result for other tokens than they think.
    Mend: The heads refuse too many tokens by themselves. Let them.
    """

    def forward(self, x, pad_mask=None):
        pad_mask = None if pad_mask is None else pad_mask[:, : self.context_length]
        return super().forward(x, pad_mask)


class ListOfContexts(Mistake):
    """`out_proj` gets a list of the heads' results, and a layer takes one tensor.

    Why: Only in one tensor do all channels of a token stand in one row.
    Mend: One step is missing before `out_proj`: put the results side by side.
    """

    def result(self, context, pad_mask):
        return self.mixed(list(context.unbind(1)))


class ListOfHeadsCalled(Mistake):
    """You called the list of heads as if it were a layer.

    Why: An `nn.ModuleList` only keeps modules. It doesn't know in which order to use them.
    Mend: Go through it with a loop, and call each head by itself.
    """

    def contexts(self, x, pad_mask):
        return self.heads(x, pad_mask)


class DHeadIsTheTotal(Mistake):
    """You took `d_head` for the width of all heads together.

    Why: Here `d_head` is the width of *one* head; confusing the two is a classic.
    Mend: Each head makes `d_head` channels; how many do all make together?
    """

    def head(self, d_in, d_head, *others):
        return super().head(d_in, max(d_head // self.num_heads, 1), *others)


class InputSharedOut(Mistake):
    """Each head was made for its own part of the input's channels.

    Why: In this style every head reads all of `d_in`; only what comes out is shared among them.
    Mend: What does a head get to see: a slice of `x`, or `x`?
    """

    def head(self, d_in, *others):
        return super().head(max(d_in // self.num_heads, 1), *others)


class BackToTheInputWidth(Mistake):
    """`out_proj` returns to `d_in` channels.

    Why: In this exercise it keeps the width: `d_head * num_heads` in and out.
    Mend: Look at the two sizes of `out_proj` in the text above.
    """

    def __init__(self, d_in, *args, **kwargs):
        super().__init__(d_in, *args, **kwargs)
        self.out_proj = nn.Linear(self.out_proj.in_features, d_in)


def _narrow(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
    SideBySide.__init__(self, d_in, d_head, context_length, num_heads, dropout, qkv_bias)
    self.out_proj = nn.Linear(d_head, d_head)


_RESHAPED = {
    "what": "The heads were stacked and reshaped: numbers of other tokens or sequences landed in "
    "each row.",
    "why": "The shape is right, so nothing complains, and later tokens leak into earlier ones.",
    "mend": "A reshape keeps the order in memory. Which function puts tensors side by side along "
    "the last dimension?",
}
_ELSEWHERE = {
    "what": "The heads were put together along another dimension than the last, and `out_proj` "
    "gets D channels where it wants H · D.",
    "why": "Along the batch there are more texts than came in, along the tokens longer ones.",
    "mend": "Along which dimension does `torch.cat` put the heads?",
}
_STACKED = {
    "what": "The heads got a dimension of their own.",
    "why": "`out_proj` takes (B, T, H · D): all channels of a token in one row.",
    "mend": "`torch.cat` makes no new dimension, it lengthens one.",
}
_SIDE_BY_SIDE = "In which order and along which dimension does `torch.cat` put the heads?"


def _repeated(average):
    return lambda self, x: average(x).repeat(1, 1, x.shape[1])


_JOINED_ELSEWHERE = (
    (lambda self, x: x.transpose(0, 1).flatten(0, 1), _ELSEWHERE),  # cat along the batch
    (lambda self, x: x.flatten(1, 2), _ELSEWHERE),  # cat along the tokens
    (lambda self, x: x.transpose(0, 1), _STACKED),
    (lambda self, x: x.permute(0, 2, 3, 1), _STACKED),  # heads last
    (h.HeadsNotJoined.merge, _STACKED),
)

WRAPPER = Exercise(
    id="MultiHeadAttentionWrapper",
    lesson=LESSON,
    call="MultiHeadAttentionWrapper(d_in, d_head, context_length, num_heads)",
    points=3.0,
    kind="class",
    cases=lambda seed: attention_cases(seed, SIDE_BY_SIDE, most_tokens=300),
    probe=ModuleProbe(gradients=("x",), extra=see_attention),
    expect=expect_module(wrapper_oracle),
    reference=MultiHeadAttentionWrapper,
    properties=ATTENTION_PROPERTIES,
    misconceptions=Misconceptions.of(
        PadMaskIgnored,
        *h.PADDING_FOR_SOME_HEADS,
        h.NoOutProj,
        HeadsInAPlainList,
        NoDropout,
        BiasNever,
        ArgumentsNotHandedOn,
        m.MaskRequired.on(SideBySide, mend="Give `pad_mask` a default; the heads have the same."),
        OneHeadRepeated,
        *(
            h.HeadsNotJoined.but(merge=merge).on(SideBySide, **words)
            for merge, words in _JOINED_ELSEWHERE
        ),
        ListOfContexts,
        ListOfHeadsCalled,
        h.MergedWithoutTranspose.on(SideBySide, **_RESHAPED),
        h.MergedWithoutTranspose.but(
            merge=lambda self, x: x.transpose(0, 1).reshape(len(x), x.shape[2], -1)
        ).on(SideBySide, **_RESHAPED),
        h.MergedInterleaved.on(SideBySide, mend=_SIDE_BY_SIDE),
        h.HeadsAveraged.but(merge=_repeated(lambda x: x.mean(1))),
        h.HeadsAdded.but(merge=_repeated(lambda x: x.sum(1))),
        h.HeadsAdded.but(__init__=_narrow),
        h.HeadsAdded,
        FirstHeadEverywhere,
        EachHeadOnTheLast,
        PaddingInverted,
        FirstSequencesMask,
        PaddingInTrainingOnly,
        PaddingInTrainingOnly.but(mode=False),
        MaskDroppedWhenEmpty,
        m.TokensCleared.on(SideBySide, mend="Hand `pad_mask` to the heads: they hide the scores."),
        m.PaddedRowsCleared.on(
            SideBySide,
            mend="Hide columns only. A query that sees nothing gives the bias of `out_proj`, not "
            "zeros.",
        ),
        h.OutProjAdded,
        m.DropoutTwice.on(
            SideBySide,
            what="There is a second dropout beside that of the heads.",
            mend="Pass `dropout` on to the heads, and use it nowhere else.",
        ),
        DropoutOnResult,
        DropoutInEvaluation,
        *(
            wrong.on(SideBySide, mend="Pass the constructor's argument on to the heads.")
            for wrong in (
                m.DropoutFixed,
                m.DropoutFixed.but(rate=lambda self, dropout: 0.1 if dropout else 0.0),
                m.DropoutFixed.but(rate=lambda self, dropout: 0.5 if dropout else 0.0),
                mm.DropoutKeepsShare,
            )
        ),
        mm.PaddingKept,
        BiasAlways,
        BiasAndDropoutSwapped,
        LongTextCut,
        DHeadIsTheTotal,
        InputSharedOut,
        BackToTheInputWidth,
        h.OutProjTwice,
        h.OutProjTransposed,
        h.OutProjBiasUnused,
        h.OutProjWithoutBias,
        h.HeadsMixedApart,
        h.MergedReversed.on(SideBySide, mend=_SIDE_BY_SIDE),
        h.CutOff,
        m.CutOff,
        m.PairReturned.on(
            SideBySide, why="The next layer expects one tensor, of shape `(B, T, H · d_head)`."
        ),
        on=SideBySide,
    ),
    hints=(
        "In the constructor, build `num_heads` heads in a loop, each with all that a head takes, "
        "inside `nn.ModuleList(…)`; and one `nn.Linear` that is as wide as all heads together.",
        "In `forward`, call every head with `x` and with `pad_mask`. You get `num_heads` tensors "
        "of shape (B, T, d_head); `torch.cat(…, dim=-1)` puts their channels side by side.",
        "`context = torch.cat([head(x, pad_mask) for head in self.heads], dim=-1)`. One more "
        "layer, and you have the result.",
    ),
    uses=("PaddedCausalSelfAttention",),
    same_as=("MultiHeadAttention",),
    other_way="""\
# `stack` keeps the heads apart as a dimension (B, T, H, D), and `flatten` joins its last two.
class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        made = (d_in, d_head, context_length, dropout, qkv_bias)
        heads = [attention.PaddedCausalSelfAttention(*made) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)
        self.out_proj = nn.Linear(d_head * num_heads, d_head * num_heads)

    def forward(self, x, pad_mask=None):
        contexts = torch.stack([head(x, pad_mask) for head in self.heads], dim=2)
        return self.out_proj(contexts.flatten(2))
""",
    forbidden=BUILT_IN,
    forbidden_text="Here the heads do the work: build it from `PaddedCausalSelfAttention`.",
)


# ---------------------------------------------------------------- the quiz

ONE, CAT, RESULT = "one head", "concatenation", "result"
PAIRS = "pairs that give width 2"

WRAPPER_SHAPES = quiz(
    "wrapper_shapes",
    lesson=LESSON,
    points=1.0,
    about="B, T, d_in, d_head, H = 2, 5, 6, 4, 3",
    entries=(
        Entry(
            ONE,
            (2, 5, 4),
            "A head makes `d_head` channels for every token, whatever `d_in` is.",
            "What stands in front of T, and which argument says how many channels a head makes?",
        ),
        Entry(
            CAT,
            (2, 5, 12),
            "Three heads of width 4, side by side in the last dimension.",
            "How many channels do 3 heads of width 4 have together?",
        ),
        Entry(
            RESULT,
            (2, 5, 12),
            "`out_proj` mixes the channels and keeps their number.",
            "`out_proj` is as wide as all heads together, in and out.",
        ),
        Entry(
            PAIRS,
            [(1, 2), (2, 1)],
            "`d_head * num_heads` must be 2: one head of width 2, or two of width 1.",
            "The width is `d_head * num_heads`. Which whole numbers multiply to 2?",
        ),
    ),
    misconceptions=(
        slip(
            "input_shared_out",
            {ONE: (2, 5, 2), CAT: (2, 5, 6), RESULT: (2, 5, 6)},
            "You cut the 6 input channels into 3 heads of 2.",
            "In this style every head reads all of `d_in` and makes `d_head` channels of it.",
            "`d_head` is the width of one head, and it is given: 4.",
        ),
        slip(
            "d_head_is_the_total",
            {CAT: (2, 5, 4), RESULT: (2, 5, 4), PAIRS: [(2, 1), (2, 2)]},
            "You took `d_head` for the width of all heads together.",
            "Here `d_head` is the width of *one* head; confusing the two is a classic.",
            "Three heads of width 4 stand side by side.",
        ),
        slip(
            "heads_added",
            {CAT: (2, 5, 4), RESULT: (2, 5, 4)},
            "You kept the width of one head, as if the heads were added up.",
            "Side by side, each head keeps its own channels, so the widths add up.",
            "`torch.cat` of three tensors (2, 5, 4) along the last dimension: how wide?",
        ),
        slip(
            "joined_with_tokens",
            {CAT: (2, 15, 4), RESULT: (2, 15, 4)},
            "You put the heads one behind the other along the tokens.",
            "Then there would be 15 tokens, though the text still has 5.",
            "The channels stand side by side: the last dimension grows.",
        ),
        slip(
            "heads_not_joined",
            {CAT: (2, 3, 5, 4)},
            "You gave the heads a dimension of their own.",
            "That is the other style, in lesson 07; here they are concatenated.",
            "`torch.cat` makes no new dimension, it lengthens one.",
        ),
        slip(
            "back_to_the_input_width",
            {RESULT: (2, 5, 6)},
            "You let `out_proj` return to `d_in` channels.",
            "In this exercise it keeps the width: `d_head * num_heads` in and out.",
            "Look at the two sizes of `out_proj` in the text above.",
        ),
        slip(
            "two_heads_of_width_two",
            {PAIRS: [(2, 2)]},
            "Two heads of width 2 make a width of 4.",
            "Widths of heads add up when they stand side by side.",
            "What is `d_head * num_heads` for your pair?",
        ),
        slip(
            "one_pair_is_missing",
            {PAIRS: [(1, 2)]},
            "Two heads of width 1 is one way to width 2; there is another.",
            "One wide head and several narrow ones cost the same and see different things.",
            "What if there is a single head?",
        ),
        slip(
            "one_pair_is_missing",
            {PAIRS: [(2, 1)]},
            "One head of width 2 is one way to width 2; there is another.",
            "One wide head and several narrow ones cost the same and see different things.",
            "What if there are two heads?",
        ),
        slip(
            "batch_forgotten",
            {ONE: (5, 4), CAT: (5, 12), RESULT: (5, 12)},
            "Some of your shapes are those of one sequence, without the batch.",
            "All sequences of a batch go through at once; B stays in front all the way.",
            "Which letter stands in front of T?",
        ),
    ),
    hints=(
        "Each head is a `PaddedCausalSelfAttention(d_in, d_head, …)`: it turns (B, T, d_in) into "
        "(B, T, d_head).",
        "Concatenation along the last dimension adds up the widths: H heads of d_head make "
        "H · d_head channels, and `out_proj` keeps that number. For the pairs, find all ways to "
        "write 2 as `d_head * num_heads`.",
    ),
)

EXERCISES = (WRAPPER_SHAPES, WRAPPER)
