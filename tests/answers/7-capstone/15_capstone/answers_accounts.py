"""Right and wrong answers for lesson 15: the two accounts."""

import math

import torch

# Real runs of `language_model.train` on a CPU, seed 0, numbers as they came.
LETTERS = {  # Python's reference, small letters only
    "sizes": [30, 64, 4, 32, 2],
    "predicted parameters": 105_600,
    "parameters": 105_600,
    "predicted first loss": math.log(30),
    "losses": [3.6038577556610107, 2.393, 2.071, 2.039, 1.865],
    "bigram loss": 2.3855233192443848,
    "held-out loss": 1.9241437986739005,
}


DOCSTRINGS = {  # docstrings of six modules
    "sizes": (88, 40, 5, 24, 1),
    "predicted parameters": 12 * 40**2 + 2 * 88 * 40,  # the rule of thumb
    "parameters": 27_680,
    "predicted first loss": 4.5,
    "losses": [4.567131996154785, 2.811, 2.422, 2.336, 2.43],
    "bigram loss": 2.851557970046997,
    "held-out loss": 2.8254454135894775,
}


SOURCE = {  # the source of argparse
    "sizes": torch.tensor([88, 48, 3, 40, 3]),
    "predicted parameters": 90_624,  # the head was taken for tied
    "parameters": 94_848,
    "predicted first loss": 4.48,
    "losses": torch.tensor([4.732, 2.141, 1.871, 2.127, 1.929]),
    "bigram loss": torch.tensor(2.0713045597076416),
    "held-out loss": 1.8559945821762085,
}


TOY_ENGLISH = {  # words
    "sizes": [27, 32.0, 2, 20, 2],
    "predicted parameters": 27_648,
    "parameters": 27_648.0,
    "predicted first loss": 3.2958,
    "losses": (3.418020725250244, 1.525, 1.403, 1.321, 1.316),
    "bigram loss": 1.5694544315338135,
    "held-out loss": 1.3148037287226895,
}


# Losses as they come from chance: a hair above ln V, and far more noise at the end.
NOISY = LETTERS | {"losses": [3.402, 2.9, 2.1, 2.6, 1.6, 2.9], "held-out loss": 2.38}


OVERFITTED = LETTERS | {"losses": [3.6, 1.4, 0.5, 0.1, 0.05], "held-out loss": 2.2}


WITH_MORE = LETTERS | {"learning rate": 6e-3, "predicted first loss": 3.4, "notes": "went well"}


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in names}


MY_RUN_RIGHT = {
    "small letters": LETTERS,
    "docstrings": DOCSTRINGS,
    "source code": SOURCE,
    "words": TOY_ENGLISH,
    "noisy": NOISY,
    "learned by heart, and still better than a bigram": OVERFITTED,
    "more than was asked": WITH_MORE,
    "predicted 1,000,000 parameters": LETTERS | {"predicted parameters": 1_000_000},
    "predicted in bits": LETTERS | {"predicted first loss": 4.91},
    "predicted a loss of 10": LETTERS | {"predicted first loss": 10},
    "held-out text easier, as printed": LETTERS
    | {"losses": [3.6, 2.5, 2.2], "held-out loss": 1.75},
    "as good as on the last batch, rounded": LETTERS | {"held-out loss": 1.865},
    "steps of 4 tokens": LETTERS | {"losses": [3.6, 1.1, 2.9, 3.3], "held-out loss": 2.2},
    "a bigram hardly better than chance, as printed": LETTERS | {"bigram loss": 3.4},
}


MY_RUN_WRONG = {
    "predictions still open": (
        0.75,
        LETTERS | {"predicted parameters": ..., "predicted first loss": None},
    ),
    "a curve of one number": (0.75, LETTERS | {"losses": [3.604]}),
    "the sizes as a dict": (0.75, LETTERS | {"sizes": {"vocab_size": 30, "d_model": 64}}),
    "half a head": (0.75, LETTERS | {"sizes": [30, 64, 4.5, 32, 2]}),
    "NaN": (0.75, LETTERS | {"held-out loss": math.nan}),
    "loss in bits, parameters too few": (
        0.5,
        LETTERS | {"losses": [5.1, 3.4, 3.0, 2.9, 2.7], "parameters": 100_000},
    ),
    "as good as a bigram": (0.75, LETTERS | {"held-out loss": LETTERS["bigram loss"]}),
    "an entry's name mistyped": (0.75, without(LETTERS, "held-out loss") | {"held out loss": 1.92}),
}


