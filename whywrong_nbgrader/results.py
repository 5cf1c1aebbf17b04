"""Stores the results of notebooks by content: the same cells never run twice.

A result depends on the cells, the exercises, the seed and the course itself, and on nothing else.
It is written completely or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import torch

from whywrong.hosting import installed, own_folders, package_folder

from .cells import Cell
from .fork_server import HERE
from .notebooks import Graded, Times

MOST_FILES = 50 * 2**20  # bytes of the files next to the lessons
FOLDER = ".grading"  # in the course's folder: the secret, and the results


class CantKeep(RuntimeError):
    """A result could not be written; the message says where and why."""


@cache
def secret(course: Path) -> str:
    """The seed of all inputs: COURSE_GRADING_SEED, else a secret of this folder."""
    given = os.environ.get("COURSE_GRADING_SEED", "").strip()
    if given:
        return given
    place = course / FOLDER / "secret"
    if not place.exists():
        _write(place, secrets.token_hex(16))
        place.chmod(0o600)
    return place.read_text(encoding="utf-8").strip()


def seed_from(text: str) -> Callable[[str], int]:
    """The seed for each exercise's inputs: all different, none guessable."""

    def seed_of(exercise: str) -> int:
        return 1 + int(_digest(text, exercise)[:15], 16)

    return seed_of


@cache
def version() -> str:
    """A digest of the installed course: every line of it, and PyTorch's version."""
    folders = [HERE, package_folder("whywrong")]
    if course := installed():
        folders += [package_folder(course.package), course.exercises]
    sources = [p.read_bytes() for folder in folders for p in texts_of(folder)]
    return _digest(torch.__version__, *(hashlib.sha256(s).hexdigest() for s in sources))


def texts_of(folder: Path) -> list[Path]:
    """The programs and texts of a folder, in the same order on every machine."""
    return sorted(p for ending in ("py", "md") for p in folder.rglob(f"*.{ending}"))


@dataclass(frozen=True)
class Settings:
    """Everything besides the cells that a result depends on."""

    secret: str  # the seed of the inputs
    tier: str  # the protection between a submission and this machine
    times: Times
    own: tuple[Path, ...] = ()  # the folders of an instructor's own exercises
    files: Mapping[str, bytes] = field(default_factory=dict)  # of the assignment, by name

    @classmethod
    def of(cls, course: Path, tier: str, assignment: Path | None = None) -> Settings:
        """Returns the settings of a course's folder; `assignment` is the folder of the lessons."""
        files = files_of(assignment) if assignment else {}
        return cls(secret(course), tier, Times.usual(), own_folders(), files)

    def name(self, cells: Sequence[Cell]) -> str:
        """The name of a result: a digest of everything that it depends on."""
        own = _digest(*(p.read_text(encoding="utf-8") for f in self.own for p in texts_of(f)))
        told = json.dumps([asdict(self.times), [asdict(c) for c in cells]])
        files = [f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in self.files.items()]
        return _digest(version(), own, self.secret, self.tier, told, *files)


def files_of(assignment: Path) -> dict[str, bytes]:
    """Returns the files next to an assignment's lessons, such as data, by path below its folder."""
    found: dict[str, bytes] = {}
    for path in sorted(assignment.rglob("*")):
        name = path.relative_to(assignment)
        hidden = any(part.startswith((".", "__")) for part in name.parts)
        if path.is_file() and path.suffix != ".ipynb" and not hidden:
            found[name.as_posix()] = path.read_bytes()
    size = sum(map(len, found.values()))
    if size > MOST_FILES:
        raise CantKeep(
            f"the files in {assignment} have {size / 2**20:.0f} MiB: at most 50 are used"
        )
    return found


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Results:
    """Results in a folder, one file each."""

    def __init__(self, course: Path) -> None:
        self.folder = course / FOLDER / "results"

    def _place(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"

    def find(self, name: str) -> Graded | None:
        """A stored result, or None."""
        with suppress(OSError, ValueError, TypeError):
            return Graded(**json.loads(self._place(name).read_text(encoding="utf-8")))
        return None

    def keep(self, name: str, graded: Graded) -> None:
        """Writes a result; raises `CantKeep` if the disk is full or the folder can't be written."""
        _write(self._place(name), json.dumps(graded.to_dict()))


def _write(place: Path, text: str) -> None:
    made = ""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(dir=place.parent, prefix=".")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, place)
    except OSError as error:
        with suppress(OSError):
            os.unlink(made)
        raise CantKeep(f"{place.parent} can't be written: {error.strerror or error}") from None
