"""No cell of the matrix is wrong: 4-transformer/09."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("4-transformer/09")
