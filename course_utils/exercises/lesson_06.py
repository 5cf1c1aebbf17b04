"""Lesson 06: heads side by side, concatenated and mixed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..attention import MultiHeadAttentionWrapper, PaddedCausalSelfAttention
from ..checking.exercise import Case, Exercise, Misconception, Observation
from ..checking.modules import MODULE_BEHAVIOURS, ModuleProbe, expect_module
from ..checking.probing import probe_quiz
from .multi_head import (
    ATTENTION_BEHAVIOURS,
    attention_cases,
    drops_weights,
    see_attention,
    wrapper_oracle,
    wrapper_weights,
)
from .single_head import BUILT_IN

LESSON = "3-multi-head/06_heads_side_by_side"


# ---------------------------------------------------------------- the wrapper


def _arguments(d_in: int, D: int, context_length: int, H: int) -> tuple[int, int, int, int]:
    return d_in, D, context_length, H


def _cases(seed: int) -> list[Case]:
    return attention_cases(seed, _arguments, wrapper_weights)


class _Wrapper(nn.Module):
    """The right wrapper in steps that a misconception may replace."""

    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.heads = self.make_heads(d_in, d_head, context_length, num_heads, dropout, qkv_bias)
        self.out_proj = nn.Linear(d_head * num_heads, d_head * num_heads)

    def make_heads(self, d_in, d_head, context_length, num_heads, dropout, qkv_bias):
        return nn.ModuleList(
            PaddedCausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )

    def forward(self, x, pad_mask=None):
        return self.mix(torch.cat(self.contexts(x, pad_mask), dim=-1))

    def contexts(self, x, pad_mask):
        return [head(x, pad_mask) for head in self.heads]

    def mix(self, context):
        return self.out_proj(context)


class _MaskDropped(_Wrapper):
    def contexts(self, x, pad_mask):
        return [head(x) for head in self.heads]


class _MaskForFirstHead(_Wrapper):
    def contexts(self, x, pad_mask):
        return [head(x, None if h else pad_mask) for h, head in enumerate(self.heads)]


class _MaskForLastHead(_Wrapper):
    def contexts(self, x, pad_mask):
        last = len(self.heads) - 1
        return [head(x, pad_mask if h == last else None) for h, head in enumerate(self.heads)]


class _MaskInverted(_Wrapper):
    def contexts(self, x, pad_mask):
        return super().contexts(x, None if pad_mask is None else ~pad_mask)


class _MaskRequired(_Wrapper):
    def forward(self, x, pad_mask):  # type: ignore[override]
        return super().forward(x, pad_mask)


class _PaddingZeroedBefore(_Wrapper):
    def contexts(self, x, pad_mask):
        if pad_mask is not None:
            x = x.masked_fill(pad_mask[..., None], 0.0)
        return [head(x) for head in self.heads]


class _RowsBlanked(_Wrapper):
    def forward(self, x, pad_mask=None):
        out = super().forward(x, pad_mask)
        return out if pad_mask is None else out.masked_fill(pad_mask[..., None], 0.0)


class _NoMixing(_Wrapper):
    def mix(self, context):
        return context


class _ResidualInMixing(_Wrapper):
    def mix(self, context):
        return context + self.out_proj(context)


class _Interleaved(_Wrapper):
    def forward(self, x, pad_mask=None):
        return self.mix(torch.stack(self.contexts(x, pad_mask), dim=-1).flatten(-2))


class _Reshaped(_Wrapper):
    def forward(self, x, pad_mask=None):
        B, T, _ = x.shape
        return self.mix(torch.stack(self.contexts(x, pad_mask)).reshape(B, T, -1))


class _Averaged(_Wrapper):
    def contexts(self, x, pad_mask):
        contexts = super().contexts(x, pad_mask)
        return [torch.stack(contexts).mean(0)] * len(contexts)


class _FirstHeadOnly(_Wrapper):
    def contexts(self, x, pad_mask):
        return [self.heads[0](x, pad_mask) for _ in self.heads]


class _OneHeadRepeated(_Wrapper):
    def make_heads(self, d_in, d_head, context_length, num_heads, dropout, qkv_bias):
        head = PaddedCausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
        return nn.ModuleList([head] * num_heads)


class _PlainList(_Wrapper):
    def make_heads(self, *args):
        return list(super().make_heads(*args))


class _DropoutForgotten(_Wrapper):
    def make_heads(self, d_in, d_head, context_length, num_heads, dropout, qkv_bias):
        return super().make_heads(d_in, d_head, context_length, num_heads, 0.0, qkv_bias)


class _DropoutTwice(_Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def mix(self, context):
        return self.dropout(self.out_proj(context))


class _BiasForgotten(_Wrapper):
    def make_heads(self, d_in, d_head, context_length, num_heads, dropout, qkv_bias):
        return super().make_heads(d_in, d_head, context_length, num_heads, dropout, False)


class _CroppedToContext(_Wrapper):
    def __init__(self, d_in, d_head, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__(d_in, d_head, context_length, num_heads, dropout, qkv_bias)
        self.context_length = context_length

    def forward(self, x, pad_mask=None):
        return super().forward(x[:, : self.context_length], pad_mask)


WRAPPER = Exercise(
    id="MultiHeadAttentionWrapper",
    lesson=LESSON,
    call="MultiHeadAttentionWrapper(d_in, d_head, context_length, num_heads)",
    points=3.0,
    kind="class",
    cases=_cases,
    probe=ModuleProbe(gradients=("x",), extra=see_attention),
    expect=expect_module(wrapper_oracle),
    reference=MultiHeadAttentionWrapper,
    behaviours=(
        *ATTENTION_BEHAVIOURS,
        drops_weights(lambda case: case.options["weights"]),
        *MODULE_BEHAVIOURS,
    ),
    misconceptions=(
        Misconception(
            "mask_never_reaches_the_heads",
            _MaskDropped,
            "`forward` takes `pad_mask`, but no head receives it: the padding is attended to.",
            "Nothing complains, and each sentence's result depends on how long its neighbours in "
            "the batch are.",
            "What do you hand to each head? Compare it with the arguments of the head's `forward`.",
        ),
        Misconception(
            "mask_for_first_head_only",
            _MaskForFirstHead,
            "The first head hides the padding, all other heads see it.",
            "`out_proj` mixes the heads, so one that leaks spoils every channel of the result.",
            "Every head looks at the same tokens, so every head needs the same mask.",
        ),
        Misconception(
            "mask_for_last_head_only",
            _MaskForLastHead,
            "The last head hides the padding, all heads before it see it.",
            "`out_proj` mixes the heads, so one that leaks spoils every channel of the result.",
            "Every head looks at the same tokens, so every head needs the same mask.",
        ),
        Misconception(
            "mask_inverted",
            _MaskInverted,
            "The heads hide the real tokens and look at the padding.",
            "In this course `True` means hidden; some of PyTorch's functions mean the opposite.",
            "The mask that comes in is already the one that a head takes.",
        ),
        Misconception(
            "mask_required",
            _MaskRequired,
            "`forward` can't be called without a mask.",
            "A batch of equal lengths has no padding, and then nobody passes a mask.",
            "Give `pad_mask` a default value; the heads have the same one.",
        ),
        Misconception(
            "padding_zeroed_in_the_input",
            _PaddingZeroedBefore,
            "The padded tokens were set to 0 in `x`, and the heads still look at them.",
            "A zero vector has the score 0, and the softmax gives that a weight like any other.",
            "Hiding happens to the scores, inside each head. What does a head need for it?",
        ),
        Misconception(
            "padded_rows_blanked",
            _RowsBlanked,
            "The result was set to 0 in the padded rows.",
            "Rows are the tokens that look. Padding matters where it is looked *at*: in columns.",
            "Leave padded rows as they come out; nobody reads them later.",
        ),
        Misconception(
            "no_out_proj",
            _NoMixing,
            "The concatenation is returned as it is; `out_proj` exists but is not used.",
            "Without it no channel ever holds something of two heads.",
            "One step is missing between the concatenation and `return`.",
        ),
        Misconception(
            "out_proj_added",
            _ResidualInMixing,
            "The concatenation is added to what `out_proj` makes of it.",
            "Such a shortcut around a layer comes in lesson 08, around the whole of attention.",
            "Return what `out_proj` gives, and nothing more.",
        ),
        Misconception(
            "heads_interleaved",
            _Interleaved,
            "The channels of the heads alternate: first channel of each head, second of each, …",
            "`out_proj` and every set of saved weights expect one head after the other.",
            "In which order does `torch.cat` along the last dimension put them?",
        ),
        Misconception(
            "reshaped_across_tokens",
            _Reshaped,
            "The heads were stacked in front and reshaped: numbers of other tokens and sequences "
            "landed in each row.",
            "The shape is right, so nothing complains, and later tokens leak into earlier ones.",
            "A reshape keeps the order in memory. Which function puts tensors side by side along "
            "the last dimension?",
        ),
        Misconception(
            "heads_averaged",
            _Averaged,
            "The heads were averaged before `out_proj`.",
            "An average can't be undone: what only one head found is mixed away.",
            "Each head keeps its own channels until `out_proj`.",
        ),
        Misconception(
            "first_head_only",
            _FirstHeadOnly,
            "Every part of the result comes from the first head.",
            "The other heads are paid for, and they never see a token.",
            "Which head does your loop call in its second round?",
        ),
        Misconception(
            "one_head_repeated",
            _OneHeadRepeated,
            "The list holds one and the same head several times.",
            "`[head] * n` repeats the object, so all heads share their weights and learn the same.",
            "Build a new head in each round of the loop.",
        ),
        Misconception(
            "heads_in_a_plain_list",
            _PlainList,
            "The heads sit in a Python list, where PyTorch doesn't find them.",
            "No optimizer trains them, and they stay behind when the module moves or changes its "
            "dtype.",
            "PyTorch has a list of modules of its own.",
        ),
        Misconception(
            "dropout_forgotten",
            _DropoutForgotten,
            "`dropout` never reaches the heads: in training, no weight is dropped.",
            "The argument is there, and whoever sets it gets no effect and no error.",
            "Which of your arguments do you pass on when you build a head?",
        ),
        Misconception(
            "dropout_on_the_result",
            _DropoutTwice,
            "There is a second dropout, behind `out_proj`.",
            "Here dropout belongs to the attention weights, and each head takes care of that.",
            "Pass `dropout` on to the heads, and use it nowhere else.",
        ),
        Misconception(
            "qkv_bias_forgotten",
            _BiasForgotten,
            "`qkv_bias` never reaches the heads: they have no biases even when asked to.",
            "Weights of a model that has them (GPT-2, for one) would not fit in.",
            "Which of your arguments do you pass on when you build a head?",
        ),
        Misconception(
            "cut_to_context_length",
            _CroppedToContext,
            "Tokens beyond `context_length` were cut off in silence.",
            "Whoever passes too much gets a result for other tokens than they think.",
            "The heads refuse too many tokens by themselves. Let them.",
        ),
    ),
    hints=(
        "In the constructor, build `num_heads` heads in a loop, each with all that a head takes, "
        "inside `nn.ModuleList(…)`; and one `nn.Linear` that is as wide as all heads together.",
        "In `forward`, call every head with `x` and with `pad_mask`. You get `num_heads` tensors "
        "of shape (B, T, d_head); `torch.cat(…, dim=-1)` puts their channels side by side.",
        "`context = torch.cat([head(x, pad_mask) for head in self.heads], dim=-1)`. One more "
        "layer, and you have the result.",
    ),
    forbidden=BUILT_IN,
    forbidden_text="Here the heads do the work: build it from `PaddedCausalSelfAttention`.",
)


# ---------------------------------------------------------------- the quiz

ONE, CAT, RESULT = "one head", "concatenation", "result"
PAIRS = "pairs that give width 2"


def _quiz_cases(seed: int) -> list[Case]:
    return [
        Case(
            "B, T, d_in, d_head, H = 2, 5, 6, 4, 3",
            {},
            options={
                "entries": (ONE, CAT, RESULT, PAIRS),
                "why": {
                    ONE: "A head makes `d_head` channels for every token, whatever `d_in` is.",
                    CAT: "Three heads of width 4, side by side in the last dimension.",
                    RESULT: "`out_proj` mixes the channels and keeps their number.",
                    PAIRS: "`d_head * num_heads` must be 2: one head of width 2, or two of width "
                    "1.",
                },
                "ask": {
                    ONE: "Which argument says how many channels a head makes?",
                    CAT: "How many channels do 3 heads of width 4 have together?",
                    RESULT: "`out_proj` is as wide as all heads together, in and out.",
                    PAIRS: "The width is `d_head * num_heads`. Which whole numbers multiply to 2?",
                },
            },
        )
    ]


def _probe_pairs(answer: Any, case: Case) -> Observation:
    """As a quiz is read, with the list of pairs in any order."""
    seen = probe_quiz(answer, case)
    pairs = seen.tensors.get(PAIRS)
    if pairs is not None and pairs.dim() == 2 and pairs.numel():
        seen.tensors[PAIRS] = torch.tensor(sorted(pairs.tolist()))
    return seen


def _quiz(one, cat, result, pairs):
    return {ONE: one, CAT: cat, RESULT: result, PAIRS: pairs}


QUIZ_ANSWER = _quiz((2, 5, 4), (2, 5, 12), (2, 5, 12), [(1, 2), (2, 1)])

WRAPPER_SHAPES = Exercise(
    id="wrapper_shapes",
    lesson=LESSON,
    call="wrapper_shapes",
    points=1.0,
    kind="quiz",
    cases=_quiz_cases,
    probe=_probe_pairs,
    expect=lambda case: {k: torch.tensor(v) for k, v in QUIZ_ANSWER.items()},
    reference=QUIZ_ANSWER,
    misconceptions=(
        Misconception(
            "head_shares_the_input_width",
            _quiz((2, 5, 2), (2, 5, 6), (2, 5, 6), [(1, 2), (2, 1)]),
            "You cut the 6 input channels into 3 heads of 2.",
            "In this style every head reads all of `d_in` and makes `d_head` channels of it.",
            "`d_head` is the width of one head, and it is given: 4.",
        ),
        Misconception(
            "d_head_is_the_total",
            _quiz((2, 5, 4), (2, 5, 4), (2, 5, 4), [(2, 1), (2, 2)]),
            "You took `d_head` for the width of all heads together.",
            "Here `d_head` is the width of *one* head; confusing the two is a classic.",
            "Three heads of width 4 stand side by side.",
        ),
        Misconception(
            "heads_added",
            _quiz((2, 5, 4), (2, 5, 4), (2, 5, 4), [(1, 2), (2, 1)]),
            "You kept the width of one head, as if the heads were added up.",
            "Side by side, each head keeps its own channels, so the widths add up.",
            "`torch.cat` of three tensors (2, 5, 4) along the last dimension: how wide?",
        ),
        Misconception(
            "concatenated_along_tokens",
            _quiz((2, 5, 4), (2, 15, 4), (2, 15, 4), [(1, 2), (2, 1)]),
            "You put the heads one behind the other along the tokens.",
            "Then there would be 15 tokens, though the text still has 5.",
            "The channels stand side by side: the last dimension grows.",
        ),
        Misconception(
            "heads_as_a_dimension",
            _quiz((2, 5, 4), (2, 3, 5, 4), (2, 5, 12), [(1, 2), (2, 1)]),
            "You gave the heads a dimension of their own.",
            "That is the other style, in lesson 07; here they are concatenated.",
            "`torch.cat` makes no new dimension, it lengthens one.",
        ),
        Misconception(
            "back_to_the_input_width",
            _quiz((2, 5, 4), (2, 5, 12), (2, 5, 6), [(1, 2), (2, 1)]),
            "You let `out_proj` return to `d_in` channels.",
            "In this exercise it keeps the width: `d_head * num_heads` in and out.",
            "Look at the two sizes of `out_proj` in the text above.",
        ),
        Misconception(
            "two_heads_of_width_two",
            _quiz((2, 5, 4), (2, 5, 12), (2, 5, 12), [(2, 2)]),
            "Two heads of width 2 make a width of 4.",
            "Widths of heads add up when they stand side by side.",
            "What is `d_head * num_heads` for your pair?",
        ),
        Misconception(
            "one_pair_is_missing",
            _quiz((2, 5, 4), (2, 5, 12), (2, 5, 12), [(1, 2)]),
            "Two heads of width 1 is one way to width 2; there is another.",
            "One wide head and several narrow ones cost the same and see different things.",
            "What if there is a single head?",
        ),
        Misconception(
            "only_one_head",
            _quiz((2, 5, 4), (2, 5, 12), (2, 5, 12), [(2, 1)]),
            "One head of width 2 is one way to width 2; there is another.",
            "One wide head and several narrow ones cost the same and see different things.",
            "What if there are two heads?",
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
