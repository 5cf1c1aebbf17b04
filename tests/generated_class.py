"""A class of any size, written straight into a course folder's submitted/, the same for a seed.

    python -m tests.generated_class FOLDER ASSIGNMENT STUDENTS [SEED]

makes a course folder with the assignment released and a class that has handed it in. What each
student should get is known where a fair teacher would know it: from solutions/, from tests/answers
and from the points that are kept in matrix_points.json.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import json
import random
import re
import shutil
import sys
import types
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

import course_utils
from course_utils.checking.quizzes import filled
from course_utils.editions import COURSE, NOTEBOOKS, SOLUTIONS, checked_exercise
from course_utils.exercises import COURSE as CATALOGUE

from .answers import RIGHT, WRONG
from .nbgrader_class import right_answer

PACKAGE = course_utils.__name__
POINTS = Path(__file__).with_name("matrix_points.json")
DUE, IN_TIME, LATE = (f"2026-10-{day} 12:00:00.000000 UTC" for day in (10, 9, 11))
PENALTY = 0.5  # for each notebook that comes late
CONFIG = f"""
from nbgrader.plugins import LateSubmissionPlugin


class HalfAPoint(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return {PENALTY}


c.AssignLatePenalties.plugin_class = HalfAPoint
"""


# ---------------------------------------------------------------- a course folder


def make_course(folder: Path, assignment: str) -> Path:
    """A course folder in which the assignment is released, due, and dearer when late."""
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


# ---------------------------------------------------------------- answers as a student writes them


@dataclass(frozen=True)
class Answer:
    """The text of a cell.

    Args:
        points: what it should get.
        misconception: what should be named, or nothing.
    """

    text: str
    points: float
    name: str = ""
    misconception: str = ""


class NotToBeWritten(Exception):
    """An answer rests on more than the text of a cell can hold."""


@dataclass
class _Source:
    """What a module defines and imports, as nodes."""

    name: str
    tree: ast.Module
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, ast.alias]] = field(default_factory=dict)

    @classmethod
    @cache
    def of(cls, name: str) -> _Source:
        module = importlib.import_module(name)
        found = cls(name, ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        for node in found.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.defined[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.defined[node.targets[0].id] = node
            elif isinstance(node, ast.Import):
                found.imported |= {(a.asname or a.name).split(".")[0]: ("", a) for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                place = resolve_name("." * node.level + (node.module or ""), module.__package__)
                found.imported |= {a.asname or a.name: (place, a) for a in node.names}
        return found


class _Writer:
    """The text of an answer with all that it rests on, what is used before what uses it."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[str, str]] = {}

    def rest_of(self, node: ast.AST, source: _Source) -> None:
        for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            if name not in self.parts and not hasattr(builtins, name):
                self.name(name, source)

    def name(self, name: str, source: _Source) -> None:
        if name in source.defined:
            self._keep(name, source.name, "")  # against going round in circles
            self.rest_of(source.defined[name], source)
            del self.parts[name]
            self._keep(name, source.name, ast.unparse(source.defined[name]))
        elif name in source.imported:
            place, alias = source.imported[name]
            if place.startswith(("tests.", "course_utils.exercises", "course_utils.checking")):
                if (alias.asname or alias.name) != alias.name:
                    raise NotToBeWritten(name)
                self.name(name, _Source.of(place))
            else:
                begin = f"from {place} import" if place else "import"
                as_name = f" as {alias.asname}" if alias.asname else ""
                self._keep(name, "", f"{begin} {alias.name}{as_name}")
        # else a name of its own

    def _keep(self, name: str, where: str, text: str) -> None:
        self.parts[name] = where, text


def as_text(answer: Any, exercise: str) -> str:
    """A cell that gives `answer` the exercise's name.

    Raises:
        NotToBeWritten: it can't be said in a cell of its own.
    """
    if isinstance(answer, dict):  # to a quiz
        return f"{exercise} = {_literal(answer)}"
    if not isinstance(answer, types.FunctionType | type) or not answer.__module__:
        raise NotToBeWritten("it is an object")
    of_the_course = answer.__module__.startswith(f"{PACKAGE}.")
    if of_the_course and not answer.__module__.startswith(f"{PACKAGE}.exercises."):
        raise NotToBeWritten("it is the course's own; its text is anybody's")
    source, writer = _Source.of(answer.__module__), _Writer()
    node = _node_of(answer, source)
    if isinstance(node, ast.Lambda):
        writer.rest_of(node, source)
        end = f"{exercise} = {ast.unparse(node)}"
    else:
        writer.name(node.name, source)
        end = f"{exercise} = {node.name}" if node.name != exercise else ""
    others = {e.id for e in CATALOGUE} - {exercise}
    if others & set(writer.parts) or (exercise in writer.parts and end):
        raise NotToBeWritten("it uses the name of an exercise for something else")
    text = "\n\n".join([*(t for _, t in writer.parts.values()), end]).strip()
    if "jit" in text:
        raise NotToBeWritten("a compiler wants a file")
    if "singledispatch" in text:
        raise NotToBeWritten("its cases are written beside it")
    return text


def _literal(answer: dict[str, Any]) -> str:
    text = "{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in answer.items()) + "}"
    try:
        same = ast.literal_eval(text) == answer
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise NotToBeWritten("it holds what has no text")
    return text


