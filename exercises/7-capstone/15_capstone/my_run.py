"""How an account of a run is judged: what must hold between its entries."""

import math

from course_utils.transformer import block_parameters
from whywrong import relation

V, C, H, T, L = "vocab_size", "d_model", "num_heads", "context_length", "num_layers"
PREDICTED_COUNT, PREDICTED_LOSS = "predicted parameters", "predicted first loss"
COUNT, FIRST, LOSSES = "parameters", "first loss", "losses"
TRAINED, HELD = "training tokens", "held-out tokens"
STEPS, BATCH, WINDOW, SEEN = "steps", "batch size", "window", "tokens predicted"
BIGRAM, HELD_LOSS = "bigram loss", "held-out loss"
SIZES = (V, C, H, T, L)

# Where an honest run can lie. Untrained models of this kind begin 0.1 to 0.3 above ln V.
BELOW, ABOVE = 0.5, 1.0  # the first loss, from ln V
LEAST_HELD = 500  # tokens: the mean over fewer says little
LEAK = 0.25  # of a bigram's loss: no small model gets this far on a text that doesn't repeat itself
NEAR, LEAST_NEAR = 0.7, 0.5  # of the last training loss: held-out text is not so much easier
SPREAD = 6  # of the loss of one token, three times over: a step's is the mean over its tokens
LEAST_STEPS, LEAST_SEEN = 10, 1_000  # fewer teach an untrained model less than a count of pairs
ROUNDED = 0.051  # one decimal
FAR = 0.4  # of ln V: from here on the predicted first loss gets a remark
DIGITS = 0.01  # two decimals, and a rounding of ln V


# ---------------------------------------------------------------- relations


def count(d):
    """The parameters of a model of these sizes, under the course's names."""
    blocks = d[L] * block_parameters(d[C])
    return int(2 * d[V] * d[C] + d[T] * d[C] + blocks + 2 * d[C])


def sizes_fit(d):
    small = [name for name in (*SIZES, STEPS, BATCH, WINDOW) if d[name] < 1]
    if small:
        return f"have {d[small[0]]} for {small[0]}"
    if d[V] < 2:
        return "have one token, which needs no model"
    if d[C] % d[H]:
        return f"have {d[C]} channels for {d[H]} heads"
    # Windows of T + 1 tokens, whose last is only predicted, get a note.
    return d[WINDOW] <= d[T] + 1 or f"have windows of {d[WINDOW]} for a model that takes {d[T]}"


def parameters_follow(d):
    if sizes_fit(d) is not True:
        return None
    off = d[COUNT] - count(d)
    return off == 0 or f"are {abs(off):,} too {'many' if off > 0 else 'few'}"


def predicted(d):
    least = min(d[PREDICTED_COUNT], d[PREDICTED_LOSS])
    return least > 0 or f"have {least:g}"


def begins_near_ln_v(d):
    off = d[FIRST] - math.log(d[V])
    if -BELOW <= off <= ABOVE:
        return True
    return f"is {abs(off):.1f} {'above' if off > 0 else 'below'} it"


def texts_apart(d):
    if d[HELD] < LEAST_HELD:
        return f"are {d[HELD]:,}"
    return d[HELD] < d[TRAINED] or f"are {d[HELD]:,}, and {d[TRAINED]:,} were trained on"


def predictions_add_up(d):
    windows = d[STEPS] * d[BATCH]
    # Counted with a token too many, windows are right but for a note.
    near = (d[WINDOW], d[WINDOW] - 1, d[WINDOW] + 1)
    made = any(is_made_of(d[SEEN], windows, each) for each in near if each > 0)
    return made or f"are {d[SEEN]:,}"


