"""A submission's cells as grading has them. It needs nothing, and most of nbgrader's commands need
no more than this of grading: they are not to wait for PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A code cell of a submission.

    Args:
        checks: the exercise whose points this cell is for; it is not run, the answer is judged.
        locked: the course's own: written by no student.
    """

    source: str
    checks: str = ""
    locked: bool = False
