"""No cell of the matrix is wrong: 1-averages."""

from .matrix import tests_of

TestMatrix = tests_of("1-averages")
