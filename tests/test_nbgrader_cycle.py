"""The commands of docs/instructors.md, run word for word in a fresh clone, with a class.

The class submits through a real exchange folder; each student is named after what happened to them.
Every student's points are those that a fair teacher would give.
"""

import csv
import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from nbgrader.api import Gradebook

from tools import ROOT as COURSE
from whywrong_nbgrader.notebooks import LEFT_OUT

from .nbgrader_class import ASSIGNMENT, CLASS, FULL, LEFT_RUNNING, LESSONS, STUDENTS
from .warm import Warm

pytestmark = pytest.mark.timeout(900)

ABSENT = "away"  # is in the list of students, and submits nothing
SEED = "a secret of this term"
# The environment of these tests replaces the one that these lines create: it has the same packages,
# and PATH below puts its programs first, as activating it would.
INSTALLED = [
    ".venv/bin/python -m pip install --constraint constraints.txt --editable '.[grading]'",
    "source .venv/bin/activate",
]


def fresh_clone(folder):
    """The result of `git clone` if everything here were committed."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=COURSE, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (COURSE / name).is_file():  # skips deleted files that are still listed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(COURSE / name, folder / name)
    return folder


def blocks_for_instructors():
    """The blocks of docs/instructors.md, each as its lines."""
    page = (COURSE / "docs" / "instructors.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", page, flags=re.M | re.S)
    return [[line for line in block.splitlines() if line] for block in blocks]


class Cycle:
    """A fresh clone of the course, with the exchange folder next to it, and everyone's homes."""

    def __init__(self, folder, place):
        self.course = fresh_clone(folder / "course")
        self.exchange = folder / "exchange"
        self.home = folder / "home"
        for made in (self.exchange, self.home):
            made.mkdir()
        self.exchange.chmod(0o777)
        (self.course / "own_config.py").write_text(
            f"c = get_config()\nc.Exchange.root = {str(self.exchange)!r}\n"
        )
        (self.course / "students.csv").write_text("\n".join(["id", *STUDENTS, ABSENT]))
        self.warm = Warm(place, self.course)

    def type(self, line, status=0):
        """The output of a command in the course's folder."""
        assert not re.search(r"[|&;<>$*]", line), "a shell would do more with this line"
        programs = Path(sys.executable).parent
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.course),  # like --editable
            "COURSE_CHECK_SECONDS": "1",  # one submission never ends, twice
        }
        done, said = self.warm.type(line, self.course, environment)
        assert done == status, f"{line}\n{said}"
        return said


@pytest.fixture(scope="module")
def cycle(tmp_path_factory):
    with tempfile.TemporaryDirectory(prefix="cycle-") as place:
        cycle = Cycle(tmp_path_factory.mktemp("cycle"), place)
        with cycle.warm:
            cycle.log = "".join(typed_by_an_instructor(cycle))
            yield cycle


def typed_by_an_instructor(cycle):
    """The output of each line of the first block; students submit before the line that collects."""
    for line in blocks_for_instructors()[0]:
        if line in INSTALLED:
            continue
        if line.startswith("nbgrader collect"):
            yield cycle.type(
                shlex.join(
                    ["python", "-m", "tests.nbgrader_class", str(cycle.exchange), str(cycle.home)]
                )
            )
        # One student leaves a program running, which a person should look at: status 1.
        yield cycle.type(line, status=1 if line.startswith("course grade") else 0)


def test_the_page_installs_before_anything_else():
    assert blocks_for_instructors()[0][: len(INSTALLED)] == INSTALLED


def test_the_page_s_commands_rebuild_what_make_notebooks_wrote(cycle):
    made = {p.relative_to(cycle.course): p.read_bytes() for p in cycle.course.glob("notebooks/*/*")}
    assert made == {path: (COURSE / path).read_bytes() for path in made}
    assert {path.stem for path in made if path.parent.name == ASSIGNMENT} == set(LESSONS)


def test_no_command_complains_of_the_course_s_own_settings(cycle):
    assert "not recognized" not in cycle.log


def test_course_explain_answers_a_complaint(cycle):
    (typed,) = next(b for b in blocks_for_instructors() if "explain" in b[0])
    assert typed == "course explain ada naive_mean"
    said = cycle.type(typed.replace("ada", "mishaps"))
    for part in ("return x @ x", "raised RuntimeError", "out: expected", "got      (nothing)"):
        assert part in said


