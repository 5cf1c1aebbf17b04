"""The catalogue: every exercise of the course, one module a lesson, loaded when first asked for."""

from __future__ import annotations

import importlib
from functools import cache

from ..checking.exercise import Exercise

LESSONS = {
    "1-averages/01_naive_mean": "lesson_01",
    "1-averages/02_tril_matmul": "lesson_02",
    "1-averages/03_softmax_masking": "lesson_03",
    "2-single-head/04_single_head": "lesson_04",
    "2-single-head/05_padding_mask": "lesson_05",
    "3-multi-head/06_heads_side_by_side": "lesson_06",
    "3-multi-head/07_split_heads": "lesson_07",
}


@cache
def by_lesson() -> dict[str, list[Exercise]]:
    """All exercises in the order of the lessons, by `assignment/notebook`."""
    return {
        lesson: list(importlib.import_module(f".{module}", __name__).EXERCISES)
        for lesson, module in LESSONS.items()
    }


@cache
def _by_id() -> dict[str, Exercise]:
    return {e.id: e for exercises in by_lesson().values() for e in exercises}


def find(exercise_id: object) -> Exercise | None:
    """The exercise of this name, or None."""
    return _by_id().get(exercise_id) if isinstance(exercise_id, str) else None


def ids() -> list[str]:
    """The names of all exercises."""
    return list(_by_id())
