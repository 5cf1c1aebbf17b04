"""Restores in submissions what grading depends on, whatever students did to the cells.

It runs in the process that reads submissions (helper.py), so it doesn't import nbgrader."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cells import Cell, checked_exercise, defined_names, without_hidden_tests
from .mending import in_text, joined_cells, without_stub
from .readable import math_at_rest

IMPORTS_CHECK = re.compile(r"^from course_utils import .*\bcheck\b", re.M)
TAG = re.compile(r"<(?=[a-zA-Z/!?])")  # the beginning of a tag for a browser
CHARACTER = re.compile(r"&(?=#|\w+;)")  # another way to write a link
# The end of a link's text, except before a page, an anchor in this page, or a local file.
LINK = re.compile(r"\](?=[(:](?!\s{0,3}(?:https?://|#|[\w./-]*\s{0,3}\))))")
MOST_TEXT, MOST_FORMULAS = 20_000, 100
PICTURE = re.compile(r"!(?=\[)")
PUT_BACK = "# This cell was missing from the submission and was restored.\n"
IMPORTED = "# The lesson's own imports, which were changed or missing.\n"


@dataclass(frozen=True)
class Released:
    """A cell as it was released, with nbgrader's original metadata."""

    source: str
    cell_type: str
    locked: bool
    graded: bool
    metadata: dict[str, Any]


@dataclass(eq=False)
class Kept:
    """A cell of a restored notebook."""

    kind: str
    source: str
    name: str = ""  # the name of a released cell
    metadata: dict[str, Any] | None = None  # nbgrader's

    @property
    def checks(self) -> str:
        """The exercise for which the cell gives points."""
        graded = self.kind == "code" and bool((self.metadata or {}).get("grade"))
        return (checked_exercise(self.source.removeprefix(PUT_BACK)) or "") if graded else ""

    @property
    def locked(self) -> bool:
        of = self.metadata or {}
        return not of.get("solution") and bool(of.get("grade") or of.get("locked"))


def plain(source: str) -> str:
    """Returns a cell's text without the spaces and newlines that an editor may change."""
    return "\n".join(line.rstrip() for line in source.strip().split("\n"))


def restore(
    cells: Sequence[Mapping[str, str]], released: Mapping[str, Released], lesson_code: Sequence[str]
) -> tuple[list[Kept], list[str]]:
    """Returns a submission's cells with everything that grading depends on, whatever a student did
    to them, and without anything that could run in a browser; and what was noticed.

    Args:
        lesson_code: the texts of the lesson's code cells as they are handed out.
    """
    ours = {plain(text) for text in lesson_code}
    cells, noticed = joined_cells([dict(cell) for cell in cells])
    chosen = _chosen(cells, released)
    made: list[Kept] = []
    for number, cell in enumerate(cells):
        name = cell["name"] if chosen.get(cell["name"]) == number else ""
        if not name:
            made.append(Kept(cell["kind"], _tame(cell["kind"], cell["source"])))
            continue
        known = released[name]
        kind, source, shown = known.cell_type, cell["source"], known.source
        if known.locked:
            if kind == "code":
                shown = without_hidden_tests(shown)
            if plain(source) not in {plain(shown), plain(known.source), *ours, ""}:
                made.append(Kept(cell["kind"], _tame(cell["kind"], source)))
                noticed.append(f"the locked cell {name} was edited: its text is kept above it")
            source = known.source
        elif source != known.source:
            parts = in_text(source) if kind == "code" != cell["kind"] else []
            if len(parts) == 1 and parts[0] != source:
                source = parts[0]
                noticed.append(f"the answer to {name} was in a text cell, between fences")
            source = _tame(kind, without_stub(source, name) if kind == "code" else source)
            if source != cell["source"] and kind == cell["kind"] == "code":
                noticed.append(f"the stub below the answer to {name} was left out")
        made.append(Kept(kind, source, name, known.metadata))
    missing = sorted(n for n, cell in released.items() if cell.graded and n not in chosen)
    for name in missing:
        known = released[name]
        put_back = PUT_BACK if known.cell_type == "code" else ""
        new = Kept(known.cell_type, put_back + known.source, name, known.metadata)
        made.insert(_place(made, new.checks), new)
    noticed += [f"the cell {name} was missing and is restored" for name in missing]
    noticed += _answers_in_text(made, cells, released, lesson_code)
    noticed += _imports_first(made, lesson_code)
    noticed += _checks_after_answers(made, released, ours)
    return made, noticed


def _chosen(cells: Sequence[Mapping[str, str]], released: Mapping[str, Released]) -> dict[str, int]:
    """Decides which of the cells with a released cell's name counts: the last one that was
    changed, or else the last one."""
    chosen: dict[str, int] = {}
    for number, cell in enumerate(cells):
        known = released.get(cell["name"])
        if known is None:
            continue
        untouched = not known.locked and plain(cell["source"]) == plain(known.source)
        if not (untouched and cell["name"] in chosen):
            chosen[cell["name"]] = number
    return chosen


def _imports_first(made: list[Kept], lesson_code: Sequence[str]) -> list[str]:
    """Puts the lesson's own imports first, unless they still come before the first answer."""
    imports = next((text for text in lesson_code if IMPORTS_CHECK.search(text)), "")
    code = [n for n, cell in enumerate(made) if cell.kind == "code"]
    exercises = {cell.checks for cell in made if cell.checks}
    own = [n for n in code if made[n].name or exercises & {*defined_names(made[n].source)}]
    needed = own[0] if own else len(made)
    above = {plain(made[n].source) for n in code if n <= needed}
    if not imports or plain(imports) in above:
        return []
    first = code[0] if code else len(made)
    made.insert(first, Kept("code", IMPORTED + imports))
    return ["the lesson's imports were changed or missing, and run first"]


