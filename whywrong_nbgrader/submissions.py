"""Submissions as untrusted data: the files in their folders, and their restored notebooks."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from functools import cache
from glob import escape, glob
from pathlib import Path
from typing import Any

from .cells import nbgrader_metadata
from .helper import TooMuch, helper
from .readable import in_a_line
from .reading import Unreadable, contents, read
from .restoring import Kept, Released, restore

MOST_BESIDE = 100 * 2**20  # bytes of a file that is not a notebook
MOST_FILES, DEEPEST = 5000, 30  # files and folders of a submission, and how deep they are nested
LONGEST_NAME = 100
TIME = re.compile(
    r"\d{4}-\d\d?-\d\d?[T ]\d\d?:\d\d(:\d\d(\.\d{1,9})?)? ?([A-Za-z/_]{1,40}|[+-]\d\d:?\d\d)?"
)
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
TEXTS = (".txt", ".json", ".html", ".htm", "")  # endings under which notebooks are saved
NOT_THEIRS = (".ipynb_checkpoints", "feedback", "__pycache__", "__MACOSX")


# Notebooks -----------------------------------------------------------------------------------


@dataclass
class Submission:
    """A submitted notebook, restored."""

    cells: list[Kept]
    notes: list[str] = field(default_factory=list)  # for the student and the instructor
    trouble: list[str] = field(default_factory=list)  # what a person should also look at
    language: str = ""  # of the edition; "" is English


def notebook(
    path: str, released: Mapping[str, Mapping[str, Any]], given: Sequence[str]
) -> dict[str, Any]:
    """Reads and restores a submitted notebook; runs in the helper."""
    try:
        found = read(path)
    except Unreadable as error:
        return {"unreadable": str(error)}
    cells = {name: Released(**cell) for name, cell in released.items()}
    made, noticed = restore(found.cells, cells, given)
    return {
        "cells": [asdict(cell) for cell in made],
        "notes": [*found.notes(), *noticed],
        "language": found.language,
        "broken": found.broken and f"only its first {len(found.cells)} cells: {found.broken}",
    }


def restored(path: Path, released: Mapping[str, Released], given: Sequence[str]) -> Submission:
    """Returns a notebook from an untrusted file, or the unsolved released cells if unreadable."""
    try:
        cells = {name: asdict(cell) for name, cell in released.items()}
        said = helper().ask("notebook", str(path), cells, list(given))
    except TooMuch as error:
        said = {"unreadable": str(error)}
    if why := said.get("unreadable"):
        told = f"**This is not the submission.** It can't be read: {why}."
        kept = [Kept(c.cell_type, c.source, n, c.metadata) for n, c in released.items()]
        why = f"the submission can't be read: {why}"
        return Submission([Kept("markdown", told), *kept], [], [why])
    broken = said["broken"]
    trouble = [f"the submission can't be read completely, {broken}"] if broken else []
    made = [Kept(**cell) for cell in said["cells"]]
    return Submission(made, said["notes"], trouble, said["language"])


def unreadable(path: Path) -> str:
    """Returns why a notebook can't be read completely, or an empty string."""
    try:
        said = helper().ask("notebook", str(path), {}, [])
    except TooMuch as error:
        return str(error)
    return str(said.get("unreadable") or said["broken"])


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


# Folders -------------------------------------------------------------------------------------


def is_a_name(name: str) -> bool:
    """Returns whether a folder's name can be a student's."""
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not re.search(r"[\\/\ud800-\udfff]", name)
    )


def below(folder: Path) -> Iterator[tuple[Path, os.stat_result | None]]:
    """Yields a submission's files and folders up to a limit; None says that more were left out."""
    left, count = [(folder, 0)], 0
    while left:
        at, depth = left.pop()
        try:
            entries = sorted(os.scandir(at), key=lambda entry: entry.name)
        except OSError:
            yield at, None
            continue
        for entry in entries:
            count += 1
            if count > MOST_FILES or depth >= DEEPEST:
                yield at, None
                break
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                yield Path(entry.path), about
                if stat.S_ISDIR(about.st_mode):
                    left.append((Path(entry.path), depth + 1))
        if count > MOST_FILES:
            return


