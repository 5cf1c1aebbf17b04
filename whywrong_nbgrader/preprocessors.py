"""Steps that nbgrader_config.py puts in the place of nbgrader's own."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbconvert.filters import Highlight2HTML
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import List

from .cells import WIDGET_VIEW, as_found, without_hidden_tests
from .mending import cells_of, mend, released
from .sandbox import SANDBOX, TRUSTED, NoSandbox, demand
from .submissions import CarefulExporter, leave_out_what_is_strange, strange_in

if TYPE_CHECKING:
    from .notebooks import Graded

__all__ = ["CarefulExporter", "CarefulHighlight", "ClearAnswers", "MendCells", "RunSubmission"]
__all__ += ["TidyFeedback"]

MOST_COLOURED, LONGEST_LINE = 20_000, 300  # characters

leave_out_what_is_strange()


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


class MendCells(NbGraderPreprocessor):
    """In the place of nbgrader's `DeduplicateIds` and `OverwriteCells`: see `mend`."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        ids = resources["nbgrader"]
        if not trusted():
            _demand()
        for said in strange_in(_course(self) / "submitted" / ids["student"] / ids["assignment"]):
            self.log.warning("%s", said)
        for name in mend(nb, released(ids["db_url"], ids["assignment"], ids["notebook"])):
            self.log.warning("Cell %s was missing and is put back", name)
        if "unreadable" in resources:
            nb.metadata["course"] = {"unreadable": resources["unreadable"]}
        return nb, resources


def fill_in(nb: NotebookNode, graded: Graded, name: str) -> None:
    """Writes what became of a notebook into its cells, and the result's name."""
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for number, (cell, outputs) in enumerate(zip(code, graded.outputs, strict=True), 1):
        cell.execution_count = number
        cell.outputs = [NotebookNode(output) for output in outputs]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    unreadable = nb.metadata.get("course", {}).get("unreadable")
    happened = [f"what was handed in can't be read: {unreadable}"] if unreadable else []
    happened += graded.happened
    nb.metadata["course"] = NotebookNode(tier=graded.tier, happened=happened, result=name)


class RunSubmission(NbGraderPreprocessor):
    """In the place of nbgrader's `Execute`: the notebook runs behind walls and is judged here, or
    what became of it is found where an earlier run has kept it."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        from .results import Results, Settings, graded_by
        from .work import room

        course, ids = _course(self), resources["nbgrader"]
        tier = TRUSTED if trusted() else SANDBOX
        settings = Settings.of(course, tier)
        name, graded = graded_by(lambda: room(tier), Results(course), cells_of(nb), settings)
        fill_in(nb, graded, name)
        for said in nb.metadata["course"].happened:
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], said)
        return nb, resources


def trusted() -> bool:
    """Whether the instructor has said that submissions may run without walls."""
    return os.environ.get("COURSE_TRUST_SUBMISSIONS", "").lower() in ("1", "yes", "true")


def _demand() -> None:
    try:
        demand()
    except NoSandbox as error:
        raise SystemExit(f"\n{error}") from None  # what nbgrader does not take for one student's


def _course(preprocessor: NbGraderPreprocessor) -> Path:
    """The course's folder: that of the converter which has this preprocessor, or this one."""
    owner: Any = preprocessor
    while owner is not None and not hasattr(owner, "coursedir"):
        owner = owner.parent
    return Path(owner.coursedir.root if owner is not None else ".").resolve()


class CarefulHighlight(Highlight2HTML):
    """Colours for the sources on a page, but for those that take hours: to find the words of a
    long line takes as long as its length squared, and so do blanks at the ends of many lines."""

    def __call__(
        self, source: str, language: str | None = None, metadata: dict | None = None
    ) -> str:
        lines = [line.rstrip() for line in source.split("\n")]
        if len(source) > MOST_COLOURED or max(map(len, lines)) > LONGEST_LINE:
            return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
        return str(super().__call__("\n".join(lines), language, metadata))


class TidyFeedback(NbGraderPreprocessor):
    """Take from a feedback page what is not for the student's eyes, and what a page can't show."""

    # nbconvert sets it for all preprocessors, and warns of those that don't take it.
    display_data_priority: Any = List(config=True)

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
