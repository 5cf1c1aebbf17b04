"""Makes nbgrader's own functions take what students hand in as data, and fail in words."""

from __future__ import annotations

import logging
import os
import stat
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from glob import escape, glob
from pathlib import Path
from typing import Any

from .choosing import under_other_names
from .folders import below, strange
from .names import is_a_name, submitted_at
from .readable import in_a_line

UNEXPECTED = Path(".grading", "unexpected.txt")


def what_happened(error: BaseException | None) -> str:
    """Returns an error in a line, with what to do if that is known."""
    from sqlalchemy.exc import SQLAlchemyError

    if isinstance(error, SQLAlchemyError):
        why = in_a_line(str(getattr(error, "orig", None) or error))
        used = "another program uses it, so try again when that has finished"
        remedy = used if "locked" in why else "restore it from a backup"
        return f"The gradebook can't be used ({why}): {remedy}."
    if isinstance(error, OSError):
        where = f"{error.filename} can't be used: " if error.filename else ""
        return in_a_line(where + (error.strerror or str(error)))
    return in_a_line(f"{type(error).__name__}: {error}")[:300]


def ended(error: BaseException) -> str:
    """Returns what ended a command, and what to do."""
    from sqlalchemy.exc import SQLAlchemyError

    if isinstance(error, KeyboardInterrupt):
        return "Stopped."
    if isinstance(error, OSError | SQLAlchemyError):
        return what_happened(error)
    with suppress(OSError):
        UNEXPECTED.parent.mkdir(exist_ok=True)
        UNEXPECTED.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    said = "This error of the course or of nbgrader, not of a submission, ended the command"
    return f"{said}: {what_happened(error)}\nPlease report it with the file {UNEXPECTED}."


def _say_what_ended(kind: type[BaseException], error: BaseException, lines: Any) -> None:
    print(ended(error), file=sys.stderr)


class InWords:
    """Takes the place of `traceback` in nbgrader: says what happened without lines of code."""

    last = ""

    @staticmethod
    def format_exc() -> str:
        InWords.last = what_happened(sys.exc_info()[1])
        return InWords.last


def is_said_by_us(message: str) -> bool:
    """Whether a message of nbgrader only repeats, in its own words, what `InWords` has said."""
    return "above traceback" in message or "accessing the nbgrader database" in message


def _says_something(record: logging.LogRecord) -> bool:
    return not is_said_by_us(record.getMessage())


def be_careful() -> None:
    """Makes nbgrader copy only files of normal size that are next to a notebook, because a link may
    lead to anyone's file, or to one that never ends. It also makes nbgrader read times, and names
    such as `smith[2]`, as data, and end with a sentence where it would show a traceback."""
    from nbgrader.converters import Autograde, base
    from nbgrader.coursedir import CourseDirectory

    def files_alone(path: str, exclude: Sequence[str] | None = None) -> list[str]:
        return [
            str(file)
            for file, about in below(Path(path))
            if about is not None and stat.S_ISREG(about.st_mode) and not strange(about)
            if not any(
                fnmatch(part, pattern)
                for part in file.relative_to(path).parts
                for pattern in exclude or ()
            )
        ]

    def notebooks(self: base.BaseConverter) -> None:
        wanted = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        named = f"{self.coursedir.notebook_id}.ipynb"
        places = glob(wanted)
        for place in [place for place in places if not is_a_name(Path(place).parent.name)]:
            self.log.error("%s is left out: this can't be a student's name", in_a_line(place))
            places.remove(place)
        found = {place: glob(os.path.join(escape(place), named)) for place in places}
        if isinstance(self, Autograde):
            for place, files in found.items():
                files += under_other_names(self.coursedir, Path(place))
        for place in (place for place, files in found.items() if not files):
            self.log.warning("There are no notebooks in %s", in_a_line(place))
        self.assignments, self.notebooks = {k: v for k, v in found.items() if v}, []
        if not self.assignments:
            said = f"There are no notebooks in {in_a_line(wanted)}"
            self.log.error("%s: is its name right, and was the command before this one run?", said)
            raise base.NbGraderException(said)

    convert = base.BaseConverter.convert_notebooks

    def in_words(self: base.BaseConverter) -> None:
        self.log.addFilter(_says_something)
        try:
            convert(self)
        finally:
            self.log.removeFilter(_says_something)

    sys.excepthook = _say_what_ended
    vars(base)["traceback"] = InWords
    base.BaseConverter.convert_notebooks = in_words
    base.find_all_files = files_alone
    base.BaseConverter.init_notebooks = notebooks
    CourseDirectory.get_existing_timestamp = lambda self, folder: submitted_at(folder)
