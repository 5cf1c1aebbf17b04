"""nbgrader's own pages for people who grade, over a small class that `course grade` has graded."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from pages import ACT_MS, ROOT, TOKEN, Server, serve
from playwright.sync_api import Browser, Page, Route, expect

from course_utils.grading import sandbox
from tests.generated_class import Student, make_class, make_course

pytestmark = pytest.mark.timeout(600)

ASSIGNMENT, LESSON, STUDENTS = "1-averages", "01_naive_mean", 6
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
        self.page.goto(f"{self.server.url}formgrader/{path}?token={TOKEN}")
        return self.page


@pytest.fixture(scope="module")
def formgrader(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Formgrader]:
    home = tmp_path_factory.mktemp("formgrader")
    course = make_course(home / "notebooks", ASSIGNMENT)
    students = make_class(course, ASSIGNMENT, STUDENTS, leave_out=LEFT_OUT, short=True)
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

        def only_here(route: Route) -> None:
            if urlsplit(route.request.url).hostname == "127.0.0.1":
                return route.continue_()
            opened.outside.append(route.request.url)
            route.abort()

        context.route("**/*", only_here)
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        yield opened
        context.close()


def test_the_list_for_grading_by_hand_holds_everybody(formgrader: Formgrader) -> None:
    rows = formgrader.open(f"gradebook/{ASSIGNMENT}/{LESSON}").locator("#table-body tr, tbody tr")
    expect(rows).to_have_count(STUDENTS)
    (full,) = {sum(s.points[LESSON].values()) for s in formgrader.students if s.kind == "right"}
    for row in rows.all():
        score, most = re.findall(r"[\d.]+ / [\d.]+", row.inner_text())[0].split(" / ")
        assert float(most) == full
        wanted = {s.name: sum(s.points[LESSON].values()) for s in formgrader.students}
        assert float(score) in wanted.values()
    assert formgrader.errors == []


def submission_of(formgrader: Formgrader, wanted: Callable[[Student], bool]) -> Student:
    """Opens the notebook of a student."""
    student = next(filter(wanted, formgrader.students))
    page = formgrader.open(f"manage_students/{student.name}/{ASSIGNMENT}")
    page.get_by_role("link", name=LESSON).click()
    expect(page.locator("#notebook-container")).to_be_visible()
    return student


def test_a_submission_shows_its_card_beside_its_points(formgrader: Formgrader) -> None:
    student = submission_of(formgrader, lambda s: s.kind == "wrong")
    page = formgrader.page
    for exercise, points in student.points[LESSON].items():
        score = page.locator(f"#check-{exercise}")
        expect(score).to_have_attribute("placeholder", re.compile(rf"^{points:g}(\.0)?$"))
    cards = page.locator(".output_html, .rendered_html").filter(has_text="of 2 points")
    expect(cards.first).to_be_visible()
    expect(cards.first).to_contain_text("naive_mean")
    sides = cards.first.bounding_box()
    assert sides and sides["width"] > 400 and sides["x"] > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert formgrader.errors == []


def test_a_students_page_has_the_score_with_what_lateness_cost(formgrader: Formgrader) -> None:
    page = formgrader.open("manage_students")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(STUDENTS)
    for student in formgrader.students:
        expect(rows.filter(has_text=student.name)).to_contain_text(f"{student.score:g} / 12")
    assert formgrader.errors == []
