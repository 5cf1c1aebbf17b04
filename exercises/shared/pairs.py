"""Answers that should return a pair: what is said of those that return something else."""

from __future__ import annotations

from typing import Any

from whywrong import Observation


def kind_of(said: str) -> Any:
    """An object whose class name says what was returned."""
    return type(said, (), {})()


def as_pair(seen: Observation, pair: str, *names: str) -> Observation:
    """What was seen, with the type of the tensors of these names given as the `pair` that they came
    from."""
    kinds = seen.facts.get("types", {})
    for name in names:
        if kinds.get(name) == "Tensor":
            kinds[name] = pair
    return seen
