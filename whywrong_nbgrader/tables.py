"""The results of a class: points per student, failures, misconceptions."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from nbgrader.api import Gradebook, MissingEntry

from whywrong.hosting import plain_text

from .classroom import Classroom, Work
from .names import is_a_name
from .readable import in_a_line, shortened

STATES = ("right", "partly right", "not right", "not attempted")
# By learning management system: its columns, and what they contain.
COLUMNS = json.loads(Path(__file__).with_name("lms.json").read_text(encoding="utf-8"))


@dataclass
class Line:
    """One student."""

    student: str
    points: float
    score: float
    late: float
    reports: dict[str, dict[str, Any]]
    notes: list[str] = field(default_factory=list)  # that need no decision
    decisions: list[str] = field(default_factory=list)  # that a person has to make
    graded: bool = True  # the points are a result, not missing
    complete: bool = True  # all notebooks were submitted
    handed_in: bool = True
    stranger: bool = False  # the gradebook has no student of this name

    @property
    def remarks(self) -> list[str]:
        return [*self.decisions, *self.notes]

    def look_at(self, assignment: str) -> str:
        """The command that shows more of what has to be decided."""
        said, known = " ".join(self.decisions), shlex.quote(in_a_line(self.student))
        if "course grade" in said or not is_a_name(self.student):
            return ""
        exercise = next((id for id in self.reports if re.search(rf"\b{id}\b", said)), "")
        closer = f"course explain {known} {exercise}" if exercise else ""
        return closer or f"course grade {assignment} --student {known}"

    def failures(self) -> str:
        """The wrong exercises, with reasons."""
        if not self.graded:
            return "not graded" if self.handed_in else "not handed in"
        said = [_failure(id, r) for id, r in self.reports.items() if not r["passed"]]
        right = "all right" if self.complete else "what was submitted is all right"
        return ", ".join(said) or (right if self.reports else "nothing was graded")


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
    people: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        classroom: Classroom,
        flags: Mapping[str, Sequence[str]],
        not_entered: Collection[str] = (),
    ) -> Table:
        """The table of a graded class, with what `flagged` says of it."""
        lines = []
        full, scores, people = _scores(classroom)
        strangers = {*classroom.strangers}
        for student in classroom.students:
            works = classroom.of(student)
            reports = {id: r for w in works if w.graded for id, r in w.graded.reports.items()}
            score, late = (0.0, 0.0) if student in not_entered else scores.get(student, (0.0, 0.0))
            line = Line(student, sum(r["points"] for r in reports.values()), score, late, reports)
            line.complete = not any(w.missing for w in works)
            line.handed_in = student in {*classroom.handed_in}
            # An extension alone makes an entry, too.
            line.graded = line.handed_in and student in scores and student not in not_entered
            line.decisions = [*classroom.decisions(student), *flags.get(student, ())]
            line.notes = classroom.noted.get(student, [])[:]
            line.notes += [said for w in works for said in _notes(w) if line.handed_in]
            line.stranger = student in strangers
            lines.append(line)
        tiers = sorted({w.graded.tier for w in classroom.works if w.graded})
        return cls(classroom.assignment, full, lines, _items(lines), tiers, people)

    @property
    def needs_a_person(self) -> bool:
        return any(line.decisions for line in self.lines)

    def others(self) -> str:
        """Returns a sentence about those for whom nothing has to be decided."""
        others = [line for line in self.lines if not line.decisions]
        graded = [line.score for line in others if line.graded]
        whom = f"the other {len(others)}" if self.needs_a_person else "anybody"
        count = f"{len(graded)} {'is' if len(graded) == 1 else 'are'} graded"
        mean = f", on average {sum(graded) / len(graded):.2f} points" if graded else ""
        said = f"Nothing has to be decided about {whom}: {count}{mean}."
        return f"{said} --csv FILE or --html FILE lists everybody."

    def size(self) -> str:
        """Returns how many students there are; everybody has one line."""
        strangers = sum(line.stranger for line in self.lines)
        absent = sum(not line.handed_in and not line.stranger for line in self.lines)
        number = len(self.lines) - strangers
        said = f"{number} student{'' if number == 1 else 's'}"
        said += f" ({absent} handed in nothing)" if absent else ""
        names = "name that is" if strangers == 1 else "names that are"
        return f"{said} and {strangers} {names} not in the gradebook" if strangers else said

    def text(self) -> str:
        """For a terminal."""
        return self._filled_in("table.txt", escape=False)

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

    def csv(self, lms: str = "") -> str:
        """For a gradebook: one row per student, in the columns of a system of `COLUMNS`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if lms:
            writer.writerows(self._rows_for(COLUMNS[lms], lms == "canvas"))
            return out.getvalue()
        names = [item.exercise for item in self.items]
        head = ["assignment", "student", "score", "max_score", "late_penalty", *names]
        writer.writerow([*head, "misconceptions", "tier", "notes"])
        for line in self.lines:
            points = [line.reports[n]["points"] if n in line.reports else "" for n in names]
            named = [f"{n}: {m}" for n, r in line.reports.items() for m in r["misconceptions"]]
            row = [self.assignment, line.student, line.score, self.full, line.late, *points]
            row += ["; ".join(named), " ".join(self.tiers), "; ".join(line.remarks)]
            writer.writerow([_unarmed(cell) for cell in row])
        return out.getvalue()

    def _rows_for(self, columns: Mapping[str, str], with_maximum: bool) -> Iterator[list[str]]:
        about = {"assignment": self.assignment, "full": f"{self.full:g}"}
        yield [name.format_map(about) for name in columns]
        if with_maximum:  # a new assignment takes its maximum from this row
            yield ["    Points Possible", *[""] * (len(columns) - 2), about["full"]]
        for line in self.lines:
            if self.left_out(line, columns):
                continue
            known = dict.fromkeys(("first_name", "last_name", "email", "lms_user_id"), "")
            known |= {k: str(v) for k, v in self.people.get(line.student, {}).items() if v}
            known |= {**about, "id": line.student, "score": f"{line.score:g}"}
            yield [_unarmed(cell.format_map(known).strip(", ")) for cell in columns.values()]

    def left_out(self, line: Line, columns: Mapping[str, str]) -> str:
        """Says why a student has no row in another system's file, where a 0 would be a grade."""
        if not line.graded:
            return "not graded"
        person = {"id": line.student, **self.people.get(line.student, {})}
        names = [n for n in ("id", "email", "lms_user_id") if f"{{{n}}}" in columns.values()]
        return "" if any(person.get(n) for n in names) else f"no {' or '.join(names)}"

    def html(self) -> str:
        """A printable page: common mistakes, each student's points, and their distribution."""
        return self._filled_in("table.html", escape=True)

    def _filled_in(self, template: str, escape: bool) -> str:
        loader = jinja2.PackageLoader(__package__, ".")
        pages = jinja2.Environment(loader=loader, autoescape=escape, trim_blocks=True)
        pages.filters |= {"plain": plain_text, "in_a_line": in_a_line}
        # The number of students in each tenth of the full score.
        tenths = Counter(min(int(10 * line.score / (self.full or 1)), 9) for line in self.lines)
        spread = [(f"{10 * n}–{10 * n + 10} %", tenths[n]) for n in range(10)]
        how = {"table": self, "states": STATES, "state": _state, "spread": spread}
        return pages.get_template(template).render(how)


