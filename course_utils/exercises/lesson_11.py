"""Lesson 11: what is recalled and what is understood; the exercises in their order."""

from __future__ import annotations

from ..checking import Entry
from ..checking.quizzes import quiz, slip
from .lesson_11_blocks import DECODER_BLOCK, ENCODER_BLOCK
from .lesson_11_cross import CROSS_ATTENTION, LESSON

# ---------------------------------------------------------------- recall

TARGET, ADDED, SCALE = "the target at 3", "attention is added to", "scores divided by"

RECALL = quiz(
    "recall_11",
    lesson=LESSON,
    points=0.5,
    about="lessons 10, 08 and 04, without looking back",
    entries=(
        Entry(
            TARGET,
            9,
            "Each token is asked for the next: the targets are the ids, one to the left.",
            "In the text 7, 3, 9, 4: what should be said after the 3?",
        ),
        Entry(
            ADDED,
            "x",
            "A branch reads through the norm and is added to the stream as it was.",
            "What stands to the left of the `+`?",
            ("x", "norm1(x)", "nothing"),
        ),
        Entry(
            SCALE,
            8,
            "√64: a dot product runs over the 64 channels of one head.",
            "How wide is a head, and by how much does a dot product grow with its width?",
        ),
    ),
    misconceptions=(
        slip(
            "target_is_the_token_itself",
            {TARGET: 3},
            "You asked the token for itself.",
            "A model that sees the 3 would only have to copy it.",
            "What should be said *after* the 3?",
        ),
        slip(
            "target_is_the_token_before",
            {TARGET: 7},
            "You moved the ids the wrong way.",
            "The token before has been seen already.",
            "What should be said *after* the 3?",
        ),
        slip(
            "added_to_the_normed",
            {ADDED: "norm1(x)"},
            "You added the branch to the normed tokens.",
            "Then a norm would stand on the way from input to output, in every block.",
            "Which name holds the tokens as they came?",
        ),
        slip(
            "attention_replaces",
            {ADDED: "nothing"},
            "You let attention take the place of the tokens.",
            "Twelve such layers make all tokens alike.",
            "What did the cosine say, replaced and added?",
        ),
        slip(
            "scaled_by_all_heads",
            {SCALE: 16},
            "You took the root of all heads together, 256.",
            "The scores would come out too small, and each head would look too evenly at all.",
            "The width of the vectors in *that* dot product counts.",
        ),
        slip(
            "square_root_forgotten",
            {SCALE: 64},
            "You forgot the root.",
            "The spread of a dot product grows with √D.",
            "Which number brings the variance back to 1?",
        ),
        slip(
            "scaled_by_head_count",
            {SCALE: 2},
            "You took the root of the number of heads.",
            "How many heads there are changes no dot product.",
            "The width of the vectors in *that* dot product counts.",
        ),
    ),
    hints=(
        "The first is from lesson 10, the second from lesson 08, the third from lessons 04 and 07.",
        "The next token; the stream as it was; the root of the width of one head.",
    ),
)


# ---------------------------------------------------------------- shapes

QUERY, KEY, TURNED, SCORES = "query", "key", "key transposed", "scores"
CONTEXT, RESULT = "context", "result"

