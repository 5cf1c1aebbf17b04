"""First attempts: answers that newcomers type, and the misconceptions that cards name.

`tests/answers/LESSON/first-attempts.md` has a section for each exercise, with entries of the form

    ## What the student did, in one sentence
    Named: id
    Points: 0.25

followed by the whole answer, indented. `Named: id + id` means that two are named together, `Named:
nothing` that none is named, and `Named: right`, without points, that the answer is right. `python
-m tools.matrix --keep` writes the points. As in a notebook, an answer may use the names in its
exercise's text and those of earlier exercises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_utils import attention
from whywrong._exercise import Names, Program
from whywrong._texts import Section, Text, TextError
from whywrong.hosting import catalogue

from . import ANSWERS, EXERCISES

FORM = re.compile(r"Named: (.+)(?:\nPoints: ([\d.]+))?")
WRITTEN = re.compile(r"^(Named: (?!right$).+)(?:\nPoints: .+)?", re.M)


@dataclass(frozen=True)
class Attempt:
    """One first attempt: the misconceptions to name (none if empty; None if it is right), and the
    points in its entry, if any."""

    sentence: str
    named: tuple[str, ...] | None
    points: float | None
    program: Program

    @property
    def answer(self) -> Any:
        return self.program.answer


def attempts_of(lesson: str) -> Path:
    """Return the file with a lesson's first attempts."""
    return ANSWERS / lesson / "first-attempts.md"


@cache
def attempts(lesson: str) -> dict[str, list[Attempt]]:
    """The first attempts of a lesson, by exercise.

    Raises:
        TextError: the file doesn't have this form.
    """
    path = attempts_of(lesson)
    if not path.is_file():
        return {}
    whole = Section("", tuple(path.read_text(encoding="utf-8").splitlines()), 1)
    return {
        section.title: [*_attempts(section, EXERCISES / lesson / f"{section.title}.md")]
        for section in whole.sections("# ")
    }


def _attempts(section: Section, path: Path) -> Iterator[Attempt]:
    given = Text(path).names
    for one in section.sections("## "):
        prose, code, _ = next(one.blocks(), ("", "", 0))
        said = FORM.fullmatch(prose.strip())
        if not said or not code:
            raise TextError(
                f"first-attempts.md, line {one.first}: {one.title!r} needs a line `Named: id`, an "
                "empty line, and the answer, indented by four spaces."
            )
        ids = tuple(n.strip() for n in said[1].split("+"))
        named = {"nothing": (), "right": None}.get(said[1], ids)
        points = None if said[2] is None else float(said[2])
        program = Program(f"{code}\n", _with_earlier(given, path.stem, code))
        yield Attempt(one.title, named, points, program)


def with_points(text: str, id: str, points: Sequence[float]) -> str:
    """Return the text of a `first-attempts.md` with these points in an exercise's entries."""
    head, mark, rest = f"\n{text}".partition(f"\n# {id}\n")
    own, following, others = rest.partition("\n# ")
    left = iter(points)
    own = WRITTEN.sub(lambda said: f"{said[1]}\nPoints: {next(left):g}", own)
    return (head + mark + own + following + others).removeprefix("\n")


def _with_earlier(given: Names, id: str, code: str) -> Names:
    """The code's names: the lessons' `attention`, and the finished answers of earlier exercises
    that it uses."""
    known, ids = catalogue(), catalogue().ids()
    found = (known.find(n) for n in ids[: ids.index(id)] if re.search(rf"\b{n}\b", code))
    earlier = {e.id: e.finished or e.reference for e in found if e and e.kind != "quiz"}
    names = Names(given.source)
    vars(names)["values"] = {"attention": attention, **earlier, **given.values}
    return names
