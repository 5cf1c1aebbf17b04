"""One assignment from generate_assignment to export, with nbgrader's own commands.

A class of nine hands in through a real exchange folder, each named for what happened to them; one
autograde run marks them all. Every student's points are the ones a fair teacher would give.
"""

import copy
import csv
import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook

from course_utils.editions import NOTEBOOKS, SOLUTIONS, catalogue_points

pytestmark = pytest.mark.timeout(900)

COURSE = SOLUTIONS.parent
ASSIGNMENT = "1-averages"
LESSONS = ["01_naive_mean", "02_tril_matmul", "03_softmax_masking"]
FULL = {
    "01_naive_mean": {"naive_mean_shapes": 1.0, "naive_mean": 2.0},
    "02_tril_matmul": {"causal_mean_weights": 1.0, "tril_mean": 2.0},
    "03_softmax_masking": {"softmax": 2.0, "masked_softmax": 2.0, "softmax_mean": 2.0},
}
NOTHING = {lesson: dict.fromkeys(points, 0.0) for lesson, points in FULL.items()}


def points(**changes):
    """Nothing, but for the lessons and exercises named."""
    return NOTHING | {
        lesson: FULL[lesson] | NOTHING[lesson] | gained for lesson, gained in changes.items()
    }


# ---------------------------------------------------------------- the class


class Notebook:
    """One student's copy of a lesson, and what can become of it."""

    def __init__(self, path):
        self.path = path
        self.content = nbformat.read(path, as_version=4)

    def save(self):
        nbformat.write(self.content, self.path)

    def cell(self, grade_id):
        (cell,) = [
            c
            for c in self.content.cells
            if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id
        ]
        return cell

    def write(self, exercise, source):
        self.cell(exercise).source = source

    def solve(self, *exercises):
        for exercise in exercises or FULL[self.path.stem]:
            self.write(exercise, right_answer(self.path.stem, exercise))

    def delete(self, *grade_ids):
        for grade_id in grade_ids:
            self.content.cells.remove(self.cell(grade_id))

    def copy(self, grade_id, behind):
        duplicate = copy.deepcopy(self.cell(grade_id))
        duplicate["id"] = f"{grade_id}-again"
        self.content.cells.insert(self.content.cells.index(self.cell(behind)) + 1, duplicate)
        return duplicate


def right_answer(lesson, exercise):
    (path,) = SOLUTIONS.glob(f"*/{lesson}.ipynb")
    solution = nbformat.read(path, as_version=4)
    (cell,) = [c for c in solution.cells if c.id == exercise]
    return re.sub(r"^ *### (BEGIN|END) SOLUTION\n?", "", cell.source, flags=re.M)


def all_right(hand_in):
    for lesson in LESSONS:
        hand_in(lesson).solve()


def nothing_done(hand_in):
    for lesson in LESSONS:
        hand_in(lesson)


def misconception(hand_in):
    """The third exercise calls the second one: one mistake, one loss."""
    lesson = hand_in("03_softmax_masking")
    lesson.solve()
    lesson.write(
        "masked_softmax",
        "def masked_softmax(scores, hidden):\n"
        "    return softmax(scores, dim=-1).masked_fill(hidden, 0)",
    )


def unusual(hand_in):
    one, two = hand_in("01_naive_mean"), hand_in("02_tril_matmul")
    one.solve("naive_mean_shapes")
    one.write(
        "naive_mean",
        "naive_mean = lambda x: torch.stack(\n"
        "    [x[:, :t].sum(1) / t for t in range(1, x.shape[1] + 1)], dim=1)",
    )
    two.write(
        "causal_mean_weights",
        "def causal_mean_weights(T):\n"
        "    return torch.tensor([[(s <= t) / (t + 1) for s in range(T)] for t in range(T)])",
    )
    two.write(
        "tril_mean",
        "def tril_mean(x):\n"
        "    weights = causal_mean_weights(x.shape[1]).to(x)\n"
        '    return torch.einsum("ts,bsc->btc", weights, x)',
    )


def syntax_error(hand_in):
    lesson = hand_in("01_naive_mean")
    lesson.solve("naive_mean_shapes")
    lesson.write("naive_mean", "def naive_mean(x)\n    return x")


