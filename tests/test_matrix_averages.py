"""No cell of the matrix is wrong: 1-averages."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("1-averages")
