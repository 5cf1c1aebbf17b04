"""Writes docs/attacks.md: what the evil class tries, its points, and the messages for people.

    python -m tests.evil_table COURSE BEFORE.json > docs/attacks.md

reads a course folder with the graded class, as tests/test_evil_class.py leaves it with
`--everything --basetemp FOLDER`. BEFORE.json has the same submissions' points from stock nbgrader:

    python -m tests.evil_table --before FOLDER > BEFORE.json

creates a course in the new folder FOLDER, without this course's settings for grading. It grades
only the attacks that do no harm there; they run with all your rights.
"""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook, MissingEntry

from .evil_class import ATTACKS
from .evil_kit import ALL, MEAN, Hand, Place
from .nbgrader_class import ASSIGNMENT
from .test_nbgrader_cycle import fresh_clone

SOFTMAX = "softmax"
COLUMNS = (
    *("attack", "it tries", "held by", "fair", "got", "stock"),
    *("the student reads", "the instructor reads"),
)
STOCK = """
from nbgrader.converters import Autograde
from nbconvert.exporters import NotebookExporter
del c.Autograde.sanitize_preprocessors, c.Autograde.autograde_preprocessors
c.Autograde.exporter_class = NotebookExporter
c.Autograde.create_student = True
c.ExecutePreprocessor.timeout = c.Execute.timeout = 10
"""


PAGE = """\
# What grading withstands

`make test-all` submits these attacks together with honest submissions, and grades them with the
real commands (`tests/test_evil_class.py`). No attack gets more points than is fair, and right
answers that it leaves intact get theirs. Other students' points and pages stay the same to the
byte, and grading takes bounded time. `make test` does the same with five of the attacks.

`python -m tests.evil_table` generates this page.

- **held by**: the defence that must stop it: *limits* of time, memory and size; *walls*, the
  sandbox in which a submission runs; *verdicts*, which are computed outside the sandbox; the
  reading of *files*; the writing of *pages*.
- **fair**: the maximum that it may get of the assignment's {all} points, for its right answers.
- **got**: its points from `course grade`.
- **stock**: its points from nbgrader without this course's settings, if tried without harm.
- *own*: its author knows this course's code.

No program can know whose work an answer is. So two comparisons only look for signs, and what they
find is listed for a person but costs no points. First, what the functions of an answer compile to
when it is checked is compared with the finished part, whatever the functions are called and
wherever they come from. Second, the text of an answer, without comments and layout, is compared
with the published solutions and with the texts of the other students. Two students are listed, each
with the exercises in which they wrote the same, if that is too unlikely for people who work alone:
at most one of 50 such classes has a pair like this. A text that many write counts little, and in a
large class one exercise is never enough.

Six generated classes of 150 each had ten more students, who handed in copies of somebody's answers.
The table says in how many of the six classes a copy in each disguise was listed. Nobody else was
listed. Most answers of `1-averages` are short, and many write them alike:

| disguise | `1-averages` | `3-multi-head` |
|---|---|---|
| nothing | 3 | 6 |
| comments | 5 | 6 |
| layout | 2 | 6 |
| docstrings | 4 | 6 |
| below an if | 5 | 5 |
| full-width letters | 6 | 6 |
| a cell's own lines before it | 5 | 6 |
| a print in each function | 1 | 3 |
| calls written otherwise | 3 | 6 |
| other names | 1 | 1 |

Neither comparison sees a part that was rewritten in other statements; another student's
text with new names for its variables, or with so much added that a fifth is new; few copied
answers, or usual ones, of another student; copies of published texts that are less than an eighth
of what somebody wrote; a single part whose text a cell reads and compiles anew; numbers that were
computed beforehand with the finished part; a part that runs in another process; a copy of a quiz,
or of an answer of few lines, which two people may well write the same; a forbidden operator whose
record is erased; or a submission that changes, inside its own sandbox, what is reported about it.
The table below shows the points that such attacks get, which a person may take back. `course grade`
also lists submissions under another's name, and times of submission that are too early or missing.

{table}

[instructors.md](instructors.md) says what each tier of grading guarantees, and what it does not.
"""


def main(*arguments: str) -> None:
    if arguments[0] == "--before":
        print(json.dumps(before(Path(arguments[1])), indent=1))
        return
    stock = json.loads(Path(arguments[1]).read_text())
    print(PAGE.format(all=f"{ALL:g}", table="\n".join(table(Path(arguments[0]), stock))), end="")


