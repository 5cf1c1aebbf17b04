"""A class's submissions to an assignment: run in parallel, entered into the gradebook in turn."""

from __future__ import annotations

import glob
import json
import logging
import os
import shlex
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbgrader.api
import sqlalchemy
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry, Student
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from .careful import InWords, is_said_by_us
from .cells import Cell
from .choosing import submission
from .collecting import doubts
from .folders import not_read_in, strange_in
from .fork_server import NoForkServer
from .names import ALLOWED, is_a_name, letters, secret_of, submitted_at
from .notebooks import Graded
from .readable import in_a_line
from .restoring import Released, code_cells
from .results import FOLDER, Results, Settings
from .sandbox import NoSandbox
from .submissions import handed_out, lesson, released
from .work import Made, results_of, stored
from .work import work as on_a_worker

CONFIG = "nbgrader_config.py"


class CantRun(RuntimeError):
    """Nothing can be graded; the message says why, and what to do."""


@dataclass
class Work:
    """One notebook of one student."""

    student: str
    notebook: str
    cells: list[Cell] = field(default_factory=list)
    name: str = ""  # of its result; empty if there can be none
    notes: list[str] = field(default_factory=list)  # what was repaired
    trouble: list[str] = field(default_factory=list)  # that a person should look at
    missing: bool = False  # it was not submitted
    sources: list[str] = field(default_factory=list)  # other files that something is said about
    graded: Graded | None = None


@dataclass
class Classroom:
    """An assignment with all its submissions."""

    course: Path  # its folder
    directory: CourseDirectory
    handed_in: list[str]  # all who submitted it
    assignment: str
    config: Config
    notebooks: list[str]
    roster: list[str]  # the students in the gradebook
    concerns: defaultdict[str, list[str]]  # of a submission as a whole, for a person to decide
    noted: defaultdict[str, list[str]]  # that needs no decision
    works: list[Work]  # by student and name

    @property
    def lessons(self) -> Path:
        """Returns the folder with the course's own notebooks of the assignment."""
        return self.course / self.directory.source_directory / self.assignment

    @property
    def students(self) -> list[str]:
        return sorted({w.student for w in self.works})

    @property
    def strangers(self) -> list[str]:
        """Returns the names that are not in the gradebook."""
        return [student for student in self.students if student not in {*self.roster}]

    def of(self, student: str) -> list[Work]:
        return [work for work in self.works if work.student == student]

    def decisions(self, student: str) -> list[str]:
        """Returns what a person has to decide about a student's submission, in words."""
        works = self.of(student)
        return [
            *self.concerns.get(student, ()),
            *(f"{w.notebook}: {said}" for w in works for said in dict.fromkeys(w.trouble)),
        ]


def enter(course: Path, assignment: str, only: str = "") -> Classroom:
    """Returns the submissions to an assignment, or `only` this student's, before they are read.

    Raises:
        CantRun: there is no such course, assignment or student.
    """
    if not (course / CONFIG).is_file():
        raise CantRun(f"There is no {CONFIG} here: run this in the course's folder.")
    config = _settings(course)
    config.CourseDirectory.root = str(course)
    directory = CourseDirectory(config=config, assignment_id=assignment)
    notebooks = _notebooks(directory.db_url, assignment)
    folder = course / directory.submitted_directory
    handed_in = sorted(p.name for p in folder.glob("*") if (p / assignment).is_dir())
    collected = doubts(directory)
    if only and only not in {*handed_in, *collected}:
        raise CantRun(f"{only} has not submitted {assignment}: nbgrader collect {assignment}")
    if not handed_in and not collected:
        raise CantRun(f"Nobody has submitted {assignment}: nbgrader collect {assignment}")
    with Gradebook(directory.db_url) as gradebook:
        roster = [student.id for student in gradebook.students]
    said, noted = (
        defaultdict(list, {s: [*map(in_a_line, lines)] for s, lines in found.items() if lines})
        for found in (collected, doubts(directory, "noted"))
    )
    known = notebooks, roster, said, noted
    return Classroom(course, directory, handed_in, assignment, config, *known, [])


def _settings(course: Path) -> Config:
    try:
        return PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    except Exception as error:  # they are a program that the instructor writes
        frames = traceback.extract_tb(error.__traceback__)
        own = [(Path(f.filename), f.lineno) for f in frames if Path(f.filename).parent == course]
        syntax = isinstance(error, SyntaxError)  # it names the line itself
        where = f" ({own[-1][0].name}, line {own[-1][1]})" if own and not syntax else ""
        said = in_a_line(f"{type(error).__name__}: {error}")
        raise CantRun(f"Your settings can't be read: {said}{where}") from None


