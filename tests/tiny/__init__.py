"""Small exercises of the tests' own, one of each kind, so that the engine is held to what it does
and not to what the course asks."""

from pathlib import Path

from whywrong import Catalogue

TINY = Catalogue.from_folder(Path(__file__).parent, "tests.tiny")
STANDARDISED, CAUSAL_MEAN, COPY_LINEAR, SHAPES = (
    TINY.find(id) for id in ("standardised", "CausalMean", "copy_linear", "tiny_shapes")
)
