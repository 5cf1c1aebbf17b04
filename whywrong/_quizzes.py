"""Quizzes: a dict of short answers, read as plain data and judged entry by entry.

In an account, a dict of what a student predicted, did and measured, entries have no right answer,
because every run gives different numbers: relations between the entries are judged instead. What a
handed-in object shows, such as a model, is measured by the check and not typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

from torch import Tensor

from ._card import BehaviourResult
from ._errors import first_lines
from ._exercise import Case, Entry, Exercise, Expected, Misconception, Property, Verdict
from ._observation import Observation, class_name
from ._report import Report

Entries = Mapping[str, Any]  # by name; in an account, also the measured numbers
Measure = Callable[[Entries], tuple[dict[str, float], dict[str, str]]]
MAX_TEXT, MAX_NUMBERS = 200, 20_000
MOST_NAMED = 2
OPEN = ("missing", "...")
LISTS = ("list", "tuple", "Tensor", "ndarray")


def quiz(
    id: str,
    *,
    lesson: str,
    points: float,
    about: str,
    entries: Sequence[Entry],
    misconceptions: Sequence[Misconception],
    hints: tuple[str, ...],
    relations: Sequence[Property] = (),
    fits: Mapping[str, Callable[[Entries], bool]] | None = None,
    notes: Callable[[Entries], list[str]] | None = None,
    measure: Measure | None = None,
    made: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Exercise:
    """An exercise that is answered with a dict; with relations, an account.

    Args:
        about: the subject of the questions ("B, T, C = 4, 8, 2 and t = 2").
        misconceptions: their `entries` are only the ones that they answer differently; in an
            account, they break only one relation.
        relations: what must be true of an account, made by `relation`.
        fits: by misconception id, whether an account breaks a relation in this way. The card shows
            the first misconception that fits.
        notes: remarks on an account that cost no points.
        measure: computes numbers from the objects that an account hands in. Returns the numbers by
            name, for the relations, and what is wrong with an object, by entry.
        made: turns the words of the catalogue into the objects that they stand for.
    """
    asked = {
        "entries": tuple(e.name for e in entries),
        "handed": tuple(e.name for e in entries if e.handed),
        "formerly": {e.formerly: e.name for e in entries if e.formerly},
    }
    return Exercise(
        id,
        lesson,
        call=id,
        points=points,
        kind="quiz",
        cases=lambda seed: [Case(about, {}, options=asked)],
        probe=QuizProbe(measure),
        expect=lambda case: {},
        reference={e.name: e.answer for e in entries},
        made=made,
        entries=tuple(entries),
        properties=tuple(relations),
        misconceptions=[replace(m, fits=(fits or {}).get(m.id)) for m in misconceptions],
        notes=(lambda _, seen: notes(seen[0].facts["entries"])) if notes else None,
        hints=hints,
    )


def relation(id: str, text: str, rule: Callable[[Entries], Verdict]) -> Property:
    """A relation that must be true between the entries of an account.

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


def filled(exercise: Exercise, misconception: Misconception | None = None) -> dict[str, Any]:
    """Returns the whole dict of a student with this misconception; without one, the right dict."""
    return exercise.made(exercise.reference | dict(misconception.entries if misconception else {}))


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class QuizProbe:
    """Reads a dict's entries as numbers, strings and lists of these, and anything else by its type;
    measures the handed-in objects."""

    measure: Measure | None = None

    def __call__(self, answer: Any, case: Case) -> Observation:
        if not isinstance(answer, Mapping):
            return Observation(facts={"types": {"quiz": class_name(answer)}})
        types = {"quiz": "dict"}
        entries: dict[str, Any] = {}
        observed = Observation(facts={"types": types, "entries": entries})
        asked, handed = case.options["entries"], case.options["handed"]
        formerly = case.options["formerly"]
        answer = {formerly.get(name, name): value for name, value in answer.items()}
        for name in asked:
            value = answer.get(name)
            types[name] = "..." if value is None or value is Ellipsis else class_name(value)
            if name not in answer:
                types[name] = "missing"
            elif name not in handed and (plain := _plain(value)) is not None:
                entries[name] = plain
        if unknown := [str(k)[:60] for k in answer if k not in asked]:
            observed.facts["unknown"] = unknown[:5]
        if self.measure and not any(types[name] in OPEN for name in handed):
            try:
                observed.facts["measured"], observed.facts["unfit"] = self.measure(answer)
            except Exception as error:
                raised = f"measuring it raised {class_name(error)}: {first_lines(error)}"
                observed.facts["unfit"] = {handed[0]: raised}
        return observed


