"""The student's desk: checks, hints, points, predictions, the environment, lessons as files."""

from typing import Any


def __getattr__(name: str) -> Any:
    # Loaded on first use, because the environment check works without PyTorch.
    if name == "COURSE":
        from .checks import COURSE

        return COURSE
    raise AttributeError(name)
