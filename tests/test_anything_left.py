"""Whatever a student leaves, grading a class reads it in bounded time and memory.

    python -m tests.test_anything_left 3600 100

tries other inputs for 3600 seconds, from input 100 on, and prints those that go beyond the bounds.
"""

import copy
import json
import os
import random
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
from nbformat import current_nbformat_minor, from_dict
from nbgrader.converters import GenerateFeedback
from traitlets.config import PyFileConfigLoader

from tools import ROOT
from whywrong_nbgrader import classroom, collecting, flags, names, submissions
from whywrong_nbgrader.helper import TooMuch, helper
from whywrong_nbgrader.notebooks import MOST_ALTOGETHER, MOST_OUTPUTS, Times
from whywrong_nbgrader.preprocessors import as_notebook
from whywrong_nbgrader.results import Settings
from whywrong_nbgrader.sandbox import SANDBOX

from .saved_forms import LESSON, code, solved
from .test_saved_forms import cells_as_released, given

INPUTS = 12
CELLS = 30  # that have outputs; together, they stay within a notebook's limits
SECONDS, MEMORY = 1.0, 100 * 2**20  # of this process, for each step
# What parsers and patterns may take quadratic time for, in many places or one in another.
TOKENS = [
    *"[](){}*_`$<>&|#~!:;=\\'\"\n \t\r\0x0-.@,/",
    *("<b>", "</b>", "<p>", "<!--", "-->", "&#x", "&lt;", "\\begin{a}", "\\frac", "\x1b[1m"),
    *("\x1b[38;5", "\x1b]", "![a](", "](", "**", "$$", "```", "\n>", "\n- ", "\n    ", "| a |\n|-"),
    *("def f(", "lambda:", "f'{", '"""', "### BEGIN HIDDEN TESTS\n", "<<<<<<<", "{}", "{},", "[],"),
    *(
        "\N{REPLACEMENT CHARACTER}",
        "\ud800",
        "\u202e",
        "\N{GRINNING FACE}",
        "e\u0301",
        "ﬃ",
        "\ufeff",
    ),
    *('"cells": [', "<table><tr>", "<style>", "<a href='x'", " style='margin:", "data:image/png,"),
]

DEEP = "a list in a list"  # and so on


