"""The answer key of an exercise and a seed: cases, right results, results of misconceptions.

The matrix computes the whole key once. For a check, `naming.search` runs only what may explain the
answer; the key caches what it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._errors import describe_error
from ._exercise import Case, Exercise, Expected, Trial
from ._guard import undisturbed
from ._observation import Observation

Wrong = dict[str, dict[int, Observation]]  # by misconception and case number


@dataclass
class AnswerKey:
    """The reference data that answers are compared with.

    Attributes:
        cases: the inputs.
        expected: the right tensors, case by case.
        wrong: the observations of each misconception, by its name and the number of the case; a
            pair is stored under both names joined by `+`.
        whole: whether `wrong` contains every misconception on every case.
        remembered: what earlier searches observed, by misconception, case number, and whether
            the observation was only a glance.
    """

    cases: list[Case]
    expected: list[Expected]
    wrong: Wrong = field(default_factory=dict)
    whole: bool = False
    remembered: dict[tuple[str, int, bool], Observation] = field(default_factory=dict)

    def trials(self, observations: Sequence[Observation]) -> list[Trial]:
        """Observations together with their cases and the right results."""
        return [Trial(*t) for t in zip(self.cases, observations, self.expected, strict=False)]


def begin_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The cases and the right results; no misconceptions yet."""
    with undisturbed():
        cases = exercise.cases(seed)
        _check_roles(exercise, cases)
        expected: list[Expected] = [
            {} if exercise.kind == "quiz" else exercise.expect(c) for c in cases
        ]
    return AnswerKey(cases, expected)


def make_key(exercise: Exercise, seed: int) -> AnswerKey:
    """Returns the complete key, without pairs of mistakes, for which `search` looks."""
    key = begin_key(exercise, seed)
    key.whole = True
    if exercise.kind == "quiz":
        return key
    with undisturbed():
        for name, m in exercise.variants.items():
            key.wrong[name] = {
                i: probe_safely(exercise.probe, m.answer, c) for i, c in enumerate(key.cases)
            }
    return key


def probe_safely(probe: Any, answer: Any, case: Case) -> Observation:
    try:
        observed: Observation = probe(answer, case)
    except Exception as error:
        return Observation(facts={"error": describe_error(error)})
    return observed


def _check_roles(exercise: Exercise, cases: Sequence[Case]) -> None:
    """Refuses a property whose role no case has: it would never be judged."""
    present = {role for c in cases for role in c.roles}
    lost = [p.id for p in exercise.properties if p.role and p.role not in present]
    if lost:
        raise ValueError(f"{exercise.id}: no case has the role that {', '.join(lost)} needs")
