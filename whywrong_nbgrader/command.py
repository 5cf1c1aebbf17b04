"""`course grade`: grades a class in parallel, then shows students, points and failures."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from filelock import FileLock, Timeout

from . import sandbox
from .careful import ended
from .classroom import CONFIG, CantRun, Classroom, enrol, enter, enter_grades, read, run
from .flags import flagged
from .fork_server import NoForkServer, remove_left
from .inside import calls
from .readable import in_a_line
from .results import FOLDER, CantKeep, Results, Settings
from .tables import COLUMNS, Table

WITHOUT: dict[str, Callable[[], str]] = {
    "Memory is limited by counting, ten times per second": sandbox.no_cgroup,
    "System calls are not filtered": calls.why_not,
}
NO_STUDENTS = (
    "The gradebook has no students, so nobody is graded. Import your list "
    "(nbgrader db student import students.csv), or add everybody who submitted: "
    "course grade {assignment} --enrol"
)
ALL_GRADED, NEED_A_PERSON, COULD_NOT_RUN = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", help="such as 1-averages")
    parser.add_argument("--student", default="", help="grade only this student")
    parser.add_argument("--workers", type=int, default=0, help="parallel processes; all cores")
    parser.add_argument("--scheduler", default="", help="a Dask scheduler's address")
    parser.add_argument("--force", action="store_true", help="ignore stored results")
    parser.add_argument(
        "--trust-submissions", action="store_true", help="run them with your rights, unsandboxed"
    )
    parser.add_argument("--enrol", action="store_true", help="add new names to the gradebook")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--lms", choices=COLUMNS, default="", help="whose columns --csv has")
    parser.add_argument("--html", type=Path, help="write the table as a printable page")


def in_words(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Lets a command end with a sentence that says what to do, whatever stops it."""

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        # It logs whatever interrupts it, with a traceback, while it closes a connection.
        logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
        try:
            return command(args)
        except KeyboardInterrupt:
            remove_left()
            said = "Stopped. Finished results are stored: the same command goes on from there."
        except Timeout:
            said = "Somebody else is grading in this folder: wait until they have finished."
        except (CantRun, CantKeep, sandbox.NoSandbox, NoForkServer) as error:
            said = str(error)
        except Exception as error:
            said = ended(error)
        print(said, file=sys.stderr)
        return COULD_NOT_RUN

    return run


@in_words
def grade(args: argparse.Namespace) -> int:
    """Grades a class; its output is for people, its exit status for scripts."""
    course, assignment = Path.cwd(), args.assignment.strip("/")
    if args.lms and not args.csv:
        raise CantRun("--lms needs --csv FILE, the file to be written.")
    for file in filter(None, (args.csv, args.html)):
        if not file.absolute().parent.is_dir() or file.is_dir():
            raise CantRun(f"{file} can't be written: name a file in a folder that is there.")
    if args.trust_submissions:
        os.environ["COURSE_TRUST_SUBMISSIONS"] = "yes"
    else:
        sandbox.demand()
    tier = sandbox.TRUSTED if args.trust_submissions else sandbox.SANDBOX
    if not (course / CONFIG).is_file():
        raise CantRun(f"There is no {CONFIG} here: run this in the course's folder.")
    (course / FOLDER).mkdir(exist_ok=True)
    with FileLock(course / FOLDER / "lock", timeout=0):
        classroom = enter(course, assignment, args.student)
        if not args.trust_submissions:
            for what, missing in WITHOUT.items():
                if reason := missing():
                    print(f"{what}: {reason}.", file=sys.stderr)
        entered = _graded(classroom, Settings.of(course, tier, classroom.lessons), args)
    not_entered = [student for student in classroom.students if not entered.get(student)]
    table = Table.of(classroom, flagged(classroom), not_entered)
    print(table.text())
    if not args.student:
        _keep_counts(course / FOLDER / "misconceptions" / f"{assignment}.json", table)
    if args.csv:
        args.csv.write_text(table.csv(args.lms), encoding="utf-8")
        for line in table.lines if args.lms else ():
            if why := table.left_out(line, COLUMNS[args.lms]):
                print(f"Not in {args.csv}: {in_a_line(line.student)} ({why})", file=sys.stderr)
    if args.html:
        args.html.write_text(table.html(), encoding="utf-8")
    return NEED_A_PERSON if not all(entered.values()) or table.needs_a_person else ALL_GRADED


def _graded(classroom: Classroom, settings: Settings, args: argparse.Namespace) -> dict[str, bool]:
    """Reads, runs and enters submissions; returns whose results nbgrader could enter."""
    read(classroom, settings, args.student)
    left_out = enrol(classroom, args.enrol)
    if not classroom.roster:
        print(NO_STUDENTS.format(assignment=classroom.assignment), file=sys.stderr)
    remove_left()  # there may be nothing to run, so no new sandbox
    entered: dict[str, bool] = {}

    def enter_one(student: str) -> None:
        entered[student] = enter_grades(classroom, student, args.force)

    how = args.workers, args.scheduler, args.force
    run(classroom, settings, Results(classroom.course), _progress, enter_one, *how)
    for student in [s for s in classroom.students if s not in {*entered, *left_out}]:
        enter_one(student)
    return entered


def _keep_counts(place: Path, table: Table) -> None:
    """Writes what the class misunderstood, for authors of the catalogue; one file per run."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(table.counts(), indent=1) + "\n", encoding="utf-8")
    print(f"How often each misconception occurred: {place.relative_to(Path.cwd())}")


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        bar = f"\r[{'#' * (30 * done // max(of, 1)):30}] {done} of {of} notebooks"
        print(bar, end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done == of:
        print(f"{of} notebooks were run.", file=sys.stderr, flush=True)