def _plain(value: Any, room: int = MAX_NUMBERS) -> Any:
    """A value in JSON form, or None: tuples, sizes and sets of numbers become lists."""
    if isinstance(value, str):
        return value.strip()[:MAX_TEXT]
    if isinstance(value, Tensor):
        value = value.tolist() if value.numel() <= room else None
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (tuple, list)) and len(value) <= room:
        parts = [_plain(v, room // max(len(value), 1)) for v in value]
        return None if any(p is None for p in parts) else parts
    return None


# ---------------------------------------------------------------- judging


def judge_quiz(exercise: Exercise, observed: Observation) -> Report:
    """A quiz earns its share of right answers; an account earns half its share of true relations,
    until all are true."""
    types = observed.facts.get("types", {})
    if observed.error:
        return Report.nothing(exercise, observed.error["message"])
    if types.get("quiz") != "dict":
        kind = types.get("quiz")
        return Report.nothing(exercise, f"A quiz is answered with a dict; yours is: {kind}.")
    blank = all(types.get(e.name) in OPEN for e in exercise.entries)
    if blank and not observed.facts.get("unknown"):
        return Report.not_attempted(exercise)
    judged = _account(exercise, observed) if exercise.properties else _questions(exercise, observed)
    rows, share, message, named, notes = judged
    if observed.facts.get("unknown"):
        notes.append(f"Entries with unknown names: {', '.join(observed.facts['unknown'])}.")
    passed = all(r.holds for r in rows)
    return Report(
        exercise.id,
        exercise.points if passed else math.floor(4 * exercise.points * share) / 4,
        exercise.points,
        passed,
        rows,
        misconceptions=tuple(m.id for m in named),
        advice=tuple(m.advice for m in named),
        message=message,
        notes=notes,
        hints_left=0 if passed else len(exercise.hints),
    )


# The rows of a report, the share of the points, the message, the misconceptions and the notes.
Judged = tuple[list[BehaviourResult], float, str, Sequence[Misconception], list[str]]


def _questions(exercise: Exercise, observed: Observation) -> Judged:
    rows, entries = [], observed.facts["entries"]
    for e in exercise.entries:
        mine = entries.get(e.name)
        right = _equal(e, mine, e.answer)
        if right:
            text = f"{e.name} is {e.answer!r}. {e.why}"
        elif lack := _lack(e, observed):
            text = f"{e.name}: {lack}."
        else:
            text = f"{e.name} is not {_as_python(_typed(e.answer, mine))!r}. {e.ask}".strip()
        rows.append(BehaviourResult(e.name, text, right, worded=not right))
    count = sum(bool(r.holds) for r in rows)
    if count == len(rows):
        return rows, 1.0, "Every entry is right.", (), []
    given = [m for m in exercise.misconceptions if _is_given(exercise, m, entries)]
    named = sorted(given, key=lambda m: -len(m.entries))[:1]
    return rows, count / len(rows), f"{count} of {len(rows)} are right.", named, []


def _account(exercise: Exercise, observed: Observation) -> Judged:
    entries: dict[str, Any] = {}
    rows, unfit = [], observed.facts.get("unfit", {})
    for e in exercise.entries:
        if lack := _lack(e, observed):
            text = f"{e.name}: {lack}. {'' if e.name in unfit else e.ask}".strip()
            rows.append(BehaviourResult(e.name, text, False, worded=True))
        elif e.handed:
            entries[e.name] = observed.facts["types"][e.name]
        else:
            entries[e.name] = _typed(e.answer, observed.facts["entries"][e.name])
    entries |= observed.facts.get("measured", {})
    missing, judged = len(rows), Observation(facts={"entries": entries})
    if not missing:
        rows.append(BehaviourResult("entries", "Every entry exists and has the right type", True))
    verdicts = {p: _verdict(p, judged) for p in exercise.properties}
    for p, verdict in verdicts.items():
        if verdict not in (None, ...):
            how = f"; yours {verdict}" if isinstance(verdict, str) else ""
            rows.append(BehaviourResult(p.id, f"{p.text}{how}", verdict is True))
    right = sum(verdict is True for verdict in verdicts.values())
    broken = [p.id for p, verdict in verdicts.items() if verdict not in (True, None, ...)]
    if all(e.name in entries for e in exercise.entries if e.handed):
        # A missing entry costs no more than one broken relation. Without an object to measure,
        # no relation about its measured numbers is true.
        right += max(0, sum(verdict is ... for verdict in verdicts.values()) - missing)
    notes = exercise.notes([], [judged]) if exercise.notes and not missing else []
    share = right / len(verdicts) / 2
    return rows, share, _summary(missing, len(broken)), _ways(exercise, broken, entries), notes


def _verdict(relation: Property, observed: Observation) -> Verdict | EllipsisType:
    """`...` if an entry is missing; None if the relation doesn't apply."""
    try:
        return relation.holds(Case("", {}), observed, {})
    except KeyError:
        return ...
    except (IndexError, RuntimeError, TypeError, ValueError):
        return None


def _ways(exercise: Exercise, broken: Sequence[str], entries: Entries) -> list[Misconception]:
    """For each broken relation, the first misconception that fits, in the order of the card."""
    found = []
    for id in broken:
        ways = (m for m in exercise.misconceptions if m.breaks == id and _fits(m, entries))
        found += [m for m in (next(ways, None),) if m]
    return found[:MOST_NAMED]


def _fits(misconception: Misconception, entries: Entries) -> bool:
    try:
        return misconception.fits is None or misconception.fits(entries)
    except (ArithmeticError, KeyError):
        return False


def _summary(missing: int, broken: int) -> str:
    until = "Until everything fits together, at most half of the points are given."
    if missing:
        are = "entry is" if missing == 1 else "entries are"
        return f"{missing} {are} still open or not of the right type. {until}"
    if broken:
        return f"{broken} {'statement does' if broken == 1 else 'statements do'} not fit. {until}"
    return "Everything fits together."


# ---------------------------------------------------------------- one entry


def _lack(entry: Entry, observed: Observation) -> str:
    """Why an entry can't be judged, or an empty string."""
    kind, value = observed.facts["types"].get(entry.name), observed.facts["entries"].get(entry.name)
    if entry.name in observed.facts.get("unfit", {}):
        return str(observed.facts["unfit"][entry.name])
    if kind == "missing":
        return "your dict has no such entry"
    if kind == "..." or (value == "" and not entry.optional):
        return "still open"
    if entry.handed:
        return ""
    if entry.choices and value not in entry.choices:
        return f"choose one of {', '.join(map(repr, entry.choices))}"
    if value is not None and _typed(entry.answer, value) is not None:
        return ""
    if isinstance(value, int) and isinstance(entry.answer, tuple):
        count = len(entry.answer)
        if count > 1:
            return f"{value} is a number; write a tuple of {count} numbers"
        return f"{value} is a number; as a shape it is written ({value},)"
    wanted = f"{_wanted(entry.answer)} is expected"
    if isinstance(entry.answer, float) and kind == "float":
        return f"{wanted}, one that is finite"
    if not _nested(entry.answer) and isinstance(entry.answer, list) and kind in LISTS:
        return f"{wanted}, of two numbers or more, none of them NaN or infinite"
    return wanted


def _wanted(example: Any) -> str:
    if _nested(example):
        return f"a list of {'pairs' if len(example[0]) == 2 else 'tuples'} of ints"
    names = {tuple: "a tuple of integers", list: "a list", str: "a string in quotes"}
    return (names | {float: "a number", int: "an integer"})[type(example)]


def _typed(example: Any, value: Any) -> Any:
    """The value if it has the example's type, else None."""
    if isinstance(example, list | tuple):
        least = 2 if isinstance(example, list) and not _nested(example) else 0
        if not isinstance(value, list) or len(value) < least:
            return None
        parts = [_typed(example[0], v) for v in value]
        return None if None in parts else parts
    if isinstance(example, int):
        value = _whole(value)
    known = int | float if isinstance(example, float) else type(example)
    return value if isinstance(value, known) else None


def _equal(entry: Entry, mine: Any, wanted: Any) -> bool:
    wanted = _plain(wanted)
    if isinstance(wanted, float) and isinstance(mine, (int, float)):
        rounded = abs(wanted) >= 0.1 and mine == round(wanted, 2)  # as people round it
        return rounded or math.isclose(mine, wanted, rel_tol=1e-3, abs_tol=1e-6)
    if isinstance(wanted, str):
        return isinstance(mine, str) and mine.casefold() == wanted.casefold()
    mine = _whole(mine)
    if _nested(wanted) and isinstance(mine, list) and not entry.ordered:
        mine, wanted = sorted(mine, key=repr), sorted(wanted, key=repr)
    return repr(mine) == repr(wanted)


def _is_given(exercise: Exercise, misconception: Misconception, entries: Entries) -> bool:
    """Whether all entries of a misconception were given."""
    asked = {e.name: e for e in exercise.entries}
    return all(_equal(asked[n], entries.get(n), v) for n, v in misconception.entries.items())


def _whole(value: Any) -> Any:
    """Converts whole numbers that come from a division, such as 36.0, to integers."""
    if isinstance(value, list):
        return [*map(_whole, value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _nested(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | tuple)


def _as_python(value: Any) -> Any:
    """Converts a plain list to the tuple, or the list of tuples, that a student would write."""
    if isinstance(value, list):
        return [tuple(v) for v in value] if _nested(value) else tuple(value)
    return value
