"""Which cells of a notebook run when it is graded: those that its points may depend on."""

import pytest

from tools import NOTEBOOKS
from whywrong.hosting import joined
from whywrong_nbgrader.cells import Cell
from whywrong_nbgrader.fork_server import ForkServer
from whywrong_nbgrader.needed import needed
from whywrong_nbgrader.notebooks import LEFT_OUT, grade
from whywrong_nbgrader.reading import read
from whywrong_nbgrader.restoring import Kept, code_cells

IMPORTS = "import torch\nfrom course_utils import attention, check"


def lesson(*sources):
    return [Cell(source, demonstration=True) for source in (IMPORTS, *sources)]


ANSWER, CHECK = Cell("def f(x):\n    return x * scale"), Cell('check("f", f)', "f")


@pytest.mark.parametrize(
    ("sources", "own", "run"),
    [
        (["weights = attention.causal_mask(4)"], "", []),
        (["for x in [1]:\n    print(x)"], "", []),  # the answer's x is its own
        (["scale = 2"], "", [0]),
        (["def scale(): ...", "if True:\n    scale = 3"], "", [0, 1]),
        (["import math as scale"], "", [0]),
        (["scale, other = 1, 2"], "", [0]),
        (["def sets():\n    global scale\n    scale = 1", "sets()"], "", [0]),
        (["base = 2", "scale = base", "unused = base"], "", [0, 1, 2]),  # may change a list
        (["scale = []", "scale.append(2)", "print(scale)"], "", [0, 1, 2]),
        (["def twice(n):\n    return 2 * n", "scale = twice(1)"], "", [0, 1]),
        (["print(attention.causal_mask(4))"], "print(attention, torch)", []),
        (["models = [1]"], "print(len(models))", [0]),
        (["models = [1]"], "text = f'{models}'", [0]),
        (["models = [1]"], "%timeit len(models)", [0]),
        (["models = [1]"], "    len(models) does not compile", [0]),
        (["models = [1]"], "exec('print(mod' + 'els)')", [0]),
        (["models = [1]"], "globals()['mod' + 'els']", [0]),
        (["models = [1]"], "model.eval()", []),
        (["torch.set_default_dtype(torch.float64)"], "", [0]),
        (["torch.nn.Linear.forward = None"], "", [0]),
        (["torch.manual_seed(0)\nx = torch.randn(2)"], "", []),
        (["%matplotlib inline"], "", [0]),
        (["print(vars())"], "", [0]),
    ],
)
def test_a_demonstration_runs_if_points_may_depend_on_it(sources, own, run):
    cells = [*lesson(*sources), Cell(own), ANSWER, CHECK]
    runs = needed(cells)
    assert [n for n, known in enumerate(runs[1 : len(sources) + 1]) if known] == run
    assert all(known for cell, known in zip(cells, runs, strict=True) if not cell.demonstration)


def test_what_comes_after_the_last_use_does_not_run():
    cells = [*lesson("scale = 2"), ANSWER, CHECK, *lesson("scale = 3", "print(f(scale))")[1:]]
    assert needed(cells) == [False, True, True, True, False, False]


def test_a_name_that_is_set_between_an_answer_and_its_check_is_needed():
    cells = [*lesson(), ANSWER, *lesson("scale = 2")[1:], CHECK]
    assert needed(cells) == [False, True, True, True]


def test_nothing_of_a_long_notebook_takes_long():
    many = [Cell(f"{', '.join(f'n{i}' for i in range(500))} = range(500)") for _ in range(900)]
    assert all(needed([*many, CHECK]))


def test_only_unchanged_ungraded_cells_of_the_lesson_are_demonstrations():
    grade = {"grade": True}
    made = [Kept("code", "x = 1  "), Kept("code", "x = 2"), Kept("code", "x = 1", "", grade)]
    assert [c.demonstration for c in code_cells(made, ["x = 1"])] == [True, False, False]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("[1-5]*/*.ipynb")), ids=lambda p: p.stem)
def test_of_an_unsolved_lesson_hardly_a_demonstration_runs(path):
    given = [c["source"] for c in read(path).cells if c["kind"] == "code"]
    cells = code_cells([Kept("code", source) for source in given], given)
    assert 4 * sum(needed(cells)) <= len(cells)


def test_a_cell_that_no_points_depend_on_is_left_out_and_says_so():
    answer = Cell("def naive_mean(x):\n    return x")
    check = Cell('check("naive_mean", naive_mean)', "naive_mean")
    with ForkServer() as server:
        cells = [*lesson("print('never')"), answer, check, Cell("print(torch.pi)")]
        done = grade(cells, joined(()), server, lambda _: 4321)
    texts = [o.get("text", "").strip() for outputs in done.outputs for o in outputs]
    assert texts == [LEFT_OUT, "", "3.141592653589793"] and done.left_out == [1]
