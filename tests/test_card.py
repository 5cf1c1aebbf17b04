"""The card: first what is wrong, then the row that shows it, the scored checks, and hints."""

from dataclasses import replace

import pytest
import torch
from bs4 import BeautifulSoup

from course_utils.desk.checks import catalogue
from whywrong import Report, check_exercise
from whywrong._card import BehaviourResult, Row
from whywrong.hosting import Message

ROWS = [
    BehaviourResult("values", "The values are right on every case", False),
    BehaviourResult("first", "The first token stays unchanged", True, credit=True),
    BehaviourResult("future", "A later token has no effect", False, credit=True),
    BehaviourResult("runs", "It runs on every input", True),
]
WRONG = Report(
    "naive_mean",
    0.5,
    2.0,
    False,
    ROWS,
    misconceptions=("sees_next_token",),
    advice=(("Each token sees the next.", "That one is to be predicted.", "Which `slice`?"),),
    message="2 of 6 numbers differ from the right answer.",
    detail="Case: by hand.\nFirst difference at result[0, 1]:\nexpected 2\ngot      4",
    row=Row("result[0, :]", ("1", "2", "3"), ("1", "4", "5"), (False, True, True)),
    hints=("A nudge.", "A push.", "Nearly the *answer*: `x`."),
    hints_left=3,
    progress="1 of 2 exercises of this lesson are done.",
)


def page(report):
    return BeautifulSoup(report._repr_html_(), "html.parser")


def in_order(text, *parts):
    places = [text.index(part) for part in parts]
    assert places == sorted(places), list(zip(parts, places, strict=True))


def test_leads_with_what_is_wrong_and_follows_with_the_evidence():
    in_order(
        page(WRONG).get_text(),
        "Each token sees the next.",
        "2 of 6 numbers differ",
        "expected",
        "got",
        "That one is to be predicted.",
        "Not true yet:",
        "The values",
        "2 checks pass",
        "Stuck? A hint",
    )


def test_leads_with_the_message_where_no_misconception_is_known():
    text = page(replace(WRONG, misconceptions=(), advice=())).get_text()
    in_order(text, "2 of 6 numbers differ", "expected")


def test_shows_the_whole_row_expected_above_got_and_marks_wrong_numbers_by_more_than_colour():
    table = page(WRONG).find("table")
    expected, got = table.find_all("tr")
    assert [td.text for td in expected.find_all("td")] == ["1", "2", "3"]
    assert [td.text for td in got.find_all("td")] == ["1", "4", "5"]
    marked = ["underline" in td["style"] for td in got.find_all("td")]
    assert marked == [False, True, True]
    assert not any("underline" in td["style"] for td in expected.find_all("td"))
    assert "First difference at" not in page(WRONG).get_text()
    assert "First difference at" in str(WRONG)


def test_untrue_properties_and_faults_have_separate_headings():
    said = BehaviourResult("mask", "Not every hidden key is hidden", False, worded=True)
    text = page(replace(WRONG, behaviours=[*ROWS, said])).get_text()
    in_order(text, "Not true yet:", "The values are right", "Still wrong:", "Not every hidden key")
    (row,) = page(replace(WRONG, behaviours=[said])).find_all("li")
    assert row.find("span")["aria-label"] == "not yet"


@pytest.mark.parametrize(
    "id, wrong, begins",
    [
        ("merge_heads", lambda x: x.flip(2).transpose(1, 2).flatten(2), "Head 0 does not fill"),
        ("count_parameters", lambda module: 0, "The values are right"),
        ("wrapper_shapes", {"one head": 3}, "one head: 3 is a number"),
    ],
)
def test_the_wording_of_failures(id, wrong, begins):
    report = check_exercise(catalogue().find(id), wrong, catalogue=catalogue())
    rows = [r.get_text() for r in page(report).find_all("li") if "✗" in r.get_text()]
    assert rows
    assert any(row.lstrip("✗").startswith(begins) for row in rows), rows


@pytest.mark.parametrize(
    "id, misconception, told",
    [
        ("softmax", None, "Here the softmax is yours"),
        ("FeedForward", "no_dropout", "In training, dropout should act"),
    ],
)
def test_what_the_message_quotes_is_not_said_again(id, misconception, told):
    exercise = catalogue().find(id)
    wrong = exercise.misconception(misconception).answer if misconception else torch.softmax
    report = check_exercise(exercise, lambda *a, **k: wrong(*a, **k), catalogue=catalogue())
    assert page(report).get_text().count(told) == str(report).count(told) == 1


def test_explains_partial_points_by_the_checks_that_are_scored():
    right = check_exercise(catalogue().find("tril_mean"), lambda x: x, catalogue=catalogue())
    assert right.points == 0 and not right.because
    because = "1 of 2 scored checks (●) pass: 0.25 of at most 0.5 points, in steps of 0.25."
    card = page(replace(WRONG, because=because))
    assert f"2 checks pass. {because}" in card.get_text()
    carrying = [li.get_text() for li in card.find_all("li") if "●" in li.get_text()]
    assert len(carrying) == 2


def test_after_a_failed_run_nothing_is_green_and_the_result_is_folded():
    stale = "The last run failed (SyntaxError). This result is for your previous version."
    passed = replace(WRONG, passed=True, points=2.0, stale=stale)
    text = page(passed).get_text()
    in_order(text, "previous version", stale, "The result of the previous version")
    assert "✓ naive_mean" not in text and "6px solid var(--jp-success" not in passed._repr_html_()
    assert repr(passed) == "2.0" and str(passed).splitlines()[1].strip() == stale


def test_a_passed_card_has_no_unexplained_signs():
    passed = replace(
        WRONG,
        passed=True,
        points=2.0,
        advice=(),
        row=None,
        detail="",
        message="Right.",
        behaviours=[replace(r, holds=True) for r in ROWS],
        other_way="def f(x):\n    return x",
    )
    text = page(passed).get_text()
    assert "●" not in text and "fails" not in text and "hint" not in text
    assert "Another way to write it" in text and "return x" in text


def test_hints_are_nested_and_unfold_in_turn():
    (outer,) = [d for d in page(WRONG).find_all("details") if d.summary.text == "Stuck? A hint"]
    inner = outer.find("details")
    assert "A nudge." in outer.get_text() and inner.summary.text == "Hint 2 of 3"
    assert inner.find("details").find("em").text == "answer"


def test_another_way_is_not_shown_before_full_points():
    assert "return x" not in page(replace(WRONG, other_way="return x")).get_text()


def test_both_of_two_mistakes_are_shown():
    two = replace(WRONG, advice=(*WRONG.advice, ("It is float32.", "Digits are lost.", "Like?")))
    in_order(page(two).get_text(), "Each token sees", "And at the same time: It is float32.")


def test_student_text_is_escaped_everywhere():
    evil = "<img src=x onerror=alert(1)>"
    report = replace(
        WRONG,
        exercise=evil,
        message=evil,
        detail=evil,
        notes=[f"{evil}\n{evil}"],
        row=Row(evil, (evil,), (evil,), (True,)),
        progress=evil,
        advice=(),
        behaviours=[BehaviourResult("x", evil, False)],
    )
    assert "<img" not in report._repr_html_()
    assert "<img" not in Message(evil, evil)._repr_html_()


@pytest.mark.parametrize("text", ["2 * 3 * 4", "a*b*c", "`x * y * z`", "** not this **"])
def test_asterisks_for_multiplication_are_unchanged(text):
    card = page(replace(WRONG, advice=(), message=text))
    assert not card.find("p").find("em")


def test_expandable_parts_look_clickable_under_any_style_sheet():
    for summary in page(WRONG).find_all("summary"):
        assert "display:list-item" in summary["style"] and "cursor:pointer" in summary["style"]
