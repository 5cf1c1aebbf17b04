"""Lesson 15, third part: one head, what its loss was thought to be, what it is, and why."""

from __future__ import annotations

import math
import re

from ..checking import account, asked, contradiction, relation
from ..checking.accounts import Given
from ..checking.exercise import Verdict
from .lesson_15_blank import LESSON

# ---------------------------------------------------------------- entries

LAYERS, HEADS, LAYER, HEAD = "num_layers", "num_heads", "layer", "head"
NAME, SCORE, EVEN = "name", "score", "score of even weights"
FORETOLD, LOSS, WITHOUT = "predicted change", "loss", "loss without it"
MEASURED, WHY = "measured change", "why"

ROUNDED = 0.0151  # three numbers of two decimals
ALIKE, LEAST = 0.25, 0.01  # of the larger change, and in nats: up to here two changes agree
REASON, TELLING = 4, 2  # words of a reason, and those among them that say something
LARGE = 5  # nats: a guess among 148 tokens
MOST = 20  # nats: e to this is more tokens than any vocabulary has

ENTRIES = (
    asked(LAYERS, 2, "How many layers your model has."),
    asked(HEADS, 4, "How many heads a layer has."),
    asked(LAYER, 0, "The head's layer, counted from 0."),
    asked(HEAD, 3, "Its number in that layer, counted from 0."),
    asked(NAME, "the letter before", "What it does, in a few words of your own."),
    asked(
        SCORE,
        0.71,
        "The mean weight on the places that its name asks for, from 0 to 1, above that of even "
        "weights.",
    ),
    asked(EVEN, 0.07, "The same for a head that looks everywhere alike."),
    asked(FORETOLD, 0.5, "By how much the loss will rise without it, from before the cut."),
    asked(LOSS, 2.03, "The held-out loss with all heads."),
    asked(WITHOUT, 2.26, "The held-out loss while this head adds nothing."),
    asked(MEASURED, 0.23, "The second loss less the first."),
    asked(
        WHY,
        "Another head of the same layer looks one back too, and the stream still has the rest.",
        "If the two changes differ, what the reason may be.",
        optional=True,
    ),
)


# ---------------------------------------------------------------- relations


def _there_is_such_a_head(d: Given) -> Verdict:
    inside = 0 <= d[LAYER] < d[LAYERS] and 0 <= d[HEAD] < d[HEADS]
    return inside or f"is head {d[HEAD]} of {d[HEADS]}, in layer {d[LAYER]} of {d[LAYERS]}"


ADDRESS = {"head", "layer", "number", "the", "of", "in", "my", "best", "one", "no"}
VAGUE = {
    *(
        "to",
        "at",
        "on",
        "it",
        "this",
        "that",
        "what",
        "which",
        "something",
        "some",
        "thing",
        "things",
        "stuff",
    ),
    *("does", "do", "doing", "works", "looks", "look", "looking", "attends", "attention", "job"),
    *("is", "has", "name", "unknown", "somewhere", "somehow", "important", "interesting"),
}


def _has_a_name(d: Given) -> Verdict:
    return bool(_words(d[NAME]) - ADDRESS - VAGUE)


def _is_a_share(d: Given) -> Verdict:
    odd = [d[name] for name in (SCORE, EVEN) if not 0 <= d[name] <= 1]
    if not odd and d[EVEN] == 0:
        return "have 0 for even weights"
    return not odd or f"have {odd[0]:g}"


def _does_its_job(d: Given) -> Verdict:
    if _is_a_share(d) is not True:
        return None
    return d[SCORE] > d[EVEN] or f"is {d[SCORE]:g}, beside {d[EVEN]:g}"


def _losses_are_losses(d: Given) -> Verdict:
    odd = [d[name] for name in (LOSS, WITHOUT) if not 0 < d[name] <= MOST]
    return not odd or f"have {odd[0]:g}"


def _change_follows(d: Given) -> Verdict:
    off = d[MEASURED] - (d[WITHOUT] - d[LOSS])
    return abs(off) <= ROUNDED or f"is off by {abs(off):.2g}"


