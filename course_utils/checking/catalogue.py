"""Catalogues: exercises by lesson, as a value that can be joined with another."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from .exercise import Exercise
from .key import Symptoms


class Catalogue:
    """Exercises in the order of their lessons.

    Args:
        load: gives the exercises of each lesson by `assignment/notebook`; called when first needed.
        symptoms: gives what their misconceptions break, for naming them sooner.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[str, Iterable[Exercise]]],
        symptoms: Callable[[], Mapping[str, Symptoms]] = dict,
    ) -> None:
        self._load = load
        self._symptoms = symptoms

    @classmethod
    def of(cls, *exercises: Exercise) -> Catalogue:
        """A catalogue of these exercises, each under the lesson that it names."""
        lessons: dict[str, list[Exercise]] = {}
        for e in exercises:
            lessons.setdefault(e.lesson, []).append(e)
        return cls(lambda: lessons)

    @classmethod
    def from_file(cls, path: Path | str) -> Catalogue:
        """The catalogue of a Python file that holds its exercises as `EXERCISES`.

        Raises:
            ValueError: the file is not there, can't be run, or has no `EXERCISES`.
        """
        path = Path(path)
        name = f"course_exercises_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ValueError(f"{path} is no Python file with exercises")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            return cls.of(*module.EXERCISES)
        except Exception as error:
            raise ValueError(
                f"{path} gives no exercises: {type(error).__name__}: {error}. It should hold "
                "EXERCISES, a list of Exercise."
            ) from error

    def __add__(self, other: Catalogue) -> Catalogue:
        """Both together; of two exercises with one id the one on the right counts."""

        def load() -> dict[str, list[Exercise]]:
            own = {e.id for e in other}
            lessons = {
                lesson: [e for e in exercises if e.id not in own]
                for lesson, exercises in self.by_lesson.items()
            }
            for lesson, exercises in other.by_lesson.items():
                lessons[lesson] = lessons.get(lesson, []) + exercises
            return lessons

        def symptoms() -> dict[str, Symptoms]:
            own = {e.id for e in other}
            kept = {id: known for id, known in self.symptoms.items() if id not in own}
            return kept | dict(other.symptoms)

        return Catalogue(load, symptoms)

    @cached_property
    def symptoms(self) -> Mapping[str, Symptoms]:
        """What each misconception breaks, by the exercise's id and its name."""
        return self._symptoms()

    @cached_property
    def by_lesson(self) -> dict[str, list[Exercise]]:
        return {lesson: list(exercises) for lesson, exercises in self._load().items()}

    @cached_property
    def _by_id(self) -> dict[str, Exercise]:
        return {e.id: e for e in self}

    def __iter__(self) -> Iterator[Exercise]:
        return (e for exercises in self.by_lesson.values() for e in exercises)

    def find(self, exercise_id: object) -> Exercise | None:
        """The exercise of this name, or None."""
        return self._by_id.get(exercise_id) if isinstance(exercise_id, str) else None

    def ids(self) -> list[str]:
        return list(self._by_id)

    def not_to_borrow(self, exercise: Exercise) -> dict[str, Any]:
        """The finished parts that an answer must not call: its own, and others that do the same."""
        parts = {exercise.id: exercise.reference}
        for part in exercise.same_as:
            if not isinstance(part, str):
                parts[part.__name__] = part
            elif e := self.find(part):
                parts[e.id] = e.finished or e.reference
        return {name: part for name, part in parts.items() if part is not None}

    def earlier_parts(self, exercise: Exercise, called: Collection[str]) -> dict[str, Any]:
        """The finished answers of the exercises that this one may call, those among `called`."""
        found = {id: self.find(id) for id in exercise.uses if id in called}
        return {id: e.reference for id, e in found.items() if e is not None}
