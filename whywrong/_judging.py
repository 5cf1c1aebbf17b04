"""Turns observations into a report, by comparing with the answer key. Runs no code of answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ._card import BehaviourResult, Row
from ._exercise import Exercise, Misconception, Property, Trial
from ._key import AnswerKey
from ._naming import Symptoms, explain
from ._observation import Observation
from ._properties import explain_error, explain_kind, finite, standard, wrong_row
from ._quizzes import judge_quiz
from ._report import Report
from ._texts import Section, labelled, shared_sentences

FIRST_TOLD = {"runs", "shape", "finite", "values"}  # case by case, before any other property
USUAL = {
    "call": "called_otherwise",
    "weights": "other_parameters",
    "nothing": "nothing_returned",
    "type": "other_type",
    "gradients": "cut_off",
    "unmodified": "changes_its_input",
    "dtype": "other_dtype",
    "device": "stays_on_the_cpu",
    "kept": "kept_between_calls",
}
UNSTABLE = {"random": "random", "seed": "random", "memory": "kept_between_calls"}
FEW = 3  # so many cases are named


def judge(
    exercise: Exercise,
    key: AnswerKey,
    observations: Sequence[Observation],
    symptoms: Symptoms | None = None,
) -> Report:
    """Judges an answer by its probe's observations: compare, search, name, report.

    No student code runs here and, if the key is whole, no misconception does.

    Args:
        symptoms: what each misconception is known to break, so that the search is faster.
    """
    if exercise.kind == "quiz":
        return judge_quiz(exercise, observations[0])
    trials = key.trials(observations)
    report = compare(exercise, trials, whole=len(trials) == len(key.cases))
    if report.passed or not report.attempted or not report.behaviours:
        return report
    shown = symptoms_of(exercise, trials)
    if any((t.observed.error or {}).get("kind") == "ours" for t in trials):
        return report
    if any(r.id == "own_work" for r in report.behaviours):
        return _with(report, [_told("built_in")])
    if surely := _sure(trials):
        return _with(report, [surely])
    named = explain(exercise, key, trials, shown, symptoms)
    named = named or _in_a_collection(exercise, trials)
    unstable = [u for t in trials if (u := t.observed.facts.get("unstable"))]
    named = named or [_told(UNSTABLE[u]) for u in unstable[:1]] or _usual(exercise, trials, report)
    return _with(report, named) if named else _with_a_lead(exercise, trials, report)


def _with_a_lead(exercise: Exercise, trials: Sequence[Trial], report: Report) -> Report:
    """Where nothing is named, the row about values says which cases tell the reader most."""
    values = next(p for p in standard(exercise) if p.id == "values")
    ordinary = [t for t in trials if t.case.refuses is None]
    right = [t.case.name for t in ordinary if values.verdict(t)]
    wrong = [t.case.name for t in ordinary if not values.verdict(t)]
    if not right or not wrong:
        return report
    word, few = ("right", right) if len(right) < len(wrong) else ("wrong", wrong)
    if len(few) > FEW:
        return report
    how = f"are {word} only here: {'; '.join(few)}"
    rows = [
        replace(r, text=f"{r.text}; yours {how}") if r.id == "values" else r
        for r in report.behaviours
    ]
    return replace(report, behaviours=rows)


def compare(exercise: Exercise, trials: Sequence[Trial], whole: bool) -> Report:
    """Returns a report without misconceptions: the properties, the first message, the points.

    Args:
        whole: whether there is a trial for every case.
    """
    if _unattempted(trials):
        return Report.not_attempted(exercise)
    observations = [t.observed for t in trials]
    results = _rows(exercise, trials)
    passed = bool(trials) and whole and all(r.holds for r in results)
    forbidden = _forbidden(exercise, observations)
    if forbidden:
        results.append(
            BehaviourResult("own_work", exercise.rules.forbidden_text, False, worded=True)
        )
        passed = False
    borrowed = sorted({n for o in observations for n in o.facts.get("borrowed", ())})
    if passed and borrowed:
        said = (
            f"Your answer calls the course's finished part ({', '.join(borrowed)}). Read it if you "
            "are stuck, then close it and write your own."
        )
        return Report.nothing(exercise, said)
    notes = _notes(exercise, trials, passed)
    if passed:
        said, points = "Right on every case.", exercise.points
        return Report(exercise.id, points, points, True, results, message=said, notes=notes)
    return _failed(exercise, trials, results, forbidden, notes)


def _rows(exercise: Exercise, trials: Sequence[Trial]) -> list[BehaviourResult]:
    """The properties over all cases, without those that fail only because of another one."""
    usual = {p.id: p for p in standard(exercise)}
    found = {id: _result(p, trials) for id, p in usual.items()}
    errors = [t.observed.error for t in trials if t.observed.error and t.case.refuses is None]
    if errors and all(e.get("kind") == "weights" for e in errors):  # no call raised an error
        found["runs"] = replace(found["runs"], text="It has the parameters that it should")
    # After an error, the remaining rows could only mislead.
    fit = [] if errors else [t for t in trials if usual["shape"].verdict(t) is not False]
    others = [_result(p, trials, fit) for p in exercise.properties]
    results = [r for r in (*found.values(), *others) if r.holds is not None]
    broken = {r.id for r in results if not r.holds}
    if broken & {"values", "unmodified"}:  # then a gradient can only be wrong as a consequence
        results = [r for r in results if r.holds or r.id != "gradients"]
    if not (found["runs"].holds and found["shape"].holds):  # other properties weren't always judged
        results = [r for r in results if not r.holds]
    return results


def _failed(
    exercise: Exercise,
    trials: Sequence[Trial],
    results: list[BehaviourResult],
    forbidden: Sequence[str],
    notes: list[str],
) -> Report:
    message, detail = _explain(exercise, trials, results, forbidden)
    if "raised" not in message:
        results = [_with_error(r, trials) if r.id == "runs" else r for r in results]
    points, because = (0.0, "") if forbidden else _partial(exercise, trials, results)
    return Report(
        exercise.id,
        points,
        exercise.points,
        False,
        results,
        message=message,
        detail=detail,
        notes=notes,
        hints_left=len(exercise.hints),
        because=because,
        row=_row(exercise, trials) if "First difference at" in detail else None,
    )


def _with_error(runs: BehaviourResult, trials: Sequence[Trial]) -> BehaviourResult:
    """The row that says that not every call ran, with the error of the first that didn't."""
    ordinary = [t for t in trials if t.case.refuses is None]
    failed = next((t for t in ordinary if t.observed.error), None)
    error = failed.observed.error if failed else None
    if failed is None or error is None or error["kind"] != "exception":
        return runs
    said = f"{error['type']}: {error['message']}" if error["message"] else error["type"]
    return replace(runs, text=f"{runs.text}; yours raised {said} ({failed.case.name})")


