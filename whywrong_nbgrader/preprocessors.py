"""Preprocessors that replace nbgrader's own in nbgrader_config.py."""

from __future__ import annotations

import html
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbgrader
from latex2mathml.converter import convert
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import List

from .cells import WIDGET_VIEW, as_found, without_hidden_tests
from .readable import clean
from .restoring import cells_of, released, restore
from .sandbox import SANDBOX, TRUSTED, NoSandbox, demand
from .submissions import leave_out_what_is_strange, strange_in

if TYPE_CHECKING:
    from .notebooks import Graded

MOST_COLOURED, LONGEST_LINE, LONGEST_FORMULA = 20_000, 300, 1000  # characters
FORMGRADER = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
TEMPLATES = [str(Path(__file__).with_name("templates")), str(FORMGRADER / "templates")]

leave_out_what_is_strange()


class ClearAnswers(ClearSolutions):
    """`ClearSolutions` that keeps the questions of a quiz, `"key": answer,` → `"key": ...,`, and
    the broken program of a clinic; any other solution becomes `code_stub`."""

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


class RestoreCells(NbGraderPreprocessor):
    """Replaces nbgrader's `DeduplicateIds` and `OverwriteCells`: see `restore`."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        ids = resources["nbgrader"]
        if not trusted():
            try:
                demand()
            except NoSandbox as error:  # else nbgrader would name a single student
                raise SystemExit(f"\n{error}") from None
        for said in strange_in(_course(self) / "submitted" / ids["student"] / ids["assignment"]):
            self.log.warning("%s", said)
        for name in restore(nb, released(ids["db_url"], ids["assignment"], ids["notebook"])):
            self.log.warning("Cell %s was missing and is restored", name)
        if "unreadable" in resources:
            nb.metadata["course"] = {"unreadable": resources["unreadable"]}
        return nb, resources


def fill_in(nb: NotebookNode, graded: Graded, name: str) -> None:
    """Writes a notebook's result into its cells, with the result's name."""
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for number, (cell, outputs) in enumerate(zip(code, graded.outputs, strict=True), 1):
        cell.execution_count = number
        cell.outputs = [NotebookNode(output) for output in outputs]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    unreadable = nb.metadata.get("course", {}).get("unreadable")
    happened = [f"the submission can't be read: {unreadable}"] if unreadable else []
    happened += graded.happened
    nb.metadata["course"] = NotebookNode(tier=graded.tier, happened=happened, result=name)


class RunSubmission(NbGraderPreprocessor):
    """Replaces nbgrader's `Execute`: runs the notebook in a sandbox and judges it here, or uses a
    stored result of an earlier run."""

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
    """Whether the instructor allows submissions to run without a sandbox."""
    return os.environ.get("COURSE_TRUST_SUBMISSIONS", "").lower() in ("1", "yes", "true")


def _course(preprocessor: NbGraderPreprocessor) -> Path:
    """The course's folder: that of this preprocessor's converter, or the current one."""
    owner: Any = preprocessor
    while owner is not None and not hasattr(owner, "coursedir"):
        owner = owner.parent
    return Path(owner.coursedir.root if owner is not None else ".").resolve()


class CarefulHighlight(Highlight2HTML):
    """Highlights the code on a page, except where that takes hours: the time is quadratic in the
    length of a line, and in the number of lines that end in blanks."""

    def __call__(
        self, source: str, language: str | None = None, metadata: dict | None = None
    ) -> str:
        lines = [line.rstrip() for line in source.split("\n")]
        if len(source) > MOST_COLOURED or max(map(len, lines)) > LONGEST_LINE:
            return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
        return str(super().__call__("\n".join(lines), language, metadata))


class WithFormulas(IPythonRenderer):
    """Markdown whose formulas are drawn by the browser itself, without a script."""

    def inline_math(self, body: str) -> str:
        return _mathml(body, "inline")

    def block_math(self, body: str) -> str:
        return _mathml(body, "block")


def markdown(source: str) -> str:
    renderer = WithFormulas(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@lru_cache(maxsize=4096)  # a class has the same formulas
def _mathml(source: str, display: str) -> str:
    """A formula; its source if it can't be converted, whose text may be a student's."""
    with suppress(Exception):
        if len(source) <= LONGEST_FORMULA:
            return clean(convert(" ".join(source.split()), display=display), "mathml")
    return f"<code>{html.escape(source)}</code>"


class TidyFeedback(NbGraderPreprocessor):
    """Removes from a feedback page what students must not see and what a page can't show."""

    # nbconvert sets it for all preprocessors, and warns of those that don't have it.
    display_data_priority: Any = List(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.metadata.pop("widgets", None)  # with it, widget and table would be hidden
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
