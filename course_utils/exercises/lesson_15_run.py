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
FORETOLD = 0.4  # of ln V, the first loss that is foretold
LEAST_HELD = 500  # tokens: the mean over fewer says little
LEAK = 0.25  # of a bigram's loss: no small model comes so far on a text that doesn't repeat itself
NEAR = 0.5  # of the last training loss: held-out text is not twice as easy
ROUNDED = 0.051  # one decimal

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
    # Windows of T + 1 tokens, whose last is only predicted, are counted either way.
    return d[WINDOW] <= d[T] + 1 or f"have windows of {d[WINDOW]} for a model that takes {d[T]}"


def _parameters_follow(d: Given) -> Verdict:
    if _sizes_fit(d) is not True:
        return None
    off = d[COUNT] - _count(d)
    return off == 0 or f"are {abs(off):,} too {'many' if off > 0 else 'few'}"


def _foretold(d: Given) -> Verdict:
    if _sizes_fit(d) is not True:
        return None
    share = d[FORETOLD_COUNT] / _count(d)
    return 0.5 <= share <= 2 or f"is {share:.1f} times what the formula gives"


def _foretold_loss(d: Given) -> Verdict:
    off = d[FORETOLD_LOSS] / math.log(d[V]) - 1
    return abs(off) <= FORETOLD or f"is {d[FORETOLD_LOSS]:g}"


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
    if abs(d[SEEN] - windows * d[WINDOW]) <= windows:  # the last token of a window counted or not
        return True
    return f"are {d[SEEN]:,}"


def _curve_begins(d: Given) -> Verdict:
    return abs(d[LOSSES][0] - d[FIRST]) <= ROUNDED or f"begins at {d[LOSSES][0]:g}"


def _curve_falls(d: Given) -> Verdict:
    if _curve_begins(d) is not True:
        return None
    if min(d[LOSSES]) < 0:
        return "goes below 0"
    return d[LOSSES][-1] < d[LOSSES][0] - 0.1 or f"ends at {d[LOSSES][-1]:g}"


def _bigram_is_possible(d: Given) -> Verdict:
    return 0 < d[BIGRAM] < math.log(d[V]) + 0.05 or f"is {d[BIGRAM]:g}"


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
    earlier = (_is_possible, _begins_near_ln_v, _curve_begins)
    if not all(rule(d) is True for rule in earlier):
        return None
    return d[HELD_LOSS] >= NEAR * d[LOSSES][-1] or f"is {d[HELD_LOSS]:g}"


RELATIONS = (
    relation("sizes", "The sizes are those of a model, and its windows fit into it", _sizes_fit),
    relation("parameters", "The parameters counted follow from the sizes", _parameters_follow),
    relation("foretold count", "The count you foretold is about what the formula gives", _foretold),
    relation("foretold loss", "The first loss you foretold is about ln V", _foretold_loss),
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
    relation("curve begins", "The losses begin with the first loss", _curve_begins),
    relation("curve falls", "The losses fall, and stay above 0", _curve_falls),
    relation("bigram", "The bigram's loss lies between 0 and ln V", _bigram_is_possible),
    relation("held out", "The held-out loss is below the bigram's", _beats_the_bigram),
    relation("possible", "The held-out loss is one that a model can reach", _is_possible),
    relation("agree", "The held-out loss agrees with the end of training", _fits_the_curve),
)


# ---------------------------------------------------------------- contradictions


def _off(*counts: Callable[[Given], int]) -> Callable[[Given], bool]:
    """Whether just this is missing from the parameters."""
    return lambda d: any(_count(d) - d[COUNT] == count(d) for count in counts)


def _about(name: str, wanted: Callable[[Given], float], share: float) -> Callable[[Given], bool]:
    return lambda d: abs(d[name] - wanted(d)) <= share * abs(wanted(d))


def _log(base: float) -> Callable[[Given], float]:
    return lambda d: math.log(d[V]) / math.log(base)


NATS = "Losses here are in nats."
BELOW_ZERO = (
    "A loss is below 0.",
    "A loss is -log p, and no probability is above 1.",
    "Is it the log of something else, or was a sign lost?",
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
        "count_guessed",
        "foretold count",
        {FORETOLD_COUNT: 10_000},
        "The parameters you foretold are far from any formula.",
        "This number can be known before a model is made; a guess tests nothing.",
        "2 · V · C + context_length · C + 2 · C, and what for each block?",
    ),
    contradiction(
        "log_to_base_two",
        "foretold loss",
        {FORETOLD_LOSS: 4.91},
        "You took the logarithm to the base 2.",
        NATS,
        "`math.log(V)` is?",
        _about(FORETOLD_LOSS, _log(2), 0.02),
    ),
    contradiction(
        "log_to_base_ten",
        "foretold loss",
        {FORETOLD_LOSS: 1.48},
        "You took the logarithm to the base 10.",
        NATS,
        "`math.log(V)` is?",
        _about(FORETOLD_LOSS, _log(10), 0.02),
    ),
    contradiction(
        "first_loss_guessed",
        "foretold loss",
        {FORETOLD_LOSS: 10.0},
        "The first loss you foretold is far from ln V.",
        "A new model knows nothing, so all V tokens are about equally likely to it.",
        "Which loss has a model that gives each of V tokens the probability 1/V?",
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
        "Make a new model, and take the loss before its first step. Then test the shift.",
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
        "curve_backwards",
        "curve begins",
        {LOSSES: [2.03, 2.13, 2.25, 2.42, 3.56]},
        "The losses stand from the last to the first.",
        "A curve is read in the order of time.",
        "Turn the list round.",
        lambda d: abs(d[LOSSES][-1] - d[FIRST]) <= ROUNDED,
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
        {HELD_LOSS: 0.9},
        "The held-out loss is less than half of the last training loss.",
        "New text is not so much easier than the text that was learned: one number is not this "
        "run's.",
        "Measure both with the same model and the same `next_token_loss`.",
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


def _notes(d: Given) -> list[str]:
    notes = []
    off = _count(d) - d[FORETOLD_COUNT]
    if off and _parameters_follow(d) is True:
        missed = next((f": just {name}" for name, count in MISSED if count(d) == off), "")
        notes.append(
            f"You foretold {abs(off):,} parameters too {'few' if off > 0 else 'many'}{missed}. It "
            "costs nothing, and stays as it is: a prediction that is mended afterwards is none."
        )
    if d[FORETOLD_LOSS] == d[FIRST] and round(d[FIRST], 2) != d[FIRST]:
        notes.append(
            "The first loss you foretold equals the measured one to the last digit. ln V can't do "
            "that. If you wrote it down afterwards, you know what it is worth."
        )
    if d[TRAINED] > 0 and _predictions_add_up(d) is True:
        share = d[SEEN] / d[TRAINED]
        notes.append(f"Each token of the training text was predicted about {share:.1f} times.")
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
        "first loss is near `math.log(V)`, and steps times batch size times window gives the "
        "tokens predicted.",
        "`losses[0]` is the first loss, `losses[::80] + losses[-1:]` are some of the curve; "
        "`tiny_lm.counted_bigram_loss(train_ids, held_out, V)` is the bigram's, "
        "`language_model.held_out_loss(model, windows)` your model's.",
        "It doesn't beat the bigram? More steps first. Then a learning rate between 3e-3 and 1e-2, "
        "and a text of more than 100,000 tokens. One that is too small to learn from is learned by "
        "heart.",
    ),
    notes=_notes,
)
