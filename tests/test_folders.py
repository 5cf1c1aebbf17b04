"""The course in a read-only folder whose name has a blank and Chinese letters, with another folder
for temporary files. `make lab` is started like a person would, and queried like a browser."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import nbformat
import pytest

from tools import ROOT as COURSE

from .generated_class import make_course

ASSIGNMENT, LESSON = "1-averages", "01_naive_mean"
# An answer may write a file while it is graded.
ANSWER = """\
import tempfile
def naive_mean(x):
    with tempfile.TemporaryFile() as file:
        file.write(b"notes")
    return torch.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], 1)
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of this checkout, without the environment."""
    made = tmp_path_factory.mktemp("folders") / "a folder" / "课程"
    unused = (".git", ".venv", ".*_cache", "__pycache__", "site", "solutions", "tests")
    shutil.copytree(COURSE, made, ignore=shutil.ignore_patterns(*unused))
    (made / ".venv").symlink_to(sys.prefix)  # make finds an environment by this name, blanks or not
    return made


@pytest.fixture(scope="module")
def there(course):
    """Environment variables and the command that let a program see the course read-only."""
    own = course.parent / "for a while"
    own.mkdir()
    known = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
    environment = {**known, "HOME": str(own), "TMPDIR": str(own), "PYTHONPATH": str(course)}
    read_only = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(course), str(course), "--"]
    return environment, read_only if shutil.which("bwrap") else []


@pytest.fixture(scope="module")
def address(course, there):
    """The address that `make lab` prints, in the environment of these tests."""
    environment, read_only = there
    options = "--no-browser --ServerApp.port=0 --ServerApp.open_browser=False"
    server = subprocess.Popen(
        # -o: this environment is complete, whoever created it.
        [*read_only, "make", "-o", ".venv/.lab", "lab", f"ARGS={options}"],
        cwd=course,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = []
    try:
        for line in server.stdout:
            said.append(line)
            if found := re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab\S*token=\w+", line):
                yield found[0]
                break
        else:
            pytest.fail("make lab printed no address:\n" + "".join(said))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate(timeout=60)


def get(address, tries=60):
    """The page at an address, which the server prints a moment before it listens there."""
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.URLError as error:
            tries -= 1
            if tries == 0 or not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.5)


def test_the_address_is_the_start_page(address):
    assert urlsplit(address).path == "/lab/tree/notebooks/index.ipynb"
    assert "<title>JupyterLab</title>" in get(address)
    settings = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
    asked = json.loads(get(address.replace(urlsplit(address).path, settings)))
    assert asked["schema"]["properties"]["fetchNews"]["default"] == "false"


def run(there, *arguments, cwd):
    environment, read_only = there
    command = [*read_only, sys.executable, "-m", "course_utils", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_a_course_of_ones_own_and_a_class(course, there):
    done = run(there, "new", "my lessons", cwd=course.parent)
    assert done.stdout.endswith("Begin with: jupyter lab 'my lessons/index.ipynb'\n"), done.stderr
    assert (course.parent / "my lessons" / ASSIGNMENT / f"{LESSON}.ipynb").exists()
    folder = make_course(course.parent / "班", ASSIGNMENT)
    own = folder / "submitted" / "ada" / ASSIGNMENT
    own.mkdir(parents=True)
    lesson = nbformat.read(folder / "notebooks" / ASSIGNMENT / f"{LESSON}.ipynb", 4)
    cell = next(c for c in lesson.cells if "def naive_mean" in c.source)
    cell.source = ANSWER
    nbformat.write(lesson, own / f"{LESSON}.ipynb")
    done = run(there, "grade", ASSIGNMENT, "--enrol", "--csv", "table.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "ada,2.0" in (folder / "table.csv").read_text(), done.stdout
