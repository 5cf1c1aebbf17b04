"""Preprocessors that replace nbgrader's own in nbgrader_config.py."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbconvert.exporters.html
import nbgrader
from nbconvert.exporters import NotebookExporter
from nbconvert.filters import Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import List

from .careful import be_careful
from .cells import WIDGET_VIEW, Cell, as_found, without_hidden_tests
from .choosing import submission
from .folders import strange_in
from .helper import SECONDS, TooMuch, helper
from .pages import plainly
from .readable import shortened
from .restoring import Kept, code_cells
from .sandbox import SANDBOX, TRUSTED, NoSandbox, demand
from .submissions import Submission, handed_out, lesson, released, unsolved

if TYPE_CHECKING:
    from whywrong import Catalogue

    from .notebooks import Graded

FORMGRADER = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
TEMPLATES = [str(Path(__file__).with_name("templates")), str(FORMGRADER / "templates")]
MOST_LEFT = 20_000  # characters that are shown of a text that takes too long
PAGE_SECONDS = 12.0  # processor time for the texts of a feedback page
NOT_DESCRIBED = "No description has been provided for this image"
LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}

be_careful()


class Unparsed(str):
    """A page that nbconvert doesn't parse once more to describe pictures, because with students'
    content that could take any time and memory."""

    def __new__(cls, page: str, features: str = "") -> Unparsed:
        return super().__new__(cls, page)

    def select(self, selector: str) -> list[Any]:
        return []


vars(nbconvert.exporters.html)["BeautifulSoup"] = Unparsed


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


class CarefulExporter(NotebookExporter):
    """Reads and writes notebooks for nbgrader; untrusted files are read in a separate process and
    restored."""

    def from_filename(self, filename: str, resources: Any = None, **how: Any) -> tuple[Any, Any]:
        course = _coursedir(self)
        ids, path = resources["nbgrader"], Path(filename)
        submitted = course.format_path(
            course.submitted_directory, ids["student"], ids["assignment"]
        )
        resources["metadata"] = {"name": resources["unique_key"], "path": str(path.parent)}
        if path.parent.resolve() != Path(submitted).resolve():  # we wrote it ourselves
            output, resources = super().from_filename(filename, resources=resources, **how)
            return output, resources
        cells = released(ids["db_url"], ids["assignment"], ids["notebook"])
        place = lesson(course, ids["assignment"], path.name)
        known = cells, handed_out(place), [one.stem for one in place.parent.glob("*.ipynb")]
        found = submission(path.parent, path.stem, *known) or Submission(unsolved(cells))
        for said in shortened([*found.trouble, *found.notes]):
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], said)
        for said in strange_in(path.parent):
            self.log.warning("%s: %s", ids["student"], said)
        output, resources = self.from_notebook_node(as_notebook(found), resources=resources)
        return output, resources


def as_notebook(handed_in: Submission) -> NotebookNode:
    """Returns a restored submission as a notebook that tells its author what was noticed."""
    made = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
    cells = []
    if said := shortened([*handed_in.trouble, *handed_in.notes]):
        told = "".join(f"\n- {_as_text(line)}" for line in said)
        cells.append(new_markdown_cell(f"**About this submission**\n{told}"))
    for kept in handed_in.cells:
        cells.append(made[kept.kind](kept.source))
        if kept.metadata:
            cells[-1].metadata["nbgrader"] = NotebookNode(kept.metadata)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about: dict[str, Any] = {"kernelspec": KERNEL, "language_info": LANGUAGE}
    about["course"] = {
        "happened": [*handed_in.trouble, *handed_in.notes],
        "language": handed_in.language,
    }
    return new_notebook(cells=cells, metadata=about, nbformat_minor=5)


def _as_text(said: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>$#|!&])", r"\\\1", said)


def cells_of(nb: NotebookNode, lesson_code: Sequence[str] = ()) -> list[Cell]:
    """The code cells of a restored notebook; `lesson_code` is as in `restore`."""
    made = [Kept(c.cell_type, c.source, metadata=c.metadata.get("nbgrader")) for c in nb.cells]
    return code_cells(made, lesson_code)


class RestoreCells(NbGraderPreprocessor):
    """Replaces nbgrader's `DeduplicateIds` and `OverwriteCells`, whose work `CarefulExporter` has
    already done; stops if submissions can't run here."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        if not trusted():
            try:
                demand()
            except NoSandbox as error:  # else nbgrader would name a single student
                raise SystemExit(f"\n{error}") from None
        return nb, resources


