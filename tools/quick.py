"""`make quick`: runs the tests that can fail for one lesson, while you write it.

    python -m tools.quick 04

runs in parallel its solution (strict: outputs as stored), its unsolved student edition, its
exercises with all known answers, and the tests about this lesson and these exercises. It lists what
it leaves to `make test`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from whywrong.hosting import catalogue

from . import ROOT

Run = Callable[[list[str]], subprocess.Popen]
THE_MATRIX = "the exercises"
# Test files whose tests are named after a lesson or an exercise.
ABOUT_LESSONS = (
    *("test_editions", "test_minutes", "test_guesses", "test_exercises"),
    *("test_other_ways", "test_naming", "test_layers", "test_families"),
)
# Tests in these files about all lessons at once.
ABOUT_ALL = (
    *("one_sentence", "answer_has_an_exercise", "graded_once", "every_link"),
    *("105_minutes", "30_minutes", "every_term", "up_to_date_with_solutions", "test_layers"),
    "lead_to_every_lesson",
)
LEFT_OUT = "mypy and ruff, the packages' own tests, grading, other lessons"


def lesson(name: str, course: Path = ROOT) -> str:
    """`assignment/notebook` of the lesson whose file name begins this way: `04`, `04_single_head`.

    Raises:
        ValueError: no lesson does, or several do; the message lists the lessons.
    """
    lessons = sorted(
        p.relative_to(course / "solutions") for p in course.glob("solutions/*/*.ipynb")
    )
    found = [path for path in lessons if name and path.name.startswith(name.zfill(2))]
    if len(found) != 1:
        known = ", ".join(path.stem for path in lessons)
        raise ValueError(f"Which lesson? LESSON={name} is none of these: {known}.")
    return str(found[0].with_suffix(""))


def parts(name: str) -> dict[str, list[str]]:
    """The commands for a lesson, by name."""
    pytest = [sys.executable, "-m", "pytest", "--quiet", "--no-header", "-p", "no:cacheprovider"]
    stem = name.split("/")[1]
    ids = [one.id for one in catalogue().outline.get(name, ())]
    about = " or ".join([stem, "index", *ABOUT_ALL, *ids])
    found = {
        "the solution": [*pytest, "--everything", "--nbval", f"solutions/{name}.ipynb"],
        "the student edition": [*pytest, "--nbval-lax", f"notebooks/{name}.ipynb"],
        "examples in docstrings": [*pytest, "--doctest-modules", "course_utils"],
        "tests about them": [*pytest, "-k", about, *(f"tests/{f}.py" for f in ABOUT_LESSONS)],
    }
    return found | ({THE_MATRIX: [sys.executable, "-m", "tools.matrix", *ids]} if ids else {})


def wrong_cells(said: str) -> str:
    """The wrong lines of the matrix, or the end of its output if it could not run."""
    lines = said.splitlines()
    return "\n".join([line for line in lines if "<-- WRONG" in line] or lines[-20:])


def start(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def main(arguments: list[str], start: Run = start) -> int:
    try:
        (said,) = arguments or [""]
        name = lesson(said)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.perf_counter()
    running = {part: start(command) for part, command in parts(name).items()}
    failed = []
    for part, process in running.items():
        said, _ = process.communicate()
        if process.returncode:
            failed.append(part)
            print(wrong_cells(said) if part == THE_MATRIX else said)
        print(f"{part}: {'FAILED' if process.returncode else 'passed'}", flush=True)
    seconds = time.perf_counter() - began
    verdict = f"look at {' and '.join(failed)}" if failed else "all well"
    print(f"{name}: {verdict}, {seconds:.0f} s. Left to `make test`: {LEFT_OUT}.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
