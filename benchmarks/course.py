"""Time what a student, an instructor and CI wait for.

    python benchmarks/course.py [checks] [imports] [nbval] [autograde]

Without arguments: all four. Times are of this machine, in one run; the lines say what they are
medians of. `checks`: one `check` of each exercise, by its reference (which a right answer is like)
and by its slowest misconception (naming it takes longest). `imports`: what the package adds to
`import torch`. `nbval`: strict over solutions/. `autograde`: one submitted notebook, by nbgrader.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COURSE = Path(__file__).resolve().parent.parent
NBGRADER = [sys.executable, "-m", "nbgrader"]


def seconds(action, rounds: int = 7) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def checks() -> None:
    from course_utils.checking import check_exercise
    from course_utils.exercises import by_lesson

    print("one check, median of 7, in milliseconds (right answer, slowest misconception):")
    for exercises in by_lesson().values():
        for e in exercises:
            check_exercise(e, e.reference)
            right = seconds(lambda e=e: check_exercise(e, e.reference))
            wrong = max(
                seconds(lambda e=e, m=m: check_exercise(e, m.answer), rounds=3)
                for m in e.misconceptions
            )
            print(f"  {e.id:<28} {1000 * right:7.1f} {1000 * wrong:9.1f}")


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
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "--nbval"]
    start = time.perf_counter()
    subprocess.run([*command, "solutions"], cwd=COURSE, check=True, stdout=subprocess.DEVNULL)
    count = len(list((COURSE / "solutions").rglob("*.ipynb")))
    print(f"nbval, strict, {count} notebooks: {time.perf_counter() - start:.1f} s")


def autograde() -> None:
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

        nbgrader("generate_assignment", "1-averages", "--force")
        students = 4
        for number in range(students):
            shutil.copytree(
                root / "solutions" / "1-averages", root / f"submitted/s{number}/1-averages"
            )
        lessons = len(list((root / "solutions" / "1-averages").glob("*.ipynb")))
        start = time.perf_counter()
        nbgrader("autograde", "1-averages")
        spent = time.perf_counter() - start
        each = spent / (students * lessons)
        print(f"autograde: {each:.2f} s a notebook ({students} students × {lessons} notebooks)")


if __name__ == "__main__":
    os.environ["COURSE_PROGRESS"] = "off"
    wanted = sys.argv[1:] or ["checks", "imports", "nbval", "autograde"]
    for name in wanted:
        {"checks": checks, "imports": imports, "nbval": nbval, "autograde": autograde}[name]()
