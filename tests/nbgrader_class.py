"""A class of students: their submissions, and the points that a fair teacher would give.

    python -m tests.nbgrader_class EXCHANGE FOLDER

lets all of them fetch the assignment from an exchange folder, work in FOLDER and submit, with
nbgrader's own apps. They share one process, because nbgrader takes longer to start than to submit.
"""

import copy
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell
from nbgrader.apps import FetchAssignmentApp, SubmitApp

from course_utils.desk.lessons import lay_out
from tools import SOLUTIONS
from whywrong.hosting import joined

ASSIGNMENT = "1-averages"
FULL = {
    lesson.removeprefix(f"{ASSIGNMENT}/"): {one.id: one.points for one in listed}
    for lesson, listed in joined(()).outline.items()
    if lesson.startswith(ASSIGNMENT)
}
LESSONS = list(FULL)
NOTHING = {lesson: dict.fromkeys(points, 0.0) for lesson, points in FULL.items()}


def points(**exercises):
    """Zero points, except for the named exercises."""
    return {
        lesson: {name: exercises.get(name, 0.0) for name in known} for lesson, known in FULL.items()
    }


class Notebook:
    """One student's copy of a lesson, with methods to change it."""

    def __init__(self, path):
        self.path = path
        self.content = nbformat.read(path, as_version=4)

    def save(self):
        nbformat.write(self.content, self.path)

    def cell(self, grade_id):
        claimed = [(c.metadata.get("nbgrader", {}), c) for c in self.content.cells]
        (cell,) = [c for metadata, c in claimed if metadata.get("grade_id") == grade_id]
        return cell

    def write(self, exercise, source):
        self.cell(exercise).source = source

    def solve(self, *exercises):
        for exercise in exercises or FULL[self.path.stem]:
            self.write(exercise, right_answer(self.path.stem, exercise))

    def delete(self, *grade_ids):
        for grade_id in grade_ids:
            self.content.cells.remove(self.cell(grade_id))

    def delete_demonstrations(self):
        self.content.cells = [c for c in self.content.cells if is_needed(c)]

    def copy(self, grade_id, after):
        duplicate = copy.deepcopy(self.cell(grade_id))
        duplicate["id"] = f"{grade_id}-again"
        self.content.cells.insert(self.content.cells.index(self.cell(after)) + 1, duplicate)
        return duplicate


def is_needed(cell):
    """Whether it is text, imports or is graded; the rest of a lesson would only take time."""
    return cell.cell_type != "code" or "nbgrader" in cell.metadata or "import " in cell.source


def right_answer(lesson, exercise):
    (path,) = SOLUTIONS.glob(f"*/{lesson}.ipynb")
    solution = nbformat.read(path, as_version=4)
    (cell,) = [c for c in solution.cells if c.id == exercise]
    return re.sub(r"^ *### (BEGIN|END) SOLUTION\n?", "", cell.source, flags=re.M)


# ---------------------------------------------------------------- the students


def all_right(hand_in):
    """Lesson 03 is the course's own answer, the others aren't, and one is compiled and called; a
    program is left running."""
    one, two = hand_in("01_naive_mean"), hand_in("02_tril_matmul")
    one.solve("naive_mean_shapes")
    one.write(
        "naive_mean",
        "naive_mean = torch.compile(lambda x: torch.stack(\n"
        "    [x[:, :t].sum(1) / t for t in range(1, x.shape[1] + 1)], dim=1))\n"
        "naive_mean(torch.ones(1, 2, 3))",
    )
    two.write(
        "causal_mean_weights",
        "def causal_mean_weights(T):\n"
        "    return torch.tensor([[(s <= t) / (t + 1) for s in range(T)] for t in range(T)])",
    )
    two.write(
        "tril_mean",
        "def tril_mean(x):\n"
        "    weights = causal_mean_weights(x.shape[1]).to(x)\n"
        '    return torch.einsum("ts,bsc->btc", weights, x)',
    )
    three = hand_in("03_softmax_masking")
    three.solve()
    three.content.cells.append(
        new_code_cell(
            f'import subprocess\nleft = subprocess.Popen(["setsid", "sleep", "{LEFT_RUNNING}"])'
        )
    )


