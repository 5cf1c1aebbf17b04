"""Properties that are told from a trait of what was seen."""

from __future__ import annotations

from collections.abc import Callable

from whywrong import Case, Observation
from whywrong.exercise import Expected, Verdict


def trait(name: str) -> Callable[..., Verdict]:
    """What a probe noted under this name; None where it noted nothing."""

    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return seen.traits.get(name)

    return holds
