"""Code in a hint can be typed into its lesson: the lesson imports the modules it names."""

import ast
import re
import sys
from pathlib import Path

import nbformat
import pytest

from whywrong.hosting import catalogue

ROOT = Path(__file__).parents[1]
MODULES = {"torch", "nn", "F", "np", *sys.stdlib_module_names} | {
    path.stem for path in (ROOT / "course_utils").glob("*.py")
}
HINTS = [
    pytest.param(exercise.lesson, hint, id=f"{exercise.id}-{number}")
    for exercises in catalogue().by_lesson.values()
    for exercise in exercises
    for number, hint in enumerate(exercise.hints, start=1)
]


def named_modules(hint):
    """The modules at the beginning of dotted names, such as `math` in `math.sqrt(2)`."""
    code = " ".join(re.findall(r"`([^`]+)`", hint))
    return set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)\.[A-Za-z_]", code)) & MODULES


def imported(lesson):
    """The names that the cells of a lesson import."""
    cells = nbformat.read(ROOT / "solutions" / f"{lesson}.ipynb", as_version=4).cells
    trees = (ast.parse(cell.source) for cell in cells if cell.cell_type == "code")
    imports = (node for tree in trees for node in ast.walk(tree))
    names = [n for i in imports if isinstance(i, ast.Import | ast.ImportFrom) for n in i.names]
    return {(name.asname or name.name).split(".")[0] for name in names}


@pytest.mark.parametrize(("lesson", "hint"), HINTS)
def test_a_hint_names_only_modules_that_its_lesson_imports(lesson, hint):
    assert named_modules(hint) <= imported(lesson)


def test_a_module_that_a_hint_names_is_found():
    assert named_modules("Divide by `math.sqrt(x.shape[-1])`, not by `x.math.sqrt`.") == {"math"}
