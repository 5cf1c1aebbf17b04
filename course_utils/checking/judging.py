"""From observations to a report. Compares with the answer key, and runs nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from .accounts import judge_account
from .comparing import agrees
from .exercise import Exercise, Property, Trial, Verdict
from .key import AnswerKey
from .naming import name_mistakes
from .observation import Observation
from .properties import explain_error, explain_kind, finite, standard, wrong_row
from .quizzes import judge_quiz
from .report import BehaviourResult, Report, Row


def judge(exercise: Exercise, key: AnswerKey, observations: Sequence[Observation]) -> Report:
    """The report on an answer, from what its probe saw and what the key holds.

    Looks at nothing but plain tensors, facts and the key: no student code, no misconception, no
    expectation is run here.
    """
    if exercise.kind == "quiz":
        read = judge_account if exercise.properties else judge_quiz
        return read(exercise, observations[0])
    trials = key.trials(observations)
    if _unattempted(trials):
        return Report.not_attempted(exercise)

    properties = (*standard(exercise), *exercise.properties)
    usual = [_result(p, trials) for p in standard(exercise)]
    errors = [t.seen.error for t in trials if t.seen.error and t.case.refuses is None]
    if errors and all(e.get("kind") == "weights" for e in errors):  # nothing went wrong in a call
        usual[0] = replace(usual[0], text="It has the parameters that were asked for")
    shape = properties[1]
    fit = [t for t in trials if shape.verdict(t) is not False]
    if errors:
        fit = []  # what is left could only mislead
    others = [_result(p, trials, fit) for p in exercise.properties]
    results = _without_consequences([r for r in (*usual, *others) if r.holds is not None])
    if not all(r.holds for r in usual[:2]):  # then nothing else was judged on every case
        results = [r for r in results if not r.holds]
    complete = bool(trials) and len(trials) == len(key.cases)
    passed = complete and all(r.holds for r in results)
    forbidden = _forbidden(exercise, observations)
    if forbidden:
        results.append(BehaviourResult("own_work", exercise.forbidden_text, False, worded=True))
        passed = False
    borrowed = sorted({n for o in observations for n in o.facts.get("borrowed", ())})
    if passed and borrowed:
        return Report.borrowed(exercise, borrowed)
    notes = _notes(exercise, trials, passed)
    if passed:
        message = "Right on every case."
        return Report(
            exercise.id,
            exercise.points,
            exercise.points,
            True,
            results,
            message=message,
            notes=notes,
        )
    message, detail = _explain(exercise, properties, trials, results, forbidden)
    report = Report(
        exercise.id,
        0.0 if forbidden else _partial(exercise, properties, results),
        exercise.points,
        False,
        results,
        message=message,
        detail=detail,
        notes=notes,
        hints_left=len(exercise.hints),
        row=_row(exercise, trials) if "First difference at" in detail else None,
    )
    return report if forbidden else with_names(exercise, key, observations, report)


def with_names(
    exercise: Exercise, key: AnswerKey, observations: Sequence[Observation], report: Report
) -> Report:
    """The report with the misconceptions that explain the observations, as far as the key goes."""
    named = name_mistakes(exercise, key, key.trials(observations))
    return replace(
        report,
        misconceptions=tuple(m.id for m in named),
        advice=tuple(m.advice for m in named),
    )


def _row(exercise: Exercise, trials: Sequence[Trial]) -> Row | None:
    rows = (wrong_row(exercise, t) for t in trials if t.case.refuses is None and not t.seen.error)
    return next((row for row in rows if row is not None), None)


def _unattempted(trials: Sequence[Trial]) -> bool:
    return any(
        t.seen.facts.get("not_attempted") or (t.seen.error or {}).get("kind") == "stub"
        for t in trials
    )


# ---------------------------------------------------------------- properties over all cases


def _result(
    property: Property, trials: Sequence[Trial], fit: Sequence[Trial] | None = None
) -> BehaviourResult:
    """One property over all cases; those of an exercise itself look at the trials in `fit`."""
    verdicts: list[Verdict] = []
    if fit is None:
        verdicts = [property.verdict(t) for t in trials]
    else:
        for t in fit:
            if t.seen.facts.get("unstable") or not (property.any_number or finite(t.seen)):
                continue  # chance or a NaN would break it for another reason
            verdicts.append(property.verdict(t))
    known = [v for v in verdicts if v is not None]
    holds = all(v is True for v in known) if known else None
    how = next((v for v in known if isinstance(v, str)), "")
    worded = holds is False and bool(property.breaks)
    text = property.breaks if worded else property.text
    if how and holds is False:
        text = f"{text}; yours {how}"
    return BehaviourResult(property.id, text, holds, property.credit, property.gate, worded)


CONSEQUENCES = {
    "gradients": {"values", "unmodified"},
    "half": {"runs", "values", "dtype"},
    "trains": {"runs", "values", "stable", "gradients"},
}


def _without_consequences(results: Sequence[BehaviourResult]) -> list[BehaviourResult]:
    """Rows that fail only because another one does are left out."""
    failed = {r.id for r in results if not r.holds}
    return [r for r in results if r.holds or not CONSEQUENCES.get(r.id, set()) & failed]


def _partial(
    exercise: Exercise, properties: Sequence[Property], results: Sequence[BehaviourResult]
) -> float:
    """Three quarters when the values are right and something beside them isn't, all but a quarter
    point where that is the wording of a refusal; else up to half, by the share of creditable
    properties, if the answer is more than a constant or a copy."""
    holds = {r.id: r.holds for r in results}
    secondary = {p.id for p in properties if p.secondary}
    essential = [r for r in results if r.id not in secondary]
    if all(r.holds for r in essential) and holds.get("values"):
        if {r.id for r in results if not r.holds} == {"says_why"}:
            return exercise.points - 0.25
        return _quarter(0.75 * exercise.points)
    if not holds.get("runs") or not holds.get("shape") or not holds.get("finite", True):
        return 0.0
    if any(r.gate and not r.holds for r in results):
        return 0.0
    credit = [bool(r.holds) for r in results if r.credit]
    return _quarter(0.5 * exercise.points * sum(credit) / len(credit)) if credit else 0.0


def _quarter(points: float) -> float:
    return math.floor(points * 4) / 4


# ---------------------------------------------------------------- forbidden operators, notes


def _forbidden(exercise: Exercise, observations: Sequence[Observation]) -> list[str]:
    used = {op for o in observations for op in o.facts.get("ops", ())}
    return sorted(used & set(exercise.forbidden))


def _notes(exercise: Exercise, trials: Sequence[Trial], passed: bool) -> list[str]:
    seen = [t.seen for t in trials]
    notes = []
    if passed and exercise.notes:
        notes += exercise.notes([t.case for t in trials], seen)
    if passed and any(_float32_step(exercise, t) for t in trials):
        notes.append(
            "Somewhere on the way your float64 input passes through float32 (the last digits "
            "show it). It costs nothing here; `dtype=x.dtype` keeps the precision."
        )
    wider = {o.facts["half_dtype"] for o in seen if "half_dtype" in o.facts}
    if passed and wider:
        notes.append(f"For a bfloat16 input the result is {wider.pop()}. It costs nothing here.")
    printed = seen[0].facts.get("printed") if seen else None
    if printed:
        count = printed["lines"]
        lines = "1 line" if count == 1 else f"{count:,} lines"
        first = "\n".join(printed["first"])
        notes.append(f"Your code printed {lines} while it was checked. The beginning:\n{first}")
    return notes


def _float32_step(exercise: Exercise, t: Trial) -> bool:
    for name, expected in t.expected.items():
        got = t.seen.tensors.get(name)
        if (
            got is not None
            and got.dtype == expected.dtype == torch.float64
            and expected.numel()
            and agrees(exercise, got, expected)
            and (got - expected).abs().max() > 1e-8 * expected.abs().max().clamp(min=1)
        ):
            return True
    return False


# ---------------------------------------------------------------- what to say first


def _explain(
    exercise: Exercise,
    properties: Sequence[Property],
    trials: Sequence[Trial],
    results: Sequence[BehaviourResult],
    forbidden: Sequence[str],
) -> tuple[str, str]:
    """The first thing that is wrong, as one sentence and the evidence for it."""
    ordinary = [t for t in trials if t.case.refuses is None]
    if forbidden and not any(t.seen.error for t in ordinary):
        return exercise.forbidden_text, f"Your answer calls {', '.join(forbidden)}."
    first = {p.id: p for p in properties[:4]}
    for t in ordinary:
        if t.seen.error:
            return explain_error(exercise, t)
        for id in ("shape", "kind", "values"):
            said = explain_kind(exercise, t) if id == "kind" else _said(first[id], t)
            if said:
                return said
    for property in properties[4:]:
        for t in trials:
            said = _said(property, t)
            if said:
                return said
    broken = next((r for r in results if r.holds is False), None)
    if broken is None:
        return "Not every case was judged.", ""
    but = "But:" if broken.worded else "But this does not hold:"
    return f"The values are right. {but} {broken.text}.", ""


def _said(property: Property, t: Trial) -> tuple[str, str] | None:
    if property.explain is None or property.verdict(t) in (True, None):
        return None
    return property.explain(t)
