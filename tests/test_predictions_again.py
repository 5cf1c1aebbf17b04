"""After Run All, "run both cells again" works for every prediction, in any order.

A later cell must not give another meaning to a name that an earlier prediction uses.
"""

import ast
import io
import re
from contextlib import redirect_stdout

import matplotlib
import nbformat
import pytest
from PIL import Image

import course_utils
from course_utils.desk import guesses
from course_utils.show import drawing
from tools import SOLUTIONS

from .test_device import passes, usable

LESSONS = sorted(SOLUTIONS.glob("*/*.ipynb"))


def pairs(cells):
    """For each prediction, its cell and the cell that reveals the result."""
    typed = {name: cell for cell in cells for name in re.findall(r"^(predicted_\w+) =", cell, re.M)}
    for cell in cells:
        names = dict.fromkeys(re.findall(r"reveal\((predicted_\w+)", cell))
        if names:
            yield list(dict.fromkeys(typed[name] for name in names)), cell


@pytest.mark.full("predictions run again after Run All")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_prediction_s_cells_run_again_after_all_others(path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    monkeypatch.setattr(course_utils, "check", passes, raising=False)
    monkeypatch.setattr(course_utils, "yours", usable, raising=False)
    monkeypatch.setattr("IPython.display.display", lambda *shown: None)
    monkeypatch.setattr(drawing, "_drawn", lambda figure: Image.new("RGB", (4, 4)))
    results: list[str] = []
    monkeypatch.setattr(
        guesses, "reveal", lambda guess, result, **_: results.append(_described(result))
    )
    cells = [
        cell.source
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", [])
    ]
    space = {"__name__": "__main__"}

    def run(cell):
        code = "".join(line for line in cell.splitlines(True) if line[0] not in "%!")
        results.clear()
        with redirect_stdout(io.StringIO()):
            exec(compile(ast.parse(code), path.name, "exec"), space)
        return list(results)

    first = {cell: run(cell) for cell in cells}
    known = list(pairs(cells))
    for again in (known, known[::-1]):
        for typed, revealed in again:
            for cell in typed:
                run(cell)
            assert run(revealed) == first[revealed], revealed


def _described(result):
    """The result, to two digits: sums in another order differ in the last ones."""
    return guesses._shown(guesses._plain(result))
