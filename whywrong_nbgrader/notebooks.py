"""Takes one notebook from its cells to its points: runs it in a sandbox, judges it here.

A pure function of the cells, the exercises and the seed, so results can be stored and reused.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from whywrong import AnswerKey, Catalogue, Exercise, Observation, Report, kept_key
from whywrong.failed_runs import names_written
from whywrong.guard import time_budget

from .cells import Cell
from .inside import wire
from .readable import clean, math_at_rest, writable
from .room import Lodger, Room
from .verdicts import verdict

MOST_OUTPUTS, MOST_TEXT, MOST_HTML, MOST_PICTURE = 200, 100_000, 200_000, 4_000_000
MOST_OPEN = 500  # nested tags; cleaning takes time quadratic in their number
MOST_ALTOGETHER = 16_000_000  # characters of a notebook's outputs
TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
PICTURE = re.compile(r"data:image/(?:png|webp);base64,[A-Za-z0-9+/=\s]*")


@dataclass(frozen=True)
class Times:
    """Time limits in seconds."""

    cell: float = 60.0  # for running a cell
    check: float = 10.0  # processor time, for all cases of an exercise together
    notebook: float = 300.0  # for the whole notebook

    @classmethod
    def usual(cls) -> Times:
        """The limits above, or those in COURSE_CELL_SECONDS, COURSE_CHECK_SECONDS and
        COURSE_NOTEBOOK_SECONDS."""
        return cls(_seconds("CELL", cls.cell), time_budget(), _seconds("NOTEBOOK", cls.notebook))


def _seconds(name: str, usual: float) -> float:
    try:
        seconds = float(os.environ[f"COURSE_{name}_SECONDS"])
    except (KeyError, ValueError):
        return usual
    return seconds if 0 < seconds < 1e6 else usual


@dataclass
class Graded:
    """The result of a notebook, as plain data."""

    outputs: list[list[dict[str, Any]]] = field(default_factory=list)  # of each code cell
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)  # from `Report.to_dict`
    happened: list[str] = field(default_factory=list)  # that a person should know; usually none
    tier: str = ""  # the protection between the submission and this machine

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Judging = tuple[Exercise, Catalogue, AnswerKey, list[Observation]]


class _Run:
    """A notebook in progress: its process, the cells that ran, those that must not run again."""

    def __init__(self, room: Room, cells: Sequence[Cell], times: Times) -> None:
        self.room, self.cells, self.times = room, cells, times
        self.until = time.monotonic() + times.notebook
        self.lodger: Lodger | None = None
        self.done: list[int] = []  # cells that a new process needs
        self.failed: dict[str, str] = {}  # names whose cell failed, with the error
        self.happened: list[str] = []
        self.room_left = MOST_ALTOGETHER
        self._process = ExitStack()

    def begin(self) -> None:
        self.leave()
        self.lodger = self._process.enter_context(self.room.lent())

    def leave(self) -> None:
        self.lodger = None
        self._process.close()

    def left(self, most: float) -> float:
        return min(most, self.until - time.monotonic())

    def begin_again(self) -> None:
        """Starts a new process and reruns the cells that had succeeded."""
        while self.left(1.0) > 0:
            self.begin()
            for number in self.done:
                try:
                    self._ask(self.cells[number].source)
                except (wire.Ended, wire.OutOfTime, wire.BadMessage):
                    if self.left(1.0) <= 0:
                        break
                    self.done.remove(number)
                    said = "ended differently when run again, and is left out from here on"
                    self.happened.append(f"cell {number + 1} {said}")
                    break
            else:
                return
        self.begin()

    def _ask(self, source: str) -> dict[str, Any]:
        assert self.lodger is not None
        said, _ = self.lodger.ask({"do": "run", "source": source}, b"", self.left(self.times.cell))
        return said

    def cell(self, number: int) -> list[dict[str, Any]]:
        """The outputs of a cell."""
        cell = self.cells[number]
        try:
            said = self._ask(cell.source)
        except wire.OutOfTime:
            return self._stopped(number)
        except (wire.Ended, wire.BadMessage) as error:
            why = self._why(error)
            self.begin_again()
            return self._refused(number, f"This cell ended the notebook's process ({why}).")
        self.done.append(number)
        outputs = clean_outputs(said.get("outputs"))
        self._note_names(number, outputs)
        return self._kept(number, outputs)

    def _kept(self, number: int, outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A cell's outputs, unless the outputs of all cells together are too large."""
        size = len(json.dumps(outputs)) if outputs else 0
        if size <= self.room_left:
            self.room_left -= size
            return outputs
        said = f"outputs are left out: the limit per notebook is {MOST_ALTOGETHER:,} characters"
        if self.room_left:
            self.happened.append(f"from cell {number + 1} on, {said}")
        self.room_left = 0
        return [told(f"This cell ran. Its {said}.")]

    def _why(self, error: Exception) -> str:
        time.sleep(0.15)  # the watch checks ten times per second
        if self.room.too_much or isinstance(error, wire.BadMessage | wire.Deaf):
            return self.room.too_much or str(error)
        return "it exited or crashed"

    def _stopped(self, number: int) -> list[dict[str, Any]]:
        """Interrupts a cell that does not end; if it still goes on, ends its process."""
        assert self.lodger is not None
        said = f"This cell was still running after {self.times.cell:g} seconds and was stopped."
        try:
            self.lodger.interrupt(2.0)
            self.done.append(number)
        except (wire.Ended, wire.OutOfTime, wire.BadMessage):
            if self.room.too_much:
                said = f"This cell ended the notebook's process ({self.room.too_much})."
            self.begin_again()
        return self._refused(number, said)

    def _refused(self, number: int, said: str) -> list[dict[str, Any]]:
        self.happened.append(f"cell {number + 1}: {said[0].lower()}{said[1:]}")
        for name in names_written(self.cells[number].source):
            self.failed[name] = said
        return [told(said)]

    def _note_names(self, number: int, outputs: list[dict[str, Any]]) -> None:
        errors = [o["ename"] for o in outputs if o["output_type"] == "error"]
        for name in names_written(self.cells[number].source):
            if errors:
                self.failed[name] = f"The last run of its defining cell failed ({errors[0]})."
            else:
                self.failed.pop(name, None)

    def judged(
        self, exercise: Exercise, catalogue: Catalogue, key: AnswerKey, seen: list[Observation]
    ) -> Report:
        """The report on an answer; `seen` is filled with the observations."""
        judging = exercise, catalogue, key, seen
        report, lived = self._verdict(judging)
        if not lived and exercise.rules.uses:  # because of an earlier answer that it calls?
            with_parts, _ = self._verdict(judging, report)
            report = with_parts if with_parts.passed else report
        if failure := self.failed.get(exercise.id):
            report = replace(report, notes=[failure, *report.notes])
        return report

    def _verdict(self, judging: Judging, alone: Report | None = None) -> tuple[Report, bool]:
        """A report, and whether the notebook's process is still alive."""
        assert self.lodger is not None
        exercise, catalogue, key, seen = judging
        seconds = max(self.left(self.times.check), 0.1)
        try:
            return verdict(exercise, catalogue, self.lodger, key, seconds, seen, alone), True
        except wire.OutOfTime:
            said = f"It was still running after {self.times.check:g} seconds, and could only be"
            report = Report.nothing(exercise, f"{said} stopped together with the whole notebook.")
        except wire.Ended as error:
            said = "During its check, this answer ended the notebook's process"
            report = Report.nothing(exercise, f"{said} ({self._why(error)}).")
        self.begin_again()
        return report, False


