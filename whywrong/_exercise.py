"""The parts of an exercise: cases and draws of inputs, properties, misconceptions as edits of a
right program, entries of a quiz."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ._observation import Observation

Expected = Mapping[str, Tensor]
Verdict = bool | str | None  # a string says how it fails; None: it does not apply


@dataclass(frozen=True)
class Case:
    """One set of inputs.

    Args:
        name: what is special about the case, shown in a report ("float64", "one token").
        inputs: plain tensors, numbers, strings, lists and dicts, by name and in call order.
        refuses: if not None, a `ValueError` is the right answer, and its message must contain each
            of these strings (or one of several alternatives separated by `|`).
        options: switches for the probe that are not inputs of the answer.
        roles: the purposes of the case; properties look for these, never for the name. "small" says
            that a size of 1, or equal sizes, are intended; "stability", that its numbers test
            more than the idea; "central", that they test the idea, whatever their dtype.
    """

    name: str
    inputs: Mapping[str, Any]
    refuses: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: frozenset[str] | set[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.inputs[name]

    @property
    def beside_the_idea(self) -> bool:
        """Whether the case uses a dtype other than float32, or numbers that overflow: an answer
        that fails only on such cases has the right idea."""
        given = (*self.inputs.values(), *self.options.get("weights", {}).values())
        dtypes = {v.dtype for v in given if isinstance(v, Tensor) and v.is_floating_point()}
        beside = "stability" in self.roles or bool(dtypes - {torch.float32})
        return beside and "central" not in self.roles

    def describe(self) -> str:
        """The call in words: `Called with x: (2, 5, 3) float32`."""
        inputs = ", ".join(f"{name}: {describe_value(v)}" for name, v in self.inputs.items())
        if "args" not in self.options:
            return f"Called with {inputs}"
        made = [*map(repr, self.options["args"])]
        made += [f"{k}={v!r}" for k, v in self.options.get("kwargs", {}).items()]
        called = f", called with {inputs}" if self.inputs else ""
        pairs = zip(self.names, self.options["args"], strict=False)
        said = ", ".join(f"{n} {v!r}" for n, v in pairs)
        return f"Made with ({', '.join(made)}){f' for {said}' if said else ''}{called}"

    @property
    def names(self) -> tuple[str, ...]:
        """The constructor's argument names, if a reader should be reminded of their order."""
        return tuple(self.options.get("names", ()))


LONGEST = 12  # so many items of a list are shown


def describe_value(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, dict):
        shown = ", ".join(f"{k}: {describe_value(v)}" for k, v in [*value.items()][:4])
        return f"{{{shown}{', …' if len(value) > 4 else ''}}}"
    if isinstance(value, tuple) and any(isinstance(v, Tensor) for v in value):
        return f"({', '.join(map(describe_value, value))})"
    if isinstance(value, list) and len(value) > LONGEST:
        first = ", ".join(map(describe_value, value[:LONGEST]))
        return f"[{first}, … ({len(value)} in all)]"
    return repr(value)


