"""How an account of a run is judged: what must be true between its entries."""

import math
from itertools import permutations

from course_utils.transformer import block_parameters
from whywrong import relation

SIZES, LOSSES = "sizes", "losses"
PREDICTED_COUNT, PREDICTED_LOSS = "predicted parameters", "predicted first loss"
COUNT, BIGRAM, HELD_LOSS = "parameters", "bigram loss", "held-out loss"

# Where an honest run can lie. Untrained models of this kind begin 0.1 to 0.3 above ln V.
BELOW, ABOVE = 0.5, 1.0  # the first loss, from ln V
LEAK = 0.25  # of a bigram's loss: no small model gets this far on a text that doesn't repeat itself
NEAR = 0.6  # of the training losses' second half: held-out text is not so much easier
FAR = 0.4  # of ln V: from here on the predicted first loss gets a remark
DIGITS = 0.01  # two decimals, and a rounding of ln V


# ---------------------------------------------------------------- relations


def count(V, C, H, T, L):
    """The parameters of a model of these sizes, under the course's names."""
    return int(2 * V * C + T * C + L * block_parameters(C) + 2 * C)


def ln_v(d):
    return math.log(d[SIZES][0])


def sizes_fit(d):
    sizes = d[SIZES]
    if len(sizes) != 5:
        return f"are {len(sizes)} numbers"
    V, C, H, *_ = sizes
    if min(sizes) < 1 or V < 2:
        return f"have {min(sizes):g}"
    return C % H == 0 or f"have {C:g} channels for {H:g} heads"


def parameters_follow(d):
    if sizes_fit(d) is not True:
        return None
    off = d[COUNT] - count(*d[SIZES])
    return off == 0 or f"are {abs(off):,} too {'many' if off > 0 else 'few'}"


def predicted(d):
    least = min(d[PREDICTED_COUNT], d[PREDICTED_LOSS])
    return least > 0 or f"have {least:g}"


def begins_near_ln_v(d):
    if sizes_fit(d) is not True:
        return None
    off = d[LOSSES][0] - ln_v(d)
    if -BELOW <= off <= ABOVE:
        return True
    return f"is {abs(off):.1f} {'above' if off > 0 else 'below'} it"


def curve_falls(d):
    if begins_near_ln_v(d) is not True:
        return None
    if min(d[LOSSES]) <= 0:
        return f"have {min(d[LOSSES]):g}"
    return d[LOSSES][-1] < d[LOSSES][0] - 0.1 or f"end at {d[LOSSES][-1]:g}"


def bigram_is_possible(d):
    if sizes_fit(d) is not True:
        return None
    return 0 < d[BIGRAM] < ln_v(d) + DIGITS or f"is {d[BIGRAM]:g}"


def beats_the_bigram(d):
    if bigram_is_possible(d) is not True:
        return None
    off = d[HELD_LOSS] - d[BIGRAM]
    return off < 0 or f"is {off:.2g} above it"


def measured_for_itself(d):
    rounded = round(d[HELD_LOSS], 3) == d[HELD_LOSS]
    return rounded or d[HELD_LOSS] != d[LOSSES][-1]


def is_possible(d):
    if bigram_is_possible(d) is not True:
        return None
    return d[HELD_LOSS] >= LEAK * d[BIGRAM] or f"is {d[HELD_LOSS]:g}"


def fits_the_curve(d):
    if is_possible(d) is not True or curve_falls(d) is not True:
        return None
    return d[HELD_LOSS] >= NEAR * end_of_training(d) or f"is {d[HELD_LOSS]:g}"


