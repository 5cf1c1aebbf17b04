"""The table of the evil class, as Markdown.

    python -m tests.evil_table COURSE [BEFORE.json]

reads a course folder in which the class was graded; BEFORE.json holds what the same submissions get
from stock nbgrader, as this writes it:

    python -m tests.evil_table --before FOLDER > BEFORE.json

It makes a course in FOLDER, which must not be there, whose nbgrader has the preprocessors that it
comes with, and lets it grade the attacks that do no harm. They run there with all your rights.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry

from .evil_class import ATTACKS, Hand, Place
from .nbgrader_class import ASSIGNMENT
from .test_nbgrader_cycle import fresh_clone, shown

STOCK = """
from nbgrader.converters import Autograde
from nbconvert.exporters import NotebookExporter
del c.Autograde.sanitize_preprocessors, c.Autograde.autograde_preprocessors
c.Autograde.exporter_class = NotebookExporter
c.ExecutePreprocessor.timeout = c.Execute.timeout = 10
"""


def main(*arguments: str) -> None:
    if arguments[0] == "--before":
        print(json.dumps(before(Path(arguments[1])), indent=1))
        return
    stock = json.loads(Path(arguments[1]).read_text()) if len(arguments) > 1 else {}
    print("\n".join(table(Path(arguments[0]), stock)))


def table(course: Path, stock: dict[str, str]) -> list[str]:
    with (course / "grades.csv").open() as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    lines = [
        "| attack | held by | fair | got | before | the student reads | the instructor reads |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, attack in ATTACKS.items():
        own = "own: " if attack.own else ""
        row = rows.get(name, {})
        cells = [
            f"{own}{name}: {attack.tries}",
            attack.held_by,
            f"{attack.points:g}",
            f"{float(row.get('score') or 0):g}",
            stock.get(name, ""),
            student_reads(course, name),
            instructor_reads(row.get("notes", "")),
        ]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines


def student_reads(course: Path, name: str) -> str:
    """What is said of the cell that attacks and of the answer."""
    said: list[str] = []
    for path in sorted((course / "autograded" / name / ASSIGNMENT).glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown" and "can't be read" in cell.source:
                said.append(cell.source.split("** ")[-1])
            for output in cell.get("outputs", []):
                text = output.get("text", "")
                if text.startswith(("This cell", "The notebook's")) and text.strip() not in said:
                    said.append(text.strip())
                page = output.get("data", {}).get("text/html", "")
                if "Check of" in page and "naive_mean_shapes" not in page[:600]:
                    said.append(shown(page)[:130])
    return "; ".join(s for s in said if "masked_softmax:" not in s and "softmax_mean:" not in s)


def instructor_reads(notes: str) -> str:
    said = [n for n in notes.split("; ") if n and "it was not handed in" not in n]
    said = [re.sub(r"^\d\d_\w+: ", "", n) for n in said]
    return "; ".join(said[:3])[:260] or "the card"


def before(folder: Path) -> dict[str, str]:
    """The points that stock nbgrader gives, or what it says."""
    course = fresh_clone(folder)
    run = [Path(sys.executable).with_name("nbgrader")]
    environment = {"PATH": f"{run[0].parent}:/usr/bin:/bin", "PYTHONPATH": str(course)}
    environment |= {"HOME": str(folder), "COURSE_GRADING_SEED": "a secret of this term"}

    def nbgrader(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*run, *words], cwd=course, env=environment, capture_output=True, text=True
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
        if name == "reads-others":
            ada = Hand(place, "ada")
            ada.lesson().solve()
            ada.finish()
        hand = Hand(place, name)
        attack.make(hand)
        hand.finish()
        done = nbgrader("autograde", ASSIGNMENT, f"--student={name}")
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
