"""Lesson 08: what is recalled and what is understood; the exercises in their order."""

from __future__ import annotations

from ..checking import (
    Entry,
)
from ..checking.quizzes import quiz, slip
from .lesson_08_block import LESSON, TRANSFORMER_BLOCK
from .lesson_08_counting import BLOCK_PARAMETERS
from .lesson_08_gelu import GELU
from .lesson_08_network import FEED_FORWARD
from .lesson_08_norm import LAYER_NORM

# ---------------------------------------------------------------- recall

VIEW, PADDED, PAIRS = "moves no number", "padding hides", "scores at T = 8"

RECALL = quiz(
    "recall_08",
    lesson=LESSON,
    points=0.5,
    about="lessons 07, 05 and 01, without looking back",
    entries=(
        Entry(
            VIEW,
            "both",
            "`view` sets new borders, `transpose` another order of reading; in memory nothing "
            "moves.",
            "`reshape` and `contiguous` may copy. Do `view` and `transpose` ever have to?",
            ("view", "transpose", "both", "neither"),
        ),
        Entry(
            PADDED,
            "columns",
            "A column of the scores is a token that is looked at: padding is not to be heard.",
            "A row is a token that looks, a column one that is looked at.",
            ("rows", "columns", "both"),
        ),
        Entry(
            PAIRS,
            64,
            "Each token meets each token: T², mask or not.",
            "Each of the 8 tokens meets how many?",
        ),
    ),
    misconceptions=(
        slip(
            "transpose_copies",
            {VIEW: "view"},
            "You let `transpose` move the numbers.",
            "It only has them read in another order; that is why `view` refuses afterwards.",
            "What did `is_contiguous()` say after a `transpose`?",
        ),
        slip(
            "view_copies",
            {VIEW: "transpose"},
            "You let `view` move the numbers.",
            "A view of a tensor shares its memory; that is where the name comes from.",
            "What happens to x if you write into `x.view(…)`?",
        ),
        slip(
            "both_copy",
            {VIEW: "neither"},
            "You let both of them move the numbers.",
            "Both share the memory of the tensor they come from.",
            "Which method copies when it must?",
        ),
        slip(
            "padded_rows_hidden",
            {PADDED: "rows"},
            "You hid the rows of padded tokens.",
            "Real tokens would still see the padding, and padded queries nothing.",
            "A row is a token that looks, a column one that is looked at.",
        ),
        slip(
            "padded_rows_and_columns_hidden",
            {PADDED: "both"},
            "You hid the rows of padded tokens as well.",
            "A padded query is computed like any other; whoever uses the result leaves it out.",
            "What must not be *heard*?",
        ),
        slip(
            "visible_pairs_only",
            {PAIRS: 36},
            "You counted the scores that stay visible.",
            "The mask hides the others after they were computed: a (T, T) matrix has T² numbers.",
            "How many numbers has a matrix of 8 rows and 8 columns?",
        ),
        slip(
            "one_score_a_token",
            {PAIRS: 8},
            "You counted one score a token.",
            "Each token is compared with each.",
            "How many numbers has a matrix of 8 rows and 8 columns?",
        ),
    ),
    hints=(
        "The first is from lesson 07, section 3; the second from lesson 05; the third from "
        "02, section 5, and 04: a masked score is computed too.",
        "A `transpose` leaves a tensor that is not contiguous. Columns are looked at. T² is not "
        "halved by a mask.",
    ),
)


# ---------------------------------------------------------------- understanding

MOVES, SILENT, PRE, POST, FLAT, LEAK = (
    "moves information between positions",
    "out_proj and contract are zero",
    "norms on the stream, Pre-LN",
    "norms on the stream, Post-LN",
    "LayerNorm of (7, 7, 7)",
    "tokens that notice",
)
PARTS = ("norm1", "attention", "feed_forward", "the residual")
WHAT_COMES = ("x", "zeros", "norm1(x)", "2x")

