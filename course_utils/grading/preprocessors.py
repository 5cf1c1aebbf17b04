"""Steps that nbgrader_config.py puts in the place of nbgrader's own."""

from __future__ import annotations

import atexit
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked

from ..checking.guard import time_budget
from ..desk import catalogue, catalogue_files
from ..editions import (
    WIDGET_VIEW,
    as_found,
    checked_exercise,
    defined_names,
    nbgrader_metadata,
    without_hidden_tests,
)
from .notebooks import Cell, Graded, Times
from .results import Results, graded_by, own_exercises, secret
from .room import Room
from .sandbox import SANDBOX, TRUSTED, NoSandbox, demand

IMPORTS_CHECK = re.compile(r"^from course_utils import .*\bcheck\b", re.M)
TAG = re.compile(r"<(?=[a-zA-Z/!?])")  # what a browser takes for the beginning of a tag
PUT_BACK = "# This cell was missing from the submission and was put back.\n"


class ClearAnswers(ClearSolutions):
    """`ClearSolutions` that leaves the questions of a quiz: `"key": answer,` → `"key": ...,`.

    A solution region inside a dict keeps its keys; one that says how a program was found becomes
    that; any other becomes `code_stub`.
    """

    question = r" *(?:\"[^\"\n]*\"|'[^'\n]*')"
    entry = re.compile(rf"^({question}):.*\n", re.M)
    quiz = re.compile(
        rf"^ *### BEGIN SOLUTION\n((?:{question}:.*,(?: *#.*)?\n)+) *### END SOLUTION\n", re.M
    )

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        before = cell.source
        cell.source = self.quiz.sub(lambda region: self.entry.sub(r"\1: ...,\n", region[1]), before)
        cell.source = as_found(cell.source)
        replaced: bool = super()._replace_solution_region(cell, language)
        return replaced or cell.source != before


@dataclass(frozen=True)
class Released:
    """A cell as it was released.

    Args:
        metadata: nbgrader's, as it has to be again.
    """

    source: str
    cell_type: str
    locked: bool
    graded: bool
    metadata: dict[str, Any]


def released(db_url: str, assignment: str, notebook: str) -> dict[str, Released]:
    """A notebook's cells in the gradebook, by name."""
    with Gradebook(db_url) as gradebook:
        kept = gradebook.find_notebook(notebook, assignment)
        points = {c.name: c.max_score for c in (*kept.grade_cells, *kept.task_cells)}
        graded = {cell.name for cell in kept.grade_cells}
        solutions = {cell.name for cell in kept.solution_cells}
        tasks = {cell.name for cell in kept.task_cells}
        return {
            cell.name: Released(
                cell.source,
                cell.cell_type,
                cell.locked,
                cell.name in graded | tasks,
                {
                    **nbgrader_metadata(
                        cell.name,
                        grade=cell.name in graded,
                        solution=cell.name in solutions,
                        task=cell.name in tasks,
                        locked=cell.locked,
                        points=points.get(cell.name),
                    ),
                    "checksum": cell.checksum,
                    "cell_type": cell.cell_type,
                },
            )
            for cell in kept.source_cells
        }


def mend(nb: NotebookNode, cells: Mapping[str, Released]) -> list[str]:
    """Gives a submission back, in place, what grading rests on; the names of cells put back.

    Whatever a student did to a cell (copied, deleted, retyped, edited its metadata), it stops the
    grading of nobody, and what was written runs in nobody's browser.
    """
    found = set()
    for cell in reversed(nb.cells):  # of two copies the later one counts
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
        new = new_code_cell if cells[name].cell_type == "code" else new_markdown_cell
        cell = new(cells[name].source)
        cell.metadata["nbgrader"] = NotebookNode(cells[name].metadata)
        nb.cells.insert(_place(nb, checked_exercise(cell)), cell)
        if cell.cell_type == "code":
            cell.source = PUT_BACK + cell.source
        if (nb.nbformat, nb.nbformat_minor) < (4, 5):
            del cell["id"]
    nb.metadata = NotebookNode(
        {k: v for k, v in nb.metadata.items() if k in ("kernelspec", "language_info")}
    )
    return missing


def _tame(cell: NotebookNode, keep_text: bool) -> None:
    """Takes from a cell what a browser would run, or a page be led astray by."""
    cell.metadata = NotebookNode(
        {k: v for k, v in cell.metadata.items() if k in ("deletable", "tags")}
    )
    if cell.cell_type != "code" and not keep_text:
        cell.source = TAG.sub("&lt;", cell.source)
        cell.pop("attachments", None)


