"""`make quick LESSON=04` finds the lesson, tests all of it, and says what failed."""

import re
import subprocess
import sys

import pytest

from tools import ROOT as COURSE
from tools import SOLUTIONS, quick

HEADS = "2-single-head/04_single_head"


@pytest.mark.parametrize("said", ["04", "4", "04_single_head"])
def test_a_lesson_is_found_by_its_number_or_its_name(said):
    assert quick.lesson(said) == HEADS


@pytest.mark.parametrize("said", ["", "98", "99", "single"])
def test_another_name_gets_the_list_of_lessons(said, capsys):
    assert quick.main([said] if said else []) == 2
    error = capsys.readouterr().err
    assert all(path.stem in error for path in SOLUTIONS.glob("*/*.ipynb"))


def test_two_lessons_of_one_number_are_told_apart_by_more_of_the_name(tmp_path):
    for name in ("1-a/04_first", "2-b/04_second"):
        path = tmp_path / "solutions" / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text("")
    with pytest.raises(ValueError, match="04_first, 04_second"):
        quick.lesson("04", tmp_path)
    assert quick.lesson("04_s", tmp_path) == "2-b/04_second"


@pytest.mark.parametrize("name", quick.ABOUT_ALL)
def test_each_name_by_which_it_picks_tests_of_all_lessons_is_a_test_s(name):
    texts = [(COURSE / "tests" / f"{f}.py").read_text() for f in quick.ABOUT_LESSONS]
    assert name in quick.ABOUT_LESSONS or re.search(rf"def test_\w*{name}", "".join(texts))


def test_every_part_names_the_lesson_and_existing_files():
    for part, command in quick.parts(HEADS).items():
        words = " ".join(command)
        named = {quick.THE_MATRIX: "CausalSelfAttention", "examples in docstrings": "--doctest"}
        assert named.get(part, "04_single_head") in words
        assert all((COURSE / word).exists() for word in command if word.endswith((".ipynb", ".py")))


@pytest.mark.parametrize("target", ["test", "test-all"])
def test_make_test_runs_whatever_make_quick_runs(target):
    """The matrix runs as tests/test_matrix.py, and of students' notebooks, tests/test_editions.py
    runs in `make test` what can differ."""
    command = ["make", "-n", "-o", ".venv/.test", target]
    shown = subprocess.run(command, cwd=COURSE, check=True, capture_output=True, text=True).stdout
    (words,) = [line.split() for line in shown.replace(";", "\n").splitlines() if "pytest" in line]
    ran = (word for command in quick.parts(HEADS).values() for word in command)
    rooms = {word.split("/")[0] for word in ran if word.endswith((".ipynb", ".py"))}
    assert rooms == {"solutions", "notebooks", "tests"}
    assert rooms - ({"notebooks"} if target == "test" else set()) <= set(words)
    assert {"--doctest-modules", "course_utils"} <= set(words)
    assert not {"-k", "--deselect", "--ignore"} & set(words)


def test_what_fails_is_shown_and_named_and_the_rest_runs_on(capsys):
    def start(command):
        fails = "--nbval-lax" in command
        code = f"import sys; print('said by', {fails}); sys.exit({int(fails)})"
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

    assert quick.main(["04"], start) == 1
    said = capsys.readouterr().out
    assert "said by True" in said
    assert "said by False" not in said
    assert said.splitlines()[-1].startswith(f"{HEADS}: look at the student edition, ")


def test_only_wrong_lines_of_the_matrix_are_shown():
    said = "softmax  wrong  as it should be\nsoftmax  wrong  2/2  <-- WRONG\n1 cells wrong"
    assert quick.wrong_cells(said) == "softmax  wrong  2/2  <-- WRONG"
    assert quick.wrong_cells("Traceback\nImportError") == "Traceback\nImportError"


def test_make_quick_passes_the_lesson_on():
    command = ["make", "-n", "-o", ".venv/.test", "quick", "LESSON=04", "--no-print-directory"]
    shown = subprocess.run(command, cwd=COURSE, check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1] == ".venv/bin/python -m tools.quick 04"
