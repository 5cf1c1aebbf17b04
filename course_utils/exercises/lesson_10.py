"""Lesson 10: a small language model, and the questions about it; its exercises in order."""

from __future__ import annotations

from ..checking import Entry
from ..checking.quizzes import quiz, slip
from .lesson_10_generate import GENERATE
from .lesson_10_loss import NEXT_TOKEN_LOSS
from .lesson_10_model import TINY_LM
from .lesson_10_probabilities import NEXT_TOKEN_PROBABILITIES
from .lesson_10_training import TRAINING_STEP
from .lesson_10_windows import SLIDING_WINDOWS

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- quizzes

MOVED, WIDTH, COLD = "scores stay when all move", "scores divided by", "temperature near 0"

RECALL_10 = quiz(
    "recall_10",
    lesson=LESSON,
    points=0.5,
    about="lessons 09, 07 and 03",
    entries=(
        Entry(
            MOVED,
            "rotary",
            "It turns queries and keys so that a score depends on their distance alone.",
            "Which of the three looks at distances, and not at places?",
            ("learned", "sinusoidal", "rotary"),
        ),
        Entry(
            WIDTH,
            16.0,
            "√256: a dot product runs over the 256 channels of one head.",
            "How wide is one head, and which number brings the variance back to 1?",
        ),
        Entry(
            COLD,
            "one weight is 1",
            "Divided by a small number, differences grow, and the largest score takes all.",
            "What becomes of differences between scores that are divided by 0.01?",
            ("all weights are equal", "one weight is 1", "all weights are 0"),
        ),
    ),
    misconceptions=(
        slip(
            "all_positions_are_alike",
            {MOVED: "sinusoidal"},
            "You took the waves for the ones that look at distances.",
            "They are added to the tokens, and queries see place and word together.",
            "Which of the three is applied to queries and keys, inside a head?",
        ),
        slip(
            "learned_by_distance",
            {MOVED: "learned"},
            "You took the learned table for one of distances.",
            "It has a row for each place; another place is another row.",
            "Which of the three is applied to queries and keys, inside a head?",
        ),
        slip(
            "scaled_by_the_model",
            {WIDTH: 32},
            "You took the root of the model's width.",
            "A dot product runs over the channels of one head.",
            "How wide is one of 4 heads?",
        ),
        slip(
            "root_missing",
            {WIDTH: 256},
            "You divided by D; its root is missing.",
            "The spread of a dot product grows with √D.",
            "256 is the width of a head. What is asked?",
        ),
        slip(
            "scaled_by_the_heads",
            {WIDTH: 4},
            "You took the number of heads.",
            "How many heads there are has no say in a dot product inside one of them.",
            "How wide is one of 4 heads, and what is asked of its width?",
        ),
        slip(
            "cold_is_flat",
            {COLD: "all weights are equal"},
            "You took cold for hot.",
            "A high temperature makes scores alike; a low one drives them apart.",
            "What becomes of the differences between scores that are divided by 0.01?",
        ),
    ),
    hints=(
        "Scores are dot products of queries and keys. Which positions act there, and how many "
        "channels has one of 4 heads of a model of width 1,024?",
        "Rotary positions turn pairs of channels. A head is 1,024 / 4 wide, and scores are divided "
        "by a root. Divide the scores 1 and 2 by 0.01 and take the softmax.",
    ),
)

UNIFORM, COUNT, START, LEAK, MEMORY, COPY, NUCLEUS, SAYS = (
    "perplexity of 1/50 each",
    "predictions in 33 tokens",
    "first loss, 1,000 words",
    "fresh text, below the entropy",
    "training text, below the entropy",
    "without the shift, loss near",
    "kept by top_p 0.7",
    "weight 0.9 on the subject",
)
REASONS = ("overfitting", "a leak", "a very good model")