def test_collecting_again_grades_only_new_submissions(cycle):
    page = (COURSE / "docs" / "instructors.md").read_text(encoding="utf-8")
    assert "`nbgrader collect --update 1-averages`" in page
    cycle.type("nbgrader collect --update 1-averages")
    said = cycle.type("course grade 1-averages", status=1)
    assert "0 notebooks were run." in said
    assert "7 students (1 handed in nothing), 12 points" in said


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


def test_the_exported_table_has_everybody_with_their_points(cycle):
    with (cycle.course / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert float(rows.pop(ABSENT)["score"]) == 0
    total = sum(sum(exercises.values()) for exercises in FULL.values())
    assert {name: (float(row["score"]), float(row["max_score"])) for name, row in rows.items()} == {
        name: (sum(sum(lesson.values()) for lesson in CLASS[student].values()), total)
        for name, student in STUDENTS.items()
    }


def shown(page):
    """The text of a page, as shown by a browser."""
    text = re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]+>", "", page, flags=re.S)
    return " ".join(html.unescape(text).split())


def feedback_page(course, name, assignment=ASSIGNMENT, lesson="01_naive_mean"):
    return (course / "feedback" / name / assignment / f"{lesson}.html").read_text()


def feedback(course, name, assignment=ASSIGNMENT, lesson="01_naive_mean"):
    return shown(feedback_page(course, name, assignment, lesson))


def test_the_feedback_page_shows_the_card_and_names_the_misconception(cycle):
    page = feedback(cycle.course, "misconception", lesson="03_softmax_masking")
    assert "masked_softmax: partly right0.25 of 2 points" in page
    assert "The mask was applied after the softmax" in page
    assert "Where to look:" in page


def test_the_feedback_page_shows_a_changed_figure_with_its_text_alternative(cycle):
    page = feedback_page(cycle.course, "misconception", lesson="03_softmax_masking")
    (figure,) = re.findall(r"<img[^>]*With the mask before the softmax[^>]*>", page)
    assert 'src="data:image/webp;base64,' in figure and 'alt="' in figure and 'width="' in figure
    assert LEFT_OUT in page


def test_no_feedback_page_shows_the_hidden_test_or_loads_anything(cycle):
    pages = sorted((cycle.course / "feedback").rglob("*.html"))
    assert len(pages) == sum(
        len(list((cycle.home / name / ASSIGNMENT).glob("*.ipynb"))) for name in STUDENTS
    )
    for page in map(Path.read_text, pages):
        assert not re.search(rf"HIDDEN TESTS|seed ?= ?\W?grading|{SEED}", shown(page))
        assert "widget-state+json" not in page
        assert not re.search(r"<script|<link|src=.?http|url\(.?http|@import.{0,9}http", page)
    assert any("<mfrac>" in page for page in map(Path.read_text, pages))


def test_feedback_reaches_the_students(cycle):
    released = list((cycle.exchange / "averages-to-transformers" / "feedback").glob("*.html"))
    assert len(released) == len(list((cycle.course / "feedback").rglob("*.html")))


@pytest.mark.parametrize(
    ("name", "lesson", "sentence"),
    [
        ("all-right", "01_naive_mean", "Checks run without torch.compile: your code was called"),
        ("mishaps", "01_naive_mean", "return x @ x"),
        ("mishaps", "03_softmax_masking", "NameError: name 'softmax' is not defined"),
        ("mishaps", "03_softmax_masking", "stopped"),
        ("deleted-cells", "01_naive_mean", "NameError: name 'naive_mean_shapes' is not defined"),
        (
            "deleted-cells",
            "01_naive_mean",
            "This cell was missing from the submission and was restored.",
        ),
        ("nothing-done", "01_naive_mean", "not attempted yet"),
    ],
)
def test_a_student_without_the_points_reads_why(cycle, name, lesson, sentence):
    assert sentence in feedback(cycle.course, name, lesson=lesson)


def test_grading_leaves_the_instructors_own_progress_alone(cycle):
    assert [p.name for p in cycle.course.rglob(".course_progress*")] == []


def test_a_program_that_a_submission_starts_ends_with_its_grading(cycle):
    running = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    assert ["sleep", str(LEFT_RUNNING)] not in running
