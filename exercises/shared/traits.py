"""Properties that are judged from a trait of an observation."""

from __future__ import annotations

from collections.abc import Callable

import torch

from whywrong import Case, Observation
from whywrong.exercise import Expected, Verdict


def trait(name: str) -> Callable[..., Verdict]:
    """The trait that a probe recorded under this name, or None."""

    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return seen.traits.get(name)

    return holds


def see_without_gradients(call: Callable[[], object], case: Case, seen: Observation) -> None:
    """One call with gradients switched off by the caller: they must stay off afterwards."""
    if "typical" not in case.roles:
        return
    with torch.no_grad():
        call()
        switched_on = torch.is_grad_enabled()
    if switched_on:
        seen.facts.setdefault("left_behind", []).append("gradient mode")
