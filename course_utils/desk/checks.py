"""The student's desk: `check`, `hint` and `progress`, which connect engine and catalogue."""

from __future__ import annotations

import difflib
import os
import secrets
import sys
from dataclasses import replace
from typing import Any

from whywrong import Catalogue, Report, check_exercise
from whywrong.hosting import (
    Exercise,
    Message,
    catalogue,
    failure_of,
    functions,
    joined,
    localised,
    names_bound,
    names_reached,
    undefined,
    watch_cells,
)

from .points import Progress, load, progress_path, record

NOTHING_INSTALLED = (
    "This Python finds the course's files but no exercises, because the course isn't installed in "
    "it. The notebook may be running in another environment than the one you installed: this one "
    "is `{}`. In the course's folder, run `python -m pip install -e .` with that Python, and "
    "restart the kernel."
)

watch_cells()
_hints_shown: dict[str, set[int]] = {}


def check(exercise_id: str, answer: Any = None, *, seed: int | str | None = None) -> Report:
    """Checks an answer and reports what is right, what is wrong, and the likely cause.

    Args:
        exercise_id: the name of the exercise, which is also the name of your function or class.
        answer: the function, class or quiz dict itself, not the result of a call.
        seed: the seed of the inputs. None means the course's own seed, which is the same for
            everybody. A number gives different inputs. "grading" means the seed in the environment
            variable COURSE_GRADING_SEED, or a random seed if that variable is not set.

    Returns:
        A `Report`. `check` never raises an error, whatever the answer does.
    """
    try:
        known = catalogue()
    except ValueError as error:
        return Report.nothing(str(exercise_id), str(error))
    exercise = known.find(exercise_id)
    if exercise is None:
        return _unknown(exercise_id, known)
    report = check_exercise(exercise, answer, _seed(seed), known)
    if seed is None:
        record(report)
    return _at_the_desk(report, exercise, known)


def _at_the_desk(report: Report, exercise: Exercise, known: Catalogue) -> Report:
    """Adds hints, the progress in the lesson, and a note if the cell failed to run."""
    failure = failure_of(exercise.id)
    stale = f"The last run of the cell that defines `{exercise.id}` failed ({failure}). "
    return replace(
        report,
        stale=f"{stale}This result is for your previous version." if failure else "",
        hints=exercise.hints,
        hints_left=min(report.hints_left, hints_left(exercise)),
        other_way=exercise.other_way,
        progress=_progress(exercise, known),
    )


def _progress(exercise: Exercise, known: Catalogue) -> str:
    """A phrase that says how much of the lesson is done, if progress is stored."""
    path = progress_path()
    if path is None:
        return ""
    kept, _ = load(path)
    if exercise.id in known.ungraded():
        return "This exercise is optional: no total contains its points."
    lesson = [one for one in known.outline[exercise.lesson] if one.graded]
    done = sum(kept.get(e.id, {}).get("points") == e.points for e in lesson)
    if done == len(lesson):
        return f"All {len(lesson)} exercises of this lesson are done."
    return f"{done} of {len(lesson)} exercises of this lesson are done."


def _seed(seed: int | str | None) -> int:
    if seed == "grading":
        seed = os.environ.get("COURSE_GRADING_SEED", "").strip()
        if not seed:
            return 1 + secrets.randbits(48)
    if isinstance(seed, str):
        # Any text is accepted as a seed, so that a typing error can't select a public one.
        return 1 + int.from_bytes(seed.encode(), "little") % (2**61 - 1)
    return int(seed or 0)


def _unknown(exercise_id: object, known: Catalogue) -> Report:
    if not isinstance(exercise_id, str):
        name = getattr(exercise_id, "__name__", "name")
        message = (
            f'The first argument must be the exercise\'s name in quotes: `check("{name}", {name})`.'
        )
        return Report.nothing(str(name), message)
    if not known.ids():
        return Report.nothing(exercise_id, NOTHING_INSTALLED.format(sys.executable))
    near = difflib.get_close_matches(exercise_id, known.ids(), n=3, cutoff=0.5)
    meant = " or ".join(f"`{n}`" for n in near)
    message = "There is no exercise with this name. " + (
        f"Did you mean {meant}?" if near else "`progress()` lists them all."
    )
    return Report.nothing(exercise_id, message)