def _place(nb: NotebookNode, exercise: str | None) -> int:
    """Behind the last cell that defines what is checked.

    Without such a cell the check comes behind the imports, before a demonstration can bring in
    the finished part under the same name. A graded cell of another kind comes last.
    """
    if exercise is None:
        return len(nb.cells)
    code = [i for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    places = [i for i in code if exercise in defined_names(nb.cells[i].source)]
    imports = [i for i in code if IMPORTS_CHECK.search(nb.cells[i].source)]
    return (places[-1:] or imports[:1] or code[:1] or [-1])[0] + 1


def _retype(cell: NotebookNode, cell_type: str) -> None:
    if cell.cell_type == cell_type:
        return
    cell.cell_type = cell_type
    cell.pop("attachments", None)
    if cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


class MendCells(NbGraderPreprocessor):
    """In the place of nbgrader's `DeduplicateIds` and `OverwriteCells`: see `mend`."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        ids = resources["nbgrader"]
        if not trusted():
            _demand()
        refuse_links(_course(self) / "submitted" / ids["student"] / ids["assignment"])
        for name in mend(nb, released(ids["db_url"], ids["assignment"], ids["notebook"])):
            self.log.warning("Cell %s was missing and is put back", name)
        return nb, resources


def cells_of(nb: NotebookNode) -> list[Cell]:
    """The code cells of a mended notebook."""
    cells = []
    for cell in nb.cells:
        if cell.cell_type == "code":
            bare = new_code_cell(cell.source.removeprefix(PUT_BACK))
            checks = (checked_exercise(bare) or "") if is_grade(cell) else ""
            cells.append(Cell(cell.source, checks, is_locked(cell)))
    return cells


def fill_in(nb: NotebookNode, graded: Graded) -> None:
    """Writes what became of a notebook into its cells."""
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for number, (cell, outputs) in enumerate(zip(code, graded.outputs, strict=True), 1):
        cell.execution_count = number
        cell.outputs = [NotebookNode(output) for output in outputs]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    nb.metadata["course"] = NotebookNode(tier=graded.tier, happened=graded.happened)


class RunSubmission(NbGraderPreprocessor):
    """In the place of nbgrader's `Execute`: the notebook runs behind walls and is judged here, or
    what became of it is found where an earlier run has kept it."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        course, ids = _course(self), resources["nbgrader"]
        tier = TRUSTED if trusted() else SANDBOX
        cells, exercises, own = cells_of(nb), catalogue(), own_exercises(catalogue_files())
        graded = graded_by(
            lambda: room(tier),
            Results(course),
            cells,
            exercises,
            secret(course),
            tier,
            Times(check=time_budget()),
            own,
        )
        for said in graded.happened:
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], said)
        fill_in(nb, graded)
        return nb, resources


def trusted() -> bool:
    """Whether the instructor has said that submissions may run without walls."""
    return os.environ.get("COURSE_TRUST_SUBMISSIONS", "").lower() in ("1", "yes", "true")


def _demand() -> None:
    try:
        demand()
    except NoSandbox as error:
        raise SystemExit(f"\n{error}") from None  # what nbgrader does not take for one student's


@cache
def room(tier: str) -> Room:
    """This process's room, made when first asked for."""
    made = Room(trusted=tier == TRUSTED)
    atexit.register(made.close)
    return made


def _course(preprocessor: NbGraderPreprocessor) -> Path:
    """The course's folder: that of the converter which has this preprocessor, or this one."""
    owner: Any = preprocessor
    while owner is not None and not hasattr(owner, "coursedir"):
        owner = owner.parent
    return Path(owner.coursedir.root if owner is not None else ".").resolve()


def refuse_links(folder: Path) -> None:
    """Nothing, where a submission holds files and folders alone.

    Raises:
        ValueError: something in it is a link, or no file, and may be anybody's.
    """
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            kind = os.lstat(os.path.join(at, name)).st_mode
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                what = "a link to something else" if stat.S_ISLNK(kind) else "no file"
                raise ValueError(f"{os.path.join(at, name)} is {what}, and is not looked at")


class TidyFeedback(NbGraderPreprocessor):
    """Take from a feedback page what is not for the student's eyes, and what a page can't show."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.metadata.pop("widgets", None)  # with it, neither the widget nor its table would show
        return super().preprocess(nb, resources)

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
        if is_grade(cell):
            cell.source = without_hidden_tests(cell.source)
            for output in cell.get("outputs", []):
                if output.output_type == "error":  # a traceback repeats the cell's source
                    output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources
