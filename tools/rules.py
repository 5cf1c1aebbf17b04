"""What each exercise of the course must have: enough answers, whole sentences, cases that differ.

`python -m tools.matrix --keep` prints the rules that an exercise breaks; the tests call the same
functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whywrong._texts import Text
from whywrong.hosting import Exercise

from . import EXERCISES
from .sizes import NoLetters, coinciding

FEW_AND_MANY = {"quiz": (4, 40), "function": (5, 24), "class": (10, 32)}
LONGEST = 230  # characters of a sentence


def enough(exercise: Exercise, kinds: Sequence[str]) -> Iterator[str]:
    """Whether there are enough misconceptions, hints and answers; `kinds` are those of its cells
    in the matrix."""
    few, many = FEW_AND_MANY[exercise.kind]
    count = len({m.id for m in exercise.misconceptions})
    if not few <= count <= many:
        yield f"{count} misconceptions; a {exercise.kind} has {few} to {many}"
    if not 2 <= len(exercise.hints) <= 3:
        yield f"{len(exercise.hints)} hints instead of 2 or 3"
    right = kinds.count("other right")
    if right < (least := 2 if exercise.kind == "quiz" else 3):
        named = "first-attempts.md needs more answers with `Named: right`"
        yield f"{right} right answers, with the one in the text, instead of {least}: {named}"
    wrong = kinds.count("not in catalogue") + kinds.count("first attempt")
    if wrong < 5 and exercise.kind != "quiz":
        yield f"{wrong} wrong answers instead of 5: first-attempts.md needs more"
    if exercise.points <= 0 or exercise.points % 0.25:
        yield f"{exercise.points:g} points; they are a multiple of 0.25"


def sentences(exercise: Exercise) -> Iterator[str]:
    """Whether each sentence is whole and each id a word."""
    for m in exercise.misconceptions:
        if not m.id.replace("_", "").isalnum() or m.id != m.id.lower():
            yield f"the id {m.id} should be words in lower case, joined by _"
        for sentence in m.advice:
            if sentence[-1] not in ".?!…`":
                yield f"{m.id}: {sentence!r} should end with a punctuation mark"
            if sentence[0].isalpha() and not sentence[0].isupper():
                yield f"{m.id}: {sentence!r} should begin with a capital letter"
            if len(sentence) > LONGEST:
                yield f"{m.id}: {sentence!r} has {len(sentence)} characters, over {LONGEST}"
    texts = [sentence for m in exercise.misconceptions for sentence in m.advice]
    for text in (*texts, *exercise.hints, *(p.text for p in exercise.properties)):
        if text != text.strip() or text.count("`") % 2:
            yield f"{text!r} has a space at an end, or an odd number of backticks"


def one_id(exercises: Sequence[Exercise], among: Sequence[Exercise]) -> Iterator[str]:
    """Whether a sentence of these exercises has another id in one of those `among` them."""
    ids: dict[str, dict[str, str]] = {}
    for e in among:
        for m in e.misconceptions:
            ids.setdefault(m.what, {}).setdefault(m.id, e.id)
    for what in dict.fromkeys(m.what for e in exercises for m in e.misconceptions):
        if len(found := ids[what]) > 1:
            named = " and ".join(f"{id} ({e})" for id, e in found.items())
            yield f"{what!r} has two ids: {named}"


def broken(exercise: Exercise, kinds: Sequence[str], among: Sequence[Exercise]) -> Iterator[str]:
    """All the rules that an exercise breaks, in words."""
    yield from enough(exercise, kinds)
    yield from sentences(exercise)
    yield from one_id([exercise], among)
    yield from order(exercise)
    if exercise.kind != "quiz":
        yield from cases_differ(exercise, range(2))


def order(exercise: Exercise) -> Iterator[str]:
    """Whether no other exercise of the lesson has the same exercise before it."""
    paths = sorted((EXERCISES / exercise.lesson).glob("*.md"))
    before = {p.stem: Text(p).head.get("after") for p in paths if p.stem.isidentifier()}
    mine = before.get(exercise.id)
    for other, after in before.items():
        if other != exercise.id and after == mine:
            place = f"`after: {mine}`" if mine else "no `after:`"
            yield (
                f"{other} also has {place}; the one that comes second in the lesson needs "
                "`after:` with the name of the one that comes first"
            )


def cases_differ(exercise: Exercise, seeds: Sequence[int]) -> Iterator[str]:
    """Whether each case has a name, one is typical, and no two sizes can be confused."""
    yield from dict.fromkeys(said for seed in seeds for said in _faults(exercise, seed))


def _faults(exercise: Exercise, seed: int) -> Iterator[str]:
    cases = exercise.cases(seed)
    typical = [c for c in cases if "typical" in c.roles]
    if len(typical) != 1 or typical[0].refuses or "small" in typical[0].roles:
        yield "exactly one case should have the role typical, and not be small or refused"
    if len({c.name for c in cases}) < len(cases):
        yield "two cases have the same name"
    for case in cases:
        try:
            yield from (f"the case {case.name!r}: {said}" for said in coinciding(exercise, case))
        except NoLetters as error:
            yield f"{error}: write `letters = {{{error.name!r}: …}}` in {exercise.id}.py"
    for p in exercise.properties:
        if p.role and not any(p.role in case.roles for case in cases):
            yield f"the property {p.id} looks for the role {p.role}, which no case has"
