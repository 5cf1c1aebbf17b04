"""The answer key of an exercise and a seed: its cases, what is right, what mistakes give.

The grader makes it whole and once. At a student's desk it is made as far as an answer asks for it
and kept: a misconception is followed from case to case only until it parts from what was seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import describe_error
from .exercise import Case, Exercise, Expected, Misconception, Trial
from .guard import undisturbed
from .naming import Match, Symptom, Symptoms, begin_match, same_values, similarity, telling_first
from .naming import symptoms as shown_by
from .observation import Observation
from .programs import Program

PAIRS = 30  # so many are tried, at any speed: a card says the same each time
LIKELIEST = 40  # so many misconceptions, or more that are as likely, are compared with an answer
Named = tuple[str, Misconception]


@dataclass
class AnswerKey:
    """What answers are compared with; plain data.

    Attributes:
        cases: the inputs.
        expected: the right tensors, case by case.
        wrong: what each misconception gives, by its name and the number of the case; two at once
            stand under both names with a `+` between.
        glances: their results alone, where those were enough to part them from an answer.
        whole: every misconception is there, on every case.
        remembered: what probing misconceptions has given, for keys that begin anew.
    """

    cases: list[Case]
    expected: list[Expected]
    wrong: dict[str, dict[int, Observation]] = field(default_factory=dict)
    glances: dict[tuple[str, int], Observation] = field(default_factory=dict)
    whole: bool = False
    remembered: dict[tuple[str, int, bool], Observation] = field(default_factory=dict)

    def anew(self) -> AnswerKey:
        """A key as it was in the beginning: what was looked up for others does not affect it."""
        return AnswerKey(self.cases, self.expected, remembered=self.remembered)

    def trials(self, observations: Sequence[Observation]) -> list[Trial]:
        """Observations beside their cases and what is right."""
        return [Trial(*t) for t in zip(self.cases, observations, self.expected, strict=False)]


def begin_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The cases and what is right; no misconception yet."""
    with undisturbed():
        cases = exercise.cases(seed)
        _check_roles(exercise, cases)
        expected: list[Expected] = [
            {} if exercise.kind == "quiz" else exercise.expect(c) for c in cases
        ]
    return AnswerKey(cases, expected)


