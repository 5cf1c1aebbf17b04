"""Accounts: a dict of what a student predicted, did and measured, checked for consistency.

A quiz has one right answer to each question; an account has none, because every run gives different
numbers. A check can judge whether the entries are possible and whether they agree with each other.
It reads them as plain data, like those of a quiz. What a handed-in object shows, such as a model,
is measured by the check and not typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._card import BehaviourResult
from ._errors import first_lines
from ._exercise import Case, Entry, Exercise, Expected, Misconception, Property, Trial, Verdict
from ._observation import Observation, class_name
from ._quizzes import quiz, read_quiz, unreadable
from ._report import Report

Given = Mapping[str, Any]  # the entries and the measured numbers, by name
Measure = Callable[[Mapping[str, Any]], tuple[dict[str, float], dict[str, str]]]
MOST_NAMED = 2
LISTS = ("list", "tuple", "Tensor", "ndarray")


def relation(id: str, text: str, rule: Callable[[Given], Verdict]) -> Property:
    """A relation that must be true between entries.

    Args:
        text: the relation as a sentence that is true of a right account.
        rule: True; False, or how it fails as a string ("are 64 too few"); None if it does not
            apply. A rule that can't be evaluated, because numbers are too large, counts as broken.
    """

    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        try:
            return rule(observed.facts["entries"])
        except ArithmeticError:
            return False

    return Property(id, text, holds)


def account(
    id: str,
    *,
    lesson: str,
    points: float,
    about: str,
    entries: Sequence[Entry],
    relations: Sequence[Property],
    misconceptions: Sequence[Misconception],
    hints: tuple[str, ...],
    notes: Callable[[Given], list[str]],
    fits: Mapping[str, Callable[[Given], bool]],
    measure: Measure | None = None,
    made: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Exercise:
    """Builds an exercise whose answer is a dict of the student's own numbers.

    Args:
        about: the subject of the account.
        misconceptions: ways to break a relation; their `entries` break only that one.
        notes: remarks that cost no points.
        fits: by misconception id, whether an account breaks a relation in this way. The card shows
            the first misconception that fits.
        measure: computes numbers from the objects that an answer hands in. Returns the numbers by
            name, for the relations, and what is wrong with an object, by entry.
        made: turns the words of the catalogue into the objects that they stand for.
    """
    misconceptions = [replace(m, fits=fits.get(m.id)) for m in misconceptions]
    asked_for = quiz(
        id,
        lesson=lesson,
        points=points,
        about=about,
        entries=entries,
        misconceptions=misconceptions,
        hints=hints,
    )
    return replace(
        asked_for,
        probe=AccountProbe(measure) if measure else asked_for.probe,
        made=made,
        properties=tuple(relations),
        notes=lambda cases, observations: notes(observations[0].facts["entries"]),
    )


@dataclass(frozen=True)
class AccountProbe:
    """Reads the entries as plain data, and measures the handed-in objects."""

    measure: Measure

    def __call__(self, answer: Any, case: Case) -> Observation:
        observed = read_quiz(answer, case)
        handed = case.options["handed"]
        if observed.facts["types"]["quiz"] != "dict":
            return observed
        if any(observed.facts["types"][name] in ("missing", "...") for name in handed):
            return observed
        try:
            observed.facts["measured"], observed.facts["unfit"] = self.measure(answer)
        except Exception as error:
            said = f"measuring it raised {class_name(error)}: {first_lines(error)}"
            observed.facts["unfit"] = {handed[0]: said}
        return observed


def judge_account(exercise: Exercise, observed: Observation) -> Report:
    """All points if every relation is true; else up to half, by the share of true relations."""
    if refused := unreadable(exercise, observed):
        return refused
    kinds, given = observed.facts["types"], {}
    rows = []
    unfit = observed.facts.get("unfit", {})
    for e in exercise.entries:
        value = _of_kind(e.answer, observed.facts["entries"].get(e.name))
        if e.handed and (e.name in unfit or kinds.get(e.name) in ("missing", "...")):
            said = f"{unfit[e.name]}." if e.name in unfit else _open(kinds.get(e.name), e)
            rows.append(BehaviourResult(e.name, f"{e.name}: {said}", False, worded=True))
            continue
        if e.handed:
            given[e.name] = kinds[e.name]
            continue
        if value is None or (value == "" and not e.optional):
            said = _open(kinds.get(e.name), e)
            rows.append(BehaviourResult(e.name, f"{e.name}: {said}", False, worded=True))
        else:
            given[e.name] = value
    still_open = len(rows)
    given |= observed.facts.get("measured", {})
    if not still_open:
        rows.append(BehaviourResult("entries", "Every entry exists and has the right type", True))
    trial = Trial(
        Case(exercise.id, {}), replace(observed, facts={**observed.facts, "entries": given}), {}
    )
    results = [r for r in (_result(p, trial) for p in exercise.properties) if r is not None]
    rows += results
    held, broken = sum(bool(r.holds) for r in results), [r.id for r in results if not r.holds]
    passed = not still_open and not broken
    named = _named(exercise, broken, given)
    if all(e.name in given for e in exercise.entries if e.handed):
        # A missing entry costs no more than one broken relation. Without an object to measure,
        # no relation about its measured numbers is true.
        lost = sum(_lacks_an_entry(p, trial) for p in exercise.properties)
        held += max(0, lost - still_open)
    share = math.floor(2 * exercise.points * held / len(exercise.properties)) / 4
    notes = [] if still_open else exercise.notes([trial.case], [trial.observed])  # type: ignore[misc]
    if observed.facts.get("unknown"):
        notes.append(f"Entries with unknown names: {', '.join(observed.facts['unknown'])}.")
    return Report(
        exercise.id,
        exercise.points if passed else share,
        exercise.points,
        passed,
        rows,
        misconceptions=tuple(m.id for m in named),
        advice=tuple(m.advice for m in named),
        message=_summary(still_open, len(broken)),
        notes=notes,
        hints_left=0 if passed else len(exercise.hints),
    )


def _of_kind(example: Any, value: Any) -> Any:
    """The value if it has the example's type, else None."""
    if isinstance(example, list):
        if not isinstance(value, list) or len(value) < 2:
            return None
        numbers = [_of_kind(example[0], v) for v in value]
        return None if None in numbers else numbers
    if isinstance(example, str):
        return value if isinstance(value, str) else None
    if isinstance(example, int) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | type(example)) else None