class Draw(random.Random):
    """Draws what students could leave."""

    def size(self, most: int) -> int:
        return int(most ** self.random())

    def text(self, most: int) -> str:
        """Few tokens, very often."""
        parts, left = [], self.size(most)
        while left > 0 and len(parts) < 5:
            one = "".join(self.choices(TOKENS, k=self.randint(1, 3)))
            parts.append(one * (1 + self.size(left) // len(one)))
            left -= len(parts[-1])
        return "".join(parts)[:most]

    def data(self, most: int) -> bytes:
        return self.text(most).encode("utf-8", self.choice(["surrogatepass", "replace"]))

    def value(self, most: int):
        """A value that no notebook has in this place."""
        number = self.size(most // 4)
        return self.choice(
            [
                *(None, -1, 1e400, 10 ** self.size(4000), True, DEEP, self.text(most)),
                *([{}] * number, [[]] * number, [self.text(50)] * (number // 20)),
                {str(n): self.text(9) for n in range(number // 20)},
            ]
        )

    def notebook(self, most: int = 300_000) -> bytes:
        """A lesson with strange values in it, whose bytes may be damaged, too."""
        made = copy.deepcopy(solved())
        for _ in range(self.randint(0, 3)):
            place = made
            while True:
                keys = [*place] if isinstance(place, dict) else [*range(len(place))]
                key = self.choice(keys) if keys else None
                if key is None or self.random() < 0.3 or not isinstance(place[key], dict | list):
                    break
                place = place[key]
            if key is not None:
                place[key] = self.value(most)
        with_texts = [{"cell_type": "markdown", "metadata": {}, "source": self.text(most)}]
        made_cells = made.get("cells") if isinstance(made, dict) else None
        if isinstance(made_cells, list):
            made_cells += [*with_texts, code("") | {"source": self.text(most)}]
        data = json.dumps(made).encode() if self.random() < 0.9 else self.data(most)
        data = data.replace(f'"{DEEP}"'.encode(), b"[" * (deep := self.size(most)) + b"]" * deep)
        for _ in range(self.choice([0, 0, 1, 5])):
            at, by = self.randrange(len(data) + 1), self.data(self.choice([4, 4000]))
            data = data[:at] + by + data[at + self.choice([0, len(by), 5000]) :]
        return data

    def outputs(self, most: int = 200_000) -> list:
        """The outputs of a cell, as the sandbox could send them."""
        kinds = [
            lambda: {"output_type": "stream", "name": "stdout", "text": self.text(most)},
            lambda: {"output_type": "display_data", "data": {"text/html": self.text(most)}},
            lambda: {"output_type": "execute_result", "data": {"text/plain": self.text(most)}},
            lambda: {"output_type": "error", "ename": self.text(99), "traceback": [self.text(999)]},
            lambda: self.value(most),
        ]
        return [self.choice(kinds)() for _ in range(self.randint(1, 6))] * self.choice([1, 40])

    def folder(self, place: Path) -> Path:
        """A submission under some name."""
        name = self.text(200).replace("/", "").replace("\0", "").encode("utf-8", "replace")[:250]
        folder = Path(os.fsdecode(os.fsencode(place) + b"/" + (name.strip(b".") or b"*")))
        folder.mkdir()
        for special in ("timestamp.txt", "submission_secret.txt"):
            path, kind = folder / special, self.random()
            if kind < 0.2:
                path.mkdir()
            elif kind < 0.3:
                os.mkfifo(path)
            elif kind < 0.4:
                path.symlink_to("/dev/zero")
            else:
                path.write_bytes(self.choice([self.data(2_000_000), b"2026-10-09 12:00:00 UTC"]))
        (folder / f"{LESSON}.ipynb").write_bytes(self.notebook())
        at = folder
        for _ in range(self.size(60)):
            at = at / "d"
            at.mkdir()
        for number in range(self.size(300)):
            (at / f"{number}{self.choice(['.ipynb', '.txt', '.zip', ''])}").write_bytes(b"{")
        return folder


@cache
def feedback():
    """nbgrader's exporter of feedback pages, as this course sets it."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    made = GenerateFeedback(config=config)
    exporter = made.exporter_class(parent=made, config=made.config)
    for step in made.preprocessors[1:]:  # the first reads the gradebook
        exporter.register_preprocessor(step)
    return exporter


def steps(draw: Draw, place: Path):
    """What the process does with a submission, step by step."""
    folder = draw.folder(place)
    lessons = {LESSON: (cells_as_released(), given())}
    settings = Settings("secret", SANDBOX, Times())
    found: list = []

    def read():
        found.extend(classroom._of(folder.name, folder, lessons, settings))
        return [str(names.secret_of(folder)), *map(flags.answers, found)]

    def collect():
        taken = place / "taken"
        collecting._take(folder, taken, 10**9)
        lost = [submissions.unreadable(path) for path in taken.glob("*.ipynb")]
        return [
            lost,
            collecting._stamped(taken, collecting.datetime.max),
            *collecting._back_dated(str(folder), collecting.datetime.max),
        ]

    def show():
        made = as_notebook(
            submissions.restored(folder / f"{LESSON}.ipynb", cells_as_released(), given())
        )
        assert made.nbformat_minor <= current_nbformat_minor  # no later format than Jupyter's own
        for cell in made.cells:
            if "nbgrader" in cell.metadata:
                cell.metadata.nbgrader |= {"score": 1.0, "points": 1.0, "comment": None}
        for cell in made.cells[:CELLS]:
            if cell.cell_type == "code":
                cell.execution_count, cell.outputs = 1, from_dict(kept)
        about = {"late_penalty": 0, "max_score": 1, "score": 1, "notebook": LESSON}
        return feedback().from_notebook_node(made, {"nbgrader": about})

    yield "read", read
    yield "collect", collect
    try:
        kept = helper().ask("outputs", draw.outputs())[: MOST_OUTPUTS // CELLS]
    except TooMuch:
        kept = []
    kept = kept if len(json.dumps(kept)) * CELLS <= MOST_ALTOGETHER else []
    yield "show", show


def memory(kind: str) -> int:
    """Bytes of this process: now (VmRSS), or at most since it was asked (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{kind}:")[1].split()[0])


def measured(seed: int) -> dict[str, tuple[float, int]]:
    """Seconds and bytes of each step for an input."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for name, step in steps(Draw(seed), Path(place)):
            Path("/proc/self/clear_refs").write_text("5")
            begun, before = time.process_time(), memory("VmRSS")
            step()
            found[name] = time.process_time() - begun, memory("VmHWM") - before
    return found


@pytest.fixture(scope="module")
def warm():
    """Everything is imported."""
    measured(0)


@pytest.mark.skipif(sys.platform != "linux", reason="it counts memory as Linux tells it")
@pytest.mark.parametrize("seed", [*range(1, 1 + INPUTS), 2468])  # 2468: brackets in Markdown
def test_anything_is_read_in_bounded_time_and_memory(warm, seed):
    for step, (seconds, used) in measured(seed).items():
        assert seconds < SECONDS and used < MEMORY, (step, seconds, used / 2**20)


def fuzz(seconds: float, seed: int) -> None:
    measured(0)
    end, first, most = time.monotonic() + seconds, seed, (0.0, 0)
    while time.monotonic() < end:
        for step, (took, used) in measured(seed).items():
            most = max(most[0], took), max(most[1], used)
            if took >= SECONDS or used >= MEMORY:
                print(f"input {seed}, {step}: {took:.2f} s, {used / 2**20:.0f} MiB", flush=True)
        seed += 1
    print(f"{seed - first} inputs; a step takes at most {most[0]:.2f} s, {most[1] / 2**20:.0f} MiB")


if __name__ == "__main__":
    fuzz(float(sys.argv[1]), int(sys.argv[2]))
