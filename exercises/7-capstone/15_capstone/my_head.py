"""How the account of a head is judged: what the check measures of it, and what must hold."""

import torch

from course_utils.experiments import capstone
from course_utils.language_model import held_out_loss
from exercises.shared.runs import (
    EXAMPLE,
    HELD_OUT,
    MODEL,
    SIZES,
    TRAINING,
    WORD,
    can_be_made,
    example_model,
    example_texts,
    fit,
    told_in_words,
    windows,
)
from whywrong.probing import relation

RUN, VOCABULARY = "run", "vocabulary"
LAYER, HEAD, JOB, NAME = "layer", "head", "job", "name"
PREDICTED, WHY = "predicted change", "why"
# Measured by the check.
LAYERS, HEADS, WEIGHT, EVEN = "num_layers", "num_heads", "mean weight", "mean of even weights"
LOSS, WITHOUT, MEASURED = "loss", "loss without it", "measured change"

TEXTS = 64  # that a mean weight is measured on
ALIKE, LEAST = 0.25, 0.01  # of the larger change, and in nats: up to here two changes agree
ADDRESS = {"head", "layer", "number", "the", "of", "in", "my", "best", "one", "no"}


def words(text):
    return set(WORD.findall(text.casefold()))


# ---------------------------------------------------------------- measuring


def made(entries):
    """An account of the catalogue, with a run and a vocabulary for their words."""
    model = entries.get(RUN)
    if model not in ("trained", "untrained"):
        return dict(entries)
    _, held_out = example_texts()
    run = {MODEL: example_model(model), SIZES: [*EXAMPLE]}
    run |= {TRAINING: held_out, HELD_OUT: held_out}
    return {**entries, RUN: run, VOCABULARY: [*"abcde "]}


def measure(answer):
    """The head's mean weight and the loss without it, computed from the model of the run."""
    run, signs = answer[RUN], answer[VOCABULARY]
    if not isinstance(run, dict):
        return {}, {RUN: "a dict is expected, your `my_run`"}
    if wrong := fit(run):
        return {}, {RUN: "; ".join(f"{name}: {why}" for name, why in wrong.items())}
    if not can_be_made(run.get(SIZES)):
        return {}, {RUN: "its sizes are not those of a model"}
    sizes, layer, head = run[SIZES], answer.get(LAYER), answer.get(HEAD)
    *_, num_heads, _, num_layers = sizes
    numbers = {LAYERS: num_layers, HEADS: num_heads}
    texts = windows(run, HELD_OUT)
    try:
        model = capstone.twin(run[MODEL], *sizes).to(texts.device)
        blanks = [i for i, sign in enumerate(signs) if str(sign).isspace()]
    except (TypeError, ValueError) as error:
        return {}, {RUN: str(error).rstrip(".")}
    if not _is_one_of(layer, num_layers) or not _is_one_of(head, num_heads):
        return numbers, {}
    numbers[LOSS] = held_out_loss(model, texts)
    numbers[WITHOUT] = capstone.loss_without(model, texts, layer, head)
    numbers[MEASURED] = numbers[WITHOUT] - numbers[LOSS]
    if answer.get(JOB) in capstone.JOBS:
        ids = torch.tensor(blanks, dtype=torch.long, device=texts.device)
        weights, even = capstone.job_weights(model, texts[:TEXTS, :-1], ids)
        job = capstone.JOBS.index(answer[JOB])
        numbers[WEIGHT], numbers[EVEN] = float(weights[layer, head, job]), float(even[job])
    return numbers, {}


def _is_one_of(number, count):
    return isinstance(number, int) and 0 <= number < count


# ---------------------------------------------------------------- relations


def there_is_such_a_head(d):
    inside = 0 <= d[LAYER] < d[LAYERS] and 0 <= d[HEAD] < d[HEADS]
    return inside or f"is head {d[HEAD]} of {d[HEADS]}, in layer {d[LAYER]} of {d[LAYERS]}"


def is_a_job(d):
    return d[JOB] in capstone.JOBS or f"is {d[JOB]!r}"


def has_a_name(d):
    return bool(words(d[NAME]) - ADDRESS)


def does_its_job(d):
    if is_a_job(d) is not True:
        return None
    return d[WEIGHT] > d[EVEN] or f"has {d[WEIGHT]:.3f}, and even weights have {d[EVEN]:.3f}"


def can_be_predicted(d):
    return d[LOSS] + d[PREDICTED] >= 0 or f"would be {d[LOSS] + d[PREDICTED]:.2g}"


def is_explained(d):
    one, other = d[PREDICTED], d[MEASURED]
    alike = abs(one - other) <= max(LEAST, ALIKE * max(abs(one), abs(other)))
    if alike:
        return None
    return told_in_words(d[WHY])


properties = (
    relation("place", "The head is one of the model's, counted from 0", there_is_such_a_head),
    relation("listed", "The job is one of `capstone.JOBS`", is_a_job),
    relation("name", "The head has a name in words, and not only its place", has_a_name),
    relation(
        "job", "The head's mean weight on its job is above that of even weights", does_its_job
    ),
    relation("predicted", "The loss that you predicted is not below 0", can_be_predicted),
    relation("explained", "Where the two changes differ, a reason is given", is_explained),
)

fits = {
    "heads_counted_from_one": lambda d: d[LAYER] == d[LAYERS] or d[HEAD] == d[HEADS],
    "name_is_an_address": lambda d: words(d[NAME]) and words(d[NAME]) <= ADDRESS,
    "why_is_missing": lambda d: not words(d[WHY]),
}


# ---------------------------------------------------------------- what costs nothing


def notes(d):
    if MEASURED not in d:
        return []
    said = []
    if d[PREDICTED] == d[MEASURED] and round(d[MEASURED], 2) != d[MEASURED]:
        said.append(
            "The change you predicted equals the measured one to the last digit. A prediction "
            "written down after the measurement is none."
        )
    elif d[PREDICTED] > max(5, 2 * d[LOSS]):
        said.append(
            "You predicted a change much larger than the loss. Was it meant in percent? It costs "
            "nothing."
        )
    elif d[PREDICTED] > 0.7 * d[LOSS] > 0:
        said.append(
            "You predicted a change nearly as large as the loss, or larger. Did you mean the loss "
            "itself? It costs nothing."
        )
    said.append(
        "No program can tell whether the name fits and the reason is right. `name` and `why` are "
        "for a person to read: an instructor, a friend, or you in a month."
    )
    return said
