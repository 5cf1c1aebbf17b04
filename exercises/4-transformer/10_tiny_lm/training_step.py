"""How an answer to `training_step` is judged."""

from dataclasses import replace

import torch

from exercises.shared.training import (
    STEP_PROPERTIES,
    STEP_TOLERANCE,
    expect_steps,
    moved_weights,
    right_loss,
    right_step,
    see_steps,
    step_cases,
)
from whywrong import near, true_of


def cases(seed):
    """Also a model that takes one token less than it is given: the last one is only predicted."""
    plain, *others = step_cases(seed)
    options = {**plain.options, "most": plain["ids"].shape[1] - 1}
    full = replace(plain, name="as many as fit, and one", options=options)
    return [plain, *others, replace(full, roles=frozenset({"stability"}))]


probe = see_steps
expect = expect_steps
tolerance = STEP_TOLERANCE


@true_of("The weights move downhill", credit=True, role="plain")
def moves(case, observed, expected):
    """Along the right step, at least roughly."""
    mine, right = (moved_weights(case, tensors) for tensors in (observed.tensors, expected))
    return bool(torch.cosine_similarity(mine, right, dim=0) > 0.3)


@true_of("Gradients that are left from before have no effect", credit=True, role="left")
def clears(case, observed, expected):
    mine = observed.tensors.get("judged:gradients")
    if mine is None:  # the optimizer was never asked
        return right_step(case, observed, expected) or None
    return near(mine, observed.tensors["judged:clean start"], 1e-3) if bool(mine.any()) else None


@true_of("Long gradients are cut to `max_norm`", credit=True, role="long")
def clips(case, observed, expected):
    mine, most = observed.tensors.get("judged:gradients"), case.inputs.get("max_norm", 1.0)
    if mine is None:
        return as_long(case, observed, expected) or None
    length = float(mine.norm()) / most
    if not length:
        return None
    if length < 0.999:  # gradients may be that short, and those of another loss
        return as_long(case, observed, expected) if right_loss(case, observed, expected) else None
    return length <= 1.001


def as_long(case, observed, expected):
    mine, right = (moved_weights(case, tensors).norm() for tensors in (observed.tensors, expected))
    return near(mine, right, 1e-3)


@true_of("Where gradients are short the step is right", credit=True, role="plain")
def plain(case, observed, expected):
    return right_step(case, observed, expected)


@true_of(
    "A model that comes in evaluation mode is trained in training mode",
    credit=True,
    role="evaluation",
)
def mode(case, observed, expected):
    moved = moved_weights(case, observed.tensors)
    if near(moved, torch.zeros_like(moved)):
        return None
    return bool(observed.tensors["judged:in training"])


properties = (moves, clears, clips, plain, mode, *STEP_PROPERTIES)

letters = {"sizes": "V C"}