CROSS_ATTENTION_SHAPES = quiz(
    "cross_attention_shapes",
    lesson=LESSON,
    points=0.75,
    about="a source of 4 and a target of 6 tokens, width 768, 8 heads",
    entries=(
        Entry(
            QUERY,
            (1, 8, 6, 96),
            "The target asks: 6 queries in each of 8 heads.",
            "Which text asks, and how wide is one head?",
        ),
        Entry(
            KEY,
            (1, 8, 4, 96),
            "The source answers: 4 keys in each of 8 heads.",
            "Which text is asked, how many tokens has it, and how wide is one head?",
        ),
        Entry(
            TURNED,
            (1, 8, 96, 4),
            "The last two dimensions have changed places, so that query @ key fits.",
            "Which two dimensions does a matrix product work on?",
        ),
        Entry(
            SCORES,
            (1, 8, 6, 4),
            "(6, 96) @ (96, 4) in each head: a row for each target token, a column for each of the "
            "source.",
            "Rows ask, columns are asked.",
        ),
        Entry(
            CONTEXT,
            (1, 8, 6, 96),
            "(6, 4) @ (4, 96): what each target token collected, in each head.",
            "The weights are (6, 4) in each head. What are they multiplied by?",
        ),
        Entry(
            RESULT,
            (1, 6, 768),
            "Merged and mixed, a row for each token that asked.",
            "To what will it be added?",
        ),
    ),
    misconceptions=(
        slip(
            "source_asks",
            {QUERY: (1, 8, 4, 96), KEY: (1, 8, 6, 96)},
            "You let the source ask and the target answer.",
            "The text that is being written asks; the other one is there to be read.",
            "What should come out has a row for each token that asked.",
        ),
        slip(
            "scores_transposed",
            {SCORES: (1, 8, 4, 6)},
            "You turned the scores: the source in the rows.",
            "The softmax runs along a row, so a row belongs to the token that asks.",
            "Rows ask, columns are asked.",
        ),
        slip(
            "square_scores",
            {SCORES: (1, 8, 6, 6)},
            "You made the scores square, as in self-attention.",
            "Here two texts meet, and their lengths have nothing to do with each other.",
            "How many keys are there?",
        ),
        slip(
            "square_scores_of_the_source",
            {SCORES: (1, 8, 4, 4)},
            "You let the source look at itself.",
            "That has happened in the encoder already.",
            "Who asks here?",
        ),
        slip(
            "heads_turned_too",
            {TURNED: (1, 96, 4, 8)},
            "You moved the heads as well.",
            "Each head compares for itself, so batch and heads stay in front.",
            "Which two dimensions does a matrix product work on?",
        ),
        slip(
            "as_many_as_the_source",
            {CONTEXT: (1, 8, 4, 96)},
            "You gave what is collected a row for each token of the source.",
            "Who asks, collects.",
            "(6, 4) @ (4, 96) is …?",
        ),
        slip(
            "result_of_the_source",
            {RESULT: (1, 4, 768)},
            "You gave the result a row for each token of the source.",
            "It is added to the stream of the target.",
            "To what will it be added?",
        ),
        slip(
            "heads_not_merged",
            {RESULT: (1, 6, 96)},
            "You merged no heads: 96 is the width of one.",
            "8 heads of 96 side by side are 768 again.",
            "What does `merge_heads` give?",
        ),
    ),
    hints=(
        "Two lengths: 6 tokens ask, 4 are asked. Which of the two stands in each tensor?",
        "A head is 768 / 8 wide. Scores are (1, 8, asks, asked); what comes out is as long as what "
        "asked.",
    ),
)


# ---------------------------------------------------------------- understanding

SOURCE, MASK, SILENT, HISTORY, LAST, ONCE = (
    "only the source changes",
    "shape of the source mask",
    "the target's mask, T = S",
    "no history",
    "may look at source token 3",
    "keys of the source",
)

