"""No cell of the matrix is wrong: 6-practice/13."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("6-practice/13")