def make_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The whole key, two mistakes at once left out: those are looked for with `extend_key`."""
    key = begin_key(exercise, seed)
    key.whole = True
    if exercise.kind == "quiz":
        return key
    with undisturbed():
        for name, m in exercise.variants.items():
            key.wrong[name] = {
                i: probe_safely(exercise.probe, m.answer, c) for i, c in enumerate(key.cases)
            }
    return key


def extend_key(
    exercise: Exercise,
    key: AnswerKey,
    observations: Sequence[Observation],
    symptoms: Symptoms | None = None,
) -> None:
    """Adds to the key what naming these observations may need.

    Misconceptions are tried until they part from the observations, up to the first that fits. If
    none does, two at once are tried, the likeliest first.

    Args:
        symptoms: what each misconception is known to break. With it the most similar are tried
            first, and those that break other things not at all.
    """
    if exercise.kind == "quiz" or not exercise.misconceptions:
        return
    search = Search(exercise, key, key.trials(observations), symptoms or {})
    with undisturbed():
        if not search.one_explains():
            search.two_explain()


class Search:
    """The search for the misconceptions that give what was seen, as in `extend_key`."""

    def __init__(
        self, exercise: Exercise, key: AnswerKey, trials: Sequence[Trial], symptoms: Symptoms
    ) -> None:
        self.exercise, self.key, self.trials, self.symptoms = exercise, key, trials, symptoms
        self.shown = shown_by(exercise, trials)
        self.order = telling_first(trials, self.shown)
        self.begun = begin_match(self.shown)
        # Where all values are right the likely ones give the same: results alone part none of them.
        errors = any(t.seen.error for t in trials)
        self.looks_first = not symptoms or self.begun.possible or errors

    def one_explains(self) -> bool:
        """Follows single misconceptions; whether one of them gives what was seen."""
        found = False
        for name, m in self.likeliest():
            match = self.follow(name, m.answer)
            if match.exact and match.signatures:
                return True
            found = found or match.exact
        return found

    def two_explain(self) -> None:
        """Follows two at once, up to the first two that give what was seen."""
        if not any(_says_something(t.seen) for t in self.trials):
            return
        for name, program in itertools.islice(self.pairs(), PAIRS):
            try:
                answer = program.answer
            except SyntaxError:  # two edits that don't go together
                continue
            if self.follow(name, answer).exact:
                return

    def likeliest(self) -> list[Named]:
        """Misconceptions by how similar their symptoms are; in the catalogue's order if unknown."""
        every = list(self.exercise.variants.items())
        if not all(name in self.symptoms for name, _ in every):
            return every
        alike = {name: similarity(self.symptoms[name], self.shown) for name, _ in every}
        least = sorted(alike.values(), reverse=True)[:LIKELIEST][-1]
        every.sort(key=lambda named: -alike[named[0]])
        return [(name, m) for name, m in every if alike[name] >= least and alike[name] > 0]

    def pairs(self) -> Iterator[tuple[str, Program]]:
        """Two misconceptions that change different lines of the right answer. Those first whose
        symptoms together are most like those shown; else near ones, for the catalogue begins with
        what people get wrong most often."""
        made = list(self.exercise.variants.items())
        none: frozenset[Symptom] = frozenset()

        def unlikely(pair: tuple[tuple[int, Named], tuple[int, Named]]) -> tuple[float, int]:
            (i, (one, _)), (j, (other, _)) = pair
            both = self.symptoms.get(one, none) | self.symptoms.get(other, none)
            return -similarity(both, self.shown), i + j

        every = itertools.combinations(enumerate(made), 2)
        for (_, one), (_, other) in sorted(every, key=unlikely):
            if len(self.symptoms.get(one[0], none)) < len(self.symptoms.get(other[0], none)):
                one, other = other, one  # what spoils more leads
            program = one[1].joined(other[1]) if one[1].id != other[1].id else None
            if program is not None:
                yield f"{one[0]}+{other[0]}", program

    def follow(self, name: str, answer: Any) -> Match:
        """Case by case, until it parts from what was seen."""
        if (
            self.looks_first
            and name not in self.key.wrong
            and self._parts_at_a_glance(name, answer)
        ):
            return Match(alike=False, possible=False)
        match = replace(self.begun)
        known = self.key.wrong.setdefault(name, {})
        for i in self.order:
            if i not in known:
                known[i] = self._observed(name, answer, i)
            match.add(self.exercise, self.trials[i], known[i])
            if match.parted:
                return match
        match.complete = True
        return match

    def _parts_at_a_glance(self, name: str, answer: Any) -> bool:
        """Whether the results alone differ from what was seen; a probe may be unable to glance."""
        glance = getattr(self.exercise.probe, "glance", None)
        for i in self.order if glance else ():
            if i != self.order[0] and self.key.cases[i].options.get("once"):
                continue  # large
            if (name, i) not in self.key.glances:
                self.key.glances[name, i] = self._observed(name, answer, i, glance)
            seen = self.key.glances[name, i]
            if _parts(self.exercise, self.trials[i], seen, self.begun.possible):
                return True
        return False

    def _observed(self, name: str, answer: Any, number: int, glance: Any = None) -> Observation:
        """What a misconception gives on one case; computed once, however often it is needed."""
        case, remembered = self.key.cases[number], self.key.remembered
        place, probe = (name, number, glance is not None), glance or self.exercise.probe
        if (name, number, False) in remembered:  # whole, it holds what a glance sees
            return remembered[name, number, False]
        if "+" in name:  # there are too many pairs to remember them all
            return probe_safely(probe, answer, case)
        if place not in remembered:
            remembered[place] = probe_safely(probe, answer, case)
        return remembered[place]


def _says_something(seen: Observation) -> bool:
    """Whether a number came out: errors and NaN come about in too many ways."""
    return not seen.error and any(bool(t.isfinite().any()) for t in seen.tensors.values())


def _parts(exercise: Exercise, t: Trial, wrong: Observation, hopeful: bool) -> bool:
    """Whether the result alone, on one case, already differs from what was seen."""
    if t.seen.error:
        if wrong.error is None:  # a later call may have raised, unless there is only one
            return bool(t.case.options.get("once"))
        return bool(wrong.error["type"] != t.seen.error["type"])
    if wrong.error:
        return not hopeful
    return same_values(exercise, t, wrong) is None


def probe_safely(probe: Any, answer: Any, case: Case) -> Observation:
    try:
        seen: Observation = probe(answer, case)
    except Exception as error:
        return Observation(facts={"error": describe_error(error)})
    return seen


def _check_roles(exercise: Exercise, cases: Sequence[Case]) -> None:
    """A property whose role no case has would be lost without a word."""
    present = {role for c in cases for role in c.roles}
    lost = [p.id for p in exercise.properties if p.role and p.role not in present]
    if lost:
        raise ValueError(f"{exercise.id}: no case has the role that {', '.join(lost)} looks at")
