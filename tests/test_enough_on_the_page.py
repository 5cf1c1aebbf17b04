"""What an answer needs was on the page before: in lessons 01 to 08, each name of PyTorch that the
right answer uses is in the text or code above the exercise, or in the exercise's own text."""

import ast
import re

import nbformat
import pytest

from tools import SOLUTIONS
from whywrong.hosting import catalogue

LESSONS = [path for path in sorted(SOLUTIONS.glob("*/*.ipynb")) if "01" <= path.stem[:2] <= "08"]
# Lesson 00 and PyTorch's own tutorials: what somebody who has written a module knows.
KNOWN = {
    *("nn", "Module", "Linear", "Parameter", "super", "__init__", "shape", "weight", "bias"),
    *("range", "len", "float", "bool", "int", "list", "zip", "tuple", "isinstance", "ValueError"),
}
# The one thing that an exercise asks the reader to find out, and says so.
TO_FIND_OUT = {"naive_mean": {"zeros_like"}, "tril_mean": {"to"}}
SAME = {"new_zeros": "new_full"}  # the exercise's text names another function for the same
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)\s*### END SOLUTION", re.DOTALL)


def names_of(answer):
    """The attributes, functions and keyword arguments that an answer uses and doesn't make."""
    tree = ast.parse(answer)
    made = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    made |= {arg.arg for node in ast.walk(tree) if isinstance(node, ast.arguments)
             for arg in [*node.args, *node.kwonlyargs]}  # fmt: skip
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            used |= {keyword.arg for keyword in node.keywords if keyword.arg}
            used |= {node.func.id} if isinstance(node.func, ast.Name) else set()
    return used - made - KNOWN - {"self", "torch"}


def cells_of_the_lessons():
    """Each cell with its lesson's path and all text that a reader has met above it."""
    above = ""
    for path in LESSONS:
        for cell in nbformat.read(path, as_version=4).cells:
            yield path, cell, above
            above += SOLUTION.sub("", cell.source) + "\n"


@pytest.fixture(scope="module")
def solved():
    exercises = set(catalogue().ids())
    return {
        name: (cell.source, above)
        for _, cell, above in cells_of_the_lessons()
        if cell.cell_type == "code" and "### BEGIN SOLUTION" in cell.source
        if (name := cell.metadata.get("nbgrader", {}).get("grade_id")) in exercises
    }


def test_what_an_answer_needs_was_on_the_page_before(solved):
    missing = {}
    for name, (answer, above) in solved.items():
        if not re.search(r"^(def|class) ", answer, re.M):
            continue  # a quiz
        earlier = set(re.findall(r"\w+", above + SOLUTION.sub("", answer)))
        earlier |= {function for function, named in SAME.items() if named in earlier}
        if lacking := names_of(answer) - earlier - TO_FIND_OUT.get(name, set()):
            missing[name] = lacking
    assert missing == {}


def test_what_is_to_be_found_out_is_asked_for(solved):
    for name, hidden in TO_FIND_OUT.items():
        answer, above = solved[name]
        assert hidden <= names_of(answer)
        asked = above[above.rindex(f"### Exercise: `{name}`") :]
        assert re.search("find out|Find", asked)


def test_the_rule_sees_a_function_that_was_never_shown():
    assert names_of("def f(x):\n    return x.triu(diagonal=1) + torch.arange(3)") == {
        "triu",
        "diagonal",
        "arange",
    }


IMPORT = re.compile(r"\bfrom course_utils[\w.]* import [\w, ]*\w")


def test_what_a_text_says_to_import_can_be_imported():
    pages = [path.read_text(encoding="utf-8") for path in SOLUTIONS.glob("*/*.ipynb")]
    typed = sorted({line for page in pages for line in IMPORT.findall(page)})
    assert typed
    for line in typed:
        exec(line, {})


def test_what_a_reader_builds_runs_within_four_cells_after_its_check():
    unused = []
    for path in LESSONS:
        cells = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        for i, cell in enumerate(cells):
            checked = re.match(r'check\("(\w+)"', cell)
            if checked and catalogue().find(checked[1]).finished is not None:
                soon = "\n".join(cells[i + 1 : i + 5])
                unused += [] if f'yours("{checked[1]}"' in soon else [checked[1]]
    assert unused == []
