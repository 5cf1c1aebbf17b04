"""Small exercises of the tests' own, one of each kind, so that the engine is held to what it does
and not to what the course asks."""

from pathlib import Path

from whywrong import Catalogue

TINY = Catalogue.from_folder(Path(__file__).parent, "tests.whywrong.tiny")
STANDARDISED, CAUSAL_MEAN, SHAPES = (
    TINY.find(id) for id in ("standardised", "CausalMean", "tiny_shapes")
)
