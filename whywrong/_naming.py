"""Finds the misconception, or the pair of them, that explains an answer.

`search` runs each misconception case by case, only until it differs from the answer's observations;
`name_mistakes` compares what was observed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from torch import Tensor

from ._exercise import Case, Exercise, Misconception, Program, Property, Trial
from ._guard import undisturbed
from ._key import AnswerKey, Wrong, probe_safely
from ._observation import Observation
from ._properties import agrees, alike, main_results, standard

Symptom = tuple[str, int]  # a property that fails, and the number of the case
Symptoms = Mapping[str, frozenset[Symptom]]  # of each misconception, by its name
Named = tuple[str, Misconception]
PAIRS = 30  # a fixed number, whatever the speed, so that a card is the same each time
PAIRS_IF_NEAR = 4  # if one misconception already gives all values
VALUES = {"runs", "shape", "values"}
SEVERAL = 3  # right values where a misconception gives wrong ones
LIKELIEST = 40  # this many misconceptions, or more if equally likely, are compared with an answer
MOST = 0.75  # of the cases: a misconception that gives their results, right and wrong, is named
FACTS = ("types", "modified", "unstable", "overwritten", "device", "left_behind")


def explain(
    exercise: Exercise,
    key: AnswerKey,
    trials: Sequence[Trial],
    shown: frozenset[Symptom],
    symptoms: Symptoms | None = None,
) -> list[Misconception]:
    """The misconception, or the pair, that explains an answer; none if nothing fits.

    Args:
        shown: the properties that fail.
        symptoms: what each misconception is known to break: see `search`.
    """
    wrong = key.wrong if key.whole else search(exercise, key, trials, shown, symptoms)
    return (
        name_mistakes(exercise, trials, shown, wrong)
        or by_signs(exercise, trials)
        or on_most_cases(exercise, trials, shown, wrong)
    )


def name_mistakes(
    exercise: Exercise,
    trials: Sequence[Trial],
    shown: frozenset[Symptom],
    known: Mapping[str, Mapping[int, Observation]],
) -> list[Misconception]:
    """The misconception whose code gives the observed results, else two that do so together, else
    one that gives the same wrong values wherever both gave values; none if nothing fits.

    Args:
        known: the observation of each misconception, by its name and the number of the case.
    """
    if not known:
        return []
    named, order, begun = exercise.variants, telling_first(trials, shown), begin_match(shown)
    matches = [
        (name, match_all(exercise, trials, wrong, order, begun)) for name, wrong in known.items()
    ]
    # Among several, prefer those whose error messages agree too.
    exact = [name for name, m in sorted(matches, key=lambda m: not m[1].signatures) if m.exact]
    close = sorted(
        (m for m in matches if m[1].near and "+" not in m[0]),
        key=lambda m: (not m[1].alike, -m[1].explained),
    )
    single = [name for name in exact if "+" not in name]
    chosen = (single or exact or [name for name, _ in close])[:1]

    def differs(one: str) -> bool:
        """Of two, the one that alone gives the error or the numbers that are shown comes first."""
        t = trials[order[0]]
        wrong, error = known.get(one, {}).get(order[0]), t.observed.error
        if wrong is None or wrong.error or error:
            return bool(error) and (wrong is None or signature(wrong.error) != signature(error))
        return not same_values(exercise, t, wrong)

    return [named[one] for name in chosen for one in sorted(name.split("+"), key=differs)]


def by_signs(exercise: Exercise, trials: Sequence[Trial]) -> list[Misconception]:
    """Returns the first misconception that one of the exercise's `signs` recognises."""
    for id, shows in exercise.signs.items():
        with suppress(KeyError, IndexError, RuntimeError, TypeError, ValueError):
            if shows(trials):
                return [exercise.misconception(id)]
    return []


def on_most_cases(
    exercise: Exercise,
    trials: Sequence[Trial],
    shown: frozenset[Symptom],
    known: Mapping[str, Mapping[int, Observation]],
) -> list[Misconception]:
    """The misconception that gives the same wrong values on most cases, also on the one that is
    shown; none if nothing fits."""
    if not begin_match(shown).possible:
        return []
    first = telling_first(trials, shown)[0]
    shares = {
        name: share_alike(exercise, trials, wrong, first)
        for name, wrong in known.items()
        if "+" not in name
    }
    best = max(shares, key=lambda name: shares[name], default="")
    return [exercise.variants[best]] if shares.get(best, 0.0) >= MOST else []


