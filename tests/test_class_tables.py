"""An instructor's view of a class: the table, the page, the flags."""

import csv
import io

import pytest

from whywrong import check_exercise
from whywrong.hosting import joined
from whywrong_nbgrader import flags
from whywrong_nbgrader.alike import normal
from whywrong_nbgrader.cells import Cell
from whywrong_nbgrader.classroom import Work
from whywrong_nbgrader.notebooks import Graded
from whywrong_nbgrader.tables import COLUMNS, Line, Table, _items

COURSE = joined(())

NAIVE_MEAN = COURSE.find("naive_mean")
LONG = "\n".join(f"    y{n} = x * {n} + torch.ones(3)" for n in range(12))


def report(answer):
    return check_exercise(NAIVE_MEAN, answer, 3, COURSE).to_dict()


@pytest.fixture(scope="module")
def table():
    wrong = NAIVE_MEAN.misconception("no_mask").answer
    lines = [
        Line("ada", 0.0, 0.0, 0.0, {"naive_mean": report(None)}),
        Line("ben", 0.5, 0.25, 0.25, {"naive_mean": report(wrong)}),
        Line("=cmd()", 0.5, 0.5, 0.0, {"naive_mean": report(wrong)}, [], ["<b>look</b>"]),
    ]
    return Table("1-averages", 12.0, lines, _items(lines), ["sandbox"])


def test_the_mistakes_of_the_class_are_counted_with_a_sentence_for_it(table):
    (item,) = table.items
    ((name, count, what),) = item.misconceptions
    assert (name, count) == ("no_mask", 2)
    assert what == NAIVE_MEAN.misconception("no_mask").what
    assert item.states["not attempted"] == 1 and sum(item.states.values()) == 3
    assert f"2 x {name}" in table.text()


def test_no_cell_of_the_table_is_a_formula_or_a_tag(table):
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [r["student"] for r in rows] == ["ada", "ben", "'=cmd()"]
    assert rows[1]["misconceptions"] == "naive_mean: no_mask" and rows[1]["tier"] == "sandbox"
    page = table.html()
    assert "&lt;b&gt;look&lt;/b&gt;" in page and "<b>look" not in page
    for fetched in ("http", "src=", "@import", "<script"):
        assert fetched not in page


def test_other_systems_get_their_columns(table):
    table.people = {"ben": {"first_name": "B", "last_name": "L", "lms_user_id": "7"}}
    canvas, moodle, gradescope = (table.csv(lms).splitlines() for lms in COLUMNS)
    assert canvas[0] == "Student,ID,SIS User ID,SIS Login ID,Section,1-averages"
    assert canvas[1] == "    Points Possible,,,,,12" and canvas[3] == '"L, B",7,,ben,,0.25'
    assert moodle[0].endswith("Email address,Assignment: 1-averages (Real)")
    assert moodle[2] == "ben,7,,0.25"
    assert gradescope[1:] == ["B,L,7,,0.25,12"], "nobody who could not be found there"


def test_the_terminal_shows_who_needs_a_decision_and_counts_the_others(table):
    shown = table.text().splitlines()
    assert table.needs_a_person and shown[3:5] == ["", "=cmd()    0.50  <b>look</b>"]
    assert shown[6].startswith("Nothing has to be decided about the other 2: 2 are graded")
    told = (
        ["the same text as ben in naive_mean"],
        ["it can't be read"],
        ["x: course grade 1 --enrol"],
    )
    for decisions, closer in zip(
        told, ("explain O naive_mean", "grade a --student O", ""), strict=True
    ):
        line = Line("O", 0.0, 0.0, 0.0, {"naive_mean": report(None)}, ["info"], decisions)
        assert line.look_at("a") == (f"course {closer}" if closer else "")


def test_where_nothing_has_to_be_decided_nobody_is_called_the_other():
    ada = Line("ada", 0.25, 0.25, 0.0, {})
    absent = Line("ben", 0.0, 0.0, 0.0, {}, graded=False, handed_in=False)
    said = "Nothing has to be decided about anybody: 1 is graded, on average 0.25 points."
    assert said in Table("1-averages", 2.0, [ada, absent], [], []).others()


def test_one_student_has_one_line_with_all_remarks():
    line = Line("ada\n\x1b[2J", 1.0, 1.0, 0.5, {}, ["two"], ["one"])
    text = Table("", 1.0, [line], [], []).text()
    assert "ada �[2J    1.00 - 0.5 late  nothing was graded ! one ! two\n" in text
    assert "\x1b" not in text


