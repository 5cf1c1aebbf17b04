"""The matrix: each exercise against its reference, other right answers and wrong ones.

    python -m tests.matrix [--keep | --seeds N] [LESSON or EXERCISE ...]

prints a line an answer, with the points that it gets and those that are kept for it in
matrix_points.json, and ends with the number of cells that are not as they should be, which is
also the exit status. `--keep` keeps the points as they are now, and the symptoms of misconceptions
in course_utils/exercises/symptoms.json: look at the difference. `--seeds` tries right answers
alone, on N seeds drawn as grading draws them: a fixed seed does not tell where rounding refuses one
in a hundred.

That is the first seed. Tests try it on every exercise. On a third of the exercises a day they try
a second seed, and which points wrong answers in no catalogue get; on the others only that each of
these is refused: see tests/turns.py.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from course_utils.checking import (
    AnswerKey,
    Exercise,
    Report,
    check_exercise,
    judge,
    make_key,
)
from course_utils.checking.answers import names_called
from course_utils.checking.checker import observe
from course_utils.checking.guard import run
from course_utils.checking.key import begin_key
from course_utils.checking.naming import symptoms
from course_utils.checking.observation import Observation
from course_utils.checking.quizzes import filled
from course_utils.desk import catalogue
from course_utils.exercises import COURSE, SYMPTOMS

from .answers import RIGHT, WRONG
from .turns import whose_turn

ANY = "any"  # for an answer whose points hang on what the machine does
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

    def report(self, seed: int = 0, whole: bool = True) -> Report:
        """What the answer gets; with the first seed from all cases and with names, if `whole`.

        Else only misconceptions are named, and what one of the cases refuses is refused.
        """
        whole = whole and seed == FIRST
        e, key = self.exercise, whole_key(self.exercise, seed)
        if self.kind == "misconception" and e.kind != "quiz":  # it was run for the key already
            return judge(e, key, list(key.wrong[self.name].values()))
        if not whole:
            key = replace(key, wrong={})
        if self.kind == "reference" and e.kind != "quiz":
            return judge(e, key, run(e, self.answer, key.cases))  # its own, so not to be borrowed
        if not whole and self.wanted == "wrong" and e.kind != "quiz" and not self.earlier_parts:
            for case, expected in zip(key.cases, key.expected, strict=True):
                one = AnswerKey([case], [expected], whole=True)
                report = judge(e, one, observe(e, self.answer, one.cases, catalogue()))
                if any(behaviour.holds is False for behaviour in report.behaviours):
                    return report
        return check_exercise(e, self.answer, seed, catalogue(), key)

    def seen(self) -> list[Observation]:
        """What its probe sees with the first seed."""
        e, key = self.exercise, whole_key(self.exercise, FIRST)
        if self.kind == "misconception" and e.kind != "quiz":  # it was run for the key already
            return list(key.wrong[self.name].values())
        return observed(self)

    def fault(self, report: Report, seed: int = 0, whole: bool = True) -> str:
        """What is not as it should be, or nothing: what is named, and in a whole report points and
        symptoms, as they are kept of the first seed."""
        whole = whole and seed == FIRST
        if not self.is_as_wanted(report):
            return f"{self} should be {self.wanted}:\n{report}"
        if whole and self.kept_points not in (report.points, ANY):
            return f"{self} gets {report.points:g}, and {self.kept_points} are kept:\n{report}"
        e = self.exercise
        of_the_course = e.kind != "quiz" and COURSE.find(e.id)
        if whole and self.kind == "misconception" and of_the_course:
            shown, kept = broken(e, self.name), kept_symptoms().get(e.id, {}).get(self.name)
            if shown != kept:
                return f"{self} breaks {shown}, and {kept} is kept: run tests.matrix --keep"
        return ""

    def is_as_wanted(self, report: Report) -> bool:
        if self.wanted == "right":
            return report.passed and report.points == self.exercise.points
        refused = not report.passed and report.points < self.exercise.points
        if self.wanted == "wrong":
            return refused
        return refused and report.misconceptions == (self.wanted,)

    @property
    def earlier_parts(self) -> dict[str, Any]:
        """What it may be tried with in place of its own."""
        return catalogue().earlier_parts(self.exercise, names_called(self.answer))

    @property
    def kept_points(self) -> float | str | None:
        """What this answer should get: all, what is kept for it, or `ANY`."""
        if self.wanted == "right":
            return self.exercise.points
        return kept_points().get(self.exercise.id, {}).get(f"{self.kind}: {self.name}")


FIRST, SECOND = SEEDS = (0, 20_261_121)
_keys: dict[tuple[str, int], tuple[Exercise, AnswerKey]] = {}


def whole_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The key of an exercise, made once: other properties leave it as it is."""
    made_for, key = _keys.get((exercise.id, seed), (None, None))
    if key is None or made_for.probe is not exercise.probe:
        key = make_key(exercise, seed)
        _keys[exercise.id, seed] = exercise, key
    return key


@cache
def observed(cell: Cell) -> list[Observation]:
    key = whole_key(cell.exercise, FIRST)
    return observe(cell.exercise, cell.answer, key.cases, catalogue())


@cache
def kept_points() -> dict[str, dict[str, float | str]]:
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