@dataclass
class Match:
    """How well one wrong answer explains another, over the cases seen so far."""

    alike: bool = True
    possible: bool = True  # no value speaks against it
    strict: bool = True  # dtypes and devices count
    complete: bool = False
    ran: bool = False
    signatures: bool = True
    explained: int = 0

    @property
    def parted(self) -> bool:
        return not self.alike and not self.possible

    @property
    def exact(self) -> bool:
        """Errors with different messages come from different mistakes."""
        return self.complete and self.alike and self.signatures

    @property
    def near(self) -> bool:
        return self.complete and self.possible and self.explained >= 2

    def add(self, exercise: Exercise, t: Trial, wrong: Observation) -> None:
        mine, theirs = t.observed.error, wrong.error
        self.alike = self.alike and same_observation(exercise, t, wrong, self.strict)
        if t.case.refuses is None:
            self.ran = self.ran or mine is None
            self.signatures = self.signatures and signature(mine) == signature(theirs)
        if self.possible:
            found = same_values(exercise, t, wrong)
            self.possible = found is not None
            self.explained += found or 0


def match_all(
    exercise: Exercise,
    trials: Sequence[Trial],
    wrong: Mapping[int, Observation],
    order: Sequence[int],
    begun: Match,
) -> Match:
    """Compares case by case, in this order, up to the first case that the key lacks."""
    match = replace(begun)
    for i in order:
        if i not in wrong:
            return match
        match.add(exercise, trials[i], wrong[i])
        if match.parted:
            return match
    match.complete = True
    return match


def share_alike(
    exercise: Exercise, trials: Sequence[Trial], wrong: Mapping[int, Observation], first: int
) -> float:
    """The share of cases with the same values, among those in which at least one of the two gave
    wrong ones; 0 if the first case or the typical one isn't among them, or if they are few."""
    if len(wrong) < len(trials):
        return 0.0
    found = {i: same_values(exercise, t, wrong[i]) for i, t in enumerate(trials)}
    alike = {i for i, count in found.items() if count}
    typical = {i for i, t in enumerate(trials) if "typical" in t.case.roles}
    if first not in alike or not typical & alike or len(alike) < SEVERAL:
        return 0.0
    return len(alike) / sum(count != 0 for count in found.values())


def similarity(a: frozenset[Symptom], b: frozenset[Symptom]) -> float:
    """The share of symptoms in common among all symptoms of either, from 0 to 1."""
    return len(a & b) / len(a | b) if a or b else 1.0


def begin_match(shown: frozenset[Symptom]) -> Match:
    """Nothing compared yet. Without a wrong value, only full equality counts; with a wrong value or
    shape, dtypes and devices say nothing about the cause."""
    wrong = {id for id, _ in shown}
    return Match(possible="values" in wrong, strict=not wrong & {"values", "shape"})


def telling_first(trials: Sequence[Trial], shown: frozenset[Symptom]) -> list[int]:
    """On the cases where an answer is wrong, most misconceptions differ from it at once."""
    wrong = {i for _, i in shown}

    def rank(i: int) -> tuple[int, int]:
        case = trials[i].case
        if ("values", i) in shown:
            return 0, 0
        if trials[i].observed.error and case.options.get("once"):
            sizes = [v.numel() for v in case.inputs.values() if isinstance(v, Tensor)]
            return 1, sum(sizes)  # one call shows the error, and a small case is cheapest
        return 2 if i in wrong else 3, 0

    return sorted(range(len(trials)), key=rank)


def _named(exercise: Exercise, id: str) -> Property:
    return next(p for p in standard(exercise) if p.id == id)


def signature(error: Mapping[str, object] | None) -> object:
    """The parts that errors of the same cause share: the type, the numbers, the first words."""
    if error is None:
        return None
    if error.get("kind") == "weights":  # the number of other parameters matters, not their names
        return _lacks(error), str(error["message"]).count(",")
    return _signature(str(error["type"]), str(error["message"]))


@lru_cache(maxsize=1_000)
def _signature(kind: str, message: str) -> object:
    return kind, re.findall(r"\d+", message), re.findall(r"[A-Za-z]+", message)[:4]


