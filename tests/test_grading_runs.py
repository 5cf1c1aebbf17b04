"""`course grade` on a small class: killed and resumed, on a full disk, unsandboxed, on Dask."""

import csv
import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader

from tools import ROOT
from whywrong_nbgrader import collecting, sandbox

from .evil_class import ALWAYS, hand_in
from .evil_kit import ATTACKS, Place
from .generated_class import DUE, PENALTY, SLOW, make_class, make_course
from .warm import Warm

pytestmark = pytest.mark.timeout(900)

ASSIGNMENT, STUDENTS = "1-averages", 8
PROGRAMS = Path(sys.executable).parent
WITHOUT_WALLS = str(PROGRAMS)  # as PATH: there is no bwrap
KILLS = 10
SOON = 60  # seconds, on a machine that is busy with other tests
FEW = ("wrong", "unreadable", "deadly")  # the honest students in the run of each commit
SHORT = {"COURSE_CELL_SECONDS": "2"}  # one attack takes as long as it may
full = pytest.mark.full("all grading runs but one")
needs_walls = pytest.mark.skipif(bool(sandbox.why_not()), reason=f"walls: {sandbox.why_not()}")


@dataclass
class Done:
    status: int
    said: str
    table: str  # CSV
    seconds: float

    @property
    def ran(self) -> int:
        (count,) = re.findall(r"^(\d+) notebooks were run\.$", self.said, flags=re.M)
        return int(count)

    @property
    def rows(self):
        return {row["student"]: row for row in csv.DictReader(self.table.splitlines())}


class Course:
    """A course folder in which the command runs; its servers are created in `tmp`."""

    enrol = ("--enrol",)

    def __init__(self, folder, warm):
        self.folder, self.warm = folder, warm
        self.tmp = Path(tempfile.mkdtemp(dir=warm.place))

    def copy(self, folder):
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns(".grading"))
        return Course(folder, self.warm)

    def environment(self, **changed):
        kept = {n: v for n, v in os.environ.items() if not n.startswith("COURSE_")}
        return kept | {
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "TMPDIR": str(self.tmp),
            "COURSE_GRADING_SEED": "the same for every run",
            "COURSE_CHECK_SECONDS": "2",  # short, but more than a right answer needs
            "COURSE_CELL_SECONDS": "20",
            "COURSE_NOTEBOOK_SECONDS": "60",
            **changed,
        }

    def start(self, *arguments, inside=(), **environment):
        typed = ["course", "grade", *arguments, *self.enrol, "--csv", "table.csv"]
        environment = self.environment(**environment)
        if not inside:
            return self.warm.start(typed, self.folder, environment)
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        how |= {"cwd": self.folder, "env": environment, "text": True, "start_new_session": True}
        return subprocess.Popen([*inside, PROGRAMS / typed[0], *typed[1:]], **how)

    def grade(self, *arguments, **how):
        begun = time.monotonic()
        (self.folder / "table.csv").unlink(missing_ok=True)
        return self.end(self.start(*(arguments or (ASSIGNMENT, "--workers", "2")), **how), begun)

    def end(self, process, begun=0.0):
        said, _ = process.communicate()
        table = self.folder / "table.csv"
        text = table.read_text() if table.exists() else ""
        return Done(process.returncode, said, text, time.monotonic() - begun)

    def kept(self):
        return len(list(self.folder.glob(".grading/results/*/[!.]*.json")))

    def wait_for(self, condition, process):
        until = time.monotonic() + SOON
        while not condition() and time.monotonic() < until and process.poll() is None:
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()[0]
        assert condition()


@pytest.fixture(scope="module")
def warm():
    # tmp_path is too long for a socket
    with tempfile.TemporaryDirectory(prefix="runs-") as place, Warm(place) as one:
        yield one


@pytest.fixture(scope="module")
def handed_in(warm, tmp_path_factory):
    """A class that has submitted but is not graded."""
    folder = make_course(tmp_path_factory.mktemp("runs") / "course", ASSIGNMENT)
    leave_out = ("right", "empty", "missing")
    students = make_class(folder, ASSIGNMENT, STUDENTS, leave_out=leave_out, short=True)
    assert {s.kind for s in students} > set(SLOW)
    return Course(folder, warm), {s.name: s for s in students}


def without(course, folder, leave_out):
    """A copy of a course without submissions of these students."""
    copied = course.copy(folder)
    for student in leave_out:
        shutil.rmtree(folder / "submitted" / student.name)
    return copied


@dataclass
class Resumed:
    """A small class with attackers, whose run was stopped with Ctrl-C and then repeated."""

    course: Course
    stopped: Done
    done: Done
    kept: int  # results that the stopped run had stored
    called: bool  # whether a submission contacted this machine meanwhile


@pytest.fixture(scope="module")
def resumed(handed_in, tmp_path_factory):
    others = [s for s in handed_in[1].values() if s.kind not in FEW]
    course = without(handed_in[0], tmp_path_factory.mktemp("resumed") / "course", others)
    alone = ASSIGNMENT, "--workers", "1"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        hand_in(Place(course.folder, course.folder / "notebooks" / ASSIGNMENT, port), ALWAYS)
        process = course.start(*alone, **SHORT)
        course.wait_for(lambda: course.kept() > 0, process)
        started = family(process)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        stopped = course.end(process)
        assert all_gone(started)
        kept = course.kept()
        done = course.grade(*alone, **SHORT)
        called = bool(select.select([listening], [], [], 0.1)[0])
    return Resumed(course, stopped, done, kept, called)


@pytest.fixture(scope="module")
def graded(handed_in, tmp_path_factory):
    """The class, graded without interruption."""
    course = handed_in[0].copy(tmp_path_factory.mktemp("graded") / "course")
    return course, course.grade()


@pytest.fixture
def course(handed_in, tmp_path):
    return handed_in[0].copy(tmp_path / "course")


@pytest.fixture(scope="module")
def soon_done(handed_in, tmp_path_factory):
    """The class without students who use up their time limits, for runs that restart repeatedly."""
    slow = [s for s in handed_in[1].values() if s.kind in SLOW]
    return without(handed_in[0], tmp_path_factory.mktemp("soon-done") / "course", slow)


@pytest.fixture(scope="module")
def undisturbed_course(soon_done, tmp_path_factory):
    course = soon_done.copy(tmp_path_factory.mktemp("undisturbed") / "course")
    return course, course.grade()


@pytest.fixture(scope="module")
def undisturbed(undisturbed_course):
    return undisturbed_course[1]


@pytest.fixture
def disturbed(soon_done, tmp_path):
    return soon_done.copy(tmp_path / "course")


def all_gone(processes):
    """Whether processes end soon."""
    return not psutil.wait_procs(processes, timeout=10)[1]


