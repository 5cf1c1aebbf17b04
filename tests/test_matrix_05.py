"""No cell of the matrix is wrong: 2-single-head/05."""

from .matrix import tests_of

TestMatrix = tests_of("2-single-head/05")
