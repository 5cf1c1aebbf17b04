"""How the account of a head is judged: what must hold between its entries."""

import math
import re

from whywrong import relation

LAYERS, HEADS, LAYER, HEAD = "num_layers", "num_heads", "layer", "head"
NAME, SCORE, EVEN = "name", "score", "score of even weights"
PREDICTED, LOSS, WITHOUT = "predicted change", "loss", "loss without it"
MEASURED, WHY = "measured change", "why"

ROUNDED = 0.0151  # three numbers of two decimals; nothing coarser is asked for
ALIKE, LEAST = 0.25, 0.01  # of the larger change, and in nats: up to here two changes agree
REASON = 4  # words; whether they are a reason is for a person to judge
LARGE = 5  # nats: a guess among 148 tokens
MOST = 20  # nats: e to this is more tokens than any vocabulary has

# In a language without blanks one character counts as a word.
WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]{2,}")
ADDRESS = {"head", "layer", "number", "the", "of", "in", "my", "best", "one", "no"}


def words(text):
    return set(WORD.findall(text.casefold()))


def decimals(value):
    """How many decimals a number is given with: five where it has more."""
    return next((n for n in range(5) if abs(value - round(value, n)) < 1e-6), 5)


def rounding(d):
    """How far the change may be from the difference, by the decimals that are given."""
    return min(ROUNDED, sum(0.51 * 10 ** -decimals(d[n]) for n in (MEASURED, WITHOUT, LOSS)))


# ---------------------------------------------------------------- relations


def there_is_such_a_head(d):
    inside = 0 <= d[LAYER] < d[LAYERS] and 0 <= d[HEAD] < d[HEADS]
    return inside or f"is head {d[HEAD]} of {d[HEADS]}, in layer {d[LAYER]} of {d[LAYERS]}"


def has_a_name(d):
    return bool(words(d[NAME]) - ADDRESS)


def is_a_share(d):
    odd = [d[name] for name in (SCORE, EVEN) if not 0 <= d[name] <= 1]
    if not odd and d[EVEN] == 0:
        return "have 0 for even weights"
    return not odd or f"have {odd[0]:g}"


def does_its_job(d):
    if is_a_share(d) is not True:
        return None
    return d[SCORE] > d[EVEN] or f"is {d[SCORE]:g}, and even weights have {d[EVEN]:g}"


def losses_are_losses(d):
    odd = [d[name] for name in (LOSS, WITHOUT) if not 0 < d[name] <= MOST]
    return not odd or f"have {odd[0]:g}"


def change_follows(d):
    off = d[MEASURED] - (d[WITHOUT] - d[LOSS])
    return abs(off) <= rounding(d) or f"is off by {abs(off):.2g}"


def can_be_predicted(d):
    return d[LOSS] + d[PREDICTED] >= 0 or f"would be {d[LOSS] + d[PREDICTED]:.2g}"


def is_explained(d):
    one, other = d[PREDICTED], d[MEASURED]
    alike = abs(one - other) <= max(LEAST, ALIKE * max(abs(one), abs(other)))
    if change_follows(d) is not True or alike:
        return None
    return len(WORD.findall(d[WHY])) >= REASON


properties = (
    relation("place", "The head is one of the model's, counted from 0", there_is_such_a_head),
    relation("name", "The head has a name in words, and not only its place", has_a_name),
    relation(
        "share",
        "Both scores are shares of the weight, from 0 to 1, and even weights have some",
        is_a_share,
    ),
    relation("job", "The score is above that of even weights", does_its_job),
    relation("losses", f"Both losses are above 0, and not above {MOST}", losses_are_losses),
    relation(
        "change", "The measured change is the loss without the head, minus the loss", change_follows
    ),
    relation("predicted", "The loss that you predicted is not below 0", can_be_predicted),
    relation("explained", "Where the two changes differ, a reason is given", is_explained),
)


# ---------------------------------------------------------------- which contradiction it is


def near(d, wanted):
    return abs(d[MEASURED] - wanted) <= max(rounding(d), 0.02 * abs(wanted))


def is_a_ratio(d):
    ratio = d[WITHOUT] / d[LOSS]
    shares = ratio, ratio - 1, 100 * (ratio - 1)
    return any(abs(d[MEASURED] - share) <= 0.02 * abs(share) for share in shares)


fits = {
    "heads_counted_from_one": lambda d: d[LAYER] == d[LAYERS] or d[HEAD] == d[HEADS],
    "name_is_an_address": lambda d: words(d[NAME]) and words(d[NAME]) <= ADDRESS,
    "score_in_percent": lambda d: 2 < max(d[SCORE], d[EVEN]) <= 100 and min(d[SCORE], d[EVEN]) >= 0,
    "even_weights_of_zero": lambda d: d[EVEN] == 0 and 0 <= d[SCORE] <= 1,
    "loss_not_positive": lambda d: min(d[LOSS], d[WITHOUT]) <= 0,
    "sign_turned": lambda d: near(d, d[LOSS] - d[WITHOUT]),
    "loss_for_its_change": lambda d: near(d, d[WITHOUT]),
    "ratio_for_a_change": is_a_ratio,
    "why_is_missing": lambda d: not words(d[WHY]),
}


# ---------------------------------------------------------------- what costs nothing


def notes(d):
    said = []
    if d[PREDICTED] == d[MEASURED] and round(d[MEASURED], 2) != d[MEASURED]:
        said.append(
            "The change you predicted equals the measured one to the last digit. A prediction "
            "written down after the measurement is none."
        )
    if d[PREDICTED] > max(5, 2 * d[LOSS]):
        said.append(
            "You predicted a change much larger than the loss. Was it meant in percent? It costs "
            "nothing."
        )
    elif d[PREDICTED] > 0.7 * d[LOSS] > 0:
        said.append(
            "You predicted a change nearly as large as the loss, or larger. Did you mean the loss "
            "itself? It costs nothing."
        )
    if LARGE < d[LOSS] <= MOST:
        said.append(
            f"With this loss the model is as unsure as between {math.exp(d[LOSS]):,.0f} tokens. "
            "Does your text have so many? If it is a perplexity, its logarithm is the loss."
        )
    said.append(
        "No program can tell whether the name fits and the reason is right. `name` and `why` are "
        "for a person to read: an instructor, a friend, or you in a month."
    )
    return said