def end_of_training(d):
    """The mean of the losses' second half: a single step may have been a hard one."""
    half = d[LOSSES][len(d[LOSSES]) // 2 :]
    return sum(half) / len(half)


properties = (
    relation("sizes", "The five sizes are those of a model", sizes_fit),
    relation("parameters", "The parameters counted follow from the sizes", parameters_follow),
    relation("predicted", "Two numbers were predicted, both above 0", predicted),
    relation(
        "first loss",
        "The first of the losses is near ln V, as that of an untrained model must be",
        begins_near_ln_v,
    ),
    relation("curve falls", "The losses fall, and stay above 0", curve_falls),
    relation("bigram", "The bigram's loss is between 0 and ln V", bigram_is_possible),
    relation("held out", "The held-out loss is below the bigram's", beats_the_bigram),
    relation(
        "own measurement", "The held-out loss is not the last training loss", measured_for_itself
    ),
    relation("possible", "The held-out loss is one that a model can reach", is_possible),
    relation("agree", "The held-out loss is not far below the end of training", fits_the_curve),
)


# ---------------------------------------------------------------- which contradiction it is


def missing(number):
    """Whether just so many parameters are missing."""
    return lambda d: count(*d[SIZES]) - d[COUNT] == number(*d[SIZES])


def other_order(d):
    orders = (sizes for sizes in permutations(d[SIZES]) if sizes[1] % max(1, sizes[2]) == 0)
    return any(count(*sizes) == d[COUNT] for sizes in orders)


def first_about(wanted, share):
    return lambda d: abs(d[LOSSES][0] - wanted(d)) <= share * wanted(d)


fits = {
    "not_five_sizes": lambda d: len(d[SIZES]) != 5,
    "width_not_divisible": lambda d: min(d[SIZES]) > 0 and d[SIZES][1] % d[SIZES][2] != 0,
    "sizes_in_another_order": other_order,
    "positions_not_counted": missing(lambda V, C, H, T, L: T * C),
    "head_not_counted": missing(lambda V, C, H, T, L: V * C),
    "last_norm_not_counted": missing(lambda V, C, H, T, L: 2 * C),
    "buffers_counted": missing(lambda V, C, H, T, L: -L * T**2),
    "loss_in_bits": first_about(lambda d: ln_v(d) / math.log(2) + 0.2, 0.06),
    "loss_is_perplexity": first_about(lambda d: 1.15 * d[SIZES][0], 0.25),
    "curve_backwards": lambda d: abs(d[LOSSES][-1] - ln_v(d)) <= ABOVE and d[LOSSES][0] < ln_v(d),
    "first_loss_after_training": lambda d: d[LOSSES][0] < ln_v(d),
    "nothing_learned": lambda d: d[LOSSES][-1] >= d[LOSSES][0] - 0.1,
    "bigram_worse_than_chance": lambda d: d[BIGRAM] > ln_v(d),
    "loss_below_zero": lambda d: min(*d[LOSSES], d[HELD_LOSS]) <= 0,
    "not_shifted": lambda d: d[HELD_LOSS] < 0.1 and d[LOSSES][-1] < 0.5,
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
    if sizes_fit(d) is not True:
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
    if fits_the_curve(d) is True and d[HELD_LOSS] < 0.85 * end_of_training(d):
        said.append(
            "The held-out loss is clearly below the training losses at the end. The text may "
            "be easier, or a line may be in both texts."
        )
    return said


def on_the_first_loss(d):
    said, guess, first = [], d[PREDICTED_LOSS], d[LOSSES][0]
    for base, name in ((2, "log₂ V"), (10, "log₁₀ V")):
        if abs(guess - ln_v(d) / math.log(base)) <= 0.02 * ln_v(d) / math.log(base):
            said.append(
                f"The first loss you predicted is {name}. Losses here are in nats. {COSTS_NOTHING}"
            )
            break
    else:
        if guess > 0 and abs(guess / ln_v(d) - 1) > FAR:
            said.append(
                "The first loss you predicted is far from ln V, that of a model to which all V "
                f"tokens are equally likely. {COSTS_NOTHING}"
            )
    if guess == first and round(first, 2) != first and not is_ln_v(guess, d):
        said.append(
            "The first loss you predicted equals the measured one to the last digit, and ln V "
            "can't do that. A prediction written down after the measurement is none."
        )
    if is_ln_v(first, d):
        said.append(
            "The first of the losses is ln V to the digits that you gave. An untrained model "
            "usually begins a little above it: is it measured, or the formula's?"
        )
    return said


def is_ln_v(value, d):
    """Whether it is ln V, written down with one decimal or more."""
    exact = ln_v(d)
    return abs(value - exact) < 1e-6 or any(value == round(exact, digits) for digits in range(1, 7))
