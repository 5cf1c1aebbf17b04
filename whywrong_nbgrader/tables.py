"""The results of a class: points per student, failures, misconceptions."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory

from whywrong.rows import plain_text

from .classroom import Classroom
from .readable import in_a_line

STATES = ("right", "partly right", "not right", "not attempted")


@dataclass
class Line:
    """One student."""

    student: str
    points: float
    score: float
    late: float
    reports: dict[str, dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    needs_a_person: bool = False

    def failures(self) -> str:
        """The wrong exercises, with reasons."""
        said = [_failure(id, r) for id, r in self.reports.items() if not r["passed"]]
        return ", ".join(said) or ("all right" if self.reports else "nothing was graded")


@dataclass
class Item:
    """One exercise over the whole class."""

    exercise: str
    points: float
    states: Counter[str]
    misconceptions: list[tuple[str, int, str]]  # the id, the count, the sentence for the class
    not_named: int = 0  # wrong answers that no misconception explains


@dataclass
class Table:
    assignment: str
    full: float
    lines: list[Line]
    items: list[Item]
    tiers: list[str]
    groups: Sequence[str] = ()

    @classmethod
    def of(
        cls, classroom: Classroom, flags: Mapping[str, Sequence[str]], groups: Sequence[str] = ()
    ) -> Table:
        """The table of a graded class.

        Args:
            flags: by student, the points that a person should look at.
            groups: one sentence for each group of students whose answers are the same text.
        """
        lines = []
        full, scores = _scores(classroom)
        for student in classroom.students:
            works = [w for w in classroom.works if w.student == student]
            reports = {id: r for w in works if w.graded for id, r in w.graded.reports.items()}
            score, late = scores.get(student, (0.0, 0.0))
            line = Line(student, sum(r["points"] for r in reports.values()), score, late, reports)
            line.notes = [f"{w.notebook}: {said}" for w in works for said in w.trouble]
            line.notes += flags.get(student, ())
            missing = all(said == "it was not submitted" for w in works for said in w.trouble)
            line.needs_a_person = bool(flags.get(student)) or not missing
            lines.append(line)
        tiers = sorted({w.graded.tier for w in classroom.works if w.graded})
        return cls(classroom.assignment, full, lines, _items(lines), tiers, groups)

    @property
    def needs_a_person(self) -> bool:
        return any(line.needs_a_person for line in self.lines)

    def text(self) -> str:
        """For a terminal."""
        wide = max((len(line.student) for line in self.lines), default=0)
        said = [f"{self.assignment}: {len(self.lines)} students, {self.full:g} points", ""]
        for line in self.lines:
            late = f" - {line.late:g} late" if line.late else ""
            name = in_a_line(line.student)
            said.append(f"{name:{wide}}  {line.score:6.2f}{late}  {line.failures()}")
            said += [f"{'':{wide}}  ! {note}" for note in line.notes]
        said += ["", "The same answers", *self.groups] if self.groups else []
        said += ["", "Exercises"]
        for item in self.items:
            states = ", ".join(f"{item.states[s]} {s}" for s in STATES if item.states[s])
            said.append(f"  {item.exercise} ({item.points:g}): {states}")
            for id, count, what in item.misconceptions:
                said.append(f"    {count} x {id}: {plain_text(what)}")
        said += ["", f"Grading tier: {', '.join(self.tiers) or 'none'}."]
        return "\n".join(said)

    def counts(self) -> dict[str, dict[str, Any]]:
        """How often each misconception occurred, by exercise: counts without names."""
        return {
            item.exercise: {
                **{state: item.states[state] for state in STATES},
                "not named": item.not_named,
                "misconceptions": {id: count for id, count, _ in item.misconceptions},
            }
            for item in self.items
        }

    def csv(self) -> str:
        """For a gradebook: one row per student."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [item.exercise for item in self.items]
        head = ["assignment", "student", "score", "max_score", "late_penalty", *names]
        writer.writerow([*head, "misconceptions", "tier", "notes"])
        for line in self.lines:
            points = [line.reports[n]["points"] if n in line.reports else "" for n in names]
            named = [f"{n}: {m}" for n, r in line.reports.items() for m in r["misconceptions"]]
            row = [self.assignment, line.student, line.score, self.full, line.late, *points]
            row += ["; ".join(named), " ".join(self.tiers), "; ".join(line.notes)]
            writer.writerow([_unarmed(cell) for cell in row])
        return out.getvalue()

    def html(self) -> str:
        """A printable page: common mistakes, each student's points, and their distribution."""
        pages = jinja2.Environment(loader=jinja2.PackageLoader(__package__, "."), autoescape=True)
        pages.filters["plain"] = plain_text
        return pages.get_template("table.html").render(
            table=self, states=STATES, state=_state, spread=self.spread()
        )

    def spread(self) -> list[tuple[str, int]]:
        """The number of students in each tenth of the full score."""
        tenths = Counter(min(int(10 * line.score / (self.full or 1)), 9) for line in self.lines)
        return [(f"{10 * n}–{10 * n + 10} %", tenths[n]) for n in range(10)]


def _scores(classroom: Classroom) -> tuple[float, dict[str, tuple[float, float]]]:
    """The maximum score, and each student's score and late penalty from the gradebook."""
    with Gradebook(CourseDirectory(config=classroom.config).db_url) as gradebook:
        full = gradebook.find_assignment(classroom.assignment).max_score
        scores = {}
        for student in classroom.students:
            try:
                entry = gradebook.find_submission(classroom.assignment, student)
            except MissingEntry:
                continue
            late = sum(n.late_submission_penalty or 0.0 for n in entry.notebooks)
            scores[student] = max(entry.score - late, 0.0), late
        return full, scores


def _items(lines: Sequence[Line]) -> list[Item]:
    items: dict[str, Item] = {}
    sentences: dict[str, str] = {}
    named: dict[str, Counter[str]] = {}
    for line in lines:
        for id, report in line.reports.items():
            item = items.setdefault(id, Item(id, report["max_points"], Counter(), []))
            item.states[_state(report)] += 1
            named.setdefault(id, Counter()).update(report["misconceptions"])
            wrong = report["attempted"] and not report["passed"]
            item.not_named += bool(wrong and not report["misconceptions"])
            for name, advice in zip(report["misconceptions"], report["advice"], strict=False):
                sentences[name] = advice[0]
    for id, item in items.items():
        common = named[id].most_common()
        item.misconceptions = [(name, count, sentences.get(name, "")) for name, count in common]
    return list(items.values())


def _state(report: Mapping[str, Any]) -> str:
    if not report["attempted"]:
        return "not attempted"
    if report["passed"]:
        return "right"
    return "partly right" if report["points"] else "not right"


def _failure(exercise: str, report: Mapping[str, Any]) -> str:
    if not report["attempted"]:
        return f"{exercise}: not attempted"
    why = " + ".join(report["misconceptions"]) or _in_short(report["message"])
    return f"{exercise}: {report['points']:g}" + (f" ({why})" if why else "")


def _in_short(message: str) -> str:
    """The first sentence of a card's message, shortened."""
    said = in_a_line(plain_text(message).partition(". ")[0])
    return said if len(said) <= 60 else f"{said[:59]}…"


def _unarmed(cell: Any) -> Any:
    """Marks as text what a spreadsheet would treat as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell
