"""Before any test or notebook runs: which device the notebooks compute on."""

import os

from course_utils.environment import device


def pytest_report_header() -> str:
    """Settle ``COURSE_DEVICE`` once, so that a notebook's outputs never hold the line about it."""
    wanted = os.environ.get("COURSE_DEVICE") or "cpu"
    os.environ["COURSE_DEVICE"] = str(device())
    return f"notebooks run on: {os.environ['COURSE_DEVICE']} (COURSE_DEVICE: {wanted})"
