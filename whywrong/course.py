"""The installed course, and an instructor's own exercises.

A package with exercises has an entry point in the group `whywrong.course`. The file `course.toml`
in that package describes the course, so no code of the course runs to find its exercises.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from . import errors
from .catalogue import Catalogue


@dataclass(frozen=True)
class Course:
    """The description of a course.

    Args:
        exercises: the folder of its exercises.
        package: the package that lessons import.
        kept_out: modules and folders of that package that a graded submission does not see. The
            first is the module with `check`, `hint` and `progress`, which another one replaces.
        loaded: modules of that package that are loaded before a submission runs.
    """

    exercises: Path
    package: str
    kept_out: tuple[str, ...]
    loaded: tuple[str, ...] = ()


@cache
def installed() -> Course | None:
    """The course that is installed with this engine, or None."""
    for entry in entry_points(group="whywrong.course"):
        package = entry.module.partition(".")[0]
        folder = package_folder(package)
        told = tomllib.loads((folder / "course.toml").read_text(encoding="utf-8"))
        exercises = (folder / told["exercises"]).resolve()
        course = Course(exercises, package, tuple(told["kept_out"]), tuple(told["loaded"]))
        errors.libraries |= {str(course.exercises), str(package_folder(course.package))}
        return course
    return None


def package_folder(name: str) -> Path:
    """The path of a package, found without loading it.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed", name=name)
    return Path(next(iter(found.submodule_search_locations))).resolve()


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
