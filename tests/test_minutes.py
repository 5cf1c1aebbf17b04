"""The minutes that lessons state follow one rule."""

import re
from copy import deepcopy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import SOLUTIONS
from tools.minutes import (
    LONGEST,
    Count,
    count,
    main,
    prose,
    sittings,
    state,
    state_totals,
    table,
    words,
)
from whywrong.hosting import joined

COURSE = joined(())

POINTS = {"double": 2.0, "sizes": 0.5}
SOLVED = "### BEGIN SOLUTION\n    {}\n    ### END SOLUTION"
STUB = 'def double(x):\n    """Twice x."""\n    ' + SOLVED.format("y = x\n    return y + y")
QUIZ = "sizes = {\n    " + SOLVED.format('"out": (3,),\n    "in": (2,),') + "\n}"


def text(source):
    return new_markdown_cell(source)


def cell(source, *outputs):
    return new_code_cell(source, outputs=[new_output("display_data", data=d) for d in outputs])


@pytest.mark.parametrize(
    ("counted", "minutes"),
    [
        (Count(words=130), 1),
        (Count(words=65), 1),
        (Count(words=64), 1),
        (Count(lines=60), 7),
        (Count(predictions=5), 3),
        (Count(figures=10), 7),
        (Count(points=2), 10),
        (Count(words=130) + Count(lines=60, predictions=5) + Count(figures=10, points=0.5), 21),
    ],
)
def test_the_rule_of_the_curriculum(counted, minutes):
    assert counted.minutes == minutes


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("Two words — and a dash.", 5),
        ("| a | b |\n|---|---|\n| one | two |", 4),
        ("[a link](https://example.org/a b)", 2),
        ("$$\nx + y\n$$\nonly this, and $T^2$", 4),
        ("<details><summary>So?</summary>Yes.</details>", 2),
    ],
)
def test_words_are_counted_as_read(source, words):
    assert count([text(source)], {}).words == words


def test_predictions_and_figures_are_counted():
    map_ = {"text/html": "…", "text/plain": "attention_map(3 queries × 3 keys)"}
    cells = [
        text("**Predict:** a\n\n**predict** b; predict c"),
        cell("show()", {"image/png": "…"}, {"text/html": "<svg></svg>"}, map_, {"text/html": "no"}),
    ]
    counted = count(cells, {})
    assert (counted.predictions, counted.figures) == (2, 3)


def test_lines_are_counted_without_the_answer():
    cells = [
        cell("a = 1\n\nb = 2  # why"),
        cell(STUB),  # def, docstring, your code here
        cell(QUIZ),  # four lines: the questions stay
        cell("try:\n    x\nfinally:\n    report_environment()"),
        cell('check("double", double)\n### BEGIN HIDDEN TESTS\n1\n### END HIDDEN TESTS'),
    ]
    assert count(cells, POINTS) == Count(lines=2 + 3 + 4, points=2.0)


def test_a_lesson_without_headings_is_one_sitting():
    cells = [text("# 01 · A lesson"), text("## 1. First")]
    assert sittings(cells) == [("", cells)]


def test_cells_before_the_first_sitting_belong_to_it():
    cells = [
        text("# 01 · A lesson"),
        text("## Sitting 1 of 2 · One (about 9 minutes)"),
        cell("1"),
        text("## Sitting 2 of 2 · Two"),
        text("## 4. Two"),
        text("## Workshop (about 3 minutes)"),
    ]
    assert sittings(cells) == [
        ("Sitting 1 of 2", cells[:3]),
        ("Sitting 2 of 2", cells[3:5]),
        ("Workshop", cells[5:]),
    ]


def test_a_lesson_of_one_sitting_states_its_minutes():
    notebook = new_notebook(
        cells=[
            text("# 01 · A lesson\n\nIt takes about 99 minutes."),
            text("## 1. First (3 minutes)\n\n" + "word " * 1300),
            text(
                "### Exercise: `double`\n\n*Difficulty: ●○○ · about 0 minutes · 0 points*\n\nWrite."
            ),
            cell(STUB),
            cell('check("double", double)'),
            text("## 2. Second (1 minute) of all (2 minutes)\n\n" + "word " * 130),
            text("## What just happened\n\nTime (3 minutes)"),
        ]
    )
    state(notebook, POINTS)
    said = [c.source.strip("word \n") for c in notebook.cells]
    assert "about 22 minutes" in said[0]
    assert said[1] == "## 1. First (20 minutes)"
    assert "*Difficulty: ●○○ · about 10 minutes · 2 points*" in said[2]
    assert said[5] == "## 2. Second (1 minute) of all (1 minute)"
    assert said[6].endswith("Time (3 minutes)")
    before = deepcopy(notebook)
    state(notebook, POINTS)
    assert notebook == before


@pytest.mark.parametrize(("words", "promise"), [(130, "1 minute"), (260, "2 minutes")])
@pytest.mark.parametrize("before", ["1 minute", "9 minutes"])
def test_the_minutes_of_a_short_lesson_are_counted_too(before, words, promise):
    notebook = new_notebook(
        cells=[text(f"# 01\n\nIt takes about {before}."), text("word " * words)]
    )
    state(notebook, POINTS)
    assert notebook.cells[0].source.endswith(f"about {promise}.")


