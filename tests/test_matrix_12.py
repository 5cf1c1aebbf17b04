"""No cell of the matrix is wrong: 5-encoder-decoder/12."""

from . import matrix

TestMatrix, TestGates = matrix.tests_of("5-encoder-decoder/12")