def grade(
    cells: Sequence[Cell],
    catalogue: Catalogue,
    room: Room,
    seed_of: Callable[[str], int],
    times: Times | None = None,
) -> Graded:
    """Runs a notebook's cells in order and judges its answers, on inputs from these seeds."""
    times = times or Times()
    graded, run = Graded(tier=room.tier), _Run(room, cells, times)
    said = f"The notebook's {times.notebook:g} seconds ended before this cell."
    try:
        run.begin()
        for number, cell in enumerate(cells):
            exercise = catalogue.find(cell.checks) if cell.checks else None
            if (too_late := run.left(1.0) <= 0) and said not in run.happened:
                run.happened.append(said)
            if not exercise:
                graded.outputs.append([told(said)] if too_late else run.cell(number))
                continue
            if too_late:
                report = Report.nothing(exercise, said)
            else:
                key = kept_key(exercise, seed_of(exercise.id))
                report = run.judged(exercise, catalogue, key, [])
            graded.reports[exercise.id] = report.to_dict()
            graded.outputs.append([card(report, exercise)])
    finally:
        run.leave()
    graded.happened = run.happened
    return graded


def watched_verdict(
    room: Room,
    cells: Sequence[Cell],
    exercise: Exercise,
    catalogue: Catalogue,
    key: AnswerKey,
    times: Times,
) -> tuple[Report, list[Observation], list[str]]:
    """Checks one exercise of a notebook again: the report, the observations on each case, and the
    events on the way."""
    run = _Run(room, cells, times)
    seen: list[Observation] = []
    try:
        run.begin()
        for number, cell in enumerate(cells):
            if cell.checks == exercise.id:
                break
            if not cell.checks:
                run.cell(number)
        return run.judged(exercise, catalogue, key, seen), seen, run.happened
    finally:
        run.leave()


