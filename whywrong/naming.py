"""Finds the misconception, or the pair of them, that explains an answer, by the answer key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from torch import Tensor

from .comparing import agrees, alike
from .exercise import Case, Exercise, Misconception, Property, Trial
from .observation import Observation
from .properties import main_results, standard

Symptom = tuple[str, int]  # a property that fails, and the number of the case
Symptoms = Mapping[str, frozenset[Symptom]]  # of each misconception, by its name
FACTS = ("types", "modified", "unstable", "overwritten", "device", "left_behind")


def name_mistakes(
    exercise: Exercise,
    trials: Sequence[Trial],
    known: Mapping[str, Mapping[int, Observation]],
) -> list[Misconception]:
    """The misconception whose code gives the observed results, else two that do so together, else
    one that gives the same wrong values wherever both gave values; none if nothing fits.

    Args:
        known: the observation of each misconception, by its name and the number of the case.
    """
    if not known:
        return []
    shown = symptoms(exercise, trials)
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
        """Of two, the one whose own error was observed comes first."""
        wrong, error = known.get(one, {}).get(order[0]), trials[order[0]].seen.error
        return bool(error) and (wrong is None or signature(wrong.error) != signature(error))

    return [named[one] for name in chosen for one in sorted(name.split("+"), key=differs)]


def by_signs(exercise: Exercise, trials: Sequence[Trial]) -> list[Misconception]:
    """Returns the first misconception that one of the exercise's `signs` recognises."""
    for id, shows in exercise.signs.items():
        with suppress(KeyError, IndexError, RuntimeError, TypeError, ValueError):
            if shows(trials):
                return [exercise.misconception(id)]
    return []


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
        mine, theirs = t.seen.error, wrong.error
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


def symptoms(exercise: Exercise, trials: Sequence[Trial]) -> frozenset[Symptom]:
    """The properties that fail, each with its cases."""
    properties = (*standard(exercise), *exercise.properties)
    return frozenset((p.id, i) for i, t in enumerate(trials) for p in properties if _fails(p, t))


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
        if trials[i].seen.error and case.options.get("once"):
            sizes = [v.numel() for v in case.inputs.values() if isinstance(v, Tensor)]
            return 1, sum(sizes)  # one call shows the error, and a small case is cheapest
        return 2 if i in wrong else 3, 0

    return sorted(range(len(trials)), key=rank)


def _named(exercise: Exercise, id: str) -> Property:
    return next(p for p in standard(exercise) if p.id == id)


def _fails(property: Property, t: Trial) -> bool:
    return property.verdict(t) not in (True, None)


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
    a, b = t.seen, wrong
    if (a.error or {}).get("type") != (b.error or {}).get("type"):
        return False
    theirs = Trial(t.case, b, t.expected)
    if a.error:
        refusal = [_named(exercise, id) for id in ("refuses", "says_why")]
        same = all(p.verdict(t) == p.verdict(theirs) for p in refusal)
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
    every = {*a.tensors, *b.tensors} - {"half"}
    names = [n for n in every if not n.startswith(("draw:", "judged:"))]
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
        mine, theirs = t.seen.tensors.get(name), wrong.tensors.get(name)
        if mine is None or theirs is None:
            continue
        if mine.shape != theirs.shape:
            return None
        if not alike(exercise, t.case, mine.double(), theirs.double()):
            return None
        telling += not agrees(exercise, t.case, theirs, t.expected[name])
    return telling
