"""The course that is installed with this engine.

A package with exercises has an entry point in the group `whywrong.course`. The file `course.toml`
in that package describes the course, so its exercises are found without running its code.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from ._errors import libraries


@dataclass(frozen=True)
class Course:
    """The description of a course.

    Args:
        exercises: the folder of its exercises.
        package: the package that lessons import.
        kept_out: modules and folders of that package that a graded submission does not see. The
            first is the module with `check`, `hint` and `progress`, which the sandbox replaces.
        loaded: modules of that package that are loaded before a submission runs.
        translations: the folder with a folder for each language: see `language.py`.
    """

    exercises: Path
    package: str
    kept_out: tuple[str, ...]
    loaded: tuple[str, ...] = ()
    translations: Path = Path()


@cache
def installed() -> Course | None:
    """The course that is installed with this engine, or None."""
    for entry in entry_points(group="whywrong.course"):
        package = entry.module.partition(".")[0]
        folder = package_folder(package)
        told = tomllib.loads((folder / "course.toml").read_text(encoding="utf-8"))
        exercises = (folder / told["exercises"]).resolve()
        places = folder / "translations", folder / told.get("translations", "translations")
        there = next((place for place in places if place.is_dir()), places[0]).resolve()
        course = Course(exercises, package, tuple(told["kept_out"]), tuple(told["loaded"]), there)
        libraries.update({str(course.exercises), str(package_folder(course.package))})
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
