"""The lessons that students work in: laid out by `course new`, and one exercise's blank again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from whywrong.card import Message

from .points import FILE_NAME

HERE = Path(__file__).resolve().parent
PLACES = HERE / "notebooks", HERE.parent / "notebooks"  # of the wheel, of a clone
LEFT_OUT = shutil.ignore_patterns(".ipynb_checkpoints", f"{FILE_NAME}*")


def student_edition() -> Path:
    """The folder of the lessons as they are handed out."""
    return next((place for place in PLACES if (place / "index.ipynb").exists()), PLACES[-1])


def lay_out(folder: Path) -> str:
    """Copy the lessons into a folder, new or empty, which then keeps its own progress.

    Raises:
        FileExistsError: something is in the folder already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: name a new folder.")
    shutil.copytree(student_edition(), folder, ignore=LEFT_OUT, dirs_exist_ok=True)
    (folder / FILE_NAME).write_text('{"exercises": {}}', encoding="utf-8")
    return f"The lessons are in {folder}. Begin with: jupyter lab {folder / 'index.ipynb'}"


def blank(exercise_id: str) -> str | None:
    """The cell of an exercise as it is handed out."""
    for path in sorted(student_edition().glob("*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if about.get("solution") and about.get("grade_id") == exercise_id:
                return "".join(cell["source"])
    return None


def reset(exercise_id: str) -> Message:
    """The blank of an exercise in a new cell below this one; what you wrote stays where it is."""
    code = blank(exercise_id)
    if code is None:
        return Message("No blank", f"There is no exercise `{exercise_id}`. `progress()` lists all.")
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return Message(f"{exercise_id} as it was handed out", code)
    shell.set_next_input(code)
    return Message(
        f"{exercise_id} as it was handed out",
        "It is in the new cell below. Your own cell is unchanged; the cell that ran last counts.",
    )