def same_observation(exercise: Exercise, t: Trial, wrong: Observation, strict: bool) -> bool:
    """Whether two answers behaved the same on a case: errors, values, side effects; if `strict`,
    also dtypes and devices."""
    a, b = t.observed, wrong
    if (a.error or {}).get("type") != (b.error or {}).get("type"):
        return False
    theirs = Trial(t.case, b, t.expected)
    if a.error:
        refusal = _named(exercise, "refuses")
        same = refusal.verdict(t) == refusal.verdict(theirs)
        return same and _lacks(a.error) == _lacks(b.error or {})
    facts = [f for f in FACTS if strict or f != "device"]
    if any(a.facts.get(f) != b.facts.get(f) for f in facts) or a.traits != b.traits:
        return False
    if bool(a.facts.get("gradient_error")) != bool(b.facts.get("gradient_error")):
        return False
    if strict and not _same_place(a, b):
        return False
    if a.facts.get("unstable"):
        return True
    compared = [p for p in exercise.properties if p.draws or p.method]
    if any(p.verdict(t) != p.verdict(theirs) for p in compared):
        return False
    failing = (p for p in compared if p.draws and p.verdict(t) not in (True, None))
    if not all(p.draws(t, theirs) for p in failing if p.draws):
        return False
    names = [n for n in {*a.tensors, *b.tensors} if not n.startswith(("draw:", "judged:"))]
    return all(n in a.tensors and n in b.tensors for n in names) and all(
        _alike(exercise, t.case, a.tensors[n], b.tensors[n], strict) for n in names
    )


def _alike(exercise: Exercise, case: Case, mine: Tensor, theirs: Tensor, strictly: bool) -> bool:
    if not strictly and mine.dtype != theirs.dtype:
        mine, theirs = mine.float(), theirs.float()
    return alike(exercise, case, mine, theirs)


def _lacks(error: Mapping[str, object]) -> str:
    """The missing weights that an error names, without the module's other parameters."""
    return str(error["message"]).split("\nyours")[0] if error.get("kind") == "weights" else ""


def _same_place(a: Observation, b: Observation) -> bool:
    mine, theirs = a.facts.get("elsewhere"), b.facts.get("elsewhere")
    return mine == theirs or "unknown" in (mine, theirs)


def same_values(exercise: Exercise, t: Trial, wrong: Observation) -> int | None:
    """The number of wrong results that both share; None if they differ in any result."""
    telling = 0
    for name in main_results(t.expected):
        mine, theirs = t.observed.tensors.get(name), wrong.tensors.get(name)
        if mine is None or theirs is None:
            continue
        if mine.shape != theirs.shape:
            return None
        if not alike(exercise, t.case, mine.double(), theirs.double()):
            return None
        telling += not agrees(exercise, t.case, theirs, t.expected[name])
    return telling


# The search: which misconceptions to run, and how far ---------------------------------------


def search(
    exercise: Exercise,
    key: AnswerKey,
    trials: Sequence[Trial],
    shown: frozenset[Symptom],
    symptoms: Symptoms | None = None,
) -> Wrong:
    """Returns the results of the misconceptions that these trials may show.

    Each misconception runs until it differs from the observations, up to the first that fits. If
    none fits, pairs are tried, the most likely first.

    Args:
        symptoms: what each misconception is known to break. If given, the most similar ones are
            tried first, and those that break other properties are skipped.
    """
    found = Search(exercise, key, trials, shown, symptoms or {})
    with undisturbed():
        if not (found.one_explains() or found.two_explain()):
            found.run_those_that_begin_alike()
    return found.wrong


