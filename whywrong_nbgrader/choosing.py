"""Which file of a submission is a lesson's: the one of its name, or the only one with answers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .folders import DOCUMENTS, is_a_checkpoint, may_be_a_notebook, perhaps_notebooks
from .helper import TooMuch, helper
from .readable import file_name, shortened
from .reading import WRITTEN
from .restoring import Released
from .submissions import (
    Submission,
    handed_out,
    lesson,
    most_complete,
    released,
    restored,
    unsolved,
)

MEMBER = ": "  # between an archive's name and that of a file in it
SECONDS = 8.0  # processor time for all files of a submission that are read for one lesson


def submission(
    folder: Path,
    name: str,
    released: Mapping[str, Released],
    lesson_code: Sequence[str],
    lessons: Collection[str],
) -> Submission | None:
    """Returns a lesson's notebook, or None if nothing was submitted for it.

    It is the file with all answers to the lesson that are in any file; of several, the one of the
    lesson's name. If different files have different answers, the one of the lesson's name counts,
    or else the only notebook. If there is no answer, the files that can't be read are named.

    Args:
        lessons: the names of all notebooks of the assignment.
    """
    path = folder / f"{name}.ipynb"
    own = restored(path, released, lesson_code) if os.path.lexists(path) else None
    ours = {f"{one}.ipynb" for one in lessons}
    others, unread = _others(
        folder, path, released, lesson_code, ours if own and own.answers else set()
    )
    if own and own.answers:
        others, unread = {path.name: own, **others}, {}
    unread = {one: reason for one, reason in unread.items() if one not in ours}
    if not others and not unread:
        return own
    sources = [one.partition(MEMBER)[0] for one in others or unread]
    why = "is missing" if own is None else "can't be read" if own.unreadable else "has no answers"
    best = most_complete([one.answers for one in others.values()])
    notebooks = {n: one for n, one in others.items() if not n.lower().endswith(WRITTEN)}
    if best is None and notebooks:
        others, best = notebooks, most_complete([one.answers for one in notebooks.values()])
    if others and best is not None:
        known, found = [*others.items()][best]
        if found is own:
            return own
        why = "has fewer of the same answers" if own and own.answers else why
        said = f"{path.name} {why}, so {file_name(known)} is graded"
        return replace(found, notes=[*found.notes, said], sources=sources)
    if own and own.answers:
        return own
    if others:
        files = " and ".join(map(file_name, others))
        trouble = [f"{path.name} {why}, and different answers to it are in {files}: none is graded"]
    else:
        reasons = [f"{file_name(one)} can't be read: {reason}" for one, reason in unread.items()]
        trouble = shortened(f"{path.name} {why}, and {reason}" for reason in reasons)
    made = own or Submission(unsolved(released))
    return replace(made, trouble=[*made.trouble, *trouble], sources=sources)


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
        lesson_code = handed_out(lesson(coursedir, assignment, path.name))
        if submission(
            folder, path.stem, released(db_url, assignment, path.stem), lesson_code, names
        ):
            found.append(str(path))
    return found


def _others(
    folder: Path,
    path: Path,
    released: Mapping[str, Released],
    lesson_code: Sequence[str],
    left_out: Collection[str],
) -> tuple[dict[str, Submission], dict[str, str]]:
    """The other files of a submission that have answers to a lesson, by name; and those that may
    be notebooks but can't be read, with the reason. Copies that Jupyter made of its own accord
    count only if there is no other file."""
    until = helper().spent + SECONDS
    found, unread = dict[str, Submission](), dict[str, str]()
    for place in perhaps_notebooks(folder):
        name = str(place.relative_to(folder))
        if place == path or name in left_out or (is_a_checkpoint(name) and (found or left_out)):
            continue
        packed = place.suffix.lower() == ".zip"
        members = _members(place) if packed else [""]
        if not members:
            unread[name] = "no notebook in it can be unpacked"
        for member in members:
            if helper().spent > until:
                return found, unread
            one = restored(place, released, lesson_code, member)
            known = f"{name}{MEMBER}{member}" if member else name
            if one.answers:
                found[known] = one
            elif name.lower().endswith(DOCUMENTS):
                unread[known] = "it is a document, and the .ipynb file is needed"
            elif one.unreadable and may_be_a_notebook(member or name):
                unread[known] = one.unreadable
            elif one.seen:
                seen = ", ".join(one.seen)
                unread[known] = f"it defines {seen}, but is no notebook: the .ipynb file is needed"
    return found, unread


def _members(path: Path) -> list[str]:
    """The files in an archive that may be notebooks."""
    try:
        return list(map(str, helper().ask("members", str(path))))
    except TooMuch:
        return []
