"""Right answers get their points whatever they were saved with, and students can look before."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import cache

import jupytext
import nbformat
import pytest
from nbconvert import HTMLExporter, PythonExporter
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory

from course_utils.__main__ import main
from whywrong_nbgrader import folders, names, reading
from whywrong_nbgrader.careful import be_careful
from whywrong_nbgrader.cells import nbgrader_metadata, without_hidden_tests
from whywrong_nbgrader.choosing import submission
from whywrong_nbgrader.helper import Helper, TooMuch
from whywrong_nbgrader.outputs import clean_outputs
from whywrong_nbgrader.reading import parsed
from whywrong_nbgrader.restoring import Kept, Released, restore
from whywrong_nbgrader.submissions import notebook

from .generated_class import make_course
from .saved_forms import (
    FORMS,
    LESSON,
    RIGHT,
    cell,
    dumps,
    file_of,
    grade_id,
    is_alike,
    released,
    solved,
)

ASSIGNMENT = "1-averages"
each_form = pytest.mark.parametrize("name", FORMS)


@cache
def cells_as_released():
    cells = {}
    for c in released()["cells"]:
        if (name := grade_id(c)) != "None":
            about = c["metadata"]["nbgrader"]
            kinds = {kind: about[kind] for kind in ("grade", "locked", "solution", "task")}
            metadata = nbgrader_metadata(name, about.get("points"), **kinds)
            source = "".join(c["source"])
            cells[name] = Released(
                source, c["cell_type"], kinds["locked"], kinds["grade"], metadata
            )
    return cells


def given():
    return [c["source"] for c in parsed(dumps(released())).cells if c["kind"] == "code"]


@each_form
def test_what_can_be_read_is_restored_with_its_answers(name, tmp_path):
    (tmp_path / "one").write_bytes(file_of(name))
    known = {name: asdict(cell) for name, cell in cells_as_released().items()}
    found = notebook(str(tmp_path / "one"), known, given())
    if why := found.get("unreadable"):
        assert FORMS[name].points == 0 and is_alike(why, FORMS[name].noted)
        return
    made = [Kept(**cell) for cell in found["cells"]]
    checks = [cell.checks for cell in made if cell.checks]
    assert sorted(checks) == sorted(n[6:] for n in cells_as_released() if n.startswith("check-"))
    if "compile" not in FORMS[name].noted:
        assert is_alike("; ".join(found["notes"] + found["trouble"]), FORMS[name].noted)
    if FORMS[name].points == 6:  # nobody has to hand in again; each check runs after the answer
        assert found["trouble"] == []
        for exercise in RIGHT:
            at = next(n for n, cell in enumerate(made) if cell.checks == exercise)
            before = [c.source for c in made[:at] if f"def {exercise}(" in c.source]
            stub = cells_as_released()[exercise].source
            assert before and not before[-1].endswith(stub)


def test_a_solved_lesson_is_read_without_a_word():
    found = parsed(dumps(solved()))
    made, noticed = restore(found.cells, cells_as_released(), given())
    assert (found.notes(), found.broken, noticed) == ([], "", [])
    mine = {cell.name: cell.source for cell in made if cell.name in RIGHT}
    assert mine == RIGHT
    assert all(not without_hidden_tests(c.source).startswith("\n") for c in made)


def test_a_student_can_look_before_handing_in(tmp_path, capsys):
    for name in ("as-it-should-be", "utf-16", "cut-off-late", "a-web-page"):
        (tmp_path / f"{name}.ipynb").write_bytes(file_of(name))
    said = {path.stem: (told, fine) for path, told, fine in reading.look([tmp_path])}
    assert said["as-it-should-be"] == ("this file will be read", True)
    assert said["utf-16"][1] and "repaired" in said["utf-16"][0]
    assert not said["cut-off-late"][1] and "save it again" in said["cut-off-late"][0]
    assert said["a-web-page"] == (
        "this file can't be read: it is a web page, not a notebook: download it raw",
        False,
    )
    assert main(["look", str(tmp_path)]) == 1
    assert "as-it-should-be.ipynb: this file will be read\n" in capsys.readouterr().out


# Bounds -------------------------------------------------------------------------------------------

LARGE = {
    "20 MB of empty objects in metadata": b'{"cells": [], "metadata": {"a": [' + b"{}," * 7_000_000,
    "1 MB of empty outputs": b'{"cells": [{"cell_type": "code", "source": "x", "outputs": ['
    + b"{}," * 350_000
    + b"{}]}]}",
    "a list in a list in a list": b'{"cells": [' + b"[" * 1_000_000,
    "objects in objects": b'{"a":' * 200_000,
    "one very long number": b'{"cells": [], "nbformat": ' + b"1" * 10_000_000 + b"}",
    "many line ends": b'{"cells": [' + b"\n" * 10_000_000,
}


@pytest.mark.parametrize("what", LARGE)
def test_reading_takes_bounded_time_and_memory(what, tmp_path):
    """The limits are those of the process that reads; this one waits."""
    (tmp_path / "one.ipynb").write_bytes(LARGE[what])
    alone = Helper()
    try:
        said = alone.ask("notebook", str(tmp_path / "one.ipynb"), {}, [], seconds=4.0)
        assert len(json.dumps(said)) < 10**6
    except TooMuch:
        pass
    finally:
        alone.close()


def test_a_request_that_is_too_much_ends_only_the_process_that_reads():
    alone = Helper()
    try:
        with pytest.raises(TooMuch):
            page = {"output_type": "display_data", "data": {"text/html": "<p>x</p>" * 20_000}}
            alone.ask("outputs", [page], seconds=0.01)
        assert alone.ask("outputs", []) == []
    finally:
        second = alone._process
        alone.close()
    assert second.poll() is not None


def test_the_time_of_all_requests_is_counted():
    alone = Helper()
    try:
        alone.ask("prints", ["x = 1\n" * 3000] * 20)
        used = alone.spent
        assert 0 < used < 4
        with pytest.raises(TooMuch):
            alone.ask("prints", ["y = 1\n" * 3000] * 20, seconds=0.01)
        assert alone.spent == pytest.approx(used + 0.01)
        with pytest.raises(TooMuch, match="spent"):
            alone.ask("prints", [], seconds=used - alone.spent)
    finally:
        alone.close()


def test_half_a_colour_stops_no_page():
    (kept,) = clean_outputs([{"output_type": "stream", "text": "\x1b[1mx\x1b[38m"}])
    assert kept["text"] == "[1mx[38m"
    (kept,) = clean_outputs([{"output_type": "stream", "text": "\x1b[1mx\x1b[0m"}])
    assert "\x1b[1m" in kept["text"]


@pytest.mark.parametrize(
    "tag", ["<div>", "<ul><LI>", "<b></p>", "<i></b><b>", "<b title='</b>'><p>x", "<a>", "<table>"]
)
def test_an_output_takes_bounded_time_and_room(tag):
    """A parser opens all unclosed elements again in each paragraph."""
    alone = Helper()
    try:
        page = tag * (199_000 // len(tag))
        outputs = [{"output_type": "display_data", "data": {"text/html": page, "text/plain": "x"}}]
        with suppress(TooMuch):
            (kept,) = alone.ask("outputs", outputs, seconds=0.5)
            assert len(kept["data"].get("text/html", "")) < 2 * len(page) + 10_000
        assert alone.spent < 1
    finally:
        alone.close()


def test_times_names_and_folders_are_data(tmp_path):
    stamp = tmp_path / "timestamp.txt"
    for content, valid in [
        (b"2026-10-09 12:00:00.000000 UTC", True),
        (b"\xef\xbb\xbf2026-10-09 12:00:00 UTC\r\n", True),
        (b"1" * 1_000_000, False),
        (b"monday", False),
        (b"\xff\xfe\x00", False),
        (b"9999-99-99 12:00:00 UTC", False),
    ]:
        stamp.write_bytes(content)
        assert (names.submitted_at(tmp_path) is not None) == valid, content[:30]
    stamp.unlink()
    for name in ("timestamp.txt", "submission_secret.txt"):
        (tmp_path / name).mkdir()
    assert names.submitted_at(tmp_path) is None and names.secret_of(tmp_path) == ""
    for name in (
        "ada",
        "a",
        "3f",
        "O Brien-Li",
        "ada.l@uni.edu",
        "a+b",
        "José",
        "Jose\u0301",
        "王小明",
    ):
        assert names.is_a_name(name), name
    for name in ("", ".", "..", ".hidden", "a\nb", "x" * 300, "a/b", "\x1b[2J", "a ", " a", "*"):
        assert not names.is_a_name(name), name
    for name in ("=1+1", "+a", "@a", "-a", "a<b>", "a&b", 'a"b', "a'b", "a`b", "a$b", "a;b", "a|b"):
        assert not names.is_a_name(name), name
    for name in ("a\u202eb", "ada\u3164", "ada\ufe0f", "\udcff", "a" + "\u0301" * 5, "a{b}", "a%b"):
        assert not names.is_a_name(name), name


def test_a_name_is_no_pattern(tmp_path, monkeypatch):
    be_careful()
    programs = os.path.dirname(sys.executable)  # nbgrader makes its gradebook with one of them
    monkeypatch.setenv("PATH", programs + os.pathsep + os.environ["PATH"])
    for student in ("*", "[a-z]*", "ada", "<b>"):
        folder = tmp_path / "submitted" / student / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").touch()
    course = CourseDirectory(root=str(tmp_path), assignment_id=ASSIGNMENT)
    for student, number in (("ada", 1), ("[[]a-z]*", 0), ("[*]", 0), ("<b>", 0), ("*", 1)):
        course.student_id = student
        converter = Autograde(coursedir=course)
        with suppress(NbGraderException) if not number else nullcontext():
            converter.init_notebooks()
        assert len(converter.assignments) == number
        for place, (found,) in converter.assignments.items():
            assert found == f"{place}/{LESSON}.ipynb"


def test_a_very_deep_folder_is_reported_and_left_alone(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    assert "too much in it" in str(folders.strange_in(tmp_path))
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_folder_with_too_many_files_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MOST_FILES", 3)
    for name in "abc":
        (tmp_path / name).touch()
    assert folders.strange_in(tmp_path) == []
    (tmp_path / "d").touch()
    assert "too much in it" in str(folders.strange_in(tmp_path))


def test_work_that_is_not_where_it_is_graded_is_named(tmp_path):
    (tmp_path / "below").mkdir()
    notebook = file_of("as-it-should-be")
    places = ("below/03.ipynb", "03.IPYNB", "03.ipynb.txt", "notes.txt", "mine.json", "all.zip")
    for name in places:
        (tmp_path / name).write_bytes(notebook)
    for name in ("timestamp.txt", "helper.py", f"{LESSON}.ipynb"):
        (tmp_path / name).write_text("x")
    said = folders.not_read_in(tmp_path, [f"{LESSON}.ipynb"])
    assert sorted(line.split('"')[1] for line in said) == sorted(places)


# Which file ---------------------------------------------------------------------------------------

OWN = f"{LESSON}.ipynb"


def folders_of_a_student():
    """What is in a folder, and what is said of it; None: nothing is graded."""
    right, stub, wrong = dumps(solved()), dumps(released()), solved()
    cell(wrong, "softmax")["source"] = "def softmax(scores, dim=-1):\n    return scores"
    wrong, part = dumps(wrong), solved()
    cell(part, "softmax")["source"] = cell(released(), "softmax")["source"]
    part = dumps(part)
    opened = nbformat.reads(right.decode(), 4)
    program, page = (
        form().from_notebook_node(opened)[0].encode() for form in (PythonExporter, HTMLExporter)
    )
    percent = jupytext.writes(opened, "py:percent").encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(f"work/{OWN}", right)
        packed.writestr("notes.txt", "x")
    archive = archive.getvalue()
    twice = stub.rstrip()[:-1] + b', "cells": ' + json.dumps(solved()["cells"]).encode() + b"}"
    twice_stub = right.rstrip()[:-1] + b', "cells": ' + json.dumps(released()["cells"]).encode()
    for name in (
        *(f"{LESSON} (1).ipynb", f"{LESSON}-Copy1.ipynb", f"{LESSON}.IPYNB", f"{LESSON}.ipynb.txt"),
        *("03_Softmax_Masking.ipynb", f"lovelace_12_34_{LESSON}-1.ipynb", "01_naive_mean.ipynb"),
        *(f"work/{OWN}", f"{LESSON} (Ada's conflicted copy 2026-10-01).ipynb", "mine"),
    ):
        yield {name: right}, f'{OWN} is missing, so "{name}" is graded'
    for name, found in {"s.py": program, "t.py": percent, "s.html": page, "a.ipynb": right}.items():
        yield {OWN: stub, name: found}, f'{OWN} has no answers, so "{name}" is graded'
    yield {"a.zip": archive}, f'{OWN} is missing, so "a.zip: work/{OWN}" is graded'
    yield {OWN: b"", "a.ipynb": right}, f'{OWN} can\'t be read, so "a.ipynb" is graded'
    yield {"a.ipynb": right, "a.py": program}, 'so "a.ipynb" is graded'  # the same answers
    yield {"a.ipynb": right, "b.ipynb": wrong}, 'answers to it are in "a.ipynb" and "b.ipynb"'
    yield {OWN: stub + right + wrong}, "several notebooks with different answers"
    yield {OWN: right, "a.ipynb": wrong}, ""
    yield {OWN: right, "a.ipynb": part}, ""
    yield {OWN: part, "a.ipynb": right}, f'{OWN} has fewer of the same answers, so "a.ipynb" is'
    yield {"a.ipynb": part, "b.ipynb": right}, f'{OWN} is missing, so "b.ipynb" is graded'
    checkpoint = f".ipynb_checkpoints/{LESSON}-checkpoint.ipynb"
    yield {OWN: b"", checkpoint: right}, f'{OWN} can\'t be read, so "{checkpoint}" is graded'
    yield {OWN: right, checkpoint: wrong}, ""
    yield from documents_of_a_student(opened)
    yield {"a.py": marimo(opened)}, "it was a program"
    yield {"a.py": marimo(opened).decode().encode("utf-16")}, "it was a program"
    yield {OWN: right, f"._{OWN}": b"\0\5\26\7"}, ""
    yield {OWN: program}, "it was a program"
    yield {OWN: page}, "it was a web page"
    yield {OWN: twice}, ""
    yield {OWN: twice_stub + b"}"}, "the one with the most answers"
    yield {OWN: stub + right}, "the one with the most answers"
    unread = f"{OWN} is missing, and "
    yield {"a.zip": archive[:200]}, f'{unread}"a.zip" can\'t be read: no notebook in it can be'
    yield {"a.7z": b"7z\xbc\xaf\x27"}, f'{unread}"a.7z" can\'t be read: it is an archive'
    yield {f"{LESSON} (1).ipynb": right[:300]}, f'{unread}"{LESSON} (1).ipynb" can\'t be read:'
    yield {"a.pdf": b"%PDF-1.4"}, f'{unread}"a.pdf" can\'t be read: it is a document'
    yield {f"._{OWN}": b"\0\5\26\7"}, None
    yield {OWN: stub}, None
    yield {"01_naive_mean.ipynb": b"", "helper.py": b"def f(): ..."}, None
    yield {}, None


def documents_of_a_student(opened):
    """Texts with answers, beside a notebook that has none, and what is said of them."""
    stub = dumps(released())
    for ending, form in {"md": "md", "qmd": "md:myst", "Rmd": "Rmd"}.items():
        yield {f"a.{ending}": jupytext.writes(opened, form).encode()}, "it was a"
    for fence in ("", "py", "Python", "{.python}", "{python} echo=FALSE", "python title='x'"):
        blocks = [f"```{fence}\n{answer}\n```" for answer in RIGHT.values()]
        text = "\n\n".join(["# Mine", "```bash\nls\n```", *blocks, "```text\n0.5\n```"])
        for name in ("mine.md", "mine.qmd"):
            yield {OWN: stub, name: text.encode()}, f'has no answers, so "{name}" is graded'
        yield {OWN: stub, "list.md": textwrap.indent(text, "    ").encode()}, "it was a document"
    wrong_text = b"```python\ndef softmax(scores, dim=-1):\n    return scores\n```"
    yield (
        {"a.ipynb": dumps(solved()), "chat.md": wrong_text},
        f'{OWN} is missing, so "a.ipynb" is graded',
    )
    block = textwrap.indent(RIGHT["softmax"], "    ")
    for name in ("a.md", "a.rst", "a.txt", "a.tex"):
        seen = f'{OWN} has no answers, and "{name}" can\'t be read: it defines softmax, but'
        yield {OWN: stub, name: f"Mine:\n\n{block}\n\nThat's it.".encode()}, seen
    yield {OWN: stub, "README.md": b"# Mine\n\nIt was fun."}, None


def marimo(opened):
    """As `marimo convert` writes it."""
    cells = ["import marimo\n\napp = marimo.App()"]
    for c in opened.cells:
        source = c.source if c.cell_type == "code" else f'mo.md(r"""{c.source}""")'
        cells.append(f"@app.cell\ndef _(torch):\n{textwrap.indent(source, '    ')}\n    return")
    return "\n\n\n".join(cells).encode()


def test_the_only_file_with_answers_to_a_lesson_is_graded(tmp_path):
    for number, (files, said) in enumerate(folders_of_a_student()):
        folder = tmp_path / str(number)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        folder.mkdir(exist_ok=True)
        lessons = "01_naive_mean", LESSON
        found = submission(folder, LESSON, cells_as_released(), given(), lessons)
        ungraded = said is None or re.search("different|answers to it|can't be read:", said)
        assert ungraded or found.answers == RIGHT, files.keys()
        assert not ungraded or found is None or not found.answers, files.keys()
        told = "; ".join([*found.notes, *found.trouble]) if found else ""
        assert said in told if said else not found or not found.trouble, (said, told)


# The class ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """All forms as one class, graded by the command."""
    course = make_course(tmp_path_factory.mktemp("forms") / "course", ASSIGNMENT)
    for name in FORMS:
        folder = course / "submitted" / name / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").write_bytes(file_of(name))
        (folder / "timestamp.txt").write_text("2026-10-09 12:00:00.000000 UTC")
    asked = [sys.executable, "-m", "course_utils", "grade", ASSIGNMENT, "--enrol"]
    asked += ["--csv", "table.csv"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COURSE_PROGRESS": "off"}
    done = subprocess.run(asked, cwd=course, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr[-2000:]
    table = csv.DictReader(io.StringIO((course / "table.csv").read_text()))
    return {row["student"]: row for row in table}


@pytest.mark.full("a class whose notebooks were saved in a hundred ways")
@pytest.mark.timeout(1800)
@each_form
def test_each_form_gets_its_points_with_a_remark(rows, name):
    assert float(rows[name]["score"]) == FORMS[name].points, rows[name]["notes"]
    assert is_alike(rows[name]["notes"], FORMS[name].noted), rows[name]["notes"]
