"""No cell of the matrix is wrong: 7-capstone/15."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("7-capstone/15")