def read(classroom: Classroom, settings: Settings, only: str = "") -> None:
    """Reads the submissions of a class, or `only` this student's. The other students in the
    gradebook, and submissions that could not be collected, have empty works."""
    directory, assignment = classroom.directory, classroom.assignment
    lessons = {
        name: (
            released(directory.db_url, assignment, name),
            handed_out(lesson(directory, assignment, f"{name}.ipynb")),
        )
        for name in classroom.notebooks
    }
    folder, handed_in = classroom.course / directory.submitted_directory, {*classroom.handed_in}
    everybody = sorted({*handed_in, *classroom.concerns, *classroom.roster})
    for student in [only] if only else everybody:
        if student in handed_in and is_a_name(student):
            place = folder / student / assignment
            works = [*_of(student, place, lessons, settings)]
            used = [f"{name}.ipynb" for name in lessons]
            used += [source for work in works for source in work.sources]
            classroom.noted[student] += strange_in(place) + not_read_in(place, used)
            if submitted_at(place) is None:
                said = "it has no time of submission, so it is never late"
                classroom.noted[student].append(said)
            classroom.works += works
            continue
        if student in handed_in:
            said = f"not graded, because this can't be a student's name: {ALLOWED}"
            classroom.concerns[student].append(said)
        classroom.works += (Work(student, name, missing=True) for name in classroom.notebooks)


def _notebooks(db_url: str, assignment: str) -> list[str]:
    with Gradebook(db_url) as gradebook:
        try:
            known = gradebook.find_assignment(assignment)
        except MissingEntry:
            said = f"The gradebook has no assignment {assignment}"
            raise CantRun(f"{said}: nbgrader generate_assignment {assignment}") from None
        extended = [one.student_id for one in known.submissions if one.extension]
        if known.duedate is None and extended:  # nbgrader adds the one to the other
            said = f"{', '.join(extended)} has an extension, but {assignment} has no due date"
            raise CantRun(f"{in_a_line(said)}: set it in formgrader, Manage Assignments.")
        return sorted(n.name for n in known.notebooks)


Lessons = Mapping[str, tuple[Mapping[str, Released], Sequence[str]]]


def _of(student: str, folder: Path, lessons: Lessons, settings: Settings) -> Iterator[Work]:
    """One student's notebooks, ready to run, with the problems that a person should look at."""
    for notebook, (cells, given) in lessons.items():
        work = Work(student, notebook)
        if found := submission(folder, notebook, cells, given, lessons):
            work.trouble += found.trouble
            work.notes += found.notes
            work.sources = found.sources
            work.cells = code_cells(found.cells, given)
            work.name = settings.name(work.cells)
        else:
            work.missing = True
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
    todo: dict[str, Sequence[Cell]] = {}
    for name, works in alike.items():
        if not force and (known := results.find(name)):
            _take(works, known)
        else:
            todo[name] = works[0].cells
    told(0, len(todo))
    if not todo:
        return
    if scheduler:
        made = _on_a_cluster(todo, settings, scheduler)
    else:
        made = results_of(todo, settings, min(workers or os.cpu_count() or 1, len(todo)))
    with closing(made):
        for number, (name, graded) in enumerate(made, 1):
            if isinstance(graded, BaseException):
                graded = _outcome(graded)
            _take(alike[name], stored(results, settings, todo[name], name, graded))
            told(number, len(todo))
            for student in dict.fromkeys(work.student for work in alike[name]):
                if all(work.graded for work in of[student]):
                    complete(student)


def _take(works: Sequence[Work], graded: Graded) -> None:
    for work in works:
        work.graded = replace(graded, outputs=[])  # they may be large, and nothing needs them here
        (work.trouble if graded.starved else work.notes).extend(graded.happened)


def _on_a_cluster(todo: Mapping[str, Sequence[Cell]], settings: Settings, scheduler: str) -> Made:
    import dask
    from distributed import Client
    from distributed import as_completed as results_as_completed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
            client = Client(scheduler)
    except (OSError, TimeoutError) as error:
        raise CantRun(f"The scheduler at {scheduler} does not answer: {error}") from None
    with client:
        names: dict[Any, str] = {}
        for name, given in todo.items():
            cells = [asdict(c) for c in given]
            how = {"key": name, "pure": False, "priority": -len(names)}
            names[client.submit(on_a_worker, cells, settings, **how)] = name
        for future in results_as_completed(names):
            failure = None if future.status == "finished" else future.exception()
            yield names[future], failure or Graded(**future.result())