def _node_of(answer: Any, source: _Source) -> ast.FunctionDef | ast.ClassDef | ast.Lambda:
    named = source.defined.get(answer.__name__)
    if isinstance(named, ast.FunctionDef | ast.ClassDef) and answer.__qualname__ == named.name:
        return named
    code = getattr(answer, "__code__", None)
    if code is None or answer.__closure__:
        raise NotToBeWritten("it was made by a function")
    alike = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Lambda) and _code(node).co_code == code.co_code
        if node.lineno == code.co_firstlineno and _code(node).co_names == code.co_names
    ]
    if len(alike) != 1:
        raise NotToBeWritten("its text can't be found")
    return alike[0]


def _code(node: ast.Lambda) -> types.CodeType:
    compiled = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")
    return next(c for c in compiled.co_consts if isinstance(c, types.CodeType))


# What people get wrong most often, put into the course's own answers; for the rest of the catalogue
# the mistake is a step of a program that no student writes.
IN_A_SOLUTION = {
    "naive_mean": {
        "blind_to_itself": (": t + 1]", ":t]"),
        "no_mask": ("x[b, : t + 1]", "x[b]"),
        "sees_next_token": (": t + 1]", ": t + 2]"),
    },
    "causal_mean_weights": {
        "not_divided": (" / weights.sum(dim=1, keepdim=True)", ""),
        "past_hidden": ("torch.tril", "torch.triu"),
        "columns_normalised": ("dim=1", "dim=0"),
    },
    "tril_mean": {"float32_weights": (".to(x)", "")},
    "softmax": {
        "overflows": (" - scores.amax(dim=dim, keepdim=True)", ""),
        "sum_without_keepdim": ("exps.sum(dim=dim, keepdim=True)", "exps.sum(dim=dim)"),
    },
    "masked_softmax": {
        "zero_fill": ('float("-inf")', "0.0"),
        "mask_inverted": ("(hidden,", "(~hidden,"),
    },
    "MultiHeadAttentionWrapper": {"pad_mask_ignored": ("head(x, pad_mask)", "head(x)")},
    "split_heads": {
        "view_without_transpose": (
            "x.view(B, T, num_heads, C // num_heads)  # (B, T, C) -> (B, T, H, D)\n"
            "    return x.transpose(1, 2)",
            "x.view(B, num_heads, T, C // num_heads)\n    return x",
        ),
    },
    "MultiHeadAttention": {
        "no_out_proj": (
            "self.out_proj(merge_heads(weights @ value))",
            "merge_heads(weights @ value)",
        ),
    },
}


@cache
def answers(exercise: str) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    """Right answers to an exercise, the course's own first, and wrong ones."""
    known = CATALOGUE.find(exercise)
    assert known is not None
    solution = right_answer(known.lesson.partition("/")[2], exercise)
    kept = json.loads(POINTS.read_text(encoding="utf-8")).get(exercise, {})
    right, wrong = [Answer(solution, known.points, "solution")], []
    for name, answer in RIGHT.get(exercise, {}).items():
        with suppress(NotToBeWritten):
            right.append(Answer(as_text(answer, exercise), known.points, name))
    for name, answer in WRONG.get(exercise, {}).items():
        points = kept.get(f"not in catalogue: {name}")
        with suppress(NotToBeWritten):
            if isinstance(points, float):  # for some they hang on the machine
                wrong.append(Answer(as_text(answer, exercise), points, name))
    for name, (was, becomes) in IN_A_SOLUTION.get(exercise, {}).items():
        text, begin = solution, solution.rfind('"""')
        assert was in text[begin:], f"{exercise} has no {was}"
        text = text[:begin] + text[begin:].replace(was, becomes)
        points, id = kept[f"misconception: {name}"], known.variants[name].id
        wrong.append(Answer(text, points, name, id))
    for name, m in known.variants.items():
        points = kept.get(f"misconception: {name}")
        with suppress(NotToBeWritten):
            if m.mistake is None and isinstance(points, float):
                answer = filled(known, m) if known.kind == "quiz" else m.answer
                wrong.append(Answer(as_text(answer, exercise), points, name, m.id))
    return tuple(right), tuple(wrong)


# ---------------------------------------------------------------- students


@dataclass
class Student:
    """Who has handed in what.

    Attributes:
        points: of each exercise by notebook, where they are known; none of a notebook that is
            missing.
        named: the misconception that should be named, by exercise.
        late: what lateness costs.
    """

    name: str
    kind: str
    points: dict[str, dict[str, float]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    late: float = 0.0

    @property
    def score(self) -> float:
        return max(sum(sum(p.values()) for p in self.points.values()) - self.late, 0.0)


ENDLESS = "\n\ndef {0}(*arguments, **named):\n    while True:\n        pass"
DEADLY = "import os\n\n\ndef {0}(*arguments, **named):\n    os._exit(1)"
ENDS_BY_ITSELF = "import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)"

# The first of a class are one of each; then they come as often as these numbers say.
KINDS = {
    "right": 6,
    "other-right": 4,
    "wrong": 8,
    "same-text": 2,
    "late": 2,
    "empty": 1,
    "not-attempted": 2,
    "unreadable": 1,
    "missing": 1,
    "deadly": 1,
    "endless": 1,
}
SLOW = ("endless",)  # each costs as long as an answer may take


class Generator:
    """Makes students of one assignment.

    Args:
        short: without the demonstrations between the exercises.
    """

    def __init__(self, assignment: str, seed: int = 0, short: bool = False) -> None:
        self.assignment, self.draw = assignment, random.Random(f"{assignment} {seed}")
        self.released = {
            path.stem: nbformat.read(path, as_version=4)
            for path in sorted((NOTEBOOKS / assignment).glob("*.ipynb"))
        }
        if short:
            for notebook in self.released.values():
                notebook.cells = [c for c in notebook.cells if _needed(c)]
        self.exercises = {
            name: [id for c in notebook.cells if (id := checked_exercise(c))]
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
            id = self.draw.choice([i for i in chosen[name] if CATALOGUE.find(i).kind != "quiz"])
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
        """One student's hand-in."""
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
                text, student.points[notebook] = text[: len(text) // 2], nothing
            (folder / f"{notebook}.ipynb").write_text(text, encoding="utf-8")
        stamp = LATE if kind == "late" else IN_TIME
        (folder / "timestamp.txt").write_text(stamp, encoding="utf-8")
        student.late = PENALTY * len(student.points) if kind == "late" else 0.0
        return student


def _one_fault_at_a_time(given: dict[str, Answer]) -> None:
    """Where a wrong answer calls another one, nobody can tell in advance what the two give."""
    wrong = {id for id, a in given.items() if a.points < _points(id)}
    for id in list(given):
        called = set(re.findall(r"\w+", given[id].text)) - {id}
        if id in wrong and called & wrong:
            given[id] = answers(id)[0][0]
            wrong.remove(id)


def _points(exercise: str) -> float:
    known = CATALOGUE.find(exercise)
    assert known is not None
    return known.points


def _needed(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type != "code" or "nbgrader" in cell.metadata or "import " in cell.source


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
    """Writes what a class has handed in.

    Args:
        leave_out: kinds that nobody is of.
        short: without the demonstrations between the exercises.
    """
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


if __name__ == "__main__":
    place, wanted, count, *rest = sys.argv[1:]
    for one in make_class(
        make_course(Path(place), wanted), wanted, int(count), *map(int, rest[:1])
    ):
        print(f"{one.name:<24} {one.score:g}")