def strange_in(folder: Path) -> list[str]:
    """Everything in a submission that is not a file or folder of normal size, in words."""
    found = []
    for path, about in below(folder):
        if about is None:
            known = in_a_line(str(path.relative_to(folder)))
            found.append(f"{known} can't be read, or has too much in it, and the rest is ignored")
        elif said := _strange(about):
            found.append(f"{in_a_line(str(path.relative_to(folder)))} {said}")
    return found[:20]


def _strange(about: os.stat_result) -> str:
    if stat.S_ISDIR(about.st_mode):
        return ""
    if not stat.S_ISREG(about.st_mode):
        return "is a link or not a file, and is ignored"
    large = about.st_size > MOST_BESIDE
    return f"has {about.st_size / 2**20:,.0f} MiB, and is ignored" if large else ""


def not_read_in(folder: Path, notebooks: Sequence[str]) -> list[str]:
    """Lists what looks like a student's work in a submission, but isn't where it is graded."""
    found = []
    for path, about in below(folder):
        inside = path.relative_to(folder)
        if about is None or not stat.S_ISREG(about.st_mode) or {*inside.parts} & {*NOT_THEIRS}:
            continue
        if len(inside.parts) == 1 and path.suffix == ".ipynb" and path.stem in notebooks:
            continue
        name = path.name.lower()
        if ".ipynb" in name:
            found.append(f"{in_a_line(str(inside))} is not a notebook of this assignment")
        elif name.endswith(ARCHIVES):
            found.append(f"{in_a_line(str(inside))} is an archive and was not read")
        elif path.suffix.lower() in TEXTS and _is_notebook(path):
            found.append(f"{in_a_line(str(inside))} is a notebook under another name; not read")
    return found[:20]


def _is_notebook(path: Path) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        begin = file.read(4000)
        return begin.lstrip(b"\xef\xbb\xbf \n")[:1] == b"{" and bool(
            re.search(rb'"(cells|nbformat|worksheets)"', begin)
        )
    return False


def submitted_at(folder: str | Path) -> datetime | None:
    """Returns the time in a submission's timestamp.txt, in UTC; None if there is no valid time."""
    from nbgrader.utils import parse_utc

    with suppress(Unreadable, OSError, ValueError, OverflowError, TypeError, AttributeError):
        found = _word(Path(folder) / "timestamp.txt")
        if TIME.fullmatch(found):
            parsed: datetime = parse_utc(found)
            return parsed
    return None


def secret_of(folder: Path) -> str:
    """Returns the secret in a submission, which names its feedback."""
    with suppress(Unreadable, ValueError):
        return _word(folder / "submission_secret.txt")
    return ""


def _word(path: Path) -> str:
    return contents(path, 200).decode("utf-8-sig").strip()


def be_careful() -> None:
    """Makes nbgrader copy only files of normal size that are next to a notebook, because a link may
    lead to anyone's file, or to one that never ends. It also makes nbgrader read times, and names
    such as `smith[2]`, as data."""
    from nbgrader.converters import base
    from nbgrader.coursedir import CourseDirectory

    def files_alone(path: str, exclude: Sequence[str] | None = None) -> list[str]:
        return [
            str(file)
            for file, about in below(Path(path))
            if about is not None and stat.S_ISREG(about.st_mode) and not _strange(about)
            if not any(
                fnmatch(part, pattern)
                for part in file.relative_to(path).parts
                for pattern in exclude or ()
            )
        ]

    def notebooks(self: base.BaseConverter) -> None:
        wanted = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        named = f"{self.coursedir.notebook_id}.ipynb"
        found = {place: glob(os.path.join(escape(place), named)) for place in glob(wanted)}
        for place in (place for place, files in found.items() if not files):
            self.log.warning("There are no notebooks in %s", in_a_line(place))
        self.assignments, self.notebooks = {k: v for k, v in found.items() if v}, []
        if not self.assignments:
            raise base.NbGraderException(f"There are no notebooks in {wanted}")

    base.find_all_files = files_alone
    base.BaseConverter.init_notebooks = notebooks
    CourseDirectory.get_existing_timestamp = lambda self, folder: submitted_at(folder)
