"""Cells as text: the cells of a submission, with nbgrader's metadata and markers.

This module imports nothing else, because most of nbgrader's commands need only this part of grading
and should not wait for PyTorch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

CHECK = re.compile(r'check\("(\w+)", \1\)')
MOST_TEXT = 20_000  # characters
HIDDEN = re.compile(r"(?<!\n)\n*^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$\n*", re.M | re.S)
DEFINITION = re.compile(r"^(?:(?:async +)?(?:def|class) +(\w+)|(\w+) *(?::[^=\n]*)?=(?!=))", re.M)
AS_FOUND = re.compile(
    r"^ *### BEGIN SOLUTION\n(?:(?! *### END SOLUTION$).*\n)*? *### AS FOUND\n"
    r"((?: *#(?!##).*\n|\n)*) *### END SOLUTION(?:\n|\Z)",
    re.M,
)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Cell:
    """A code cell of a submission."""

    source: str
    checks: str = ""  # the exercise whose points it holds; it is not run, the answer is judged
    demonstration: bool = False  # the lesson's own text, unchanged, and not graded


def checked_exercise(cell: NotebookNode | str) -> str | None:
    """The exercise whose `check(...)` is a cell's only content besides hidden tests, or None."""
    if not isinstance(cell, str) and cell.cell_type != "code":
        return None
    source: str = cell if isinstance(cell, str) else cell.source
    match = CHECK.fullmatch(without_hidden_tests(source).strip())
    return match and match[1]


def without_hidden_tests(source: str) -> str:
    """A cell without its hidden tests. Very long ones are students' own, and would take hours."""
    return HIDDEN.sub("", source) if len(source) < MOST_TEXT else source


def as_found(source: str) -> str:
    """A cell with a broken program as a student gets it: the lines below `### AS FOUND` in a
    solution, each after a `#`, replace the solution.

    >>> as_found("### BEGIN SOLUTION\\nx = 1\\n### AS FOUND\\n# x = 2\\n### END SOLUTION")
    'x = 2\\n'
    """
    return AS_FOUND.sub(lambda region: re.sub(r"^( *)# ?", r"\1", region[1], flags=re.M), source)


def defined_names(source: str) -> list[str]:
    """Names that a cell defines at the left margin, found without running or parsing it."""
    return [function or variable for function, variable in DEFINITION.findall(source)]


def nbgrader_metadata(grade_id: str, points: float | None = None, **kinds: bool) -> dict[str, Any]:
    """A cell's metadata in nbgrader's schema 3; `kinds` are grade, locked, solution and task."""
    usual = {"grade": False, "grade_id": grade_id, "locked": False, "schema_version": 3}
    metadata = {**usual, "solution": False, "task": False, **kinds}
    if points is None:
        return metadata
    # Jupyter's page writes 1.0 as 1, so a notebook that it has saved stays the same.
    return {**metadata, "points": int(points) if points == int(points) else points}
