"""Lesson 15, second part: a run of one's own, foretold and accounted for."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..checking import account, asked, contradiction, relation
from ..checking.accounts import Given
from ..checking.exercise import Verdict
from ..transformer import block_parameters
from .lesson_15_blank import LESSON

# ---------------------------------------------------------------- entries

TEXT = "text"
V, C, H, T, L = "vocab_size", "d_model", "num_heads", "context_length", "num_layers"
FORETOLD_COUNT, FORETOLD_LOSS = "predicted parameters", "predicted first loss"
COUNT, FIRST, LOSSES = "parameters", "first loss", "losses"
TRAINED, HELD = "training tokens", "held-out tokens"
STEPS, BATCH, WINDOW, SEEN = "steps", "batch size", "window", "tokens predicted"
BIGRAM, HELD_LOSS = "bigram loss", "held-out loss"
SIZES = (V, C, H, T, L)

# Where an honest run can lie. New models of this kind begin 0.1 to 0.3 above ln V.
BELOW, ABOVE = 0.5, 1.0  # the first loss, from ln V
LEAST_HELD = 500  # tokens: the mean over fewer says little
LEAK = 0.25  # of a bigram's loss: no small model comes so far on a text that doesn't repeat itself
NEAR, LEAST_NEAR = 0.7, 0.5  # of the last training loss: held-out text is not so much easier
SPREAD = 6  # of the loss of one token, three times over: a step's is the mean over its tokens
LEAST_STEPS, LEAST_SEEN = 10, 1_000  # fewer teach a new model less than a count of pairs
ROUNDED = 0.051  # one decimal
FAR = 0.4  # of ln V: from here on the first loss that was foretold gets a remark
DIGITS = 0.01  # two decimals, and a rounding of ln V

ENTRIES = (
    asked(TEXT, "Python's reference, small letters", "Which text it was, in a few words."),
    asked(V, 30, "V: how many different tokens there are."),
    asked(C, 48, "The width of a token."),
    asked(H, 4, "How many heads a block has."),
    asked(T, 48, "The most tokens the model takes."),
    asked(L, 2, "How many blocks."),
    asked(FORETOLD_COUNT, 61_536, "By your formula, from before the run."),
    asked(FORETOLD_LOSS, 3.4, "From before the run."),
    asked(COUNT, 61_536, "Counted in the model."),
    asked(TRAINED, 180_000, "How long the training text is."),
    asked(HELD, 20_000, "How long the text is that was kept apart."),
    asked(STEPS, 400, "How many steps the training took."),
    asked(BATCH, 16, "How many windows a step saw."),
    asked(WINDOW, 48, "How many tokens of a window were predicted."),
    asked(SEEN, 307_200, "How many predictions all steps asked for together."),
    asked(FIRST, 3.56, "The loss before the first step."),
    asked(
        LOSSES,
        [3.56, 2.42, 2.25, 2.13, 2.03],
        "At least two numbers: the first, some between, and the last.",
    ),
    asked(BIGRAM, 2.39, "Of pairs counted in the training text, on the held-out text."),
    asked(HELD_LOSS, 2.03, "Of your model after training, on the held-out text."),
)


# ---------------------------------------------------------------- relations


def _count(d: Given) -> int:
    """The parameters of a model of these sizes, under the course's names."""
    blocks = d[L] * block_parameters(d[C])
    return int(2 * d[V] * d[C] + d[T] * d[C] + blocks + 2 * d[C])


def _sizes_fit(d: Given) -> Verdict:
    small = [name for name in (*SIZES, STEPS, BATCH, WINDOW) if d[name] < 1]
    if small:
        return f"have {d[small[0]]} for {small[0]}"
    if d[V] < 2:
        return "have one token, which needs no model"
    if d[C] % d[H]:
        return f"have {d[C]} channels for {d[H]} heads"
    # Windows of T + 1 tokens, whose last is only predicted, are told of in a note.
    return d[WINDOW] <= d[T] + 1 or f"have windows of {d[WINDOW]} for a model that takes {d[T]}"


def _parameters_follow(d: Given) -> Verdict:
    if _sizes_fit(d) is not True:
        return None
    off = d[COUNT] - _count(d)
    return off == 0 or f"are {abs(off):,} too {'many' if off > 0 else 'few'}"


def _foretold(d: Given) -> Verdict:
    least = min(d[FORETOLD_COUNT], d[FORETOLD_LOSS])
    return least > 0 or f"have {least:g}"


