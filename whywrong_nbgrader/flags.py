"""Flags for a person: answers that may be someone else's text. They cost no points."""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import nbformat
from nbgrader.coursedir import CourseDirectory

from whywrong.course import catalogue, installed
from whywrong.failed_runs import names_written

from .classroom import Classroom, Work
from .oddities import MOST_READ, understood
from .restoring import released

TELLING = 240  # below this many characters, two people may well write the same code
FILES = {"open", "read_text"}  # an assignment whose lessons read files may do so
PARTS = ("attention", "transformer", "language_model", "translation")  # modules of finished parts
COMMON = 0.2  # an answer that a larger share of the class has is nobody's copy


def flagged(classroom: Classroom) -> tuple[dict[str, list[str]], list[str]]:
    """What a person should look at, in words: by student, and for groups that share answers."""
    said: dict[str, list[str]] = defaultdict(list)
    alike: dict[tuple[str, str], set[str]] = defaultdict(set)
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    (published, given), handed_out = _published(classroom), _handed_out(classroom)
    written_to = {id for work in classroom.works for id in answers(work)}
    finished = {id: _finished(id) for id in written_to}
    ours = [*published.values(), *handed_out.values(), *finished.values(), *given]
    theirs = [(w.student, c.source) for w in classroom.works for c in w.cells if not c.locked]
    read, stuck = understood([*(("", text) for text in ours), *theirs])

    def normal(source: str) -> str:
        return read.get(source[:MOST_READ], [""])[0]

    usual = FILES & {w for source in given for w in read.get(source[:MOST_READ], [])[1:]}
    for student in stuck:
        said[student].append("some cells take too much time or memory to parse")
    for work in classroom.works:
        own = [c.source for c in work.cells if not c.locked and c.source not in given]
        if long := sum(len(source) > MOST_READ for source in own):
            said[work.student].append(f"{work.notebook} has cells too long to compare: {long}")
        words = {w for source in own for w in read.get(source[:MOST_READ], [])[1:]} - usual
        reports = work.graded.reports.values() if work.graded else ()
        if words and any(report["points"] for report in reports):
            named = ", ".join(sorted(words)[:8])
            said[work.student].append(f"{work.notebook} is worth a look: it uses {named}")
        borrowed = _borrowed(work, own)
        for exercise in sorted(borrowed):
            said[work.student].append(f"{exercise} is the course's own finished part")
        for exercise, source in answers(work).items():
            if exercise in borrowed:
                continue
            text, stub = normal(source), normal(handed_out.get(exercise, ""))
            if _is_own_work(exercise, text, stub):
                texts[work.student][exercise] = text
    for student, written in texts.items():
        known = {e: {normal(published.get(e, "")), normal(finished[e])} for e in written}
        taken = [e for e, text in written.items() if text in known[e]]
        if sum(len(written[e]) for e in taken) >= TELLING:
            said[student].append(f"the text of the published solution: {', '.join(taken)}")
        for exercise in written.keys() - set(taken):
            alike[exercise, written[exercise]].add(student)
    groups = _groups(alike, max(10, COMMON * len(texts)), said)
    return dict(said), groups


def _is_own_work(exercise: str, text: str, handed_out: str) -> bool:
    """Whether equal text is evidence: not for quizzes, handed-out programs or single lines."""
    known = catalogue().find(exercise)
    given = known is not None and (known.kind == "quiz" or known.rules.as_found is not None)
    return not given and text != handed_out and text.count("\n") > 1