def yours(exercise_id: str, answer: Any, finished: Any) -> Any:
    """Return the code that a demonstration runs: the answer if it is right, else the finished part.

    Earlier answers that it calls but that this notebook doesn't define are defined here, as the
    course's versions. One printed line says what runs, and why.

    Raises:
        ValueError: the exercise doesn't exist.
    """
    known = catalogue()
    exercise = known.find(exercise_id)
    if exercise is None:
        raise ValueError(_unknown(exercise_id, known).message)
    alone = replace(exercise, rules=replace(exercise.rules, uses=()))
    lent: dict[str, Any] = {}
    while True:
        with names_bound(answer, lent):
            report = check_exercise(alone, answer, 0, known)
        name = undefined(report.message)
        if not name or name in lent or (part := known.find(name)) is None:
            break
        lent[name] = part.finished or part.reference
    if report.passed:
        for function in functions(answer):
            function.__globals__.update(lent)
        names = " and ".join(lent)
        told = f"{exercise_id}: yours runs here, with the course's {names}, not defined here."
        print(localised(told if lent else f"{exercise_id}: yours runs here."))
        return answer
    why = "isn't right yet" if report.attempted else "isn't written yet"
    if (
        report.attempted
        and exercise.rules.uses
        and check_exercise(exercise, answer, 0, known).passed
    ):
        why = f"uses {' and '.join(_wrong_parts(exercise, answer, known))}, not right yet"
    print(localised(f"{exercise_id}: the finished one runs here, because yours {why}."))
    return finished


def _wrong_parts(exercise: Exercise, answer: Any, known: Catalogue) -> list[str]:
    """The earlier answers that an answer calls and that aren't right."""
    names = known.earlier_parts(exercise, names_reached(answer))
    own = {n: f.__globals__.get(n, ...) for f in functions(answer) for n in names}
    parts = {name: known.find(name) for name in own}
    return [n for n, e in parts.items() if e and not check_exercise(e, own[n], 0, known).passed]


def hint(exercise_id: str, number: int | None = None) -> Message:
    """Show the next hint for an exercise, or hint `number` (from 1)."""
    try:
        known = catalogue()
    except ValueError as error:
        return Message("No hint", str(error))
    exercise = known.find(exercise_id)
    if exercise is None:
        return Message("No hint", _unknown(exercise_id, known).message)
    count = len(exercise.hints)
    if not count:
        return Message(f"No hints for {exercise.id}", "Its question contains all you need.")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        asked = f'Hints are numbered from 1 to {count}: `hint("{exercise.id}", 1)`, or '
        return Message(f"Which hint for {exercise.id}?", f'{asked}`hint("{exercise.id}")`.')
    shown = _hints_shown.setdefault(exercise.id, set())
    if number is None:
        number = next((n for n in range(1, count + 1) if n not in shown), count + 1)
    if number > count or number < 1:
        number = count
        title = f"No further hints. Hint {count} of {count} for {exercise.id} again"
    else:
        title = f"Hint {number} of {count} for {exercise.id}"
    shown.add(number)
    return Message(title, exercise.hints[number - 1])


def hints_left(exercise: Exercise) -> int:
    """The number of hints of an exercise that haven't been shown yet."""
    return len(exercise.hints) - len(_hints_shown.get(exercise.id, ()))


def progress() -> Progress:
    """Show all lessons and exercises with your points."""
    kept, notice = load(progress_path())
    try:
        known = catalogue()
    except ValueError as error:
        known, notice = joined(()), f"{notice} {error}".strip()
    rows = [
        (lesson, [(e.id, kept.get(e.id, {}).get("points"), e.points) for e in there])
        for lesson, there in known.outline.items()
    ]
    return Progress(rows, notice, known.ungraded())