@cache
def kept_symptoms() -> dict[str, dict[str, dict[str, list[int]]]]:
    return json.loads(SYMPTOMS.read_text()) if SYMPTOMS.exists() else {}


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)  # a second one waits more than it helps with sizes like these
    if arguments[:1] == ["--seeds"]:
        return _try_seeds(int(arguments[1]), list(_chosen(arguments[2:])))
    keep = "--keep" in arguments
    bad, points, looked_at = 0, kept_points(), set()
    for cell in _chosen([a for a in arguments if a != "--keep"]):
        e = cell.exercise
        report, kept = cell.report(), cell.kept_points
        if keep and cell.wanted != "right" and kept != ANY:
            points.setdefault(e.id, {})[f"{cell.kind}: {cell.name}"] = kept = report.points
        good = not cell.fault(report)
        bad += not good
        said, named = "pass" if report.passed else "fail", "+".join(report.misconceptions) or "-"
        was = "new" if kept is None else str(kept)
        print(
            f"{e.id:<22} {cell.kind:<17} {cell.name:<34} {said:<5} "
            f"{report.points:>4g}/{e.points:<4g} kept {was:<5} {named:<28} "
            f"{'' if good else '<-- WRONG'}",
            flush=True,
        )
        looked_at.add(e.id)
    if keep:
        _keep(points, looked_at)
    print(f"{bad} cells wrong")
    return min(bad, 100)


def _chosen(names: list[str]) -> Iterator[Cell]:
    for cell in cells():
        e = cell.exercise
        if not names or e.id in names or any(n in e.lesson for n in names):
            yield cell


def _try_seeds(count: int, some: list[Cell]) -> int:
    refused = 0
    for _ in range(count):
        seed = 1 + secrets.randbits(48)
        for cell in some:
            e = cell.exercise
            if cell.wanted != "right" or e.kind == "quiz":
                continue
            key = begin_key(e, seed)
            if cell.kind == "reference":  # its own, so not to be borrowed
                seen = run(e, cell.answer, key.cases)
            else:
                seen = observe(e, cell.answer, key.cases, catalogue())
            report = judge(e, key, seen)
            if not report.passed:
                refused += 1
                print(f"{cell} with seed {seed}:\n{report}", flush=True)
    print(f"{refused} right answers refused")
    return min(refused, 100)


def _keep(points: dict[str, dict[str, float | str]], looked_at: set[str]) -> None:
    """Writes points and symptoms of these exercises beside those of others that are there."""
    kept_points.cache_clear()
    there = {(c.exercise.id, f"{c.kind}: {c.name}") for c in cells()}
    kept = {
        id: {name: p for name, p in row.items() if (id, name) in there}
        for id, row in (
            kept_points() | {id: points[id] for id in looked_at if id in points}
        ).items()
    }
    POINTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    kept_symptoms.cache_clear()
    known = kept_symptoms()
    for e in COURSE:
        if e.id in looked_at and e.kind != "quiz":
            known[e.id] = {name: broken(e, name) for name in e.variants}
    lines = [
        f" {json.dumps(id)}: {{\n"
        + ",\n".join(f"  {json.dumps(n)}: {json.dumps(b)}" for n, b in known[id].items())
        + "\n }"
        for id in sorted(known)
        if COURSE.find(id)
    ]
    SYMPTOMS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def broken(exercise: Exercise, name: str) -> dict[str, list[int]]:
    """The properties that a misconception breaks, each with the numbers of the cases."""
    key = whole_key(exercise, 0)
    shown: dict[str, list[int]] = {}
    for property, i in sorted(symptoms(exercise, key.trials(list(key.wrong[name].values())))):
        shown.setdefault(property, []).append(i)
    return shown


def with_second_seed() -> set[str]:
    """The exercises whose turn it is with the second seed; a day's share is a third of the work."""
    return {e.id for e in whose_turn(sorted(catalogue(), key=lambda e: len(e.misconceptions)))}


def without(exercise: Exercise, gate: str) -> Exercise:
    """The exercise with this property as one among others."""
    open_ = [replace(p, gate=False) if p.id == gate else p for p in exercise.properties]
    return replace(exercise, properties=tuple(open_))


def decides(exercise: Exercise, gate: str) -> bool:
    """Whether some answer gets points as soon as this property is no gate."""
    opened, key = without(exercise, gate), whole_key(exercise, FIRST)
    return any(
        judge(opened, replace(key, wrong={}), cell.seen()).points
        for cell in cells(exercise.lesson)
        if cell.exercise is exercise and cell.wanted != "right" and cell.kept_points == 0
    )


def tests_of(part: str) -> tuple[type, type]:
    """The tests of one assignment's or lesson's cells, and of its gates, which use the same keys; a
    file each, for `--dist loadfile`."""
    some = list(cells(part))
    turn = with_second_seed()
    seeded = [
        pytest.param(cell, seed, id=f"{cell}-{seed}")
        for seed in SEEDS
        for cell in some
        if seed == FIRST or cell.exercise.id in turn
    ]
    exercises = {cell.exercise.id: cell.exercise for cell in some}
    gated = [
        pytest.param(e, p.id, id=f"{e.id}-{p.id}")
        for e in exercises.values()
        for p in e.properties
        if p.gate
    ]

    class TestMatrix:
        @pytest.mark.parametrize(("cell", "seed"), seeded)
        def test_no_cell_is_wrong(self, cell: Cell, seed: int) -> None:
            whole = cell.kind != "not in catalogue" or cell.exercise.id in turn
            fault = cell.fault(cell.report(seed, whole), seed, whole)
            assert not fault, fault

    class TestGates:
        @pytest.mark.parametrize(("exercise", "gate"), gated)
        def test_without_a_gate_some_answer_gets_points(
            self, exercise: Exercise, gate: str
        ) -> None:
            assert decides(exercise, gate), f"the gate {gate} decides nothing"

    return TestMatrix, TestGates


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