def _can_be_foretold(d: Given) -> Verdict:
    return d[LOSS] + d[FORETOLD] >= 0 or f"would be {d[LOSS] + d[FORETOLD]:.2g}"


def _alike(d: Given) -> bool:
    one, other = d[FORETOLD], d[MEASURED]
    return bool(abs(one - other) <= max(LEAST, ALIKE * max(abs(one), abs(other))))


def _is_explained(d: Given) -> Verdict:
    if _change_follows(d) is not True or _alike(d):
        return None
    return _long_enough(d[WHY]) and _telling(d) >= TELLING


# One by one, for a language without blanks.
WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]{2,}")
SAYS_NOTHING = {
    *("predicted", "prediction", "foretold", "guess", "guessed", "measured", "measurement"),
    *("loss", "change", "changed", "changes", "difference", "differ", "differs", "different"),
    *("larger", "smaller", "higher", "lower", "bigger", "more", "less", "than", "much", "too"),
    *("because", "since", "so", "but", "and", "or", "not", "no", "the", "an", "it", "its", "is"),
    *("was", "were", "are", "be", "been", "of", "by", "from", "to", "in", "at", "that", "this"),
    *("wrong", "right", "true", "real", "actual", "same", "nats", "number", "numbers", "value"),
    *("values", "which", "what", "my", "me", "we", "they", "them", "with", "without", "for", "on"),
    *("as", "just", "only", "only", "thought", "expected", "instead", "turned", "out", "they"),
    *("head", "layer", "score", "big", "small", "up", "down", "went", "goes", "would", "will"),
    *("have", "has", "had", "there", "then", "when", "while", "very", "bit", "little", "off"),
    *("don", "know", "idea", "why", "because", "unknown", "unclear", "sure", "none", "nothing"),
    *("todo", "reason", "explain", "explanation", "some", "any", "did", "does", "do", "doesn"),
    *("happen", "happens", "happened", "happening", "cause", "causes", "caused", "going", "here"),
    *("far", "way", "simply", "really", "honestly", "estimate", "estimated", "see", "saw", "say"),
    *("could", "can", "couldn", "can't", "cannot", "how", "come", "comes", "came", "idk", "sorry"),
}


def _words(text: str) -> set[str]:
    return set(WORD.findall(text.casefold()))


def _long_enough(text: str) -> bool:
    return len(WORD.findall(text)) >= REASON


def _telling(d: Given) -> int:
    """How many words of the reason say something; another head, by its number, is worth two."""
    others = {*re.findall(r"\bheads?\s+(\d+)", d[WHY].casefold())} - {str(d[HEAD])}
    return len(_words(d[WHY]) - SAYS_NOTHING) + 2 * bool(others)


NOT_KNOWN = re.compile(
    r"(don.?t|do not|cannot|can.?t|couldn.?t) (know|say|see|tell)|no idea|\bidk\b"
)


def _is_not_known(d: Given) -> bool:
    return bool(NOT_KNOWN.search(d[WHY].casefold())) and _telling(d) < TELLING


RELATIONS = (
    relation("place", "The head is one of the model's, counted from 0", _there_is_such_a_head),
    relation("name", "The head has a name that says what it does", _has_a_name),
    relation(
        "share",
        "Both scores are shares of the weight, from 0 to 1, and even weights have some",
        _is_a_share,
    ),
    relation("job", "The score is above that of even weights", _does_its_job),
    relation("losses", f"Both losses are above 0, and not above {MOST}", _losses_are_losses),
    relation(
        "change", "The measured change is the loss without the head, less the loss", _change_follows
    ),
    relation("foretold", "The loss that you foretold is not below 0", _can_be_foretold),
    relation("explained", "Where the two changes differ, a reason is given", _is_explained),
)


# ---------------------------------------------------------------- contradictions


def _near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= max(ROUNDED, 0.02 * abs(wanted))


ONE_SENSE = "A change has a sign and a unit; who reads yours can't ask you which."

