"""Makes nbgrader's own functions take what students hand in as data."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from glob import escape, glob
from pathlib import Path

from .choosing import under_other_names
from .folders import below, strange
from .names import is_a_name, submitted_at
from .readable import in_a_line


class InWords:
    """Takes the place of `traceback` in nbgrader: says what happened without lines of code."""

    last = ""

    @staticmethod
    def format_exc() -> str:
        error = sys.exc_info()[1]
        InWords.last = in_a_line(f"{type(error).__name__}: {error}")
        return InWords.last


def _says_something(record: logging.LogRecord) -> bool:
    return "above traceback" not in record.getMessage()


def be_careful() -> None:
    """Makes nbgrader copy only files of normal size that are next to a notebook, because a link may
    lead to anyone's file, or to one that never ends. It also makes nbgrader read times, and names
    such as `smith[2]`, as data."""
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
            raise base.NbGraderException(f"There are no notebooks in {wanted}")

    convert = base.BaseConverter.convert_notebooks

    def in_words(self: base.BaseConverter) -> None:
        self.log.addFilter(_says_something)
        try:
            convert(self)
        finally:
            self.log.removeFilter(_says_something)

    vars(base)["traceback"] = InWords
    base.BaseConverter.convert_notebooks = in_words
    base.find_all_files = files_alone
    base.BaseConverter.init_notebooks = notebooks
    CourseDirectory.get_existing_timestamp = lambda self, folder: submitted_at(folder)
