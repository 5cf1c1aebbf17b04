"""The exercises of the installed course, and an instructor's own."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from .catalogue import Catalogue
from .installed import Course, installed, package_folder

__all__ = [
    "Course",
    "catalogue",
    "course_folder",
    "installed",
    "joined",
    "own_folders",
    "package_folder",
]


@cache
def joined(folders: tuple[Path, ...]) -> Catalogue:
    """The course's exercises and those in these folders."""
    course = installed()
    catalogue = Catalogue.from_folder(course.exercises, "exercises") if course else Catalogue([])
    for number, folder in enumerate(folders):
        catalogue = catalogue + Catalogue.from_folder(folder, f"own_exercises_{number}")
    return catalogue


def catalogue() -> Catalogue:
    """The course's exercises and an instructor's own.

    An instructor's are in the folders that the environment variable COURSE_EXERCISES names
    (separated as in PATH), else in the folder `exercises` next to nbgrader_config.py.
    """
    return joined(own_folders())


def own_folders() -> tuple[Path, ...]:
    """The folders of an instructor's own exercises."""
    named = os.environ.get("COURSE_EXERCISES")
    if named:
        return tuple(Path(p).resolve() for p in named.split(os.pathsep))
    beside, course = course_folder(), installed()
    own = beside and (beside / "exercises").resolve()
    if own is None or not own.is_dir() or (course and own == course.exercises.resolve()):
        return ()
    return (own,)


def course_folder() -> Path | None:
    """The nearest folder above the notebook that contains nbgrader_config.py."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "nbgrader_config.py").exists():
            return folder
    return None
