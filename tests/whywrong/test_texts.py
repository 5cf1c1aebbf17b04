"""Exercises as texts: the README's example word for word, and errors with their line."""

import re
from pathlib import Path

import pytest

from whywrong import Catalogue, check_exercise
from whywrong._texts import TextError

README = (Path(__file__).parents[2] / "whywrong" / "README.md").read_text(encoding="utf-8")
TEXT = """\
---
points: 1
---

# Right answer

    def double(x):
        y = x + x
        return y

# Misconceptions

## squared
Squared.
Why: It differs.
Look: Try 3.

    x + x => x * x
"""
PYTHON = """\
import torch
from whywrong import Case, FunctionProbe, expect_function

def cases(seed):
    return [Case("by hand", {"x": torch.tensor([1.0, 3.0])})]

probe = FunctionProbe()
expect = expect_function(lambda x: 2 * x)
"""


@pytest.fixture
def write(tmp_path):
    def written(text=TEXT, python=PYTHON, id="double"):
        folder = tmp_path / "9-own" / "01_own"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{id}.md").write_text(text, encoding="utf-8")
        if python is not None:
            (folder / f"{id}.py").write_text(python, encoding="utf-8")
        return Catalogue.from_folder(tmp_path, "own_texts")

    return written


def test_the_example_of_the_readme(tmp_path, monkeypatch, capsys):
    for name, body in re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", README, re.M | re.S):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
    example, said = re.search(
        r"^Then:\n\n```python\n(.*?)^```\n\n```\n(.*?)^```", README, re.M | re.S
    ).groups()
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    printed = capsys.readouterr().out
    assert printed == said
    assert "What happened: The distance is twice as long as it should be." in said
    for row in re.findall(r"^\|.*$", README, re.M):
        assert row.endswith("|"), "a wrapped row is no row of a table"
    lines = sum(len(p.read_text().splitlines()) for p in tmp_path.rglob("*.[mp][dy]"))
    assert lines < 40


def test_each_misconception_is_a_program_and_is_named(write):
    exercise = write().find("double")
    (squared,) = exercise.misconceptions
    assert "y = x * x" in squared.program.text
    assert check_exercise(exercise, lambda x: x**2).misconceptions == ("squared",)
    assert check_exercise(exercise, lambda x: 2 * x).passed


def test_sentences_come_from_a_text_in_the_shared_folder(write, tmp_path):
    shared = tmp_path / "shared" / "numbers.md"
    shared.parent.mkdir()
    shared.write_text("# Numbers\n\n## squared\nSquared.\nWhy: Shared.\nLook: There.\n")
    text = TEXT.replace("Squared.\nWhy: It differs.\nLook: Try 3.", "As in: numbers\nLook: Here.")
    (squared,) = write(text).find("double").misconceptions
    assert squared.advice == ("Squared.", "Shared.", "Here.")


FAULTS = {
    "no head": (TEXT.removeprefix("---\n"), 1, "two lines `---`"),
    "an unknown field": (TEXT.replace("points: 1", "points: 1\npionts: 2"), 3, "'pionts: 2'"),
    "no points": (TEXT.replace("points: 1", "call: double(x)"), 1, "`points:` should be a number"),
    "graded perhaps": (TEXT.replace("points: 1", "points: 1\ngraded: ?"), 1, "`graded:` should"),
    "an edit found nowhere": (TEXT.replace("x + x =>", "x - x =>"), 18, "once in the right"),
    "an edit found twice": (TEXT.replace("x + x =>", "x =>"), 18, "not 3 times"),
    "no edit": (TEXT.replace("x + x => x * x", "x * x"), 18, "is not an edit"),
    "an edit that isn't indented": (TEXT.replace("    x + x =>", "  x + x =>"), 18, "four spaces"),
    "a part that isn't there": (
        TEXT.replace("points: 1", "points: 1\nfinished: math.no_part"),
        *(3, "`finished` names math.no_part, which does not exist"),
    ),
    "no reason": (TEXT.replace("Why: It differs.\n", ""), 13, "lacks why"),
    "nothing shared": (TEXT.replace("Look:", "As in: none\nLook:"), 14, "no section squared"),
    "a head alone": ("---\npoints: 1\n---\n", 1, "`# Right answer`"),
    "no answer": (TEXT.replace("# Right answer", "# Wrong answer"), 1, "`# Right answer`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_reported_with_its_line(write, name):
    text, line, said = FAULTS[name]
    with pytest.raises(TextError, match=rf"01_own/double\.md, line {line}: ") as raised:
        _ = write(text).find("double").misconceptions
    assert said in str(raised.value)


def test_a_faulty_python_file_is_named(write):
    with pytest.raises(TextError, match=r"double\.py can't be run: ZeroDivisionError"):
        write(python="1 / 0").find("double")
    with pytest.raises(TextError, match=r"double\.py does not define `probe`"):
        write(python="cases = expect = print").find("double")
    with pytest.raises(TextError, match=r"there is no triple\.py next to it"):
        write(python=None, id="triple").find("triple")


def test_exercises_are_ordered_by_their_field_after(write):
    write()
    write(TEXT.replace("points: 1", "points: 1\nafter: double"), id="a_second")
    write(TEXT.replace("points: 1", "points: 1\nafter: a_second"), id="another")
    assert write().ids() == ["double", "a_second", "another"]
    with pytest.raises(TextError, match="`after: nobody` names no earlier exercise"):
        write(TEXT.replace("points: 1", "points: 1\nafter: nobody"))
