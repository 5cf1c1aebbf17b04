"""The matrix: each exercise against its reference, other right answers and wrong ones.

    python -m tests.matrix [EXERCISE ...]

prints a line an answer and ends with the number of cells that are not as they should be, which is
also the exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course_utils.checking import Exercise, Report, check_exercise, judge
from course_utils.checking.probing import run
from course_utils.exercises import by_lesson

from .answers import RIGHT, WRONG


@dataclass(frozen=True)
class Cell:
    """One answer to one exercise. `wanted` is "right", "wrong", or a misconception's id."""

    exercise: Exercise
    answer: Any
    kind: str
    name: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.exercise.id}-{self.kind}-{self.name}"

    def report(self, seed: int = 0) -> Report:
        if self.kind == "reference" and self.exercise.kind != "quiz":
            # As an answer it would be refused: it is the course's own.
            cases = self.exercise.cases(seed)
            return judge(self.exercise, cases, run(self.exercise, self.answer, cases))
        return check_exercise(self.exercise, self.answer, seed)

    def is_as_wanted(self, report: Report) -> bool:
        if self.wanted == "right":
            return report.passed and report.points == self.exercise.points
        refused = not report.passed and report.points < self.exercise.points
        if self.wanted == "wrong":
            return refused
        return refused and report.misconception == self.wanted


SEEDS = (0, 20_261_121)


def cells(assignment: str = "") -> Iterator[Cell]:
    """The cells of one assignment, or all."""
    for lesson, exercises in by_lesson().items():
        if not lesson.startswith(assignment):
            continue
        for e in exercises:
            yield Cell(e, e.reference, "reference", e.id, "right")
            for name, answer in RIGHT[e.id].items():
                yield Cell(e, answer, "other right", name, "right")
            for m in e.misconceptions:
                yield Cell(e, m.answer, "misconception", m.id, m.id)
            for name, answer in WRONG[e.id].items():
                yield Cell(e, answer, "not in catalogue", name, "wrong")


def main(names: list[str]) -> int:
    bad = 0
    for cell in cells():
        if names and cell.exercise.id not in names:
            continue
        report = cell.report()
        said = "pass" if report.passed else "fail"
        named = report.misconception or "-"
        good = cell.is_as_wanted(report)
        bad += not good
        print(
            f"{cell.exercise.id:<22} {cell.kind:<17} {cell.name:<34} {said:<5} "
            f"{report.points:>4g}/{report.max_points:<4g} {named:<28} {'' if good else '<-- WRONG'}"
        )
    print(f"{bad} cells wrong")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
