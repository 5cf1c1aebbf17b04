"""nbgrader's own pages for graders, with a graded class."""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from pages import ACT_MS, ROOT, TOKEN, Server, serve
from playwright.sync_api import Browser, Locator, Page, Request, expect
from traitlets.config import PyFileConfigLoader

from tests.evil_class import ATTACKS, hand_in
from tests.evil_kit import Place
from tests.generated_class import Student, make_class, make_course
from whywrong.hosting import joined
from whywrong_nbgrader import sandbox

CATALOGUE = joined(())

pytestmark = [
    pytest.mark.full("the formgrader"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own queries
]

ASSIGNMENT, LESSON = "1-averages", "01_naive_mean"
ON_PAGES = ["script-in-outputs", "script-in-markdown", "script-in-the-card"]
HOSTILE = (
    "<img src=x onerror=evil()>",
    "'-evil()-'",
    '"onmouseover="evil()',
    "=HYPERLINK(1)",
    "{{evil}}",
)
SLOW_SOURCE = "a" + ".a" * 50_000  # nbgrader highlights it in half a minute
LEFT_OUT = ("endless", "deadly", "empty", "same-text", "other-right")


@dataclass
class Formgrader:
    """A course's pages.

    Attributes:
        students: the points that each should have.
        attackers: the rest of the class.
        errors: errors that the pages reported.
        outside: requests to other hosts.
    """

    page: Page
    server: Server
    students: list[Student]
    attackers: list[str]
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.server.url}formgrader/{path}")
        return self.page


@pytest.fixture(scope="module")
def formgrader(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Formgrader]:
    home = tmp_path_factory.mktemp("formgrader")
    course = make_course(home / "notebooks", ASSIGNMENT)
    attackers = ON_PAGES
    students = make_class(course, ASSIGNMENT, 6, leave_out=LEFT_OUT, short=True)
    place = Place(course, course / "notebooks" / ASSIGNMENT, 9)
    hand_in(place, attackers)
    hand_in_under(HOSTILE, course)
    for right in [s for s in students if s.kind == "right"][:1]:
        slow = course / "submitted" / right.name / ASSIGNMENT / "03_softmax_masking.ipynb"
        notebook = nbformat.read(slow, as_version=4)
        notebook.cells.append(new_code_cell(SLOW_SOURCE))
        nbformat.write(notebook, slow)
    grade(course, [*(s.name for s in students), *attackers, *HOSTILE])
    with serve(home) as server:
        context = chromium.new_context(viewport={"width": 1280, "height": 1000})
        context.set_default_timeout(ACT_MS)
        context.add_init_script("window.evil = () => { window.evil.was = 'called' }")
        opened = Formgrader(context.new_page(), server, students, attackers)

        def complain(error: Exception) -> None:
            if "MathJax" not in str(error):  # nbgrader loads it from another host, which is refused
                opened.errors.append(str(error))

        def note(request: Request) -> None:  # the browser refuses requests to other hosts
            if urlsplit(request.url).hostname != "127.0.0.1":
                opened.outside.append(request.url)

        context.on("request", note)
        opened.page.goto(f"{server.url}login?token={TOKEN}")
        opened.page.on("pageerror", complain)
        yield opened
        context.close()


def hand_in_under(names: Iterable[str], course: Path) -> None:
    """Submits under these names in the exchange folder, where they are collected, and puts the same
    into submitted/, as if somebody had unpacked an archive there."""
    exchange = course.parent / "exchange"
    inbound = exchange / "averages-to-transformers" / "inbound"
    for name in names:
        folder = inbound / f"{name}+{ASSIGNMENT}+2026-10-01 12:00:00.000000 UTC"
        shutil.copytree(course / "notebooks" / ASSIGNMENT, folder)
    exchange.chmod(0o777)
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    config.CourseDirectory.root, config.Exchange.root = str(course), str(exchange)
    api = NbGraderAPI(config=config)
    api.log.setLevel("CRITICAL")
    done = api.collect(ASSIGNMENT)
    assert done["success"], done
    for name in names:
        assert not (course / "submitted" / name).exists()
        shutil.copytree(course / "notebooks" / ASSIGNMENT, course / "submitted" / name / ASSIGNMENT)


def grade(course: Path, names: list[str]) -> None:
    """Grades a class in this process, which is faster than the command."""
    environment = {"PYTHONPATH": str(ROOT), "COURSE_GRADING_SEED": "this class's own"}
    environment |= {"COURSE_TRUST_SUBMISSIONS": "yes"} if sandbox.why_not() else {}
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    api = NbGraderAPI(config=config)
    api.log.setLevel("ERROR")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        for name in names:
            done = api.autograde(ASSIGNMENT, name)
            assert done["success"] == (name not in HOSTILE), done


def table(formgrader: Formgrader, path: str, rows: int) -> Locator:
    found = formgrader.open(path).locator("tbody tr")
    expect(found).to_have_count(rows, timeout=ACT_MS)
    return found


def open_notebook_of(formgrader: Formgrader, student: str, lesson: str) -> Page:
    formgrader.open(f"manage_students/{student}/{ASSIGNMENT}")
    formgrader.page.get_by_role("link", name=lesson, exact=True).click()
    return formgrader.page


