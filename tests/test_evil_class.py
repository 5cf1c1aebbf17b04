"""A class with attackers, graded by the real commands, compared with the class without them."""

import csv
import hashlib
import os
import re
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook, MissingEntry

from tools import ROOT as COURSE

from .evil_class import HONEST, hand_in
from .evil_kit import ALL, ATTACKS, Place
from .evil_limits import LEFT_RUNNING
from .evil_table import COLUMNS, as_markdown
from .nbgrader_class import ASSIGNMENT
from .test_nbgrader_cycle import fresh_clone, shown
from .warm import Warm

# Short limits, because each endless attack uses up its time.
SECONDS = {"CELL": "2", "CHECK": "1.5", "NOTEBOOK": "25"}
WHOLE_CLASS = 240  # seconds for grading the class, on two cores that other tests use too

pytestmark = [pytest.mark.full("all attacks but five"), pytest.mark.timeout(900)]
each_attack = pytest.mark.parametrize("name", ATTACKS)
each_honest = pytest.mark.parametrize("name", [student.__name__ for student in HONEST])


class Course:
    """A fresh clone in which the instructor grades."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm
        self.home = folder.parent / f"home-{folder.name}"
        self.home.mkdir()
        self.seconds = 0.0
        self.called: Any = None  # a connection, if a submission contacts this machine

    def type(self, line: str, *expected: int) -> str:
        """The output of a command; its exit status must be one of those expected, or 0."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COURSE")},
            **{f"COURSE_{name}_SECONDS": value for name, value in SECONDS.items()},
            "COURSE_GRADING_SEED": "a secret of this term",
            "HOME": str(self.home),
            "PYTHONPATH": str(self.warm.root),
        }
        began = time.monotonic()
        status, said = self.warm.type(line, self.folder, environment)
        self.seconds = time.monotonic() - began
        assert status in (expected or (0,)), said[-3000:]
        return said

    def grade(self) -> None:
        grade = f"course grade {ASSIGNMENT} --enrol --workers 2 --csv grades.csv"
        self.log = self.type(grade, 0, 1)
        self.took = self.seconds
        self.type(f"nbgrader generate_feedback {ASSIGNMENT} --quiet")
        self.took_to_show = self.seconds
        with (self.folder / "grades.csv").open() as file:
            self.rows = {row["student"]: row for row in csv.DictReader(file)}

    def files(self, student: str) -> dict[str, str]:
        """A student's files, with a digest of each."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for kind in ("submitted", "autograded", "feedback")
            for path in sorted((self.folder / kind / student).rglob("*"))
            if path.is_file() and path.stat().st_size < 2**30
        }

    def grades(self, student: str) -> list[tuple]:
        """Everything in the gradebook about a student's work."""
        with Gradebook(f"sqlite:///{self.folder}/gradebook.db") as gradebook:
            try:
                submission = gradebook.find_submission(ASSIGNMENT, student)
            except MissingEntry:  # there was no notebook of the assignment
                return []
            entered = [(one, grade) for one in submission.notebooks for grade in one.grades]
            scores = "name", "auto_score", "manual_score", "extra_credit", "needs_manual_grade"
            return sorted(
                (one.name, *(getattr(grade, n) for n in scores), one.late_submission_penalty)
                for one, grade in entered
            )

    def pages(self, student: str) -> dict[str, str]:
        folder = self.folder / "feedback" / student / ASSIGNMENT
        return {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.html"))}


@pytest.fixture(scope="module")
def loud(tmp_path_factory):
    """The class with attackers."""
    folder = tmp_path_factory.mktemp("evil")
    clone = fresh_clone(folder / "loud")
    with (clone / "nbgrader_config.py").open("a") as config:
        config.write('\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    with warm(clone) as one:
        yield graded(clone, one, ATTACKS)


@pytest.fixture(scope="module")
def quiet(loud):
    """The same class without attackers."""
    results = "submitted", "autograded", "feedback", "gradebook.db", ".grading", "grades.csv"
    folder = loud.folder.with_name("quiet")
    shutil.copytree(loud.folder, folder, ignore=shutil.ignore_patterns(*results))
    with warm(folder) as one:
        yield graded(folder, one)


@contextmanager
def warm(course: Path) -> Iterator[Warm]:
    with tempfile.TemporaryDirectory(prefix="evil-") as place, Warm(place, course) as one:
        yield one


def graded(folder: Path, warm: Warm, attacks: Iterable[str] = ()) -> Course:
    """A course with graded submissions of the honest students and these attackers."""
    course = Course(folder, warm)
    course.type(f"nbgrader generate_assignment {ASSIGNMENT} --quiet")
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
        gradebook.update_or_create_assignment(ASSIGNMENT, duedate=datetime(2026, 1, 10))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        released = folder / "notebooks" / ASSIGNMENT
        hand_in(Place(folder, released, listening.getsockname()[1]), attacks, HONEST)
        course.before = digests(folder)
        course.grade()
        listening.settimeout(0.1)
        with suppress(TimeoutError):
            course.called = listening.accept()
    return course


def digests(course: Path) -> dict[str, str]:
    """The files that grading must not change."""
    mine = "submitted", "solutions", "course_utils", "exercises", "notebooks"
    found = {}
    for name in (*mine, "nbgrader_config.py"):
        at = course / name
        for path in [at, *at.rglob("*")]:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > 2**30:
                continue
            if path.suffix != ".pyc":
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@each_honest
def test_an_honest_student_gets_what_is_fair(loud, name):
    fair = {student.__name__: points for student, points in HONEST.items()}
    assert sum(points for _, _, points, *_ in loud.grades(name)) == fair[name]


@each_honest
def test_attackers_change_nothing_for_the_others(quiet, loud, name):
    assert loud.grades(name) == quiet.grades(name)
    assert loud.files(name) == quiet.files(name)
    assert quiet.files(name)


def test_nothing_of_the_course_has_changed(loud):
    assert digests(loud.folder) == loud.before


def test_the_class_is_graded_in_bounded_time(loud):
    assert loud.took < WHOLE_CLASS
    assert loud.took_to_show < WHOLE_CLASS / 2


def test_the_page_of_attacks_matches_this_class():
    """Points and messages depend on the machine; no attack has more points than is fair."""
    page = (COURSE / "docs" / "attacks.md").read_text(encoding="utf-8")
    attacks = page[page.index(f"| {COLUMNS[0]} |") :].splitlines()
    lines = [line[2:-2].split(" | ") for line in attacks if line.startswith("| ")]
    columns, *rows = lines
    assert columns == list(COLUMNS)
    assert [row[0] for row in rows] == list(ATTACKS)
    assert not re.search(r"site-packages|\.venv", page), "a path of one machine"
    for row, attack in zip(rows, ATTACKS.values(), strict=True):
        _, tries, held_by, fair, got, stock, *_ = row
        assert tries.removeprefix("(own) ") == as_markdown(attack.tries)
        assert (held_by, fair) == (attack.held_by, f"{attack.points:g}")
        assert attack.paid <= float(got) <= attack.points
        assert bool(stock) == attack.before


def test_no_submission_used_the_network(loud):
    assert loud.called is None


def test_nothing_is_left_running(loud):
    words = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [w for w in words if f"time.sleep({LEFT_RUNNING})" in w]
    assert not [w for w in words if str(loud.folder) in w]


@each_attack
def test_an_attack_gets_no_more_than_an_honest_answer(loud, name):
    got = sum(points or 0 for _, _, points, *_ in loud.grades(name))
    assert got <= ATTACKS[name].points <= ALL
    assert not any(needs for *_, needs, _ in loud.grades(name))
    assert float(loud.rows[name]["score"]) == got


@each_attack
def test_a_right_answer_next_to_an_attack_gets_its_points(loud, name):
    got = sum(points or 0 for _, _, points, *_ in loud.grades(name))
    assert got >= ATTACKS[name].paid


@each_attack
def test_an_attack_does_not_fail_by_its_own_mistake(loud, name):
    """For example, because a module that it patches has been renamed."""
    for path in (loud.folder / "autograded" / name / ASSIGNMENT).glob("*.ipynb"):
        outputs = [o for c in nbformat.read(path, 4).cells for o in c.get("outputs", [])]
        assert not {o.get("ename") for o in outputs} & {"AttributeError", "ModuleNotFoundError"}


@each_attack
def test_student_and_instructor_get_a_message(loud, name):
    attack = ATTACKS[name]
    page = " ".join(map(shown, loud.pages(name).values()))
    assert re.search(attack.said, page), page[-2000:]
    assert re.search(attack.told, loud.rows[name]["notes"])


VERBATIM = ["pre", "code", "script", "style"]


def acting(page: str) -> Iterator[str]:
    """Everything on a page that runs, leads elsewhere or covers other things."""
    soup = BeautifulSoup(page, "html.parser", multi_valued_attributes=None)
    yield from (tag.name for tag in soup(["iframe", "object", "embed", "base", "form"]))
    yield from (tag.text for tag in soup("script") if "evil()" in tag.text)
    for tag in soup(True):
        for name, value in tag.attrs.items():
            value = re.sub(r"\s", "", value).lower()
            runs = "evil" in value and (name.startswith("on") or tag.name == "script")
            leads = name in ("href", "src", "srcdoc", "action") and value.startswith(
                ("javascript:", "data:text", "vbscript:", "//evil")
            )
            if runs or leads or (name == "style" and "position:fixed" in value):
                yield f"{tag.name} {name}={value[:60]}"
    formulas = soup.find_all(string=re.compile(r"\\href"))
    yield from (text for text in formulas if not text.find_parent(VERBATIM))


@each_attack
def test_no_page_runs_code(loud, name):
    for page in loud.pages(name).values():
        assert list(acting(page)) == []


def test_the_table_and_the_log_are_lines_of_text(loud):
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", loud.log)
    for row in loud.rows.values():
        assert not any(re.match(r"[=+@-]", str(cell)) for cell in row.values())


def test_links_are_not_followed_when_submissions_are_collected(quiet, tmp_path):
    inbound = tmp_path / "averages-to-transformers" / "inbound"
    solutions = quiet.folder / "solutions" / ASSIGNMENT
    one = inbound / f"lin+{ASSIGNMENT}+2026-01-05 09:00:00 UTC"
    one.mkdir(parents=True)
    (one / "01_naive_mean.ipynb").symlink_to(solutions / "01_naive_mean.ipynb")
    (one / "all").symlink_to(solutions)
    (one / "notes.txt").write_text("mine")
    os.mkfifo(one / "pipe")
    (inbound / f"lou+{ASSIGNMENT}+2026-01-05 09:00:00 UTC").symlink_to(solutions)
    said = quiet.type(
        shlex.join(["nbgrader", "collect", ASSIGNMENT, f"--Exchange.root={tmp_path}"])
    )
    submitted = quiet.folder / "submitted"
    there = sorted(p.name for p in (submitted / "lin" / ASSIGNMENT).iterdir())
    assert there == ["notes.txt", "timestamp.txt"]  # the second is nbgrader's, made here
    assert not list((submitted / "lou").rglob("*"))
    assert '"01_naive_mean.ipynb" is a link' in said and "lou should hand in again" in said
