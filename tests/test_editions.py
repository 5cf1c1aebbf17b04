"""solutions/ and notebooks/ agree, and building them twice changes nothing."""

import ast
import html
import json
import re
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from traceback import walk_stack
from types import ModuleType

import matplotlib
import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib import pyplot as plt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from torch.optim.optimizer import register_optimizer_step_post_hook

from tools import NOTEBOOKS, ROOT, SOLUTIONS, editions, first_cell, one_run, site, site_exercises
from tools.editions import annotate, normalise
from tools.translations import complete, languages
from whywrong import Report
from whywrong.hosting import joined, speaking

from .lesson_cells import compared, names, that_can_differ, with_needed

COURSE = joined(())

POINTS = {"double": 2.0, "sizes": 1.5}
SOLUTION = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
CHECK = 'check("double", double)'
shown_as = DisplayFormatter().format


def code(*sources):
    return new_notebook(cells=[new_code_cell(source) for source in sources])


def pages(folder):
    """All notebooks, less the copies that JupyterLab keeps of those that were opened."""
    return sorted(p for p in folder.rglob("*.ipynb") if p.parent.name != ".ipynb_checkpoints")


def lessons(folder):
    return [p.relative_to(folder).as_posix() for p in pages(folder) if p.parent != folder]


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


# ---------------------------------------------------------------- one notebook


def test_a_check_cell_becomes_a_locked_graded_cell_with_a_hidden_test():
    notebook = code(SOLUTION, CHECK)
    annotate(notebook, POINTS)
    cell = notebook.cells[1]
    assert cell.source.splitlines() == [
        CHECK,
        "### BEGIN HIDDEN TESTS",
        'check("double", double, seed="grading")',
        "### END HIDDEN TESTS",
    ]
    metadata = cell.metadata.nbgrader
    assert (metadata.grade, metadata.locked, metadata.solution) == (True, True, False)
    assert (metadata.grade_id, metadata.points) == ("check-double", 2.0)


def test_a_solution_cell_is_named_for_the_exercise_it_defines():
    helper = "import math\n\ndef _half(x):\n    return x / 2\n\n" + SOLUTION
    notebook = code(helper, CHECK)
    annotate(notebook, POINTS)
    metadata = notebook.cells[0].metadata.nbgrader
    assert (metadata.grade_id, metadata.solution, metadata.grade) == ("double", True, False)


def test_annotating_twice_changes_nothing():
    once, twice = code(SOLUTION, CHECK), code(SOLUTION, CHECK)
    for notebook in (once, twice, twice):
        annotate(notebook, POINTS)
        normalise(notebook)
    assert nbformat.writes(once) == nbformat.writes(twice)


def test_other_calls_of_check_are_left_alone():
    notebook = code(
        SOLUTION, CHECK, 'check("double", lambda x: x + x)', 'r = check("double", double)'
    )
    annotate(notebook, POINTS)
    assert [bool(c.metadata.get("nbgrader")) for c in notebook.cells] == [True, True, False, False]


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ((SOLUTION, CHECK, CHECK), "two graded checks"),
        ((CHECK, SOLUTION), "checked before a solution cell"),
        ((SOLUTION,), r"solutions for \['double'\], but checks of \[\]"),
        ((SOLUTION.replace("double", "triple"), CHECK), "defines no new exercise"),
        ((SOLUTION, SOLUTION, CHECK), "defines no new exercise"),
        (('check("triple", triple)',), "'triple', which is not in the catalogue"),
    ],
)
def test_an_author_gets_a_message_about_inconsistencies(sources, complaint):
    with pytest.raises(ValueError, match=complaint):
        annotate(code(*sources), POINTS)


def test_output_specific_to_the_reader_is_not_stored():
    notebook = code("print(loss)")
    notebook.cells[0].metadata["tags"] = ["nbval-ignore-output", "unstored"]
    notebook.cells[0].outputs = [new_output("stream", name="stdout", text="2.386")]
    normalise(notebook)
    assert notebook.cells[0].outputs == []