CROSS_ATTENTION_REASONS = quiz(
    "cross_attention_reasons",
    lesson=LESSON,
    points=1.0,
    about="who asks, who answers, and what is hidden",
    entries=(
        Entry(
            SOURCE,
            "key and value",
            "The target asks the same questions, and gets other answers.",
            "Which of the three layers reads the source?",
            ("query", "key", "value", "key and value", "all three"),
        ),
        Entry(
            MASK,
            (2, 1, 1, 4),
            "A text has its own padding; heads and queries share it; the 4 keys are the columns.",
            "Which dimensions does the mask differ along, and which may be 1?",
        ),
        Entry(
            SILENT,
            "nothing",
            "All shapes fit: the wrong words are hidden, and the only sign is a worse translation.",
            "Would a shape differ, or a row see nothing?",
            ("an error", "NaN", "nothing"),
        ),
        Entry(
            HISTORY,
            "cross-attention",
            "Without it the decoder never reads the source. Pre-LN and GELU translate as well.",
            "Which of the three could a translator not do without?",
            ("Post-LN", "ReLU", "cross-attention"),
        ),
        Entry(
            LAST,
            6,
            "All of them, the first too: the source is there as a whole.",
            "Is any token of the source in the future of the first target token?",
        ),
        Entry(
            ONCE,
            1,
            "They hang on the source alone, and it stays the same while the target grows.",
            "What of the source changes when a word is written?",
        ),
    ),
    misconceptions=(
        slip(
            "queries_change_too",
            {SOURCE: "all three"},
            "You let the queries change as well.",
            "They are made from the target, and it is as before.",
            "Which of the three layers reads the source?",
        ),
        slip(
            "queries_from_the_source",
            {SOURCE: "query"},
            "You let the source ask.",
            "The text that is being written asks.",
            "Which of the three layers reads the source?",
        ),
        slip(
            "values_alone",
            {SOURCE: "value"},
            "You left out the keys.",
            "A source token is found by its key, and that is made from it, too.",
            "What is a token found by, and what does it hand over?",
        ),
        slip(
            "keys_alone",
            {SOURCE: "key"},
            "You left out the values.",
            "What a source token hands over is made from it, too.",
            "What is a token found by, and what does it hand over?",
        ),
        slip(
            "mask_over_queries",
            {MASK: (2, 1, 6, 1)},
            "You laid the mask over the rows.",
            "Rows are the target's tokens, and the mask speaks of the source.",
            "Rows ask, columns are asked.",
        ),
        slip(
            "mask_without_heads",
            {MASK: (2, 1, 4)},
            "You left out a dimension: the 2 would meet the heads.",
            "Shapes line up from the right.",
            "How many dimensions do the scores have?",
        ),
        slip(
            "mask_as_it_comes",
            {MASK: (2, 4)},
            "You used the mask as it comes.",
            "Shapes line up from the right: its 2 would meet the 6 queries.",
            "How many dimensions do the scores have?",
        ),
        slip(
            "error_expected",
            {SILENT: "an error"},
            "You counted on an error.",
            "Errors come from shapes that don't fit, and here all fit.",
            "Is there a shape that tells the two texts apart when T = S?",
        ),
        slip(
            "nan_expected",
            {SILENT: "NaN"},
            "You counted on NaN.",
            "That came from rows that see nothing; here each sees something, and be it the wrong "
            "words.",
            "Does a row see nothing?",
        ),
        slip(
            "post_norm_needed",
            {HISTORY: "Post-LN"},
            "You took Post-LN for what translates.",
            "It says where the norms stand; both ways can be trained.",
            "Which of the three lets the decoder read the source?",
        ),
        slip(
            "relu_needed",
            {HISTORY: "ReLU"},
            "You took ReLU for what translates.",
            "It is a bend like GELU, which came later.",
            "Which of the three lets the decoder read the source?",
        ),
        slip(
            "triangle_on_the_source",
            {LAST: 3},
            "You laid a causal mask over the source.",
            "It is there as a whole before the first word is written.",
            "Is any token of the source in the future of the first target token?",
        ),
        slip(
            "one_column",
            {LAST: 1},
            "You let one token look at one.",
            "Each row of the scores spans all 4 source tokens.",
            "How many rows have the scores?",
        ),
        slip(
            "keys_made_again",
            {ONCE: 6},
            "You made the keys again for every word.",
            "It would give the same numbers 6 times.",
            "What of the source changes when a word is written?",
        ),
    ),
    hints=(
        "Draw the rectangle: target tokens down the side, source tokens along the top. Everything "
        "about a column comes from the source.",
        "Keys and values are columns. The mask lines up from the right: (…, queries, keys).",
    ),
)

EXERCISES = (
    RECALL,
    CROSS_ATTENTION_SHAPES,
    CROSS_ATTENTION,
    ENCODER_BLOCK,
    DECODER_BLOCK,
    CROSS_ATTENTION_REASONS,
)
