"""Lesson 14: the questions of the clinic, and its exercises in order."""

from __future__ import annotations

from collections.abc import Mapping

from ..checking import Entry, Exercise
from ..checking.quizzes import quiz, slip
from ..experiments.clinic import CAUSES
from .lesson_14_attention import (
    FIX_MASK_AFTER_SOFTMAX,
    FIX_MISSING_SCALE,
    FIX_PADDING_ROWS,
    LESSON,
)
from .lesson_14_heads import FIX_UNEVEN_HEADS, FIX_VIEW_WITHOUT_TRANSPOSE
from .lesson_14_running import FIX_POSITION_OVERFLOW, FIX_SLOW_GENERATION, FIX_TRAINING_STEP

# ---------------------------------------------------------------- what was before

BRIDGE, WHOSE, NORM = "True in SDPA's mask", "another source changes", "LayerNorm's mean runs over"

RECALL_14 = quiz(
    "recall_14",
    lesson=LESSON,
    points=0.5,
    about="lessons 13, 11 and 08",
    entries=(
        Entry(
            BRIDGE,
            "takes part",
            "The opposite of the masks of this course, where True hides.",
            "What did you have to turn round before you called the built-in?",
            ("takes part", "is hidden"),
        ),
        Entry(
            WHOSE,
            "K and V",
            "The text that is written asks; what is looked at, and what it gives, is the source's.",
            "Which of the three are made from the source?",
            ("Q", "K and V", "Q, K and V"),
        ),
        Entry(
            NORM,
            "channels",
            "Each token is normed by itself, so no token hears of another.",
            "What would leak if the mean ran over something else?",
            ("channels", "tokens", "tokens and channels"),
        ),
    ),
    misconceptions=(
        slip(
            "sdpa_mask_hides",
            {BRIDGE: "is hidden"},
            "You took the built-in's mask for one of this course.",
            "Given one of ours as it is, it shows the future and hides the past.",
            "What did you have to turn round before you called the built-in?",
        ),
        slip(
            "queries_from_the_source",
            {WHOSE: "Q"},
            "You let the source ask.",
            "The text that is being written asks.",
            "Which of the three are made from the source?",
        ),
        slip(
            "everything_from_the_source",
            {WHOSE: "Q, K and V"},
            "You made all three from the source.",
            "That is the encoder's attention to itself.",
            "Who asks in cross-attention?",
        ),
        slip(
            "norm_over_tokens",
            {NORM: "tokens"},
            "You normed over the tokens.",
            "A token's numbers would then hang on those after it.",
            "What would leak if the mean ran over tokens?",
        ),
        slip(
            "norm_over_everything",
            {NORM: "tokens and channels"},
            "You normed over tokens and channels together.",
            "A token's numbers would then hang on those after it.",
            "What would leak if the mean ran over tokens?",
        ),
    ),
    hints=(
        "One built-in asks who takes part. In cross-attention one text asks, the other answers.",
        "`attn_mask=~hidden`; keys and values from the context; `x.mean(dim=-1)`.",
    ),
)

# ---------------------------------------------------------------- what it can be


def _cause(letter: str, right: str, why: str, ask: str, nudge: str) -> Exercise:
    """The question what ails a patient: one of `CAUSES`."""
    others = [cause for cause in CAUSES if cause != right]
    return quiz(
        f"cause_{letter}",
        lesson=LESSON,
        points=0.25,
        about=f"patient {letter.upper()}",
        entries=(Entry("cause", right, why, ask, tuple(CAUSES)),),
        misconceptions=[
            slip(
                "blamed_" + other.replace(",", "").replace(" ", "_"),
                {"cause": other},
                f"You named: {other}.",
                CAUSES[other],
                ask,
            )
            for other in others
        ],
        hints=(ask, nudge),
    )