def test_normalising_drops_everything_that_changes_from_run_to_run():
    notebook = code("1", "2")
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    cell = notebook.cells[0]
    cell.metadata.update(execution={"iopub.execute_input": "2026-01-01"}, tags=["kept"])
    view = {editions.WIDGET_VIEW: {"model_id": "8f3c"}, "text/plain": "FloatSlider(value=1.0)"}
    cell.outputs = [
        new_output("stream", name="stdout", text="a"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("display_data", data=view),
    ]
    normalise(notebook)
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert cell.metadata == {"tags": ["kept"]}
    assert [output.get("text") or output.data for output in cell.outputs] == [
        "ab\n",
        {"text/plain": "FloatSlider(value=1.0)"},
    ]


def test_cell_ids_depend_on_the_text_and_not_on_the_position():
    before = code("x = 1", "x = 2", "x = 1")
    after = code("y = 0", "x = 1", "x = 2", "x = 1")
    after.cells.insert(0, new_markdown_cell("x = 1"))
    for notebook in (before, after):
        normalise(notebook)
    ids = [cell.id for cell in before.cells]
    assert len(set(ids)) == 3
    assert [cell.id for cell in after.cells][2:] == ids


def test_a_stored_traceback_names_no_folder_of_this_machine():
    notebook = code("1 / 0")
    line = f"File {ROOT}/course_utils/attention.py:7, in softmax"
    error = new_output("error", ename="ZeroDivisionError", evalue="", traceback=[line])
    notebook.cells[0].outputs = [error]
    normalise(notebook)
    (stored,) = notebook.cells[0].outputs
    assert stored.traceback == ["File course_utils/attention.py:7, in softmax"]


@pytest.mark.full("editions in detail")
def test_running_a_notebook_twice_writes_the_same_bytes(tmp_path):
    path = tmp_path / "lesson.ipynb"
    shown = "import sys\nprint(1, flush=True)\nprint(2)\nsys.executable == ''"
    nbformat.write(code(shown, "from course_utils import progress\nprogress().points"), path)
    assert editions.bring(path, {}) is True
    once = path.read_bytes()
    assert editions.bring(path, {}) is False
    assert path.read_bytes() == once
    last = code_cells(path)[-1].outputs[0].data["text/plain"]
    assert last == "0.0", "an author's own progress must not be stored in the course"


def test_the_first_code_cell_is_added_to_a_lesson_that_has_none_and_only_once():
    lesson = code("x = 1")
    lesson.cells.insert(0, new_markdown_cell("# 18 · A lesson"))
    first_cell.put(lesson)
    assert [cell.source for cell in lesson.cells] == ["# 18 · A lesson", "x = 1"]
    for _ in range(2):
        first_cell.put(lesson, add=True)
        said = [cell.source for cell in lesson.cells]
        assert said == ["# 18 · A lesson", first_cell.text(), "x = 1"]


def test_an_author_is_told_which_rows_are_missing(tmp_path):
    (tmp_path / "9-next").mkdir()
    (tmp_path / "9-next" / "18_next.ipynb").touch()
    readme, start = tmp_path / "README.md", tmp_path / "index.ipynb"
    readme.write_text("| [18 Next](notebooks/9-next/18_next.ipynb) | count |")
    start.write_text("| [18 Next](9-next/18_next.ipynb) | count |")
    assert editions.missing_rows(tmp_path, readme) == []
    readme.write_text("")
    row = "README.md has no row for 18_next: | [...](notebooks/9-next/18_next.ipynb) | ... |"
    assert editions.missing_rows(tmp_path, readme) == [row]


def test_a_cell_that_raises_stops_the_build(tmp_path):
    path = tmp_path / "lesson.ipynb"
    nbformat.write(code("1 / 0"), path)
    before = path.read_bytes()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        editions.bring(path, {})
    assert path.read_bytes() == before


@pytest.mark.full("editions in detail")
def test_the_student_edition_keeps_the_questions_of_a_quiz(tmp_path):
    quiz = (
        "sizes = {\n    ### BEGIN SOLUTION\n"
        '    "x[b, :t+1]": (3, 2),\n    "out": (4, 8, 2),  # as the input\n'
        "    ### END SOLUTION\n}"
    )
    method = (
        "class double:\n    def __init__(self):\n        self.n = 2\n"
        "        ### BEGIN SOLUTION\n        self.m = 3\n        ### END SOLUTION\n\n"
        "    def forward(self, x):\n        ### BEGIN SOLUTION\n        return x\n"
        "        ### END SOLUTION"
    )
    notebook = code(quiz, 'check("sizes", sizes)', method, CHECK)
    annotate(notebook, POINTS)
    normalise(notebook)
    (tmp_path / "solutions" / "1-a").mkdir(parents=True)
    nbformat.write(notebook, tmp_path / "solutions" / "1-a" / "01_a.ipynb")
    editions.make_student_edition(tmp_path / "solutions", tmp_path / "notebooks")
    cells = code_cells(tmp_path / "notebooks" / "1-a" / "01_a.ipynb")
    assert [cell.source for cell in cells] == [
        'sizes = {\n    "x[b, :t+1]": ...,\n    "out": ...,\n}',
        'check("sizes", sizes)',
        "class double:\n    def __init__(self):\n        self.n = 2\n"
        "        ...  # your code here\n\n"
        "    def forward(self, x):\n        ...  # your code here",
        CHECK,
    ]


# ---------------------------------------------------------------- the actual course


def test_notebooks_is_up_to_date_with_solutions(tmp_path):
    editions.make_student_edition(notebooks=tmp_path)
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.ipynb")}
    kept = {p.relative_to(NOTEBOOKS): p.read_bytes() for p in pages(NOTEBOOKS)}
    kept = {path: text for path, text in kept.items() if ".ipynb_checkpoints" not in path.parts}
    assert made.keys() == kept.keys(), "run `make notebooks`"
    assert [str(path) for path in made if made[path] != kept[path]] == [], "run `make notebooks`"


@pytest.mark.parametrize("path", pages(SOLUTIONS), ids=lambda p: p.stem)
def test_a_solution_is_saved_as_make_notebooks_saves_it(path):
    notebook = read(path)
    annotate(notebook, COURSE.points(), COURSE.ungraded())
    normalise(notebook)
    assert editions.written(notebook) == path.read_text(encoding="utf-8"), "run `make notebooks`"
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"


@pytest.mark.parametrize("path", pages(SOLUTIONS), ids=lambda p: p.stem)
def test_a_solution_gets_full_points_and_warns_of_nothing(path):
    for cell in code_cells(path):
        assert not any(o.get("name") == "stderr" for o in cell.outputs), cell.source
        if editions.checked_exercise(cell):
            shown = cell.outputs[-1].data["text/plain"]
            points = COURSE.points()[editions.checked_exercise(cell)]
            assert shown == repr(float(points)), cell.source


def test_an_optional_exercise_is_checked_in_its_lesson_but_not_graded():
    optional = {one.id: lesson for lesson, there in COURSE.outline.items() for one in there}
    optional = {id: lesson for id, lesson in optional.items() if id in COURSE.ungraded()}
    assert "copy_linear_to_matrix" in optional
    for id, lesson in optional.items():
        (cell,) = (
            cell
            for cell in code_cells(SOLUTIONS / f"{lesson}.ipynb")
            if editions.checked_exercise(cell) == id
        )
        assert cell.source == f'check("{id}", {id})' and "nbgrader" not in cell.metadata


def test_every_other_exercise_of_the_catalogue_is_graded_once_in_its_lesson():
    graded = {
        lesson: {
            editions.checked_exercise(cell): cell.metadata.nbgrader.points
            for cell in code_cells(SOLUTIONS / lesson)
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        for lesson in lessons(SOLUTIONS)
    }
    wanted = {
        f"{lesson}.ipynb": {one.id: one.points for one in exercises if one.graded}
        for lesson, exercises in COURSE.outline.items()
    }
    assert {lesson: exercises for lesson, exercises in graded.items() if exercises} == wanted
    assert set(graded) - set(wanted) == {"0-start/00_before_you_start.ipynb"}


def test_the_start_page_and_the_readme_lead_to_every_lesson_once():
    page = "\n".join(cell.source for cell in read(NOTEBOOKS / "index.ipynb").cells)
    assert re.findall(r"\]\((.*?/.*?\.ipynb)\)", page) == lessons(NOTEBOOKS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(notebooks/(.*?\.ipynb)\)", readme) == lessons(NOTEBOOKS)


def test_every_term_of_the_glossary_is_linked_where_its_lesson_first_uses_it():
    entries = "\n\n".join(cell.source for cell in read(SOLUTIONS / "glossary.ipynb").cells)
    terms = dict(re.findall(r"### (.+)\n\n.*\[Lesson \d\d\]\((.+?)\)", entries))
    assert len(terms) == entries.count("### ") >= 70
    for term, lesson in terms.items():
        link = f"](../glossary.ipynb#{term.replace(' ', '-')})"
        links = sum(link in c.source for c in read(SOLUTIONS / lesson).cells)
        assert links == 1, f"{lesson} must link {term!r} once, at its first use: [{term}{link}"
    known = {term.replace(" ", "-") for term in terms}
    for path in SOLUTIONS.glob("*/*.ipynb"):
        text = "\n".join(cell.source for cell in read(path).cells)
        assert set(re.findall(r"glossary\.ipynb#([^)]+)\)", text)) <= known, path


@pytest.mark.parametrize("path", pages(SOLUTIONS), ids=lambda p: p.stem)
def test_no_line_in_the_middle_of_a_paragraph_looks_like_a_list(path):
    """A sentence that ends with "lesson⏎04." becomes an item of a list in some viewers."""
    item = r"[-*+] |\d+[.)] "
    lines = [cell.source.split("\n") for cell in read(path).cells if cell.cell_type == "markdown"]
    found = [
        line
        for cell in lines
        for before, line in pairwise(cell)
        if re.match(item, line)
        and before.strip()
        and not re.match(rf"{item}|  |#|\*Difficulty", before)
    ]
    assert found == []


def test_every_link_between_notebooks_leads_somewhere():
    broken = [
        (path.name, target)
        for path in pages(SOLUTIONS) + pages(NOTEBOOKS)
        for cell in read(path).cells
        if cell.cell_type == "markdown"
        for target in re.findall(r"\]\(([^):#]+\.(?:ipynb|png|md))\)", cell.source)
        if not (path.parent / target).exists()
    ]
    assert broken == []


class Enough(BaseException):
    """A training has begun, and goes on in the same way."""


@contextmanager
def only_first_steps():
    """Whatever trains inside ends with its third step, except in a check."""
    steps = count(1)

    def end(*_):
        callers = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(None))
        if not any(name.startswith("whywrong.") for name in callers) and next(steps) == 3:
            raise Enough

    handle = register_optimizer_step_post_hook(end)
    try:
        yield
    finally:
        handle.remove()


def run(cell, space):
    """The value of a cell's last line, which is also shown."""
    tree, value = ast.parse(cell.source), None
    last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
    with only_first_steps():
        exec(compile(tree, cell.id, "exec"), space)
        for line in last:
            value = eval(compile(ast.Expression(line.value), cell.id, "eval"), space)
            shown_as(value)
    return value


@pytest.mark.parametrize("lesson", lessons(NOTEBOOKS))
def test_a_student_s_notebook_runs_with_its_stubs_and_no_stub_is_secretly_solved(
    lesson, monkeypatch, tmp_path
):
    """Each check says "not attempted yet" and gives 0, and no other cell raises an error. All that
    is left out runs in the tests of the solution, which compare its output."""
    matplotlib.use("Agg")
    monkeypatch.chdir(NOTEBOOKS / Path(lesson).parent)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr("IPython.display.display", lambda *shown, **_: [*map(shown_as, shown)])
    kernel, imports, *rest = code_cells(NOTEBOOKS / lesson)
    space: dict = {"__name__": "__main__"}
    for cell in (kernel, imports):
        run(cell, space)
    exercises = {e.id for e in COURSE.by_lesson.get(str(Path(lesson).with_suffix("")), ())}
    assert not exercises & space.keys(), "grading puts a lost check behind the first cell"
    said, missing = {}, set()  # what a training that was cut short would have given
    cells = [kernel, imports, *rest]
    wanted = that_can_differ(cells) | set(range(len(cells))) - compared(
        code_cells(SOLUTIONS / lesson)
    )
    for cell in (cells[number] for number in sorted(with_needed(cells, wanted))):
        _, uses, changes = names(cell.source)
        ready = not uses & missing
        try:
            value = run(cell, space) if ready else None
        except Enough:
            ready = False
        if not ready:
            missing |= {n for n in changes if not isinstance(space.get(n), ModuleType)}
        if name := editions.checked_exercise(cell):
            assert isinstance(value, Report)
            said[name] = (value.status, value.points)
    plt.close("all")
    assert said == dict.fromkeys(exercises, ("not attempted yet", 0.0))


@pytest.mark.parametrize("lesson", lessons(NOTEBOOKS))
def test_the_student_edition_contains_no_hidden_test_and_no_output(lesson):
    for cell in code_cells(NOTEBOOKS / lesson):
        assert "HIDDEN TESTS" not in cell.source
        assert "grading" not in cell.source
        assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("lesson", lessons(SOLUTIONS))
def test_the_site_has_one_run_of_each_cell_that_stores_nothing(lesson):
    cells = [c for c in code_cells(SOLUTIONS / lesson) if editions.is_unstored(c)]
    runs = one_run.kept(SOLUTIONS / lesson)
    assert runs.keys() == {cell.id for cell in cells} and all(runs.values())
    assert str(Path.home()) not in str(runs) and str(ROOT) not in str(runs)


@pytest.mark.parametrize("lesson", ["4-transformer/08_block", "7-capstone/15_capstone"])
def test_a_solution_on_the_site_has_no_line_that_it_replaces(lesson):
    cells = site.lesson_page(SOLUTIONS / f"{lesson}.ipynb").cells
    solved = [c.source for c in cells if str(c.id).endswith("-solution")]
    assert solved and not [text for text in solved if re.match(r"\w+ = \.\.\.", text)]


def test_no_number_changes_when_jupyterlab_saves_a_notebook():
    """JavaScript writes 1.0 as 1. (The kernel's version in `language_info` does change.)"""
    numbers = []
    for path in [*pages(SOLUTIONS), *pages(NOTEBOOKS)]:
        json.loads(path.read_text(encoding="utf-8"), parse_float=numbers.append)
    assert [number for number in numbers if float(number).is_integer()] == []


@pytest.mark.parametrize("page", ["index", "1-averages/03_softmax_masking"])
def test_the_site_shows_a_card_beside_the_wrong_code_that_caused_it(page):
    cells = site.lesson_page(SOLUTIONS / f"{page}.ipynb").cells
    (wrong,) = [cell for cell in cells if cell.id.endswith("-wrong")]
    name = wrong.id.removesuffix("-wrong")
    card = wrong.outputs[0].data["text/html"]
    assert f"def {name}(" in wrong.source and "#" not in wrong.source
    first = COURSE.find(name).misconceptions[0]
    assert "partly right" in card and html.escape(re.split("[`*]", first.look)[0], False) in card
    assert not any("yours runs here" in str(cell.get("outputs")) for cell in cells)


@pytest.mark.parametrize("to", [None, *filter(complete, languages())])
def test_a_page_for_teachers_has_a_title_in_words(to):
    titles, english = titles_for_teachers(to), titles_for_teachers(None)
    assert [title for title in english.values() if not re.match(r"[A-Z]\w*\W", title)] == []
    assert [id for id, title in titles.items() if to and title == english[id]] == []
    assert "Alone it writes fine." in english["patient_a"]


def titles_for_teachers(to):
    """Return what comes before the exercise's name in the titles of all pages."""
    with speaking(to.folder.name if to else ""):
        pages = dict(site_exercises.pages(sorted(SOLUTIONS.glob("*/*.ipynb")), to))
    title = re.compile("^# ([^`\n]+)", re.M)
    return {name.stem: title.search(text)[1] for name, text in pages.items()}