def _row(exercise: Exercise, trials: Sequence[Trial]) -> Row | None:
    rows = (
        wrong_row(exercise, t) for t in trials if t.case.refuses is None and not t.observed.error
    )
    return next((row for row in rows if row is not None), None)


def _unattempted(trials: Sequence[Trial]) -> bool:
    return any(
        t.observed.facts.get("not_attempted") or (t.observed.error or {}).get("kind") == "stub"
        for t in trials
    )


# ---------------------------------------------------------------- properties over all cases


def symptoms_of(exercise: Exercise, trials: Sequence[Trial]) -> frozenset[tuple[str, int]]:
    """The properties that fail, each with the number of a case."""
    properties = (*standard(exercise), *exercise.properties)
    return frozenset(
        (p.id, i)
        for i, t in enumerate(trials)
        for p in properties
        if p.verdict(t) not in (True, None)
    )


def _result(
    property: Property, trials: Sequence[Trial], fit: Sequence[Trial] | None = None
) -> BehaviourResult:
    """One property over all cases; an exercise's own properties look at the trials in `fit`."""
    clear = trials if fit is None else [t for t in fit if property.any_number or finite(t.observed)]
    if fit is not None:  # randomness or a NaN would break it for another reason
        clear = [t for t in clear if not t.observed.facts.get("unstable")]
    known = [v for v in map(property.verdict, clear) if v is not None]
    holds = all(v is True for v in known) if known else None
    if (
        holds
        and fit is not None
        and not all(property.any_number or finite(t.observed) for t in fit)
    ):
        holds = None
    how = next((v for v in known if isinstance(v, str)), "")
    worded = holds is False and bool(property.breaks)
    text = property.breaks if worded else property.text
    if how and holds is False:
        text = f"{text}; yours {how}"
    return BehaviourResult(property.id, text, holds, property.credit, property.gate, worded)


