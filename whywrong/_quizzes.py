"""Quizzes: a dict of short answers, read as plain data and judged entry by entry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ._card import BehaviourResult
from ._exercise import Case, Entry, Exercise, Misconception
from ._observation import Observation, class_name
from ._report import Report

MAX_TEXT, MAX_NUMBERS = 200, 20_000


def quiz(
    id: str,
    *,
    lesson: str,
    points: float,
    about: str,
    entries: Sequence[Entry],
    misconceptions: Sequence[Misconception],
    hints: tuple[str, ...],
) -> Exercise:
    """An exercise that is answered with a dict.

    Args:
        about: the subject of the questions ("B, T, C = 4, 8, 2 and t = 2").
        misconceptions: their `entries` are only the ones that they answer differently.
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
        probe=read_quiz,
        expect=lambda case: {},
        reference={e.name: e.answer for e in entries},
        entries=tuple(entries),
        misconceptions=tuple(misconceptions),
        hints=hints,
    )


def filled(exercise: Exercise, misconception: Misconception | None = None) -> dict[str, Any]:
    """Returns the whole dict of a student with this misconception; without one, the right dict."""
    return exercise.made(exercise.reference | dict(misconception.entries if misconception else {}))


# ---------------------------------------------------------------- reading


def read_quiz(answer: Any, case: Case) -> Observation:
    """The entries of a dict as numbers, strings and lists of these; anything else by its type."""
    observed = Observation()
    if not isinstance(answer, Mapping):
        observed.facts["types"] = {"quiz": class_name(answer)}
        return observed
    kinds, given = {"quiz": "dict"}, {}
    renamed = case.options.get("formerly", {})
    answer = {renamed.get(name, name): value for name, value in answer.items()}
    for name in case.options["entries"]:
        if name not in answer:
            kinds[name] = "missing"
        elif answer[name] is Ellipsis or answer[name] is None:
            kinds[name] = "..."
        else:
            kinds[name] = class_name(answer[name])
            value = None if name in case.options["handed"] else _plain(answer[name])
            if value is not None:
                given[name] = value
    observed.facts |= {"types": kinds, "entries": given}
    unknown = [str(k)[:60] for k in answer if k not in case.options["entries"]]
    if unknown:
        observed.facts["unknown"] = unknown[:5]
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
    if refused := unreadable(exercise, observed):
        return refused
    kinds, given = observed.facts["types"], observed.facts["entries"]
    rows = []
    for e in exercise.entries:
        accepted = (e.answer, *e.also)
        good = e.name in given and any(_equal(e, given[e.name], answer) for answer in accepted)
        said = _say(e, kinds.get(e.name), given, good)
        rows.append(BehaviourResult(e.name, said, good, worded=not good))
    right = sum(bool(r.holds) for r in rows)
    passed = right == len(rows)
    named = None if passed else _named(exercise, given)
    notes = []
    if observed.facts.get("unknown"):
        notes.append(f"Entries with unknown names: {', '.join(observed.facts['unknown'])}.")
    share = math.floor(exercise.points * right / len(rows) * 4) / 4
    return Report(
        exercise.id,
        exercise.points if passed else share,
        exercise.points,
        passed,
        rows,
        misconceptions=(named.id,) if named else (),
        advice=(named.advice,) if named else (),
        message="Every entry is right." if passed else f"{right} of {len(rows)} are right.",
        notes=notes,
        hints_left=0 if passed else len(exercise.hints),
    )


def unreadable(exercise: Exercise, observed: Observation) -> Report | None:
    """The report if there is no dict, or no answer in it; else None."""
    kinds = observed.facts.get("types", {})
    if observed.error:
        return Report.nothing(exercise, observed.error["message"])
    if kinds.get("quiz") != "dict":
        kind = kinds.get("quiz")
        return Report.nothing(exercise, f"A quiz is answered with a dict; yours is: {kind}.")
    blank = all(kinds.get(e.name) in ("...", "missing") for e in exercise.entries)
    if blank and not observed.facts.get("unknown"):
        return Report.not_attempted(exercise)
    return None


