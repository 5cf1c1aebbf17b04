"""Takes one notebook from its cells to its points: runs it in a sandbox, judges it here.

A pure function of the cells, the exercises and the seed, so results can be stored and reused.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from whywrong import Catalogue, Observation, Report
from whywrong.hosting import AnswerKey, Exercise, cached_key, names_written, speaking, time_budget

from .cells import Cell
from .fork_server import Fork, ForkServer
from .helper import SECONDS, TooMuch, helper
from .inside import wire
from .needed import needed
from .outputs import told
from .readable import in_a_line
from .verdicts import same_code, verdict

MOST_ALTOGETHER, MOST_OUTPUTS = 6_000_000, 2000  # characters and number of a notebook's outputs
CLEANING = 12.0  # seconds of processor time for the outputs of all cells


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
        given = {n: time_budget(n.upper(), s) for n, s in vars(cls()).items()}
        return cls(**given)


@dataclass
class Graded:
    """The result of a notebook, as plain data."""

    outputs: list[list[dict[str, Any]]] = field(default_factory=list)  # of each code cell
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)  # from `Report.to_dict`
    happened: list[str] = field(default_factory=list)  # that a person should know; usually none
    tier: str = ""  # the protection between the submission and this machine
    codes: dict[str, int] = field(default_factory=dict)  # instructions shared with finished parts
    origins: dict[str, str] = field(default_factory=dict)  # of answers that no cell has written
    left_out: list[int] = field(default_factory=list)  # code cells that no points depend on
    starved: bool = False  # it lacked time or memory of this machine: run again, it may have more

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


PYTHON = ".".join(platform.python_version_tuple()[:2])
LEFT_OUT = "Not run for grading: no points depend on this cell of the lesson."
MISSING = re.compile(r"name '(\w+)' is not defined|No module named '(\w+)'")
AT_LINE = re.compile(r"Cell In\[\d+\], line (\d+)")
IMPORT = re.compile(r"^(?:from +[\w.]+ +)?import +([\w., ]+)", re.M)
Judging = tuple[Exercise, Catalogue, AnswerKey, list[Observation]]


class _Run:
    """A notebook in progress: its process, the cells that ran, those that must not run again."""

    def __init__(
        self, server: ForkServer, cells: Sequence[Cell], times: Times, files: Mapping[str, bytes]
    ) -> None:
        self.server, self.cells, self.times, self.files = server, cells, times, files
        self.begun, self.starved = server.used, False
        self.codes: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        self.outputs_left, self.cleaned_until = MOST_OUTPUTS, helper().spent + CLEANING
        self.fork: Fork | None = None
        self.done: list[int] = []  # cells that a new process needs
        self.failed: dict[str, str] = {}  # names whose cell failed, with the error
        self.happened: list[str] = []
        self.room_left = MOST_ALTOGETHER
        self._process = ExitStack()

    def begin(self) -> None:
        self.leave()
        self.fork = self._process.enter_context(self.server.fork())
        for name, data in self.files.items():
            with suppress(wire.Ended, wire.OutOfTime, wire.BadMessage):
                self.fork.ask({"do": "file", "name": name}, data, 10.0)

    def leave(self) -> None:
        self.fork = None
        self._process.close()

    def left(self, most: float) -> float:
        return min(most, self.times.notebook - (self.server.used - self.begun))

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
        assert self.fork is not None
        said, _ = self.fork.ask({"do": "run", "source": source}, b"", self.left(self.times.cell))
        return said

    def cell(self, number: int) -> list[dict[str, Any]]:
        """The outputs of a cell."""
        cell = self.cells[number]
        try:
            said = self._ask(cell.source)
        except wire.OutOfTime as error:
            self.starved |= isinstance(error, wire.Starved)
            return self._stopped(number)
        except (wire.Ended, wire.BadMessage) as error:
            why = self._why(error)
            self.begin_again()
            return self._refused(number, f"This cell ended the notebook's process ({why}).")
        self.done.append(number)
        outputs = self._cleaned(number, said.get("outputs"))
        self._note_names(number, said.get("outputs"))
        return self._kept(number, outputs)

    def _cleaned(self, number: int, outputs: Any) -> list[dict[str, Any]]:
        """Returns a cell's outputs in a known form, made in a process that may end."""
        try:
            if not outputs:
                return []
            left = min(SECONDS, self.cleaned_until - helper().spent)
            cleaned: list[dict[str, Any]] = helper().ask("outputs", outputs, seconds=left)
            return cleaned
        except TooMuch as error:
            said = f"Its output is left out: {error}"
            self.happened.append(f"cell {number + 1}: {said[0].lower()}{said[1:]}")
            return [told(f"This cell ran. {said}.")]

    def _kept(self, number: int, outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A cell's outputs, unless the outputs of all cells together are too large."""
        size = len(json.dumps(outputs)) if outputs else 0
        if size <= self.room_left and len(outputs) <= self.outputs_left:
            self.room_left -= size
            self.outputs_left -= len(outputs)
            return outputs
        said = f"outputs are left out: the limit per notebook is {MOST_ALTOGETHER:,} characters"
        if self.room_left:
            self.happened.append(f"from cell {number + 1} on, {said}")
        self.room_left = 0
        return [told(f"This cell ran. Its {said}.")]

    def _why(self, error: Exception) -> str:
        time.sleep(0.15)  # the watch checks ten times per second
        if self.server.too_much or isinstance(error, wire.BadMessage | wire.Deaf):
            return self.server.too_much or str(error)
        return "it exited or crashed"

    def _stopped(self, number: int) -> list[dict[str, Any]]:
        """Interrupts a cell that does not end; if it still goes on, ends its process."""
        assert self.fork is not None
        said = f"This cell was still running after {self.times.cell:g} seconds and was stopped."
        try:
            self.fork.interrupt(2.0)
            self.done.append(number)
        except (wire.Ended, wire.OutOfTime, wire.BadMessage):
            if self.server.too_much:
                said = f"This cell ended the notebook's process ({self.server.too_much})."
            self.begin_again()
        return self._refused(number, said)

    def _refused(self, number: int, said: str) -> list[dict[str, Any]]:
        self.happened.append(f"cell {number + 1}: {said[0].lower()}{said[1:]}")
        self.failed |= dict.fromkeys(_names_bound(self.cells[number].source), said)
        return [told(said)]

    def _note_names(self, number: int, outputs: Any) -> None:
        outputs = outputs if isinstance(outputs, list) else []
        names = _names_bound(self.cells[number].source)
        errors = [o for o in outputs if isinstance(o, dict) and o.get("output_type") == "error"]
        if not errors:
            for name in names:
                self.failed.pop(name, None)
            return
        kind, why = (in_a_line(str(errors[-1].get(n, ""))[:120]) for n in ("ename", "evalue"))
        if kind in ("SyntaxError", "IndentationError", "TabError"):
            said = f"Cell {number + 1} doesn't compile on Python {PYTHON}: {why}."
            self.happened.append(f"{said[0].lower()}{said[1:-1]}")
        else:
            line = AT_LINE.search(str(errors[-1].get("traceback", ""))[:10_000])
            where = f" in line {line[1]}" if line else ""
            said = f"Cell {number + 1}, which defines it, failed{where} ({kind}: {why[:60]})."
        self.failed |= dict.fromkeys(names, said)

    def judged(
        self, exercise: Exercise, catalogue: Catalogue, key: AnswerKey, seen: list[Observation]
    ) -> Report:
        """The report on an answer; `seen` is filled with the observations."""
        judging = exercise, catalogue, key, seen
        report, lived = self._verdict(judging)
        if not lived and exercise.rules.uses:  # because of an earlier answer that it calls?
            with_parts, _ = self._verdict(judging, report)
            report = with_parts if with_parts.passed else report
        if not report.passed and (failure := self.failed.get(exercise.id)):
            report = replace(report, notes=[failure, *report.notes])
        return self._with_missing_names(report, exercise)

    def _with_missing_names(self, report: Report, exercise: Exercise) -> Report:
        """Says where a name that an answer misses is defined, if anywhere."""
        found = MISSING.search(report.message)
        name = found[1] or found[2] if found else ""
        if not found or report.passed or name == exercise.id:
            return report
        places = [n for n, c in enumerate(self.cells, 1) if name in names_written(c.source)]
        if name in self.failed:
            said = self.failed[name]
        elif places:
            said = f"`{name}` is defined in cell {places[-1]}, which runs later."
        elif found[2]:
            said = f"The file {name}.py isn't there when a class is graded: only notebooks are."
        else:
            said = f"No cell of the submitted notebook defines `{name}`."
        return replace(report, notes=[said, *report.notes])

    def _verdict(self, judging: Judging, alone: Report | None = None) -> tuple[Report, bool]:
        """A report, and whether the notebook's process is still alive."""
        assert self.fork is not None
        exercise, catalogue, key, seen = judging
        seconds = max(self.left(self.times.check), 0.1)
        try:
            report = verdict(exercise, catalogue, self.fork, key, seconds, seen, alone)
            self.starved |= self.fork.starved
            self.codes |= same_code(exercise, self.fork.codes)
            self.origins |= {exercise.id: how} if (how := self.fork.origin) else {}
            return report, True
        except wire.OutOfTime as error:
            self.starved |= isinstance(error, wire.Starved)
            said = f"It was still running after {self.times.check:g} seconds, and could only be"
            report = Report.nothing(exercise, f"{said} stopped together with the whole notebook.")
        except wire.Ended as error:
            said = "During its check, this answer ended the notebook's process"
            report = Report.nothing(exercise, f"{said} ({self._why(error)}).")
        self.begin_again()
        return report, False


def _names_bound(source: str) -> set[str]:
    """The names that a cell defines or imports."""
    imported = [one for line in IMPORT.findall(source) for one in line.split(",")]
    return {*names_written(source), *(one.split(" as ")[-1].strip() for one in imported)}


def grade(
    cells: Sequence[Cell],
    catalogue: Catalogue,
    server: ForkServer,
    seed_of: Callable[[str], int],
    times: Times | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Graded:
    """Runs those of a notebook's cells that its points depend on, in order, and judges its answers,
    on inputs from these seeds."""
    times, runs = times or Times(), needed(cells)
    graded, run = Graded(tier=server.tier), _Run(server, cells, times, files or {})
    said = f"The notebook's {times.notebook:g} seconds ended before this cell."
    try:
        run.begin()
        for number, cell in enumerate(cells):
            exercise = catalogue.find(cell.checks) if cell.checks else None
            if (too_late := run.left(1.0) <= 0) and said not in run.happened:
                run.happened.append(said)
            if not exercise and not runs[number]:
                graded.left_out.append(number)
                graded.outputs.append([told(LEFT_OUT)])
                continue
            if not exercise:
                graded.outputs.append([told(said)] if too_late else run.cell(number))
                continue
            if too_late:
                report = Report.nothing(exercise, said)
            else:
                key = cached_key(exercise, seed_of(exercise.id))
                report = run.judged(exercise, catalogue, key, [])
            graded.reports[exercise.id] = report.to_dict()
            graded.outputs.append([card(report, exercise)])
    finally:
        run.leave()
    graded.happened, graded.starved = run.happened, run.starved
    graded.codes, graded.origins = run.codes, run.origins
    return graded


def not_run(cells: Sequence[Cell], catalogue: Catalogue, why: str) -> Graded:
    """Returns the result of a notebook that could not be run."""
    graded = Graded(happened=[why], starved=True)
    for cell in cells:
        exercise = catalogue.find(cell.checks) if cell.checks else None
        graded.outputs.append([told(f"This notebook was not graded: {why}.")])
        if exercise:
            report = Report.nothing(exercise, f"It was not graded: {why}.")
            graded.reports[exercise.id] = report.to_dict()
            graded.outputs[-1] = [card(report, exercise)]
    return graded


def watched_verdict(
    server: ForkServer,
    cells: Sequence[Cell],
    exercise: Exercise,
    catalogue: Catalogue,
    key: AnswerKey,
    times: Times,
    files: Mapping[str, bytes],
) -> tuple[Report, list[Observation], list[str]]:
    """Checks one exercise of a notebook again: the report, the observations on each case, and the
    events on the way."""
    run, runs = _Run(server, cells, times, files), needed(cells)
    seen: list[Observation] = []
    try:
        run.begin()
        for number, cell in enumerate(cells):
            if cell.checks == exercise.id:
                break
            if not cell.checks and runs[number]:
                run.cell(number)
        return run.judged(exercise, catalogue, key, seen), seen, run.happened
    finally:
        run.leave()


def card(report: Report, exercise: Exercise, spoken: str = "") -> dict[str, Any]:
    """Returns a graded cell's output: the points, for nbgrader, and the card in this language."""
    report = replace(report, hints=exercise.hints, other_way=exercise.other_way)
    with speaking(spoken):
        page = report._repr_html_()
    return {
        "output_type": "execute_result",
        "data": {"text/plain": repr(report), "text/html": page},
        "metadata": {},
        "execution_count": None,
    }
