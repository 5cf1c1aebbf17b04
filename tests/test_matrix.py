"""Every exercise with right answers, wrong answers and its own misconceptions."""

import pytest

from tools.matrix import KINDS, SEED, cells, faults
from whywrong.course import catalogue

EXERCISES = list(catalogue())
SECOND = 20_261_121
FEW = 6
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


@pytest.mark.parametrize("kind", KINDS)
@each_exercise  # innermost, so that a test's name begins with it: see conftest.InOrder
def test_answers_are_judged_as_they_should_be(exercise, kind):
    found = faults(exercise, kind, slice(FEW if kind == "first attempt" else None))
    assert not found, f"{len(found)} of the answers:\n" + "\n".join(found)


@pytest.mark.full("first attempts beyond the first six of each exercise")
@each_exercise
def test_the_other_first_attempts_are_judged_as_they_should_be(exercise):
    found = faults(exercise, "first attempt", slice(FEW, None))
    assert not found, f"{len(found)} of the answers:\n" + "\n".join(found)


@pytest.mark.full("right answers on a second seed")
@each_exercise
def test_right_answers_pass_on_a_second_seed(exercise):
    right = [c for c in cells(exercise) if c.wanted == "right"] if exercise.kind != "quiz" else []
    reports = {str(cell): cell.with_seed(SECOND) for cell in right}
    assert [f"{name}:\n{report}" for name, report in reports.items() if not report.passed] == []


def test_the_seeds_differ():
    assert SEED != SECOND