CAUSE_A = _cause(
    "a",
    "rows hidden, not columns",
    "`pad_mask[:, None, :, None]` stands where the queries are: padding may not look, and is seen.",
    "Alone it is right, beside another text it isn't. What has the batch that one text hasn't?",
    "The scores are (B, H, queries, keys). Read the line that makes `padding`: in which of the two "
    "places is its T?",
)
CAUSE_B = _cause(
    "b",
    "scores not scaled",
    "float16 ends at 65,504, and a sum of D products of large numbers is beyond that.",
    "It begins at a certain width. Which line makes numbers that grow with the width?",
    "Between the product and the softmax, one thing is missing that lesson 04 gave a reason for.",
)
CAUSE_C = _cause(
    "c",
    "channels left over",
    "10 // 4 is 2: four heads of two channels, and two channels belong to no head.",
    "Work out D for 10 channels and 4 heads. Where does the last head end?",
    "4 · 2 is 8. `out` is as wide as `query`, and begins as zeros.",
)
CAUSE_E = _cause(
    "e",
    "mask after softmax",
    "The future took its share in the softmax; then its share was thrown away.",
    "The first token sees only itself. Which weight should it have, and which has it here?",
    "Work out by hand two equal scores, one of which is hidden, line by line.",
)
CAUSE_F = _cause(
    "f",
    "places from 1",
    "`cumsum` of 1, 1, 1 is 1, 2, 3: the first token stands at 1, and token 24 at 24.",
    "The table has rows 0 to 23. Which row does the first token get here?",
    "What does `cumsum` give for three real tokens?",
)
CAUSE_G = _cause(
    "g",
    "heads cut without a swap",
    "`reshape` fills (B, H, T, D) in the order in memory: head 0 gets the first tokens, whole.",
    "Less loss than the language allows: which line lets a row hear of later tokens?",
    "The mask is right, if the rows of a head are the tokens in order. Are they?",
)
CAUSE_H = _cause(
    "h",
    "nothing kept between words",
    "The cache that the model gives is thrown away, so each word pays for all words before it.",
    "Each further word takes longer than the one before. What is computed in each round?",
    "How many tokens go into the model in round 1, in round 2, in round 100?",
)

COMPARED, CLEARED, CLIPPED = "targets", "clearing", "clipping"
LINE = ("right", "missing", "too early", "too late", "not shifted")

CAUSE_D = quiz(
    "cause_d",
    lesson=LESSON,
    points=0.5,
    about="patient D",
    entries=(
        Entry(
            COMPARED,
            "not shifted",
            "Logits at t are compared with the token at t, which the model has just seen.",
            "Which token do the logits at t foretell, and which one are they compared with?",
            LINE,
        ),
        Entry(
            CLEARED,
            "missing",
            "`backward` adds to the gradients of all steps before.",
            "Which line clears the gradients?",
            LINE,
        ),
        Entry(
            CLIPPED,
            "too late",
            "When they are cut, the step has used them.",
            "Which line uses the gradients, and does it stand before the clipping or behind it?",
            LINE,
        ),
    ),
    misconceptions=(
        slip(
            "targets_taken_for_right",
            {COMPARED: "right"},
            "You took the targets for right.",
            "A loss of 0 on a language with an entropy of 1.2 can't be.",
            "Which token do the logits at t foretell, and which one are they compared with?",
        ),
        slip(
            "clearing_taken_for_right",
            {CLEARED: "right"},
            "You took the clearing for right.",
            "Nothing clears gradients by itself: `backward` adds to them.",
            "Which line clears the gradients?",
        ),
        slip(
            "clearing_taken_for_late",
            {CLEARED: "too late"},
            "You found a line that clears, at the wrong place.",
            "There is none in this program; whoever calls it doesn't clear either.",
            "Which line clears the gradients?",
        ),
        slip(
            "clipping_taken_for_right",
            {CLIPPED: "right"},
            "You took the clipping for right.",
            "A step that is taken can't be made shorter.",
            "Which line uses the gradients, and does it stand before the clipping or behind it?",
        ),
        slip(
            "clipping_taken_for_early",
            {CLIPPED: "too early"},
            "You took the clipping for too early.",
            "Too early would be in front of `backward`, where there are no gradients yet.",
            "Which line uses the gradients, and does it stand before the clipping or behind it?",
        ),
    ),
    hints=(
        "Three faults, one in each entry. A loss of 0 is a hint at the first.",
        "Say aloud what should happen in a step: forward, loss against what comes next, clear, "
        "backward, clip, step.",
    ),
)

# ---------------------------------------------------------------- what would have caught it

A, B, C, D = "patient A", "patient B", "patient C", "patient D"
FIRST_TESTS = ("batch as alone", "mean of ones", "float16", "let it write", "count positions")