class Draw:
    """Random inputs of an exercise, from one seed.

    >>> Draw(1).sizes(3, 2, 9) == Draw(1).sizes(3, 2, 9)
    True
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def sizes(self, count: int, low: int, high: int) -> list[int]:
        """`count` different sizes from `low` to `high`, inclusive."""
        order = torch.randperm(high - low + 1, generator=self.generator)
        return [low + int(i) for i in order[:count]]

    def integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers, drawn in float64 so that they are the same for both dtypes."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def hidden(self, *shape: int) -> Tensor:
        """A random bool mask over the last dimension, with something visible in every row."""
        mask = torch.rand(shape, generator=self.generator) < 0.5
        seen = torch.randint(0, shape[-1], shape[:-1], generator=self.generator)
        other = (seen + 1) % shape[-1]
        mask.scatter_(-1, other.unsqueeze(-1), True)
        return mask.scatter_(-1, seen.unsqueeze(-1), False)

    def with_empty_row(self, *shape: int) -> Tensor:
        """Like `hidden`, but with one fully hidden row if there is more than one row."""
        mask = self.hidden(*shape)
        if mask.dim() > 1:
            mask.view(-1, shape[-1])[self.integer(0, mask[..., 0].numel() - 1)] = True
        return mask


@dataclass(frozen=True)
class Trial:
    """One case with the observation and the right result."""

    case: Case
    observed: Observation
    expected: Expected


@dataclass(frozen=True)
class Property:
    """A statement that is true of a right answer, judged case by case.

    Args:
        id: a short, stable name.
        text: the property as a sentence that is true of a right answer.
        holds: `(case, observed, expected) -> True, False, a string or None`. A string says how the
            property fails ("on the result"); None means that it does not apply.
        credit: whether the property counts for partial credit when the values are wrong.
        gate: no partial credit at all unless it is true (a constant or a copy of the input would
            otherwise collect points for properties that it has by accident).
        secondary: unrelated to how close a wrong answer is to the right one; with right values,
            breaking it costs a quarter.
        method: it says how the exercise is to be solved; if it is false, right values earn half.
        role: the property is judged only on cases with this role.
        any_number: it is also judged on cases whose results are NaN or infinite.
        draws: it judges random results; two answers of which it says the same are alike if this
            function of both trials says so, too.
        breaks: the message when it fails; the text itself if empty.
        explain: `(trial) -> (message, detail)` for a message that depends on the trial.
    """

    id: str
    text: str
    holds: Callable[[Case, Observation, Expected], Verdict]
    credit: bool = False
    gate: bool = False
    secondary: bool = False
    method: bool = False
    role: str = ""
    any_number: bool = False
    draws: Callable[[Trial, Trial], bool] | None = None
    breaks: str = ""
    explain: Callable[[Trial], tuple[str, str]] | None = None

    def verdict(self, t: Trial) -> Verdict:
        """Its judgement of a case; None if it looks at other cases, or its evidence is missing."""
        if self.role and self.role not in t.case.roles:
            return None
        known = t.observed.verdicts
        if self.holds not in known:
            try:
                known[self.holds] = self.holds(t.case, t.observed, t.expected)
            except (KeyError, IndexError, RuntimeError, TypeError, ValueError):
                known[self.holds] = None
        verdict: Verdict = known[self.holds]
        return verdict


def true_of(text: str, **how: Any) -> Callable[[Callable[..., Verdict]], Property]:
    """Turns the decorated function into a property, whose id is the function's name.

    Args:
        how: the other fields of `Property`.

    >>> @true_of("Every row sums to 1", credit=True)
    ... def rows(case, observed, expected):
    ...     return bool(observed.tensors["out"].sum(-1).allclose(torch.ones(1)))
    >>> rows.id
    'rows'
    """
    return lambda holds: Property(holds.__name__, text, holds, **how)


# ---------------------------------------------------------------- programs


Edit = tuple[str, str]  # the lines to remove, and the lines that replace them


@dataclass(frozen=True, eq=False)
class Names:
    """The names that a program may use: defined by some lines of code, which run on first use."""

    source: str

    @cached_property
    def values(self) -> Mapping[str, Any]:
        space: dict[str, Any] = {"__name__": "answer"}
        exec(compile(self.source, "<given>", "exec"), space)
        return space


@dataclass(frozen=True, eq=False)
class Program:
    """Source code that defines an answer: its last function or class.

    Args:
        source: the code before `edits`.
        names: the names that it may use.
        edits: local changes, the old text of each found exactly once.
    """

    source: str
    names: Names
    edits: tuple[Edit, ...] = ()

    @cached_property
    def text(self) -> str:
        """The source with the edits applied.

        Raises:
            ValueError: the lines of an edit are not found, or found more than once.
        """
        text = self.source
        places = sorted(((*place(text, old), new) for old, new in self.edits), reverse=True)
        if any(end > begun for (begun, *_), (_, end, _) in pairwise(places)):
            raise ValueError("two edits change the same words: is `Or:` missing between them?")
        for start, end, new in places:  # from the end, so that positions stay valid
            indent = " " * (start - text.rfind("\n", 0, start) - 1)
            text = text[:start] + new.replace("\n", "\n" + indent) + text[end:]
        return text

    @cached_property
    def answer(self) -> Any:
        space = dict(self.names.values)
        known = set(space)
        exec(compile(self.text, "<answer>", "exec"), space)
        return [value for name, value in space.items() if name not in known][-1]

    def edited(self, *edits: Edit) -> Program:
        return Program(self.source, self.names, (*self.edits, *edits))

    def joined(self, other: Program) -> Program | None:
        """A program with the edits of both; None if they share a line or differ otherwise."""
        if self.source != other.source or not self.edits or not other.edits:
            return None
        if self._touched & other._touched:
            return None
        return Program(self.source, self.names, (*self.edits, *other.edits))

    @cached_property
    def _touched(self) -> set[int]:
        """The line numbers that the edits change."""
        places = [place(self.source, old) for old, _ in self.edits]
        return {
            line
            for start, end in places
            for line in range(
                self.source.count("\n", 0, start), self.source.count("\n", 0, end) + 1
            )
        }


def place(source: str, old: str) -> tuple[int, int]:
    """The position of these lines, at any indentation.

    Raises:
        ValueError: they are not found, or found more than once.
    """
    pattern = r"\n\s*".join(re.escape(line.strip()) for line in old.splitlines())
    found = [m.span() for m in re.finditer(pattern, source)]
    if len(found) != 1:
        raise ValueError(
            f"{old!r} should be found once in the right answer, not {len(found)} times"
        )
    return found[0]


# ---------------------------------------------------------------- misconceptions


@dataclass(frozen=True, eq=False)
class Misconception:
    """A wrong answer that people give, and a tutor's reply.

    Args:
        id: the idea behind it, with the same name throughout the course.
        what: what happened, in one sentence.
        why: why it matters, in one sentence.
        look: where to look, without giving the answer away.
        program: the wrong answer; None in a quiz.
        entries: in a quiz, the entries with different answers.
        breaks: in an account, the broken relation.
        fits: in an account, whether an account that breaks the relation does so in this way.
    """

    id: str
    what: str
    why: str
    look: str
    program: Program | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)
    breaks: str = ""
    fits: Callable[[Mapping[str, Any]], bool] | None = None

    @property
    def answer(self) -> Any:
        """The wrong function or class; in a quiz, the entries with different answers."""
        return self.entries if self.program is None else self.program.answer

    @property
    def advice(self) -> tuple[str, str, str]:
        return self.what, self.why, self.look

    def joined(self, other: Misconception) -> Program | None:
        """The right answer with both mistakes; None if both change the same line."""
        if self.program is None or other.program is None:
            return None
        return self.program.joined(other.program)


# ---------------------------------------------------------------- exercises


@dataclass(frozen=True)
class Entry:
    """One question of a quiz.

    Args:
        name: its key in the student's dict.
        answer: the right answer: an int, a tuple of ints (a shape), a list of tuples, a float, or a
            string that is one of `choices`.
        why: the reason, shown when the answer is right.
        ask: a question that leads to the answer, shown when it is wrong.
        choices: for a string, the possible answers.
        ordered: whether the order of a list matters.
        optional: for a string in an account, whether it may be empty.
        handed: in an account, whether the entry is an object to be measured, such as a model;
            `answer` is then the word that stands for it in the catalogue.
        formerly: an earlier name of the key, which older notebooks still have.
    """

    name: str
    answer: Any
    why: str
    ask: str
    choices: tuple[str, ...] = ()
    ordered: bool = False
    optional: bool = False
    handed: bool = False
    formerly: str = ""


@dataclass(frozen=True)
class Rules:
    """Rules on what an answer may call, and what doesn't count as an answer.

    Args:
        uses: earlier exercises that it may call by name. An answer that fails with the reader's own
            versions is tried with the finished ones, so that no mistake counts twice.
        same_as: parts that do what this exercise asks and must not be called: ids of exercises (for
            their finished answers) and names of other finished parts.
        forbidden: operators, as PyTorch spells them, that would solve the exercise.
        forbidden_text: the message when one of them is used.
        as_found: the broken program that is handed out to be fixed; while its code is unchanged,
            the exercise counts as not attempted.
    """

    uses: tuple[str, ...] = ()
    same_as: tuple[str | Callable[..., Any], ...] = ()
    forbidden: tuple[str, ...] = ()
    forbidden_text: str = ""
    as_found: Any = None


@dataclass(frozen=True, eq=False)
class Exercise:
    """An exercise of the course; its id is the name that the student defines.

    Args:
        id: the name of the function, class or quiz.
        lesson: the notebook it belongs to, as `assignment/notebook`.
        call: the signature as the student writes it, or the name of the dict for a quiz.
        points: the maximum, a multiple of 0.25.
        kind: "function", "class" or "quiz". A quiz with properties is an account (see `quiz`).
        cases: draws the inputs from a seed.
        probe: runs an answer on one case. Its method `glance`, if it has one, observes only the
            result.
        expect: the right tensors for one case, in the requested dtypes.
        reference: a right answer; in a quiz, the right entries.
        made: in an account, turns the words of the catalogue into the objects they stand for.
        finished: the part that lessons import and answers must not call, or None.
        right: the reference as a good student would write it; misconceptions are edits of it.
        properties: what is true of a right answer, beyond the properties common to all exercises.
        misconceptions: wrong answers that a check can name.
        hints: from a first nudge to almost the answer.
        other_way: another right answer worth reading, as source; shown after full points.
        rules: what an answer may call, and what doesn't count as an answer.
        signs: functions that recognise a misconception in the trials, by its id, for ideas with a
            number of the student's choice; called if no program gives the same results.
        notes: remarks on the observations that cost no points.
        returns: the Python type of the result if it isn't a tensor ("int", "NoneType").
        entries: the questions of a quiz.
        tolerance: the largest error by dtype, relative for expected values above one.
    """

    id: str
    lesson: str
    call: str
    points: float
    cases: Callable[[int], list[Case]]
    probe: Callable[[Any, Case], Observation]
    expect: Callable[[Case], dict[str, Tensor]]
    reference: Any
    kind: str = "function"
    made: Callable[[dict[str, Any]], dict[str, Any]] = dict
    finished: Any = None
    right: Program | None = None
    properties: tuple[Property, ...] = ()
    misconceptions: Sequence[Misconception] = ()
    hints: tuple[str, ...] = ()
    other_way: str = ""
    rules: Rules = field(default_factory=Rules)
    signs: Mapping[str, Callable[[Sequence[Trial]], bool]] = field(default_factory=dict)
    notes: Callable[[Sequence[Case], Sequence[Observation]], list[str]] | None = None
    returns: str = "Tensor"
    entries: tuple[Entry, ...] = ()
    tolerance: Mapping[torch.dtype, float] = field(
        default_factory=lambda: {torch.float32: 1e-5, torch.float64: 1e-6}
    )

    def misconception(self, id: str) -> Misconception:
        """By its id, or by the name of a variant."""
        return self.variants[id]

    @cached_property
    def variants(self) -> dict[str, Misconception]:
        """Misconceptions by name: the id, with a number if one idea has several programs."""
        named: dict[str, Misconception] = {}
        for m in self.misconceptions:
            earlier = sum(other.id == m.id for other in named.values())
            named[f"{m.id} {earlier + 1}" if earlier else m.id] = m
        return named
