"""An instructor's own exercise, as CONTRIBUTING shows it, through all that a course has."""

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

from course_utils import editions
from course_utils.checking import Catalogue
from course_utils.desk import catalogue, check, hint, progress

from .matrix import Cell, cells, main

COURSE = Path(__file__).parent.parent
(SHOWN,) = re.findall(
    r"^```python\n(.*?EXERCISES = \[.*?)^```$",
    (COURSE / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    flags=re.S | re.M,
)[-1:]


def right(x):
    return torch.stack([x[..., c] - x.sum(-1) / x.shape[-1] for c in range(x.shape[-1])], -1)


def over_tokens(x):
    return x - x.mean(-2, keepdim=True)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course folder with the file in `exercises/`, and the notebook's folder in it."""
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "centred.py").write_text(SHOWN, encoding="utf-8")
    shutil.copy(COURSE / "nbgrader_config.py", tmp_path)
    (tmp_path / "notebooks" / "8-own").mkdir(parents=True)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.chdir(tmp_path / "notebooks" / "8-own")
    return tmp_path


def test_what_is_shown_is_short():
    assert len([line for line in SHOWN.splitlines() if line]) <= 25


class TestTheFolderBesideTheConfiguration:
    def test_gives_check_its_exercise(self, course):
        report = check("centred", right)
        assert (report.points, report.max_points) == (1.0, 1.0) and report.passed
        wrong = check("centred", over_tokens)
        assert wrong.points == 0 and wrong.misconception == "over_tokens"
        assert "Which dimension holds the channels?" in str(wrong)
        assert not check("centred", ...).attempted
        borrowed = check("centred", catalogue().find("centred").reference)
        assert borrowed.points == 0 and "finished part" in borrowed.message
        assert "`centred`" in check("centered", right).message

    def test_gives_hint_and_progress_theirs(self, course):
        assert "sum to" in repr(hint("centred", 1))
        check("centred", right)
        rows = dict(progress().rows)
        assert rows["8-own/16_centred"] == [("centred", 1.0, 1.0)]
        assert "1-averages/01_naive_mean" in rows

    def test_gives_the_matrix_its_cells(self, course, capsys):
        found = list(cells("8-own"))
        assert [(c.kind, c.name) for c in found] == [
            ("reference", "centred"),
            ("misconception", "over_tokens"),
        ]
        own = Cell(found[0].exercise, right, "other right", "stack", "right")
        for cell in (*found, own):
            for seed in (0, 5):
                assert cell.is_as_wanted(cell.report(seed)), str(cell)
        assert main(["centred"]) == 1  # its points were never kept
        assert "over_tokens" in capsys.readouterr().out

    def test_counts_behind_the_course_and_before_it_with_the_same_name(self, course):
        other = SHOWN.replace('"centred", "8-own/16_centred"', '"softmax", "8-own/17_softmax"')
        (course / "exercises" / "softmax.py").write_text(other, encoding="utf-8")
        assert check("softmax", right).max_points == 1.0
        ids = catalogue().ids()
        assert ids.count("softmax") == 1 and ids[-2:] == ["centred", "softmax"]

    def test_may_hold_files_that_are_not_for_it(self, course):
        (course / "exercises" / "_kit.py").write_text("1 / 0")
        (course / "exercises" / "notes.txt").write_text("no Python")
        assert check("centred", right).passed

    def test_says_what_is_wrong_with_a_file(self, course):
        (course / "exercises" / "broken.py").write_text("EXERCISES = [1 / 0]")
        said = "broken.py gives no exercises: ZeroDivisionError"
        assert said in check("naive_mean", right).message
        assert said in repr(hint("naive_mean"))
        assert said in progress().notice and len(progress().rows) >= 7


class TestTheEnvironmentVariable:
    def test_names_files_and_folders(self, course, monkeypatch, tmp_path):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        file = course / "exercises" / "centred.py"
        second = elsewhere / "second.py"
        second.write_text(SHOWN.replace('"centred", "8-own', '"second", "8-own'), encoding="utf-8")
        monkeypatch.setenv("COURSE_EXERCISES", os.pathsep.join(map(str, (file, elsewhere))))
        assert check("centred", right).passed
        assert check("second", right).passed

    def test_says_when_a_file_is_not_there(self, monkeypatch, tmp_path):
        monkeypatch.setenv("COURSE_EXERCISES", str(tmp_path / "lost.py"))
        assert "lost.py" in check("naive_mean", right).message


def test_a_catalogue_is_a_value(course):
    own = Catalogue.from_file(course / "exercises" / "centred.py")
    assert own.ids() == ["centred"]
    both = own + Catalogue.of(*own)
    assert both.ids() == ["centred"] and list(both.by_lesson) == ["8-own/16_centred"]


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


@pytest.mark.timeout(600)
def test_nbgrader_makes_and_grades_an_assignment_of_it(course):
    shutil.rmtree(course / "notebooks")
    points = {e.id: e.points for e in Catalogue.from_file(course / "exercises" / "centred.py")}
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    editions.annotate(notebook, points)
    editions.normalise(notebook)
    source = course / "solutions" / "8-own" / "16_centred.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(editions.written(notebook), encoding="utf-8")
    os.chdir(course)
    assert editions.catalogue_points() == editions.catalogue_points() | points

    nbgrader(course, "generate_assignment", "8-own")
    made = nbformat.read(course / "notebooks" / "8-own" / source.name, as_version=4)
    assert "your code here" in made.cells[1].source and "grading" not in made.cells[2].source
    for student, (answer, _) in HANDED_IN.items():
        if answer:
            made.cells[1].source = answer
        else:
            made = nbformat.read(course / "notebooks" / "8-own" / source.name, as_version=4)
        folder = course / "submitted" / student / "8-own"
        folder.mkdir(parents=True)
        nbformat.write(made, folder / source.name)
    nbgrader(course, "autograde", "8-own")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        given = {s.student.id: s.score for s in gradebook.assignment_submissions("8-own")}
        assert given == {student: points for student, (_, points) in HANDED_IN.items()}
        assert gradebook.find_assignment("8-own").max_score == 1.0
