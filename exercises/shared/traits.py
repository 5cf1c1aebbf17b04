"""Properties that are judged from a trait of an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Observation, Property, same
from whywrong.probing import Expected, Verdict


def trait(name: str) -> Callable[..., Verdict]:
    """The trait that a probe recorded under this name, or None."""

    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        return observed.traits.get(name)

    return holds


def fate_of(model: Any, training: bool, numbers: Mapping[str, Tensor]) -> dict[str, bool]:
    """Whether a model has this mode and these numbers, can still be trained, and was never called
    with gradients recorded."""
    now = model.state_dict()
    return {
        "mode": all(part.training == training for part in model.modules()),
        "quiet": not model.recorded,
        "kept": all(same(now.get(n), v) for n, v in numbers.items())
        and all(p.requires_grad and p.grad is None for p in model.parameters()),
    }


MODE_AND_QUIET = (
    Property(
        "mode",
        "The model is left in its original mode",
        trait("mode"),
        secondary=True,
        breaks="The model is not left in its original mode",
    ),
    Property(
        "quiet",
        "No call is recorded for gradients",
        trait("quiet"),
        secondary=True,
        breaks="The model was called with gradients recorded",
    ),
)


def see_without_gradients(call: Callable[[], object], case: Case, observed: Observation) -> None:
    """One call with gradients switched off by the caller: they must stay off afterwards."""
    if "typical" not in case.roles:
        return
    with torch.no_grad():
        call()
        switched_on = torch.is_grad_enabled()
    if switched_on:
        observed.facts.setdefault("left_behind", []).append("gradient mode")
