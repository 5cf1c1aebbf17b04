"""Before any test or notebook runs: which device they compute on, and no progress is kept."""

import os

import pytest

from course_utils.environment import device

WANTED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Settle ``COURSE_DEVICE`` once, so that no notebook's output holds the line about it."""
    config.stash[WANTED] = os.environ.get("COURSE_DEVICE") or "cpu"
    os.environ["COURSE_DEVICE"] = str(device())
    os.environ["COURSE_PROGRESS"] = "off"


def pytest_report_header(config: pytest.Config) -> str:
    used, wanted = os.environ["COURSE_DEVICE"], config.stash[WANTED]
    return f"notebooks run on: {used}" + (f" (no {wanted} here)" if used != wanted else "")