def family(process):
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def typed(process):
    """The command line of a process; empty if the process has ended."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def parent(process):
    with suppress(psutil.Error):
        return process.parent()
    return None


def is_running(process):
    with suppress(psutil.Error):
        return process.status() == psutil.STATUS_RUNNING
    return False


def assert_fair(rows, students):
    """Each student has the points and the misconceptions that a fair teacher would give."""
    assert {n: float(row["score"]) for n, row in rows.items()} == {
        n: students[n].score for n in rows
    }
    for name, row in rows.items():
        for exercise, misconception in students[name].named.items():
            assert f"{exercise}: {misconception}" in row["misconceptions"]


@needs_walls
def test_ctrl_c_ends_a_run_with_a_sentence(resumed):
    said = "Stopped. Finished results are stored: the same command goes on from there."
    warned = [line for line in resumed.stopped.said.splitlines() if "Memory is limited" not in line]
    assert (resumed.stopped.status, warned) == (2, [said])


@needs_walls
def test_a_stopped_run_continues_and_ends_with_the_points_of_a_fair_teacher(resumed, handed_in):
    done, students = resumed.done, handed_in[1]
    assert done.status == 1, done.said  # one could not be read
    honest = {n: row for n, row in done.rows.items() if n in students}
    assert sorted(students[n].kind for n in honest) == sorted(FEW)
    assert_fair(honest, students)
    assert 0 < resumed.kept and done.ran + resumed.kept == resumed.course.kept()
    assert list(resumed.course.tmp.glob("course-server-*")) == [], (
        "servers of the stopped run are left"
    )


@needs_walls
@pytest.mark.parametrize("name", ALWAYS)
def test_an_attack_gets_fair_points_and_the_instructor_gets_a_message(resumed, name):
    row, attack = resumed.done.rows[name], ATTACKS[name]
    assert attack.paid <= float(row["score"]) <= attack.points
    assert re.search(attack.told, row["notes"])
    assert not resumed.called


@needs_walls
def test_misconceptions_are_counted_without_names(resumed, handed_in):
    folder, done, students = resumed.course.folder, resumed.done, handed_in[1]
    file = folder / ".grading" / "misconceptions" / f"{ASSIGNMENT}.json"
    assert str(file.relative_to(folder)) in done.said
    text = file.read_text(encoding="utf-8")
    assert not [name for name in done.rows if name in text]
    counts = json.loads(text)
    made = [pair for n in done.rows if n in students for pair in students[n].named.items()]
    assert made
    for exercise, misconception in made:
        assert counts[exercise]["misconceptions"][misconception] >= 1
    for exercise, counted in counts.items():
        misconceptions, not_named = counted.pop("misconceptions"), counted.pop("not named")
        in_a_state = [row for row in done.rows.values() if row[exercise]]
        assert sum(counted.values()) == len(in_a_state), "each student is in one state"
        assert sum(misconceptions.values()) + not_named <= sum(counted.values())


@full
@needs_walls
def test_everybody_has_the_points_of_a_fair_teacher(handed_in, graded):
    course, done = graded
    assert done.status == 1, done.said  # one was unreadable, two were equal
    assert set(done.rows) == set(handed_in[1])
    assert_fair(done.rows, handed_in[1])
    assert list(course.tmp.glob("course-*")) == []


@full
@needs_walls
def test_a_second_run_does_nothing_and_a_resubmission_runs_alone(graded, handed_in):
    course, done = graded
    entered = {p: p.stat().st_mtime_ns for p in course.folder.glob("autograded/*/*/*.ipynb")}
    again = course.grade()
    assert (again.ran, again.table, again.status) == (0, done.table, done.status)
    assert {p: p.stat().st_mtime_ns for p in entered} == entered

    (late,) = (n for n, student in handed_in[1].items() if student.kind == "late")
    changed = course.folder / "submitted" / late / ASSIGNMENT / "01_naive_mean.ipynb"
    before = changed.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    (cell,) = (c for c in notebook.cells if c.id == "naive_mean")
    cell.source = "def naive_mean(x):\n    return x"
    nbformat.write(notebook, changed)
    worse = course.grade()
    assert worse.ran == 1
    assert {n for n in done.rows if worse.rows[n] != done.rows[n]} == {late}
    assert float(worse.rows[late]["naive_mean"]) == 0
    now = {p for p in entered if p.stat().st_mtime_ns != entered[p]}
    assert {p.parts[-3] for p in now} == {late}

    changed.write_text(before, encoding="utf-8")
    assert (course.grade(ASSIGNMENT, "--student", late).ran, course.kept()) == (0, done.ran + 1)
    for due, penalty in ((DUE.replace("2026", "2100"), 0.0), (DUE, 3 * PENALTY)):
        with Gradebook(f"sqlite:///{course.folder}/gradebook.db") as gradebook:
            gradebook.update_or_create_assignment(ASSIGNMENT, duedate=due)
        assert float(course.grade().rows[late]["late_penalty"]) == penalty
    assert course.grade().table == done.table


@full
@needs_walls
def test_killed_ten_times_and_resumed_it_ends_with_the_same_table(undisturbed, disturbed):
    course = disturbed
    draw, kept = random.Random(20_261_122), 0
    for _ in range(KILLS):
        process = course.start(ASSIGNMENT, "--workers", "2")
        time.sleep(draw.uniform(0.2, 0.8) * undisturbed.seconds)
        started = family(process)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert all_gone(started)
        assert course.kept() >= kept, "a result that was there is gone"
        kept = course.kept()
    done = course.grade()
    assert (done.table, done.status) == (undisturbed.table, undisturbed.status)
    assert done.ran + kept == undisturbed.ran == course.kept()
    with Gradebook(f"sqlite:///{course.folder}/gradebook.db") as gradebook:
        entered = gradebook.assignment_submissions(ASSIGNMENT)
        assert sorted(s.student.id for s in entered) == sorted(done.rows)
        assert all(len(s.notebooks) == 3 for s in entered)
    assert list(course.tmp.glob("course-server-*")) == [], "servers of killed runs are left"


@full
@needs_walls
def test_layers_of_killed_runs_are_removed_where_nothing_is_left_to_run(undisturbed_course):
    course, undisturbed = undisturbed_course
    left = course.tmp / "course-server-of-a-killed-run"
    left.mkdir()
    again = course.grade()
    assert (again.ran, again.table) == (0, undisturbed.table)
    assert not left.exists()


@full
@needs_walls
def test_a_killed_worker_does_no_harm_and_a_second_command_is_refused(undisturbed, disturbed):
    course = disturbed
    process = course.start(ASSIGNMENT, "--workers", "2")
    course.wait_for(lambda: course.kept() > 0, process)
    second = course.start(ASSIGNMENT)
    parents = [parent(p) for p in family(process) if "inside.server" in typed(p)]
    worker = next(p for p in parents if p and "multiprocessing" in typed(p))
    inside = worker.children(recursive=True)
    worker.kill()
    assert all_gone([worker, *inside])
    told = course.end(second)
    assert told.status == 2 and "Somebody else is grading in this folder" in told.said
    done = course.end(process)
    assert (done.table, done.status) == (undisturbed.table, undisturbed.status)


NO_PROCESSOR = """
import whywrong_nbgrader.fork_server

whywrong_nbgrader.fork_server.BACKSTOP = 0  # a notebook has not begun when its time is over
"""


@full
@needs_walls
def test_a_starved_class_is_listed_and_loses_nothing_once_the_machine_has_time(handed_in, tmp_path):
    others = [s for s in handed_in[1].values() if s.kind not in ("wrong", "late")]
    course = without(handed_in[0], tmp_path / "course", others)
    (tmp_path / "sitecustomize.py").write_text(NO_PROCESSOR)
    starved = course.grade(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert starved.status == 1 and course.kept() == 0
    for name, row in starved.rows.items():
        assert float(row["score"]) == 0 and "this machine was too busy" in row["notes"]
        assert re.search(rf"^ *{name}\b.*this machine was too busy", starved.said, flags=re.M)
    done = course.grade()
    assert done.ran == course.kept() > 0 and "too busy" not in done.said + done.table
    assert_fair(done.rows, handed_in[1])


FULL_DISK = """
mount -t tmpfs -o size=48k full .grading || exit 77
"$@"; echo "status $?"
mount -o remount,size=16m .grading
"$@"; echo "status $?"
"""


@full
@needs_walls
def test_a_full_disk_is_reported_and_grading_continues_with_free_space(undisturbed, disturbed):
    course = disturbed
    (course.folder / ".grading").mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FULL_DISK, "bash"]
    done = course.grade(ASSIGNMENT, "--workers", "2", inside=alone)
    if done.status == 77 or not shutil.which("unshare") or "unshare failed" in done.said:
        pytest.skip("no disk that is full can be made as this user")
    first, second = re.split(r"^status \d+\n", done.said, flags=re.M)[:2]
    assert re.findall(r"^status (\d+)$", done.said, flags=re.M) == ["2", str(undisturbed.status)]
    assert "can't be written: No space left on device" in first
    assert "Traceback" not in done.said
    ran = Done(0, second, "", 0).ran
    assert 0 < ran < undisturbed.ran
    assert done.table == undisturbed.table


@contextmanager
def dask(*arguments, **how):
    typed = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    how |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(typed, **how)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@full
@needs_walls
def test_workers_of_another_machine_give_the_same_table(undisturbed, disturbed):
    course = disturbed
    address = f"tcp://127.0.0.1:{free_port()}"
    alone = {"env": course.environment(), "cwd": course.tmp}
    with (
        dask("dask_scheduler", "--host", address, "--no-dashboard", **alone),
        dask("dask_worker", address, "--nthreads", "1", "--no-dashboard", **alone) as worker,
    ):
        process = course.start(ASSIGNMENT, "--scheduler", address)
        servers = []

        def seen():
            servers[:] = [p for p in family(process) if "inside.server" in typed(p)]
            return course.kept() > 0

        course.wait_for(seen, process)
        done = course.end(process)
        assert servers == []
        assert worker.poll() is None
        left = family(worker)
    assert (done.table, done.status) == (undisturbed.table, undisturbed.status)
    assert done.ran == undisturbed.ran
    assert all_gone(left)


@full
@needs_walls
def test_it_runs_where_temporary_files_have_a_long_name(graded, course, handed_in):
    """The name is too long for a socket, which workers need if they are forks."""
    (alone,) = (n for n, student in handed_in[1].items() if student.kind == "late")
    deep = course.tmp / ("x" * 90)
    deep.mkdir()
    done = course.grade(ASSIGNMENT, "--student", alone, "--workers", "1", TMPDIR=str(deep))
    assert done.status == 1  # it is the published solution
    assert done.rows[alone] == graded[1].rows[alone]


@full
def test_a_missing_scheduler_is_reported_quickly(course):
    done = course.grade(ASSIGNMENT, "--scheduler", f"tcp://127.0.0.1:{free_port()}")
    assert done.status == 2 and "does not answer" in done.said
    assert "Traceback" not in done.said and done.seconds < SOON


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["9-nothing"], "The gradebook has no assignment 9-nothing"),
        ([ASSIGNMENT, "--student", "nobody"], "nobody has not submitted 1-averages"),
    ],
)
def test_missing_things_are_reported_with_a_remedy(course, arguments, said):
    done = course.grade(*arguments)
    assert done.status == 2 and said in done.said and "nbgrader" in done.said
    assert done.table == "" and "Traceback" not in done.said


def test_an_error_in_the_settings_is_named_with_its_line(course):
    (course.folder / "own_config.py").write_text("c = get_config()\nc.Exchange.root = mine\n")
    done = course.grade()
    assert done.status == 2 and "Traceback" not in done.said
    assert "'mine' is not defined (own_config.py, line 2)" in done.said


def test_an_extension_of_no_due_date_is_reported(course):
    with Gradebook(f"sqlite:///{course.folder}/gradebook.db") as gradebook:
        gradebook.update_or_create_assignment(ASSIGNMENT, duedate=None)
        gradebook.update_or_create_student("ada")
    page = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
    (typed,) = re.findall("^python .*grant_extension.*", page, re.M)
    subprocess.run(shlex.split(typed), cwd=course.folder, env=course.environment(), check=True)
    done = course.grade()
    assert done.status == 2 and "ada has an extension, but 1-averages has no due" in done.said


def test_without_a_sandbox_it_stops_at_once_and_names_the_choices(course):
    assert shutil.which("bwrap", path=WITHOUT_WALLS) is None
    stopped = course.grade(ASSIGNMENT, PATH=WITHOUT_WALLS)
    assert stopped.status == 2 and course.kept() == 0
    for choice in ("apt install bubblewrap", "container", "--trust-submissions"):
        assert choice in stopped.said


@full
def test_trusted_submissions_are_marked_as_such_everywhere(course, handed_in):
    (alone,) = (n for n, student in handed_in[1].items() if student.kind == "late")
    arguments = [ASSIGNMENT, "--student", alone, "--workers", "1", "--trust-submissions"]
    done = course.grade(*arguments, PATH=WITHOUT_WALLS)
    assert (done.status, set(done.rows)) == (1, {alone}), done.said
    assert float(done.rows[alone]["score"]) == handed_in[1][alone].score
    assert done.rows[alone]["tier"] == "trusted"
    made = sorted(course.folder.glob(f"autograded/{alone}/*/*.ipynb"))
    tiers = [nbformat.read(path, as_version=4).metadata["course"]["tier"] for path in made]
    assert tiers == ["trusted"] * 3


@full
def test_trusted_or_not_an_endless_answer_ends_with_its_killed_run(course, handed_in):
    (endless,) = (n for n, student in handed_in[1].items() if student.kind == "endless")
    arguments = [ASSIGNMENT, "--student", endless, "--workers", "1", "--trust-submissions"]
    process = course.start(*arguments, COURSE_CHECK_SECONDS="600", COURSE_NOTEBOOK_SECONDS="900")

    def busy():
        return any("inside.server" in typed(p) and is_running(p) for p in family(process))

    course.wait_for(busy, process)
    time.sleep(3)
    started = family(process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert all_gone(started)


def test_these_tests_leave_no_room_behind():
    """The folders of killed runs are elsewhere; the usual place has none."""
    assert not list(Path(tempfile.gettempdir()).glob("course-making-*"))


@full
@needs_walls
def test_new_names_and_doubtful_submissions_are_listed(course, handed_in, monkeypatch):
    """Ben's files are Eve's, Eve's time is a lie, Kim gives none, and Ad is unknown."""
    (one,) = (n for n, student in handed_in[1].items() if student.kind == "late")
    inbound = course.folder / "exchange" / "averages-to-transformers" / "inbound"
    now, before = datetime.now(UTC), datetime.now(UTC) - timedelta(hours=3)
    for name, claimed in {"ada": now, "ben": now, "eve": before, "kim": "", "ad": now}.items():
        folder = inbound / f"{name}+{ASSIGNMENT}+{now:%Y-%m-%d %H:%M:%S.%f} UTC"
        shutil.copytree(course.folder / "submitted" / one / ASSIGNMENT, folder)
        (folder / "timestamp.txt").write_text(str(claimed))
    shutil.rmtree(course.folder / "submitted")
    with Gradebook(f"sqlite:///{course.folder}/gradebook.db") as gradebook:
        for name in ("ada", "ben", "eve", "kim"):
            gradebook.update_or_create_student(name)
    owner = re.compile(r"inbound/(\w+)")  # only root could give files away
    monkeypatch.setattr(
        collecting, "_account", lambda path: owner.search(str(path))[1].replace("ben", "eve")
    )
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course.folder)).load_config()
    config.CourseDirectory.root, config.Exchange.root = str(course.folder), str(inbound.parents[1])
    directory = CourseDirectory(config=config, assignment_id=ASSIGNMENT)
    collecting.CollectFiles(coursedir=directory, config=config).start()
    course.enrol = ()
    done = course.grade()
    assert done.status == 1
    notes = {name: row["notes"] for name, row in done.rows.items()}
    assert "its files belong to eve, not to ben" in notes["ben"]
    assert "an earlier time" in notes["eve"]
    assert "has no valid time" in notes["kim"]
    add = f"course grade {ASSIGNMENT} --student ad --enrol"
    assert add in notes["ad"] and float(done.rows["ad"]["score"]) == 0
    assert not re.search("belong|it says|timestamp|gradebook", notes["ada"])
    added = course.grade(*add.split()[2:])
    assert float(added.rows["ad"]["score"]) == float(done.rows["ada"]["score"]) > 0
    assert "gradebook" not in added.rows["ad"]["notes"] and added.ran == 0
