"""Lesson 13: what attention costs, and the questions about it; its exercises in order."""

from __future__ import annotations

from ..checking import Entry
from ..checking.quizzes import quiz, slip
from .lesson_13_cache import CACHED_ATTENTION_STEP
from .lesson_13_kinds import MAKE_MHA
from .lesson_13_sdpa import LESSON, SDPA_ATTENTION

# ---------------------------------------------------------------- quizzes

BEAM, COLD, RUNNING = "winner of the beam", "temperature 0.5", "running sum, twice the tokens"

RECALL_13 = quiz(
    "recall_13",
    lesson=LESSON,
    points=0.5,
    about="lessons 12, 10 and 01",
    entries=(
        Entry(
            BEAM,
            "the longer",
            "-1.5 over three words is -0.5 a word, and -1.2 over two is -0.6.",
            "By what are the sums divided before they are compared?",
            ("the shorter", "the longer"),
        ),
        Entry(
            COLD,
            "likelier",
            "Logits divided by 0.5 lie twice as far apart.",
            "Do logits that are divided by 0.5 lie closer together, or further apart?",
            ("likelier", "less likely", "as likely as before"),
        ),
        Entry(
            RUNNING,
            2,
            "Each token adds itself to the sum before it, whatever came before.",
            "What has to be added up anew for a token, if the sum so far is kept?",
        ),
    ),
    misconceptions=(
        slip(
            "sums_compared",
            {BEAM: "the shorter"},
            "You compared the sums.",
            "Each word more makes a sum smaller, so the shorter text would nearly always win.",
            "How many words share -1.5?",
        ),
        slip(
            "temperature_inverted",
            {COLD: "less likely"},
            "You took a low temperature for a high one.",
            "Cold is sure of itself: at temperature 0 the likeliest word is the only one.",
            "What is left at temperature 0?",
        ),
        slip(
            "order_taken_for_probabilities",
            {COLD: "as likely as before"},
            "You looked at the order of the words alone.",
            "The order stays, and their shares don't.",
            "Try logits 0 and 1, and then 0 and 2.",
        ),
        slip(
            "added_up_anew",
            {RUNNING: 4},
            "You added up all earlier tokens again for each token.",
            "That is what the loop of lesson 01 did; a running sum keeps what was added up.",
            "How many additions does token 100 cost, if the sum of the first 99 is kept?",
        ),
    ),
    hints=(
        "A score is a mean. A temperature divides. A running sum is kept from token to token.",
        "-1.2 / 2 and -1.5 / 3. Logits 0 and 1 become 0 and 2. One addition a token.",
    ),
)

SCORES, COLLECTED, ELEMENTS, CACHE = "Q Kᵀ", "weights · V", "scores", "bytes of the cache"