NOTICED_A_TO_D = quiz(
    "noticed_a_to_d",
    lesson=LESSON,
    points=0.25,
    about="tests for patients A to D",
    entries=(
        Entry(
            A,
            "batch as alone",
            "What padding does to a text shows only where there is padding.",
            "Its sums are right, and it speaks well alone. What differs beside another text?",
            FIRST_TESTS,
        ),
        Entry(
            B,
            "float16",
            "In float32 the same scores are finite, and nothing but learning suffers.",
            "In which kind of numbers does it break?",
            FIRST_TESTS,
        ),
        Entry(
            C,
            "mean of ones",
            "A channel that belongs to no head gives 0, and no mean of ones is 0.",
            "Two channels come out as 0. For which values should no channel be 0?",
            FIRST_TESTS,
        ),
        Entry(
            D,
            "let it write",
            "Its loss is perfect; only alone does it have to foretell what it hasn't seen.",
            "What can a model not do that has learned to copy?",
            FIRST_TESTS,
        ),
    ),
    misconceptions=(
        slip(
            "padding_seen_in_sums",
            {A: "mean of ones"},
            "You looked for A's fault in the sums.",
            "Its rows sum to 1; they sum over the wrong tokens.",
            "What differs beside another text?",
        ),
        slip(
            "padding_seen_in_writing",
            {A: "let it write"},
            "You looked for A's fault in a text that it writes.",
            "One text alone has no padding.",
            "What differs beside another text?",
        ),
        slip(
            "overflow_seen_in_sums",
            {B: "mean of ones"},
            "You looked for B's fault in the sums, in float32.",
            "There all rows sum to 1, however lopsided they are.",
            "In which kind of numbers does it break?",
        ),
        slip(
            "lost_channels_seen_in_writing",
            {C: "let it write"},
            "You looked for C's fault in a text that it writes.",
            "It learns nearly as well with the channels that are left.",
            "For which values should no channel be 0?",
        ),
        slip(
            "lost_channels_seen_in_batches",
            {C: "batch as alone"},
            "You looked for C's fault in batches.",
            "Its channels are lost alone as well as in a batch.",
            "For which values should no channel be 0?",
        ),
        slip(
            "copying_seen_in_sums",
            {D: "mean of ones"},
            "You looked for D's fault in the sums.",
            "Its attention is sound; it was taught the wrong thing.",
            "What can a model not do that has learned to copy?",
        ),
    ),
    hints=(
        "Go through the tests and ask of each: would this program pass it?",
        "A breaks where texts are padded, B where there is no room for large numbers, C where a "
        "channel should be 1, D where no right word is given.",
    ),
)

ONLY_E, BOTH, ONLY_F, ONLY_H = "E and not G", "both E and G", "patient F", "patient H"
OTHER_TESTS = ("mean of ones", "change the future", "full length", "count positions", "float16")

NOTICED_E_TO_H = quiz(
    "noticed_e_to_h",
    lesson=LESSON,
    points=0.25,
    about="tests for patients E to H",
    entries=(
        Entry(
            ONLY_E,
            "mean of ones",
            "E's rows don't sum to 1. G's do: it mixes up tokens, not shares.",
            "Which of the two has weights that don't sum to 1?",
            OTHER_TESTS,
        ),
        Entry(
            BOTH,
            "change the future",
            "E hears the future in what it divides by, G in rows that hold other tokens.",
            "What do both hear that they shouldn't?",
            OTHER_TESTS,
        ),
        Entry(
            ONLY_F,
            "full length",
            "All shorter texts run, each token one place too far.",
            "At how many tokens does it break?",
            OTHER_TESTS,
        ),
        Entry(
            ONLY_H,
            "count positions",
            "Its text is right. A clock is no test: it says something else on each machine.",
            "Its text is right. What is wrong with how it came about?",
            OTHER_TESTS,
        ),
    ),
    misconceptions=(
        slip(
            "shares_seen_in_the_future",
            {ONLY_E: "change the future"},
            "You named a test that finds G too.",
            "Both let the future through, each in its own way.",
            "Which of the two has weights that don't sum to 1?",
        ),
        slip(
            "mixed_heads_seen_in_sums",
            {BOTH: "mean of ones"},
            "You looked for G's fault in the sums.",
            "A mean of ones is 1, whichever tokens are mixed.",
            "What do both hear that they shouldn't?",
        ),
        slip(
            "overflow_seen_in_the_future",
            {ONLY_F: "change the future"},
            "You looked for F's fault in the future.",
            "It looks at nothing but the place of each token.",
            "At how many tokens does it break?",
        ),
        slip(
            "slowness_seen_in_length",
            {ONLY_H: "full length"},
            "You looked for H's fault at the end of the context.",
            "It gets there, and says the right words.",
            "What is wrong with how its text came about?",
        ),
    ),
    hints=(
        "Go through the tests and ask of each: would this program pass it?",
        "E loses shares, G mixes up tokens, and both change when later tokens do. F has one place "
        "too few for its longest text, H does everything again.",
    ),
)

# ---------------------------------------------------------------- understanding

BATCH, SMALL, BELOW, FOREVER, LOWER, NONE, CURE, PUSHED = (
    "a text changes with its batch",
    "first tokens come out small",
    "a good text, and a loss below the floor",
    "one word for ever",
    "patients with a lower training loss",
    "patients that no instrument finds",
    "weights after a step on nan_to_num(loss)",
    "positions for 50 words behind 10, kept",
)
INSTRUMENTS = ("mean of ones", "batch as alone", "change the future", "let it write")

