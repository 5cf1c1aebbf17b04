"""Predictions work with any input, and the words of figures are found by name."""

import ast
import html
import math
import re
from itertools import pairwise

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from course_utils.desk import guesses
from course_utils.desk.folded import WIDGET, Folded
from course_utils.desk.guesses import (
    NONE_YET,
    OTHER,
    OTHERWISE,
    SAME,
    _fits,
    caption,
    recall,
    reveal,
)
from course_utils.desk.kept_back import kept_back
from tools import SOLUTIONS

from .test_editions import code_cells

LESSONS = sorted(SOLUTIONS.glob("*/*.ipynb"))
CAPTION = re.compile(r'caption\(\s*"(\d\d) ([^"]+)"')


def localised(capsys, guess, result, **options) -> str:
    reveal(guess, result, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize("guess", [..., None, [..., ...], (4.67, ...)])
def test_without_a_prediction_the_result_is_folded(guess, capsys):
    assert localised(capsys, guess, torch.tensor([14 / 3, 16 / 3])) == f"{NONE_YET}\n"
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
    assert SAME in localised(capsys, guess, result)


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
    assert OTHER in localised(capsys, guess, result)


def test_a_shape_is_shown_as_one(capsys):
    assert "the result: (3,) " in localised(capsys, (3,), torch.Size([3]))
    assert localised(capsys, [4, 8], torch.Size([4, 8])).splitlines() == [
        "your prediction: [4, 8]",
        f"the result: (4, 8)  ({SAME})",
    ]


def test_the_lesson_sets_the_tolerance_of_a_prediction(capsys):
    assert OTHER in localised(capsys, 0.7, 0.66)
    assert SAME in localised(capsys, 0.7, 0.66, within=0.05)


def test_an_explanation_follows_the_result_and_is_folded_with_it(capsys):
    shown = localised(capsys, [1, 2], torch.tensor([8.0, 11.0]), why="02 row")
    assert shown.splitlines()[2].startswith("Row 1 of the weights is 1, 1, 0")
    assert max(map(len, shown.splitlines())) <= 90
    folded = Folded(NONE_YET, "")
    assert "Row 1" not in repr(folded)
    assert localised(capsys, ..., 1.0, why="02 row").strip() == NONE_YET


REPLIES = {"20": "Twenty.", "8 to 12": "About ten.", "above 50": "Far above.", "above": "Above."}
TEXTS = {"04": {"why": {"it": "Explained.", "two": ""}, "wrong": {"it": REPLIES}}}


@pytest.mark.parametrize(
    ("guess", "reply"),
    [(20, "Twenty."), (19.995, "Twenty."), (8, "About ten."), (51, "Far above."), (31, "Above.")],
)
def test_a_wrong_prediction_is_answered_above_the_explanation(guess, reply, monkeypatch, capsys):
    monkeypatch.setattr(guesses, "kept_back", lambda: TEXTS)
    assert localised(capsys, guess, 30, why="04 it").splitlines() == [
        f"your prediction: {guesses._shown(guess)}",
        f"the result: 30  ({OTHER})",
        reply,
        "Explained.",
    ]


@pytest.mark.parametrize("guess", [30, 5, "thirty", True, [20, 20], ...])
def test_no_other_reader_sees_a_reply(guess, monkeypatch, capsys):
    monkeypatch.setattr(guesses, "kept_back", lambda: TEXTS)
    shown = localised(capsys, guess, 30, why="04 it")
    shown += Folded(NONE_YET, "")._repr_html_()
    assert not any(reply in shown for reply in REPLIES.values())


@pytest.mark.parametrize(
    ("key", "guess", "result"),
    [
        ("false", False, True),
        ("the dogs", "The dogs", "the cat"),
        ("14, 16", [14, 16], [8, 11]),
        ("..., above 0.7", [0.2, 0.8], [0.24, 0.67]),
        ("0, below", [0, 3], [1, 4]),
        ("3, 4", (3, 4), (4, 3)),
        ("below 0.2", -0.5, 0.5),
        ("20", "20", 30),
        (OTHERWISE, object(), 1),
    ],
)
def test_a_reply_is_found_by_the_value_that_was_predicted(key, guess, result):
    assert _fits(key, guess, result, 0.01)


@pytest.mark.parametrize(
    ("key", "guess", "result"),
    [
        ("true", False, True),
        ("14, 16", [14], [8, 11]),
        ("14", [14, 16], [8, 11]),
        ("below", 9, 8),
        ("above", math.nan, 8),
        ("above", 9, "cat"),
        ("cat", 3, "dogs"),
        ("1", True, 2),
    ],
)
def test_a_reply_is_for_no_other_value(key, guess, result):
    assert not _fits(key, guess, result, 0.01)


@pytest.mark.parametrize("guess", [0.24, "0.24, 0.67", True])
def test_one_value_where_two_numbers_are_asked_for_is_no_prediction_yet(guess, capsys):
    shown = localised(capsys, guess, torch.tensor([0.24, 0.67]), why="03 shares")
    assert shown.startswith("2 numbers are asked for, in square brackets.")
    assert "0.67" not in shown
    assert localised(capsys, "view", ["nan", 0.2]).startswith("2 answers are asked for")


def test_a_title_is_stored_by_name():
    words = caption("01 shares")
    assert words.keys() == {"title", "alt"}
    assert all(words.values())


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_stored_captions_of_a_lesson_are_the_ones_it_uses(path):
    number = path.stem[:2]
    kept = dict(kept_back().get(number, {}))
    explained, answered = kept.pop("why", {}), kept.pop("wrong", {})
    code = "\n".join(cell.source for cell in code_cells(path))
    used = {figure for lesson, figure in CAPTION.findall(code) if lesson == number}
    used |= {"recall"} if f'recall("{number}", [..., ..., ...])' in code else set()
    assert used == kept.keys()
    named = set(re.findall(rf'why="{number} ([^"]+)"', code))
    assert named == explained.keys() | answered.keys()
    replies = [reply for of_one in answered.values() for reply in of_one.values()]
    assert all(isinstance(reply, str) for reply in replies), 'quote a name with a point: "0.5"'
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


def stored_results(path):
    """Each `reveal` of a lesson with the result that is stored folded, and the cell after it."""
    cells = nbformat.read(path, as_version=4).cells
    for cell, after in pairwise(cells):
        calls = REVEAL.findall(cell.source) if cell.cell_type == "code" else []
        pages = [output.get("data", {}).get("text/html", "") for output in cell.get("outputs", ())]
        folded = [html.unescape(shown[1]) for page in pages if (shown := FOLDED.search(page))]
        for (name, options), shown in zip(calls, folded, strict=False):
            yield name, options, shown, after.source if after.cell_type == "markdown" else ""


REVEAL = re.compile(r"reveal\((predicted_\w+),(.*)\)", re.M)
FOLDED = re.compile(r"</summary><pre[^>]*>([^<\n]*)")
VERDICT = re.compile(r"(Yes|No|It does|It doesn't|They do|They don't|There is no error)\b")
PLAIN_WORDS = {"both", "less", "more", "same", "small", "the", "the same", "view"}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_reply_is_for_the_right_prediction(path):
    for name, options, shown, _ in stored_results(path):
        if found := re.search(r'why="(\d\d) ([^"]+)"', options):
            within = float((re.findall(r"within=([\d.]+)", options) or [0.01])[0])
            items = [_item(item) for item in shown.strip("[()]").split(", ")]
            result = items if shown.startswith(("[", "(")) else items[0]
            for key in kept_back()[found[1]].get("wrong", {}).get(found[2], {}):
                assert key == OTHERWISE or "..." in key or not _fits(key, result, result, within), (
                    name,
                    key,
                )


def _item(text):
    known = {"True": True, "False": False}
    return known[text] if text in known else float(text) if re.match(r"-?[\d.]+$", text) else text


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_sentence_after_a_prediction_doesn_t_contain_its_result(path):
    given = [
        f"{name} is {shown}, and the next cell says: {sentence}"
        for name, _, shown, text in stored_results(path)
        for sentence in re.split(r"(?<=[.:?!])\s|\n\n", text)[:1]
        if _says(sentence, shown)
    ]
    assert not given, "\n".join(given)


def _says(sentence, shown):
    if shown in ("True", "False"):
        return VERDICT.match(sentence)
    items = ".*?".join(re.escape(item) for item in shown.strip("[()]").split(", "))
    before = "[\"'*`]" if shown in PLAIN_WORDS else r"(?<![\w.])"
    return items and re.search(rf"{before}{items}(?!\.?\w)", sentence, re.S)