ATTENTION_COST = quiz(
    "attention_cost",
    lesson=LESSON,
    points=1.0,
    about="B, H, T, D = 3, 5, 10, 8; 6 layers, 4 bytes a number",
    entries=(
        Entry(
            SCORES,
            12_000,
            "T · T dot products of D numbers, in each of B · H heads.",
            "How many dot products are there in a head, and how many multiplications is each?",
        ),
        Entry(
            COLLECTED,
            12_000,
            "T rows of D numbers, each a sum over T weighted values: as many as Q Kᵀ.",
            "Each of the T · D numbers of a head is a weighted sum. Of how many values?",
        ),
        Entry(
            ELEMENTS,
            1_500,
            "A (T, T) matrix in each head of each text.",
            "What is the shape of the scores?",
        ),
        Entry(
            CACHE,
            57_600,
            "Keys and values, (B, H, T, D) each, in each layer, at 4 bytes.",
            "Which two tensors are kept, of which shape, how often, and how long is a number?",
        ),
    ),
    misconceptions=(
        slip(
            "one_head",
            {SCORES: 2_400, COLLECTED: 2_400, ELEMENTS: 300},
            "You counted one head.",
            "Each head has scores of its own.",
            "Which of B, H, T, D does not stand in your product?",
        ),
        slip(
            "one_text",
            {SCORES: 4_000, COLLECTED: 4_000, ELEMENTS: 500},
            "You counted one text.",
            "Each text of the batch has scores of its own.",
            "Which of B, H, T, D does not stand in your product?",
        ),
        slip(
            "width_forgotten",
            {SCORES: 1_500, COLLECTED: 1_500},
            "You counted the scores, not what it takes to make them.",
            "Each score is a dot product of D numbers.",
            "How many multiplications does one score take?",
        ),
        slip(
            "one_row",
            {SCORES: 1_200, COLLECTED: 1_200},
            "You counted one query, or T where T² should stand.",
            "Each of T queries meets each of T keys.",
            "How many pairs of a query and a key are there?",
        ),
        slip(
            "scores_of_one_head",
            {ELEMENTS: 100},
            "You counted the scores of one head of one text.",
            "There is a matrix for each.",
            "What is the shape of the scores?",
        ),
        slip(
            "scores_as_wide_as_heads",
            {ELEMENTS: 12_000},
            "You counted the multiplications, or gave each score a width.",
            "A score is one number.",
            "What is the shape of the scores?",
        ),
        slip(
            "values_not_kept",
            {CACHE: 28_800},
            "You kept the keys and not the values.",
            "A later token finds by the one and collects the other.",
            "How many tensors does a layer keep?",
        ),
        slip(
            "one_layer",
            {CACHE: 9_600},
            "You counted one layer.",
            "Each layer has keys and values of its own.",
            "How many layers are there?",
        ),
        slip(
            "numbers_for_bytes",
            {CACHE: 14_400},
            "You counted numbers, and bytes were asked for.",
            "A number of float32 takes 4 bytes.",
            "How many bytes has a number here?",
        ),
        slip(
            "one_text",
            {CACHE: 19_200},
            "You counted one text.",
            "Each text of the batch has keys and values of its own.",
            "Which of B, H, T, D does not stand in your product?",
        ),
        slip(
            "scores_kept",
            {CACHE: 576_000},
            "You let the cache grow with T².",
            "What is kept of a token is a key and a value; scores are thrown away.",
            "How much does one more token add?",
        ),
    ),
    hints=(
        "Write down the shapes: Q and K are (B, H, T, D), scores (B, H, T, T). A product of an "
        "(m, k) and a (k, n) matrix takes m · k · n multiplications.",
        "Q Kᵀ: B · H · T · D · T. The cache: two tensors (B, H, T, D) a layer.",
    ),
)

GROWS, KEPT, GPT2, WITHOUT, WITH, FIRST, DIGITS, SAVES, READ = (
    "scores, T doubles: times",
    "cache, T doubles: times",
    "MiB of GPT-2's cache",
    "positions without a cache",
    "positions with a cache",
    "keys seen",
    "512 + 1 in bfloat16",
    "SDPA without a mask saves",
    "texts and tokens read",
)

