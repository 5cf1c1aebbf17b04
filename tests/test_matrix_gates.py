"""A gate that is lost shows in the matrix."""

from dataclasses import replace
from functools import cache

import pytest

from course_utils.checking import begin_key, judge, observe
from course_utils.desk import catalogue

from .matrix import Cell, cells

GATED = [(e, p.id) for e in catalogue() for p in e.properties if p.gate]


def without(exercise, gate):
    """The exercise with this property as one among others."""
    open_ = [replace(p, gate=False) if p.id == gate else p for p in exercise.properties]
    return replace(exercise, properties=tuple(open_))


@cache
def key(exercise):
    return begin_key(exercise, 0)


@cache
def seen(cell):
    return observe(cell.exercise, cell.answer, key(cell.exercise).cases, catalogue())


def without_points(exercise):
    """The answers that a gate may have kept from any."""
    for cell in cells(exercise.lesson):
        if cell.exercise is exercise and cell.wanted != "right" and cell.kept_points == 0:
            yield cell


@pytest.mark.parametrize(("exercise", "gate"), GATED, ids=[f"{e.id}-{gate}" for e, gate in GATED])
def test_without_a_gate_some_answer_gets_points(exercise, gate):
    opened = without(exercise, gate)
    assert any(
        judge(opened, key(exercise), seen(cell)).points for cell in without_points(exercise)
    ), f"the gate {gate} decides nothing"


def test_a_cell_tells_other_points_from_those_that_are_kept():
    cell = next(c for c in cells("1-averages/01") if c.kind == "not in catalogue")
    report = cell.report()
    assert cell.fault(report) == ""
    assert "are kept" in cell.fault(replace(report, points=report.points + 0.25))


def test_points_that_were_never_kept_are_a_fault():
    cell = next(c for c in cells("1-averages/01") if c.kind == "not in catalogue")
    new = Cell(cell.exercise, cell.answer, cell.kind, "a new one", "wrong")
    assert "None are kept" in new.fault(new.report())