class Search:
    """The search for the misconceptions that give the observed results; `wrong` is what it ran."""

    def __init__(
        self,
        exercise: Exercise,
        key: AnswerKey,
        trials: Sequence[Trial],
        shown: frozenset[Symptom],
        symptoms: Symptoms,
    ) -> None:
        self.exercise, self.key, self.trials, self.symptoms = exercise, key, trials, symptoms
        self.wrong: Wrong = {}
        self.near = False  # whether one of them gives all values
        self.misfit: int | None = None  # where it differs in something else
        self.shown = shown
        self.order = telling_first(trials, self.shown)
        self.begun = begin_match(self.shown)
        # If all values are right, the likely ones give them too: results alone distinguish nothing.
        errors = any(t.observed.error for t in trials)
        draws = {p.id for p in exercise.properties if p.draws}  # many calls, where one may tell
        self.drawn = {(id, i) for id, i in self.shown if id in draws}
        self.looks_first = bool(not symptoms or self.begun.possible or errors or self.drawn)
        # If everything has its right value, what breaks values can't explain the answer.
        self.right = not errors and not {id for id, _ in self.shown} & VALUES
        self.unharmed = [
            i
            for i, t in enumerate(trials)
            if t.case.refuses is None and not self.shown & {(id, i) for id in VALUES}
        ]

    def one_explains(self) -> bool:
        """Runs single misconceptions; returns whether one of them gives the observed results."""
        found = False
        for name, m in self.likeliest():
            match = self.follow(name, m.answer)
            if match.exact and match.signatures:
                return True
            found = found or match.exact
        return found

    def two_explain(self) -> bool:
        """Runs pairs, up to the first pair that gives the observed results."""
        if not any(_says_something(t.observed) for t in self.trials):
            return False
        for name, program in itertools.islice(self.pairs(), PAIRS_IF_NEAR if self.near else PAIRS):
            try:
                answer = program.answer
            except SyntaxError:  # two edits that can't be combined
                continue
            if self.follow(name, answer).exact:
                first = self.order[0]  # which of the two gives the numbers that are shown?
                for one in name.split("+"):
                    observed = self._observed(one, self.exercise.variants[one].answer, first)
                    self.wrong.setdefault(one, {})[first] = observed
                return True
        return False

    def run_those_that_begin_alike(self) -> None:
        """Runs, on all cases, the misconceptions that give the wrong values of the first case."""
        first, glance = self.order[0], getattr(self.exercise.probe, "glance", None)
        if self.near or not (self.begun.possible and glance):
            return
        for name, m in self.likeliest():
            observed = self._observed(name, m.answer, first, glance)
            if same_values(self.exercise, self.trials[first], observed):
                self.wrong[name] = {
                    i: self._observed(name, m.answer, i, glance) for i in range(len(self.trials))
                }

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
        """Whether it can give the observed results, by what it is known to break. On some seed, it
        may happen to give the right values on one case, but not on several."""
        known = self.symptoms.get(name, frozenset())
        if self.right and {id for id, _ in known} & VALUES:
            return False
        spoils = {i for id, i in known if id in VALUES}
        return len(spoils.intersection(self.unharmed)) < SEVERAL

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
        match, alike = replace(self.begun), True
        known = self.wrong.setdefault(name, {})
        pair = "+" in name  # of which only one that gives everything counts
        for i in sorted(self.order, key=lambda i: i != self.misfit) if pair else self.order:
            if i not in known:
                known[i] = self._observed(name, answer, i)
            match.add(self.exercise, self.trials[i], known[i])
            if match.parted or (pair and not match.alike):
                return match
            if alike and not match.alike:
                alike, misfit = False, i
        match.complete = True
        if match.near and not self.near:
            self.near, self.misfit = True, None if alike else misfit
        return match

    def _parts_at_a_glance(self, name: str, answer: Any) -> bool:
        """Whether the results alone differ from the observations; not every probe can glance."""
        glance, hopeful = getattr(self.exercise.probe, "glance", None), self.begun.possible
        for i in self.order if glance else ():
            options = self.key.cases[i].options
            if i != self.order[0] and (options.get("once") or (hopeful and options.get("drops"))):
                continue  # large, or draws that aren't compared here
            if self.right and self.drawn and i not in {number for _, number in self.drawn}:
                continue  # what leaves the values right gives no other result
            observed = self._observed(name, answer, i, glance)
            if _parts(self.exercise, self.trials[i], observed, hopeful):
                return True
            if not hopeful and self._draws_otherwise(i, observed):
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


def _says_something(observed: Observation) -> bool:
    """Whether there is a finite result: errors and NaN have too many possible causes."""
    return not observed.error and any(bool(t.isfinite().any()) for t in observed.tensors.values())


def _parts(exercise: Exercise, t: Trial, wrong: Observation, hopeful: bool) -> bool:
    """Whether the result alone, on one case, already differs from the observation."""
    if t.observed.error:
        if wrong.error is None:  # unless there is one call, a later one may raise
            return bool(t.case.options.get("once"))
        return bool(wrong.error["type"] != t.observed.error["type"])
    if wrong.error:
        return not hopeful
    return same_values(exercise, t, wrong) is None