def _equal(entry: Entry, mine: Any, wanted: Any) -> bool:
    mine, wanted = _plain(mine), _plain(wanted)
    if isinstance(wanted, float) and isinstance(mine, (int, float)):
        rounded = abs(wanted) >= 0.1 and mine == round(wanted, 2)  # as people round it
        return rounded or math.isclose(mine, wanted, rel_tol=1e-3, abs_tol=1e-6)
    if isinstance(wanted, str):
        return isinstance(mine, str) and mine.casefold() == wanted.casefold()
    if isinstance(wanted, list) and isinstance(mine, list) and _nested(wanted):
        mine, wanted = [*map(repr, _whole(mine))], [*map(repr, wanted)]
        return bool(mine == wanted if entry.ordered else sorted(mine) == sorted(wanted))
    return repr(_whole(mine)) == repr(wanted)


def _whole(value: Any) -> Any:
    """Converts whole numbers that come from a division, such as 36.0, to integers."""
    if isinstance(value, list):
        return [*map(_whole, value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _nested(value: Any) -> bool:
    return bool(value) and isinstance(value[0], list)


def _say(entry: Entry, kind: str | None, given: Mapping[str, Any], good: bool) -> str:
    name = entry.name
    if good:
        return f"{name} is {spell(entry.answer)}. {entry.why}"
    if kind == "missing":
        return f"{name}: your dict has no such entry."
    if kind == "...":
        return f"{name}: not answered yet."
    wanted = _plain(entry.answer)
    mine = given.get(name) if isinstance(wanted, float) else _whole(given.get(name))
    if entry.choices and mine not in entry.choices:
        return f"{name}: choose one of {', '.join(map(repr, entry.choices))}."
    if mine is None or not _same_kind(mine, wanted):
        if isinstance(mine, int) and isinstance(wanted, list) and not _nested(wanted):
            if len(wanted) > 1:
                return f"{name}: {mine} is a number; write a tuple of {len(wanted)} numbers."
            return f"{name}: {mine} is a number; as a shape it is written ({mine},)."
        return f"{name}: {_wanted(entry, wanted)}."
    return f"{name} is not {spell(_as_python(mine))}. {entry.ask}".strip()


def _same_kind(mine: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(mine, list) and _nested(mine) == _nested(wanted) and "." not in repr(mine)
    if isinstance(wanted, float):
        return isinstance(mine, int | float) and not isinstance(mine, bool)
    return type(mine) is type(wanted)


def _wanted(entry: Entry, wanted: Any) -> str:
    if isinstance(wanted, list):
        if _nested(wanted):
            return f"a list of {'pairs' if len(wanted[0]) == 2 else 'tuples'} of ints is expected"
        return "a tuple of integers is expected"
    if isinstance(wanted, str):
        return "a string in quotes is expected"
    return "a number is expected" if isinstance(wanted, float) else "an integer is expected"


def _as_python(value: Any) -> Any:
    """Converts a plain list to the tuple, or the list of tuples, that a student would write."""
    if isinstance(value, list):
        return [tuple(v) for v in value] if _nested(value) else tuple(value)
    return value


def spell(value: Any) -> str:
    """An entry of a quiz in Python's notation: `(4, 8, 2)`, `12`, `[(1, 2), (2, 1)]`."""
    return str(tuple(value)) if isinstance(value, tuple) else repr(value)


def _named(exercise: Exercise, given: Mapping[str, Any]) -> Misconception | None:
    """The misconception whose entries were all given; of several, the one with most entries."""
    entries = {e.name: e for e in exercise.entries}
    fitting = [
        m
        for m in exercise.misconceptions
        if all(n in given and _equal(entries[n], given[n], v) for n, v in m.entries.items())
    ]
    return max(fitting, key=lambda m: len(m.entries), default=None)