def test_each_of_several_sittings_states_its_own():
    notebook = new_notebook(
        cells=[
            text("# 01 · A lesson\n\nA break of about 5 minutes between the sittings helps."),
            text("## Sitting 1 of 2 · One (about 9 minutes)\n\n" + "word " * 1300),
            text("## Sitting 2 of 2 · Two (about 9 minutes)\n\n" + "word " * 130),
            text("## 3. Third (7 minutes)\n\n" + "word " * 260),
            text("word " * 130 + "\n\n## 4. Fourth (7 minutes)\n\n" + "word " * 520),
        ]
    )
    state(notebook, POINTS)
    said = [c.source.strip("word \n") for c in notebook.cells]
    assert "about 5 minutes" in said[0]
    assert said[1:] == [
        "## Sitting 1 of 2 · One (about 10 minutes)",
        "## Sitting 2 of 2 · Two (about 8 minutes)",
        "## 3. Third (3 minutes)",
        "## 4. Fourth (4 minutes)",
    ]


def test_the_table_says_which_sitting_is_too_long(tmp_path, capsys):
    (tmp_path / "1-a").mkdir()
    for name, long in {"01_short": 130, "02_long": 46 * 130}.items():
        notebook = new_notebook(cells=[text("word " * long)])
        nbformat.write(notebook, tmp_path / "1-a" / f"{name}.ipynb")
    paths = sorted(tmp_path.glob("*/*"))
    lines, well = table(paths, {})
    assert [line.endswith("too long") for line in lines[1:]] == [False, True]
    assert not well
    assert main(["01"], tmp_path) == 0
    assert main([], tmp_path) == 1
    assert "02_long" in capsys.readouterr().out


def test_the_words_of_a_lesson_are_shown_beside_those_of_an_earlier_draft(tmp_path):
    cells = [
        text("Four (in two `f(x)`) words, 3.5 of them $f(x)$.\n\n" + "long " * 81),
        text("## What just happened\n\nNearly nothing.\n\n## Next\n\nMore."),
    ]
    nbformat.write(new_notebook(cells=cells), path := tmp_path / "02_short.ipynb")
    _, row, total = words([path])
    numbers = row.split()[1:]
    assert numbers[:2] == ["97", "644"] and numbers[-1] == "1"
    assert numbers[2:5] == [f"{share / 97:.1%}" for share in (3, 2, 1)]
    assert total.split()[1:] == numbers
    nbformat.write(new_notebook(cells=cells), path := tmp_path / "17_newer.ipynb")
    assert words([path])[1].split()[1:3] == ["97", "-"]


def test_a_paragraph_is_neither_a_heading_nor_a_table():
    parts = ["One\ntwo.", "- A bullet", "- and another"]
    assert prose("# Head\n\nOne\ntwo.\n\n| a |\n|---|\n\n- A bullet\n- and another") == parts


# ---------------------------------------------------------------- the actual course


LESSONS = sorted(SOLUTIONS.glob("*/*.ipynb"))
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@each_lesson
def test_no_sitting_of_the_course_is_too_long(path):
    lines, well = table([path], COURSE.points())
    assert well, "\n".join(lines)


def _minutes(lesson):
    [path] = SOLUTIONS.glob(f"*/{lesson}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    return [count(cells, COURSE.points()).minutes for _, cells in sittings(cells)]


def test_the_way_to_the_softmax_takes_at_most_105_minutes():
    assert sum(sum(_minutes(lesson)) for lesson in ("01", "02", "03")) <= 105


def test_what_every_reader_needs_of_padding_takes_30_minutes():
    needed, head, optional = _minutes("05")
    assert needed <= 30 and head <= LONGEST and optional <= LONGEST


@each_lesson
def test_a_lesson_states_the_counted_minutes(path):
    notebook = nbformat.read(path, as_version=4)
    before = [cell.source for cell in notebook.cells]
    state(notebook, COURSE.points(), COURSE.ungraded())
    assert [cell.source for cell in notebook.cells] == before, "run `make notebooks`"


@each_lesson
def test_a_lesson_of_several_sittings_names_them_in_order(path):
    names = [name for name, _ in sittings(nbformat.read(path, as_version=4).cells)]
    numbered = [name for name in names if name.startswith("Sitting")]
    assert numbered == [f"Sitting {i} of {len(numbered)}" for i in range(1, len(numbered) + 1)]


@each_lesson
def test_every_exercise_says_how_hard_it_is_and_what_it_is_worth(path):
    texts = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    said = re.findall(
        r"^### Exercise: `(\w+)`\n+\*Difficulty: [●○]{3} · about \d+ minutes? · "
        r"(?:[\d.]+ points?|not graded)\*$",
        "\n\n".join(texts),
        re.M,
    )
    lesson = f"{path.parent.name}/{path.stem}"
    assert sorted(said) == sorted(e.id for e in COURSE.by_lesson.get(lesson, ()))


@pytest.mark.parametrize("page", ["README.md", "solutions/index.ipynb"])
def test_the_stated_length_of_the_course_is_right(page, tmp_path):
    text = (SOLUTIONS.parent / page).read_text(encoding="utf-8")
    copied = tmp_path / "page"
    copied.write_text(re.sub(r"(?<=and are worth )\d+", "9", text), encoding="utf-8")
    assert copied.read_text(encoding="utf-8") != text
    state_totals(copied, COURSE.points(), COURSE.ungraded())
    assert copied.read_text(encoding="utf-8") == text, "run `make notebooks`"
