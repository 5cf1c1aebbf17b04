"""How an account of a run is judged: what must be true of its model, its texts and its words."""

import math
from itertools import permutations

from course_utils.transformer import block_parameters
from exercises.shared.runs import (
    BIGRAM,
    COUNT,
    FIRST,
    LOSS,
    OVERLAP,
    SIZES,
    TRAINED,
    can_be_made,
    fit,
    measured,
    told_in_words,
)
from exercises.shared.runs import made as made
from exercises.shared.runs import sizes_fit as are_of_a_model
from whywrong.probing import relation

PREDICTED_COUNT, PREDICTED_LOSS = "predicted parameters", "predicted first loss"
LEARNED = "what it learned"

# Where an honest run can lie. Untrained models of this kind begin 0.1 to 0.3 above ln V.
BELOW, ABOVE = 0.5, 1.0  # the first loss, from ln V
LEAK = 0.25  # of a bigram's loss: no small model gets this far on a text that doesn't repeat itself
NEAR = 0.6  # of the loss on the training text: held-out text is not so much easier
FAR = 0.4  # of ln V: from here on the predicted first loss gets a remark


def measure(run):
    wrong = fit(run)
    if wrong or not can_be_made(run.get(SIZES)):
        return {}, wrong
    return measured(run), {}


# ---------------------------------------------------------------- relations


def count(V, C, H, T, L):
    """The parameters of a model of these sizes, under the course's names."""
    return int(2 * V * C + T * C + L * block_parameters(C) + 2 * C)


def ln_v(d):
    return math.log(d[SIZES][0])


def sizes_fit(d):
    return are_of_a_model(d[SIZES])


def parameters_follow(d):
    off = d[COUNT] - count(*d[SIZES])
    return off == 0 or f"has {abs(off):,} too {'many' if off > 0 else 'few'}"


def predicted(d):
    least = min(d[PREDICTED_COUNT], d[PREDICTED_LOSS])
    return least > 0 or f"have {least:g}"


def begins_near_ln_v(d):
    off = d[FIRST] - ln_v(d)
    if -BELOW <= off <= ABOVE:
        return True
    return f"begins {abs(off):.1f} {'above' if off > 0 else 'below'} it"


def texts_differ(d):
    return d[OVERLAP] < 0.5 or f"has {d[OVERLAP]:.0%} of its pieces there"


def has_learned(d):
    return d[TRAINED] < d[FIRST] - 0.1 or f"has {d[TRAINED]:.2f} after {d[FIRST]:.2f}"


def beats_the_bigram(d):
    if has_learned(d) is not True:
        return None
    return d[LOSS] < d[BIGRAM] or f"has {d[LOSS]:.3f}, and the bigram {d[BIGRAM]:.3f}"


def is_possible(d):
    return d[LOSS] >= LEAK * d[BIGRAM] or f"has {d[LOSS]:.3f}"


def fits_training(d):
    if is_possible(d) is not True:
        return None
    return d[LOSS] >= NEAR * d[TRAINED] or f"has {d[LOSS]:.3f}, and {d[TRAINED]:.3f} in training"


def is_told(d):
    return told_in_words(d[LEARNED])


properties = (
    relation("sizes", "The five sizes are those of a model", sizes_fit),
    relation(
        "parameters", "The model has the parameters that follow from the sizes", parameters_follow
    ),
    relation("predicted", "Two numbers were predicted, both above 0", predicted),
    relation("first loss", "A new model of your class begins near ln V", begins_near_ln_v),
    relation("texts", "The held-out text doesn't occur in the training text", texts_differ),
    relation("learned", "The model predicts the training text better than a new one", has_learned),
    relation("held out", "On the held-out text the model beats a bigram", beats_the_bigram),
    relation("possible", "The held-out loss is one that a model can reach", is_possible),
    relation("agree", "The held-out loss is not far below the training loss", fits_training),
    relation("told", "What the model learned is told in four words or more", is_told),
)


# ---------------------------------------------------------------- which contradiction it is


def missing(number):
    """Whether just so many parameters are missing."""
    return lambda d: count(*d[SIZES]) - d[COUNT] == number(*d[SIZES])


def other_order(d):
    orders = (sizes for sizes in permutations(d[SIZES]) if sizes[1] % max(1, sizes[2]) == 0)
    return any(count(*sizes) == d[COUNT] for sizes in orders)


fits = {
    "not_five_sizes": lambda d: len(d[SIZES]) != 5,
    "width_not_divisible": lambda d: min(d[SIZES]) > 0 and d[SIZES][1] % d[SIZES][2] != 0,
    "sizes_in_another_order": other_order,
    "tied": missing(lambda V, C, H, T, L: V * C),
    "untrained": lambda d: abs(d[TRAINED] - d[FIRST]) < 0.1,
    "sees_the_future": lambda d: d[LOSS] < 0.1 * d[BIGRAM] or d[TRAINED] < 0.1,
}


# ---------------------------------------------------------------- what costs nothing

MISSED = (
    ("the table of positions", lambda V, C, H, T, L: T * C),
    ("one of the two tables of V rows", lambda V, C, H, T, L: V * C),
    ("the last norm", lambda V, C, H, T, L: 2 * C),
    ("the norms in the blocks", lambda V, C, H, T, L: 4 * C * L),
    ("the biases of the blocks", lambda V, C, H, T, L: 6 * C * L),
)
COSTS_NOTHING = "It costs nothing. Leave it: a prediction that is changed afterwards is none."


def notes(d):
    if COUNT not in d:
        return []
    said = []
    off = count(*d[SIZES]) - d[PREDICTED_COUNT]
    if off and d[PREDICTED_COUNT] > 0 and parameters_follow(d) is True:
        missed = next((f": just {name}" for name, number in MISSED if number(*d[SIZES]) == off), "")
        said.append(
            f"You predicted {abs(off):,} parameters too {'few' if off > 0 else 'many'}{missed}. "
            f"{COSTS_NOTHING}"
        )
    said += on_the_first_loss(d)
    said.append(
        "No program can tell whether what you say of the model is right: show it to a person, with "
        "a few lines that the model wrote."
    )
    return said


def on_the_first_loss(d):
    guess = d[PREDICTED_LOSS]
    for base, name in ((2, "log₂ V"), (10, "log₁₀ V")):
        if abs(guess - ln_v(d) / math.log(base)) <= 0.02 * ln_v(d) / math.log(base):
            return [
                f"The first loss you predicted is {name}. Losses here are in nats. {COSTS_NOTHING}"
            ]
    if guess > 0 and abs(guess / ln_v(d) - 1) > FAR:
        return [
            "The first loss you predicted is far from ln V, that of a model to which all V "
            f"tokens are equally likely. {COSTS_NOTHING}"
        ]
    return []
