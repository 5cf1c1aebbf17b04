"""The checking engine: `check`, `hint`, `progress`, and what exercises are made of."""

from __future__ import annotations

import difflib
import os
import secrets
from collections import Counter
from dataclasses import replace
from typing import Any

from .exercise import (
    Behaviour,
    Case,
    Exercise,
    Misconception,
    Observation,
    class_name,
    pack,
    unpack,
)
from .judging import judge
from .probing import (
    argument_mismatch,
    is_stub,
    is_stub_class,
    names_bound,
    names_called,
    part_codes,
    quiet,
    run,
)
from .progress import Progress, load, progress_path, record
from .report import BehaviourResult, Message, Report

__all__ = [
    "Behaviour",
    "BehaviourResult",
    "Case",
    "Exercise",
    "Misconception",
    "Observation",
    "Report",
    "check",
    "check_exercise",
    "hint",
    "judge",
    "observe",
    "pack",
    "progress",
    "unpack",
]

_hints_given: Counter[str] = Counter()


def check(exercise_id: str, answer: Any = None, *, seed: int | str | None = None) -> Report:
    """Checks an answer and says what is right, what is wrong and what may be behind it.

    Args:
        exercise_id: the name of the exercise, which is the name of what you wrote.
        answer: the function, class or quiz dict itself, not a call of it.
        seed: which inputs to try. None: the course's own, the same for everybody. A number:
            others. "grading": drawn from the number in the environment variable
            COURSE_GRADING_SEED, or at random if that is not set.

    Returns:
        A `Report`. Whatever the answer does, nothing is raised.
    """
    from ..exercises import find

    exercise = find(exercise_id)
    if exercise is None:
        return _unknown(exercise_id)
    report = check_exercise(exercise, answer, _seed(seed))
    if seed is None:
        record(report)
    return report


def check_exercise(exercise: Exercise, answer: Any, seed: int = 0) -> Report:
    """The report on an answer to an exercise, without keeping it."""
    cases = exercise.cases(seed)
    try:
        return _check_cases(exercise, answer, cases)
    except Exception:  # only an object made to deceive gets here: nothing of it can be trusted
        message = "What was handed in can't be looked at: it raises where Python asks what it is."
        return Report(exercise.id, 0.0, exercise.points, False, message=message)


def _check_cases(exercise: Exercise, answer: Any, cases: list[Case]) -> Report:
    refused = _not_an_answer(exercise, answer, cases)
    if refused is not None:
        return refused
    with quiet():
        report = judge(exercise, cases, observe(exercise, answer, cases))
        parts = _earlier_parts(exercise, answer)
        if report.passed or not parts:
            return report
        with names_bound(answer, parts):
            again = judge(exercise, cases, observe(exercise, answer, cases))
    if not again.passed:
        return report
    names = " and ".join(f"`{name}`" for name in parts)
    note = f"Tried with the course's own {names} in place of yours, which spoilt the result."
    return replace(again, notes=[*again.notes, note])


def _earlier_parts(exercise: Exercise, answer: Any) -> dict[str, Any]:
    """The finished answers of earlier exercises that this answer calls by their names."""
    from ..exercises import find

    called = names_called(answer) if exercise.uses else set()
    earlier = {id: find(id) for id in exercise.uses if id in called}
    return {id: e.reference for id, e in earlier.items() if e is not None}


def observe(exercise: Exercise, answer: Any, cases: list[Case]) -> list[Observation]:
    """Runs the probe on every case; notes a stub as not attempted."""
    observations = run(exercise, answer, cases, part_codes(_not_to_borrow(exercise)))
    first = observations[0]
    kinds = first.facts.get("types", {}).values()
    if isinstance(answer, type):
        stub = is_stub_class(answer)
    else:
        stub = "..." in kinds or ("NoneType" in kinds and is_stub(answer))
    if stub and exercise.kind != "quiz":
        first.facts["not_attempted"] = True
    return observations