def fill_in(nb: NotebookNode, graded: Graded, name: str, catalogue: Catalogue) -> None:
    """Writes a notebook's result, and the result's name, into its cells.

    Results are stored in English; the cards are shown in the language of the student's edition.
    """
    from whywrong import Report
    from whywrong.hosting import language, localised, speaking

    about = nb.metadata.get("course", {})
    own = {cell.checks: number for number, cell in enumerate(cells_of(nb)) if cell.checks}
    if spoken := about.get("language") or language():
        from .notebooks import LEFT_OUT, card
        from .outputs import told

        with speaking(spoken):
            not_run = told(localised(LEFT_OUT))
        for number in graded.left_out:
            graded.outputs[number] = [not_run]
        for id, report in graded.reports.items():
            if id in own and (exercise := catalogue.find(id)):
                graded.outputs[own[id]] = [card(Report.from_dict(report), exercise, spoken)]
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for number, (cell, outputs) in enumerate(zip(code, graded.outputs, strict=True), 1):
        cell.execution_count = None if number - 1 in graded.left_out else number
        cell.outputs = [NotebookNode(output) for output in outputs]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    happened = [*about.get("happened", ()), *graded.happened]
    nb.metadata["course"] = NotebookNode(tier=graded.tier, happened=happened, result=name)


class RunSubmission(NbGraderPreprocessor):
    """Replaces nbgrader's `Execute`: runs the notebook in a sandbox and judges it here, or uses a
    stored result of an earlier run."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        from whywrong.hosting import joined

        from .results import Results, Settings
        from .work import result_of

        directory, ids = _coursedir(self), resources["nbgrader"]
        course = Path(directory.root).resolve()
        lessons = course / directory.source_directory / ids["assignment"]
        settings = Settings.of(course, TRUSTED if trusted() else SANDBOX, lessons)
        given = handed_out(lesson(directory, ids["assignment"], f"{ids['notebook']}.ipynb"))
        name, graded = result_of(cells_of(nb, given), settings, Results(course))
        fill_in(nb, graded, name, joined(settings.own))
        for said in shortened(graded.happened):
            self.log.warning("%s, %s: %s", ids["student"], ids["notebook"], said)
        return nb, resources


def trusted() -> bool:
    """Whether the instructor allows submissions to run without a sandbox."""
    return os.environ.get("COURSE_TRUST_SUBMISSIONS", "").lower() in ("1", "yes", "true")


def _coursedir(of: Any) -> Any:
    """Returns the course's folders, which a preprocessor's or exporter's converter knows."""
    while not hasattr(of, "coursedir"):
        of = of.parent
    return of.coursedir


class CarefulHighlight(Highlight2HTML):
    """Highlights the code on a page, in a process that may end; each page has its own instance."""

    until = 0.0  # the seconds that the process may have spent by the end of the page

    def __init__(self, *arguments: Any, **how: Any) -> None:
        super().__init__(*arguments, **how)
        CarefulHighlight.until = helper().spent + PAGE_SECONDS

    def __call__(
        self, source: str, language: str | None = None, metadata: dict | None = None
    ) -> str:
        return _on_page("highlight", source, language or self.pygments_lexer)


def markdown(source: str) -> str:
    """Returns a Markdown cell as HTML, made in a process that may end."""
    return _on_page("markdown", source)


def _on_page(task: str, source: str, *how: str) -> str:
    try:
        return _made(task, source, *how)
    except TooMuch:
        return plainly(source[:MOST_LEFT])


@lru_cache(maxsize=2000)  # the cells of a class are often the same
def _made(task: str, source: str, *how: str) -> str:
    left = min(SECONDS, CarefulHighlight.until - helper().spent)
    return str(helper().ask(task, source, *how, seconds=left))


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
            output.get("metadata", {}).setdefault("image/png", {"alt": NOT_DESCRIBED})
        if is_grade(cell):
            cell.source = without_hidden_tests(cell.source)
            for output in cell.get("outputs", []):
                if output.output_type == "error":  # a traceback repeats the cell's source
                    output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources
