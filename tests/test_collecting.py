"""Collecting from a real exchange folder: whose submission counts, and of which time."""

import copy
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.zipcollectapp import ZipCollectApp
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from tools import ROOT, SOLUTIONS
from whywrong_nbgrader import collecting
from whywrong_nbgrader.collecting import CollectFiles, doubts
from whywrong_nbgrader.names import submitted_at

SETTINGS = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
ASSIGNMENT, OTHER = "1-averages", "2-single-head"
LINE_END = "a\nb"


class Course:
    """A course folder with its exchange folder; accounts own what they submitted."""

    def __init__(self, folder: Path) -> None:
        self.config = copy.deepcopy(SETTINGS)
        self.config.CourseDirectory.root = str(folder)
        self.config.CourseDirectory.course_id = "averages"
        self.config.Exchange.root = str(folder / "exchange")
        self.inbound = folder / "exchange" / "averages" / "inbound"
        self.submitted = folder / "submitted"
        self.accounts: dict[str, str] = {}
        self.inbound.mkdir(parents=True)
        self.inbound.parents[1].chmod(0o777)

    def submit(self, student, day=1, account="", stamp=None, to=ASSIGNMENT, time=None):
        """A submission on a day of October; its files contain the account's name."""
        time = time or f"2026-10-{day:02} 12:00:00.000000 UTC"
        folder = self.inbound / f"{student}+{to}+{time}"
        folder.mkdir()
        (folder / "01_naive_mean.ipynb").write_text(account or student)
        if stamp != "":
            (folder / "timestamp.txt").write_text(stamp or time)
        self.accounts[folder.name] = account or student
        return folder

    def collect(self, **settings):
        """What a person is told of each name."""
        self.config.CollectFiles.merge(settings)
        directory = CourseDirectory(config=self.config, assignment_id=ASSIGNMENT)
        CollectFiles(coursedir=directory, config=self.config).start()
        said, noted = doubts(directory), doubts(directory, "noted")
        return {name: "; ".join([*said[name], *noted.get(name, ())]) for name in said}

    def author(self, student):
        return (self.submitted / student / ASSIGNMENT / "01_naive_mean.ipynb").read_text()

    def time(self, student):
        return submitted_at(self.submitted / student / ASSIGNMENT)


CHANGED = "but it changed on"  # all of them were made now


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    made = tmp_path_factory.mktemp("empty") / "gradebook.db"
    with Gradebook(f"sqlite:///{made}"):
        return made


@pytest.fixture
def course(tmp_path, gradebook, monkeypatch):
    made = Course(tmp_path)
    shutil.copy(gradebook, tmp_path)

    def account(path):
        parts = Path(path).parts
        return made.accounts.get(next((p for p in parts if p in made.accounts), ""), "teacher")

    monkeypatch.setattr(collecting, "_account", account)  # only root can give files away
    return made


def test_another_account_never_replaces_a_submission(course):
    course.submit("ada", 1, "ada-l")
    course.submit("ada", 5, "eve")
    said = course.collect()
    assert course.author("ada") == "ada-l"
    assert "the account eve also submitted under this name, on 05 October 12:00" in said["ada"]
    course.submit("ada", 3, "ada-l")
    course.collect(update=True)
    assert course.time("ada").day == 3, "a later one of her own does"
    assert course.author("ada") == "ada-l"


def test_the_account_of_another_assignment_or_of_the_settings_is_a_student_s_own(course):
    course.submit("ada", 1, "ada-l", to=OTHER)
    course.submit("ada", 2, "eve")
    course.submit("ada", 3, "ada-l")
    course.collect()
    assert course.author("ada") == "ada-l"
    course.collect(update=True, accounts={"ada": "eve"})
    assert course.author("ada") == "eve"


def test_one_account_may_submit_for_everybody(course):
    for day, student in enumerate(("root", "ben"), 1):  # the first is an account of any machine
        course.submit(student, day, "gateway")
    assert "belong to gateway, not to root" in course.collect()["root"]
    again = course.collect(update=True, accounts={"*": "gateway"})
    course.submit("root", 3, "gateway")
    again = course.collect(update=True)
    assert "belong" not in again["root"] and course.time("root").day == 3


@pytest.mark.parametrize(
    ("stamp", "counts", "said"),
    [
        ("", 2, "no valid time"),
        ("soon", 2, "no valid time"),
        ("2026-10-01 12:00:00 UTC", 2, "an earlier time, 01 October"),
        ("2026-10-04 12:00:00 UTC", 4, ""),
        (None, 2, ""),
    ],
)
def test_the_time_of_a_folder_counts_where_its_file_has_none(course, stamp, counts, said):
    course.submit("ada", 2, stamp=stamp)
    told = course.collect()["ada"]
    assert course.time("ada").day == counts
    assert said in told and ("timestamp.txt" in told) == bool(said) and CHANGED in told


def test_what_is_submitted_now_is_not_doubtful(course):
    now = datetime.now(UTC)
    course.submit("ada", time=f"{now:%Y-%m-%d %H:%M:%S.%f} UTC")
    course.submit("ben", time=f"{now - timedelta(hours=3):%Y-%m-%d %H:%M:%S.%f} UTC")
    said = course.collect()
    assert said["ada"] == "" and CHANGED in said["ben"]


HOSTILE = (
    "=HYPERLINK(1)",
    "<img src=x onerror=evil()>",
    "a'b",
    LINE_END,
    "-rf",
    ".hidden",
    "a\u202eb",
)


def test_a_name_that_could_do_harm_is_refused_and_listed(course):
    for name in (*HOSTILE, "ada+b"):
        course.submit(name)
    said = course.collect()
    for name in HOSTILE:
        assert "can't be a student's name" in said[name], name
    assert [path.name for path in course.submitted.iterdir()] == ["ada+b"]


def test_a_submission_that_can_t_be_collected_is_listed(course):
    course.submit("ada", time="yesterday")
    course.submit("ben").joinpath("holes.bin").touch()
    os.truncate(next(course.inbound.glob("ben*/holes.bin")), 2**40)
    (course.inbound / f"eve+{ASSIGNMENT}+2026-10-01 12:00:00 UTC").symlink_to("/etc")
    said = course.collect()
    assert "its name has no valid time" in said["ada"]
    assert "could not be collected (it is too large)" in said["ben"]
    assert "could not be collected (it is a link)" in said["eve"]
    for folder in course.inbound.glob("ada*"):
        folder.rename(folder.with_name(folder.name.replace("yesterday", "2026-10-01 12:00:00 UTC")))
    assert "is not collected" not in course.collect()["ada"]


def test_files_named_as_canvas_and_moodle_do_are_collected(course, tmp_path, monkeypatch):
    archive = tmp_path / "downloaded" / ASSIGNMENT / "archive"
    for name in (
        "lovelaceada_4711_90210_01_naive_mean.ipynb",
        "lovelaceada_4711_90211_03_softmax_masking-1.ipynb",
        "liben_LATE_12_90212_all.zip",
        "Eve Ng_77_assignsubmission_file/01_naive_mean.ipynb",
        "Kim_78_assignsubmission_file_01_naive_mean.IPYNB",
        "Lou_79_assignsubmission_file/01_naive_mean.qmd",
        "Mia_80_assignsubmission_file/01_naive_mean.pdf",
    ):
        (archive / name).parent.mkdir(parents=True, exist_ok=True)
        (archive / name).write_text("{}")
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    command = ZipCollectApp()
    command.initialize([ASSIGNMENT])
    command.start()
    found = {str(p.relative_to(course.submitted)) for p in course.submitted.rglob("*.*")}
    assert found == {
        f"4711/{ASSIGNMENT}/01_naive_mean.ipynb",
        f"4711/{ASSIGNMENT}/03_softmax_masking-1.ipynb",
        f"12/{ASSIGNMENT}/all.zip",
        f"77/{ASSIGNMENT}/01_naive_mean.ipynb",
        f"78/{ASSIGNMENT}/01_naive_mean.IPYNB",
        f"79/{ASSIGNMENT}/01_naive_mean.qmd",
        f"80/{ASSIGNMENT}/01_naive_mean.pdf",
    }


NO_GRADEBOOK = "The gradebook can't be used (file is not a database): restore it from a backup."


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("export", NO_GRADEBOOK),
        (f"generate_assignment {ASSIGNMENT}", NO_GRADEBOOK),
        (f"autograde {ASSIGNMENT}", "There are no notebooks in"),
        (f"release_feedback {ASSIGNMENT}", f"nbgrader generate_feedback {ASSIGNMENT}"),
    ],
)
def test_no_command_of_nbgrader_ends_with_a_traceback_or_without_a_word(course, typed, said):
    folder = course.submitted.parent
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(SOLUTIONS / ASSIGNMENT, folder / "solutions" / ASSIGNMENT)
    (folder / "own_config.py").write_text(f"c.Exchange.root = {str(folder / 'exchange')!r}")
    (folder / "gradebook.db").write_text("no database " * 100)
    command = [sys.executable, "-m", "nbgrader", *typed.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said in done.stderr and "raceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 4
