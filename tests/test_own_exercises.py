"""An instructor's own exercise, as in CONTRIBUTING, with everything that the course offers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.api import Gradebook

from course_utils.desk.checks import check, hint, progress
from tools import editions
from tools.matrix import SYMPTOMS, main
from whywrong import Catalogue
from whywrong.hosting import catalogue, joined

COURSE = Path(__file__).parent.parent
SHOWN = dict(
    re.findall(
        r"`exercises/(9-own/\S+)`:\n\n```\w+\n(.*?)^```$",
        (COURSE / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        flags=re.S | re.M,
    )
)
TEXT, PYTHON = SHOWN


def right(x):
    return torch.stack([x[..., c] - x.sum(-1) / x.shape[-1] for c in range(x.shape[-1])], -1)


def over_tokens(x):
    return x - x.mean(-2, keepdim=True)


def write_into(folder, name="centred", points="1"):
    """The exercise that CONTRIBUTING shows, under this name."""
    for path, text in SHOWN.items():
        place = (folder / path).with_stem(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        changed = text.replace("centred(", f"{name}(").replace("points: 1", f"points: {points}")
        place.write_text(changed, encoding="utf-8")


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course folder with the exercise in `exercises/`, and the notebook's folder in it."""
    write_into(tmp_path / "exercises")
    shutil.copy(COURSE / "nbgrader_config.py", tmp_path)
    (tmp_path / "notebooks" / "9-own").mkdir(parents=True)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.chdir(tmp_path / "notebooks" / "9-own")
    joined.cache_clear()
    yield tmp_path
    joined.cache_clear()


def test_the_example_is_short():
    assert sum(bool(line) for text in SHOWN.values() for line in text.splitlines()) <= 30


class TestTheFolderBesideTheConfiguration:
    def test_works_with_check(self, course):
        report = check("centred", right)
        assert (report.points, report.max_points) == (1.0, 1.0) and report.passed
        wrong = check("centred", over_tokens)
        assert wrong.points == 0 and wrong.misconception == "over_tokens"
        assert "Which dimension holds the channels?" in str(wrong)
        assert not check("centred", ...).attempted
        assert "`centred`" in check("centered", right).message

    def test_works_with_hint_and_progress(self, course):
        assert "sum to" in repr(hint("centred", 1))
        check("centred", right)
        rows = dict(progress().rows)
        assert rows["9-own/17_centred"] == [("centred", 1.0, 1.0)]
        assert "1-averages/01_naive_mean" in rows

    def test_appears_in_the_matrix(self, course, capsys):
        assert main(["centred"]) == 0 and main(["--keep", "centred"]) == 0
        said = capsys.readouterr().out
        assert "the text's right answer" in said and "over_tokens" in said
        assert "stored: nothing" in said and "centred" not in SYMPTOMS.read_text(encoding="utf-8")

    def test_comes_after_the_course_and_replaces_an_exercise_of_the_same_name(self, course):
        write_into(course / "exercises", "softmax")
        assert check("softmax", right).max_points == 1.0
        ids = catalogue().ids()
        assert ids.count("softmax") == 1 and ids[-2:] == ["centred", "softmax"]

    def test_says_what_is_wrong_with_a_text(self, course):
        (course / "exercises" / "9-own" / "17_centred" / "broken.md").write_text("no head")
        said = "17_centred/broken.md, line 1: it should begin with a head"
        assert said in check("naive_mean", right).message
        assert said in repr(hint("naive_mean"))
        assert said in progress().notice and len(progress().rows) >= 7


def test_the_environment_variable_names_folders(course, monkeypatch, tmp_path):
    write_into(tmp_path / "elsewhere", "second")
    monkeypatch.chdir(tmp_path / "elsewhere")
    folders = course / "exercises", tmp_path / "elsewhere"
    monkeypatch.setenv("COURSE_EXERCISES", os.pathsep.join(map(str, folders)))
    assert check("centred", right).passed
    assert check("second", right).passed


# ---------------------------------------------------------------- through nbgrader

CELLS = (
    "import torch\n\nfrom course_utils import check",
    "def centred(x):\n    ### BEGIN SOLUTION\n    return x - x.mean(-1, keepdim=True)\n"
    "    ### END SOLUTION",
    'check("centred", centred)',
)
HANDED_IN = {
    "right": ("def centred(x):\n    return x - x.sum(-1, keepdim=True) / x.shape[-1]", 1.0),
    "wrong": ("def centred(x):\n    return x - x.mean(-2, keepdim=True)", 0.0),
    "nothing": (None, 0.0),
}


def nbgrader(course, *arguments):
    done = subprocess.run(
        [Path(sys.executable).with_name("nbgrader"), *arguments],
        cwd=course,
        env={**os.environ, "COURSE_GRADING_SEED": "this term's", "HOME": str(course)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full("own exercises through nbgrader")
@pytest.mark.timeout(600)
def test_nbgrader_builds_and_grades_an_assignment_from_it(course):
    shutil.rmtree(course / "notebooks")
    points = Catalogue.from_folder(course / "exercises", "own").points()
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    editions.annotate(notebook, points)
    editions.normalise(notebook)
    source = course / "solutions" / "9-own" / "17_centred.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(editions.written(notebook), encoding="utf-8")
    os.chdir(course)
    assert catalogue().points() == catalogue().points() | points

    nbgrader(course, "generate_assignment", "9-own")
    made = nbformat.read(course / "notebooks" / "9-own" / source.name, as_version=4)
    assert "your code here" in made.cells[1].source and "grading" not in made.cells[2].source
    for student, (answer, _) in HANDED_IN.items():
        if answer:
            made.cells[1].source = answer
        else:
            made = nbformat.read(course / "notebooks" / "9-own" / source.name, as_version=4)
        folder = course / "submitted" / student / "9-own"
        folder.mkdir(parents=True)
        nbformat.write(made, folder / source.name)
    nbgrader(course, "autograde", "9-own")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        given = {s.student.id: s.score for s in gradebook.assignment_submissions("9-own")}
        assert given == {student: points for student, (_, points) in HANDED_IN.items()}
        assert gradebook.find_assignment("9-own").max_score == 1.0
