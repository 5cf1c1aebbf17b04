"""The desk of a notebook that is being graded: nothing is judged here.

It takes the place of `course_utils.desk` inside the sandbox. Verdicts are made outside, from what
an answer does with inputs that are drawn there.
"""

from __future__ import annotations

from typing import Any

from whywrong.card import Message
from whywrong.report import Report

TEXT = "This is checked where nothing that runs in this notebook can reach."


def check(exercise_id: str, answer: Any = None, *, seed: int | str | None = None) -> Report:
    """What a check says while a class is graded."""
    return Report.nothing(str(exercise_id), TEXT)


def yours(exercise_id: str, answer: Any, finished: Any) -> Any:
    return finished


def hint(exercise_id: str, number: int | None = None) -> Message:
    return Message(str(exercise_id)[:60], "There are no hints while a class is graded.")


def progress() -> Message:
    return Message("Progress", "None is kept while a class is graded.")
