"""No cell of the matrix is wrong: 3-multi-head/06."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("3-multi-head/06")