def is_made_of(seen, windows, each):
    """Whether these are so many windows, rounded to three digits or more, or with the last batches
    not quite full."""
    whole = windows * each
    places = range(max(1, len(str(whole)) - 2))
    fewer = whole - seen
    not_full = 0 < fewer <= min(windows, whole // 10) and fewer % each == 0
    return not_full or any(round(whole, -place) == seen for place in places)


def enough_to_learn(d):
    if sizes_fit(d) is not True:
        return None
    if d[STEPS] < LEAST_STEPS:
        return f"are {d[STEPS]} steps"
    tokens = d[STEPS] * d[BATCH] * d[WINDOW]
    return tokens >= LEAST_SEEN or f"are {tokens:,} tokens"


def curve_fits_the_steps(d):
    return len(d[LOSSES]) <= d[STEPS] + 1 or f"are {len(d[LOSSES])} losses of {d[STEPS]} steps"


def curve_begins(d):
    return abs(d[LOSSES][0] - d[FIRST]) <= ROUNDED or f"begins at {d[LOSSES][0]:g}"


def curve_falls(d):
    if curve_begins(d) is not True:
        return None
    if min(d[LOSSES]) <= 0:
        return f"has {min(d[LOSSES]):g}"
    return d[LOSSES][-1] < d[LOSSES][0] - 0.1 or f"ends at {d[LOSSES][-1]:g}"


def bigram_is_possible(d):
    return 0 < d[BIGRAM] < math.log(d[V]) + DIGITS or f"is {d[BIGRAM]:g}"


def beats_the_bigram(d):
    if bigram_is_possible(d) is not True:
        return None
    off = d[HELD_LOSS] - d[BIGRAM]
    return off < 0 or f"is {off:.2g} above it"


def is_possible(d):
    if bigram_is_possible(d) is not True:
        return None
    return d[HELD_LOSS] >= LEAK * d[BIGRAM] or f"is {d[HELD_LOSS]:g}"


def fits_the_curve(d):
    earlier = (is_possible, begins_near_ln_v, curve_begins, curve_falls)
    if not all(rule(d) is True for rule in earlier):
        return None
    return d[HELD_LOSS] >= easiest(d) or f"is {d[HELD_LOSS]:g}"


def easiest(d):
    """The least held-out loss that goes with this end of training: its last step may have been a
    hard one."""
    last, chance = d[LOSSES][-1], SPREAD / math.sqrt(max(1, d[BATCH] * d[WINDOW]))
    return max(LEAST_NEAR * last, NEAR * last - chance)


properties = (
    relation(
        "sizes",
        "The sizes are those of a model, and it can read all of a window but the last token",
        sizes_fit,
    ),
    relation("parameters", "The parameters counted follow from the sizes", parameters_follow),
    relation("predicted", "Two numbers were predicted, both above 0", predicted),
    relation(
        "first loss",
        "The first loss is near ln V, as that of an untrained model must be",
        begins_near_ln_v,
    ),
    relation(
        "texts",
        f"There are at least {LEAST_HELD} held-out tokens, and fewer than those trained on",
        texts_apart,
    ),
    relation(
        "predictions",
        "The tokens predicted are steps times batch size times window",
        predictions_add_up,
    ),
    relation(
        "enough",
        f"There is enough to learn from: {LEAST_STEPS} steps, {LEAST_SEEN:,} tokens predicted",
        enough_to_learn,
    ),
    relation(
        "curve length",
        "There are no more losses than steps, except for one after the last",
        curve_fits_the_steps,
    ),
    relation("curve begins", "The losses begin with the first loss", curve_begins),
    relation("curve falls", "The losses fall, and stay above 0", curve_falls),
    relation("bigram", "The bigram's loss is between 0 and ln V", bigram_is_possible),
    relation("held out", "The held-out loss is below the bigram's", beats_the_bigram),
    relation("possible", "The held-out loss is one that a model can reach", is_possible),
    relation("agree", "The held-out loss is not far below the end of training", fits_the_curve),
)


# ---------------------------------------------------------------- which contradiction it is


def about(name, wanted, share):
    return lambda d: abs(d[name] - wanted(d)) <= share * abs(wanted(d))


def log_to(base):
    return lambda d: math.log(d[V]) / math.log(base)


def is_ln_v(value, d):
    """Whether it is ln V, written down with one decimal or more."""
    exact = math.log(d[V])
    return abs(value - exact) < 1e-6 or any(value == round(exact, digits) for digits in range(1, 7))


fits = {
    "window_too_long": lambda d: d[WINDOW] > d[T] + 1,
    "width_not_divisible": lambda d: d[H] > 0 and d[C] % d[H] != 0,
    "positions_not_counted": lambda d: count(d) - d[COUNT] == d[T] * d[C],
    "head_not_counted": lambda d: count(d) - d[COUNT] == d[V] * d[C],
    "last_norm_not_counted": lambda d: count(d) - d[COUNT] == 2 * d[C],
    "buffers_counted": lambda d: d[COUNT] - count(d) == d[L] * d[T] ** 2,
    "loss_in_bits": about(FIRST, lambda d: log_to(2)(d) + 0.2, 0.06),
    "loss_is_perplexity": about(FIRST, lambda d: 1.15 * d[V], 0.25),
    "first_loss_after_training": lambda d: d[FIRST] < math.log(d[V]),
    "nothing_held_out": lambda d: d[HELD] >= d[TRAINED],
    "batch_not_counted": about(SEEN, lambda d: d[STEPS] * d[WINDOW], 0.03),
    "windows_counted": lambda d: d[SEEN] == d[STEPS] * d[BATCH],
    "text_counted_once": lambda d: d[SEEN] == d[TRAINED],
    "curve_backwards": lambda d: abs(d[LOSSES][-1] - d[FIRST]) <= ROUNDED,
    "theory_for_measurement": lambda d: is_ln_v(d[FIRST], d) or is_ln_v(d[LOSSES][0], d),
    "nothing_learned": lambda d: d[LOSSES][-1] >= d[LOSSES][0] - 0.1,
    "bigram_worse_than_chance": lambda d: d[BIGRAM] > math.log(d[V]),
    "loss_below_zero": lambda d: min(*d[LOSSES], d[HELD_LOSS]) <= 0,
    "not_shifted": lambda d: d[HELD_LOSS] < 0.1 and d[LOSSES][-1] < 0.5,
}


# ---------------------------------------------------------------- what costs nothing

MISSED = (
    ("the table of positions", lambda d: d[T] * d[C]),
    ("one of the two tables of V rows", lambda d: d[V] * d[C]),
    ("the last norm", lambda d: 2 * d[C]),
    ("the norms in the blocks", lambda d: 4 * d[C] * d[L]),
    ("the biases of the blocks", lambda d: 6 * d[C] * d[L]),
)
COSTS_NOTHING = "It costs nothing. Leave it: a prediction that is changed afterwards is none."


def notes(d):
    if sizes_fit(d) is not True:
        return []
    said = []
    off = count(d) - d[PREDICTED_COUNT]
    if off and d[PREDICTED_COUNT] > 0 and parameters_follow(d) is True:
        missed = next((f": just {name}" for name, number in MISSED if number(d) == off), "")
        said.append(
            f"You predicted {abs(off):,} parameters too {'few' if off > 0 else 'many'}{missed}. "
            f"{COSTS_NOTHING}"
        )
    said += on_the_first_loss(d)
    if d[WINDOW] == d[T] + 1:
        said.append(
            f"A window of {d[WINDOW]} tokens has {d[T]} predictions: its first is only read, its "
            "last only predicted. `window` asks for the predictions. It costs nothing."
        )
    if d[SEEN] == d[STEPS] * d[BATCH] * (d[WINDOW] + 1):
        said.append(
            f"You counted {d[WINDOW] + 1} tokens a window. Nothing comes before the first of them, "
            f"so only {d[WINDOW]} are predicted. It costs nothing."
        )
    if d[TRAINED] > 0 and predictions_add_up(d) is True:
        share = d[SEEN] / d[TRAINED]
        said.append(f"Each token of the training text was predicted about {share:.1f} times.")
    if fits_the_curve(d) is True and d[HELD_LOSS] < 0.85 * d[LOSSES][-1]:
        said.append(
            "The held-out loss is clearly below the last training loss. That can be one hard "
            "batch, or an easier text; it can also be a line that is in both texts."
        )
    return said


def on_the_first_loss(d):
    said, guess = [], d[PREDICTED_LOSS]
    for base, name in ((2, "log₂ V"), (10, "log₁₀ V")):
        if about(PREDICTED_LOSS, log_to(base), 0.02)(d):
            said.append(
                f"The first loss you predicted is {name}. Losses here are in nats. {COSTS_NOTHING}"
            )
            break
    else:
        if guess > 0 and abs(guess / math.log(d[V]) - 1) > FAR:
            said.append(
                "The first loss you predicted is far from ln V, that of a model to which all V "
                f"tokens are equally likely. {COSTS_NOTHING}"
            )
    if guess == d[FIRST] and round(d[FIRST], 2) != d[FIRST] and not is_ln_v(guess, d):
        said.append(
            "The first loss you predicted equals the measured one to the last digit, and ln V "
            "can't do that. A prediction written down after the measurement is none."
        )
    if is_ln_v(d[FIRST], d) and curve_begins(d) is True:
        said.append(
            "The first loss is ln V to the digits that you gave. An untrained model usually begins "
            "a little above it: is it measured, or the formula's?"
        )
    return said
