"""What a student is told: the same report as an HTML card, as text, and as a bare number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .card import LINE, card, frame, rich

if TYPE_CHECKING:
    from .exercise import Exercise


@dataclass(frozen=True)
class BehaviourResult:
    """One row of a report: a property, and whether it holds (None: could not be tried).

    `worded`: the text says itself what is wrong, so that no word of failing stands before it.
    """

    id: str
    text: str
    holds: bool | None
    credit: bool = False
    gate: bool = False
    worded: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a result in which a number is wrong, as text: expected above got."""

    label: str
    expected: tuple[str, ...]
    got: tuple[str, ...]
    wrong: tuple[bool, ...]


@dataclass(frozen=True)
class Report:
    """The outcome of one `check`.

    `repr(report)` is exactly the points, which is what nbgrader reads; `print(report)` is the
    text for a terminal; a notebook shows the card. `misconceptions` are the ids of what may be
    behind a wrong answer, two where it takes two, and `advice` what, why and mend of each. `hints`,
    `other_way` and `place` are what a card folds out and adds: the desk knows them.
    """

    exercise: str
    points: float
    max_points: float
    passed: bool
    behaviours: list[BehaviourResult] = field(default_factory=list)
    misconceptions: tuple[str, ...] = ()
    advice: tuple[tuple[str, str, str], ...] = ()
    message: str = ""
    detail: str = ""
    notes: list[str] = field(default_factory=list)
    hints_left: int = 0
    attempted: bool = True
    row: Row | None = None
    hints: tuple[str, ...] = ()
    other_way: str = ""
    place: str = ""

    @classmethod
    def not_attempted(cls, exercise: Exercise) -> Report:
        return cls(
            exercise.id,
            0.0,
            exercise.points,
            False,
            message="Not attempted yet.",
            hints_left=len(exercise.hints),
            attempted=False,
        )

    @classmethod
    def refused(cls, exercise: Exercise, message: str, detail: str = "") -> Report:
        """What was handed in is no answer, and why."""
        hints = len(exercise.hints)
        return cls(
            exercise.id,
            0.0,
            exercise.points,
            False,
            message=message,
            detail=detail,
            hints_left=hints,
        )

    @classmethod
    def borrowed(cls, exercise: Exercise, names: list[str]) -> Report:
        """A right answer that calls the finished part in its own place."""
        return cls.refused(
            exercise,
            f"This calls the course's own finished part ({', '.join(names)}). Read it if you are "
            "stuck, then close it and write yours.",
        )

    @property
    def misconception(self) -> str | None:
        """The id of what may be behind the answer, or None; of two, the first."""
        return self.misconceptions[0] if self.misconceptions else None

    @property
    def status(self) -> str:
        if not self.attempted:
            return "not attempted yet"
        if self.passed:
            return "right"
        return "partly right" if self.points else "not right yet"

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return asdict(self) | {"misconception": self.misconception}

    # Full stops matter: nbgrader takes text that is no finite number for full marks.
    def __repr__(self) -> str:
        return repr(float(self.points))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self) if _in_terminal() else repr(self))

    def _repr_html_(self) -> str:
        return card(self)

    def _lines(self) -> Iterable[str]:
        head = f"{self.exercise}: {self.status}, {self.points:g} of {points_word(self.max_points)}"
        yield head
        if self.message and self.attempted:
            yield f"  {plain_text(self.message)}"
        for line in self.detail.splitlines():
            yield f"    {line}"
        for number, (what, why, mend) in enumerate(self.advice):
            if number:
                yield "  And at the same time:"
            yield f"  What happened: {plain_text(what)}"
            yield f"  Why it matters: {plain_text(why)}"
            yield f"  Where to look: {plain_text(mend)}"
        for row in self.behaviours:
            mark = {True: "[ok]   ", False: "[wrong]", None: "[-]    "}[row.holds]
            yield f"  {mark} {plain_text(row.text)}"
        for note in self.notes:
            first, *rest = note.splitlines()
            yield f"  Note: {plain_text(first)}"
            yield from (f"    {line}" for line in rest)
        if self.hints_left and not self.passed:
            yield f'  Stuck? hint("{self.exercise}")'


def points_word(points: float) -> str:
    return f"{points:g} point" if points == 1 else f"{points:g} points"


def plain_text(text: str) -> str:
    """Catalogue text without its backticks and stars."""
    return re.sub(r"(?<![\w*])\*(\w[^*\n]*\w|\w)\*(?![\w*])", r"\1", text).replace("`", "")


def _in_terminal() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return type(get_ipython()).__name__ == "TerminalInteractiveShell"


@dataclass(frozen=True)
class Message:
    """A few lines for the reader, as text and as HTML in the same frame as a card."""

    title: str
    text: str

    def __repr__(self) -> str:
        return f"{self.title}\n{plain_text(self.text)}".strip()

    def _repr_html_(self) -> str:
        body = "".join(f'<p style="margin:0.3em 0">{rich(p)}</p>' for p in self.text.split("\n"))
        return frame(f"<strong>{rich(self.title)}</strong>{body}", LINE, self.title)
