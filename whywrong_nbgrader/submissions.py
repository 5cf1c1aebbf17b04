"""Submitted notebooks: read and restored in a process that may end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .cells import nbgrader_metadata
from .helper import TooMuch, helper
from .reading import MOST_TEXT, Unreadable, parsed, read, taken
from .restoring import Kept, Released, answered, restore


@dataclass
class Submission:
    """A submitted notebook, restored."""

    cells: list[Kept]
    notes: list[str] = field(default_factory=list)  # for the student and the instructor
    trouble: list[str] = field(default_factory=list)  # what a person should also look at
    language: str = ""  # of the edition; "" is English
    answers: dict[str, str] = field(default_factory=dict)  # their texts, by exercise
    sources: list[str] = field(default_factory=list)  # other files that something is said about
    unreadable: str = ""  # why; its cells are then the unsolved lesson's
    seen: list[str] = field(default_factory=list)  # exercises that an unreadable file defines


def notebook(
    path: str,
    released: Mapping[str, Mapping[str, Any]],
    lesson_code: Sequence[str],
    member: str = "",
) -> dict[str, Any]:
    """Reads and restores a submitted notebook, or one in an archive; runs in the helper."""
    cells, data = {name: Released(**cell) for name, cell in released.items()}, b""
    try:
        data = taken(path, member)
        found = parsed(data)
    except Unreadable as error:
        text, ours = data[:MOST_TEXT].decode("utf-8", "replace"), unsolved(cells)
        seen = [one.checks for one in ours if one.checks and _defines(text, one.checks)]
        return {"unreadable": str(error), "seen": seen}
    read_as = [(one, *restore(one, cells, lesson_code)) for one in (found.cells, *found.others)]
    own = [answered(made, cells, lesson_code) for _, made, _ in read_as]
    best = most_complete(own)
    notes, trouble = found.notes(), list[str]()
    if best is None:
        best = 0
        what = "the first is graded" if own[0] else "none is graded"
        trouble = [f"the file has several notebooks with different answers: {what}"]
    elif best:
        notes.append("the file has several notebooks: the one with the most answers is graded")
    _, made, noticed = read_as[best]
    if found.damage and own[best].keys() >= {cell.checks for cell in made if cell.checks}:
        notes.append(f"the file is damaged, but has all answers ({found.damage})")
    elif found.damage:
        trouble.append(f"the submission can't be read completely, {found.damage}")
    return {
        "cells": [asdict(cell) for cell in made],
        "notes": [*notes, *noticed],
        "language": found.language,
        "answers": own[best],
        "trouble": trouble,
    }


def _defines(text: str, exercise: str) -> bool:
    return re.search(rf"^[ \t]*(?:def|class) +{exercise}\b", text, re.M) is not None


def most_complete(answers: Sequence[Mapping[str, str]]) -> int | None:
    """Returns the first place with all answers that are in any place; None if there is none."""
    together = {item for one in answers for item in one.items()}
    return next((n for n, one in enumerate(answers) if {*one.items()} == together), None)


def restored(
    path: Path, released: Mapping[str, Released], lesson_code: Sequence[str], member: str = ""
) -> Submission:
    """Returns a notebook from an untrusted file, or the unsolved released cells if unreadable."""
    try:
        cells = {name: asdict(cell) for name, cell in released.items()}
        said = helper().ask("notebook", str(path), cells, list(lesson_code), member)
    except TooMuch as error:
        said = {"unreadable": str(error)}
    if why := said.get("unreadable"):
        told = f"**This is not the submission.** It can't be read: {why}."
        made = [Kept("markdown", told), *unsolved(released)]
        trouble, seen = [f"the submission can't be read: {why}"], said.get("seen", [])
        return Submission(made, [], trouble, unreadable=why, seen=seen)
    made = [Kept(**cell) for cell in said["cells"]]
    return Submission(made, said["notes"], said["trouble"], said["language"], said["answers"])


def unsolved(released: Mapping[str, Released]) -> list[Kept]:
    return [Kept(c.cell_type, c.source, name, c.metadata) for name, c in released.items()]


def unreadable(path: Path) -> str:
    """Returns why a notebook can't be read completely, or an empty string."""
    try:
        said = helper().ask("notebook", str(path), {}, [])
    except TooMuch as error:
        return str(error)
    return str(said.get("unreadable") or "; ".join(said["trouble"]))


def lesson(course: Any, assignment: str, name: str) -> Path:
    """Returns the path of a lesson as students get it."""
    return Path(course.format_path(course.release_directory, ".", assignment)) / name


@cache
def handed_out(path: Path) -> tuple[str, ...]:
    """Returns the code cells of a lesson as students get it."""
    with suppress(Unreadable):
        return tuple(cell["source"] for cell in read(path).cells if cell["kind"] == "code")
    return ()


def released(db_url: str, assignment: str, notebook: str) -> dict[str, Released]:
    """A notebook's cells in the gradebook, by name."""
    from nbgrader.api import Gradebook

    with Gradebook(db_url) as gradebook:
        kept = gradebook.find_notebook(notebook, assignment)
        points = {c.name: c.max_score for c in (*kept.grade_cells, *kept.task_cells)}
        of = {"grade": kept.grade_cells, "solution": kept.solution_cells, "task": kept.task_cells}
        named = {kind: {cell.name for cell in found} for kind, found in of.items()}
        cells = {}
        for cell in kept.source_cells:
            name, kinds = cell.name, {kind: cell.name in names for kind, names in named.items()}
            metadata = nbgrader_metadata(name, points.get(name), locked=cell.locked, **kinds)
            metadata |= {"checksum": cell.checksum, "cell_type": cell.cell_type}
            graded = kinds["grade"] or kinds["task"]
            cells[name] = Released(cell.source, cell.cell_type, cell.locked, graded, metadata)
        return cells
