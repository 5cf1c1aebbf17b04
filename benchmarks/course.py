"""Time the operations that a student, an instructor and CI wait for.

    python benchmarks/course.py [checks [EXERCISE ...]] [imports] [nbval] [autograde [ASSIGNMENT]]

Without arguments, it runs all four. Times are from one run on this machine; the output says which
are medians. `checks`: the answers in exercises/, as a student could submit them, and the first
check in a fresh kernel. `imports`: the package's time in addition to `import torch`. `nbval`:
strict over solutions/. `autograde`: one submitted notebook, by nbgrader; by default 3-multi-head.
"""

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COURSE = Path(__file__).resolve().parent.parent
NBGRADER = [sys.executable, "-m", "nbgrader"]


def seconds(action: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


FIRST_CHECK = """
import sys
from time import perf_counter as now
import torch
from tools.matrix import answers
from whywrong.hosting import catalogue
lesson = catalogue().find(sys.argv[1]).lesson
answer = next(iter(answers(lesson).RIGHT[sys.argv[1]].values()))
start = now()
from course_utils import check
check(sys.argv[1], answer)
print(now() - start)
"""


def checks(*wanted: str) -> None:
    """The time of a check, by its verdict: for each answer the median of 3, after a first run."""
    from course_utils import check
    from tools.matrix import answers
    from whywrong.hosting import catalogue

    lessons = [answers(lesson) for lesson in catalogue().outline]
    right = {name: those for module in lessons for name, those in module.RIGHT.items()}
    wrong = {
        name: {told: answer for told, (_, answer) in those.items()}
        for module in lessons
        for name, those in module.WRONG.items()
    }

    print("one check, in milliseconds:   right           wrong         first in a fresh")
    print("                            median  worst   median  worst   process, with imports")
    for name in wanted or right:
        check(name, None)
        times = [
            [
                1000 * seconds(lambda name=name, answer=answer: check(name, answer))
                for answer in kind
            ]
            for kind in (right[name].values(), wrong.get(name, {}).values())
        ]
        numbers = [f(kind or [math.nan]) for kind in times for f in (statistics.median, max)]
        first = subprocess.run(
            [sys.executable, "-c", FIRST_CHECK, name],
            cwd=COURSE,
            check=True,
            capture_output=True,
            text=True,
        )
        numbers.append(1000 * float(first.stdout))
        print(f"  {name:<26}" + "{:6.0f} {:6.0f}   {:6.0f} {:6.0f}   {:6.0f}".format(*numbers))


IMPORTS = """
from time import perf_counter as now
a = now(); import torch; b = now(); import course_utils; c = now()
from course_utils import check, hint, progress; d = now()
print(b - a, c - b, d - c)
"""


def imports() -> None:
    def python() -> list[float]:
        done = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True)
        return [float(word) for word in done.stdout.split()]

    torch, package, used = map(statistics.median, zip(*(python() for _ in range(7)), strict=True))
    print("imports, median of 7 fresh processes, in seconds:")
    print(f"  import torch                       {torch:6.3f}")
    print(f"  then import course_utils           {package:6.3f}")
    print(f"  then its check, hint and progress  {used:6.3f}")


def nbval() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--everything", "--nbval"]
    command += ["-n", "auto", "--dist", "loadfile"]
    start = time.perf_counter()
    subprocess.run([*command, "solutions"], cwd=COURSE, check=True, stdout=subprocess.DEVNULL)
    count = len(list((COURSE / "solutions").rglob("*.ipynb")))
    print(f"nbval, strict, {count} notebooks: {time.perf_counter() - start:.1f} s")


def autograde(assignment: str = "3-multi-head") -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copy(COURSE / "nbgrader_config.py", root)
        shutil.copytree(COURSE / "solutions", root / "solutions")

        def nbgrader(*arguments: str) -> None:
            run = subprocess.run(
                [*NBGRADER, *arguments], cwd=root, capture_output=True, text=True, check=False
            )
            if run.returncode:
                sys.exit(run.stderr[-2000:])

        nbgrader("generate_assignment", assignment)
        students = 4
        for number in range(students):
            shutil.copytree(
                root / "solutions" / assignment, root / f"submitted/s{number}/{assignment}"
            )
        lessons = len(list((root / "solutions" / assignment).glob("*.ipynb")))
        start = time.perf_counter()
        nbgrader("autograde", assignment)
        spent = time.perf_counter() - start
        each = spent / (students * lessons)
        size = f"{students} students × {lessons} notebooks"
        print(f"autograde {assignment}: {each:.2f} s a notebook ({size})")


BENCHMARKS: dict[str, Callable[..., None]] = {
    "checks": checks,
    "imports": imports,
    "nbval": nbval,
    "autograde": autograde,
}


def main(words: list[str]) -> None:
    """Run the named benchmarks, each with the words that follow it, or all."""
    wanted: list[list[str]] = [] if words else [[name] for name in BENCHMARKS]
    for word in words:
        if word in BENCHMARKS:
            wanted.append([word])
        elif wanted:
            wanted[-1].append(word)
        else:
            sys.exit(f"there is no benchmark {word}; choose from {', '.join(BENCHMARKS)}")
    for name, *arguments in wanted:
        BENCHMARKS[name](*arguments)


if __name__ == "__main__":
    os.environ["COURSE_PROGRESS"] = "off"
    sys.path.insert(0, str(COURSE))  # for tests.answers
    main(sys.argv[1:])
