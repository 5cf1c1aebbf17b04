"""Submitted notebooks: read and restored in a process that may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .cells import nbgrader_metadata
from .helper import TooMuch, helper
from .reading import Unreadable, read
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


def notebook(
    path: str, released: Mapping[str, Mapping[str, Any]], given: Sequence[str], member: str = ""
) -> dict[str, Any]:
    """Reads and restores a submitted notebook, or one in an archive; runs in the helper."""
    try:
        found = read(path, member)
    except Unreadable as error:
        return {"unreadable": str(error)}
    cells = {name: Released(**cell) for name, cell in released.items()}
    made, noticed = restore(found.cells, cells, given)
    answers = answered(made, cells, given)
    others = [(one, *restore(one, cells, given)) for one in ([] if answers else found.others)]
    told = [(*other, own) for other in others if (own := answered(other[1], cells, given))]
    trouble = []
    if told and all(other[3] == told[0][3] for other in told):
        (_, made, noticed, answers), *_ = told
        noticed = ["the file has several notebooks, and only one has answers", *noticed]
    elif told:
        trouble = ["the file has several notebooks with different answers: none is graded"]
    if found.broken:
        known = f"only its first {len(found.cells)} cells: {found.broken}"
        trouble.append(f"the submission can't be read completely, {known}")
    return {
        "cells": [asdict(cell) for cell in made],
        "notes": [*found.notes(), *noticed],
        "language": found.language,
        "answers": answers,
        "trouble": trouble,
    }


def restored(
    path: Path, released: Mapping[str, Released], given: Sequence[str], member: str = ""
) -> Submission:
    """Returns a notebook from an untrusted file, or the unsolved released cells if unreadable."""
    try:
        cells = {name: asdict(cell) for name, cell in released.items()}
        said = helper().ask("notebook", str(path), cells, list(given), member)
    except TooMuch as error:
        said = {"unreadable": str(error)}
    if why := said.get("unreadable"):
        told = f"**This is not the submission.** It can't be read: {why}."
        made = [Kept("markdown", told), *unsolved(released)]
        return Submission(made, [], [f"the submission can't be read: {why}"], unreadable=why)
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
