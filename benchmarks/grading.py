"""Time the grading of a class: nbgrader alone against `course grade`, on the same submissions.

    python benchmarks/grading.py [ASSIGNMENT ...] [--students 40] [--workers 2]
    python benchmarks/grading.py --predict [--notebook S] [--writer S] [--start S]

The default assignments are 1-averages and 3-multi-head. nbgrader alone executes each notebook in a
kernel, including the checks, without a sandbox; `course grade` starts with an empty `.grading`.
Neither includes feedback. Memory is the peak of a command and all its children together, with
shared memory counted once (PSS or, if that can't be read, resident minus shared).

`--predict` computes how long 1,000 students × 14 lessons would take on machines of several sizes,
from three measured numbers: seconds per notebook on a worker, seconds per notebook for the single
writer of the gradebook, and seconds until a worker has its server.
"""

from __future__ import annotations

import argparse
import heapq
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

COURSE = Path(__file__).resolve().parent.parent
ALONE = """
from nbconvert.exporters import NotebookExporter

c.Autograde.exporter_class = NotebookExporter
c.Autograde.create_student = True
c.Autograde.autograde_preprocessors = [
    nbgrader.Execute,
    nbgrader.LimitOutput,
    nbgrader.SaveAutoGrades,
    nbgrader.AssignLatePenalties,
    nbgrader.CheckCellMetadata,
]
c.Execute.timeout = 60
c.Execute.interrupt_on_timeout = True
c.Execute.shutdown_kernel = "immediate"
"""
# nbgrader alone fails for a student whose notebook can't be read or ends its kernel.
LEFT_OUT = ("endless", "deadly", "unreadable")
EVERY = 0.5  # seconds between two measurements of memory


@dataclass
class Measured:
    seconds: float
    memory: int
    status: int


def held(process: psutil.Process) -> int:
    """Bytes of a process, including its share of shared memory."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
    except (OSError, StopIteration):
        pass
    try:
        info = process.memory_info()
        return info.rss - getattr(info, "shared", 0)
    except psutil.Error:
        return 0


def measure(command: list[str], folder: Path, environment: dict[str, str]) -> Measured:
    start, most, over = time.perf_counter(), 0, threading.Event()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def watch() -> None:
        nonlocal most
        while not over.wait(EVERY):
            try:
                first = psutil.Process(process.pid)
                family = [first, *first.children(recursive=True)]
            except psutil.Error:
                return
            most = max(most, sum(map(held, family)))

    watching = threading.Thread(target=watch)
    watching.start()
    status = process.wait()
    seconds = time.perf_counter() - start
    over.set()
    watching.join()
    return Measured(seconds, most, status)


def compare(assignment: str, students: int, workers: int) -> None:
    from nbgrader.api import Gradebook

    from tests.generated_class import make_class, make_course

    with tempfile.TemporaryDirectory() as place:
        course = make_course(Path(place) / "ours", assignment)
        made = make_class(course, assignment, students, leave_out=LEFT_OUT)
        alone = Path(place) / "alone"
        shutil.copytree(course, alone)
        with (alone / "nbgrader_config.py").open("a") as config:
            config.write(ALONE)
        environment = os.environ | {
            "PYTHONPATH": str(COURSE),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COURSE_GRADING_SEED": "a benchmark",
            "COURSE_PROGRESS": "off",
        }
        # RestoreCells needs a sandbox or this word; the kernels have no sandbox.
        trusting = environment | {"COURSE_TRUST_SUBMISSIONS": "yes"}
        stock = measure(
            [sys.executable, "-m", "nbgrader", "autograde", assignment], alone, trusting
        )
        program = [sys.executable, "-m", "course_utils", "grade", assignment, "--enrol"]
        ours = measure([*program, "--workers", str(workers)], course, environment)
        notebooks = sum(len(s.points) for s in made)
        distinct = len(list(course.glob(".grading/results/*/[!.]*.json")))
        print(f"{assignment}: {students} students, {notebooks} notebooks, {distinct} distinct")
        for name, m in (("nbgrader alone", stock), (f"course grade, {workers} workers", ours)):
            print(
                f"  {name:<24} {m.seconds:7.1f} s  {60 * notebooks / m.seconds:6.1f} notebooks a "
                f"minute  {m.memory / 2**20:6.0f} MiB  exit status {m.status}"
            )
        print(f"  ratio {stock.seconds / ours.seconds:.2f}")
        points = {}
        for folder in (alone, course):
            with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
                entered = gradebook.assignment_submissions(assignment)
                points[folder] = {s.student.id: s.score for s in entered}
        due = {s.name: s.score + s.late for s in made}
        for folder, name in ((alone, "nbgrader alone"), (course, "course grade")):
            wrong = [n for n, score in due.items() if points[folder].get(n, 0.0) != score]
            print(f"  unexpected points, {name}: {', '.join(wrong) or 'nobody'}")


@dataclass(frozen=True)
class Costs:
    """Measured seconds.

    Args:
        notebook: for a notebook on a worker, until it has a result.
        writer: for the single process that enters a notebook into the gradebook.
        start: until a worker has its server.
        client: for the central process to read, send and store one notebook.
    """

    notebook: float
    writer: float
    start: float
    client: float = 0.02


@dataclass(frozen=True)
class Prediction:
    cores: int
    running: float
    writing: float
    busy: float  # fraction of the workers' time in which they run something

    @property
    def total(self) -> float:
        return self.running + self.writing


def predict(notebooks: int, cores: int, costs: Costs) -> Prediction:
    """Simulates a run: one process reads and sends, workers take the next notebook, one writes.

    The client has its own core, because with few workers it is nearly idle.
    """
    free = [costs.start] * cores  # when each worker can start
    heapq.heapify(free)
    results = []
    for number in range(notebooks):
        sent = (number + 1) * costs.client / 2
        end = max(heapq.heappop(free), sent) + costs.notebook
        results.append(end)
        heapq.heappush(free, end)
    kept = 0.0
    for end in results:
        kept = max(kept, end) + costs.client / 2
    busy = notebooks * costs.notebook / (cores * kept)
    return Prediction(cores, kept, notebooks * costs.writer, busy)


def foretell(costs: Costs, students: int = 1000, lessons: int = 14) -> None:
    notebooks = students * lessons
    print(f"{students:,} students × {lessons} lessons, {notebooks:,} notebooks, none stored yet:")
    for cores in (2, 16, 256):
        p = predict(notebooks, cores, costs)
        print(
            f"  {cores:3} cores: {p.total / 3600:6.2f} h, running {p.running / 3600:6.2f} h "
            f"(workers busy {p.busy:4.0%}), writing {p.writing / 3600:5.2f} h"
        )
    print(
        f"The writer is the first bottleneck: from {costs.notebook / costs.writer:.0f} workers "
        f"on it is slower than they are. From {costs.notebook / (costs.client / 2):.0f} on, they "
        "wait for the client."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the grading of a class.")
    parser.add_argument("assignments", nargs="*", default=["1-averages", "3-multi-head"])
    parser.add_argument("--students", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--notebook", type=float, default=1.0)
    parser.add_argument("--writer", type=float, default=0.1)
    parser.add_argument("--start", type=float, default=6.0)
    args = parser.parse_args()
    if args.predict:
        foretell(Costs(args.notebook, args.writer, args.start))
        return
    for assignment in args.assignments:
        compare(assignment, args.students, args.workers)


if __name__ == "__main__":
    sys.path.insert(0, str(COURSE))  # for tests.generated_class
    main()
