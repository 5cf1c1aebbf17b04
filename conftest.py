"""Which device tests and notebooks compute on and with how many threads, no progress is kept, and
what was not tested."""

import gc
import os
from collections import Counter
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from xdist.scheduler import LoadFileScheduling

from course_utils.environment import device

BROWSER = "tests/browser"
STUDENTS = Path(__file__).parent / "notebooks"
WANTED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Settle `COURSE_DEVICE` once, so that no notebook's output holds the line about it."""
    config.stash[WANTED] = os.environ.get("COURSE_DEVICE") or "cpu"
    os.environ["COURSE_DEVICE"] = str(device())
    os.environ["COURSE_PROGRESS"] = "off"
    # Said once, here: a worker that begins after midnight would have other tests than the others.
    os.environ.setdefault("COURSE_TEST_DAY", str(date.today().toordinal()))
    # Tests run side by side: with sizes like these, threads of several would wait for each other.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    os.environ.setdefault("COURSE_CHECK_SECONDS", "60")  # a busy machine is no endless loop


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Nothing is stored in the students' notebooks, and nothing of them is compared."""
    files = yield
    if STUDENTS in file_path.parents:
        for file in files:
            file.compare_outputs = False
    return files


def pytest_collection_finish() -> None:
    """What is loaded by now stays: no collection of garbage needs to look through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Twice as many as there are cores, so that none is idle while a test waits for a program."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # xdist's own rule
    return 2 * (psutil.cpu_count(logical=False) or 1)


class InOrder(LoadFileScheduling):
    """A file at a time to each worker, except that one has all tests in a browser: they share a
    server, and a browser."""

    def _split_scope(self, nodeid: str) -> str:
        return BROWSER if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> InOrder | None:
    return InOrder(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI nothing is skipped: what can't be tested there fails."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"In CI nothing may be skipped. {_reason(report)}"
    return report


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return told.removeprefix("Skipped: ")


def pytest_report_header(config: pytest.Config) -> str:
    used, wanted = os.environ["COURSE_DEVICE"], config.stash[WANTED]
    return f"notebooks run on: {used}" + (f" (no {wanted} here)" if used != wanted else "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the end, in a line for each reason, what a green run has not tested."""
    reasons = Counter(map(_reason, terminalreporter.stats.get("skipped", [])))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"NOT TESTED HERE, {count} tests: {reason}", yellow=True)
