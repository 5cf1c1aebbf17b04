"""`make matrix`: each exercise with right answers, wrong answers and its own misconceptions.

    python -m tools.matrix [--keep] [--seeds N] [LESSON or EXERCISE ...]

prints one line per answer: its points, and the misconception named. The last lines give the
largest error of a right answer, as a share of the error that is allowed, and count the answers that
are not judged as they should be; the exit status is 1 if there are any. `--keep`
stores the symptoms of misconceptions (exercises/symptoms.json), and the points in the entries of
first attempts; review the diff. Then it prints the rules that the exercise breaks (tools/rules.py)
and the answers that are not judged as they should be.
`--seeds` tries only right answers, on N seeds drawn as in grading, and prints the largest share for
each exercise. Seeds can't show that rounding refuses one right answer in a million; a share of at
most `MOST` can.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from filelock import FileLock

from whywrong import Report, check_exercise
from whywrong._catalogue import kept_symptoms
from whywrong._checker import observe
from whywrong._judging import compare, judge, symptoms_of
from whywrong._key import begin_key
from whywrong._observation import measured
from whywrong._quizzes import filled
from whywrong.hosting import AnswerKey, Exercise, catalogue, run

from . import ANSWERS, EXERCISES, rules
from .attempts import attempts, attempts_of, with_points
from .keys import cached_key

SYMPTOMS = EXERCISES / "symptoms.json"
SEED = 0
MOST = 0.3  # of an allowed error: a right answer with more may be refused on another seed
Share = tuple[float, str]  # the largest error as a share of the one that is allowed, and the case
KINDS = ("reference", "other right", "misconception", "first attempt", "not in catalogue")


@dataclass(frozen=True)
class Cell:
    """One answer to one exercise. `wanted` is "right", "wrong", or the ids of misconceptions;
    `points` are those stated for a wrong answer outside the catalogue. Right answers have different
    seeds, so that an exercise is tried on several."""

    exercise: Exercise
    answer: Any
    kind: str
    name: str
    wanted: str | tuple[str, ...]
    points: float | None = None
    seed: int = SEED

    def __str__(self) -> str:
        return f"{self.exercise.id}, {self.kind}, {self.name}"

    def report(self) -> Report:
        """Its report with the whole key, or on its own seed."""
        if self.seed != SEED:
            return self.with_seed(self.seed)
        e, key = self.exercise, cached_key(self.exercise, SEED)
        if self.kind == "misconception" and e.kind != "quiz":  # it already ran for the key
            seen = [*key.wrong[self.name].values()]
            return judge(e, at_the_desk(e), seen, catalogue().symptoms.get(e.id))
        return self._judged(at_the_desk(e) if self.kind == "first attempt" else key)

    def measured(self, seed: int | None = None) -> tuple[Report, Share]:
        """Its report, and how near the answer came to a tolerance (1, if it is beyond it)."""
        with measured() as shares:
            report = self.report() if seed is None else self.with_seed(seed)
        # A larger share belongs to results that have to differ.
        return report, max(((s, case) for s, case in shares if s <= 1), default=(0.0, ""))

    def with_seed(self, seed: int) -> Report:
        """Its report on different numbers, without naming."""
        return self._judged(begin_key(self.exercise, seed))

    def _judged(self, key: AnswerKey) -> Report:
        e = self.exercise
        if e.kind == "quiz":
            return check_exercise(e, self.answer, SEED, catalogue(), key)
        if self.kind == "reference":  # it may be its own finished part, and call what it replaces
            return judge(
                replace(e, rules=replace(e.rules, forbidden=())),
                key,
                run(e, self.answer, key.cases),
            )
        if self.wanted == "right" or key.whole or key.remembered:
            return check_exercise(e, self.answer, SEED, catalogue(), key)
        return compare(e, key.trials(observe(e, self.answer, key.cases, catalogue())), whole=True)

    def fault(self, report: Report) -> str:
        """The error in its judgement, or an empty string."""
        if not self._is_as_wanted(report):
            return f"{self} should be {self.wanted}:\n{report}"
        if self.kind in ("first attempt", "not in catalogue") and self.points != report.points:
            return f"{self} gets {report.points:g} points, not {self.points} as noted:\n{report}"
        if is_ours(self.exercise) and self.kind == "misconception" and self.exercise.kind != "quiz":
            known = on_file(SYMPTOMS).get(self.exercise.id, {}).get(self.name)
            shown = broken(self.exercise, self.name)
            if shown != known:
                return f"{self} breaks {shown}, but {known} is stored: run tools.matrix --keep"
        return ""

    def faults(self, report: Report, share: Share) -> list[str]:
        """The error in its judgement, and whether it came too near to being refused."""
        near = self.wanted == "right" and share[0] > MOST
        said = f"{self} has {share[0]:.2f} of the allowed error in the case {share[1]!r}"
        return [f for f in (self.fault(report), said * near) if f]

    def why(self, report: Report) -> str:
        """A fault in a few words."""
        if self._is_as_wanted(report):
            if self.kind == "not in catalogue":
                return f"{self.points} points are noted beside it in the lesson's `answers.py`"
            what = "symptoms" if self.kind == "misconception" else "points"
            return f"other {what} are noted; python -m tools.matrix --keep {self.exercise.id}"
        if self.wanted == "right" or report.passed:
            return f"should be {'right' if self.wanted == 'right' else 'refused'}"
        told = " and ".join(report.misconceptions) or "nothing"
        return f"should be named {' and '.join(self.wanted) or 'nothing'}, is named {told}"

    def _is_as_wanted(self, report: Report) -> bool:
        if self.wanted == "right":
            return report.passed and report.points == self.exercise.points
        refused = not report.passed and report.points < self.exercise.points
        return refused and (self.wanted == "wrong" or report.misconceptions == self.wanted)


def is_ours(exercise: Exercise) -> bool:
    """Whether the course has it, and stores results for it; an instructor's own has none."""
    return (EXERCISES / exercise.lesson).is_dir()


