"""No cell of the matrix is wrong: 1-averages. A file an assignment, for `--dist loadfile`."""

import pytest

from . import matrix


@pytest.mark.parametrize("cell", list(matrix.cells("1-averages")), ids=str)
@pytest.mark.parametrize("seed", matrix.SEEDS)
def test_no_cell_of_the_matrix_is_wrong(cell, seed):
    fault = cell.fault(cell.report(seed))
    assert not fault, fault