def _outcome(error: BaseException) -> str:
    if isinstance(error, NoForkServer | NoSandbox):
        raise CantRun(f"A worker can't sandbox submissions: {error}")
    return f"it could not be run: {error}"


# The gradebook -------------------------------------------------------------------------------


def enrol(classroom: Classroom, new_too: bool = False) -> list[str]:
    """Adds the names that are not in the gradebook to it if asked to.

    Returns those who are left out; their submissions won't run."""
    may = [s for s in classroom.strangers if s in {*classroom.handed_in} and is_a_name(s)]
    if new_too:
        with Gradebook(classroom.directory.db_url) as gradebook:
            gradebook.db.add_all([Student(id=student) for student in may])
            gradebook.db.commit()  # once: each may take a tenth of a second
        classroom.roster += may
        return classroom.strangers
    for student in classroom.strangers:
        for work in classroom.of(student):
            work.name, work.cells = "", []
        if student in may:
            line = f"course grade {classroom.assignment} --student {shlex.quote(student)} --enrol"
            alike = [known for known in classroom.roster if letters(known) == letters(student)]
            other = f", but {in_a_line(alike[0])} is: perhaps the same person" if alike else ""
            said = f"this name is not in the gradebook{other}; to add it: {in_a_line(line)}"
            classroom.concerns[student].append(said)
    return classroom.strangers


def enter_grades(classroom: Classroom, student: str, force: bool = False) -> bool:
    """Lets nbgrader enter a student's results if they are missing; returns whether it could."""
    works = [work for work in classroom.of(student) if work.name]
    if not works:
        return not classroom.decisions(student)
    stamp = _stamp(classroom, student)
    if not force and _entered(classroom, student) == stamp:
        _set_penalties(classroom, student)
        return True
    config = Config(classroom.config)
    config.CourseDirectory.student_id = glob.escape(student)
    config.CourseDirectory.assignment_id = classroom.assignment
    converter = Autograde(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    converter.log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings(), patch.object(nbgrader.api, "create_engine", _engine):
            warnings.simplefilter("ignore")  # hides the log messages of nbgrader's database
            converter.start()
    except (Exception, SystemExit) as error:
        said = InWords.last if is_said_by_us(str(error)) else str(error)
        classroom.concerns[student].append(f"nbgrader could not enter it: {in_a_line(said)}")
        return False
    place = _place(classroom, student)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(stamp), encoding="utf-8")
    return True


# nbgrader opens the gradebook six times per notebook: preparing the same queries again took a third
# of its time.
_engine = cache(sqlalchemy.create_engine)


def _place(classroom: Classroom, student: str) -> Path:
    return classroom.course / FOLDER / "entered" / classroom.assignment / f"{student}.json"


def _stamp(classroom: Classroom, student: str) -> dict[str, Any]:
    """Returns what a student's entry in the gradebook depends on."""
    folder = classroom.course / classroom.directory.submitted_directory / student
    handed_in = folder / classroom.assignment
    return {
        "results": {w.notebook: w.name for w in classroom.of(student) if w.name},
        "notes": [said for w in classroom.of(student) for said in (*w.notes, *w.trouble)],
        "time": str(submitted_at(handed_in)),
        "secret": secret_of(handed_in),
    }


def _entered(classroom: Classroom, student: str) -> Any:
    """Returns the stamp of the last entry, if the gradebook and the folder still have it."""
    made = classroom.course / "autograded" / student / classroom.assignment
    with Gradebook(classroom.directory.db_url) as gradebook:
        try:
            gradebook.find_submission(classroom.assignment, student)
            stamp = json.loads(_place(classroom, student).read_text(encoding="utf-8"))
        except (MissingEntry, OSError, ValueError):
            return None
    return stamp if all((made / f"{n}.ipynb").is_file() for n in stamp["results"]) else None


def _set_penalties(classroom: Classroom, student: str) -> None:
    """What lateness costs today: the due date, an extension or the rule may have changed."""
    rule = AssignLatePenalties(config=classroom.config)
    rule.log.setLevel(logging.ERROR + 1)
    ids = {"student": student, "assignment": classroom.assignment}
    ids["db_url"] = classroom.directory.db_url
    for work in classroom.of(student):
        if work.name:
            rule.preprocess(new_notebook(), {"nbgrader": ids | {"notebook": work.notebook}})
