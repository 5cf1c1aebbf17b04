"""The answer key of an exercise and a seed: cases, right results, results of misconceptions.

The matrix computes the whole key once. For a check, `search` runs each misconception case by case,
only until it differs from the answer's observations; the key caches what it ran.
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

PAIRS = 30  # a fixed number, whatever the speed, so that a card is the same each time
VALUES = {"runs", "shape", "values"}
LIKELIEST = 40  # this many misconceptions, or more if equally likely, are compared with an answer
Named = tuple[str, Misconception]
Wrong = dict[str, dict[int, Observation]]  # by misconception and case number


@dataclass
class AnswerKey:
    """The reference data that answers are compared with.

    Attributes:
        cases: the inputs.
        expected: the right tensors, case by case.
        wrong: the observations of each misconception, by its name and the number of the case; a
            pair is stored under both names joined by `+`.
        whole: whether `wrong` contains every misconception on every case.
        remembered: what earlier searches observed, by misconception, case number, and whether
            the observation was only a glance.
    """

    cases: list[Case]
    expected: list[Expected]
    wrong: Wrong = field(default_factory=dict)
    whole: bool = False
    remembered: dict[tuple[str, int, bool], Observation] = field(default_factory=dict)

    def trials(self, observations: Sequence[Observation]) -> list[Trial]:
        """Observations together with their cases and the right results."""
        return [Trial(*t) for t in zip(self.cases, observations, self.expected, strict=False)]


def begin_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The cases and the right results; no misconceptions yet."""
    with undisturbed():
        cases = exercise.cases(seed)
        _check_roles(exercise, cases)
        expected: list[Expected] = [
            {} if exercise.kind == "quiz" else exercise.expect(c) for c in cases
        ]
    return AnswerKey(cases, expected)


def make_key(exercise: Exercise, seed: int) -> AnswerKey:
    """Returns the complete key, without pairs of mistakes, for which `search` looks."""
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


def search(
    exercise: Exercise,
    key: AnswerKey,
    trials: Sequence[Trial],
    symptoms: Symptoms | None = None,
) -> Wrong:
    """Returns the results of the misconceptions that these trials may show.

    Each misconception runs until it differs from the observations, up to the first that fits. If
    none fits, pairs are tried, the most likely first.

    Args:
        symptoms: what each misconception is known to break. If given, the most similar ones are
            tried first, and those that break other properties are skipped.
    """
    found = Search(exercise, key, trials, symptoms or {})
    with undisturbed():
        if not found.one_explains():
            found.two_explain()
    return found.wrong


