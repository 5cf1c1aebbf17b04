"""The lessons as students get them: `course new` copies them, and `reset` restores one exercise."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
from pathlib import Path

from IPython.core.getipython import get_ipython

from whywrong.hosting import Message

from .language import folders
from .points import FILE_NAME
from .translated import HANDED_OUT, build

COURSE_ID = "averages-to-transformers"  # as in the instructor's nbgrader_config.py
SUBMITTING = f"""\
c = get_config()
c.CourseDirectory.course_id = {COURSE_ID!r}
c.Exchange.root = {{!r}}
"""


def lay_out(folder: Path, language: str = "", exchange: Path | None = None) -> str:
    """Copy the lessons into a new folder, which then stores its own progress.

    Args:
        language: the code of a language that the course is translated into; "" is English.
        exchange: the directory in which students of a class submit with nbgrader, if there is one.

    Raises:
        FileExistsError: the folder already exists.
        ValueError: the course isn't translated into this language.
    """
    if language and language not in folders():
        raise ValueError(f"There is no {language!r}; there are: {', '.join(folders()) or 'none'}.")
    if language:
        folder.mkdir(parents=True)
        build(folders()[language], folder)
    else:
        left_out = shutil.ignore_patterns(".ipynb_checkpoints", f"{FILE_NAME}*")
        shutil.copytree(HANDED_OUT, folder, ignore=left_out)
    (folder / FILE_NAME).write_text('{"exercises": {}}', encoding="utf-8")
    if exchange is not None:
        settings = SUBMITTING.format(str(exchange.absolute()))
        (folder / "nbgrader_config.py").write_text(settings, encoding="utf-8")
    index = shlex.quote(str(folder / "index.ipynb"))
    return f"The lessons are in {folder}. Begin with: jupyter lab {index}"


def reset(exercise_id: str) -> Message:
    """Put the unsolved exercise into a new cell below this one; your own cell isn't changed."""
    title, shell = f"{exercise_id} as it was handed out", get_ipython()
    known: list[str] = []
    for path in HANDED_OUT.glob("*/*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if not about.get("solution"):
                continue
            known.append(about.get("grade_id"))
            if known[-1] == exercise_id:
                code = "".join(cell["source"])
                if shell is None or not hasattr(shell, "kernel"):
                    return Message(title, code)
                shell.set_next_input(code)
                return Message(title, "It is in the new cell below; the cell that ran last counts.")
    near = difflib.get_close_matches(exercise_id, known, n=1, cutoff=0.5)
    help = f"Did you mean `{near[0]}`?" if near else "`progress()` lists all."
    return Message("No blank", f"There is no exercise `{exercise_id}`. {help}")
