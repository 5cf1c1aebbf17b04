"""Inspects answers where they run: describes them without a call, then observes case by case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whywrong import Case, Observation
from whywrong.hosting import Clock, Rules, describe, looks_unwritten, names_bound, part_codes, run


@dataclass(frozen=True)
class Probing:
    """The parts of an exercise that are needed where its answers run."""

    id: str
    kind: str
    probe: Any
    rules: Rules
    watched: Mapping[str, Any]  # the finished parts that an answer must not call


def described(answer: Any) -> dict[str, Any]:
    """The result of `describe`, as JSON."""
    said = describe(answer)
    parameters = said.signature.parameters.values() if said.signature is not None else ()
    arguments = [[p.name, p.kind.name, p.default is not p.empty] for p in parameters]
    return {
        "missing": said.missing,
        "kind": said.kind[:100],
        "is_class": said.is_class,
        "callable": said.callable,
        "forward": said.forward,
        "arguments": None if said.signature is None else arguments,
        "names": sorted(said.names)[:1000],
        "of_torch": said.of_torch,
    }


def observe(
    probing: Probing, answer: Any, case: Case, parts: Mapping[str, Any], clock: Clock, first: bool
) -> Observation:
    """Runs one case, watched from beginning to end; the first one reveals a stub."""
    codes = part_codes(probing.watched)
    with names_bound(answer, parts):
        (seen,) = run(probing, answer, [case], codes, clock, watch_all=True)
    kinds = list(seen.facts.get("types", {}).values())
    if first and looks_unwritten(probing.kind, answer, kinds, probing.rules.as_found):
        seen.facts["not_attempted"] = True
    return seen
