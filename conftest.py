"""Sets the device and threads for tests and notebooks; reports which tests a run leaves out."""

import gc
import os
import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from course_utils.desk.environment import device

ROOT = Path(__file__).parent
BROWSER = "tests/browser"
MATRIX = re.compile(r"tests/test_matrix\.py.*\[(\w+)")
STUDENTS, SOLUTIONS, TESTS = ROOT / "notebooks", ROOT / "solutions", ROOT / "tests"
# Examples are run in modules; these folders contain answers and exercises, which aren't importable.
collect_ignore_glob = ["tests/answers/*", "tests/whywrong/tiny/*"]
WANTED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="also tests marked `full`")


def pytest_configure(config: pytest.Config) -> None:
    """Resolve `COURSE_DEVICE` once, so that no notebook's output contains the line about it."""
    config.addinivalue_line("markers", "full(what): left out of `make test`; what it tests")
    config.stash[WANTED] = os.environ.get("COURSE_DEVICE") or "cpu"
    os.environ["COURSE_DEVICE"] = str(device())
    os.environ["COURSE_PROGRESS"] = "off"
    # Nothing is drawn from the clock or the machine, so a commit always gets the same result.
    os.environ["COURSE_GRADING_SEED"] = "the seed of all tests"
    settings.register_profile("always the same", derandomize=True, database=None)
    settings.load_profile("always the same")
    # Tests run in parallel: at these sizes, the threads of several tests would block each other.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    os.environ.setdefault("COURSE_CHECK_SECONDS", "60")  # allows for busy machines
    if not config.getoption("--everything"):
        from tests import forked_kernels

        forked_kernels.use()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Students' notebooks have no stored outputs, so none are compared."""
    files = yield
    if STUDENTS in file_path.parents:
        for file in files:
            file.compare_outputs = False
    return files


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A module without an example need not be imported; each worker imports all others."""
    if collection_path.suffix != ".py" or TESTS in collection_path.parents:
        return None
    return ">>>" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for file in {item.parent for item in items if SOLUTIONS in item.path.parents}:
        _leave_out_what_is_not_compared(file, items)
    # The matrix is in many parts, which fill the time until the last worker ends.
    items.sort(key=lambda item: MATRIX.match(item.nodeid) is not None)
    if config.getoption("--everything"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def _leave_out_what_is_not_compared(file: Any, items: list[pytest.Item]) -> None:
    """Most of it is training. tests/test_editions.py runs the first steps."""
    from tests import lesson_cells  # needs what only tests have

    stays = lesson_cells.compared([cell for cell in file.nb.cells if cell.cell_type == "code"])
    for item in items:
        if item.parent is file and item.cell_num not in stays:
            item.add_marker(pytest.mark.full("what solved lessons train for the reader alone"))


def pytest_collection_finish() -> None:
    """Excludes everything loaded so far from garbage collection, because it stays anyway."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Three workers for two cores, so that no core is idle while a test waits for a program. Each
    collects and imports everything anew, which two workers per core would pay more for."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # xdist's own rule
    return -(-3 * (psutil.cpu_count(logical=False) or 1) // 2)


class InOrder(LoadFileScheduling):
    """Gives each worker one file at a time, or one exercise of the matrix. All browser tests go to
    one worker, because they share a server and a browser."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BROWSER):
            return BROWSER
        exercise = MATRIX.match(nodeid)
        return exercise[1] if exercise else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> InOrder | None:
    return InOrder(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a test that would be skipped fails."""
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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report what a successful run has not tested: one line for the tests that `make test` leaves
    out, and one per reason to skip."""
    if not config.getoption("--everything"):
        terminalreporter.write_line(f"Left to `make test-all`: {', '.join(left_out())}.")
    from tools import sentences, translations  # they need what only tests have

    for to in translations.languages():
        terminalreporter.write_line(
            f"{translations.total(to, translations.notebooks())}; {sentences.total(to)}"
        )
    reasons = Counter(map(_reason, terminalreporter.stats.get("skipped", [])))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"NOT TESTED HERE, {count} tests: {reason}", yellow=True)


def left_out() -> list[str]:
    """The names in the marks `full` of all tests, and what `make test` doesn't name."""
    marks = re.compile(r'mark\.full\(\s*"([^"]+)"')
    texts = (path.read_text("utf-8") for path in [ROOT / "conftest.py", *TESTS.rglob("*.py")])
    whole = "students' notebooks from top to bottom in a kernel"
    return sorted({whole, *(what for text in texts for what in marks.findall(text))})