def _notes(work: Work) -> list[str]:
    missing = ["it was not submitted"] if work.missing else []
    return [f"{work.notebook}: {line}" for line in shortened([*missing, *work.notes])]


def _scores(classroom: Classroom) -> tuple[float, dict[str, Any], dict[str, dict[str, Any]]]:
    """From the gradebook: the maximum score, each student's score and penalty, and their names."""
    with Gradebook(classroom.directory.db_url) as gradebook:
        full = gradebook.find_assignment(classroom.assignment).max_score
        scores, people = {}, {s.id: s.to_dict() for s in gradebook.students}
        for student in classroom.students:
            try:
                entry = gradebook.find_submission(classroom.assignment, student)
            except MissingEntry:
                continue
            late = sum(n.late_submission_penalty or 0.0 for n in entry.notebooks)
            scores[student] = max(entry.score - late, 0.0), late
        return full, scores, people


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
    if "is not defined" in report["message"]:  # a note says what happened before
        why = "; ".join([why, *(in_a_line(plain_text(n)) for n in report["notes"][:1])])
    return f"{exercise}: {report['points']:g}" + (f" ({why})" if why else "")


def _in_short(message: str) -> str:
    """The first sentence of a card's message, shortened."""
    said = in_a_line(plain_text(message).partition(". ")[0])
    return said if len(said) <= 60 else f"{said[:59]}…"


def _unarmed(cell: Any) -> Any:
    """Marks as text what a spreadsheet would treat as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell
