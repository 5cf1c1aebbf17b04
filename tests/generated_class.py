"""A class of any size, written directly into a course folder's submitted/, reproducible by seed.

The right points of each student are known: right answers come from solutions/ and the exercises'
texts, wrong answers are the misconceptions, each as a program that a student could submit.
"""

from __future__ import annotations

import copy
import random
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.utils import is_grade
from traitlets.config import PyFileConfigLoader

from tools import NOTEBOOKS, SOLUTIONS
from tools import ROOT as COURSE
from tools.matrix import Cell, cells
from whywrong.hosting import Misconception, catalogue
from whywrong_nbgrader.cells import checked_exercise

from .nbgrader_class import is_needed, right_answer

DUE, IN_TIME, LATE = (f"2026-10-{day} 12:00:00.000000 UTC" for day in (10, 9, 11))
PENALTY = 0.5  # for each late notebook
CONFIG = f"""
from nbgrader.plugins import LateSubmissionPlugin


class HalfAPoint(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return {PENALTY}


c.AssignLatePenalties.plugin_class = HalfAPoint
"""


# ---------------------------------------------------------------- a course folder


def make_course(folder: Path, assignment: str) -> Path:
    """A course folder in which the assignment is released and due, with a late penalty."""
    folder.mkdir(parents=True, exist_ok=True)
    config = (COURSE / "nbgrader_config.py").read_text(encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(config + CONFIG, encoding="utf-8")
    shutil.copytree(SOLUTIONS / assignment, folder / "solutions" / assignment)
    loaded = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    loaded.CourseDirectory.root = str(folder)
    api = NbGraderAPI(config=loaded)
    api.log.setLevel("ERROR")
    done = api.generate_assignment(assignment)
    assert done["success"], done
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
        gradebook.update_or_create_assignment(assignment, duedate=DUE)
    return folder


# ---------------------------------------------------------------- answers in a student's form


@dataclass(frozen=True)
class Answer:
    """The text of a cell."""

    text: str
    points: float  # that it should get
    name: str = ""
    misconception: str = ""  # the id that should be named, or nothing


def _literal(answer: dict[str, Any]) -> str:
    return "{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in answer.items()) + "}"


def _as_text(cell: Cell, misconception: Misconception | None) -> str:
    """A notebook cell with this answer and the imports of its program."""
    exercise = cell.exercise
    if exercise.kind == "quiz":
        return f"{exercise.id} = {_literal(cell.answer)}"
    program = misconception.program if misconception else exercise.right
    assert program is not None
    return f"{program.names.source}\n{program.text}"


@cache
def answers(exercise: str) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    """Right answers to an exercise, the lesson's own first, and its misconceptions."""
    known = catalogue().find(exercise)
    assert known is not None
    solution = right_answer(known.lesson.partition("/")[2], exercise)
    right = [Answer(solution, known.points, "solution")]
    if known.other_way:
        other = f"{known.right.names.source}\n{known.other_way}"
        right.append(Answer(other, known.points, "other"))
    wrong = []
    for cell in cells(known):
        if cell.kind == "misconception":
            m = known.variants[cell.name]
            text = _as_text(cell, m)
            wrong.append(Answer(text, cell.report().points, cell.name, m.id))
    return tuple(right), tuple(wrong)


# ---------------------------------------------------------------- students


@dataclass
class Student:
    """One student's submission and its expected results."""

    name: str
    kind: str
    # Of each exercise by notebook, if known; none for a missing notebook.
    points: dict[str, dict[str, float]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)  # misconceptions to be named, by exercise
    late: float = 0.0  # the penalty

    @property
    def score(self) -> float:
        return max(sum(sum(p.values()) for p in self.points.values()) - self.late, 0.0)


ENDLESS = "\n\ndef {0}(*arguments, **named):\n    while True:\n        pass"
DEADLY = "import os\n\n\ndef {0}(*arguments, **named):\n    os._exit(1)"
ENDS_BY_ITSELF = "import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)"

# A class begins with one of each kind; after that, these numbers are relative frequencies.
KINDS = {"right": 6, "other-right": 4, "wrong": 8, "same-text": 2, "late": 2, "empty": 1}
KINDS |= {"not-attempted": 2, "unreadable": 1, "missing": 1, "deadly": 1, "endless": 1}
SLOW = ("endless",)  # each uses up the time limit of an answer


class Generator:
    """Creates students of one assignment; `short`: without demonstrations between exercises."""

    def __init__(self, assignment: str, seed: int = 0, short: bool = False) -> None:
        self.assignment, self.draw = assignment, random.Random(f"{assignment} {seed}")
        self.released = {
            path.stem: nbformat.read(path, as_version=4)
            for path in sorted((NOTEBOOKS / assignment).glob("*.ipynb"))
        }
        if short:
            for notebook in self.released.values():
                notebook.cells = [c for c in notebook.cells if is_needed(c)]
        self.exercises = {
            name: [id for c in notebook.cells if is_grade(c) and (id := checked_exercise(c))]
            for name, notebook in self.released.items()
        }
        self.made: list[dict[str, dict[str, Answer]]] = []

    def choose(self, kind: str) -> dict[str, dict[str, Answer]]:
        """An answer to each exercise."""
        if kind == "same-text" and self.made:
            return self.draw.choice(self.made)
        chosen = {
            n: {id: self._answer(kind, id) for id in ids} for n, ids in self.exercises.items()
        }
        for given in chosen.values():
            _one_fault_at_a_time(given)
        if kind in ("other-right", "wrong"):
            self.made.append(chosen)
        if kind in ("endless", "deadly"):
            name = self.draw.choice([n for n, ids in self.exercises.items() if ids])
            id = self.draw.choice([i for i in chosen[name] if catalogue().find(i).kind != "quiz"])
            texts = [ENDLESS] if kind == "endless" else [DEADLY, ENDS_BY_ITSELF]
            chosen[name][id] = Answer(self.draw.choice(texts).format(id).strip(), 0.0)
        return chosen

    def _answer(self, kind: str, exercise: str) -> Answer:
        right, wrong = answers(exercise)
        if kind == "wrong" and wrong and self.draw.random() < 0.6:
            named = [a for a in wrong if a.misconception]
            return self.draw.choice(named if named and self.draw.random() < 0.5 else wrong)
        return self.draw.choice(right) if kind in ("other-right", "wrong") else right[0]

    def write(self, name: str, kind: str, folder: Path) -> Student:
        """One student's submission."""
        folder.mkdir(parents=True)
        student = Student(name, kind)
        chosen = self.choose(kind)
        for notebook, released in self.released.items():
            filled_in = copy.deepcopy(released)
            nothing = dict.fromkeys(self.exercises[notebook], 0.0)
            if kind == "not-attempted":
                student.points[notebook] = nothing
            elif kind == "empty":
                filled_in.cells, student.points[notebook] = [], nothing
            else:
                _fill_in(filled_in, chosen[notebook])
                given = chosen[notebook]
                student.points[notebook] = {id: a.points for id, a in given.items()}
                student.named |= {id: a.misconception for id, a in given.items() if a.misconception}
            text = nbformat.writes(filled_in)
            if kind in ("unreadable", "missing") and notebook == max(self.released):
                if kind == "missing":
                    del student.points[notebook]
                    continue
                text, student.points[notebook] = text[:40], nothing  # no cell is whole
            (folder / f"{notebook}.ipynb").write_text(text, encoding="utf-8")
        stamp = LATE if kind == "late" else IN_TIME
        (folder / "timestamp.txt").write_text(stamp, encoding="utf-8")
        student.late = PENALTY * len(student.points) if kind == "late" else 0.0
        return student


def _one_fault_at_a_time(given: dict[str, Answer]) -> None:
    """If a wrong answer calls another one, their combined result can't be predicted."""
    wrong = {id for id, a in given.items() if a.points < _points(id)}
    for id in list(given):
        called = set(re.findall(r"\w+", given[id].text)) - {id}
        if id in wrong and called & wrong:
            given[id] = answers(id)[0][0]
            wrong.remove(id)


def _points(exercise: str) -> float:
    known = catalogue().find(exercise)
    assert known is not None
    return known.points


def _fill_in(notebook: nbformat.NotebookNode, chosen: dict[str, Answer]) -> None:
    for cell in notebook.cells:
        claimed = cell.metadata.get("nbgrader", {})
        if claimed.get("solution") and claimed["grade_id"] in chosen:
            cell.source = chosen[claimed["grade_id"]].text


def make_class(
    course: Path,
    assignment: str,
    students: int,
    seed: int = 0,
    *,
    leave_out: Collection[str] = (),
    short: bool = False,
) -> list[Student]:
    """Writes a class's submissions, without these kinds of students; `short` as in `Generator`."""
    generator, made = Generator(assignment, seed, short), []
    for number, kind in zip(range(students), _kinds(seed, leave_out), strict=False):
        name = f"s{number:04}-{kind}"
        made.append(generator.write(name, kind, course / "submitted" / name / assignment))
    return made


def _kinds(seed: int, leave_out: Collection[str]) -> Iterator[str]:
    often = {kind: count for kind, count in KINDS.items() if kind not in leave_out}
    yield from often
    draw = random.Random(seed)
    while True:
        yield from draw.choices(list(often), list(often.values()))
