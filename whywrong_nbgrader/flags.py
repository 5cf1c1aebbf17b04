"""Flags for a person: answers that may be someone else's text. They cost no points."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from whywrong.course import catalogue, installed
from whywrong.failed_runs import names_written

from .classroom import Classroom, Work
from .mending import released
from .oddities import odd_words

TELLING = 240  # below this many characters, two people may well write the same code


def flagged(classroom: Classroom) -> dict[str, list[str]]:
    """By student, in words: answers that equal another student's or the finished part, and code
    that uses names that no lesson needs."""
    said: dict[str, list[str]] = defaultdict(list)
    alike: dict[tuple[str, str], set[str]] = defaultdict(set)
    handed_out = _handed_out(classroom)
    finished = cache(lambda exercise: normal(_finished(exercise)))
    for work in classroom.works:
        if words := _odd_words(work):
            said[work.student].append(f"{work.notebook} is worth a look: it uses {words}")
        for exercise, source in answers(work).items():
            text = normal(source)
            if text == finished(exercise) or _takes_finished(source, exercise):
                said[work.student].append(f"{exercise} is the course's own finished part")
            elif len(text) >= TELLING and text != handed_out.get(exercise):
                alike[exercise, text].add(work.student)
    for (exercise, _), students in alike.items():
        for student in students if len(students) > 1 else ():
            others = ", ".join(sorted(students - {student})[:5])
            said[student].append(f"{exercise} is the same text as that of {others}")
    return dict(said)


def _odd_words(work: Work) -> str:
    """The names that a notebook with points uses and no lesson does."""
    reports = work.graded.reports.values() if work.graded else ()
    if not any(r["points"] for r in reports):
        return ""
    found = {w for c in work.cells if not c.locked for w in odd_words(c.source)}
    return ", ".join(sorted(found)[:8])


def answers(work: Work) -> dict[str, str]:
    """The cells that define an answer, by exercise; of several, the last."""
    checked = {c.checks for c in work.cells if c.checks}
    found = {}
    for cell in work.cells:
        for name in names_written(cell.source) & checked if not cell.checks else ():
            found[name] = cell.source
    return found


@lru_cache(maxsize=4096)  # many cells are the same for most of a class
def normal(source: str) -> str:
    """Code without comments, docstrings and layout; unchanged if it can't be parsed."""
    try:
        return _unparsed(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.sub(r"\s+", " ", source)


def _unparsed(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or len(body) < 2 or not isinstance(body[0], ast.Expr):
            continue
        if isinstance(body[0].value, ast.Constant):  # a docstring
            del body[0]
    return ast.unparse(tree)


def _handed_out(classroom: Classroom) -> Mapping[str, str]:
    """The answers' cells as they were released: stubs and broken programs."""
    from nbgrader.coursedir import CourseDirectory

    db_url = CourseDirectory(config=classroom.config).db_url
    found = {}
    for notebook in classroom.notebooks:
        for cell in released(db_url, classroom.assignment, notebook).values():
            if cell.cell_type == "code" and not cell.locked:
                for name in names_written(cell.source):
                    found[name] = normal(cell.source)
    return found


def _finished(exercise: str) -> str:
    known = catalogue().find(exercise)
    part: Any = known and known.finished
    try:
        return inspect.getsource(part) if callable(part) else ""
    except (OSError, TypeError):
        return ""


def _takes_finished(source: str, exercise: str) -> bool:
    """Whether the cell imports the finished part by name from the course."""
    course = installed()
    package = course.package if course else "course_utils"
    imported = rf"\bfrom\s+{package}[\w.]*\s+import\b[^\n]*\b{exercise}\b"
    named = rf"\b(?:attention|transformer|language_model|translation)\.{exercise}\b"
    return bool(re.search(f"{imported}|{named}", source))
