"""Properties that are judged from a trait of an observation."""

from __future__ import annotations

from collections.abc import Callable

from whywrong import Case, Observation
from whywrong.probing import Expected, Verdict


def trait(name: str) -> Callable[..., Verdict]:
    """The trait that a probe recorded under this name, or None."""

    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        return observed.traits.get(name)

    return holds
