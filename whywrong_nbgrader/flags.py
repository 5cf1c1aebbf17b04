"""Flags for a person: answers that may be someone else's text. They cost no points."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import nbformat

from whywrong.course import catalogue, installed
from whywrong.failed_runs import names_written

from .classroom import Classroom, Work
from .mending import released
from .oddities import MOST_READ, odd_words

TELLING = 240  # below this many characters, two people may well write the same code
COMMON = 0.2  # an answer that a larger share of the class has is nobody's copy


def flagged(classroom: Classroom) -> tuple[dict[str, list[str]], list[str]]:
    """What a person should look at, in words: by student, and for groups that share answers."""
    said: dict[str, list[str]] = defaultdict(list)
    alike: dict[tuple[str, str], set[str]] = defaultdict(set)
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    handed_out, (published, given) = _handed_out(classroom), _published(classroom)
    finished = cache(lambda exercise: normal(_finished(exercise)))
    for work in classroom.works:
        long = sum(len(c.source) > MOST_READ for c in work.cells if not c.locked)
        if long:
            said[work.student].append(f"{work.notebook} has cells too long to compare: {long}")
        if words := _odd_words(work, given):
            said[work.student].append(f"{work.notebook} is worth a look: it uses {words}")
        for exercise, source in answers(work).items():
            if _takes_finished(source, exercise):
                said[work.student].append(f"{exercise} is the course's own finished part")
            elif _is_own_work(exercise, text := normal(source), handed_out):
                texts[work.student][exercise] = text
    for student, written in texts.items():
        taken = [e for e, t in written.items() if t in (published.get(e), finished(e))]
        if sum(len(written[e]) for e in taken) >= TELLING:
            said[student].append(f"the text of the published solution: {', '.join(taken)}")
        for exercise in written.keys() - set(taken):
            alike[exercise, written[exercise]].add(student)
    groups = _groups(alike, max(10, COMMON * len(texts)), said)
    return dict(said), groups


def _odd_words(work: Work, given: set[str]) -> str:
    """The names that a notebook with points uses and no lesson does."""
    reports = work.graded.reports.values() if work.graded else ()
    if not any(r["points"] for r in reports):
        return ""
    found = {
        w for c in work.cells if not c.locked and c.source not in given for w in odd_words(c.source)
    }
    return ", ".join(sorted(found)[:8])


def _is_own_work(exercise: str, text: str, handed_out: Mapping[str, str]) -> bool:
    """Whether equal text is evidence: not for quizzes, handed-out programs or single lines."""
    known = catalogue().find(exercise)
    given = known is not None and (known.kind == "quiz" or known.rules.as_found is not None)
    return not given and text != handed_out.get(exercise) and text.count("\n") > 1


def _groups(
    alike: Mapping[tuple[str, str], set[str]], most: float, said: dict[str, list[str]]
) -> list[str]:
    """One sentence per group that shares answers; each member also gets a short note.

    Args:
        alike: the students who wrote each text of an answer.
        most: a text that more students wrote is not evidence.
    """
    shared: dict[tuple[str, str], set[str]] = defaultdict(set)
    length: Counter[tuple[str, str]] = Counter()
    for (exercise, text), students in alike.items():
        for pair in combinations(sorted(students), 2) if len(students) <= most else ():
            shared[pair].add(exercise)
            length[pair] += len(text)
    group: dict[str, set[str]] = {}
    for a, b in (pair for pair, n in length.items() if n >= TELLING):
        one = group.get(a, {a}) | group.get(b, {b})
        group |= dict.fromkeys(one, one)
    told = []
    for members in {id(g): sorted(g) for g in group.values()}.values():
        same = {e for pair in combinations(members, 2) for e in shared[pair]}
        told.append(f"{', '.join(members)}: the same text in {', '.join(sorted(same))}")
        for student in members:
            said[student].append("shares answers with others: see below")
    return told


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
        return _unparsed(ast.parse(source[:MOST_READ]))
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


def _published(classroom: Classroom) -> tuple[dict[str, str], set[str]]:
    """The answers in the course's own solutions, which are public."""
    from nbgrader.coursedir import CourseDirectory

    folder = CourseDirectory(config=classroom.config).source_directory
    found: dict[str, str] = {}
    given = set()  # all code cells, of which some are handed out unchanged
    for path in (classroom.course / folder / classroom.assignment).glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                given.add(cell.source)
                if "### BEGIN SOLUTION" in cell.source:
                    found |= dict.fromkeys(names_written(cell.source), normal(cell.source))
    return found, given


def _takes_finished(source: str, exercise: str) -> bool:
    """Whether the cell imports the finished part by name from the course."""
    course = installed()
    package = course.package if course else "course_utils"
    parts = ("attention", "transformer", "language_model", "translation")
    named = any(f"{part}.{exercise}" in source for part in parts)
    begins = [line.partition("#")[0].partition(" import ") for line in source.splitlines()]
    return named or any(
        before.strip().startswith(f"from {package}") and exercise in re.findall(r"\w+", after)
        for before, _, after in begins
    )