def _groups(
    alike: Mapping[tuple[str, str], set[str]], most: float, said: dict[str, list[str]]
) -> list[str]:
    """One sentence per group that wrote texts `alike`, and a short note for each member; a text
    that more than `most` students wrote is not evidence."""
    shared: dict[tuple[str, str], set[str]] = defaultdict(set)
    length: Counter[tuple[str, str]] = Counter()
    for (exercise, text), students in alike.items():
        for pair in combinations(sorted(students), 2) if len(students) <= most else ():
            shared[pair].add(exercise)
            length[pair] += len(text)
    group: dict[str, set[str]] = {}
    for a, b in (pair for pair, n in length.items() if n >= TELLING):
        one = group.get(a, {a}) | group.get(b, {b})
        group |= dict.fromkeys(one, one)
    told = []
    for members in {id(g): sorted(g) for g in group.values()}.values():
        same = {e for pair in combinations(members, 2) for e in shared[pair]}
        told.append(f"{', '.join(members)}: the same text in {', '.join(sorted(same))}")
        for student in members:
            said[student].append("shares answers with others: see below")
    return told


def answers(work: Work) -> dict[str, str]:
    """The cells that define an answer, by exercise; of several, the last."""
    checked = {c.checks for c in work.cells if c.checks}
    found: dict[str, str] = {}
    for cell in work.cells:
        if not cell.checks:
            found |= dict.fromkeys(names_written(cell.source) & checked, cell.source)
    return found


def _handed_out(classroom: Classroom) -> Mapping[str, str]:
    """The answers' cells as they were released: stubs and broken programs."""
    db_url = CourseDirectory(config=classroom.config).db_url
    found: dict[str, str] = {}
    for notebook in classroom.notebooks:
        for cell in released(db_url, classroom.assignment, notebook).values():
            if cell.cell_type == "code" and not cell.locked:
                found |= dict.fromkeys(names_written(cell.source), cell.source)
    return found


def _finished(exercise: str) -> str:
    known = catalogue().find(exercise)
    part: Any = known and known.finished
    try:
        return inspect.getsource(part) if callable(part) else ""
    except (OSError, TypeError):
        return ""


def _published(classroom: Classroom) -> tuple[dict[str, str], set[str]]:
    """The answers in the course's own solutions, which are public."""
    folder = CourseDirectory(config=classroom.config).source_directory
    found: dict[str, str] = {}
    given = set()  # all code cells, of which some are handed out unchanged
    for path in (classroom.course / folder / classroom.assignment).glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                given.add(cell.source)
                if "### BEGIN SOLUTION" in cell.source:
                    found |= dict.fromkeys(names_written(cell.source), cell.source)
    return found, given


def _borrowed(work: Work, own: list[str]) -> set[str]:
    """The exercises whose answer uses its own finished part, or is the part when it is checked.
    Answers to other exercises may use it: lessons say so."""
    checked = {cell.checks for cell in work.cells if cell.checks}
    found, taken, aliases = set[str](), set[str](), defaultdict[str, set[str]](set)
    for cell in work.cells:
        found |= {cell.checks} & taken
        source = cell.source[:MOST_READ] if not cell.checks else ""
        written = names_written(source) & checked
        taken -= written
        if cell.source not in own:
            continue
        for name, alias in _imported(source):
            if alias not in ("", name):
                aliases[name].add(alias)
            else:
                taken |= checked - written if name == "*" else {name} & checked
        for exercise in written:
            statements = [source] if len(written) == 1 else re.split(r"\n(?=[^\s)\]}#])", source)
            text = "\n".join(s for s in statements if exercise in names_written(s))
            used = re.search(rf"\b(?:{'|'.join(PARTS)})\.{exercise}\b", text)
            if used or aliases[exercise] & set(re.findall(r"(?<![\w.])\w+", text)):
                found.add(exercise)
    return found


def _imported(source: str) -> list[tuple[str, str]]:
    """What a cell imports from the course by name, each with its `as`."""
    package = re.escape(getattr(installed(), "package", "course_utils"))
    line = re.compile(rf"^[ \t]*from {package}[\w.]* import (\([^()]{{0,2000}}\)|[^\n#]*)", re.M)
    return re.findall(r"(\w+|\*)(?:\s+as\s+(\w+))?", " ".join(line.findall(source)))