class Search:
    """The search for the misconceptions that give the observed results; `wrong` is what it ran."""

    def __init__(
        self, exercise: Exercise, key: AnswerKey, trials: Sequence[Trial], symptoms: Symptoms
    ) -> None:
        self.exercise, self.key, self.trials, self.symptoms = exercise, key, trials, symptoms
        self.wrong: Wrong = {}
        self.shown = shown_by(exercise, trials)
        self.order = telling_first(trials, self.shown)
        self.begun = begin_match(self.shown)
        # If all values are right, the likely ones give them too: results alone distinguish nothing.
        errors = any(t.seen.error for t in trials)
        draws = {p.id for p in exercise.properties if p.draws}  # many calls, where one may tell
        self.drawn = {(id, i) for id, i in self.shown if id in draws}
        self.looks_first = bool(not symptoms or self.begun.possible or errors or self.drawn)
        # If everything has its right value, what breaks values can't explain the answer.
        self.right = not errors and not {id for id, _ in self.shown} & VALUES

    def one_explains(self) -> bool:
        """Runs single misconceptions; returns whether one of them gives the observed results."""
        found = False
        for name, m in self.likeliest():
            match = self.follow(name, m.answer)
            if match.exact and match.signatures:
                return True
            found = found or match.exact
        return found

    def two_explain(self) -> None:
        """Runs pairs, up to the first pair that gives the observed results."""
        if not any(_says_something(t.seen) for t in self.trials):
            return
        for name, program in itertools.islice(self.pairs(), PAIRS):
            try:
                answer = program.answer
            except SyntaxError:  # two edits that can't be combined
                continue
            if self.follow(name, answer).exact:
                return

    def likeliest(self) -> list[Named]:
        """Misconceptions by similarity of their symptoms; in the catalogue's order if unknown."""
        every = list(self.exercise.variants.items())
        if not all(name in self.symptoms for name, _ in every):
            return every
        alike = {name: similarity(self.symptoms[name], self.shown) for name, _ in every}
        least = sorted(alike.values(), reverse=True)[:LIKELIEST][-1]
        every.sort(key=lambda named: -alike[named[0]])
        return [
            (name, m)
            for name, m in every
            if alike[name] >= least and alike[name] > 0 and self.may_explain(name)
        ]

    def may_explain(self, name: str) -> bool:
        return not self.right or not {id for id, _ in self.symptoms.get(name, ())} & VALUES

    def may_draw(self, name: str) -> bool:
        """Whether it may break what random results break."""
        return name not in self.symptoms or bool(self.drawn & self.symptoms[name])

    def pairs(self) -> Iterator[tuple[str, Program]]:
        """Pairs of misconceptions that change different lines of the right answer. Pairs whose
        joint symptoms are most like those observed come first; else those early in the catalogue,
        because it begins with the commonest mistakes."""
        every = self.exercise.variants.items()
        made = [(name, m) for name, m in every if self.may_explain(name)]
        none: frozenset[Symptom] = frozenset()

        def unlikely(pair: tuple[tuple[int, Named], tuple[int, Named]]) -> tuple[float, int]:
            (i, (one, _)), (j, (other, _)) = pair
            both = self.symptoms.get(one, none) | self.symptoms.get(other, none)
            return -similarity(both, self.shown), i + j

        pairs = itertools.combinations(enumerate(made), 2)
        for (_, one), (_, other) in sorted(pairs, key=unlikely):
            if self.drawn and not (self.may_draw(one[0]) or self.may_draw(other[0])):
                continue
            if len(self.symptoms.get(one[0], none)) < len(self.symptoms.get(other[0], none)):
                one, other = other, one  # the one that breaks more comes first
            program = one[1].joined(other[1]) if one[1].id != other[1].id else None
            if program is not None:
                yield f"{one[0]}+{other[0]}", program

    def follow(self, name: str, answer: Any) -> Match:
        """Runs it case by case, until it differs from the observations."""
        if self.looks_first and name not in self.wrong and self._parts_at_a_glance(name, answer):
            return Match(alike=False, possible=False)
        match = replace(self.begun)
        known = self.wrong.setdefault(name, {})
        for i in self.order:
            if i not in known:
                known[i] = self._observed(name, answer, i)
            match.add(self.exercise, self.trials[i], known[i])
            if match.parted:
                return match
        match.complete = True
        return match

    def _parts_at_a_glance(self, name: str, answer: Any) -> bool:
        """Whether the results alone differ from the observations; not every probe can glance."""
        glance = getattr(self.exercise.probe, "glance", None)
        for i in self.order if glance else ():
            if i != self.order[0] and self.key.cases[i].options.get("once"):
                continue  # large
            if self.right and self.drawn and i not in {number for _, number in self.drawn}:
                continue  # what leaves the values right gives no other result
            seen = self._observed(name, answer, i, glance)
            if _parts(self.exercise, self.trials[i], seen, self.begun.possible):
                return True
            if not self.begun.possible and self._draws_otherwise(i, seen):
                return True
        return False

    def _draws_otherwise(self, i: int, wrong: Observation) -> bool:
        """Whether random results of a glance already differ from those observed."""
        t = self.trials[i]
        theirs = Trial(t.case, wrong, t.expected)
        failing = [p for p in self.exercise.properties if p.draws and (p.id, i) in self.drawn]
        return any(p.draws and not p.draws(t, theirs) for p in failing)

    def _observed(self, name: str, answer: Any, number: int, glance: Any = None) -> Observation:
        """The observation of a misconception on one case, computed only once."""
        case, remembered = self.key.cases[number], self.key.remembered
        place, probe = (name, number, glance is not None), glance or self.exercise.probe
        if (name, number, False) in remembered:  # a full observation includes what a glance sees
            return remembered[name, number, False]
        if "+" in name:  # there are too many pairs to cache them all
            return probe_safely(probe, answer, case)
        if place not in remembered:
            remembered[place] = probe_safely(probe, answer, case)
        return remembered[place]


def _says_something(seen: Observation) -> bool:
    """Whether there is a finite result: errors and NaN have too many possible causes."""
    return not seen.error and any(bool(t.isfinite().any()) for t in seen.tensors.values())


def _parts(exercise: Exercise, t: Trial, wrong: Observation, hopeful: bool) -> bool:
    """Whether the result alone, on one case, already differs from the observation."""
    if t.seen.error:
        if wrong.error is None:  # unless there is one call, a later one may raise
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
    """Refuses a property whose role no case has: it would never be judged."""
    present = {role for c in cases for role in c.roles}
    lost = [p.id for p in exercise.properties if p.role and p.role not in present]
    if lost:
        raise ValueError(f"{exercise.id}: no case has the role that {', '.join(lost)} needs")
