"""No cell of the matrix is wrong: 4-transformer/10."""

from .matrix import tests_of

TestMatrix = tests_of("4-transformer/10")
