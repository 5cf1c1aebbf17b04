"""Tools for attacks on grading: a student's submission, and the list of attacks.

The attacks are in evil_limits.py, evil_verdicts.py and evil_files.py; evil_class.py is the class
that submits them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell

from .nbgrader_class import ASSIGNMENT, FULL, Notebook

ONE, THREE = "01_naive_mean", "03_softmax_masking"
QUIZ, MEAN = "naive_mean_shapes", "naive_mean"
ALL = sum(points for lesson in FULL.values() for points in lesson.values())
ONLY_QUIZ, QUIZ_AND_MEAN = FULL[ONE][QUIZ], FULL[ONE][QUIZ] + FULL[ONE][MEAN]
STOPPED = r"still running after [\d.]+ seconds"


@dataclass(frozen=True)
class Place:
    """The environment of an attacker."""

    course: Path  # the course's folder, which attackers are assumed to know
    released: Path  # the released lessons
    port: int  # of this machine, at which the test listens; it must receive nothing


class Hand:
    """One student's submission, with methods to change it."""

    def __init__(self, place: Place, student: str) -> None:
        self.place = place
        self.folder = place.course / "submitted" / student / ASSIGNMENT
        self.folder.mkdir(parents=True)
        (self.folder / "timestamp.txt").write_text("2026-01-05 09:00:00.000000 UTC")
        self.opened: list[Notebook] = []

    def lesson(self, name: str = ONE) -> Notebook:
        """A lesson without its texts and demonstrations, to be written at the end."""
        notebook = Notebook(self.place.released / f"{name}.ipynb")
        notebook.path = self.folder / f"{name}.ipynb"
        notebook.delete_demonstrations()
        notebook.content.cells = [c for c in notebook.content.cells if c.cell_type == "code"]
        self.opened.append(notebook)
        return notebook

    def quiz_done(self) -> Notebook:
        notebook = self.lesson()
        notebook.solve(QUIZ)
        return notebook

    def cell(self, source: str, answer: str = "") -> Notebook:
        """The quiz is right, and a cell follows the imports."""
        notebook = self.quiz_done()
        put_after_imports(notebook, source)
        if answer:
            notebook.write(MEAN, dedent(answer).strip())
        return notebook

    def answer(self, source: str) -> Notebook:
        """The quiz is right, and this is submitted as the mean."""
        return self.cell("", source)

    def file(self, content: bytes, name: str = f"{ONE}.ipynb") -> None:
        (self.folder / name).write_bytes(content)

    def finish(self) -> None:
        for notebook in self.opened:
            text = nbformat.writes(notebook.content)
            half = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
            notebook.path.write_text(half, encoding="utf-8")


def put_after_imports(notebook: Notebook, source: str) -> None:
    if source:
        cells = notebook.content.cells
        (place,) = [i for i, c in enumerate(cells) if c.source.startswith("import torch\n")]
        own = new_code_cell(dedent(source).strip(), id=f"own-{len(cells)}")
        cells.insert(place + 1, own)


@dataclass(frozen=True)
class Attack:
    """An attack by one submission, and the required outcome."""

    make: Callable[[Hand], Any]  # writes the submission
    held_by: str  # what must stop it: "limits", "walls", "verdicts", "files" or "pages"
    points: float  # the maximum that it may get of the assignment's points
    said: str  # a pattern that must match on some feedback page of its author
    told: str  # one that must match in the instructor's table; empty for an ordinary wrong answer
    own: bool  # its author knows the code that it attacks
    before: bool  # whether stock nbgrader can run it without harm
    paid: float  # the minimum that it must get, for right answers without tampering

    @property
    def student(self) -> str:
        return self.make.__name__.replace("_", "-")

    @property
    def tries(self) -> str:
        return " ".join((self.make.__doc__ or "").split())


ATTACKS: dict[str, Attack] = {}


def attack(
    held_by: str,
    points: float = ONLY_QUIZ,
    said: str = "naive_mean: not",
    told: str = "",
    own: bool = False,
    before: bool = False,
    paid: float = 0.0,
) -> Callable[[Callable[[Hand], Any]], Callable[[Hand], Any]]:
    """Registers the decorated function as an attack; the arguments are those of `Attack`."""

    def known(make: Callable[[Hand], Any]) -> Callable[[Hand], Any]:
        made = Attack(make, held_by, points, said, told, own, before, paid)
        assert made.student not in ATTACKS
        ATTACKS[made.student] = made
        return make

    return known


# A notebook's process communicates through one socket; an attack can find the code that replies.
FIND = """
import json, os, socket, stat, struct, sys, threading, time, types
def frames():
    for frame in sys._current_frames().values():
        while frame:
            yield frame
            frame = frame.f_back
server = next(f.f_globals for f in frames() if "_watch_over" in f.f_globals)
def is_socket(fd):
    try: return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError: return False
line = socket.socket(fileno=os.dup(next(filter(is_socket, range(3, 64)))))
def token():
    for frame in frames():
        if frame.f_code.co_name == "_run" and "asked" in frame.f_locals:
            return frame.f_locals["asked"]["token"]
def frame(words, data=b""):
    said = words if isinstance(words, bytes) else json.dumps({"token": token()} | words).encode()
    return struct.pack("<IQ", len(said), len(data)) + said + data
def safetensors(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data
def facts(values):
    return {"__metadata__": {"facts": json.dumps(values)}}
"""


def forging(hand: Hand, source: str, answer: str = "def naive_mean(x):\n    return x") -> None:
    hand.cell(dedent(FIND).strip() + "\n" + dedent(source).strip(), answer)
