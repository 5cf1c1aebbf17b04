"""Restores in submissions what grading depends on, whatever students did to the cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.utils import is_grade, is_locked

from .cells import Cell, checked_exercise, defined_names, nbgrader_metadata
from .readable import math_at_rest, writable

IMPORTS_CHECK = re.compile(r"^from course_utils import .*\bcheck\b", re.M)
TAG = re.compile(r"<(?=[a-zA-Z/!?])")  # the beginning of a tag for a browser
CHARACTER = re.compile(r"&(?=#|\w+;)")  # another way to write a link
# The end of a link's text, except before a page, an anchor in this page, or a local file.
LINK = re.compile(r"\](?=[(:](?!\s{0,3}(?:https?://|#|[\w./-]*\s{0,3}\))))")
MOST_TEXT, MOST_FORMULAS = 20_000, 100
PICTURE = re.compile(r"!(?=\[)")
LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}
PUT_BACK = "# This cell was missing from the submission and was restored.\n"


@dataclass(frozen=True)
class Released:
    """A cell as it was released, with nbgrader's original metadata."""

    source: str
    cell_type: str
    locked: bool
    graded: bool
    metadata: dict[str, Any]

    def new(self) -> NotebookNode:
        made = new_code_cell if self.cell_type == "code" else new_markdown_cell
        return made(self.source, metadata={"nbgrader": NotebookNode(self.metadata)})


def released(db_url: str, assignment: str, notebook: str) -> dict[str, Released]:
    """A notebook's cells in the gradebook, by name."""
    with Gradebook(db_url) as gradebook:
        kept = gradebook.find_notebook(notebook, assignment)
        points = {c.name: c.max_score for c in (*kept.grade_cells, *kept.task_cells)}
        of = {"grade": kept.grade_cells, "solution": kept.solution_cells, "task": kept.task_cells}
        named = {kind: {cell.name for cell in found} for kind, found in of.items()}
        cells = {}
        for cell in kept.source_cells:
            name, kinds = cell.name, {kind: cell.name in names for kind, names in named.items()}
            metadata = nbgrader_metadata(name, points.get(name), locked=cell.locked, **kinds)
            metadata |= {"checksum": cell.checksum, "cell_type": cell.cell_type}
            graded = kinds["grade"] or kinds["task"]
            cells[name] = Released(cell.source, cell.cell_type, cell.locked, graded, metadata)
        return cells


def restore(nb: NotebookNode, cells: Mapping[str, Released]) -> list[str]:
    """Restores in a submission, in place, what grading depends on, whatever a student did to its
    cells, and lets nothing of theirs run in a browser; returns the names of the restored cells."""
    found = set()
    for cell in reversed(nb.cells):  # of two copies, the later one counts
        claimed = cell.metadata.get("nbgrader")
        name = str(claimed.get("grade_id")) if isinstance(claimed, dict) else ""
        known = name in cells and name not in found
        ours = known and (cells[name].locked or cells[name].source == cell.source)
        _tame(cell, keep_text=ours)
        if not known:
            continue
        found.add(name)
        _retype(cell, cells[name].cell_type)
        cell.metadata["nbgrader"] = NotebookNode(cells[name].metadata)
        if cells[name].locked:
            cell.source = cells[name].source
    missing = sorted(name for name in cells if cells[name].graded and name not in found)
    for name in missing:
        cell = cells[name].new()
        nb.cells.insert(_place(nb, checked_exercise(cell)), cell)
        if cell.cell_type == "code":
            cell.source = PUT_BACK + cell.source
        if (nb.nbformat, nb.nbformat_minor) < (4, 5):
            del cell["id"]
    nb.metadata = NotebookNode({k: v for k, v in nb.metadata.items() if k == "kernelspec"})
    nb.metadata["language_info"] = NotebookNode(LANGUAGE)  # the lexer's name is on each page
    return missing


def _tame(cell: NotebookNode, keep_text: bool) -> None:
    """Removes from a cell everything that a browser would run or that misleads a page."""
    kept = {k: v for k, v in cell.metadata.items() if k in ("deletable", "tags")}
    cell.metadata = NotebookNode(kept)
    cell.source = writable(cell.source)
    if cell.cell_type != "code" and not keep_text:
        cell.source = at_rest(cell.source)
        cell.pop("attachments", None)


def at_rest(text: str) -> str:
    """Untrusted Markdown, made harmless: nothing in it runs and nothing is fetched."""
    if len(text) > MOST_TEXT or text.count("\\begin") > MOST_FORMULAS:
        text = f"(A text of {len(text):,} characters is left out.)"  # its page would take hours
    text = TAG.sub("&lt;", CHARACTER.sub("&amp;", text))
    return math_at_rest(PICTURE.sub("! ", LINK.sub("&#93;", text)))


def _place(nb: NotebookNode, exercise: str | None) -> int:
    """The position after the last cell that defines the checked name."""
    if exercise is None:
        return len(nb.cells)
    # Otherwise after the imports, before a demonstration can import the finished part by this name.
    code = [i for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    places = [i for i in code if exercise in defined_names(nb.cells[i].source)]
    imports = [i for i in code if IMPORTS_CHECK.search(nb.cells[i].source)]
    return (places[-1:] or imports[:1] or code[:1] or [-1])[0] + 1


def _retype(cell: NotebookNode, cell_type: str) -> None:
    if cell.cell_type != cell_type:
        cell.cell_type = cell_type
        for name in ("attachments", "outputs", "execution_count"):
            cell.pop(name, None)
        if cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def cells_of(nb: NotebookNode) -> list[Cell]:
    """The code cells of a restored notebook."""
    cells = []
    for cell in nb.cells:
        if cell.cell_type == "code":
            bare = NotebookNode(cell_type="code", source=cell.source.removeprefix(PUT_BACK))
            checks = (checked_exercise(bare) or "") if is_grade(cell) else ""
            cells.append(Cell(cell.source, checks, is_locked(cell)))
    return cells
