"""No cell of the matrix is wrong: 2-single-head/04."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("2-single-head/04")
