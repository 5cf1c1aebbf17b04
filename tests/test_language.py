"""What is shown is in the reader's language; what is stored and graded is English."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from course_utils.desk import language as desk_language
from course_utils.show import drawing
from tools import sentences, site
from tools.translations import TRANSLATIONS, complete, languages
from whywrong import Report, _course, check_exercise
from whywrong._card import rich
from whywrong._course import Strings
from whywrong.hosting import MARKER, joined, localised, plain_text, speaking
from whywrong_nbgrader.cells import nbgrader_metadata
from whywrong_nbgrader.notebooks import Graded, card
from whywrong_nbgrader.preprocessors import fill_in
from whywrong_nbgrader.reading import read

COURSE = joined(())

WORDS = {
    "right": "richtig",
    "not right yet": "noch falsch",
    "{name:w}: {status}, {points:g} of {all:g} points": "{name}: {status}, {points}/{all}",
    "It runs.": "Es läuft.",
    "It stops.": "停。",
    "Each token is its mean.": "Jeder ist sein Mittel.",
    "{name} is {answer:v}. {why:s}": "{name} ist {answer}. {why}",
    "{count:g} lines": "{count} Zeilen",
    "Your code printed {lines}.": "Dein Code schrieb {lines}.",
    "Untranslated": "",
}


@pytest.fixture(autouse=True)
def german(tmp_path, monkeypatch):
    """A course with one language, "xx"."""
    folder = tmp_path / "xx" / "strings"
    folder.mkdir(parents=True)
    (folder / "words.json").write_text(json.dumps(WORDS), encoding="utf-8")
    for asking in (_course, desk_language):
        monkeypatch.setattr(asking, "installed", lambda: SimpleNamespace(translations=tmp_path))
    monkeypatch.delenv("COURSE_LANGUAGE", raising=False)
    _course.strings.cache_clear()
    yield
    _course.strings.cache_clear()


@pytest.mark.parametrize(
    ("english", "shown"),
    [
        ("right", "richtig"),
        ("It runs. Each token is its mean.", "Es läuft. Jeder ist sein Mittel."),
        ("It runs. It stops.", "Es läuft.停。"),  # no blank beside a wide character
        ("It stops. It stops.", "停。停。"),
        ("It runs. It falls.", "It runs. It falls."),
        ("  It runs.\nIt falls.", "  Es läuft.\nIt falls."),
        ("x[0, 1] is (3, 2). It runs.", "x[0, 1] ist (3, 2). Es läuft."),
        ("x is (3, 2). It falls.", "x is (3, 2). It falls."),
        ("All is well. It runs.", "All is well. It runs."),
        ("Your code printed 12 lines.", "Dein Code schrieb 12 Zeilen."),
        ("Untranslated", "Untranslated"),
        ("", ""),
    ],
)
def test_a_sentence_is_looked_up_as_a_whole_or_part_by_part(english, shown):
    with speaking("xx"):
        assert localised(english) == shown
    assert localised(english) == english


def test_a_word_without_blanks_around_it_is_emphasised():
    assert rich("让*行*加起来是 1") == "让<em>行</em>加起来是 1"
    assert plain_text("让*行*加起来是 1") == "让行加起来是 1"
    assert rich("a*b*c, 2 * d * e, 2*d*e") == plain_text("a*b*c, 2 * d * e, 2*d*e")


def test_the_language_is_that_of_the_folder_or_of_the_environment(tmp_path, monkeypatch):
    inside = tmp_path / "edition" / "1-averages"
    inside.mkdir(parents=True)
    (tmp_path / "edition" / MARKER).write_text("xx\n", encoding="utf-8")
    monkeypatch.chdir(inside)
    assert localised("right") == "richtig"
    monkeypatch.setenv("COURSE_LANGUAGE", "en")
    assert localised("right") == "right"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_LANGUAGE", "xx")
    assert localised("right") == "richtig"


def test_without_a_folder_everything_is_english(tmp_path, monkeypatch):
    """A check never raises an error, whatever the answer did."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert localised("right") == "right"


@pytest.mark.parametrize("name", ["none-such", "../xx", "xx/../xx", "."])
def test_an_unknown_language_is_english(name):
    with speaking(name):
        assert localised("right") == "right"


def test_a_report_stays_english_and_its_card_does_not():
    report = Report("softmax", 0.0, 2.0, False, message="It runs.")
    with speaking("xx"):
        assert "Es läuft." in report._repr_html_() and "noch falsch" in report._repr_html_()
        assert str(report).startswith("softmax: noch falsch, 0/2")
        assert repr(report) == "0.0" and report.status == "not right yet"
        assert report.to_dict()["message"] == "It runs."
        assert replace(report, points=2.0, passed=True).status == "right"


def test_a_name_does_not_reach_into_the_next_sentence():
    words = Strings({"It sees {what}.": "Es sieht {what}.", "It runs.": "Es läuft."})
    assert words.find("It sees x. It runs.") is None
    assert words.find("It sees 2.5 x.") == "Es sieht 2.5 x."


def test_a_message_of_python_may_be_of_several_sentences():
    words = Strings({"It raised {error:e} ({case})": "{error} ({case})", "one row": "eine Zeile"})
    assert (
        words.find("It raised E: no x. Did you mean y? (one row)")
        == "E: no x. Did you mean y? (eine Zeile)"
    )


def test_the_most_specific_pattern_counts():
    words = Strings({"{a} is {b}": "1 {a} {b}", "{a} is not {b}": "2 {a} {b}"})
    assert words.find("x is not y") == "2 x y"


def test_a_stored_report_gives_the_same_card_again():
    report = check_exercise(naive_mean(), lambda x: x, 0, COURSE)
    again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report and again._repr_html_() == report._repr_html_()


@pytest.mark.parametrize(
    ("of_the_edition", "of_the_instructor", "shown"),
    [("", "", "not right yet"), ("xx", "", "noch falsch"), ("", "xx", "noch falsch")],
)
def test_feedback_is_in_the_language_of_the_student_s_edition(
    of_the_edition, of_the_instructor, shown, monkeypatch
):
    """The result was stored in English, because a result doesn't depend on who reads it."""
    monkeypatch.setenv("COURSE_LANGUAGE", of_the_instructor or "en")
    report = check_exercise(naive_mean(), lambda x: x, 0, COURSE)
    about = {"nbgrader": nbgrader_metadata("check-naive_mean", points=2.0, grade=True)}
    cell = new_code_cell('check("naive_mean", naive_mean)', metadata=about)
    notebook = new_notebook(cells=[cell], metadata={"course": {"language": of_the_edition}})
    stored = card(report, naive_mean())
    assert "not right yet" in stored["data"]["text/html"]
    graded = Graded(outputs=[[stored]], reports={"naive_mean": report.to_dict()})
    fill_in(notebook, graded, "0" * 64, COURSE)
    (output,) = notebook.cells[0].outputs
    assert shown in output.data["text/html"] and output.data["text/plain"] == "0.0"


@pytest.mark.parametrize(
    ("about", "known"),
    [
        ({"language": "zh"}, "zh"),
        ({"language": "../zh"}, ""),
        ({"language": 1}, ""),
        ({}, ""),
        ([], ""),
    ],
)
def test_the_language_of_a_submission_is_read_with_care(about, known, tmp_path):
    notebook = new_notebook(cells=[new_code_cell("1")])
    notebook["metadata"]["course"] = about
    path = tmp_path / "01.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert read(str(path)).language == known


def naive_mean():
    return COURSE.find("naive_mean")


@pytest.mark.parametrize("has_font", [True, False])
def test_a_title_has_a_font_with_its_characters_or_stays_english(has_font, monkeypatch, tmp_path):
    """So no figure shows empty boxes."""
    (tmp_path / "xx" / "strings" / "more.json").write_text('{"Rows": "Ряды"}')
    (tmp_path / "xx" / "language.toml").write_text('fonts = ["None such", "Of the test"]')
    known = ["DejaVu Sans", *["Of the test"] * has_font]
    monkeypatch.setattr(drawing.font_manager, "get_font_names", lambda: known)
    with speaking("xx"), drawing.style():
        figures = drawing.figure(4, 2, "Rows"), plt.figure()
        drawing.titled(figures[1], "Rows", "A.")
    titles = {figure.get_suptitle() for figure in figures}
    assert titles == {"Ряды" if has_font else "Rows"}


def test_wide_characters_are_wrapped_by_their_width_and_no_line_begins_with_a_mark():
    with speaking(""):
        lines = drawing._wrapped("一二三四五，六七八九十。", 10).split("\n")
    assert lines == ["一二三四五，", "六七八九十。"]


@pytest.mark.parametrize("to", languages(), ids=lambda to: to.folder.name)
def test_every_translated_sentence_keeps_what_the_english_has(to):
    assert sentences.problems(to) == []


def test_a_sentence_that_changed_is_reported_and_a_frame_s_is_found_in_the_program(monkeypatch):
    to = SimpleNamespace(folder=TRANSLATIONS / "zh")
    known = {"{count:g} checks pass.": "x", "No such words are ever said here.": "y"}
    monkeypatch.setattr(sentences, "kept", lambda to, name: known if name == "frame" else {})
    (stale,) = sentences.stale(to)
    assert "No such words are ever said" in stale


@pytest.mark.parametrize("to", [*filter(complete, languages())], ids=lambda to: to.folder.name)
def test_everything_that_the_course_can_say_to_a_reader_is_translated(to):
    """Once a language has all lessons; of others, the last lines of the tests count what is there.
    `--missing` puts new sentences into the files; a reason for an exception stands with it."""
    assert sentences.untold(to) == []
    texts = ["…".join(parts) for _, parts, _ in sentences.literals()]
    assert [p for p in sentences.NOT_SAID if not any(re.fullmatch(p, t, re.S) for t in texts)] == []


@pytest.mark.parametrize(
    ("parts", "is_argument"),
    [
        (("The moon is made of cheese.",), False),
        (
            (
                "The moon has ",
                " craters.",
            ),
            False,
        ),
        (("moon",), True),
    ],
)
def test_a_new_sentence_of_the_program_is_found(parts, is_argument, monkeypatch):
    (to, *_) = filter(complete, languages())
    monkeypatch.setattr(sentences, "literals", lambda: [("new.py", parts, is_argument)])
    assert sentences.untold(to) == [f"new.py: {'…'.join(parts)!r}"]


def test_what_the_site_adds_for_those_who_do_not_see_the_page_is_in_its_language(
    monkeypatch,
):
    monkeypatch.undo()
    page = '<aside class="sidebar-drawer"></aside><div style="overflow-x: auto">1</div>'
    page += '<section aria-label="formula"></section><div id="search-results"></div>'
    assert re.findall(r'aria-label="(.*?)"', site.for_readers(page, "zh")) == [
        "课程",
        "表格",
        "公式",
    ]
    assert "<h1>搜索</h1>" in site.for_readers(page, "zh")
    assert 'aria-label="table"' in site.for_readers(page, "")


def test_no_card_mixes_languages_when_an_answer_takes_nothing(monkeypatch):
    monkeypatch.undo()
    weights = COURSE.find("causal_mean_weights")
    with speaking("zh"):
        shown = str(check_exercise(weights, lambda: 1, 0, COURSE))
    assert "你没有定义参数" in shown and "yours" not in shown