def _not_to_borrow(exercise: Exercise) -> dict[str, Any]:
    """The finished parts that an answer must not call: its own, those of later exercises, and
    earlier ones that have the same result."""
    from ..exercises import by_lesson

    order = [e for exercises in by_lesson().values() for e in exercises]
    ids = [e.id for e in order]
    later = order[ids.index(exercise.id) :] if exercise.id in ids else [exercise]
    alike = [e for e in order if e.expect is exercise.expect]
    return {e.id: e.reference for e in (*later, *alike) if e.kind != "quiz"}


def _seed(seed: int | str | None) -> int:
    if seed == "grading":
        seed = os.environ.get("COURSE_GRADING_SEED", "").strip()
        if not seed:
            return 1 + secrets.randbits(48)
    if isinstance(seed, str):
        # Any text serves, so that a typing error can't fall back to something public.
        return 1 + int.from_bytes(seed.encode(), "little") % (2**61 - 1)
    return int(seed or 0)


def _not_an_answer(exercise: Exercise, answer: Any, cases: list[Case]) -> Report | None:
    """A report when what was handed in can't be probed at all, else None."""

    def say(message: str, detail: str = "") -> Report:
        return Report(
            exercise.id,
            0.0,
            exercise.points,
            False,
            message=message,
            detail=detail,
            hints_left=len(exercise.hints),
        )

    if answer is Ellipsis or answer is None:
        return Report.not_attempted(exercise)
    if exercise.kind == "quiz":
        return None
    kind = class_name(answer)
    if exercise.kind == "class" and not isinstance(answer, type):
        if callable(answer) and not hasattr(answer, "forward"):
            return None
        return say(
            f"`{exercise.id}` should be a class, and what was handed in is an object ({kind}).",
            f'Write check("{exercise.id}", {exercise.id}), without brackets behind the name.',
        )
    if not callable(answer):
        return say(
            f"`{exercise.id}` should be a {exercise.kind}, and what was handed in is: {kind}.",
            f'Write check("{exercise.id}", {exercise.id}): the function itself, not its result.',
        )
    if exercise.kind == "function":
        mismatch = argument_mismatch(answer, cases)
        if mismatch:
            return say(f"It will be called as `{exercise.call}`, and {mismatch}.")
    return None


def _unknown(exercise_id: object) -> Report:
    from ..exercises import ids

    if not isinstance(exercise_id, str):
        name = getattr(exercise_id, "__name__", "name")
        message = (
            f'The first argument is the exercise\'s name in quotes: `check("{name}", {name})`.'
        )
        return Report(str(name)[:60], 0.0, 0.0, False, message=message)
    near = difflib.get_close_matches(exercise_id, ids(), n=3, cutoff=0.5)
    meant = " or ".join(f"`{n}`" for n in near)
    return Report(
        exercise_id[:60],
        0.0,
        0.0,
        False,
        message=f"There is no exercise of this name. Did you mean {meant}?"
        if near
        else "There is no exercise of this name. `progress()` lists them all.",
    )


def hint(exercise_id: str, number: int | None = None) -> Message:
    """The next hint for an exercise, or hint `number` (from 1)."""
    from ..exercises import find

    exercise = find(exercise_id)
    if exercise is None:
        return Message("No hint", _unknown(exercise_id).message)
    count = len(exercise.hints)
    if not count:
        return Message(f"No hints for {exercise.id}", "Its question holds all you need.")
    if number is None:
        _hints_given[exercise.id] += 1
        number = _hints_given[exercise.id]
    if number > count or number < 1:
        number = count
        title = f"That was all: hint {count} of {count} for {exercise.id}, once more"
    else:
        title = f"Hint {number} of {count} for {exercise.id}"
    return Message(title, exercise.hints[number - 1])


def progress() -> Progress:
    """All lessons and exercises with your points."""
    from ..exercises import by_lesson

    kept, notice = load(progress_path())
    rows = [
        (lesson, [(e.id, kept.get(e.id, {}).get("points"), e.points) for e in exercises])
        for lesson, exercises in by_lesson().items()
    ]
    return Progress(rows, notice)
