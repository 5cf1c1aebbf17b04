"""Which file of a submission is a lesson's: the one of its name, or the only one with answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .folders import perhaps_notebooks
from .helper import TooMuch, helper
from .readable import in_a_line
from .restoring import Released
from .submissions import Submission, handed_out, lesson, released, restored, unsolved

SECONDS = 8.0  # processor time for all files of a submission that are read for one lesson


def submission(
    folder: Path, name: str, released: Mapping[str, Released], given: Sequence[str]
) -> Submission | None:
    """Returns a lesson's notebook, or None if nothing was submitted for it.

    The file of the lesson's name counts, whatever it contains besides answers. If it is missing,
    can't be read or has no answers, the only other file with answers to this lesson counts.
    """
    path = folder / f"{name}.ipynb"
    own = restored(path, released, given) if os.path.lexists(path) else None
    if own and own.answers:
        return own
    others = _others(folder, path, released, given)
    if not others:
        return own
    why = "is missing" if own is None else "can't be read" if own.unreadable else "has no answers"
    (known, found), *more = others.items()
    if all(one.answers == found.answers for _, one in more):
        said = f"{path.name} {why}, so {known} is graded"
        return replace(found, notes=[*found.notes, said], source=known)
    files = " and ".join(others)
    said = f"{path.name} {why}, and different answers to it are in {files}: none is graded"
    made = own or Submission(unsolved(released))
    return Submission(made.cells, made.notes, [*made.trouble, said], made.language)


def under_other_names(coursedir: Any, folder: Path) -> list[str]:
    """The paths that a submission's lessons would have, of those that have another one."""
    from nbgrader.api import Gradebook, MissingEntry

    assignment, db_url = coursedir.assignment_id, coursedir.db_url
    names: list[str] = []
    with Gradebook(db_url) as gradebook, suppress(MissingEntry):
        names = [notebook.name for notebook in gradebook.find_assignment(assignment).notebooks]
    paths = [folder / f"{name}.ipynb" for name in names if fnmatch(name, coursedir.notebook_id)]
    found = []
    for path in paths:
        if os.path.lexists(path):
            continue
        given = handed_out(lesson(coursedir, assignment, path.name))
        if submission(folder, path.stem, released(db_url, assignment, path.stem), given):
            found.append(str(path))
    return found


def _others(
    folder: Path, path: Path, released: Mapping[str, Released], given: Sequence[str]
) -> dict[str, Submission]:
    """The other files of a submission that have answers to a lesson, by name."""
    until = helper().spent + SECONDS
    found: dict[str, Submission] = {}
    for place in perhaps_notebooks(folder):
        if place == path:
            continue
        known = in_a_line(str(place.relative_to(folder)))
        for member in _members(place):
            if helper().spent > until:
                return found
            one = restored(place, released, given, member)
            if one.answers:
                found[f"{known}: {in_a_line(member)}" if member else known] = one
    return found


def _members(path: Path) -> list[str]:
    """The files in an archive that may be notebooks; of any other file, a single empty name."""
    if path.suffix.lower() != ".zip":
        return [""]
    try:
        return list(map(str, helper().ask("members", str(path))))
    except TooMuch:
        return []
