"""`make notebooks`: run the lessons in solutions/, tidy them, and build notebooks/ for students.

An author writes plain cells; this module adds what nbgrader needs:

- a cell with only `check("name", name)` becomes a locked, graded cell with the catalogue's points,
  and gets the same call with different inputs as its hidden test; if the exercise isn't graded, the
  cell remains plain;
- a cell with `### BEGIN SOLUTION` becomes a solution cell, named after the answer that it defines;
  with `### AS FOUND`, it is handed out with a broken program to fix;
- the minutes that a lesson states are counted (see `minutes`).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_utils.desk.translated import PLAY
from whywrong.hosting import catalogue
from whywrong_nbgrader.cells import WIDGET_VIEW, checked_exercise, defined_names, nbgrader_metadata

from . import (
    NOTEBOOKS,
    ROOT,
    SOLUTIONS,
    START_PAGE,
    first_cell,
    live,
    minutes,
    notebooks_in,
    one_run,
    translations,
)

CELL_SECONDS = 600
KERNEL_ARGUMENTS = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.log_level=ERROR"]

BEGIN_SOLUTION = "### BEGIN SOLUTION"
KEPT_CELL_METADATA = {"deletable", "editable", "jupyter", "nbgrader", "tags"}
MEASURED = "measured"
UNSTORED = "unstored"
PICTURED = "pictured"  # shows a poster until it is run


# ---------------------------------------------------------------- nbgrader's metadata


def annotate(
    notebook: NotebookNode, points: dict[str, float], ungraded: Collection[str] = ()
) -> None:
    """Add nbgrader's metadata and the hidden tests to plain cells, in place.

    Args:
        notebook: a lesson; the results of an earlier run are overwritten.
        points: the points of each exercise.
        ungraded: the exercises that can be checked but aren't graded.

    Raises:
        ValueError: an exercise is checked twice, unknown, or its solution comes after its check.
    """
    solved: list[str] = []
    graded: list[str] = []
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)
        name = checked_exercise(cell)
        if name is not None:
            if name not in points:
                raise ValueError(f"check of {name!r}, which is not in the catalogue")
            if name in graded:
                raise ValueError(f"{name!r} has two graded checks: change one to another call")
            if name not in solved:
                raise ValueError(f"{name!r} is checked before a solution cell that defines it")
            graded.append(name)
            if name in ungraded:
                cell.source = f'check("{name}", {name})'
                continue
            cell.source = (
                f'check("{name}", {name})\n'
                "### BEGIN HIDDEN TESTS\n"
                f'check("{name}", {name}, seed="grading")\n'
                "### END HIDDEN TESTS"
            )
            cell.metadata["nbgrader"] = nbgrader_metadata(
                f"check-{name}", grade=True, locked=True, points=points[name]
            )
        elif cell.cell_type == "code" and BEGIN_SOLUTION in cell.source:
            exercises = [name for name in defined_names(cell.source) if name in points]
            if not exercises or exercises[0] in solved:
                raise ValueError(f"a solution cell defines no new exercise:\n{cell.source}")
            solved.append(exercises[0])
            cell.metadata["nbgrader"] = nbgrader_metadata(exercises[0], solution=True)
    if graded != solved:
        raise ValueError(f"solutions for {solved}, but checks of {graded}")


# ---------------------------------------------------------------- run and tidy


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in its folder, in place, with an empty `progress()`.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised and has no `raises-exception` tag.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=KERNEL_ARGUMENTS,
    )
    client.execute(env={**os.environ, "COURSE_PROGRESS": "off"})


def normalise(notebook: NotebookNode) -> None:
    """Keep in a notebook, in place, only what is the same every time it is run and saved."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    first = [cell for cell in notebook.cells if cell.cell_type == "code"][:2]
    if first and first[0].source.startswith(first_cell.BEGINS):
        for cell in first:  # folded, so that a reader first sees the problem
            if cell is first[0] or cell.source.startswith("import "):
                cell.metadata["jupyter"] = {"source_hidden": True}
    notebook.metadata = NotebookNode(
        kernelspec={
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        language_info={"name": "python"},
    )
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.metadata = NotebookNode(
            {key: value for key, value in cell.metadata.items() if key in KEPT_CELL_METADATA}
        )
        cell.id = _cell_id(cell, seen)
        if cell.cell_type == "code":
            cell.outputs = [_normalised_output(output) for output in _joined(cell.outputs)]
            if is_unstored(cell):
                cell.outputs = []


def _cell_id(cell: NotebookNode, seen: set[str]) -> str:
    """nbgrader's name of the cell, else a digest of its text: both survive inserted cells."""
    text = f"{cell.cell_type}\n{cell.source}".encode()
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or hashlib.sha1(text).hexdigest()[:8]
    id, number = name, 2
    while id in seen:
        id, number = f"{name}-{number}", number + 1
    seen.add(id)
    return id


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with adjacent pieces of a stream joined, because the splits are random."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1] = NotebookNode({**joined[-1], "text": joined[-1].text + output.text})
        else:
            joined.append(output)
    return joined


def _normalised_output(output: NotebookNode) -> NotebookNode:
    for part in ("data", "metadata"):  # a widget's view is a random id, useless later
        output.get(part, {}).pop(WIDGET_VIEW, None)
    if output.output_type == "error":
        output.traceback = [_without_places(line) for line in output.traceback]
    return output


def _without_places(line: str) -> str:
    for place in (ROOT, Path(sys.prefix), Path(sys.base_prefix)):
        line = line.replace(f"{place}{os.sep}", "")
    return line


# ---------------------------------------------------------------- the two editions


def assignments(solutions: Path = SOLUTIONS) -> list[str]:
    return sorted({path.parent.name for path in solutions.glob("*/*.ipynb")})


def bring(path: Path, points: dict[str, float], run: bool = True) -> bool:
    """Run and tidy one notebook of solutions/; returns whether its file changed.

    After a change of text, tidying alone is enough; the outputs stay.
    """
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    old = nbformat.reads(before, as_version=4).cells
    is_lesson = SOLUTIONS in path.parents and path.parent != SOLUTIONS
    first_cell.put(notebook, add=run and is_lesson)
    annotate(notebook, points, catalogue().ungraded())
    if run:
        execute(notebook, path.parent)
    shown = live.states(notebook)
    state_minutes(path, notebook, points)
    ran = [_joined(c.outputs) if is_unstored(c) else None for c in notebook.cells]
    normalise(notebook)
    ids = [cell.id for cell in notebook.cells]
    if run:
        measured = {cell.id: cell for cell in old if is_measured(cell)}
        for cell in filter(is_measured, notebook.cells):
            kept = measured.get(cell.id)
            if kept is not None and kept.outputs and kept.source == cell.source:
                cell.outputs = kept.outputs
    if run and SOLUTIONS in path.parents:
        live.keep(path, notebook.cells, shown)
        one_run.keep(path, {id: out for id, out in zip(ids, ran, strict=True) if out is not None})
    elif not run:
        live.rename(path, dict(zip((cell.id for cell in old), ids, strict=True)))
    after = written(notebook)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def state_minutes(path: Path, notebook: NotebookNode, points: dict[str, float]) -> None:
    """Write the counted minutes into a lesson, and into its translations."""
    before = [cell.source for cell in notebook.cells]
    minutes.state(notebook, points, catalogue().ungraded())
    translations.follow(path, before, [cell.source for cell in notebook.cells])


def is_measured(cell: NotebookNode) -> bool:
    """Whether a cell's figure shows measured times: its stored version is kept."""
    return MEASURED in cell.metadata.get("tags", [])


def is_unstored(cell: NotebookNode) -> bool:
    """Return whether a lesson stores no output of a cell."""
    return UNSTORED in cell.metadata.get("tags", [])


def written(notebook: NotebookNode) -> str:
    """The file's text: keys sorted, characters unescaped, one newline at the end."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def make_student_edition(solutions: Path = SOLUTIONS, notebooks: Path = NOTEBOOKS) -> None:
    """Build notebooks/ from solutions/ with nbgrader, without the instructor's gradebook.

    Raises:
        RuntimeError: nbgrader could not build an assignment; its log is in the message.
    """
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    with tempfile.TemporaryDirectory() as folder:
        config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
        config.CourseDirectory.root = folder
        (Path(folder) / config.CourseDirectory.source_directory).symlink_to(solutions.resolve())
        api = NbGraderAPI(config=config)
        api.log.setLevel("ERROR")
        for assignment in assignments(solutions):
            result = api.generate_assignment(assignment)
            if not result["success"]:
                raise RuntimeError(f"nbgrader could not build {assignment}:\n{result['log']}")
        made = Path(folder) / config.CourseDirectory.release_directory
        wanted = {path.relative_to(made): path.read_bytes() for path in made.rglob("*.*")}
        for page in solutions.glob("*.ipynb"):
            wanted[Path(page.name)] = _without_outputs(page).encode()

    for path in notebooks_in(notebooks):
        if path.relative_to(notebooks) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        target = notebooks / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)


def _without_outputs(path: Path) -> str:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if PICTURED in cell.metadata.get("tags", []):
            cell.metadata.tags = [PICTURED, "nbval-ignore-output"]
            cell.outputs, cell.execution_count = [_picture()], 1  # nbval wants both
    return written(notebook)


# Text in the colours of any theme; only what JupyterLab leaves in pages that it doesn't trust.
POSTER = """\
<div style="border: 1px solid #8a8a8a; border-radius: 10px; padding: 16px; text-align: center">
<p style="font-size: 24px; margin: 8px">the <b>dogs</b> near the cat <b>sing</b>?</p>
<p style="font-size: 24px; margin: 8px">the <b>dogs</b> near the cat <b>sings</b>?</p>
<p style="font-size: 16px; margin: 16px">{play} &ensp; <kbd>Shift</kbd> + <kbd>Enter</kbd></p>
</div>"""


def _picture() -> NotebookNode:
    """What a cell shows until it is run."""
    return nbformat.v4.new_output("display_data", {"text/html": POSTER.format(play=PLAY)})


def missing_rows(solutions: Path = SOLUTIONS, readme: Path = ROOT / "README.md") -> list[str]:
    """Say which lessons have no row in the README or on the start page: authors write the rows."""
    missing = []
    for page, folder in ((readme, f"{NOTEBOOKS.name}/"), (solutions / START_PAGE, "")):
        text = page.read_text(encoding="utf-8")
        for path in sorted(solutions.glob("*/*.ipynb")):
            link = f"]({folder}{path.parent.name}/{path.name})"
            if link not in text:
                missing.append(f"{page.name} has no row for {path.stem}: | [...{link} | ... |")
    return missing


def main(arguments: list[str]) -> None:
    """Run the named notebooks, or all of solutions/, then build the student edition.

    With `--tidy`, nothing is run, which is enough after a change of text.
    """
    run = "--tidy" not in arguments
    arguments = [a for a in arguments if a != "--tidy"]
    points = catalogue().points()
    paths = [Path(a).resolve() for a in arguments]
    if unknown := [a for a, p in zip(arguments, paths, strict=True) if p.suffix != ".ipynb"]:
        sys.exit(f"{unknown[0]} is no notebook. {inspect.getdoc(main)}")
    for path in paths or notebooks_in(SOLUTIONS):
        changed = bring(path, points, run)
        print(f"{path.relative_to(SOLUTIONS)}: {'changed' if changed else 'unchanged'}", flush=True)
    before = [c.source for c in nbformat.read(SOLUTIONS / START_PAGE, as_version=4).cells]
    for page in (ROOT / "README.md", SOLUTIONS / START_PAGE):
        minutes.state_totals(page, points, catalogue().ungraded())
    start = nbformat.read(SOLUTIONS / START_PAGE, as_version=4)
    translations.follow(SOLUTIONS / START_PAGE, before, [cell.source for cell in start.cells])
    normalise(start)  # a cell whose totals have changed has a new id
    (SOLUTIONS / START_PAGE).write_text(written(start), encoding="utf-8")
    make_student_edition()
    translations.build_editions()
    print(f"{NOTEBOOKS.name}/ is up to date with {SOLUTIONS.name}/", *missing_rows(), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
