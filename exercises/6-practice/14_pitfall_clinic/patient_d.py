"""How an answer to `patient_d` is judged."""

import torch

from exercises.shared.training import (
    STEP_PROPERTIES,
    STEP_TOLERANCE,
    expect_steps,
    moved_weights,
    see_steps,
    step_cases,
)
from whywrong import near, true_of

cases = step_cases
probe = see_steps
expect = expect_steps
tolerance = STEP_TOLERANCE


@true_of(
    "The step follows the loss of the next token",
    credit=True,
    role="plain",
    breaks="The step doesn't follow the loss of the next token",
)
def along(case, observed, expected):
    mine, right = (moved_weights(case, tensors) for tensors in (observed.tensors, expected))
    return bool(torch.cosine_similarity(mine, right, dim=0) > 0.97)


@true_of(
    "Gradients that are left from before have no effect",
    credit=True,
    role="left",
    breaks="Gradients that are left from before have an effect on the step",
)
def clears(case, observed, expected):
    return near(observed.tensors["judged:gradients"], observed.tensors["judged:clean start"], 1e-3)


@true_of(
    "Long gradients are cut to `max_norm` before the step uses them",
    credit=True,
    role="long",
    breaks="The step uses gradients that are longer than `max_norm`",
)
def clips(case, observed, expected):
    length = observed.tensors["judged:gradients"].norm()
    return bool(length <= 1.001 * case.inputs.get("max_norm", 1.0))


properties = (along, clears, clips, *STEP_PROPERTIES)