PERFORMANCE_REASONS = quiz(
    "performance_reasons",
    lesson=LESSON,
    points=1.0,
    about="time, memory and the cache",
    entries=(
        Entry(
            GROWS,
            4,
            "T rows and T columns: both double.",
            "What is the shape of the scores?",
        ),
        Entry(
            KEPT,
            2,
            "A key and a value more for each token more.",
            "How much does one more token add to the cache?",
        ),
        Entry(
            GPT2,
            36,
            "2 · 12 layers · 12 heads · 1,024 tokens · 64 · 2 bytes, divided by 2²⁰.",
            "Which two tensors are kept, of which shape, how often? A MiB is 2²⁰ bytes.",
        ),
        Entry(
            WITHOUT,
            55,
            "1 + 2 + … + 10: each token sends the whole text through again.",
            "How long is the text that goes through for the first new token, and for the tenth?",
        ),
        Entry(
            WITH,
            10,
            "One for each new token: the one before it. The last one is never read.",
            "How many tokens go through for one new token, if all before are kept?",
        ),
        Entry(
            FIRST,
            1,
            "Its one query is counted as query 0, which sees key 0 alone.",
            "`is_causal=True` numbers queries from 0. How many keys does query 0 see?",
        ),
        Entry(
            DIGITS,
            512,
            "From 512 on, numbers of bfloat16 are 4 apart.",
            "With 8 binary digits, how far apart are neighbours at 256, and so at 512?",
        ),
        Entry(
            SAVES,
            "memory",
            "Every query still meets every key; the scores are thrown away piece by piece.",
            "Nothing is hidden, so which pairs of a query and a key could be left out?",
            ("multiplications", "memory", "both"),
        ),
        Entry(
            READ,
            (8, 3),
            "The sequence comes first: 3 tokens of 8 texts.",
            "Which dimension does `nn.MultiheadAttention` take for the tokens by default?",
        ),
    ),
    misconceptions=(
        slip(
            "scores_grow_by_t",
            {GROWS: 2},
            "You let scores grow with T.",
            "Twice as many queries meet twice as many keys.",
            "What is the shape of the scores?",
        ),
        slip(
            "scores_kept",
            {KEPT: 4},
            "You let the cache grow with T².",
            "What is kept of a token is a key and a value; scores are thrown away.",
            "How much does one more token add?",
        ),
        slip(
            "half_the_bytes",
            {GPT2: 18},
            "You kept the keys and not the values, or counted one byte for a number of two.",
            "A later token finds by the one and collects the other.",
            "How many tensors does a layer keep, and how long is a number?",
        ),
        slip(
            "one_layer",
            {GPT2: 3},
            "You counted one layer.",
            "Each layer has keys and values of its own.",
            "How many layers has GPT-2?",
        ),
        slip(
            "heads_counted_twice",
            {GPT2: 432},
            "You took 768 for the width of a head.",
            "12 heads of 64 are 768 together.",
            "How wide is one head?",
        ),
        slip(
            "last_one_sent_too",
            {WITHOUT: 66, WITH: 11},
            "You sent the last new token through as well.",
            "Nothing is asked after it.",
            "From which text does the tenth new token come?",
        ),
        slip(
            "next_one_counted",
            {WITHOUT: 65},
            "You counted each text together with the token that is to come.",
            "That token comes out only when the text has gone through.",
            "How long is the text that goes through for the first new token?",
        ),
        slip(
            "first_one_not_sent",
            {WITHOUT: 45, WITH: 9},
            "You left the token out that there was at first.",
            "Without it nothing could be said.",
            "How long is the text that goes through for the first new token?",
        ),
        slip(
            "each_as_long_as_the_last",
            {WITHOUT: 100},
            "You took the text for ten tokens long from the start.",
            "It begins with one token and grows.",
            "How long is the text that goes through for the first new token?",
        ),
        slip(
            "pushed_once",
            {WITHOUT: 10},
            "You let each token go through once, also without a cache.",
            "Without one, nothing is known of the earlier tokens at the next step.",
            "How long is the text that goes through for the tenth new token?",
        ),
        slip(
            "all_keys_seen",
            {FIRST: 9},
            "You let the query see all keys.",
            "So it should, and so it does without `is_causal`.",
            "Which row of the causal mask does PyTorch take for the only query?",
        ),
        slip(
            "exact_in_bfloat16",
            {DIGITS: 513},
            "You kept all digits.",
            "8 binary digits are two to three decimal ones.",
            "What became of 256 + 1?",
        ),
        slip(
            "multiplications_saved",
            {SAVES: "multiplications"},
            "You let SDPA leave out products.",
            "Without a mask each query meets each key, as before.",
            "Which pairs of a query and a key could be left out?",
        ),
        slip(
            "both_saved",
            {SAVES: "both"},
            "You let SDPA leave out products as well.",
            "It can where the future is hidden; here nothing is.",
            "Which pairs of a query and a key could be left out?",
        ),
        slip(
            "batch_read_first",
            {READ: (3, 8)},
            "You read the batch first.",
            "So does this course; `nn.MultiheadAttention` does when it is told `batch_first=True`.",
            "Which dimension does it take for the tokens by default?",
        ),
    ),
    hints=(
        "Scores are T by T, a cache is T rows. Without a cache the whole text goes through for "
        "every new token.",
        "1 + 2 + … + n is n (n + 1) / 2. Numbers of bfloat16 have 8 binary digits: from 256 to 512 "
        "they are 2 apart.",
    ),
)

EXERCISES = (
    RECALL_13,
    SDPA_ATTENTION,
    MAKE_MHA,
    CACHED_ATTENTION_STEP,
    ATTENTION_COST,
    PERFORMANCE_REASONS,
)