def _open(kind: str | None, entry: Entry) -> str:
    if kind == "missing":
        return f"your dict has no such entry. {entry.ask}"
    if kind == "..." or (kind == "str" and isinstance(entry.answer, str)):
        return f"still open. {entry.ask}"
    wanted = {int: "an integer", float: "a number", str: "a string in quotes", list: "a list"}
    asked = f"{wanted[type(entry.answer)]} is expected"
    if isinstance(entry.answer, list) and kind in LISTS:
        asked += ", of two numbers or more, none of them NaN or infinite"
    elif isinstance(entry.answer, float) and kind == "float":
        asked += ", one that is finite"
    return f"{asked}. {entry.ask}"


def _result(property: Property, trial: Trial) -> BehaviourResult | None:
    verdict = property.verdict(trial)
    if verdict is None:
        return None
    how = f"; yours {verdict}" if isinstance(verdict, str) else ""
    return BehaviourResult(property.id, f"{property.text}{how}", verdict is True)


def _lacks_an_entry(property: Property, trial: Trial) -> bool:
    """Whether a property can't be judged because an entry is missing."""
    try:
        property.holds(trial.case, trial.observed, trial.expected)
    except KeyError:
        return True
    except (IndexError, RuntimeError, TypeError, ValueError):
        return False
    return False


def _named(exercise: Exercise, broken: Sequence[str], given: Given) -> list[Misconception]:
    """For each broken relation, the first contradiction that fits, in the order of the card."""
    named: list[Misconception] = []
    for id in broken:
        for m in exercise.misconceptions:
            if m.breaks == id and _fits(m, given):
                named.append(m)
                break
    return named[:MOST_NAMED]


def _fits(misconception: Misconception, given: Given) -> bool:
    try:
        return misconception.fits is None or misconception.fits(given)
    except (ArithmeticError, KeyError):
        return False


def _summary(still_open: int, broken: int) -> str:
    until = "Until everything fits together, at most half of the points are given."
    if still_open:
        are = "entry is" if still_open == 1 else "entries are"
        return f"{still_open} {are} still open or not of the right type. {until}"
    if broken:
        return f"{broken} {'statement does' if broken == 1 else 'statements do'} not fit. {until}"
    return "Everything fits together."
