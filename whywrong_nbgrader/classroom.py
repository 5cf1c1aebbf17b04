"""A class's submissions to an assignment: run in parallel, entered into the gradebook in turn."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shlex
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbgrader.api
import sqlalchemy
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from . import submissions
from .cells import Cell
from .collecting import doubts
from .notebooks import Graded
from .readable import in_a_line
from .restoring import Released, cells_of, released, restore
from .results import Results, Settings
from .room import NoRoom
from .sandbox import NoSandbox
from .work import end_with_parent
from .work import work as on_a_worker

CONFIG = "nbgrader_config.py"
# Bytes of a folder's name: a socket's name has at most 104 on macOS, 108 on Linux.
LONGEST_PLACE = 104 - 1 - len("/pymp-12345678/listener-12345678")
ATTEMPTS = 3  # attempts to run the rest after one of our processes was killed


class CantRun(RuntimeError):
    """Nothing can be graded; the message says why, and what to do."""


@dataclass
class Work:
    """One notebook of one student."""

    student: str
    notebook: str
    cells: list[Cell] = field(default_factory=list)
    name: str = ""  # of its result; empty if there can be none
    trouble: list[str] = field(default_factory=list)  # that a person should look at
    graded: Graded | None = None


@dataclass
class Classroom:
    """An assignment with all its submissions."""

    course: Path  # its folder
    handed_in: list[str]  # all students who submitted it
    assignment: str
    config: Config
    notebooks: list[str]
    works: list[Work]  # by student and name

    @property
    def students(self) -> list[str]:
        return sorted({w.student for w in self.works})

    def of(self, student: str) -> list[Work]:
        return [work for work in self.works if work.student == student]


def enter(course: Path, assignment: str, settings: Settings, only: str = "") -> Classroom:
    """Reads the submissions, or `only` this student's.

    Raises:
        CantRun: there is no such course, assignment or student.
    """
    if not (course / CONFIG).is_file():
        raise CantRun(f"There is no {CONFIG} here: run this in the course's folder.")
    config = PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    directory = CourseDirectory(config=config)
    notebooks = _notebooks(directory.db_url, assignment)
    folder = course / directory.submitted_directory
    handed_in = sorted(p.name for p in folder.glob("*") if (p / assignment).is_dir())
    if only and only not in handed_in:
        raise CantRun(f"{only} has not submitted {assignment}: nbgrader collect {assignment}")
    if not handed_in:
        raise CantRun(f"Nobody has submitted {assignment}: nbgrader collect {assignment}")
    cells = {n: released(directory.db_url, assignment, n) for n in notebooks}
    directory.assignment_id, works = assignment, []
    noted = doubts(directory)
    for student in [only] if only else handed_in:
        of = [*_of(student, folder / student / assignment, cells, settings)]
        of[0].trouble += map(in_a_line, noted.get(student, ()))
        works += of
    return Classroom(course, handed_in, assignment, config, notebooks, works)


def _notebooks(db_url: str, assignment: str) -> list[str]:
    with Gradebook(db_url) as gradebook:
        try:
            return sorted(n.name for n in gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            said = f"The gradebook has no assignment {assignment}"
            raise CantRun(f"{said}: nbgrader generate_assignment {assignment}") from None


def _of(
    student: str, folder: Path, notebooks: dict[str, dict[str, Released]], settings: Settings
) -> Iterator[Work]:
    """One student's notebooks, ready to run, with the problems that a person should look at."""
    strange = submissions.strange_in(folder)
    strange += [
        f"{in_a_line(p.name)} is not a notebook of this assignment"
        for p in sorted(folder.glob("*.ipynb"))
        if p.stem not in notebooks
    ]
    for notebook, cells in notebooks.items():
        work = Work(student, notebook, trouble=strange)
        strange = []
        path = folder / f"{notebook}.ipynb"
        if os.path.lexists(path):
            try:
                nb = submissions.read(path)
            except submissions.Unreadable as error:
                work.trouble.append(f"the submission can't be read: {error}")
                nb = submissions.stand_in(cells, str(error))
            restore(nb, cells)
            work.cells = cells_of(nb)
            work.name = settings.name(work.cells)
        else:
            work.trouble.append("it was not submitted")
        yield work


# Running -------------------------------------------------------------------------------------


def run(
    classroom: Classroom,
    settings: Settings,
    results: Results,
    told: Callable[[int, int], None],
    complete: Callable[[str], None],
    workers: int = 0,
    scheduler: str = "",
    force: bool = False,
) -> None:
    """Runs all notebooks that have no result yet, identical ones once, and stores each result.

    Args:
        told: called with the number of finished notebooks and their total.
        complete: called with each student whose results are complete, while others are running.
        workers: the number of processes on this machine; 0: one per core.
        scheduler: the address of a Dask scheduler, whose workers then run the notebooks.

    Raises:
        CantKeep: a result could not be written.
        CantRun: the scheduler does not answer.
    """
    alike, of = defaultdict[str, list[Work]](list), defaultdict[str, list[Work]](list)
    for work in classroom.works:
        if work.name:
            alike[work.name].append(work)
            of[work.student].append(work)
    todo = []
    for name, works in alike.items():
        if not force and (known := results.find(name)):
            _take(works, known)
        else:
            todo.append(works[0])
    told(0, len(todo))
    if not todo:
        return
    if scheduler:
        made = _on_a_cluster(todo, settings, scheduler)
    else:
        made = _on_this_machine(todo, settings, min(workers or os.cpu_count() or 1, len(todo)))
    for number, (name, graded) in enumerate(made, 1):
        if isinstance(graded, str):
            for work in alike[name]:
                work.trouble.append(graded)
        else:
            results.keep(name, graded)
            _take(alike[name], graded)
        told(number, len(todo))
        for student in dict.fromkeys(work.student for work in alike[name]):
            if all(work.graded for work in of[student]):
                complete(student)


