"""Catalogues: exercises by lesson, found as texts in folders: the installed course's, and an
instructor's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from ._course import installed
from ._exercise import Exercise
from ._guard import undisturbed
from ._naming import Symptoms
from ._texts import Text, exercise_from

SYMPTOMS = "symptoms.json"


@dataclass(frozen=True)
class Listed:
    """An exercise as a list shows it; `load` reads the rest of the text and the Python file.

    An exercise that isn't graded can be checked like any other, but no total contains its points.
    """

    id: str
    lesson: str
    points: float
    load: Callable[[], Exercise]
    graded: bool = True


class Catalogue:
    """Exercises in the order of their lessons, each loaded on first use.

    Args:
        listed: the exercises.
        symptoms: gives, by exercise, what its misconceptions break, so that naming is faster.
    """

    def __init__(
        self, listed: Iterable[Listed], symptoms: Callable[[], Mapping[str, Symptoms]] = dict
    ) -> None:
        self.outline: dict[str, list[Listed]] = {}
        for one in listed:
            self.outline.setdefault(one.lesson, []).append(one)
        self._by_id = {one.id: one for lesson in self.outline.values() for one in lesson}
        self._loaded: dict[str, Exercise] = {}
        self._symptoms = symptoms

    @classmethod
    def of(cls, *exercises: Exercise) -> Catalogue:
        """A catalogue of these exercises, each in the lesson that it names."""
        return cls(Listed(e.id, e.lesson, e.points, lambda e=e: e) for e in exercises)  # type: ignore[misc]

    @classmethod
    def from_folder(cls, folder: Path | str, name: str) -> Catalogue:
        """The catalogue of the texts `ASSIGNMENT/LESSON/EXERCISE.md` in a folder.

        Args:
            name: the package to which its modules belong.

        Raises:
            TextError: the head of a text can't be read, or two texts have the same name.
        """
        folder = Path(folder).resolve()
        _make_package(folder, name)
        lessons: dict[str, list[Text]] = {}
        for path in sorted(folder.glob("*/*/*.md")):
            if not path.stem.isidentifier():  # notes next to the exercises
                continue
            lessons.setdefault("/".join(path.parts[-3:-1]), []).append(Text(path))
        return cls(
            (
                Listed(
                    text.id,
                    lesson,
                    text.points,
                    lambda text=text: exercise_from(text, name),  # type: ignore[misc]
                    text.graded,
                )
                for lesson, texts in lessons.items()
                for text in _in_order(texts)
            ),
            lambda: kept_symptoms(folder / SYMPTOMS),
        )

    def __add__(self, other: Catalogue) -> Catalogue:
        """Both together; of two exercises with the same id, the right-hand one counts."""
        mine = [o for lesson in self.outline.values() for o in lesson if o.id not in other._by_id]
        theirs = [o for lesson in other.outline.values() for o in lesson]
        loaded = {**self._loaded, **other._loaded}

        def symptoms() -> dict[str, Symptoms]:
            kept = {id: s for id, s in self.symptoms.items() if id not in other._by_id}
            return kept | dict(other.symptoms)

        joined = Catalogue([*mine, *theirs], symptoms)
        joined._loaded.update(loaded)
        return joined

    @cached_property
    def symptoms(self) -> Mapping[str, Symptoms]:
        """What each misconception breaks, by exercise id and misconception name."""
        return self._symptoms()

    @property
    def by_lesson(self) -> dict[str, list[Exercise]]:
        """All exercises, loaded."""
        return {
            lesson: [self._load(one) for one in listed] for lesson, listed in self.outline.items()
        }

    def _load(self, listed: Listed) -> Exercise:
        if listed.id not in self._loaded:
            with undisturbed():  # a tensor of the exercise must not have the reader's default dtype
                self._loaded[listed.id] = listed.load()
        return self._loaded[listed.id]

    def __iter__(self) -> Iterator[Exercise]:
        return (self._load(one) for listed in self.outline.values() for one in listed)

    def find(self, exercise_id: object) -> Exercise | None:
        """The exercise of this name, or None.

        Raises:
            TextError: its text or its Python file is faulty.
        """
        listed = self._by_id.get(exercise_id) if isinstance(exercise_id, str) else None
        return self._load(listed) if listed else None

    def ids(self) -> list[str]:
        return list(self._by_id)

    def points(self) -> dict[str, float]:
        """The points of each exercise."""
        return {id: listed.points for id, listed in self._by_id.items()}

    def ungraded(self) -> set[str]:
        """Returns the exercises whose points are in no total: their header has `graded: no`."""
        return {id for id, listed in self._by_id.items() if not listed.graded}

    def not_to_borrow(self, exercise: Exercise) -> dict[str, Any]:
        """The finished parts that an answer must not call: its own, and any that do the same."""
        parts = {exercise.id: exercise.finished}
        for part in exercise.rules.same_as:
            if not isinstance(part, str):
                parts[part.__name__] = part
            elif e := self.find(part):
                parts[e.id] = e.finished
        return {name: part for name, part in parts.items() if part is not None}

    def earlier_parts(self, exercise: Exercise, called: Collection[str]) -> dict[str, Any]:
        """The finished answers of those exercises in `called` that this one may call."""
        found = {id: self.find(id) for id in exercise.rules.uses if id in called}
        return {id: e.finished or e.reference for id, e in found.items() if e is not None}


def _make_package(folder: Path, name: str) -> None:
    """Lets the Python files of a folder import its `shared` by this name, even if Python would find
    another folder of that name first."""
    known = sys.modules.get(name)
    if known is None or [*getattr(known, "__path__", ())] != [str(folder)]:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[name] = module_from_spec(spec)


def _in_order(texts: list[Text]) -> list[Text]:
    """Puts each text after the one that its field `after` names; without it, sorts by name."""
    ordered: list[Text] = []
    waiting = sorted(texts, key=lambda text: text.id)
    while waiting:
        there = {text.id for text in ordered}
        ready = [t for t in waiting if not (after := t.head.get("after")) or after in there]
        if not ready:
            ids = {text.id for text in texts}
            lost = next((t for t in waiting if t.head["after"] not in ids), waiting[0])
            lost.refuse(1, f"`after: {lost.head['after']}` names no earlier exercise")
        # The text that follows the last one comes next, so that a second chain doesn't break it.
        last = ordered[-1].id if ordered else ""
        chosen = next((t for t in ready if t.head.get("after") == last), ready[0])
        ordered.append(chosen)
        waiting.remove(chosen)
    return ordered


def kept_symptoms(path: Path) -> dict[str, Symptoms]:
    """Reads the file that `python -m tools.matrix --keep` writes: the cases on which a
    misconception breaks each property; empty if there is no file."""
    if not path.is_file():
        return {}
    return {
        id: {
            name: frozenset((property, i) for property, cases in broken.items() for i in cases)
            for name, broken in known.items()
        }
        for id, known in json.loads(path.read_text(encoding="utf-8")).items()
    }


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
