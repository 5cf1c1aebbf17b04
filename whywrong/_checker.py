"""Takes one answer to its report: inspects it, runs it under guard, judges it with the key."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ._answers import (
    Described,
    describe,
    has_bound,
    looks_unwritten,
    names_bound,
    undefined,
)
from ._catalogue import Catalogue
from ._exercise import Case, Exercise
from ._guard import Clock, run
from ._judging import judge
from ._key import AnswerKey, begin_key
from ._observation import Observation
from ._report import Report
from ._settings import restore_functions
from ._watching import part_codes

_keys: dict[tuple[int, int], tuple[Exercise, AnswerKey]] = {}
KEPT_KEYS = 40


def cached_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The key of an exercise and a seed, created on first use and cached."""
    place = id(exercise), seed
    if place not in _keys:
        if len(_keys) >= KEPT_KEYS:
            _keys.pop(next(iter(_keys)))
        _keys[place] = exercise, begin_key(exercise, seed)
    return _keys[place][1]


def check_exercise(
    exercise: Exercise,
    answer: Any,
    seed: int = 0,
    catalogue: Catalogue | None = None,
    key: AnswerKey | None = None,
) -> Report:
    """The report on an answer to an exercise; no points are stored.

    Args:
        catalogue: the exercise's catalogue, for the finished parts that it may or may not call.
        key: a complete key to judge with; else the seed's key, computed as far as needed.
    """
    catalogue = catalogue or Catalogue.of(exercise)
    replaced = restore_functions()
    try:
        key = key or cached_key(exercise, seed)
    except Exception as error:
        said = f"The exercise itself is faulty, not your answer: {type(error).__name__}: {error}"
        return Report.nothing(exercise, said)
    try:
        report = report_on(exercise, InProcess(exercise, answer, catalogue), key, catalogue)
        return _with_note_on(replaced, report)
    except Exception:  # only a deceptive object gets here: nothing of it can be trusted
        message = "Your answer can't be inspected: it raises an error when Python asks its type."
        return Report.nothing(exercise, message)


def _with_note_on(replaced: list[str], report: Report) -> Report:
    if not replaced:
        return report
    names = ", ".join(f"`{name}`" for name in replaced[:5])
    note = f"This notebook had replaced {names}. The check restored the original."
    return replace(report, notes=[*report.notes, note])


class HandedIn(Protocol):
    """An answer, wherever it is: in this process, or in an untrusted one."""

    def described(self) -> Described: ...

    def observe(self, cases: list[Case], parts: Mapping[str, Any]) -> list[Observation]:
        """Runs the probe on every case; `parts` replace the answer's own. Returns nothing if the
        time is up, or if these parts are its own already."""


@dataclass
class InProcess:
    """An answer in this process, with the time limit of a check."""

    exercise: Exercise
    answer: Any
    catalogue: Catalogue
    clock: Clock = field(default_factory=Clock)

    def described(self) -> Described:
        return describe(self.answer)

    def observe(self, cases: list[Case], parts: Mapping[str, Any]) -> list[Observation]:
        if parts and (self.clock.over() or has_bound(self.answer, parts)):
            return []
        with names_bound(self.answer, parts):
            return observe(self.exercise, self.answer, cases, self.catalogue, self.clock)


def report_on(
    exercise: Exercise,
    handed_in: HandedIn,
    key: AnswerKey,
    catalogue: Catalogue,
    alone: Report | None = None,
) -> Report:
    """The report on an answer that is observed wherever it is and judged here.

    Args:
        alone: the report with the answer's own parts, if it is known.
    """
    described = handed_in.described()
    if (refused := _not_an_answer(exercise, described, key.cases)) is not None:
        return refused
    symptoms = catalogue.symptoms.get(exercise.id)
    report = alone or judge(exercise, key, handed_in.observe(key.cases, {}), symptoms)
    if report.passed or exercise.kind == "quiz" or not exercise.rules.uses:
        return report
    parts = catalogue.earlier_parts(exercise, described.names)
    observations = handed_in.observe(key.cases, parts) if parts else []
    if not observations:
        return report
    again = judge(exercise, key, observations, symptoms)
    if again.points > report.points:
        names = ", ".join(f"`{name}`" for name in parts)
        lacking = undefined(report.message)
        if lacking and catalogue.find(lacking):
            names, why = f"`{lacking}`", "not defined here"
        else:
            why = "not right yet"
        note = f"Your answer uses {names}, {why}: checked with the course's version instead."
        return replace(again, notes=[*again.notes, note])
    told = {m.id for m in exercise.misconceptions}  # yours may fail with an error of its own
    if again.misconception in told and report.misconception not in told:
        return replace(report, misconceptions=again.misconceptions, advice=again.advice)
    return report


def observe(
    exercise: Exercise,
    answer: Any,
    cases: list[Case],
    catalogue: Catalogue,
    clock: Clock | None = None,
) -> list[Observation]:
    """Runs the probe on every case; records a stub, or an unchanged broken program, as not
    attempted."""
    parts = part_codes(catalogue.not_to_borrow(exercise))
    observations = run(exercise, answer, cases, parts, clock)
    first = observations[0]
    kinds = list(first.facts.get("types", {}).values())
    if looks_unwritten(exercise.kind, answer, kinds, exercise.rules.as_found):
        first.facts["not_attempted"] = True
    return observations


def _not_an_answer(exercise: Exercise, answer: Described, cases: Sequence[Case]) -> Report | None:
    """A report if the answer can't be probed at all, else None."""
    if answer.missing:
        return Report.not_attempted(exercise)
    if exercise.kind == "quiz":
        return None
    write = f'Write check("{exercise.id}", {exercise.id})'
    if exercise.kind == "class" and not answer.is_class:
        if answer.callable and not answer.forward:
            return None
        return Report.nothing(
            exercise,
            f"`{exercise.id}` should be a class, but you passed an object ({answer.kind}).",
            f"{write}, without parentheses after the name.",
        )
    if not answer.callable:
        return Report.nothing(
            exercise,
            f"`{exercise.id}` should be a {exercise.kind}, but you passed: {answer.kind}.",
            f"{write}: the function itself, not its result.",
        )
    if answer.of_torch:
        return Report.nothing(
            exercise,
            f"`{exercise.id}` is PyTorch's own {'class' if answer.is_class else 'function'} here, "
            "not yours: a later line, such as an import, has given it your answer's name.",
            f"Delete that line, and run the cell of your {exercise.kind} again.",
        )
    if exercise.kind == "function":
        mismatch = argument_mismatch(answer.signature, cases)
        if mismatch:
            said = f"The check calls it as `{exercise.call}`, but {mismatch}."
            return Report.nothing(exercise, said)
    return None


def argument_mismatch(signature: inspect.Signature | None, cases: Sequence[Case]) -> str | None:
    """Why an answer can't be called with every case's inputs, or its class can't be constructed
    with every case's arguments; None if it can."""
    if signature is None:
        return None
    for case in cases:
        ordered = any(p.kind is p.POSITIONAL_ONLY for p in signature.parameters.values())
        keywords = () if ordered else case.options.get("keywords", ())
        if "args" in case.options:  # the module takes the inputs
            bound = case.options["args"], case.options.get("kwargs", {})
        else:
            given = (v for n, v in case.inputs.items() if n not in keywords)
            bound = tuple(given), {n: case.inputs[n] for n in keywords}
        try:
            signature.bind(*bound[0], **bound[1])
        except TypeError:
            taken = [p.name for p in signature.parameters.values()]
            return f"yours takes ({', '.join(taken)})" if taken else "yours takes no arguments"
    return None