# Outputs -------------------------------------------------------------------------------------


def card(report: Report, exercise: Exercise) -> dict[str, Any]:
    """The output of a graded cell: the points, for nbgrader, and the card."""
    report = replace(report, hints=exercise.hints, other_way=exercise.other_way)
    return {
        "output_type": "execute_result",
        "data": {"text/plain": repr(report), "text/html": report._repr_html_()},
        "metadata": {},
        "execution_count": None,
    }


def told(said: str) -> dict[str, Any]:
    """An output that reports what happened to a cell."""
    return {"output_type": "stream", "name": "stdout", "text": f"{said}\n"}


def clean_outputs(outputs: Any) -> list[dict[str, Any]]:
    """Outputs in a known form, in which nothing can run in a reader's browser."""
    if not isinstance(outputs, list):
        return []
    return [o for o in map(_clean, outputs[:MOST_OUTPUTS]) if o]


def _clean(output: Any) -> dict[str, Any]:
    kind = output.get("output_type") if isinstance(output, dict) else None
    if kind == "stream" and isinstance(output.get("text"), str):
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _text(output["text"])}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": "error",
            "ename": _text(output.get("ename"))[:200],
            "evalue": _text(output.get("evalue")),
            "traceback": [_text(t) for t in lines[:200]] if isinstance(lines, list) else [],
        }
    if kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
        made = {"output_type": kind, "data": clean_data(output["data"]), "metadata": {}}
        return made | ({"execution_count": None} if kind == "execute_result" else {})
    return {}


def clean_data(data: dict[str, Any]) -> dict[str, str]:
    """Text, bitmaps, and HTML without scripts or references to fetch."""
    kept = {}
    if isinstance(data.get("text/plain"), str):
        kept["text/plain"] = _text(data["text/plain"])
    picture = data.get("image/png")
    if isinstance(picture, str) and len(picture) < MOST_PICTURE and BASE64.fullmatch(picture):
        kept["image/png"] = picture
    page = data.get("text/html")
    if isinstance(page, str) and len(page) < MOST_HTML and _depth(page) < MOST_OPEN:
        only = {"attribute_filter": _nothing_fetched, "url_schemes": {"data"}}
        page = clean(writable(page), "html", **only)
        if page.strip():  # otherwise it would be shown instead of the others
            kept["text/html"] = math_at_rest(page)
    return kept


def _nothing_fetched(tag: str, attribute: str, value: str) -> str | None:
    """Keeps only bitmaps that are embedded in the page, and nothing that could cover a card."""
    if attribute == "src" and (len(value) >= MOST_PICTURE or not PICTURE.fullmatch(value)):
        return None
    return None if attribute == "style" and re.search(r"margin[^;]*-", value) else value


def _depth(page: str) -> int:
    """An upper bound on the depth of nested tags, at least a browser's count."""
    deepest, depth, open_now = 0, 0, Counter[str]()
    for closes, name in TAG.findall(page.lower()):
        step = 1 if not closes else -1 if open_now[name] else 0
        open_now[name] += step
        depth += step
        deepest = max(deepest, depth)
    return deepest


def _text(value: Any) -> str:
    text = writable(value) if isinstance(value, str) else ""
    if len(text) > MOST_TEXT:
        return text[:MOST_TEXT] + f"\n… and {len(text) - MOST_TEXT:,} characters more\n"
    return text
