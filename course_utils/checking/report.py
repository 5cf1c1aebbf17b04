"""What a student is told: the same report as an HTML card, as text, and as a bare number."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exercise import Exercise


@dataclass(frozen=True)
class BehaviourResult:
    """One row of a report: a property, and whether it holds (None: could not be tried)."""

    id: str
    text: str
    holds: bool | None
    credit: bool = False
    gate: bool = False


@dataclass(frozen=True)
class Report:
    """The outcome of one `check`.

    `repr(report)` is exactly the points, which is what nbgrader reads; `print(report)` is the
    text for a terminal; a notebook shows the card. `misconceptions` are the ids of what may be
    behind a wrong answer, two where it takes two, and `advice` what, why and mend of each.
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
    """Catalogue text without its backticks."""
    return text.replace("`", "")


def _in_terminal() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return type(get_ipython()).__name__ == "TerminalInteractiveShell"


# ---------------------------------------------------------------- the card

# Colours come from JupyterLab's theme; the second value serves pages that have no theme.
INK = "var(--jp-ui-font-color1, #1f1f1f)"
PAPER = "var(--jp-layout-color1, #ffffff)"
LINE = "var(--jp-border-color2, #c8c8c8)"
MONO = "var(--jp-code-font-family, ui-monospace, monospace)"
ACCENT = {
    "right": "var(--jp-success-color1, #2e7d32)",
    "partly right": "var(--jp-warn-color1, #b26a00)",
    "not right yet": "var(--jp-error-color1, #c62828)",
    "not attempted yet": "var(--jp-border-color1, #8a8a8a)",
}
MARK = {
    "right": "✓",
    "partly right": "◐",
    "not right yet": "✗",
    "not attempted yet": "○",
}


def card(report: Report) -> str:
    accent, mark = ACCENT[report.status], MARK[report.status]
    parts = [
        f'<div role="group" aria-label="Check of {_esc(report.exercise)}" style="color:{INK};'
        f"background:{PAPER};border:1px solid {LINE};border-left:6px solid {accent};"
        "border-radius:4px;padding:0.6em 1em;margin:0.3em 0;max-width:52em;line-height:1.5;"
        'font-size:14px">',
        '<div style="display:flex;flex-wrap:wrap;gap:0 1em;justify-content:space-between">'
        f'<span><span aria-hidden="true">{mark}</span> '
        f'<code style="font-family:{MONO};color:{INK};background:none">{_esc(report.exercise)}'
        f"</code>: <strong>{report.status}</strong></span>"
        f"<span>{report.points:g} of {points_word(report.max_points)}</span></div>",
    ]
    if report.attempted and report.message:
        parts.append(f'<p style="margin:0.4em 0">{_rich(report.message)}</p>')
    if report.detail:
        parts.append(_pre(report.detail))
    for number, (what, why, mend) in enumerate(report.advice):
        if number:
            parts.append('<p style="margin:0.4em 0">And at the same time:</p>')
        parts.append(
            f'<div style="border:1px solid {LINE};border-radius:4px;padding:0.4em 0.8em;'
            'margin:0.5em 0">'
            f"<div><strong>What happened:</strong> {_rich(what)}</div>"
            f"<div><strong>Why it matters:</strong> {_rich(why)}</div>"
            f"<div><strong>Where to look:</strong> {_rich(mend)}</div></div>"
        )
    parts.append(_rows([r for r in report.behaviours if not r.holds]))
    holding = [r for r in report.behaviours if r.holds]
    if holding:
        count = "1 thing holds" if len(holding) == 1 else f"{len(holding)} things hold"
        parts.append(
            f'<details style="margin:0.5em 0 0"><summary>{count}</summary>'
            f"{_rows(holding)}</details>"
        )
    for note in report.notes:
        first, *rest = note.splitlines()
        parts.append(f'<p style="margin:0.4em 0 0">Note: {_rich(first)}</p>')
        if rest:
            parts.append(_pre("\n".join(rest)))
    if report.hints_left and not report.passed:
        count = "1 hint" if report.hints_left == 1 else f"{report.hints_left} hints"
        code = _rich(f'`hint("{report.exercise}")`')
        parts.append(f'<p style="margin:0.5em 0 0">Stuck? {code} ({count})</p>')
    return "".join([*parts, "</div>"])


def _rows(rows: list[BehaviourResult]) -> str:
    if not rows:
        return ""
    items = "".join(map(_row, rows))
    return f'<ul style="list-style:none;padding:0;margin:0.5em 0 0">{items}</ul>'


def _row(row: BehaviourResult) -> str:
    marks = {True: ("✓", "holds"), False: ("✗", "does not hold"), None: ("–", "not tried")}
    mark, said = marks[row.holds]
    weight = "font-weight:600" if row.holds is False else ""
    return (
        f'<li style="margin:0;padding-left:1.6em;text-indent:-1.6em;{weight}">'
        f'<span role="img" aria-label="{said}" style="display:inline-block;width:1.6em;'
        f'text-indent:0">{mark}</span>{_rich(row.text)}</li>'
    )


def _pre(text: str) -> str:
    return (
        f'<pre style="margin:0.3em 0;padding:0.4em 0.8em;border:1px solid {LINE};border-radius:4px;'
        f"background:none;color:{INK};font-family:{MONO};font-size:13px;line-height:1.4;"
        f'white-space:pre-wrap;overflow-wrap:anywhere">{_esc(text)}</pre>'
    )


def _esc(text: str) -> str:
    return html.escape(text, quote=True)


def _rich(text: str) -> str:
    """Escaped text in which `code` is set as code."""
    code = f'<code style="font-family:{MONO};color:{INK};background:none">\\1</code>'
    return re.sub(r"`([^`]+)`", code, _esc(text))


@dataclass(frozen=True)
class Message:
    """A few lines for the reader, as text and as HTML in the same frame as a card."""

    title: str
    text: str

    def __repr__(self) -> str:
        return f"{self.title}\n{plain_text(self.text)}".strip()

    def _repr_html_(self) -> str:
        body = "".join(f'<p style="margin:0.3em 0">{_rich(p)}</p>' for p in self.text.split("\n"))
        return (
            f'<div style="color:{INK};background:{PAPER};border:1px solid {LINE};border-left:6px '
            f"solid {LINE};border-radius:4px;padding:0.6em 1em;margin:0.3em 0;max-width:52em;"
            f'line-height:1.5;font-size:14px"><strong>{_rich(self.title)}</strong>{body}</div>'
        )