def exception(hand_in):
    lesson = hand_in("01_naive_mean")
    lesson.solve("naive_mean_shapes")
    lesson.write("naive_mean", "def naive_mean(x):\n    return x @ x")


def endless_loop(hand_in):
    lesson = hand_in("01_naive_mean")
    lesson.solve("naive_mean_shapes")
    lesson.write(
        "naive_mean",
        "def naive_mean(x):\n"
        "    out, t = torch.zeros_like(x), 0\n"
        "    while t < x.shape[1]:\n"
        "        out[:, t] = x[:, : t + 1].mean(1)\n"
        "    return out",
    )


def deleted_cells(hand_in):
    """The check of a right answer is gone; of the other exercise nothing is left."""
    lesson = hand_in("01_naive_mean")
    lesson.solve()
    lesson.delete("check-naive_mean", "naive_mean_shapes", "check-naive_mean_shapes")


def copied_cells(hand_in):
    """The right answer stands in a copy, beside a copied check and metadata of no lesson."""
    lesson = hand_in("01_naive_mean")
    lesson.solve()
    lesson.copy("check-naive_mean", behind="check-naive_mean")
    lesson.copy("naive_mean", behind="naive_mean")
    lesson.content.cells[0].metadata["nbgrader"] = {"grade": True, "points": 100}
    lesson.cell("check-naive_mean_shapes").metadata.nbgrader["points"] = 100
    stray = new_code_cell("1 + 1")
    stray.metadata["nbgrader"] = {"grade_id": "another-lesson", "schema_version": 1}
    lesson.content.cells.append(stray)


QUIZ_ONLY = points(**{"01_naive_mean": {"naive_mean_shapes": 1.0}})
CLASS = {
    all_right: FULL,
    nothing_done: NOTHING,
    misconception: points(
        **{"03_softmax_masking": {"softmax": 2.0, "masked_softmax": 0.25, "softmax_mean": 2.0}}
    ),
    unusual: NOTHING | {lesson: FULL[lesson] for lesson in LESSONS[:2]},
    syntax_error: QUIZ_ONLY,
    exception: QUIZ_ONLY,
    endless_loop: QUIZ_ONLY,
    deleted_cells: points(**{"01_naive_mean": {"naive_mean": 2.0}}),
    copied_cells: points(**{"01_naive_mean": FULL["01_naive_mean"]}),
}
STUDENTS = {student.__name__.replace("_", "-"): student for student in CLASS}


# ---------------------------------------------------------------- the cycle


