"""nbgrader's own pages for people who grade, over a small class that `course grade` has graded."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from pages import ACT_MS, ROOT, TOKEN, Server, serve
from playwright.sync_api import Browser, Locator, Page, Request, expect

from course_utils.grading import sandbox
from tests.generated_class import Student, make_class, make_course

pytestmark = pytest.mark.timeout(600)

ASSIGNMENT, LESSON, STUDENTS = "1-averages", "01_naive_mean", 6
SLOW_SOURCE = "a" + ".a" * 50_000  # as nbgrader colours it: half a minute
LEFT_OUT = ("endless", "deadly", "empty", "same-text", "other-right")


@dataclass
class Formgrader:
    """A course's pages.

    Attributes:
        errors: what the pages complained of.
        outside: what other hosts were asked for.
    """

    page: Page
    server: Server
    students: list[Student]
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.server.url}formgrader/{path}")
        return self.page


@pytest.fixture(scope="module")
def formgrader(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Formgrader]:
    home = tmp_path_factory.mktemp("formgrader")
    course = make_course(home / "notebooks", ASSIGNMENT)
    students = make_class(course, ASSIGNMENT, STUDENTS, leave_out=LEFT_OUT, short=True)
    (right,) = (s.name for s in students if s.kind == "right")
    slow = course / "submitted" / right / ASSIGNMENT / "03_softmax_masking.ipynb"
    notebook = nbformat.read(slow, as_version=4)
    notebook.cells.append(new_code_cell(SLOW_SOURCE))
    nbformat.write(notebook, slow)
    command = [sys.executable, "-m", "course_utils", "grade", ASSIGNMENT, "--workers", "2"]
    if sandbox.why_not():
        command.append("--trust-submissions")
    done = subprocess.run(
        command,
        cwd=course,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COURSE_GRADING_SEED": "this class's own"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    with serve(home) as server:
        context = chromium.new_context(viewport={"width": 1280, "height": 1000})
        context.set_default_timeout(ACT_MS)
        opened = Formgrader(context.new_page(), server, students)

        def complain(error: Exception) -> None:
            if "MathJax" not in str(error):  # nbgrader takes it from another host, which is refused
                opened.errors.append(str(error))

        def note(request: Request) -> None:  # the browser's own rules refuse what is outside
            if urlsplit(request.url).hostname != "127.0.0.1":
                opened.outside.append(request.url)

        context.on("request", note)
        opened.page.goto(f"{server.url}login?token={TOKEN}")
        opened.page.on("pageerror", complain)
        yield opened
        context.close()


def table(formgrader: Formgrader, path: str, rows: int) -> Locator:
    found = formgrader.open(path).locator("tbody tr")
    expect(found).to_have_count(rows, timeout=ACT_MS)
    return found


def test_the_list_for_grading_by_hand_holds_everybody(formgrader: Formgrader) -> None:
    rows = table(formgrader, f"gradebook/{ASSIGNMENT}/{LESSON}", STUDENTS)
    scores = [re.findall(r"([\d.]+) / ([\d.]+)", text)[0] for text in rows.all_inner_texts()]
    wanted = [sum(s.points[LESSON].values()) for s in formgrader.students]
    assert sorted(float(score) for score, _ in scores) == sorted(wanted)
    assert {float(most) for _, most in scores} == {max(wanted)}
    assert formgrader.errors == [] == formgrader.outside


def test_a_submission_shows_its_cards_beside_its_points(formgrader: Formgrader) -> None:
    student = next(s for s in formgrader.students if s.kind == "wrong")
    rows = table(formgrader, f"manage_students/{student.name}/{ASSIGNMENT}", 3)
    rows.get_by_role("link", name=LESSON).click()
    page = formgrader.page
    for exercise, points in student.points[LESSON].items():
        score = page.locator(f"input#check-{exercise}")
        expect(score).to_have_attribute("placeholder", re.compile(rf"^{points:g}(\.0)?$"))
    wrong = page.get_by_text("not right yet", exact=True)
    expect(wrong.first).to_be_visible()
    said = page.locator("strong", has_text="The sizes 4, 8 and 2 of the example are written")
    expect(said).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert formgrader.errors == []


def test_a_page_of_slow_sources_is_shown_soon(formgrader: Formgrader) -> None:
    """nbgrader colours each source anew for each look at it."""
    student = next(s for s in formgrader.students if s.kind == "right")
    rows = table(formgrader, f"manage_students/{student.name}/{ASSIGNMENT}", 3)
    rows.get_by_role("link", name="03_softmax_masking").click()
    slow = formgrader.page.locator(".highlight", has_text=SLOW_SOURCE[:40])
    expect(slow).to_have_count(1, timeout=ACT_MS)
    assert slow.locator("span").count() == 0


def test_students_have_the_points_of_all_notebooks(formgrader: Formgrader) -> None:
    rows = table(formgrader, "manage_students", STUDENTS)
    for student in formgrader.students:
        points = student.score + student.late  # what lateness costs is in the table of grades
        expect(rows.filter(has_text=student.name)).to_contain_text(f"{points:g} / 12")
    assert formgrader.errors == []
