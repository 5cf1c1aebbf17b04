"""No cell of the matrix is wrong: 3-multi-head/07. Several files, for `--dist loadfile`."""

import pytest

from . import matrix

CELLS = list(matrix.cells("3-multi-head/07"))


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_no_cell_of_the_matrix_is_wrong(cell):
    fault = cell.fault(cell.report())
    assert not fault, fault


@pytest.mark.parametrize("cell", [c for c in CELLS if c.kind != "misconception"], ids=str)
def test_with_another_seed_what_is_right_passes_and_what_is_wrong_does_not(cell):
    report = cell.report(matrix.OTHER_SEED)
    assert report.passed == (cell.wanted == "right"), str(report)