CONTRADICTIONS = (
    contradiction(
        "heads_counted_from_one",
        "place",
        {HEAD: 4},
        "You counted layers or heads from 1.",
        "Head 4 of 4 is then one that isn't there, and head 1 another than you mean.",
        "Which numbers does `loss_without` take for the very first head?",
        lambda d: d[LAYER] == d[LAYERS] or d[HEAD] == d[HEADS],
    ),
    contradiction(
        "no_such_head",
        "place",
        {LAYER: 7},
        "The model has no such head.",
        "Whoever wants to look again must find it.",
        "How many layers has your model, and how many heads has each?",
    ),
    contradiction(
        "name_is_an_address",
        "name",
        {NAME: "head 3 of layer 0"},
        "The name says where the head is, not what it does.",
        "A name is a claim: only what it claims can be measured by a score.",
        "Where does it look: one token back, at the same token, at the first?",
        lambda d: not _words(d[NAME]) - ADDRESS,
    ),
    contradiction(
        "name_says_nothing",
        "name",
        {NAME: "does something"},
        "The name fits any head.",
        "A name is a claim: only what it claims can be measured by a score.",
        "Where does it look: one token back, at the same token, at the first?",
    ),
    contradiction(
        "score_in_percent",
        "share",
        {SCORE: 71.0},
        "A score is in percent.",
        "It is a share of a row of weights, whose sum is 1.",
        "Divide by 100.",
        lambda d: 2 < max(d[SCORE], d[EVEN]) <= 100 and min(d[SCORE], d[EVEN]) >= 0,
    ),
    contradiction(
        "even_weights_of_zero",
        "share",
        {EVEN: 0.0},
        "The score of even weights is 0.",
        "Even weights put something on every place that there is.",
        "`capstone.even_scores` gives it for each job. Has it more digits than you wrote?",
        lambda d: d[EVEN] == 0 and 0 <= d[SCORE] <= 1,
    ),
    contradiction(
        "score_before_the_softmax",
        "share",
        {SCORE: -3.2},
        "A score is no share of the weight.",
        "Numbers before the softmax have no sum that they could be a share of; a sum over rows can "
        "be as large as the text is long.",
        "Take the mean of weights, after mask and softmax, on the places that the name asks for.",
    ),
    contradiction(
        "no_better_than_even",
        "job",
        {SCORE: 0.05},
        "The score is not above that of a head that looks everywhere alike.",
        "Even weights put something on every place, and more on places that there are many of.",
        "Did the two change places? A head that looks away from a place is named for the rest: "
        '"not the first letter", with 0.97 beside 0.93.',
    ),
    contradiction(
        "loss_not_positive",
        "losses",
        {LOSS: -2.03, WITHOUT: -1.80, FORETOLD: 2.5},
        "A loss isn't above 0.",
        "A loss is the mean of -log p.",
        "Was the sign lost, or is it a change and no loss?",
        lambda d: min(d[LOSS], d[WITHOUT]) <= 0,
    ),
    contradiction(
        "loss_beyond_all_words",
        "losses",
        {WITHOUT: 200.0, MEASURED: 197.97},
        "A loss is larger than that of a guess among all words there are.",
        "20 nats are a guess among 485 million. Losses here are means a token, in nats.",
        "Is it a sum, a percentage, or a perplexity? Of the last the logarithm is the loss.",
    ),
    contradiction(
        "sign_turned",
        "change",
        {MEASURED: -0.23},
        "The measured change has the other sign, or the two losses have changed places.",
        ONE_SENSE,
        "Without it, less with it: a head that helps gives a number above 0.",
        lambda d: _near(d[MEASURED], d[LOSS] - d[WITHOUT]),
    ),
    contradiction(
        "loss_for_its_change",
        "change",
        {MEASURED: 2.26},
        "The measured change is the loss itself.",
        "What the head is worth is what is lost without it.",
        "Subtract the loss with all heads.",
        lambda d: _near(d[MEASURED], d[WITHOUT]),
    ),
    contradiction(
        "ratio_for_a_change",
        "change",
        {MEASURED: 1.113},
        "The measured change is a ratio of the losses, or a percentage.",
        "What you foretold is in nats, and the two are compared.",
        "The loss without it, less the loss with it.",
        lambda d: any(
            abs(d[MEASURED] - share) <= 0.02 * abs(share)
            for share in (
                d[WITHOUT] / d[LOSS],
                100 * (d[WITHOUT] / d[LOSS] - 1),
                d[WITHOUT] / d[LOSS] - 1,
            )
        ),
    ),
    contradiction(
        "change_does_not_follow",
        "change",
        {MEASURED: 0.6},
        "The measured change is not the difference of the two losses.",
        "One of the three numbers is from another measurement.",
        "Measure both losses on the same text, and subtract.",
    ),
    contradiction(
        "foretold_below_zero",
        "foretold",
        {FORETOLD: -2.5},
        "You foretold a loss below 0.",
        "Without the head, the best model there could be would have a loss of 0.",
        "A head that helps is missed: the loss rises, and the change is above 0.",
    ),
    contradiction(
        "why_is_missing",
        "explained",
        {WHY: ""},
        "The two changes differ, and nothing is said about it.",
        "A prediction that failed is where something can be learned.",
        "What else could bring what this head brings? What did you think it was for?",
        lambda d: not _words(d[WHY]),
    ),
    contradiction(
        "why_is_not_known",
        "explained",
        {WHY: "I don't know why this happens."},
        "You say that you don't know the reason.",
        "None is known here; what may be the reason is asked, and a conjecture is one.",
        "What could bring what this head brings? Other heads, the stream, the network?",
        _is_not_known,
    ),
    contradiction(
        "why_is_too_short",
        "explained",
        {WHY: "Other heads help."},
        "The reason is shorter than four words.",
        "So few can mean ten things.",
        "One sentence: who does what instead, or what was thought wrongly?",
        lambda d: not _long_enough(d[WHY]),
    ),
    contradiction(
        "why_repeats_the_numbers",
        "explained",
        {WHY: "Because the predicted change was 0.5 and the measured change was only 0.23."},
        "The reason says that the two changes differ, or by how much, and names no cause.",
        "That they differ can be seen; what it comes from can't.",
        "What do other heads do? What does the stream hold without this one?",
    ),
)


