"""No cell of the matrix is wrong: 3-multi-head/06."""

from .matrix import tests_of

TestMatrix = tests_of("3-multi-head/06")