BLOCK_REASONS = quiz(
    "block_reasons",
    lesson=LESSON,
    points=1.0,
    about="who does what in a block",
    entries=(
        Entry(
            MOVES,
            "attention",
            "Norms, the network and the `+` treat each token alone.",
            "In which part does a token meet another?",
            PARTS,
        ),
        Entry(
            SILENT,
            "x",
            "Both branches add 0, and the stream comes out as it went in.",
            "What does each branch then add?",
            WHAT_COMES,
        ),
        Entry(
            PRE,
            0,
            "Both norms of a block stand on its branches; the way from input to output has only "
            "`+` on it.",
            "Follow x from the input to the output without turning off into a branch.",
        ),
        Entry(
            POST,
            24,
            "Two norms a block, each behind a `+`: whatever is on the stream passes them all.",
            "Each `+` is followed by a norm. How many `+` have 12 blocks?",
        ),
        Entry(
            FLAT,
            (0, 0, 0),
            "Less the mean nothing is left, and eps keeps 0/√(0 + eps) from being NaN.",
            "What is left after the mean is subtracted, and what is it divided by?",
        ),
        Entry(
            LEAK,
            3,
            "Tokens 3, 4 and 5: a causal block lets a token be heard by itself and those after it.",
            "Under a causal mask, who may hear token 3?",
        ),
    ),
    misconceptions=(
        slip(
            "network_mixes_tokens",
            {MOVES: "feed_forward"},
            "You let the feed-forward network carry things from token to token.",
            "A linear layer works on the last dimension, the channels of one token.",
            "Change one token: whose feed-forward result changes?",
        ),
        slip(
            "norm_mixes_tokens",
            {MOVES: "norm1"},
            "You let the norm carry things from token to token.",
            "Mean and variance are those of one token's channels; over tokens the future would "
            "leak.",
            "Over which dimension does it run?",
        ),
        slip(
            "residual_mixes_tokens",
            {MOVES: "the residual"},
            "You let the `+` carry things from token to token.",
            "It adds to each token what its own branches found.",
            "Which shapes are added, and at which positions?",
        ),
        slip(
            "branches_replace",
            {SILENT: "zeros"},
            "You let the branches take the place of the stream.",
            "They add to it: what was there stays.",
            "What is x + 0?",
        ),
        slip(
            "norm_on_the_stream",
            {SILENT: "norm1(x)"},
            "You let the norm act on the stream itself.",
            "In Pre-LN the branch alone reads the normed tokens; the stream stays as it is.",
            "To what is the branch added?",
        ),
        slip(
            "added_twice",
            {SILENT: "2x"},
            "You added the stream to itself.",
            "Each `+` adds a branch to the stream; both branches are 0 here.",
            "What stands on the right of each `+`?",
        ),
        slip(
            "norms_counted_on_branches",
            {PRE: 24},
            "You counted the norms of the branches.",
            "The stream itself goes past them: that is why gradients get back so well.",
            "Follow x from the input to the output without turning off into a branch.",
        ),
        slip(
            "pre_and_post_swapped",
            {PRE: 24, POST: 0},
            "You took Pre-LN and Post-LN the other way about.",
            "*Pre* is before the branch, *post* is after the sum.",
            "In which of them does the norm come after the `+`?",
        ),
        slip(
            "one_norm_a_block",
            {POST: 12},
            "You counted one norm a block.",
            "A block has two branches, and each `+` has its norm.",
            "How many `+` has a block?",
        ),
        slip(
            "scaled_to_one",
            {FLAT: (1, 1, 1)},
            "You divided and did not subtract.",
            "The mean goes to 0 first, and of equal channels nothing is left.",
            "What is 7 less the mean of 7, 7 and 7?",
        ),
        slip(
            "left_as_it_is",
            {FLAT: (7, 7, 7)},
            "You left the token as it was.",
            "A norm makes the mean 0, whatever it was.",
            "What is 7 less the mean of 7, 7 and 7?",
        ),
        slip(
            "past_notices",
            {LEAK: 5},
            "You let all tokens notice.",
            "Under a causal mask nobody hears what comes after.",
            "Who may hear token 3?",
        ),
        slip(
            "one_notices",
            {LEAK: 1},
            "You let only the token itself notice.",
            "Those after it hear it through attention.",
            "Who may hear token 3?",
        ),
        slip(
            "later_ones_only",
            {LEAK: 2},
            "You left out the token itself.",
            "It is on its own stream, and hears itself too.",
            "Who may hear token 3, and whose stream is it?",
        ),
    ),
    hints=(
        "Draw two tokens as two lines, with branches that turn off and come back. Which box has "
        "lines from both?",
        "Pre: the norm is on the branch. Post: it is on the line itself, behind each `+`. "
        "`LayerNorm` subtracts first.",
    ),
)

EXERCISES = (
    RECALL,
    LAYER_NORM,
    GELU,
    FEED_FORWARD,
    TRANSFORMER_BLOCK,
    BLOCK_REASONS,
    BLOCK_PARAMETERS,
)
