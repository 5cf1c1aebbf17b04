"""Answers that the checks are held to: right ones of other build, wrong ones outside the catalogue.

One module a lesson. `RIGHT` maps an exercise id to answers that must get full points, `WRONG` to
answers that must not; each by a short name.
"""

from __future__ import annotations

import importlib
from typing import Any

from course_utils.exercises import LESSONS


def _collect(name: str) -> dict[str, dict[str, Any]]:
    modules = [importlib.import_module(f"{__name__}.{module}") for module in LESSONS.values()]
    return {id: answers for module in modules for id, answers in getattr(module, name).items()}


RIGHT = _collect("RIGHT")
WRONG = _collect("WRONG")
