"""Right answers get their points whatever they were saved with, and students can look before."""

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache

import pytest
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory

from course_utils.__main__ import main
from whywrong_nbgrader import reading, submissions
from whywrong_nbgrader.cells import nbgrader_metadata, without_hidden_tests
from whywrong_nbgrader.helper import Helper, TooMuch
from whywrong_nbgrader.outputs import clean_outputs
from whywrong_nbgrader.reading import Unreadable, parsed
from whywrong_nbgrader.restoring import Released, restore

from .generated_class import make_course
from .saved_forms import FORMS, LESSON, RIGHT, dumps, file_of, grade_id, is_alike, released, solved

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
def test_what_can_be_read_is_restored_with_its_answers(name):
    try:
        found = parsed(file_of(name))
    except Unreadable as error:
        assert FORMS[name].points == 0 and is_alike(str(error), FORMS[name].noted)
        return
    made, noticed = restore(found.cells, cells_as_released(), given())
    checks = [cell.checks for cell in made if cell.checks]
    assert sorted(checks) == sorted(n[6:] for n in cells_as_released() if n.startswith("check-"))
    said = "; ".join([*found.notes(), found.broken, *noticed])
    if "compile" not in FORMS[name].noted:
        assert is_alike(said, FORMS[name].noted)
    if FORMS[name].points == 6:  # each check runs after the answer, and not after a stub
        for exercise in RIGHT:
            at = next(n for n, cell in enumerate(made) if cell.checks == exercise)
            before = [c.source for c in made[:at] if f"def {exercise}(" in c.source]
            assert before and "..." not in before[-1].split("\n")[-1]


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
        alone.close()


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
        assert (submissions.submitted_at(tmp_path) is not None) == valid, content[:30]
    stamp.unlink()
    for name in ("timestamp.txt", "submission_secret.txt"):
        (tmp_path / name).mkdir()
    assert submissions.submitted_at(tmp_path) is None and submissions.secret_of(tmp_path) == ""
    assert submissions.is_a_name("smith[2]") and submissions.is_a_name("*")
    for name in ("", ".", "..", ".hidden", "a\nb", "x" * 300, "a/b", "\x1b[2J"):
        assert not submissions.is_a_name(name)


def test_a_name_is_no_pattern(tmp_path):
    submissions.be_careful()
    for student in ("*", "[a-z]*", "ada", "smith[2]"):
        folder = tmp_path / "submitted" / student / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").touch()
    course = CourseDirectory(root=str(tmp_path), assignment_id=ASSIGNMENT)
    for student, number in (("smith[[]2]", 1), ("[[]a-z]*", 1), ("[*]", 1), ("*", 4)):
        course.student_id = student
        converter = Autograde(coursedir=course)
        converter.init_notebooks()
        assert len(converter.assignments) == number
        for place, (notebook,) in converter.assignments.items():
            assert notebook == f"{place}/{LESSON}.ipynb"


def test_a_very_deep_folder_is_reported_and_left_alone(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    assert "too much in it" in str(submissions.strange_in(tmp_path))
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_work_that_is_not_where_it_is_graded_is_named(tmp_path):
    (tmp_path / "below").mkdir()
    notebook = file_of("as-it-should-be")
    places = ("below/03.ipynb", "03.IPYNB", "03.ipynb.txt", "notes.txt", "mine.json", "all.zip")
    for name in places:
        (tmp_path / name).write_bytes(notebook)
    for name in ("timestamp.txt", "helper.py", f"{LESSON}.ipynb"):
        (tmp_path / name).write_text("x")
    said = submissions.not_read_in(tmp_path, [LESSON])
    assert sorted(line.split()[0] for line in said) == sorted(places)


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
    asked = [sys.executable, "-m", "course_utils", "grade", ASSIGNMENT, "--csv", "table.csv"]
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
