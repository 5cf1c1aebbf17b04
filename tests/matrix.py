"""The matrix: each exercise against its reference, other right answers and wrong ones.

    python -m tests.matrix [--keep] [LESSON or EXERCISE ...]

prints a line an answer, with the points that it gets and those that are kept for it in
matrix_points.json, and ends with the number of cells that are not as they should be, which is
also the exit status. `--keep` keeps the points as they are now: look at the difference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from course_utils.checking import Exercise, Report, check_exercise, judge, kept_key
from course_utils.checking.guard import run
from course_utils.checking.quizzes import filled
from course_utils.desk import catalogue

from .answers import RIGHT, WRONG

POINTS = Path(__file__).with_name("matrix_points.json")


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
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a second one waits more than it helps with sizes like these
        try:
            return self._report(seed)
        finally:
            torch.set_num_threads(threads)

    def _report(self, seed: int) -> Report:
        e = self.exercise
        if self.kind == "reference" and e.kind != "quiz":
            # As an answer it would be refused: it is the course's own.
            key = kept_key(e, seed)
            return judge(e, key, run(e, self.answer, key.cases))
        return check_exercise(e, self.answer, seed, catalogue())

    def fault(self, report: Report) -> str:
        """What is not as it should be, or nothing: what is named, and the points that are kept."""
        if not self.is_as_wanted(report):
            return f"{self} should be {self.wanted}:\n{report}"
        if self.kept_points is not None and report.points != self.kept_points:
            return f"{self} gets {report.points:g}, and {self.kept_points} are kept:\n{report}"
        return ""

    def is_as_wanted(self, report: Report) -> bool:
        if self.wanted == "right":
            return report.passed and report.points == self.exercise.points
        refused = not report.passed and report.points < self.exercise.points
        if self.wanted == "wrong":
            return refused
        return refused and report.misconceptions == (self.wanted,)

    @property
    def kept_points(self) -> float | None:
        """What this answer should get: all, or what is kept for it."""
        if self.wanted == "right":
            return self.exercise.points
        return kept_points().get(self.exercise.id, {}).get(f"{self.kind}: {self.name}")


SEEDS = (0, 20_261_121)


@cache
def kept_points() -> dict[str, dict[str, float]]:
    return json.loads(POINTS.read_text()) if POINTS.exists() else {}


def cells(part: str = "") -> Iterator[Cell]:
    """The cells of one assignment or lesson (by the beginning of `assignment/notebook`), or all."""
    for lesson, exercises in catalogue().by_lesson.items():
        for e in exercises if lesson.startswith(part) else ():
            yield Cell(e, e.reference, "reference", e.id, "right")
            for name, answer in RIGHT.get(e.id, {}).items():
                yield Cell(e, answer, "other right", name, "right")
            for name, m in e.variants.items():
                answer = filled(e, m) if e.kind == "quiz" else m.answer
                yield Cell(e, answer, "misconception", name, m.id)
            for name, answer in WRONG.get(e.id, {}).items():
                yield Cell(e, answer, "not in catalogue", name, "wrong")


def main(arguments: list[str]) -> int:
    keep = "--keep" in arguments
    names = [a for a in arguments if a != "--keep"]
    bad, points, looked_at = 0, kept_points(), set()
    for cell in cells():
        e = cell.exercise
        if names and e.id not in names and not any(n in e.lesson for n in names):
            continue
        report, kept = cell.report(), cell.kept_points
        if keep and cell.wanted != "right":
            points.setdefault(e.id, {})[f"{cell.kind}: {cell.name}"] = kept = report.points
        good = not cell.fault(report)
        bad += not good
        said, named = "pass" if report.passed else "fail", "+".join(report.misconceptions) or "-"
        was = "new" if kept is None else f"{kept:g}"
        print(
            f"{e.id:<22} {cell.kind:<17} {cell.name:<34} {said:<5} "
            f"{report.points:>4g}/{e.points:<4g} kept {was:<5} {named:<28} "
            f"{'' if good else '<-- WRONG'}",
            flush=True,
        )
        looked_at.add(e.id)
    if keep:
        _keep({id: points[id] for id in looked_at if id in points})
    print(f"{bad} cells wrong")
    return min(bad, 100)


def _keep(points: dict[str, dict[str, float]]) -> None:
    """Writes the points of these exercises beside those of others, for cells that are there."""
    kept_points.cache_clear()
    there = {(c.exercise.id, f"{c.kind}: {c.name}") for c in cells()}
    kept = {
        id: {name: p for name, p in row.items() if (id, name) in there}
        for id, row in (kept_points() | points).items()
    }
    POINTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