def _partial(
    exercise: Exercise, trials: Sequence[Trial], results: Sequence[BehaviourResult]
) -> tuple[float, str]:
    """Returns the points and their explanation.

    The right idea earns three quarters: the values are right and something else isn't, or they are
    wrong only for other dtypes or large numbers. It earns half if the method isn't the one that the
    exercise is about. Any other answer earns up to a quarter, by its share of creditable
    properties, unless it is a constant or a copy.
    """
    holds = {r.id: r.holds for r in results}
    usual = [t for t in trials if not t.case.beside_the_idea]
    if _right_idea(exercise, results) or (
        len(usual) < len(trials) and _right_idea(exercise, _rows(exercise, usual))
    ):
        methods = {p.id for p in exercise.properties if p.method}
        if any(r.id in methods and not r.holds for r in results):
            return 0.5 * exercise.points, METHOD
        return 0.75 * exercise.points, "The idea is right: three quarters of the points."
    essential = (holds.get("runs"), holds.get("shape"), holds.get("finite", True))
    credit = [bool(r.holds) for r in results if r.credit]
    if not all(essential) or not credit or any(r.gate and not r.holds for r in results):
        return 0.0, ""
    most, held = _quarter(0.25 * exercise.points), sum(credit)
    points = round(4 * most * held / len(credit)) / 4
    if held == len(credit) > 1:
        return points, (
            "The scored checks (●) pass, but the numbers are wrong: "
            f"{points:g} of at most {most:g} points."
        )
    many = "scored check (●) passes" if held == len(credit) == 1 else "scored checks (●) pass"
    return points, (
        f"{held} of {len(credit)} {many}: {points:g} of at most {most:g} points, in steps of 0.25."
        if points
        else ""
    )


METHOD = "Here the method is the exercise: right values without it earn half of the points."


def _right_idea(exercise: Exercise, results: Sequence[BehaviourResult]) -> bool:
    """Whether the values are right, and everything else that a right idea requires."""
    every = (*standard(exercise), *exercise.properties)
    secondary = {p.id for p in every if p.secondary or p.method}
    essential = {r.id: r.holds for r in results if r.id not in secondary}
    return bool(essential.get("values")) and all(essential.values())


def _quarter(points: float) -> float:
    return math.floor(points * 4) / 4


# ---------------------------------------------------------------- forbidden operators, notes


def _forbidden(exercise: Exercise, observations: Sequence[Observation]) -> list[str]:
    used = {op for o in observations for op in o.facts.get("ops", ())}
    return sorted(used & set(exercise.rules.forbidden))


def _notes(exercise: Exercise, trials: Sequence[Trial], passed: bool) -> list[str]:
    observations = [t.observed for t in trials]
    notes = []
    if passed and exercise.notes:
        notes += exercise.notes([t.case for t in trials], observations)
    if any("compiles" in o.facts for o in observations):
        notes.append("Checks run without `torch.compile`: your code was called as it is written.")
    printed = observations[0].facts.get("printed") if observations else None
    if printed:
        count = printed["lines"]
        lines = "1 line" if count == 1 else f"{count:,} lines"
        first = "\n".join(printed["first"])
        notes.append(f"Your code printed {lines} while it was checked. The beginning:\n{first}")
    return notes


# ---------------------------------------------------------------- the first message


def _explain(
    exercise: Exercise,
    trials: Sequence[Trial],
    results: Sequence[BehaviourResult],
    forbidden: Sequence[str],
) -> tuple[str, str]:
    """The first failure, as one sentence and its evidence."""
    ordinary = [t for t in trials if t.case.refuses is None]
    if forbidden and not any(t.observed.error for t in ordinary):
        return exercise.rules.forbidden_text, f"Your answer calls {', '.join(forbidden)}."
    properties = {p.id: p for p in (*standard(exercise), *exercise.properties)}
    for t in ordinary:
        if t.observed.error:
            return explain_error(exercise, t)
        said = (
            _said(properties["shape"], t)
            or explain_kind(exercise, t)
            or _said(properties["values"], t)
        )
        if said:
            return said
    for id, property in properties.items():
        for t in trials if id not in FIRST_TOLD else ():
            said = _said(property, t)
            if said:
                return said
    broken = next((r for r in results if r.holds is False), None)
    if broken is None:
        return "Some cases could not be judged.", ""
    but = "But:" if broken.worded else "But this is not true:"
    end = "" if broken.text.endswith("?") else "."
    return f"The values are right. {but} {broken.text}{end}", ""


def _said(property: Property, t: Trial) -> tuple[str, str] | None:
    if property.explain is None or property.verdict(t) in (True, None):
        return None
    return property.explain(t)