CLINIC_REASONS = quiz(
    "clinic_reasons",
    lesson=LESSON,
    points=1.0,
    about="symptoms and instruments",
    entries=(
        Entry(
            BATCH,
            "batch as alone",
            "The symptom, made into a line of code.",
            "Which instrument has two texts of different length in it?",
            INSTRUMENTS,
        ),
        Entry(
            SMALL,
            "mean of ones",
            "What comes out small is less than a mean: the shares don't sum to 1.",
            "What should the shares of a row sum to?",
            INSTRUMENTS,
        ),
        Entry(
            BELOW,
            "change the future",
            "Nobody foretells better than the language allows; whoever does has seen the answer.",
            "From where could a model know more than can be known?",
            INSTRUMENTS,
        ),
        Entry(
            FOREVER,
            "let it write",
            "It can't be seen where the right words are given.",
            "Where is a model not given the right words?",
            INSTRUMENTS,
        ),
        Entry(
            LOWER,
            3,
            "D, E and G: each has seen the answer. A loss that is too good is a symptom.",
            "Which curves lie below the floor?",
        ),
        Entry(
            NONE,
            2,
            "B and H: their numbers are right, in float32 and given time. They need tests of their "
            "own.",
            "Which rows of the table have no cross?",
        ),
        Entry(
            CURE,
            "NaN",
            "The loss is cured, its gradient isn't: 0 times NaN is NaN.",
            "What did the run with `nan_to_num` leave behind?",
            ("as before", "zero", "NaN"),
        ),
        Entry(
            PUSHED,
            59,
            "The 10 in one call, then each new word but the last.",
            "How many tokens does the first call take, and how many calls of one follow?",
        ),
    ),
    misconceptions=(
        slip(
            "batch_taken_for_the_future",
            {BATCH: "change the future"},
            "You took padding for the future.",
            "Padding in front lies in the past.",
            "Which instrument has two texts of different length in it?",
        ),
        slip(
            "good_loss_let_pass",
            {BELOW: "mean of ones"},
            "You looked for a leak in the sums.",
            "Sums may be right while the wrong tokens are mixed, as in G.",
            "From where could a model know more than can be known?",
        ),
        slip(
            "one_leak_missed",
            {LOWER: 2},
            "You missed one of them.",
            "A share that hangs on the future tells about it: E learns to read it.",
            "Which curves lie below the floor?",
        ),
        slip(
            "only_no_shift_lowers",
            {LOWER: 1},
            "You counted the missing shift alone.",
            "Whatever lets the answer through lowers the loss.",
            "Which curves lie below the floor?",
        ),
        slip(
            "crash_missed_by_all",
            {NONE: 3},
            "You counted one too many.",
            "F breaks as soon as it writes until its context is full.",
            "Which rows of the table have no cross?",
        ),
        slip(
            "cured_by_nan_to_num",
            {CURE: "as before"},
            "You took the cure for one.",
            "A loss of 0 has a gradient of 0, and on the way back 0 meets NaN.",
            "What is 0 times NaN?",
        ),
        slip(
            "nan_taken_for_zero",
            {CURE: "zero"},
            "You expected weights of 0.",
            "A gradient of 0 would leave the weights alone; this one isn't 0.",
            "What is 0 times NaN?",
        ),
        slip(
            "last_word_pushed",
            {PUSHED: 60},
            "You pushed the last word too.",
            "Nothing follows it, so nobody needs its logits.",
            "How many tokens does the first call take, and how many calls of one follow?",
        ),
        slip(
            "everything_pushed_again",
            {PUSHED: 1725},
            "You pushed all words again for each new one.",
            "That is H as it was found: 10 + 11 + … + 59.",
            "What is kept of the words before?",
        ),
    ),
    hints=(
        "Each instrument is a symptom that was made into code. The rest stands in the table, under "
        "the curves, and where `nan_to_num` was run.",
        "Curves below the floor: D, E, G. Rows without a cross: two. 0 · NaN is NaN. 10 + 49.",
    ),
)

PER_PATIENT: Mapping[str, tuple[Exercise, Exercise]] = {
    "A": (CAUSE_A, FIX_PADDING_ROWS),
    "B": (CAUSE_B, FIX_MISSING_SCALE),
    "C": (CAUSE_C, FIX_UNEVEN_HEADS),
    "D": (CAUSE_D, FIX_TRAINING_STEP),
    "E": (CAUSE_E, FIX_MASK_AFTER_SOFTMAX),
    "F": (CAUSE_F, FIX_POSITION_OVERFLOW),
    "G": (CAUSE_G, FIX_VIEW_WITHOUT_TRANSPOSE),
    "H": (CAUSE_H, FIX_SLOW_GENERATION),
}

EXERCISES = (
    RECALL_14,
    *(e for letter in "ABCD" for e in PER_PATIENT[letter]),
    NOTICED_A_TO_D,
    *(e for letter in "EFGH" for e in PER_PATIENT[letter]),
    NOTICED_E_TO_H,
    CLINIC_REASONS,
)