def test_a_part_is_never_called_all():
    right = {"naive_mean": report(NAIVE_MEAN.finished) | {"passed": True}}
    assert Line("ada", 2.0, 2.0, 0.0, right).failures() == "all right"
    assert Line("ada", 2.0, 2.0, 0.0, right, complete=False).failures() != "all right"


def work(student, source):
    """The same source, under three names, answers three exercises."""
    cells = [Cell("import torch")]
    for id in ("naive_mean", "tril_mean", "softmax"):
        wide = chr(ord(id[0]) + 0xFEE0) + id[1:]
        named = source.replace("naive_mean", id).replace("\uff4eaive_mean", wide)
        cells += [Cell(named), Cell("", id)]
    return Work(student, "01_naive_mean", cells, name=student)


class Class:
    assignment, notebooks = "1-averages", ["01_naive_mean"]

    def __init__(self, **sources):
        self.works = [work(student, source) for student, source in sources.items()]


@pytest.fixture(autouse=True)
def released(monkeypatch):
    stub = {"naive_mean": "def naive_mean(x):\n    ..."}
    monkeypatch.setattr(flags, "_handed_out", lambda _: stub)
    monkeypatch.setattr(flags, "_published", lambda _: {})


def test_two_with_the_same_answers_are_listed_but_never_for_quizzes_programs_or_one_liners():
    same = f"def naive_mean(x):\n{LONG}\n    return y1"
    own = "\ndef naive_mean(x):\n    return x"
    told = flags.flagged(Class(ada=same, ben=f"# my own\n{same}  # really", eve=own))
    exercises = "naive_mean, softmax, tril_mean"
    assert told == {
        "ada": [f"the same text as ben in {exercises}"],
        "ben": [f"the same text as ada in {exercises}"],
    }
    short = "def naive_mean(x):\n    return x.cumsum(1)"
    assert flags.flagged(Class(ada=short, ben=short)) == {}
    crowd = {f"s{n}": same for n in range(60)}
    assert flags.flagged(Class(**crowd)) == {}  # so many write what the lesson shows
    assert not flags._is_telling("naive_mean_shapes") and not flags._is_telling("patient_a")


def test_a_copy_of_the_published_solution_is_flagged(monkeypatch):
    same = f"def naive_mean(x):\n{LONG}\n    return y1"
    monkeypatch.setattr(flags, "_published", lambda _: {"naive_mean": same})
    assert flags.flagged(Class(ada=same, ben="def naive_mean(x):\n    return x")) == {
        "ada": ["the text of the published solution: naive_mean"]
    }


def test_a_copy_with_something_around_it_or_in_it_is_flagged():
    same = f"def naive_mean(x):\n{LONG}\n    return y1"
    inside = "\n    ".join(same.replace("    y5 =", "    print('five')\n    y5 =").split("\n"))
    wide = same.replace("torch", "\uff54orch").replace("naive", "\uff4eaive")  # full-width letters
    told = same.replace("\n", "\n    'first'\n    'then'\n", 1)  # two docstrings
    for copied in (f"if True:\n    {inside}", wide, f"print('mine')\n{same}", told):
        assert flags.flagged(Class(ada=same, ben=copied)).keys() == {"ada", "ben"}, copied


def test_an_answer_that_compiles_to_the_finished_part_is_flagged():
    honest, copied, short = (work(n, "def naive_mean(x):\n    return x") for n in "abc")
    copied.graded = Graded(codes={"naive_mean": 47})
    short.graded = Graded(codes={"merge_heads": 22, "causal_mean_weights": 18})
    honest.graded = Graded()
    everyone = Class()
    everyone.works = [honest, copied, short]
    said = "naive_mean compiles to the course's own finished part"
    assert flags.flagged(everyone) == {"b": [said]}


def test_unreadable_or_very_long_code_does_not_stop_flagging():
    odd = "def naive_mean(x:\n" + "(" * 5000
    slow = "naive_mean = 1;" + "x=1;" * 400_000
    told = flags.flagged(Class(ada=odd, ben=odd, eve=slow))
    assert "eve" not in told
    assert normal("x  =\n (") == "x  =\n ("


def test_a_text_that_takes_too_long_to_parse_stops_no_other(monkeypatch):
    hard = "hard"
    real = flags.helper().ask

    def ask(task, texts, seconds):
        if hard in texts:
            raise flags.TooMuch
        return real(task, texts, seconds=seconds)

    monkeypatch.setattr(flags.helper(), "ask", ask)
    found, stuck = flags.printed(["y = 1", hard, "z = 1"])
    assert stuck == {hard} and found["y = 1"] and not found[hard]
