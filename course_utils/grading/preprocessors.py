"""Steps that nbgrader_config.py puts in the place of nbgrader's own."""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade

from ..editions import (
    WIDGET_VIEW,
    as_found,
    checked_exercise,
    defined_names,
    nbgrader_metadata,
    without_hidden_tests,
)

IMPORTS_CHECK = re.compile(r"^from course_utils import .*\bcheck\b", re.M)
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


class MendCells(NbGraderPreprocessor):
    """Give a submission back the cells and the metadata that grading rests on.

    In the place of nbgrader's `DeduplicateIds` and `OverwriteCells`: whatever a student did to a
    cell (copied, deleted, retyped, edited its metadata), it stops the grading of nobody.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        ids = resources["nbgrader"]
        with Gradebook(ids["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(ids["notebook"], ids["assignment"])
            sources = {cell.name: cell for cell in notebook.source_cells}
            points = {c.name: c.max_score for c in (*notebook.grade_cells, *notebook.task_cells)}
            graded = {cell.name for cell in notebook.grade_cells}
            solutions = {cell.name for cell in notebook.solution_cells}
            tasks = {cell.name for cell in notebook.task_cells}

            def metadata(name: str) -> NotebookNode:
                return NotebookNode(
                    nbgrader_metadata(
                        name,
                        grade=name in graded,
                        solution=name in solutions,
                        task=name in tasks,
                        locked=sources[name].locked,
                        points=points.get(name),
                    ),
                    checksum=sources[name].checksum,
                    cell_type=sources[name].cell_type,
                )

            found = set()
            for cell in reversed(nb.cells):  # of two copies the later one counts
                claimed = cell.metadata.pop("nbgrader", None)
                name = claimed.get("grade_id") if isinstance(claimed, dict) else None
                if not isinstance(name, str) or name not in sources or name in found:
                    continue
                found.add(name)
                _retype(cell, sources[name].cell_type)
                cell.metadata["nbgrader"] = metadata(name)
                if sources[name].locked:
                    cell.source = sources[name].source
            for name in sorted((graded | tasks) - found):
                self.log.warning("Cell %s was missing and is put back", name)
                new = new_code_cell if sources[name].cell_type == "code" else new_markdown_cell
                cell = new(sources[name].source)
                cell.metadata["nbgrader"] = metadata(name)
                nb.cells.insert(self._place(nb, checked_exercise(cell)), cell)
                if cell.cell_type == "code":
                    cell.source = PUT_BACK + cell.source
                if (nb.nbformat, nb.nbformat_minor) < (4, 5):
                    del cell["id"]
        return nb, resources

    @staticmethod
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
