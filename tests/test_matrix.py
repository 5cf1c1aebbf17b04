"""Every exercise with right answers, wrong answers and its own misconceptions."""

from dataclasses import replace

import pytest

from tools.attempts import with_points
from tools.matrix import KINDS, cells, faults
from whywrong.hosting import catalogue

EXERCISES = list(catalogue())
SECOND = 20_261_121
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


@pytest.mark.parametrize("kind", KINDS)
@each_exercise  # innermost, so that a test's name begins with it: see conftest.InOrder
def test_answers_are_judged_as_they_should_be(exercise, kind):
    found = faults(exercise, kind)
    assert not found, f"{len(found)} of the answers:\n" + "\n".join(found)


@pytest.mark.full("right answers on a second seed")
@each_exercise
def test_right_answers_pass_on_a_second_seed(exercise):
    right = [c for c in cells(exercise) if c.wanted == "right"] if exercise.kind != "quiz" else []
    reports = {str(cell): cell.with_seed(SECOND) for cell in right}
    assert [f"{name}:\n{report}" for name, report in reports.items() if not report.passed] == []


# ---------------------------------------------------------------- the matrix can find faults


def naive_mean(kind):
    cell = next(c for c in cells(catalogue().find("naive_mean")) if c.kind == kind)
    return cell, cell.report()


@pytest.mark.parametrize("kind", ["first attempt", "not in catalogue"])
def test_other_points_than_those_beside_an_answer_are_a_fault(kind):
    cell, report = naive_mean(kind)
    assert cell.points == report.points and not cell.fault(report)
    for points in (report.points + 0.25, None):
        assert f"not {points} as noted" in replace(cell, points=points).fault(report)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("other right", "wrong"),
        ("misconception", "right"),
        ("misconception", ("no_mask",)),
        ("first attempt", ()),
    ],
)
def test_another_verdict_than_wanted_is_a_fault(kind, wanted):
    cell, report = naive_mean(kind)
    assert not cell.fault(report)
    assert "should be" in replace(cell, wanted=wanted).fault(report)


def test_other_symptoms_than_the_stored_ones_are_a_fault(monkeypatch):
    cell, report = naive_mean("misconception")
    monkeypatch.setattr("tools.matrix.broken", lambda *of: {"values": [99]})
    assert "breaks {'values': [99]}" in cell.fault(report)


ATTEMPTS = """\
# one

## Sums
Named: sums

    def one(x):
        return x.sum()

## Both
Named: sums + detached
Points: 0.25

    "Named: text"

## Another way
Named: right

    def one(x): return torch.sum(x)

# two

## Nothing
Named: nothing

    def two(x): ...
"""


def test_points_are_written_beside_the_attempts_of_one_exercise():
    written = with_points(ATTEMPTS, "one", [1.0, 0.5])
    noted = ATTEMPTS.replace("Named: sums\n", "Named: sums\nPoints: 1\n").replace("0.25", "0.5")
    assert written == noted
    assert with_points(written, "two", [0]) == noted.replace("nothing\n", "nothing\nPoints: 0\n")
