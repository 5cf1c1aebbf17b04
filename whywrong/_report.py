"""A report for the student: as an HTML card, as text, and as a bare number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ._card import NOT_ATTEMPTED, BehaviourResult, Row, card, plain_text, points_word
from ._course import columns, filled, localised
from ._exercise import Exercise

MARKS = "[ok]", "[wrong]", "[not yet]"


@dataclass(frozen=True)
class Report:
    """The outcome of one `check`.

    `repr(report)` is just the points, which nbgrader reads; `print(report)` gives the text for a
    terminal; a notebook shows the card. `misconceptions` are the ids that may explain a wrong
    answer, two if it takes two together, and `advice` holds for each what happened, why it matters
    and where to look. `because` explains partial points. The desk adds `hints`, `other_way` and
    `progress` to the card, and `stale`, which says that the report is about an earlier version.
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
    because: str = ""
    stale: str = ""
    hints: tuple[str, ...] = ()
    other_way: str = ""
    progress: str = ""

    @classmethod
    def nothing(
        cls, exercise: Exercise | str, message: str, detail: str = "", **more: Any
    ) -> Report:
        """A report without points, and why: nothing was submitted, or nothing that can be judged.

        Args:
            exercise: the exercise, or what was passed instead of its name.
        """
        if isinstance(exercise, str):
            return cls(exercise[:60], 0.0, 0.0, False, message=message, **more)
        left = len(exercise.hints)
        told = {"message": message, "detail": detail, "hints_left": left, **more}
        return cls(exercise.id, 0.0, exercise.points, False, **told)

    @classmethod
    def not_attempted(cls, exercise: Exercise) -> Report:
        return cls.nothing(exercise, NOT_ATTEMPTED, attempted=False)

    @property
    def misconception(self) -> str | None:
        """The id of the misconception that may explain the answer, or None; of two, the first."""
        return self.misconceptions[0] if self.misconceptions else None

    @property
    def unsaid(self) -> list[BehaviourResult]:
        """The rows, without those that the message already quotes."""
        return [r for r in self.behaviours if r.holds or r.text not in self.message]

    @property
    def status(self) -> str:
        if self.stale:
            return "previous version"
        if not self.attempted:
            return "not attempted yet"
        if self.passed:
            return "right"
        return "partly right" if self.points else "not right yet"

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return asdict(self) | {"misconception": self.misconception}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """Rebuilds a report from the result of `to_dict`, even if that was stored as JSON."""
        fields = {name: value for name, value in data.items() if name != "misconception"}
        row = fields["row"] and Row(**{k: _tuples(v) for k, v in fields["row"].items()})
        behaviours = [BehaviourResult(**behaviour) for behaviour in fields["behaviours"]]
        fixed = ("misconceptions", "advice", "hints")
        lists = {name: _tuples(fields[name]) for name in fixed}
        return cls(**fields | lists | {"row": row, "behaviours": behaviours})

    # This must be a finite number: nbgrader gives full marks for any other text.
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
        yield localised(head)
        if self.stale:
            yield f"  {plain_text(self.stale)}"
        if self.message != NOT_ATTEMPTED:
            yield f"  {plain_text(self.message)}"
        for line in self.detail.splitlines():
            yield f"    {localised(line)}"
        for number, (what, why, look) in enumerate(self.advice):
            if number:
                yield f"  {localised('And at the same time:')}"
            yield f"  {localised('What happened: ')}{plain_text(what)}"
            if why:
                yield f"  {localised('Why it matters: ')}{plain_text(why)}"
            yield f"  {localised('Where to look: ')}{plain_text(look)}"
        width = max(map(columns, map(localised, MARKS)))
        for row in self.unsaid:
            mark = MARKS[0 if row.holds else 1 if row.worded else 2]
            scored = " ●" * (row.credit and bool(self.because))
            yield f"  {filled(localised(mark), width)} {plain_text(row.text)}{scored}"
        if self.because:
            yield f"  {plain_text(self.because)}"
        for note in self.notes:
            first, *rest = note.splitlines()
            yield f"  {localised('Note: ')}{plain_text(first)}"
            yield from (f"    {line}" for line in rest)
        if self.hints_left and not self.passed:
            yield f'  {localised("Stuck? ")}hint("{self.exercise}")'


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _in_terminal() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return type(get_ipython()).__name__ == "TerminalInteractiveShell"