def _begins_near_ln_v(d: Given) -> Verdict:
    off = d[FIRST] - math.log(d[V])
    if -BELOW <= off <= ABOVE:
        return True
    return f"is {abs(off):.1f} {'above' if off > 0 else 'below'} it"


def _texts_apart(d: Given) -> Verdict:
    if d[HELD] < LEAST_HELD:
        return f"are {d[HELD]:,}"
    return d[HELD] < d[TRAINED] or f"are {d[HELD]:,}, beside {d[TRAINED]:,}"


def _predictions_add_up(d: Given) -> Verdict:
    windows = d[STEPS] * d[BATCH]
    # Counted with a token too many, windows are right but for a note.
    near = (d[WINDOW], d[WINDOW] - 1, d[WINDOW] + 1)
    return any(_is_made_of(d[SEEN], windows, each) for each in near if each > 0) or (
        f"are {d[SEEN]:,}"
    )


def _is_made_of(seen: int, windows: int, each: int) -> bool:
    """Whether these are so many windows, rounded to three digits or more, or with the last batches
    not quite full."""
    whole = windows * each
    places = range(max(1, len(str(whole)) - 2))
    fewer = whole - seen
    not_full = 0 < fewer <= min(windows, whole // 10) and fewer % each == 0
    return not_full or any(round(whole, -place) == seen for place in places)


def _enough_to_learn(d: Given) -> Verdict:
    if _sizes_fit(d) is not True:
        return None
    if d[STEPS] < LEAST_STEPS:
        return f"are {d[STEPS]} steps"
    tokens = d[STEPS] * d[BATCH] * d[WINDOW]
    return tokens >= LEAST_SEEN or f"are {tokens:,} tokens"


def _curve_fits_the_steps(d: Given) -> Verdict:
    return len(d[LOSSES]) <= d[STEPS] + 1 or f"are {len(d[LOSSES])} losses of {d[STEPS]} steps"


def _curve_begins(d: Given) -> Verdict:
    return abs(d[LOSSES][0] - d[FIRST]) <= ROUNDED or f"begins at {d[LOSSES][0]:g}"


def _curve_falls(d: Given) -> Verdict:
    if _curve_begins(d) is not True:
        return None
    if min(d[LOSSES]) <= 0:
        return f"has {min(d[LOSSES]):g}"
    return d[LOSSES][-1] < d[LOSSES][0] - 0.1 or f"ends at {d[LOSSES][-1]:g}"


def _bigram_is_possible(d: Given) -> Verdict:
    return 0 < d[BIGRAM] < math.log(d[V]) + DIGITS or f"is {d[BIGRAM]:g}"


def _beats_the_bigram(d: Given) -> Verdict:
    if _bigram_is_possible(d) is not True:
        return None
    off = d[HELD_LOSS] - d[BIGRAM]
    return off < 0 or f"is {off:.2g} above it"


def _is_possible(d: Given) -> Verdict:
    if _bigram_is_possible(d) is not True:
        return None
    return d[HELD_LOSS] >= LEAK * d[BIGRAM] or f"is {d[HELD_LOSS]:g}"


def _fits_the_curve(d: Given) -> Verdict:
    earlier = (_is_possible, _begins_near_ln_v, _curve_begins, _curve_falls)
    if not all(rule(d) is True for rule in earlier):
        return None
    return d[HELD_LOSS] >= _easiest(d) or f"is {d[HELD_LOSS]:g}"


def _easiest(d: Given) -> float:
    """The least held-out loss that goes with this end of training: its last step may have been a
    hard one."""
    last, chance = d[LOSSES][-1], SPREAD / math.sqrt(max(1, d[BATCH] * d[WINDOW]))
    return max(LEAST_NEAR * last, NEAR * last - chance)


RELATIONS = (
    relation(
        "sizes",
        "The sizes are those of a model, and it can read all of a window but the last token",
        _sizes_fit,
    ),
    relation("parameters", "The parameters counted follow from the sizes", _parameters_follow),
    relation("foretold", "Two numbers were foretold, both above 0", _foretold),
    relation(
        "first loss", "The first loss is near ln V, as a new model's must be", _begins_near_ln_v
    ),
    relation(
        "texts",
        f"The held-out tokens are at least {LEAST_HELD}, and fewer than those trained on",
        _texts_apart,
    ),
    relation(
        "predictions",
        "The tokens predicted are steps times batch size times window",
        _predictions_add_up,
    ),
    relation(
        "enough",
        f"There is enough to learn from: {LEAST_STEPS} steps, {LEAST_SEEN:,} tokens predicted",
        _enough_to_learn,
    ),
    relation(
        "curve length",
        "There are no more losses than steps, but for one after the last",
        _curve_fits_the_steps,
    ),
    relation("curve begins", "The losses begin with the first loss", _curve_begins),
    relation("curve falls", "The losses fall, and stay above 0", _curve_falls),
    relation("bigram", "The bigram's loss lies between 0 and ln V", _bigram_is_possible),
    relation("held out", "The held-out loss is below the bigram's", _beats_the_bigram),
    relation("possible", "The held-out loss is one that a model can reach", _is_possible),
    relation("agree", "The held-out loss is not far below the end of training", _fits_the_curve),
)


# ---------------------------------------------------------------- contradictions


def _off(*counts: Callable[[Given], int]) -> Callable[[Given], bool]:
    """Whether just this is missing from the parameters."""
    return lambda d: any(_count(d) - d[COUNT] == count(d) for count in counts)


def _about(name: str, wanted: Callable[[Given], float], share: float) -> Callable[[Given], bool]:
    return lambda d: abs(d[name] - wanted(d)) <= share * abs(wanted(d))


def _log(base: float) -> Callable[[Given], float]:
    return lambda d: math.log(d[V]) / math.log(base)


def _is_ln_v(value: float, d: Given) -> bool:
    """Whether it is ln V, written down with one digit or more behind the point."""
    exact = math.log(d[V])
    return abs(value - exact) < 1e-6 or any(value == round(exact, digits) for digits in range(1, 7))


NATS = "Losses here are in nats."
BELOW_ZERO = (
    "A loss is 0, or below it.",
    "A loss is -log p: 0 leaves no doubt about any token, and below 0 a probability is above 1.",
    "Is it the log of something else, or was a sign lost, or the digits?",
)
TWO_TABLES = "MyGPT's `head` has a weight of its own, and 2 · V · C numbers sit in the two."

CONTRADICTIONS = (
    contradiction(
        "window_too_long",
        "sizes",
        {WINDOW: 96, SEEN: 614_400},
        "The windows are longer than the model's context.",
        "It would have refused them with a ValueError, so these numbers are not of one run.",
        "How many tokens of a window does the model see, and how many does it take?",
        lambda d: d[WINDOW] > d[T] + 1,
    ),
    contradiction(
        "width_not_divisible",
        "sizes",
        {H: 5},
        "The width can't be divided by the heads: no such model can be made.",
        "Each head gets the same number of channels.",
        "Which of the two numbers did you run with?",
        lambda d: d[H] > 0 and d[C] % d[H] != 0,
    ),
    contradiction(
        "sizes_without_a_model",
        "sizes",
        {L: 0},
        "One of these sizes is too small for any model, or for any training.",
        "Whoever wants to repeat your run begins with them.",
        "Take them from the line that made your model, and from your training loop.",
    ),
    contradiction(
        "positions_not_counted",
        "parameters",
        {COUNT: 61_536 - 48 * 48},
        "What is missing is just the table of positions.",
        "It is learned as the others are: context_length rows of width C.",
        "Which module holds two tables?",
        _off(lambda d: d[T] * d[C]),
    ),
    contradiction(
        "head_not_counted",
        "parameters",
        {COUNT: 61_536 - 30 * 48},
        "What is missing is one table of V rows: `head`, or the tokens.",
        TWO_TABLES,
        "Ask your model, and not the formula of GPT-2, whose head is tied.",
        _off(lambda d: d[V] * d[C]),
    ),
    contradiction(
        "last_norm_not_counted",
        "parameters",
        {COUNT: 61_536 - 2 * 48},
        "What is missing is just the last norm.",
        "It has a scale and a shift, 2 · C numbers.",
        "What stands between the last block and `head`?",
        _off(lambda d: 2 * d[C]),
    ),
    contradiction(
        "buffers_counted",
        "parameters",
        {COUNT: 61_536 + 2 * 48 * 48},
        "What is too much is just a mask of context_length rows and columns in each block.",
        "A mask or a running mean is carried along and never trained.",
        "`parameters()` leaves buffers out.",
        _off(lambda d: -d[L] * d[T] ** 2),
    ),
    contradiction(
        "parameters_of_another_model",
        "parameters",
        {COUNT: 64_000},
        "The parameters don't follow from the sizes.",
        "Two tables, a head, the blocks and a norm: the sizes leave no freedom.",
        "Add up `numel()` over the parameters of the model that you trained; compare the sizes.",
    ),
    contradiction(
        "nothing_foretold",
        "foretold",
        {FORETOLD_COUNT: 0},
        "Where a number was to be foretold stands 0, or less.",
        "A miss costs nothing here; a number that could not come foretells nothing.",
        "What did you write down above, before the model was made?",
    ),
    contradiction(
        "loss_in_bits",
        "first loss",
        {FIRST: 5.14, LOSSES: [5.14, 3.5, 3.2, 3.0, 2.9]},
        "The first loss is near log₂ V: it is in bits.",
        NATS,
        "`F.cross_entropy` gives nats. Where was it divided by ln 2?",
        _about(FIRST, lambda d: _log(2)(d) + 0.2, 0.06),
    ),
    contradiction(
        "loss_is_perplexity",
        "first loss",
        {FIRST: 31.0, LOSSES: [31.0, 11.2, 9.4, 8.5, 7.6]},
        "The first loss is near V: it is a perplexity, the exponential of a loss.",
        "Bigram and held-out loss are compared with it in nats.",
        "What is its logarithm?",
        _about(FIRST, lambda d: 1.15 * d[V], 0.25),
    ),
    contradiction(
        "first_loss_after_training",
        "first loss",
        {FIRST: 2.6, LOSSES: [2.6, 2.42, 2.25, 2.13, 2.03]},
        "The first loss is far below ln V: a new model can't know so much.",
        "Either it had been trained before, or it sees the answer, or V is that of another text.",
        "Take the loss of a new model, before its first step. Are its logits compared with the "
        "tokens that come next?",
        lambda d: d[FIRST] < math.log(d[V]),
    ),
    contradiction(
        "first_loss_too_high",
        "first loss",
        {FIRST: 9.0, LOSSES: [9.0, 3.1, 2.6, 2.4, 2.2]},
        "The first loss is far above ln V: the new model is sure, and wrong.",
        "Its logits are too large, so the first steps only unlearn them.",
        "How do your weights begin, and is the last norm called?",
    ),
    contradiction(
        "nothing_held_out",
        "texts",
        {HELD: 180_000},
        "As much is held out as is trained on, or more: that looks like one and the same text.",
        "On text that it was trained on a model shows its memory.",
        "Cut the text in two before you make windows.",
        lambda d: d[HELD] >= d[TRAINED],
    ),
    contradiction(
        "too_little_held_out",
        "texts",
        {HELD: 86},
        "Too little is held out to say anything.",
        "The mean over some dozen tokens changes with every sentence.",
        "Take a longer text, or hold out more of it.",
        lambda d: d[HELD] < LEAST_HELD,
    ),
    contradiction(
        "batch_not_counted",
        "predictions",
        {SEEN: 400 * 48},
        "The tokens predicted are those of one window a step: the batch is missing.",
        "All windows of a batch are asked at once.",
        "How many windows does a step see?",
        _about(SEEN, lambda d: d[STEPS] * d[WINDOW], 0.03),
    ),
    contradiction(
        "steps_not_counted",
        "predictions",
        {SEEN: 16 * 48},
        "The tokens predicted are those of one step.",
        "The training took many.",
        "How many steps were there?",
        _about(SEEN, lambda d: d[BATCH] * d[WINDOW], 0.03),
    ),
    contradiction(
        "windows_counted",
        "predictions",
        {SEEN: 400 * 16},
        "You counted windows, not the tokens that were predicted in them.",
        "A window holds as many predictions as tokens that are seen.",
        "How many predictions are in one window?",
        lambda d: d[SEEN] == d[STEPS] * d[BATCH],
    ),
    contradiction(
        "text_counted_once",
        "predictions",
        {SEEN: 180_000},
        "The tokens predicted are the length of the text.",
        "Windows overlap and are drawn again, or some are never drawn.",
        "Count what the steps asked for, whatever text it came from.",
        lambda d: d[SEEN] == d[TRAINED],
    ),
    contradiction(
        "predictions_do_not_add_up",
        "predictions",
        {SEEN: 1_000_000},
        "The tokens predicted don't follow from steps, batch size and window.",
        "One of the four numbers is from another run.",
        "Multiply the three.",
    ),
    contradiction(
        "too_few_steps",
        "enough",
        {STEPS: 3, SEEN: 3 * 16 * 48, LOSSES: [3.56, 3.1, 2.9]},
        "So few steps teach a new model less than counting pairs does.",
        "The losses and the held-out loss must then come from another run.",
        f"How many steps had this one? {LEAST_STEPS} are the least that is believed.",
    ),
    contradiction(
        "more_losses_than_steps",
        "curve length",
        {STEPS: 12, SEEN: 12 * 16 * 48, LOSSES: [3.56 - 0.1 * i for i in range(15)]},
        "There are more losses than steps.",
        "Each step has one loss, and after the last there is one more to measure.",
        "Do steps and losses come from the same run?",
    ),
    contradiction(
        "curve_backwards",
        "curve begins",
        {LOSSES: [2.03, 2.13, 2.25, 2.42, 3.56]},
        "The losses stand from the last to the first.",
        "A curve is read in the order of time.",
        "Turn the list round.",
        lambda d: abs(d[LOSSES][-1] - d[FIRST]) <= ROUNDED,
    ),
    contradiction(
        "theory_for_measurement",
        "curve begins",
        {FIRST: 3.4},
        "The first loss, or the first of the losses, is ln V to its digits: theory says so, and "
        "asked is what was measured.",
        "A new model begins a little above ln V. How much, only the model says.",
        "Take the first loss from the model, before its first step: it is the curve's beginning.",
        lambda d: _is_ln_v(d[FIRST], d) or _is_ln_v(d[LOSSES][0], d),
    ),
    contradiction(
        "curve_of_another_run",
        "curve begins",
        {LOSSES: [3.7, 2.42, 2.25, 2.13, 2.03]},
        "The losses begin with another number than the first loss.",
        "Both are the loss before the first step; one is from another run, or in another unit.",
        "Take `losses[0]` for the first loss, and the list from the same run.",
    ),
    contradiction(
        "nothing_learned",
        "curve falls",
        {LOSSES: [3.56, 3.6, 3.55, 3.57, 3.56]},
        "The losses don't fall: nothing was learned in this run.",
        "What comes after is then the loss of a new model.",
        "Did the optimizer get this model's parameters, and was `step` called?",
        lambda d: d[LOSSES][-1] >= d[LOSSES][0] - 0.1,
    ),
    contradiction(
        "loss_below_zero",
        "curve falls",
        {LOSSES: [3.56, 2.4, -0.2, 2.1, 2.03]},
        *BELOW_ZERO,
    ),
    contradiction(
        "bigram_worse_than_chance",
        "bigram",
        {BIGRAM: 3.9},
        "The bigram's loss is above ln V: it would be worse than no knowledge at all.",
        "A model is easily better than a yardstick that is too long.",
        "Pairs that never came need a count too: begin at 1. Are both losses in nats?",
        lambda d: d[BIGRAM] > math.log(d[V]),
    ),
    contradiction(
        "bigram_below_zero",
        "bigram",
        {BIGRAM: -2.39},
        "The bigram's loss isn't above 0.",
        "A loss is -log p; text that one token foretells without any doubt needs no model.",
        "Was the sign lost?",
    ),
    contradiction(
        "bigram_not_beaten",
        "held out",
        {HELD_LOSS: 2.5},
        "Your model doesn't beat a bigram yet.",
        "Pairs can be counted without a network: what attention is for begins below this line.",
        "More steps, another learning rate, or more text? Look at the losses: do they still fall?",
    ),
    contradiction(
        "loss_below_zero",
        "possible",
        {HELD_LOSS: -1.0},
        *BELOW_ZERO,
        lambda d: d[HELD_LOSS] < 0,
    ),
    contradiction(
        "not_shifted",
        "possible",
        {HELD_LOSS: 0.01, LOSSES: [3.56, 1.2, 0.3, 0.05, 0.01]},
        "The loss comes down to nothing: the model copies the token that it is asked for.",
        "Nobody can foretell a text without doubt.",
        "Compare logits at t with ids at which place? And does a token see the next?",
        lambda d: d[HELD_LOSS] < 0.1 and d[LOSSES][-1] < 0.5,
    ),
    contradiction(
        "held_out_leaks",
        "possible",
        {HELD_LOSS: 0.4, LOSSES: [3.56, 1.9, 1.2, 0.7, 0.4]},
        "The held-out loss is below what a small model can reach on new text.",
        "The answer is seen: a token sees the next, or the text stands in training too. Or the "
        "number is not of this run.",
        "Change a later token: do earlier logits stay? Is a held-out line in the training text?",
    ),
    contradiction(
        "held_out_easier_than_training",
        "agree",
        {HELD_LOSS: 1.1},
        "The held-out loss is far below the last training loss.",
        "New text is not so much easier than the text that was learned: one number is not this "
        "run's.",
        "Measure it anew with `held_out_loss`, after training, on windows of the held-out text. Is "
        "the last training loss of the same model?",
    ),
)


# ---------------------------------------------------------------- what costs nothing

MISSED = (
    ("the table of positions", lambda d: d[T] * d[C]),
    ("one of the two tables of V rows", lambda d: d[V] * d[C]),
    ("the last norm", lambda d: 2 * d[C]),
    ("the norms in the blocks", lambda d: 4 * d[C] * d[L]),
    ("the biases of the blocks", lambda d: 6 * d[C] * d[L]),
)


COSTS_NOTHING = (
    "It costs nothing, and stays as it is: a prediction that is mended afterwards is none."
)


def _notes(d: Given) -> list[str]:
    if _sizes_fit(d) is not True:
        return []
    notes = []
    off = _count(d) - d[FORETOLD_COUNT]
    if off and d[FORETOLD_COUNT] > 0 and _parameters_follow(d) is True:
        missed = next((f": just {name}" for name, count in MISSED if count(d) == off), "")
        notes.append(
            f"You foretold {abs(off):,} parameters too {'few' if off > 0 else 'many'}{missed}. "
            f"{COSTS_NOTHING}"
        )
    notes += _on_the_first_loss(d)
    if d[WINDOW] == d[T] + 1:
        notes.append(
            f"A window of {d[WINDOW]} tokens has {d[T]} predictions: its first is only read, its "
            "last only predicted. `window` asks for the predictions. It costs nothing."
        )
    if d[SEEN] == d[STEPS] * d[BATCH] * (d[WINDOW] + 1):
        notes.append(
            f"You counted {d[WINDOW] + 1} tokens a window. The first of them stands behind nothing "
            f"that could foretell it, so {d[WINDOW]} are predicted. It costs nothing."
        )
    if d[TRAINED] > 0 and _predictions_add_up(d) is True:
        share = d[SEEN] / d[TRAINED]
        notes.append(f"Each token of the training text was predicted about {share:.1f} times.")
    if _fits_the_curve(d) is True and d[HELD_LOSS] < 0.85 * d[LOSSES][-1]:
        notes.append(
            "The held-out loss is clearly below the last training loss. That can be one hard "
            "batch, or an easier text; it can also be a line that stands in both texts."
        )
    return notes


def _on_the_first_loss(d: Given) -> list[str]:
    notes, foretold = [], d[FORETOLD_LOSS]
    for base, name in ((2, "log₂ V"), (10, "log₁₀ V")):
        if _about(FORETOLD_LOSS, _log(base), 0.02)(d):
            notes.append(f"The first loss you foretold is {name}. {NATS} {COSTS_NOTHING}")
            break
    else:
        if foretold > 0 and abs(foretold / math.log(d[V]) - 1) > FAR:
            notes.append(
                "The first loss you foretold is far from ln V, that of a model to which all V "
                f"tokens are equally likely. {COSTS_NOTHING}"
            )
    if foretold == d[FIRST] and round(d[FIRST], 2) != d[FIRST] and not _is_ln_v(foretold, d):
        notes.append(
            "The first loss you foretold equals the measured one to the last digit. ln V can't do "
            "that. If you wrote it down afterwards, you know what it is worth."
        )
    if _is_ln_v(d[FIRST], d) and _curve_begins(d) is True:
        notes.append(
            "The first loss is ln V to the digits that you gave. A new model usually begins a "
            "little above it: is it measured, or the formula's?"
        )
    return notes


MY_RUN = account(
    "my_run",
    lesson=LESSON,
    points=2.0,
    about="one run of one's own",
    entries=ENTRIES,
    relations=RELATIONS,
    contradictions=CONTRADICTIONS,
    hints=(
        "Every number comes from one and the same run. The parameters follow from the sizes, the "
        "first loss is measured and lies near `math.log(V)`, and steps times batch size times "
        "window gives the tokens predicted.",
        "`losses[0]` is the first loss, `losses[::80] + losses[-1:]` are some of the curve; "
        "`tiny_lm.counted_bigram_loss(train_ids, held_out, V)` is the bigram's, "
        "`language_model.held_out_loss(model, windows)` your model's.",
        "It doesn't beat the bigram? More steps first. Then a learning rate between 3e-3 and 1e-2, "
        "and a text of more than 100,000 tokens. One that is too small to learn from is learned by "
        "heart.",
    ),
    notes=_notes,
)
