"""First attempts: wrong answers that newcomers type, and the misconceptions that cards name.

A lesson's file `first-attempts.md` has a section for each exercise, with entries of the form

    ## What the student did, in one sentence
    Named: id

followed by the whole answer, indented. `Named: id + id` means that two are named together, `Named:
nothing` that none is. As in a notebook, an answer may use the names in its exercise's text and
those of earlier exercises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_utils import attention
from whywrong.course import catalogue
from whywrong.programs import Names, Program
from whywrong.texts import Section, Text, TextError

from . import EXERCISES


@dataclass(frozen=True)
class Attempt:
    """One first attempt; `named` is empty if no misconception is named."""

    sentence: str
    named: tuple[str, ...]
    program: Program

    @property
    def answer(self) -> Any:
        return self.program.answer


@cache
def attempts(lesson: str) -> dict[str, list[Attempt]]:
    """The first attempts of a lesson, by exercise.

    Raises:
        TextError: the file doesn't have this form.
    """
    path = EXERCISES / lesson / "first-attempts.md"
    if not path.is_file():
        return {}
    whole = Section("", tuple(path.read_text(encoding="utf-8").splitlines()), 1)
    return {
        section.title: [*_attempts(section, path.with_name(f"{section.title}.md"))]
        for section in whole.sections("# ")
    }


def _attempts(section: Section, path: Any) -> Iterator[Attempt]:
    given = Text(path).names
    for one in section.sections("## "):
        prose, code, _ = next(one.blocks(), ("", "", 0))
        label, _, named = prose.strip().partition(":")
        if label != "Named" or not code:
            raise TextError(
                f"first-attempts.md, line {one.first}: expected `Named: id`, then the answer."
            )
        ids = () if named.strip() == "nothing" else tuple(n.strip() for n in named.split("+"))
        yield Attempt(one.title, ids, Program(f"{code}\n", _with_earlier(given, path.stem, code)))


def _with_earlier(given: Names, id: str, code: str) -> Names:
    """The code's names: the lessons' `attention`, and the finished answers of earlier exercises
    that it uses."""
    known, ids = catalogue(), catalogue().ids()
    found = (known.find(n) for n in ids[: ids.index(id)] if re.search(rf"\b{n}\b", code))
    earlier = {e.id: e.finished or e.reference for e in found if e and e.kind != "quiz"}
    names = Names(given.source)
    vars(names)["values"] = {"attention": attention, **earlier, **given.values}
    return names
