"""What the matrix is held to: points that are kept, and the turns of the second seed."""

from dataclasses import replace

from course_utils.desk import catalogue

from . import matrix
from .matrix import Cell, cells, with_second_seed
from .turns import DAYS


def test_a_cell_tells_other_points_from_those_that_are_kept():
    cell = next(c for c in cells("1-averages/01") if c.kind == "not in catalogue")
    report = cell.report()
    assert cell.fault(report) == ""
    assert "are kept" in cell.fault(replace(report, points=report.points + 0.25))


def test_points_that_were_never_kept_are_a_fault():
    cell = next(c for c in cells("1-averages/01") if c.kind == "not in catalogue")
    new = Cell(cell.exercise, cell.answer, cell.kind, "a new one", "wrong")
    assert "None are kept" in new.fault(new.report())


def test_any_days_in_a_row_try_each_exercise_once_with_the_second_seed(monkeypatch):
    everybody = set(catalogue().ids())
    for first in (0, 1, 739_000):
        turns = []
        for later in range(DAYS):
            monkeypatch.setenv("COURSE_TEST_DAY", str(first + later))
            turns.append(with_second_seed())
        assert set.union(*turns) == everybody
        assert sum(map(len, turns)) == len(everybody)
    monkeypatch.setenv("COURSE_TEST_DAY", "all")
    assert with_second_seed() == everybody


def test_a_right_answer_that_some_seed_refuses_is_found(monkeypatch, capsys):
    e = catalogue().find("naive_mean")
    wrong = next(c for c in cells("1-averages/01") if c.exercise is e and c.wanted == "wrong")
    some = [replace(wrong, wanted="right"), wrong]
    monkeypatch.setattr(matrix, "cells", lambda: some)
    assert matrix.main(["--seeds", "2", "naive_mean"]) == 2
    assert f"{wrong} with seed " in capsys.readouterr().out