def _take(works: Sequence[Work], graded: Graded) -> None:
    for work in works:
        work.graded = graded
        work.trouble += graded.happened


Made = Iterator[tuple[str, Graded | str]]  # each result with its name, or with the error


def _on_this_machine(todo: Sequence[Work], settings: Settings, workers: int) -> Made:
    # The fork server loads PyTorch and the course once; if the temporary folder's name is too long
    # for a socket, each worker loads them itself.
    short = len(os.fsencode(tempfile.gettempdir())) <= LONGEST_PLACE
    context = multiprocessing.get_context("forkserver" if short else "spawn")
    context.set_forkserver_preload([f"{__package__}.preloaded"])
    left = {work.name: work for work in todo}
    for _ in range(ATTEMPTS):
        with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
            names = {
                pool.submit(on_a_worker, [asdict(c) for c in work.cells], settings): name
                for name, work in left.items()
            }
            for future in as_completed(names):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    continue  # if one is killed, all are: try the rest again
                del left[names[future]]
                yield names[future], _outcome(error) if error else Graded(**future.result())
        if not left:
            return
    for name in left:
        yield name, "it could not be run: a process that grades was killed each time"


def _on_a_cluster(todo: Sequence[Work], settings: Settings, scheduler: str) -> Made:
    import dask
    from distributed import Client
    from distributed import as_completed as results_of

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
            client = Client(scheduler)
    except (OSError, TimeoutError) as error:
        raise CantRun(f"The scheduler at {scheduler} does not answer: {error}") from None
    with client:
        names: dict[Any, str] = {}
        for work in todo:
            cells = [asdict(c) for c in work.cells]
            how = {"key": work.name, "pure": False, "priority": -len(names)}
            names[client.submit(on_a_worker, cells, settings, **how)] = work.name
        for future in results_of(names):
            failed = None if future.status == "finished" else future.exception()
            yield names[future], _outcome(failed) if failed else Graded(**future.result())


def _outcome(error: BaseException) -> str:
    if isinstance(error, NoRoom | NoSandbox):
        raise CantRun(f"A worker can't sandbox submissions: {error}")
    return f"it could not be run: {error}"


# The gradebook -------------------------------------------------------------------------------


def enrol(classroom: Classroom, new_too: bool = False) -> list[str]:
    """Adds everybody to a gradebook that has no students, and new names only if asked to.

    Returns those who are left out; their submissions won't run."""
    may = Autograde(config=classroom.config).create_student
    with Gradebook(CourseDirectory(config=classroom.config).db_url) as gradebook:
        known = {student.id for student in gradebook.students}
        new = [student for student in classroom.students if student not in known]
        if may and not known:
            new, new_too = classroom.handed_in, True
            print(f"The gradebook had no students: all {len(new)} who submitted are added.")
        for student in new if may and new_too else ():  # in order: the gradebook lists them so
            gradebook.update_or_create_student(student)
    if may and new_too:
        return []
    for student in new:
        for work in (works := classroom.of(student)):
            work.name, work.cells = "", []
        line = f"course grade {classroom.assignment} --student {shlex.quote(student)} --enrol"
        works[0].trouble.append(f"this name is not in the gradebook; to add it: {in_a_line(line)}")
    return new


def enter_grades(classroom: Classroom, student: str, force: bool = False) -> bool:
    """Lets nbgrader enter a student's results if they are missing; returns whether it could."""
    if not force and _up_to_date(classroom, student):
        _set_penalties(classroom, student)
        return True
    config = Config(classroom.config)
    config.CourseDirectory.student_id = student
    config.CourseDirectory.assignment_id = classroom.assignment
    converter = Autograde(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    converter.log.setLevel(logging.ERROR + 1)
    try:
        with warnings.catch_warnings(), patch.object(nbgrader.api, "create_engine", _engine):
            warnings.simplefilter("ignore")  # hides the log messages of nbgrader's database
            converter.start()
    except Exception as error:
        classroom.of(student)[0].trouble.append(f"nbgrader could not enter it: {error}")
        return False
    return True


# nbgrader opens the gradebook six times per notebook: preparing the same queries again took a third
# of its time.
_engine = cache(sqlalchemy.create_engine)


def _up_to_date(classroom: Classroom, student: str) -> bool:
    """Whether each notebook was entered with its current result."""
    folder = classroom.course / "autograded" / student / classroom.assignment
    works = [work for work in classroom.of(student) if work.name]
    try:
        made = [submissions.read(folder / f"{work.notebook}.ipynb").metadata for work in works]
    except submissions.Unreadable:
        return False
    return [m.get("course", {}).get("result") for m in made] == [work.name for work in works]


def _set_penalties(classroom: Classroom, student: str) -> None:
    """What lateness costs today: the due date, an extension or the rule may have changed."""
    rule = AssignLatePenalties(config=classroom.config)
    rule.log.setLevel(logging.ERROR + 1)
    ids = {"student": student, "assignment": classroom.assignment}
    ids["db_url"] = CourseDirectory(config=classroom.config).db_url
    for work in classroom.of(student):
        if work.name:
            rule.preprocess(new_notebook(), {"nbgrader": ids | {"notebook": work.notebook}})