LANGUAGE_MODEL_REASONS = quiz(
    "language_model_reasons",
    lesson=LESSON,
    points=1.0,
    about="a small language model",
    entries=(
        Entry(
            UNIFORM,
            50.0,
            "The loss is log 50, and its exponential is 50: as unsure as between 50 words.",
            "The loss is -log(1/50). What is its exponential?",
        ),
        Entry(
            COUNT,
            32,
            "Each token but the last has a next one in the window.",
            "Which of the 33 has nothing behind it?",
        ),
        Entry(
            START,
            6.91,
            "log 1,000: before it has learned anything, all words are about equally likely.",
            "Which probability does a model give a word of 1,000 that it knows nothing about?",
        ),
        Entry(
            LEAK,
            "a leak",
            "No model can foretell chance. What does must have seen the answer.",
            "The entropy is the loss of a model that knows everything there is to know.",
            REASONS,
        ),
        Entry(
            MEMORY,
            "overfitting",
            "It has learned by heart how the draws fell in these texts; fresh ones fall otherwise.",
            "The texts have been seen many times. What can be remembered of them?",
            REASONS,
        ),
        Entry(
            COPY,
            0.0,
            "The token to be named is the one that the model sees: it copies.",
            "What does the model see where it is asked for the same token?",
        ),
        Entry(
            NUCLEUS,
            2,
            "0.5 is below 0.7, and 0.5 + 0.3 reaches it: the word that crosses stays.",
            "Add up from the likeliest. With how many words is 0.7 reached?",
        ),
        Entry(
            SAYS,
            "where it looks",
            "What a head does with it is seen by taking the head away and measuring.",
            "Would the prediction change if the head were silent? Do weights say so?",
            ("where it looks", "why the model says it", "how sure the model is"),
        ),
    ),
    misconceptions=(
        slip(
            "perplexity_is_loss",
            {UNIFORM: 3.91},
            "You gave the loss, not its exponential.",
            "The perplexity is a number of words.",
            "What is exp(log 50)?",
        ),
        slip(
            "last_token_predicts_too",
            {COUNT: 33},
            "You let the last token foretell something.",
            "What follows it is not in the window.",
            "Write 4 tokens down and count the pairs of neighbours.",
        ),
        slip(
            "log_to_base_two",
            {START: 9.97},
            "You took the logarithm to the base 2.",
            "Losses here are in nats.",
            "`math.log(1000)` is?",
        ),
        slip(
            "log_to_base_ten",
            {START: 3.0},
            "You took the logarithm to the base 10.",
            "Losses here are in nats.",
            "`math.log(1000)` is?",
        ),
        slip(
            "below_the_floor",
            {LEAK: "a very good model"},
            "You believe in models that foretell chance.",
            "The entropy is what is left when everything that can be known is known.",
            "Who could be better than the grammar itself?",
        ),
        slip(
            "fresh_text_by_heart",
            {LEAK: "overfitting"},
            "You took overfitting for what lowers the loss on fresh text.",
            "What was learned by heart is of no use on text that nobody has seen.",
            "On which texts is an overfitted model good?",
        ),
        slip(
            "training_leak",
            {MEMORY: "a leak"},
            "You took a leak for the likeliest reason.",
            "A leak lowers the loss on fresh text as well; memory lowers it on training text only.",
            "How often has the model seen these texts?",
        ),
        slip(
            "copy_at_random",
            {COPY: 6.91},
            "You took a model without the shift for one that learns nothing.",
            "It learns something: the wrong thing, and perfectly.",
            "What does the model see where it is asked for the same token?",
        ),
        slip(
            "crossing_dropped",
            {NUCLEUS: 1},
            "You dropped the word that takes the sum over top_p.",
            "0.5 alone doesn't reach 0.7.",
            "Add up from the likeliest until 0.7 is reached.",
        ),
        slip(
            "weights_are_reasons",
            {SAYS: "why the model says it"},
            "You took weights for an explanation.",
            "What is fetched may be left unused, and other heads may bring the same.",
            "How could you find out whether this head matters?",
        ),
    ),
    hints=(
        "A loss is a mean of -log(p); a perplexity is its exponential. The entropy of a text is "
        "the loss of a model that knows all there is to know.",
        "Fresh text can't be known by heart, training text can. For top_p, add up from the "
        "likeliest until the sum is reached. Of a head, the weights are one thing, what becomes of "
        "it another.",
    ),
)

EXERCISES = (
    RECALL_10,
    SLIDING_WINDOWS,
    TINY_LM,
    NEXT_TOKEN_LOSS,
    TRAINING_STEP,
    NEXT_TOKEN_PROBABILITIES,
    GENERATE,
    LANGUAGE_MODEL_REASONS,
)
