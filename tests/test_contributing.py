"""CONTRIBUTING: each command can be typed as printed, and each path that it names exists."""

import os
import re
import shlex
import subprocess

import pytest

from tools import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROGRAMS = ("make ", "python", "pytest", "jupytext", ".venv/", "grep ")
# What the author puts in; everything else is typed as it stands.
PUT_IN = {
    "solutions/ASSIGNMENT/LESSON.ipynb": "solutions/1-averages/01_naive_mean.ipynb",
    "solutions/1-averages/04_next.ipynb": "solutions/1-averages/01_naive_mean.ipynb",
    "EXERCISE": "naive_mean_shapes",
    "--seeds 100": "--seeds 1",
    "course.py checks": "course.py checks naive_mean",
}


def split():
    """The lines of blocks without a language, and the prose between all blocks."""
    prose, typed, language = [], [], None
    for line in TEXT.splitlines():
        if line.strip().startswith("```"):
            language = line.strip()[3:] if language is None else None
        elif language is None:
            prose.append(line)
        elif not language:
            typed.append(line.split(" #")[0].strip())
    return typed, re.sub("``.+?``", "", "\n".join(prose))  # a span with backticks of its own


TYPED, PROSE = split()


def commands():
    quoted = [" ".join(words.split()) for words in re.findall(r"`([^`]+)`", PROSE)]
    return [*dict.fromkeys(c for c in [*TYPED, *quoted] if c.startswith(PROGRAMS))]


MAKE = [c for c in commands() if c.startswith("make ")]
# All but the one that trains for minutes.
OTHERS = [c for c in commands() if c not in MAKE and "loss_so_far" not in c]


def test_commands_are_found():
    assert len(MAKE) >= 8 and len(OTHERS) >= 8


@pytest.mark.parametrize("command", MAKE)
def test_make_knows_the_target(command):
    dry = ["make", "-n", "-o", ".venv/.test", "-o", ".venv/.lab", *shlex.split(command)[1:]]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_python_is_the_environments():
    assert [c for c in OTHERS if not c.startswith((".venv/bin/", "grep "))] == []


def test_every_path_exists():
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`|\]\(([\w./-]+)\)", PROSE)
    paths = {a or b for a, b in named if "9-own" not in a}
    paths -= {"ASSIGNMENT/LESSON/", ".grading/misconceptions/"}  # an author's, and a class's
    rooms = [ROOT, *(ROOT / name for name in ("course_utils", "exercises", "tests", "site"))]
    assert [p for p in sorted(paths) if not any((r / p).exists() for r in rooms)] == []


@pytest.mark.full("the commands of CONTRIBUTING")
@pytest.mark.timeout(900)
def test_each_command_runs_as_printed(tmp_path):
    course = tmp_path / "course"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(course)], check=True)
    (course / ".venv").symlink_to(ROOT / ".venv")
    failed = {}
    for command in OTHERS:
        typed = command
        for blank, put_in in PUT_IN.items():
            typed = typed.replace(blank, put_in)
        options = {"shell": True, "cwd": course, "capture_output": True, "text": True}
        done = subprocess.run(typed, **options, env={**os.environ, "COURSE_PROGRESS": "off"})
        if done.returncode and not (typed.startswith("grep ") and not done.stderr):
            failed[typed] = done.stdout[-1000:] + done.stderr[-1000:]
    assert failed == {}
