"""Answers that the checks are held to: right ones of other build, wrong ones outside the catalogue.

One module a lesson, and one more for heads. `RIGHT` maps an exercise id to answers that must get
full points, `WRONG` to answers that must not; each by a short name.
"""

from __future__ import annotations

import importlib
from typing import Any

from course_utils.exercises import LESSONS


def _collect(name: str) -> dict[str, dict[str, Any]]:
    collected: dict[str, dict[str, Any]] = {}
    for module in (*LESSONS.values(), "odd_heads"):
        answers = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        for id, of_exercise in answers.items():
            collected.setdefault(id, {}).update(of_exercise)
    return collected


RIGHT = _collect("RIGHT")
WRONG = _collect("WRONG")