BEFORE = {
    "num_layers": 2,
    "num_heads": 4,
    "layer": 0,
    "head": 3,
    "name": "the letter before",
    "score": 0.79,
    "score of even weights": 0.099,
    "predicted change": 0.4,
    "loss": 1.9241437986739005,
    "loss without it": 2.037,
    "measured change": 0.113,
    "why": "Heads 1 and 2 look one letter back as well, with 0.61 and 0.67, and go on doing so.",
}


AT_ONCE = BEFORE | {
    "head": 1,
    "score": 0.61,
    "predicted change": 0.05,
    "loss without it": 1.975,
    "measured change": 0.051,
    "why": "",
}


SAME_LETTER = {
    "num_layers": 3,
    "num_heads": 3,
    "layer": 0,
    "head": 2,
    "name": "same sign again (blanks find blanks)",
    "score": 0.42,
    "score of even weights": 0.304,
    "predicted change": 0,
    "loss": 1.856,
    "loss without it": 1.868,
    "measured change": 0.012,
    "why": "Zählt wohl die Einrückung, und die steht auch im Strom.",
}


WORTH_NOTHING = SAME_LETTER | {
    "predicted change": 0.01,
    "loss without it": 1.8561,
    "measured change": 0.0001,
    "why": "-",
}


BETTER_WITHOUT = BEFORE | {
    "predicted change": 0.02,
    "loss without it": 1.91,
    "measured change": -0.014,
    "why": "It drags attention to the wrong letter; the network had learned to live with noise.",
}


SMALL = BEFORE | {
    "loss": 1.924,
    "loss without it": 1.931,
    "predicted change": 0.007,
    "measured change": 0.007,
    "why": "",
}


IN_CHINESE = BEFORE | {
    "name": "看前一个字母",
    "why": "其他的头也看前一个字母，所以损失只增加一点。",
}


MY_HEAD_RIGHT = {
    "the letter before": BEFORE,
    "as predicted": AT_ONCE,
    "the same letter": SAME_LETTER,
    "worth nothing, as predicted": WORTH_NOTHING,
    "better without": BETTER_WITHOUT,
    "in Chinese": IN_CHINESE,
    "rounded": BEFORE | {"loss": 1.92, "loss without it": 2.04, "measured change": 0.11},
    "why is the stream": BEFORE | {"why": "The stream brings the same."},
    "named for what is left": BEFORE
    | {"name": "anywhere but the first letter", "score": 0.97, "score of even weights": 0.93},
    "a small change": SMALL,
    "does nothing": WORTH_NOTHING | {"name": "does nothing"},
}


MY_HEAD_WRONG = {
    "differs, and why is open": (0.75, BEFORE | {"why": ...}),
    "a prediction in words": (0.75, BEFORE | {"predicted change": "a little"}),
    "score above 1": (0.75, BEFORE | {"score": 1.3}),
    "score and even weights swapped": (
        0.75,
        BEFORE | {"score": 0.099, "score of even weights": 0.79},
    ),
    "a small change turned": (0.75, SMALL | {"measured change": -0.007}),
    "a small change of another run": (0.75, SMALL | {"measured change": 0.012}),
    "percent, and counted from 1": (0.5, BEFORE | {"score": 79, "head": 4}),
    "NaN": (0.75, BEFORE | {"score": math.nan}),
}


RIGHT = {"my_run": MY_RUN_RIGHT, "my_head": MY_HEAD_RIGHT}


WRONG = {"my_run": MY_RUN_WRONG, "my_head": MY_HEAD_WRONG}
