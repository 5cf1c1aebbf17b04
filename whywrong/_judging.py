"""Turns observations into a report with advice. Runs no code of answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ._comparing import compare, symptoms_of
from ._exercise import Exercise, Misconception, Trial
from ._key import AnswerKey
from ._naming import Symptoms, explain
from ._observation import Observation
from ._quizzes import judge_quiz
from ._report import Report
from ._texts import Section, labelled, shared_sentences

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
    if not named and any(t.observed.facts.get("unstable") in ("random", "seed") for t in trials):
        named = [_told("random")]
    return _with(report, named or _usual(exercise, trials, report))


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