def _answers_in_text(
    made: list[Kept],
    cells: Sequence[Mapping[str, str]],
    released: Mapping[str, Released],
    lesson_code: Sequence[str],
) -> list[str]:
    """Puts an answer that is only in a text cell before its check."""
    ours, noticed = {plain(text) for text in lesson_code} | {""}, []
    there = answered(made, released, lesson_code)
    texts = [(n, c) for n, c in enumerate(cells, 1) if c["kind"] != "code" and not c["name"]]
    programs = [(n, p) for n, cell in texts for p in in_text(cell["source"])]
    for check in [cell for cell in made if cell.checks and cell.checks not in there]:
        exercise = check.checks
        found = {plain(p): n for n, p in programs if _writes(exercise, plain(p), ours)}
        if len(found) == 1:
            ((program, number),) = found.items()
            made.insert(made.index(check), Kept("code", program))
            noticed.append(f"the answer to {exercise} was found in text cell {number}")
        elif found:
            where = ", ".join(map(str, found.values()))
            noticed.append(
                f"different answers to {exercise} are in text cells {where}: none counts"
            )
    return noticed


def _checks_after_answers(
    made: list[Kept], released: Mapping[str, Released], ours: set[str]
) -> list[str]:
    """Moves a check to after the answer if, where it is, it would find only the stub or nothing."""
    noticed = []
    for check in [cell for cell in made if cell.checks]:
        exercise, at = check.checks, made.index(check)
        defining = [
            (number, plain(cell.source))
            for number, cell in enumerate(made)
            if cell.kind == "code" and not cell.checks and exercise in defined_names(cell.source)
        ]
        stub = plain(released[exercise].source) if exercise in released else ""
        own = [(n, text) for n, text in defining if text != stub and _writes(exercise, text, ours)]
        before = [text for n, text in defining if n < at]
        if not own or (before and before[-1] != stub):
            continue
        place, _ = own[-1]
        answer = made[place]
        made.pop(at)
        made.insert(made.index(answer) + 1, check)
        where = [c for c in made if c.kind == "code"].index(answer) + 1
        others = f", the last of {len(own)}" if len({text for _, text in own}) > 1 else ""
        noticed.append(f"the answer to {exercise} was found in code cell {where}{others}")
    return noticed


def answered(
    made: Sequence[Kept], released: Mapping[str, Released], lesson_code: Sequence[str]
) -> dict[str, str]:
    """The answers of a restored notebook to the exercises of a lesson, right or wrong."""
    ours = {plain(text) for text in lesson_code} | {""}
    checks = {cell.checks for cell in made if cell.checks}
    found: dict[str, str] = {}
    for cell in made:
        text, known = plain(cell.source), released.get(cell.name)
        if cell.kind != "code" or cell.locked or cell.checks or text in ours:
            continue
        if known is not None and text != plain(known.source):
            found |= dict.fromkeys({cell.name} & checks, text)
        elif known is None:
            found |= {exercise: text for exercise in checks if _writes(exercise, text, ours)}
    return dict(sorted(found.items()))


def _writes(exercise: str, text: str, ours: set[str]) -> bool:
    """Returns whether a cell's text is a student's own definition of an answer."""
    if text in ours:
        return False
    own = (
        rf"^(?:(?:async +)?def|class) +{exercise}\b|^{exercise} *= *(?:\{{|lambda\b|torch\.compile)"
    )
    return re.search(own, text, re.M) is not None


def _tame(kind: str, source: str) -> str:
    """Returns a student's cell without anything that a browser would run or that breaks a page."""
    return source if kind == "code" else at_rest(source)


def at_rest(text: str) -> str:
    """Untrusted Markdown, made harmless: nothing in it runs and nothing is fetched."""
    if len(text) > MOST_TEXT or text.count("\\begin") > MOST_FORMULAS:
        text = f"(A text of {len(text):,} characters is left out.)"  # its page would take hours
    text = TAG.sub("&lt;", CHARACTER.sub("&amp;", text))
    return math_at_rest(PICTURE.sub("! ", LINK.sub("&#93;", text)))


def _place(made: Sequence[Kept], exercise: str) -> int:
    """The position after the last cell that defines the checked name."""
    if not exercise:
        return len(made)
    # Otherwise after the imports, before a demonstration can import the finished part by this name.
    code = [i for i, cell in enumerate(made) if cell.kind == "code"]
    places = [i for i in code if exercise in defined_names(made[i].source)]
    imports = [i for i in code if IMPORTS_CHECK.search(made[i].source)]
    return (places[-1:] or imports[:1] or code[:1] or [-1])[0] + 1


def code_cells(made: Sequence[Kept], lesson_code: Sequence[str]) -> list[Cell]:
    """Returns the code cells of a restored notebook for a run; `lesson_code` is as in `restore`."""
    ours, cells = {plain(text) for text in lesson_code}, []
    for cell in (cell for cell in made if cell.kind == "code"):
        unchanged = plain(cell.source.removeprefix(IMPORTED)) in ours
        graded = bool((cell.metadata or {}).get("grade"))
        cells.append(Cell(cell.source, cell.checks, demonstration=unchanged and not graded))
    return cells