def table(course: Path, stock: dict[str, str]) -> list[str]:
    with (course / "grades.csv").open() as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for name, attack in ATTACKS.items():
        row = rows.get(name, {})
        cells = [
            name,
            ("(own) " if attack.own else "") + attack.tries,
            attack.held_by,
            f"{attack.points:g}",
            f"{float(row.get('score') or 0):g}",
            stock.get(name, ""),
            student_reads(course, name),
            instructor_reads(row.get("notes", "")),
        ]
        lines.append("| " + " | ".join(map(as_markdown, cells)) + " |")
    return lines


def as_markdown(text: str) -> str:
    """Any text, escaped for a table cell."""
    text = re.sub(
        r"[^\S ]|[^\w\s]", lambda found: found[0] if found[0].isprintable() else "�", text
    )
    return re.sub(r"([\\`*_{}\[\]|$~])", r"\\\1", html.escape(text, quote=False))


def student_reads(course: Path, name: str) -> str:
    """The feedback on the attacking cell and on the answer."""
    said: list[str] = []
    for path in sorted((course / "autograded" / name / ASSIGNMENT).glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown" and cell.source.startswith("**This is not the"):
                said.append(cell.source.split("** ")[-1])
            for output in cell.get("outputs", []):
                text = output.get("text", "").strip()
                if text.startswith(("This cell", "The notebook's")) and text not in said:
                    said.append(text)
                card = output.get("data", {}).get("text/html", "")
                attacked = f"Check of {SOFTMAX if name.startswith('forbidden') else MEAN}"
                if f'"{attacked}"' in card:
                    said.append(on_card(card))
    return "; ".join(said)


def on_card(card: str) -> str:
    """The points and the first sentence of a card."""
    found = BeautifulSoup(card, "html.parser")
    points = found.find(string=re.compile(r"^[\d.]+ of [\d.]+ points?$"))
    stands, first = found.find("strong"), found.find("p")
    assert stands and first
    untouched = stands.get_text() == "not attempted yet"
    what = "not attempted yet" if untouched else " ".join(first.get_text().split())
    # The folders of this machine are private.
    what = re.sub(r"/\S*/site-packages/", "", what)
    return f"{points}: {shorter(what)}"


def shorter(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0]} …"


def instructor_reads(notes: str) -> str:
    said = [n for n in notes.split("; ") if n and "it was not submitted" not in n]
    said = [re.sub(r"^\d\d_\w+: ", "", n) for n in said]
    return shorter("; ".join(said[:3]), 240) or "the card"


def before(folder: Path) -> dict[str, str]:
    """The points from stock nbgrader, or its message."""
    course = fresh_clone(folder)
    run = [Path(sys.executable).with_name("nbgrader")]
    environment = {"PATH": f"{run[0].parent}:/usr/bin:/bin", "PYTHONPATH": str(course)}
    environment |= {"HOME": str(folder), "COURSE_GRADING_SEED": "a secret of this term"}

    def nbgrader(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*run, *words], cwd=course, env=environment, capture_output=True, text=True, timeout=300
        )

    nbgrader("generate_assignment", ASSIGNMENT).check_returncode()
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(STOCK)
    place = Place(course, course / "notebooks" / ASSIGNMENT, 9)
    got = {}
    for name, attack in ATTACKS.items():
        if not attack.before:
            continue
        shutil.rmtree(course / "submitted", ignore_errors=True)
        if name == "reads-what-is-secret":
            ada = Hand(place, "ada")
            ada.lesson().solve()
            ada.finish()
        hand = Hand(place, name)
        attack.make(hand)
        hand.finish()
        try:
            done = nbgrader("autograde", ASSIGNMENT, f"--student={name}")
        except subprocess.TimeoutExpired:
            got[name] = "goes on for ever"
            continue
        finally:
            print(name, file=sys.stderr)
        got[name] = "not graded" if done.returncode else f"{points(course, name):g}"
        nbgrader("generate_feedback", ASSIGNMENT, f"--student={name}")
        page = course / "feedback" / name / ASSIGNMENT / "01_naive_mean.html"
        with suppress(OSError):
            if re.search(r"<script>evil|onerror=\"?evil|href=\"javascript:evil", page.read_text()):
                got[name] += ", its script runs"
    return got


def points(course: Path, name: str) -> float:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        try:
            return float(gradebook.find_submission(ASSIGNMENT, name).score)
        except MissingEntry:
            return 0.0


if __name__ == "__main__":
    main(*sys.argv[1:])
