"""`course explain`: the code of an answer that ran, its inputs, and its results."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from whywrong import Case, Observation
from whywrong.hosting import AnswerKey, Exercise, cached_key, joined, own_folders

from . import sandbox
from .classroom import CantRun, Work, enter, read
from .command import in_words
from .flags import answers
from .notebooks import watched_verdict
from .preprocessors import trusted
from .readable import readable
from .results import Settings, seed_from
from .work import server

WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("student")
    parser.add_argument("exercise", help="such as naive_mean")


@in_words
def explain(args: argparse.Namespace) -> int:
    course, tier = Path.cwd(), sandbox.TRUSTED if trusted() else sandbox.SANDBOX
    if tier == sandbox.SANDBOX:
        sandbox.demand()
    exercise = joined(own_folders()).find(args.exercise)
    if exercise is None:
        raise CantRun(f"There is no exercise {args.exercise}: see `course progress`.")
    assignment, notebook = exercise.lesson.split("/", 1)
    classroom = enter(course, assignment, args.student)
    settings = Settings.of(course, tier, classroom.lessons)
    read(classroom, settings, args.student)
    for work in (w for w in classroom.works if w.notebook == notebook):
        said = [*classroom.concerns[work.student], *work.trouble]
        print("\n".join(_told(work, said, exercise, settings)))
        return 0
    raise CantRun(
        f"The gradebook has no notebook {notebook}: nbgrader generate_assignment {assignment}"
    )


def _told(work: Work, said: list[str], exercise: Exercise, settings: Settings) -> Iterator[str]:
    yield f"{work.student}, {exercise.id} in {exercise.lesson}, tier: {settings.tier}"
    yield from (f"! {line}" for line in said)
    yield from ("", "Submitted code", "")
    yield readable(answers(work).get(exercise.id, "(no cell defines it)"))
    key = cached_key(exercise, seed_from(settings.secret)(exercise.id))
    report, seen, happened = watched_verdict(
        *(server(settings.tier), work.cells, exercise, joined(settings.own), key, settings.times),
        settings.files,
    )
    yield from ("", "Feedback", "", str(report))
    yield from (f"! {said}" for said in happened)
    yield from ("", "Inputs and results", "")
    if exercise.kind == "quiz":
        entries = seen[0].facts.get("entries", {}) if seen else {}
        for entry in exercise.entries:
            mine = entries.get(entry.name, "(nothing)")
            yield f"  {entry.name}: {mine!r}, right: {entry.answer!r}"
        return
    for number, case in enumerate(key.cases):
        yield from _case(key, case, number, seen[number] if number < len(seen) else None)


def _case(key: AnswerKey, case: Case, number: int, seen: Observation | None) -> Iterator[str]:
    yield f"{number + 1}. {case.name}. {case.describe()}"
    for name, value in case.inputs.items():
        if isinstance(value, Tensor) and value.numel() <= 24:
            yield f"     {name} = {shown(value)}"
    if case.refuses is not None:
        yield f"     to be refused with a ValueError that contains: {' and '.join(case.refuses)}"
    if seen is None:
        yield "     not tried: the run had ended before"
        return
    if seen.error:
        yield f"     raised {seen.error['type']}: {seen.error['message']}"
    for name, right in key.expected[number].items():
        got = seen.tensors.get(name)
        yield f"     {name}: expected {shown(right)}"
        yield f"     {'':{len(name)}}  got      {shown(got) if got is not None else '(nothing)'}"


def shown(value: Tensor) -> str:
    """A tensor on about one line: its shape, and all or the first of its numbers."""
    kind = str(value.dtype).removeprefix("torch.")
    flat = value.flatten()[:8]
    numbers = [f"{v:.5g}" if value.is_floating_point() else str(v) for v in flat.tolist()]
    more = ", …" if value.numel() > len(numbers) else ""
    return f"{tuple(value.shape)} {kind} [{', '.join(numbers)}{more}]"