def test_the_list_for_grading_by_hand_has_everybody(formgrader: Formgrader) -> None:
    with Gradebook(f"sqlite:///{formgrader.server.folder}/gradebook.db") as gradebook:
        kept = {s.student.id: s.score for s in gradebook.notebook_submissions(LESSON, ASSIGNMENT)}
    for student in formgrader.students:
        assert kept[student.name] == sum(student.points[LESSON].values()), student.name
    for name in formgrader.attackers:
        assert kept.get(name, 0) <= ATTACKS[name].points, name
    graded = formgrader.server.folder / "autograded"  # without a file, there is nothing to grade
    listed = [n for n in kept if (graded / n / ASSIGNMENT / f"{LESSON}.ipynb").is_file()]
    rows = table(formgrader, f"gradebook/{ASSIGNMENT}/{LESSON}", len(listed))
    shown = [re.findall(r"([\d.]+) / ([\d.]+)", text)[0] for text in rows.all_inner_texts()]
    assert sorted(float(score) for score, _ in shown) == sorted(kept[n] for n in listed)
    assert {float(most) for _, most in shown} == {max(kept.values())}
    assert formgrader.errors == [] == formgrader.outside


def test_a_submission_shows_its_cards_beside_its_points(formgrader: Formgrader) -> None:
    student, lesson = next(
        (s, lesson)
        for s in formgrader.students
        for lesson, points in s.points.items()
        if s.kind == "wrong" and points.keys() & s.named.keys()
    )
    ids = {student.named[id] for id in student.points[lesson].keys() & student.named.keys()}
    known = [CATALOGUE.find(id) for id in student.points[lesson]]
    whats = [m.what for e in known if e for m in e.misconceptions if m.id in ids]
    page = open_notebook_of(formgrader, student.name, lesson)
    for exercise, points in student.points[lesson].items():
        score = page.locator(f"input#check-{exercise}")
        expect(score).to_have_attribute("placeholder", re.compile(rf"^{points:g}(\.0)?$"))
    wrong = page.get_by_text(re.compile("^(not right yet|partly right)$"))
    expect(wrong.first).to_be_visible()
    said = [page.locator("strong", has_text=what.replace("`", "")) for what in whats]
    assert any(strong.count() and strong.first.is_visible() for strong in said), whats
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert formgrader.errors == []


def test_a_page_of_slow_sources_is_shown_soon(formgrader: Formgrader) -> None:
    """nbgrader highlights each source again for each page view."""
    student = next(s for s in formgrader.students if s.kind == "right")
    page = open_notebook_of(formgrader, student.name, "03_softmax_masking")
    slow = page.locator(".highlight", has_text=SLOW_SOURCE[:40])
    expect(slow).to_have_count(1, timeout=ACT_MS)
    assert slow.locator("span").count() == 0


@pytest.mark.parametrize("attacker", ON_PAGES)
def test_nothing_of_a_submission_acts_in_the_page(formgrader: Formgrader, attacker: str) -> None:
    page = open_notebook_of(formgrader, attacker, LESSON)
    expect(page.get_by_text(re.compile("not (right|attempted) yet")).first).to_be_visible()
    page.wait_for_load_state("load")
    assert page.evaluate("typeof evil === 'function' && evil.was") is None
    assert page.locator("iframe, base, object, embed, a[href^='javascript' i]").count() == 0
    assert formgrader.errors == []


def test_students_have_the_points_of_all_notebooks(formgrader: Formgrader) -> None:
    # nbgrader's list also has the folders in submitted/ that are no student's.
    everybody = len(formgrader.students) + len(formgrader.attackers) + len(HOSTILE)
    rows = table(formgrader, "manage_students", everybody)
    for student in formgrader.students:
        points = student.score + student.late  # the late penalty is in the table of grades
        expect(rows.filter(has_text=student.name)).to_contain_text(f"{points:g} / 12")
    assert formgrader.errors == []


def test_nothing_of_a_name_runs_or_is_a_formula_where_an_instructor_looks(
    formgrader: Formgrader,
) -> None:
    course, program = formgrader.server.folder, [sys.executable, "-m"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COURSE_GRADING_SEED": "this class's own"}
    files = ["--csv", "table.csv", "--html", "table.html"]
    said = ""
    for typed in (
        ["course_utils", "grade", ASSIGNMENT, *files],
        ["nbgrader", "generate_feedback", ASSIGNMENT],
        ["nbgrader", "export"],
    ):
        how = {"cwd": course, "env": environment, "text": True, "stdout": subprocess.PIPE}
        done = subprocess.run([*program, *typed], stderr=subprocess.STDOUT, **how)
        assert done.returncode in (0, 1), done.stdout
        said += done.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", said)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        known = {student.id for student in gradebook.students}
        ids = [n.id for s in gradebook.assignment_submissions(ASSIGNMENT) for n in s.notebooks]
    assert not known & {*HOSTILE}
    for name in ("table.csv", "grades.csv"):
        with (course / name).open(newline="") as file:
            rows = [*csv.reader(file)]
        assert len({len(row) for row in rows}) == 1, name
        assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]
    assert {f"'{n}" if n[0] == "=" else n for n in HOSTILE} <= {
        row["student"] for row in csv.DictReader((course / "table.csv").open(newline=""))
    }
    page = formgrader.page
    shown = [f"manage_{what}" for what in ("assignments", "students")]
    shown += [f"manage_submissions/{ASSIGNMENT}", "gradebook", f"gradebook/{ASSIGNMENT}"]
    shown += [f"gradebook/{ASSIGNMENT}/{LESSON}", *(f"submissions/{id}" for id in ids)]
    places = [f"{formgrader.server.url}formgrader/{path}" for path in shown]
    places += [
        path.as_uri() for path in (course / "table.html", *course.rglob("feedback/*/*/*.html"))
    ]
    for place in places:
        page.goto(place, wait_until="load")
        if "manage_submissions" in place:
            expect(page.get_by_text(HOSTILE[0])).to_be_visible()
        assert page.evaluate("typeof evil === 'function' && evil.was") is None, place
        assert page.locator("img[onerror], [onmouseover]").count() == 0, place
    assert formgrader.errors == []