class Cycle:
    """A course folder with an exchange, and nbgrader's commands in it."""

    def __init__(self, folder, assignment=ASSIGNMENT):
        self.assignment = assignment
        self.course = folder / "course"
        self.exchange = folder / "exchange"
        self.home = folder / "home"
        for made in (self.course, self.exchange, self.home):
            made.mkdir()
        self.exchange.chmod(0o777)
        shutil.copytree(SOLUTIONS / assignment, self.course / "solutions" / assignment)
        shutil.copy(COURSE / "nbgrader_config.py", self.course)

    def nbgrader(self, *arguments, cwd=None):
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "COURSE_GRADING_SEED": "the seed of this term",
        }
        done = subprocess.run(
            [Path(sys.executable).with_name("nbgrader"), *arguments],
            cwd=cwd or self.course,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"nbgrader {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def exchanging(self, command, *arguments, **options):
        return self.nbgrader(
            command, self.assignment, f"--Exchange.root={self.exchange}", *arguments, **options
        )


@pytest.fixture(scope="module")
def cycle(tmp_path_factory):
    cycle = Cycle(tmp_path_factory.mktemp("cycle"))
    cycle.nbgrader("generate_assignment", ASSIGNMENT)
    cycle.exchanging("release_assignment")

    course = "--course=averages-to-transformers"
    desk = cycle.home / "desk"
    desk.mkdir()
    cycle.exchanging("fetch_assignment", course, cwd=desk)
    for name, student in STUDENTS.items():
        own = cycle.home / name
        (own / ASSIGNMENT).mkdir(parents=True)
        opened = []

        def hand_in(lesson, own=own, opened=opened):
            path = own / ASSIGNMENT / f"{lesson}.ipynb"
            shutil.copy(desk / ASSIGNMENT / path.name, path)
            opened.append(Notebook(path))
            return opened[-1]

        student(hand_in)
        for notebook in opened:
            notebook.save()
        cycle.exchanging("submit", course, f"--student={name}", cwd=own)

    cycle.exchanging("collect")
    cycle.log = cycle.nbgrader("autograde", ASSIGNMENT)
    cycle.nbgrader("generate_feedback", ASSIGNMENT)
    cycle.exchanging("release_feedback")
    cycle.nbgrader("export", "--to=grades.csv")
    return cycle


def test_stock_generate_assignment_writes_what_make_notebooks_writes(cycle):
    for lesson in LESSONS:
        made = cycle.course / "notebooks" / ASSIGNMENT / f"{lesson}.ipynb"
        assert made.read_bytes() == (NOTEBOOKS / ASSIGNMENT / made.name).read_bytes()


def test_the_points_of_this_class_are_those_of_the_catalogue():
    known = catalogue_points()
    for exercises in FULL.values():
        assert exercises == {name: known[name] for name in exercises}


@pytest.mark.parametrize("name", STUDENTS)
def test_each_student_has_the_points_a_fair_teacher_would_give(cycle, name):
    with Gradebook(f"sqlite:///{cycle.course}/gradebook.db") as gradebook:
        submission = gradebook.find_submission(ASSIGNMENT, name)
        given = {
            notebook.name: {g.name.removeprefix("check-"): g.auto_score for g in notebook.grades}
            for notebook in submission.notebooks
        }
        assert given == CLASS[STUDENTS[name]]
        assert not submission.needs_manual_grade


def test_the_exported_table_holds_everybody_with_their_sum(cycle):
    with (cycle.course / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    total = sum(sum(exercises.values()) for exercises in FULL.values())
    assert {name: (float(row["score"]), float(row["max_score"])) for name, row in rows.items()} == {
        name: (sum(sum(lesson.values()) for lesson in CLASS[student].values()), total)
        for name, student in STUDENTS.items()
    }


def shown(page):
    """The text of a page, as a browser would show it."""
    text = re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]+>", "", page, flags=re.S)
    return " ".join(html.unescape(text).split())


def feedback(cycle, name, lesson="01_naive_mean"):
    page = cycle.course / "feedback" / name / cycle.assignment / f"{lesson}.html"
    return shown(page.read_text())


def test_the_feedback_page_shows_the_card_and_names_the_misconception(cycle):
    page = feedback(cycle, "misconception", "03_softmax_masking")
    assert "masked_softmax: partly right0.25 of 2 points" in page
    assert "What happened: The mask was applied after the softmax" in page
    assert "Where to look:" in page


def test_no_feedback_page_shows_the_hidden_test(cycle):
    pages = sorted((cycle.course / "feedback").rglob("*.html"))
    assert len(pages) == sum(
        len(list((cycle.home / name / ASSIGNMENT).glob("*.ipynb"))) for name in STUDENTS
    )
    for page in map(Path.read_text, pages):
        assert not re.search(r"HIDDEN TESTS|seed ?= ?\W?grading|seed of this term", shown(page))
        assert "widget-state+json" not in page


def test_feedback_reaches_the_students(cycle):
    released = list((cycle.exchange / "averages-to-transformers" / "feedback").glob("*.html"))
    assert len(released) == len(list((cycle.course / "feedback").rglob("*.html")))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("syntax-error", "NameError: name 'naive_mean' is not defined"),
        ("exception", "return x @ x"),
        ("endless-loop", "stopped"),
        ("deleted-cells", "NameError: name 'naive_mean_shapes' is not defined"),
        ("deleted-cells", "This cell was missing from the submission and was put back."),
        ("nothing-done", "not attempted yet"),
    ],
)
def test_a_student_without_the_points_reads_why(cycle, name, sentence):
    assert sentence in feedback(cycle, name)


def test_grading_leaves_the_instructors_own_progress_alone(cycle):
    assert [p.name for p in cycle.course.rglob(".course_progress*")] == []