# ---------------------------------------------------------------- what costs nothing


def _notes(d: Given) -> list[str]:
    notes = []
    if d[FORETOLD] == d[MEASURED] and round(d[MEASURED], 2) != d[MEASURED]:
        notes.append(
            "The change you foretold equals the measured one to the last digit. If you wrote it "
            "down afterwards, you know what it is worth."
        )
    if d[FORETOLD] > max(5, 2 * d[LOSS]):
        notes.append(
            "You foretold a change much larger than the loss. Was it meant in percent? It costs "
            "nothing."
        )
    elif d[FORETOLD] > 0.7 * d[LOSS] > 0:
        notes.append(
            "You foretold a change nearly as large as the loss, or larger. Did you mean the loss "
            "itself? It costs nothing."
        )
    if LARGE < d[LOSS] <= MOST:
        notes.append(
            f"With this loss the model is as unsure as between {math.exp(d[LOSS]):,.0f} tokens. "
            "Has your text so many? If it is a perplexity, its logarithm is the loss."
        )
    notes.append(
        "No program can tell whether the name fits and the reason holds. `name` and `why` are for "
        "a person to read: an instructor, a friend, or you in a month."
    )
    return notes


MY_HEAD = account(
    "my_head",
    lesson=LESSON,
    points=2.0,
    about="one head",
    entries=ENTRIES,
    relations=RELATIONS,
    contradictions=CONTRADICTIONS,
    hints=(
        "A score is a mean of weights, so it lies between 0 and 1, and it is to lie above that of "
        "even weights. The measured change is the loss without the head, less the loss with it.",
        "`capstone.job_scores(model, ids)` is `(L, H, jobs)`; `capstone.loss_without(model, ids, "
        "layer, head)` the loss while the head adds nothing. Layers and heads count from 0.",
        "If the two changes differ by more than a quarter of the larger one, say why in a "
        "sentence: do other heads look there too? Does the stream bring the same? Was the job "
        "worth less than you thought?",
    ),
    notes=_notes,
)
