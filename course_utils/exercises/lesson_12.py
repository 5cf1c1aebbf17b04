"""Lesson 12: a model that translates, and the questions about it; its exercises in order."""

from __future__ import annotations

from ..checking import Entry
from ..checking.quizzes import quiz, slip
from .lesson_12_beam import BEAM_TRANSLATE
from .lesson_12_forcing import TEACHER_FORCING
from .lesson_12_greedy import GREEDY_TRANSLATE

LESSON = "5-encoder-decoder/12_translation"


# ---------------------------------------------------------------- quizzes

SOURCE, ORDER, PADDING = "keys and values come from", "two words swapped", "padding hides"

RECALL_12 = quiz(
    "recall_12",
    lesson=LESSON,
    points=0.5,
    about="lessons 11, 09 and 05",
    entries=(
        Entry(
            SOURCE,
            "the encoder",
            "The decoder asks; what it asks, and what it gets, is the text that was read.",
            "Who asks in cross-attention, and who answers?",
            ("the encoder", "the decoder"),
        ),
        Entry(
            ORDER,
            "not at all",
            "Without positions attention sees a bag of words: rows move, and nothing else changes.",
            "What in a score, or in a weight, says where a word stands?",
            ("not at all", "a little", "completely"),
        ),
        Entry(
            PADDING,
            "columns",
            "Nobody may look at padding. What a padded row itself sees harms nobody.",
            "Rows are those who look, columns are what is looked at. Which one must not be seen?",
            ("rows", "columns", "both"),
        ),
    ),
    misconceptions=(
        slip(
            "asked_of_itself",
            {SOURCE: "the decoder"},
            "You took cross-attention for self-attention.",
            "The decoder would then know nothing of the text that it translates.",
            "Which letters of Q, K and V have the length of the source?",
        ),
        slip(
            "order_seen_without_positions",
            {ORDER: "completely"},
            "You took attention for something that sees order.",
            "A sum of weighted values is the same in any order.",
            "What in a score, or in a weight, says where a word stands?",
        ),
        slip(
            "order_seen_a_little",
            {ORDER: "a little"},
            "You expected a trace of the order in the result.",
            "A sum of weighted values is the same in any order.",
            "What in a score, or in a weight, says where a word stands?",
        ),
        slip(
            "rows_hidden",
            {PADDING: "rows"},
            "You hid those who look, not what is looked at.",
            "Real tokens then still mix padding into themselves.",
            "Which dimension of the scores runs over what is looked at?",
        ),
        slip(
            "rows_and_columns_hidden",
            {PADDING: "both"},
            "You hid rows too.",
            "A row that sees nothing needs a cure of its own, and nobody reads it anyway.",
            "Is anything wrong with a padded row that looks at real tokens?",
        ),
    ),
    hints=(
        "In cross-attention there are two texts: one asks, the other answers. Scores are dot "
        "products of rows, and a context is a sum.",
        "Queries come from the decoder. A sum doesn't change when its terms are swapped. The mask "
        "has shape (B, 1, S) over scores (B, T, S).",
    ),
)

INPUT, GREEDY, WIDE, SCORE, COPY, LEARN, WRITE, WORSE = (
    "input for [9, eos, pad, pad]",
    "probability that greedy finds",
    "probability that width 2 finds",
    "score of words of 0.5, 0.5 and 0.25",
    "loss without the shift, near",
    "decoder calls to learn from 7 words",
    "decoder calls to write 7 words",
    "likelier, and a worse translation",
)

