"""The answer key of an exercise and a seed: its cases, what is right, what mistakes give.

The grader makes it whole and once. At a student's desk it is made as far as an answer asks for it
and kept: a misconception is followed from case to case only until it parts from what was seen.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from .errors import describe_error
from .exercise import Case, Exercise, Expected, Misconception, Mistake, Trial, mixed
from .guard import undisturbed
from .naming import Match, Symptom, begin_match, same_values, similarity, telling_first
from .naming import symptoms as shown_by
from .observation import Observation

PAIR_SECONDS = 0.2
LIKELIEST = 40  # so many misconceptions, or more that are as likely, are compared with an answer
Symptoms = Mapping[str, frozenset[Symptom]]
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
        """A key as it was in the beginning: what one answer asked for has no say for the next."""
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
    pairs: int | None = None,
) -> None:
    """Adds to the key what naming these observations may need.

    Misconceptions are tried until they part from the observations, up to the first that fits. If
    none does, two at once are tried, the likeliest first.

    Args:
        symptoms: what each misconception is known to break. With it the most similar are tried
            first, and those that break other things not at all.
        pairs: how many pairs are tried, where the same is to be said at any time; else as many as
            fit into a fifth of a second.
    """
    if exercise.kind == "quiz" or not exercise.misconceptions:
        return
    trials = key.trials(observations)
    shown = shown_by(exercise, trials)
    order, begun = telling_first(trials, shown), begin_match(shown)
    # Where all values are right the likely ones give the same: results alone part none of them.
    if symptoms and not begun.possible and not any(t.seen.error for t in trials):
        follow = partial(_follow, exercise, key, trials, order, begun)
    else:
        follow = partial(_glance_and_follow, exercise, key, trials, order, begun)
    with undisturbed():
        found = False
        for name, m in _likeliest(exercise, symptoms or {}, shown):
            match = follow(name, m.answer)
            if match.exact and match.signatures:
                return
            found = found or match.exact
        if found or not any(_says_something(t.seen) for t in trials):
            return
        deadline = time.thread_time() + PAIR_SECONDS  # on a busy machine as many as on a quiet one
        likely = itertools.islice(_pairs(exercise, symptoms or {}, shown), pairs)
        for (one, a), (other, b) in likely:
            if pairs is None and time.thread_time() > deadline:
                return
            name = f"{one}+{other}"
            try:
                answer = mixed(a.right, a.mistake, b.mistake)  # type: ignore[arg-type]
            except TypeError:
                continue
            if follow(name, answer).exact:
                return


def _says_something(seen: Observation) -> bool:
    """Whether a number came out: errors and NaN come about in too many ways."""
    return not seen.error and any(bool(t.isfinite().any()) for t in seen.tensors.values())


def _likeliest(exercise: Exercise, symptoms: Symptoms, shown: frozenset[Symptom]) -> list[Named]:
    """Misconceptions by how similar their symptoms are; as the catalogue has them if unknown."""
    every = list(exercise.variants.items())
    if not all(name in symptoms for name, _ in every):
        return every
    alike = {name: similarity(symptoms[name], shown) for name, _ in every}
    least = sorted(alike.values(), reverse=True)[:LIKELIEST][-1]
    every.sort(key=lambda named: -alike[named[0]])
    return [(name, m) for name, m in every if alike[name] >= least and alike[name] > 0]


def _pairs(
    exercise: Exercise, symptoms: Symptoms, shown: frozenset[Symptom]
) -> Iterator[tuple[Named, Named]]:
    """Two mistakes that touch different steps of the same right answer. Those first whose symptoms
    together are most like those shown; else near ones, for the catalogue begins with what people
    get wrong most often."""
    made = [named for named in exercise.variants.items() if named[1].mistake is not None]
    none: frozenset[Symptom] = frozenset()

    def unlikely(pair: tuple[tuple[int, Named], tuple[int, Named]]) -> tuple[float, int]:
        (i, (one, _)), (j, (other, _)) = pair
        both = symptoms.get(one, none) | symptoms.get(other, none)
        return -similarity(both, shown), i + j

    for (_, one), (_, other) in sorted(itertools.combinations(enumerate(made), 2), key=unlikely):
        if one[1].right is other[1].right and not (_steps(one[1]) & _steps(other[1])):
            yield one, other


def _steps(m: Misconception) -> set[str]:
    mistake = m.mistake
    while inside := getattr(mistake, "inside", None):  # of a part of what the exercise asks for
        mistake = inside
    made = [c for c in getattr(mistake, "__mro__", ()) if issubclass(c, Mistake)]
    names = {name for c in made[:-1] for name in vars(c) if not name.startswith("__")}
    return names - {"id"}


def _follow(
    exercise: Exercise,
    key: AnswerKey,
    trials: Sequence[Trial],
    order: Sequence[int],
    begun: Match,
    name: str,
    answer: Any,
) -> Match:
    """Case by case, until it parts from what was seen."""
    match = replace(begun)
    known = key.wrong.setdefault(name, {})
    for i in order:
        if i not in known:
            known[i] = _remembered(exercise, key, name, answer, i)
        match.add(exercise, trials[i], known[i])
        if match.parted:
            return match
    match.complete = True
    return match


def _glance_and_follow(
    exercise: Exercise,
    key: AnswerKey,
    trials: Sequence[Trial],
    order: Sequence[int],
    begun: Match,
    name: str,
    answer: Any,
) -> Match:
    """As `_follow`, if the results alone don't part the two."""
    if name not in key.wrong:
        for i in order:
            if i != order[0] and key.cases[i].options.get("once"):
                continue  # large
            seen = _glance(exercise, key, name, answer, i)
            if seen and _parts(exercise, trials[i], seen, begun.possible):
                return Match(alike=False, possible=False)
    return _follow(exercise, key, trials, order, begun, name, answer)


def _glance(
    exercise: Exercise, key: AnswerKey, name: str, answer: Any, number: int
) -> Observation | None:
    """The result alone on one case, which the key keeps; None where the probe can't glance."""
    glance = getattr(exercise.probe, "glance", None)
    if glance is None:
        return None
    if (name, number) not in key.glances:
        key.glances[name, number] = _remembered(exercise, key, name, answer, number, glance)
    return key.glances[name, number]


def _remembered(
    exercise: Exercise, key: AnswerKey, name: str, answer: Any, number: int, glance: Any = None
) -> Observation:
    """What a misconception gives on one case; asked for once, whoever asks."""
    place, probe = (name, number, glance is not None), glance or exercise.probe
    if "+" in name:  # there are too many pairs to remember them all
        return probe_safely(probe, answer, key.cases[number])
    if place not in key.remembered:
        key.remembered[place] = probe_safely(probe, answer, key.cases[number])
    return key.remembered[place]


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