# ---------------------------------------------------------------- advice common to all exercises


def _sure(trials: Sequence[Trial]) -> Misconception | None:
    """Advice that follows from the answer's code, or from the type of its result, whatever else is
    wrong."""
    kinds = {t.observed.facts.get("types", {}).get("out") for t in trials}
    for kind in ("generator", "coroutine", "ndarray"):
        if kind in kinds:
            return _told(kind)
    if any(t.observed.facts.get("elsewhere") == "numpy" for t in trials):
        return _told("ndarray")
    if named := next((f for t in trials if (f := t.observed.facts.get("read_instead"))), None):
        told = _told("read_instead")
        return replace(told, what=told.what.format(*named), look=told.look.format(*named))
    return None


def _with(report: Report, named: Sequence[Misconception]) -> Report:
    ids, advice = tuple(m.id for m in named), tuple(m.advice for m in named)
    return replace(report, misconceptions=ids, advice=advice)


def _usual(exercise: Exercise, trials: Sequence[Trial], report: Report) -> list[Misconception]:
    """Advice common to all exercises: the meaning of a Python or PyTorch error or, with right
    values, at most two of the other things that are wrong."""
    errors = [t.observed.error for t in trials if t.observed.error and t.case.refuses is None]
    if errors and errors[0]["kind"] == "exception":
        told = meaning(errors[0]["message"]) or meaning(errors[0]["type"])
        more = "" if "raised" in report.message else "On another input, your code raises an error. "
        return [replace(told, what=more + told.what)] if told else []
    failing = [r.id for r in report.behaviours if not r.holds]
    kinds = {t.observed.facts.get("types", {}).get("out") for t in trials} - {None}
    if kinds == {"NoneType"} and any("forward_unwritten" in t.observed.facts for t in trials):
        return []
    if errors:
        failing = [errors[0]["kind"]]
    elif kinds and exercise.returns not in kinds:
        failing = ["nothing" if kinds == {"NoneType"} else "type"]
    if not set(failing) <= USUAL.keys():
        return []
    raised = [
        t.observed.facts["gradient_error"] for t in trials if t.observed.facts.get("gradient_error")
    ]
    grads = [g for t in trials for n, g in t.observed.tensors.items() if "grad:" in n]
    if "gradients" in failing and any(bool(g.isnan().any()) for g in grads):
        return [_told("nan_gradients")]
    if "gradients" in failing and raised:
        told = meaning(raised[0])
        return [told] if told else []
    gradients = {n for t in trials for n in t.expected if "grad:" in n}
    reached = all(any(n in t.observed.tensors for t in trials) for n in gradients)
    return [_told(USUAL[f]) for f in failing if not (f == "gradients" and reached)][:2]


def _in_a_collection(exercise: Exercise, trials: Sequence[Trial]) -> list[Misconception]:
    """Advice if parameters are in a list or dict, where PyTorch doesn't find them: the exercise's
    own, if it has one about a list, else that of any class."""
    facts = [t.observed.error or t.observed.facts for t in trials]
    kinds = {kind for f in facts for _, kind in f.get("unregistered", ())}
    if not kinds:
        return []
    own = [m for m in exercise.misconceptions if m.id.endswith("_in_a_plain_list")]
    return own[:1] if own and "list" in kinds else [_told("unregistered")]


def _told(id: str) -> Misconception:
    said = shared_sentences(Path(__file__).with_name("usual.md"))[id]
    return Misconception(id, said["what"], said["why"], said["look"])


# ---------------------------------------------------------------- errors of Python and PyTorch


@cache
def meanings() -> tuple[tuple[str, Misconception], ...]:
    """Patterns for parts of messages, each with its explanation; groups fill the braces."""
    lines = Path(__file__).with_name("errors.md").read_text(encoding="utf-8").splitlines()
    found = []
    for section in Section("", tuple(lines), 1).sections("## "):
        pattern, *prose = section.lines
        said = labelled("\n".join(prose))
        known = Misconception(section.title, said["what"], said.get("why", ""), said["look"])
        found.append((pattern.removeprefix("Error: "), known))
    return tuple(found)


def meaning(message: str) -> Misconception | None:
    """The explanation of an error message and where to look, or None for an unknown message."""
    for pattern, known in meanings():
        if found := re.search(pattern, message):
            groups = [*filter(None, found.groups()), "", ""]
            return replace(known, what=known.what.format(*groups), look=known.look.format(*groups))
    return None
