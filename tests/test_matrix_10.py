"""No cell of the matrix is wrong: 4-transformer/10."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("4-transformer/10")