@cache
def at_the_desk(exercise: Exercise) -> AnswerKey:
    """A key that reveals only what an answer needs, like a student's, from the whole key."""
    whole = cached_key(exercise, SEED)
    seen = {(name, i, False): o for name, of in whole.wrong.items() for i, o in of.items()}
    return AnswerKey(whole.cases, whole.expected, remembered=seen)


@cache
def on_file(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def answers(lesson: str) -> SimpleNamespace:
    """Return the definitions in a lesson's `answers.py` and `answers_….py`. The `RIGHT` and `WRONG`
    of all files are combined: answers by exercise and name, with its points before a wrong one."""
    found: dict[str, Any] = {"RIGHT": {}, "WRONG": {}}
    for path in sorted((ANSWERS / lesson).glob("answers*.py")):
        module = vars(loaded(path))
        both = {kind: found[kind] | module.get(kind, {}) for kind in ("RIGHT", "WRONG")}
        found |= {n: v for n, v in module.items() if not n.startswith("__")} | both
    return SimpleNamespace(**found)


@cache
def loaded(path: Path) -> ModuleType:
    """Return one file of answers as a module."""
    name = ".".join(["tests.answers", *path.with_suffix("").relative_to(ANSWERS).parts])
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(exercise: Exercise) -> Iterator[Cell]:
    e, module = exercise, answers(exercise.lesson)
    right, wrong = module.RIGHT.get(e.id, {}), module.WRONG.get(e.id, {})
    if e.finished:
        yield Cell(e, e.finished, "reference", "the finished part", "right")
    reference = filled(e) if e.kind == "quiz" else e.reference
    yield Cell(e, reference, "other right", "the text's right answer", "right")
    for seed, (name, answer) in enumerate(right.items(), 1):
        yield Cell(e, answer, "other right", name, "right", seed=seed)
    for name, m in e.variants.items():
        answer = filled(e, m) if e.kind == "quiz" else m.answer
        yield Cell(e, answer, "misconception", name, (m.id,))
    for attempt in attempts(e.lesson).get(e.id, ()):
        kind = "other right" if attempt.named is None else "first attempt"
        wanted = "right" if attempt.named is None else attempt.named
        yield Cell(e, attempt.answer, kind, attempt.sentence, wanted, attempt.points)
    for name, (points, answer) in wrong.items():
        yield Cell(e, answer, "not in catalogue", name, "wrong", points)


def faults(exercise: Exercise, kind: str) -> list[str]:
    """Return the faults in how answers of one kind are judged."""
    some = [cell for cell in cells(exercise) if cell.kind == kind]
    return [fault for cell in some for fault in cell.faults(*cell.measured())]


def broken(exercise: Exercise, name: str) -> dict[str, list[int]]:
    """The properties that a misconception breaks, each with its case numbers."""
    key = cached_key(exercise, SEED)
    shown: dict[str, list[int]] = {}
    for property, i in sorted(symptoms_of(exercise, key.trials(list(key.wrong[name].values())))):
        shown.setdefault(property, []).append(i)
    return shown


# ---------------------------------------------------------------- at the command line


def chosen(names: Sequence[str]) -> list[Exercise]:
    """The named exercises, or those of the lessons whose names begin this way; by default, all.

    Raises:
        ValueError: a name is neither of these.
    """
    outline = catalogue().outline
    wanted: list[str] = []
    for name in names:
        ids = [
            one.id
            for lesson, listed in outline.items()
            for one in listed
            if one.id == name or lesson.split("/")[1].startswith(name) or lesson == name
        ]
        if not ids:
            raise ValueError(f"{name} is neither an exercise nor the beginning of a lesson's name")
        wanted += ids
    found = (catalogue().find(id) for id in wanted or catalogue().ids())
    return [e for e in dict.fromkeys(found) if e is not None]


def _print_matrix(exercises: Sequence[Exercise], only_wrong: bool = False) -> int:
    wrong, largest = 0, (0.0, "")
    for cell in (cell for e in exercises for cell in cells(e)):
        report, share = cell.measured()
        fault = cell.fault(report)
        wrong += bool(fault)
        if cell.wanted == "right":
            largest = max(largest, (share[0], f"{cell}: {share[1]}"))
        if only_wrong and not fault:
            continue
        print(
            f"{cell.exercise.id:<22} {cell.kind:<17} {cell.name[:60]:<34} "
            f"{'pass' if report.passed else 'fail'} {report.points:>5g}/{cell.exercise.points:<4g} "
            f"{'+'.join(report.misconceptions) or '-':<28} "
            f"{f'<-- WRONG: {cell.why(report)}' if fault else ''}",
            flush=True,
        )
    print(f"largest error of a right answer: {largest[0]:.2f} of the allowed one ({largest[1]})")
    print(f"{wrong} answers judged wrong")
    return bool(wrong)


def _try_seeds(exercises: Sequence[Exercise], count: int) -> int:
    refused, seeds = 0, [1 + secrets.randbits(48) for _ in range(count)]
    for e in (e for e in exercises if e.kind != "quiz"):
        largest, rights = (0.0, ""), [c for c in cells(e) if c.wanted == "right"]
        for cell, seed in ((c, s) for s in seeds for c in rights):
            report, share = cell.measured(seed)
            largest = max(largest, (share[0], f"{cell.name}, seed {seed}: {share[1]}"))
            if not report.passed:
                refused += 1
                print(f"{cell}, with seed {seed}:\n{report}", flush=True)
        print(f"{e.id:<26} {largest[0]:.2f} of the allowed error ({largest[1]})", flush=True)
    print(f"{refused} right answers refused")
    return bool(refused)


def _keep(exercises: Sequence[Exercise]) -> int:
    shown: dict[str, dict[str, Any]] = {}
    ours = [e for e in exercises if is_ours(e)]
    for e in ours:
        if e.kind != "quiz":
            shown[e.id] = {name: broken(e, name) for name in e.variants}
        points = [c.report().points for c in cells(e) if c.kind == "first attempt"]
        if points:
            path = attempts_of(e.lesson)
            path.write_text(with_points(path.read_text(encoding="utf-8"), e.id, points), "utf-8")
    known = catalogue().ids()
    with FileLock(EXERCISES / ".kept.lock"):
        on_file.cache_clear()
        every = on_file(SYMPTOMS) | shown
        SYMPTOMS.write_text(_in_lines({id: every[id] for id in sorted(every) if id in known}))
    on_file.cache_clear()
    attempts.cache_clear()
    vars(catalogue())["symptoms"] = kept_symptoms(SYMPTOMS)
    print(f"stored: {', '.join(e.id for e in ours) or 'nothing, the course has no such exercise'}")
    broken_rules = [f"{e.id}: {said}" for e in ours for said in rules_broken(e)]
    print("\n".join(broken_rules), end="\n" * bool(broken_rules))
    return _print_matrix(exercises, only_wrong=True) or bool(broken_rules)


def rules_broken(exercise: Exercise) -> list[str]:
    """The rules for exercises of the course that this one breaks, in words."""
    kinds = [cell.kind for cell in cells(exercise)]
    return [*rules.broken(exercise, kinds, list(catalogue()))]


def _in_lines(found: dict[str, dict[str, Any]]) -> str:
    """JSON with one line per answer, so that each change is a separate line in a diff."""
    blocks = [
        f" {json.dumps(id)}: {{"
        + ",".join(f"\n  {json.dumps(n)}: {json.dumps(b)}" for n, b in of_one.items())
        + "\n }"
        for id, of_one in found.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.matrix")
    parser.add_argument("names", nargs="*", metavar="LESSON or EXERCISE")
    parser.add_argument("--keep", action="store_true", help="store symptoms and points")
    parser.add_argument("--seeds", type=int, metavar="N", help="only right answers, on N seeds")
    parsed = parser.parse_args(arguments)
    try:
        exercises = chosen(parsed.names)
        for lesson in {e.lesson for e in exercises}:
            attempts(lesson)
    except ValueError as error:  # also a fault in a text
        print(error, file=sys.stderr)
        return 2
    os.environ.setdefault("COURSE_CHECK_SECONDS", "60")  # allows for busy machines
    torch.set_num_threads(1)  # at these sizes, a second thread waits more than it helps
    if parsed.keep:
        return _keep(exercises)
    return _try_seeds(exercises, parsed.seeds) if parsed.seeds else _print_matrix(exercises)


if __name__ == "__main__":
    sys.exit(main())