TRANSLATION_REASONS = quiz(
    "translation_reasons",
    lesson=LESSON,
    points=1.0,
    about="learning to translate, and translating",
    entries=(
        Entry(
            INPUT,
            (1, 9, 2, 0),
            "bos first, and everything one place later: eos comes in where the label is padding.",
            "What has the decoder seen before it says the first word? And before the second?",
        ),
        Entry(
            GREEDY,
            0.1,
            "0.5 is the likelier first word, and 0.5 · 0.2 is what it leads to.",
            "Which of the two first words does greedy take, and what can follow it?",
        ),
        Entry(
            WIDE,
            0.24,
            "Both first words are kept, and 0.4 · 0.6 is more than 0.5 · 0.2.",
            "With two texts in the beam, which first words are still there in step two?",
        ),
        Entry(
            SCORE,
            -0.924,
            "log 0.5 + log 0.5 + log 0.25 = -2.773, over three words.",
            "Add up three natural logarithms. By how many words do you divide?",
        ),
        Entry(
            COPY,
            0.0,
            "The word that is asked for is the one that comes in, so it is copied.",
            "What does the decoder see where it is asked for the same word?",
        ),
        Entry(
            LEARN,
            1,
            "The right words are known, so all places are asked at once, under the causal mask.",
            "Does place 5 have to wait for what the model says at place 4?",
        ),
        Entry(
            WRITE,
            7,
            "Each word is an input for the next, so they come one after the other.",
            "What must be known before word 5 can be said?",
        ),
        Entry(
            WORSE,
            "the model",
            "The search found what it looked for, a likely text. How likely a text is, the model "
            "says.",
            "Which of the two says how likely a text is?",
            ("the search", "the model"),
        ),
    ),
    misconceptions=(
        slip(
            "not_shifted",
            {INPUT: (9, 2, 0, 0)},
            "You gave the decoder its labels as they are.",
            "It would see the very word that it is asked for.",
            "What has the decoder seen before it says the first word?",
        ),
        slip(
            "eos_taken_out",
            {INPUT: (1, 9, 0, 0)},
            "You replaced eos by padding in the input.",
            "The plain shift is enough: where the label is padding there is no loss.",
            "Move [9, eos, pad, pad] by one place. What falls out, and what stays?",
        ),
        slip(
            "last_column_kept",
            {INPUT: (1, 9, 2, 0, 0)},
            "You put bos in front and dropped nothing.",
            "There are four labels, so there are four inputs.",
            "Which token is never an input, because nothing is to be said after it?",
        ),
        slip(
            "greedy_looks_ahead",
            {GREEDY: 0.24},
            "You let greedy look ahead.",
            "It takes the likeliest word now, and never comes back.",
            "Which is larger, 0.5 or 0.4?",
        ),
        slip(
            "one_word_only",
            {GREEDY: 0.5},
            "You gave the probability of the first word.",
            "A text has the product of all its words.",
            "What is 0.5 · 0.2?",
        ),
        slip(
            "wide_is_greedy",
            {WIDE: 0.1},
            "You took a beam of two for greedy.",
            "It keeps two beginnings, the likelier one and the other.",
            "Which texts of two words does it compare in step two?",
        ),
        slip(
            "not_normalised",
            {SCORE: -2.773},
            "You gave the sum.",
            "By their sums, longer texts always look worse.",
            "How many words share these -2.773?",
        ),
        slip(
            "log_of_the_mean",
            {SCORE: -0.875},
            "You took the logarithm of a mean, or a mean of something else.",
            "The score is the mean of the three logarithms.",
            "What is (log 0.5 + log 0.5 + log 0.25) / 3?",
        ),
        slip(
            "log_to_base_two",
            {SCORE: -1.333},
            "You took the logarithm to the base 2.",
            "Log-probabilities here are in nats.",
            "What does `math.log(0.5)` give?",
        ),
        slip(
            "learned_word_by_word",
            {LEARN: 7},
            "You let learning wait for the model's own words.",
            "With the right words as inputs, one call asks all seven at once.",
            "Does place 5 have to wait for what the model says at place 4?",
        ),
        slip(
            "written_at_once",
            {WRITE: 1},
            "You let the model write all words at once.",
            "It has no right words to look at, only its own, and these come one by one.",
            "What must be known before word 5 can be said?",
        ),
        slip(
            "search_is_to_blame",
            {WORSE: "the search"},
            "You blamed the search.",
            "It was asked for a likely text, and found a likelier one.",
            "Which of the two says how likely a text is?",
        ),
    ),
    hints=(
        "Write labels and inputs below each other. A text's probability is the product of those of "
        "its words, its score the mean of their logarithms.",
        "bos is 1, eos 2, pad 0. Greedy takes 0.5 and is left with 0.2. In learning, the right "
        "words are there beforehand; in writing they aren't.",
    ),
)

FIRST, LAST, BLANK, ON, OTHER = (
    "an encoder's word 2 of 5 sees",
    "a decoder's word 2 of 5 sees",
    "fill a blank in mid-sentence",
    "write a story on",
    "a summary of a report",
)
FAMILIES = ("encoder", "decoder", "encoder-decoder")

THREE_FAMILIES = quiz(
    "three_families",
    lesson=LESSON,
    points=0.5,
    about="encoder, decoder, encoder-decoder",
    entries=(
        Entry(
            FIRST,
            5,
            "Nothing is causal in an encoder: all words see all words.",
            "Which words may an encoder's word not see?",
        ),
        Entry(
            LAST,
            2,
            "The first word and itself.",
            "Counting from 1: which words stand at or before the second?",
        ),
        Entry(
            BLANK,
            "encoder",
            "Both sides of the blank say what is missing; a decoder sees one side.",
            "On which side of the blank may the telling word stand?",
            FAMILIES,
        ),
        Entry(
            ON,
            "decoder",
            "All there is stands before the next word, and that is what it was trained for.",
            "What was trained to say the next word of one text?",
            FAMILIES,
        ),
        Entry(
            OTHER,
            "encoder-decoder",
            "One text is there in full and is read both ways; another is written. Large decoders "
            "do it too, with the report as the beginning.",
            "How many texts are there, and which of them is complete from the start?",
            FAMILIES,
        ),
    ),
    misconceptions=(
        slip(
            "encoder_is_causal",
            {FIRST: 2},
            "You took an encoder for causal.",
            "Its text is complete; there is nothing to hide.",
            "Which words may an encoder's word not see?",
        ),
        slip(
            "decoder_sees_all",
            {LAST: 5},
            "You let a decoder see the future.",
            "It would see the word that it is asked for.",
            "Which words stand at or before the second?",
        ),
        slip(
            "blind_to_itself",
            {LAST: 1},
            "You left the word itself out.",
            "Each token sees itself: the diagonal is never hidden.",
            "Which words stand at or before the second?",
        ),
        slip(
            "blank_from_the_left",
            {BLANK: "decoder"},
            "You let a decoder fill the blank.",
            "It sees only what stands before the blank.",
            "On which side of the blank may the telling word stand?",
        ),
        slip(
            "encoder_writes",
            {ON: "encoder"},
            "You let an encoder write.",
            "It was trained with both sides in view; at the end of a text there is only one.",
            "What was trained to say the next word of one text?",
        ),
        slip(
            "encoder_summarises",
            {OTHER: "encoder"},
            "You let an encoder write a second text.",
            "It gives a row for each word that it reads, and writes nothing.",
            "How many texts are there?",
        ),
    ),
    hints=(
        "Whoever looks at a complete text may look both ways. Whoever writes has only what is "
        "written so far.",
        "Encoder: one text, complete. Decoder: one text that grows. Both: one is complete, and "
        "another grows.",
    ),
)

EXERCISES = (
    RECALL_12,
    TEACHER_FORCING,
    GREEDY_TRANSLATE,
    BEAM_TRANSLATE,
    TRANSLATION_REASONS,
    THREE_FAMILIES,
)
