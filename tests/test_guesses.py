"""Predictions work with any input, and the words of figures are found by name."""

import ast
import math
import re

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from course_utils.desk import guesses
from course_utils.desk.guesses import (
    NONE_YET,
    OTHER,
    SAME,
    WIDGET,
    Folded,
    caption,
    kept_back,
    recall,
    reveal,
)
from tools import SOLUTIONS

from .test_editions import code_cells

LESSONS = sorted(SOLUTIONS.glob("*/*.ipynb"))
CAPTION = re.compile(r'caption\(\s*"(\d\d) ([^"]+)"')


def said(capsys, guess, result, **options) -> str:
    reveal(guess, result, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize("guess", [..., None, [..., ...], (4.67, ...)])
def test_without_a_prediction_the_result_is_folded(guess, capsys):
    assert said(capsys, guess, torch.tensor([14 / 3, 16 / 3])) == f"{NONE_YET}\n"
    page = Folded(NONE_YET, "a < b")._repr_html_()
    assert re.search(r"<details><summary>.*</summary><pre[^>]*>a &lt; b</pre></details>", page)


def test_without_a_prediction_the_rest_of_the_cell_is_folded_too():
    cells = [
        "from course_utils import figures\nfrom course_utils.desk.guesses import reveal\n"
        "import ipywidgets\nimport torch",
        "reveal(..., 1)\nreveal(..., 2)\nprint('printed')\ndisplay(ipywidgets.Button())\n"
        "figures.heatmap(torch.ones(1, 1), rows='a', columns='b', title='drawn', alt='drawn')",
        "reveal(..., 3)\n1 / 0",
        "print('shown')",
    ]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute()
    _, folded, broken, last = (cell.outputs for cell in notebook.cells)
    page = folded[0].data["text/html"].split("<details>", 1)
    assert "printed" not in page[0] and "drawn" not in page[0]
    assert "printed" in page[1] and 'alt="drawn"' in page[1]
    assert [WIDGET in output.data for output in folded] == [False, True]
    assert {output.output_type for output in broken} == {"display_data", "error"}
    assert [output.get("text") for output in last] == ["shown\n"]


def test_answers_to_the_first_questions_are_judged_one_by_one(monkeypatch, capsys):
    kept = {"answers": ["after", 3, True], "because": ["So it is.", "One, two, three.", "Always."]}
    monkeypatch.setattr(guesses, "kept_back", lambda: {"04": {"recall": kept}})
    recall("04", ["After", 2, ...])
    assert capsys.readouterr().out.splitlines() == [
        "1: right. So it is.",
        "2: not 2. Think again, or look it up.",
        "3: no answer yet",
    ]
    for other in ([...], "after", ...):
        recall("04", other)
        assert capsys.readouterr().out.startswith("Type 3 answers")
    recall("04", ["after", "Three", "true"])
    assert capsys.readouterr().out.count(": right.") == 3
    recall("04", ["after", "two", "false"])
    assert capsys.readouterr().out.count(": not ") == 2


def test_a_number_that_is_asked_for_roughly_is_right_within_a_tenth(capsys):
    for near, far in ((6.9, 6.7), (7, 7.2)):
        recall("17", [near, ..., ...])
        assert "1: right" in capsys.readouterr().out
        recall("17", [far, ..., ...])
        assert "1: not" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("guess", "result"),
    [
        ([4.67, 5.33], torch.tensor([4.6667, 5.3333])),
        ((4, 8, 2), torch.Size([4, 8, 2])),
        ("The Query", "the query"),
        ("four-times", "four times"),
        (True, torch.tensor(True)),
        (120, 120),
        (math.inf, math.inf),
        (math.nan, math.nan),
        (torch.tensor([[1.0, 0.0]]), [[1, 0]]),
    ],
)
def test_a_guess_that_is_right(guess, result, capsys):
    assert SAME in said(capsys, guess, result)


@pytest.mark.parametrize(
    ("guess", "result"),
    [
        ([4.67, 5.4], torch.tensor([4.6667, 5.3333])),
        ([4, 8], (4, 8, 2)),
        ("key", "query"),
        (1, True),
        ("120", 120),
        (math.nan, 1.0),
        ([[1]], [1]),
        (object(), 1.0),
        ({"a": 1}, [1]),
    ],
)
def test_a_guess_that_is_wrong(guess, result, capsys):
    assert OTHER in said(capsys, guess, result)


def test_a_shape_is_shown_as_one(capsys):
    assert "the result: (3,) " in said(capsys, (3,), torch.Size([3]))
    assert said(capsys, [4, 8], torch.Size([4, 8])).splitlines() == [
        "your prediction: [4, 8]",
        f"the result: (4, 8)  ({SAME})",
    ]


def test_the_lesson_sets_the_tolerance_of_a_prediction(capsys):
    assert OTHER in said(capsys, 0.7, 0.66)
    assert SAME in said(capsys, 0.7, 0.66, within=0.05)


def test_an_explanation_follows_the_result_and_is_folded_with_it(capsys):
    shown = said(capsys, [14, 16], torch.tensor([8.0, 11.0]), why="02 row")
    assert shown.splitlines()[2].startswith("Row 1 of the weights is 1, 1, 0")
    assert max(map(len, shown.splitlines())) <= 90
    folded = Folded(NONE_YET, "")
    assert "Row 1" not in repr(folded)
    assert said(capsys, ..., 1.0, why="02 row").strip() == NONE_YET


def test_a_title_is_stored_by_name():
    words = caption("01 shares")
    assert words.keys() == {"title", "alt"}
    assert all(words.values())


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_stored_captions_of_a_lesson_are_the_ones_it_uses(path):
    number = path.stem[:2]
    kept = dict(kept_back().get(number, {}))
    explained = kept.pop("why", {})
    code = "\n".join(cell.source for cell in code_cells(path))
    used = {figure for lesson, figure in CAPTION.findall(code) if lesson == number}
    used |= {"recall"} if f'recall("{number}", [..., ..., ...])' in code else set()
    assert used == kept.keys()
    assert set(re.findall(rf'why="{number} ([^"]+)"', code)) == explained.keys()
    if "recall" in kept:
        assert [len(kept["recall"][part]) for part in ("answers", "because")] == [3, 3]
        assert kept["recall"].keys() <= {"answers", "because", "within"}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_prediction_is_left_open_and_revealed_in_a_later_cell(path):
    typed: set[str] = set()
    revealed: set[str] = set()
    for cell in code_cells(path):
        code = "".join(line for line in cell.source.splitlines(True) if line[0] not in "%!")
        tree = ast.parse(code)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "reveal":
                revealed.add(ast.unparse(node.args[0]))
                assert revealed <= typed, f"no cell to type the guess in:\n{cell.source}"
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith(
                ("guess_", "predicted_")
            ):
                answers = node.value.elts if isinstance(node.value, ast.List) else [node.value]
                assert {ast.unparse(answer) for answer in answers} == {"..."}, cell.source
                typed.add(ast.unparse(node.targets[0]))
    assert revealed == typed
