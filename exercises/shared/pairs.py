"""For answers that should return a pair: the message if they return something else."""

from __future__ import annotations

from typing import Any

from whywrong import Observation


def kind_of(said: str) -> Any:
    """An object whose class name describes the returned value."""
    return type(said, (), {})()


def as_pair(observed: Observation, pair: str, *names: str) -> Observation:
    """The observation, with the type of the tensors of these names replaced by that of their
    `pair`."""
    kinds = observed.facts.get("types", {})
    for name in names:
        if kinds.get(name) == "Tensor":
            kinds[name] = pair
    return observed