LEFT_RUNNING = 4_321  # seconds, a number that no other process sleeps for


def nothing_done(hand_in):
    hand_in("01_naive_mean")


def misconception(hand_in):
    """The third exercise calls the second: one mistake costs points once. A figure is changed."""
    lesson = hand_in("03_softmax_masking")
    lesson.solve()
    (figure,) = [c for c in lesson.content.cells if "figures.head_grid(" in c.source]
    figure.source += "  # mine"
    lesson.write(
        "masked_softmax",
        "def masked_softmax(scores, hidden):\n"
        "    return softmax(scores, dim=-1).masked_fill(hidden, 0)",
    )


def mishaps(hand_in):
    """One answer doesn't parse, one raises, one never ends; each lesson has a right one too."""
    one, three = hand_in("01_naive_mean"), hand_in("03_softmax_masking")
    one.solve("naive_mean_shapes")
    one.write("naive_mean", "def naive_mean(x):\n    return x @ x")
    three.write("softmax", "def softmax(scores, dim=-1)\n    return scores")
    three.solve("masked_softmax")
    three.write(
        "softmax_mean",
        "def softmax_mean(x):\n"
        "    out, t = torch.zeros_like(x), 0\n"
        "    while t < x.shape[1]:\n"
        "        out[:, t] = x[:, : t + 1].mean(1)\n"
        "    return out",
    )


def deleted_cells(hand_in):
    """The check of a right answer is deleted, and all cells of the other exercise."""
    lesson = hand_in("01_naive_mean")
    lesson.solve()
    lesson.delete("check-naive_mean", "naive_mean_shapes", "check-naive_mean_shapes")


def copied_cells(hand_in):
    """The right answer and its check are copied, and some metadata belongs to no lesson."""
    lesson = hand_in("01_naive_mean")
    lesson.solve()
    lesson.copy("check-naive_mean", after="check-naive_mean")
    lesson.copy("naive_mean", after="naive_mean")
    lesson.content.cells[0].metadata["nbgrader"] = {"grade": True, "points": 100}
    lesson.cell("check-naive_mean_shapes").metadata.nbgrader["points"] = 100
    stray = new_code_cell("1 + 1")
    stray.metadata["nbgrader"] = {"grade_id": "another-lesson", "schema_version": 1}
    lesson.content.cells.append(stray)


CLASS = {
    all_right: FULL,
    nothing_done: NOTHING,
    misconception: points(softmax=2.0, masked_softmax=0.25, softmax_mean=2.0),
    mishaps: points(naive_mean_shapes=1.0, masked_softmax=2.0),
    deleted_cells: points(naive_mean=2.0),
    copied_cells: points(naive_mean_shapes=1.0, naive_mean=2.0),
}
STUDENTS = {student.__name__.replace("_", "-"): student for student in CLASS}


# ---------------------------------------------------------------- the exchange, for students


def nbgrader(app, folder, *arguments):
    """Run one of nbgrader's apps in a folder that `course new` made, like its command."""
    os.chdir(folder)
    command = app()
    command.initialize([ASSIGNMENT, *arguments])
    command.start()


def main(exchange, folder):
    desk = Path(folder) / "desk"
    lay_out(desk, exchange=Path(exchange))
    shutil.rmtree(desk / ASSIGNMENT)
    nbgrader(FetchAssignmentApp, desk)
    for name, student in STUDENTS.items():
        own = Path(folder) / name
        (own / ASSIGNMENT).mkdir(parents=True)
        shutil.copy(desk / "nbgrader_config.py", own)
        opened = []

        def hand_in(lesson, own=own, opened=opened):
            fetched = Notebook(desk / ASSIGNMENT / f"{lesson}.ipynb")
            fetched.path = own / ASSIGNMENT / fetched.path.name
            opened.append(fetched)
            return fetched

        student(hand_in)
        for notebook in opened:
            notebook.save()
        nbgrader(SubmitApp, own, f"--student={name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
