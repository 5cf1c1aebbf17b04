"""Stores a reader's progress in one small file."""

from __future__ import annotations

import contextlib
import html
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from whywrong import Report
from whywrong.hosting import GOOD, GREY, INK, LINE, course_folder, localised, points_word

from .language import filled

FILE_NAME = ".course_progress.json"
SIGNS = "✓ done, ◐ partly, ✗ not right yet, ○ not yet"


def progress_path() -> Path | None:
    """The file that stores the points: COURSE_PROGRESS if set, otherwise one in the course folder.

    Nothing is stored with COURSE_PROGRESS=off, in nbgrader's autograde, in solutions/ or outside
    the course folder. That folder is the nearest one above the notebook with an nbgrader_config.py
    or, after `course new`, with a file of points; in Colab, it is the current folder.
    """
    named = os.environ.get("COURSE_PROGRESS")
    if named == "off" or os.environ.get("NBGRADER_EXECUTION"):
        return None
    if named:
        return Path(named)
    folder = course_folder() or _own_folder()
    if folder is None or folder / "solutions" in (Path.cwd(), *Path.cwd().parents):
        return None
    return folder / FILE_NAME


def _own_folder() -> Path | None:
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / FILE_NAME).exists())
    return next(found, here if "google.colab" in sys.modules else None)


def load(path: Path | None) -> tuple[dict[str, dict[str, float]], str]:
    """The points by exercise id, and a message, which is "" unless the file had to be renamed."""
    if path is None:
        return {}, ""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, ""
    except (OSError, UnicodeDecodeError) as error:
        return {}, _set_aside(path, str(error))
    try:
        exercises = json.loads(text)["exercises"]
        return {str(k): _entry(v) for k, v in exercises.items()}, ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, _set_aside(path, "it doesn't contain progress data")


def _entry(value: Any) -> dict[str, float]:
    points, most = float(value["points"]), float(value["max_points"])
    if not (math.isfinite(points) and math.isfinite(most) and 0 <= points <= most):
        raise ValueError("points out of range")
    return {"points": points, "max_points": most}


def _set_aside(path: Path, reason: str) -> str:
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            with contextlib.suppress(OSError):
                path.rename(aside)
                return f"{path.name} was renamed to {aside.name} ({reason}); a new one begins."
            break
    return f"{path.name} can't be used ({reason}); your progress is not stored."


def record(report: Report) -> None:
    """Stores the best result of an exercise; errors never make a check fail."""
    path = progress_path()
    if not report.attempted or path is None:
        return
    with contextlib.suppress(OSError, Timeout), FileLock(f"{path}.lock", timeout=2):
        exercises, _ = load(path)
        before = exercises.get(report.exercise, {"points": -1.0})
        if before["points"] >= report.points and before.get("max_points") == report.max_points:
            return
        exercises[report.exercise] = {"points": report.points, "max_points": report.max_points}
        _write(path, exercises, losses())


Losses = dict[str, dict[str, dict[str, Any]]]


def record_loss(row: str, part: str, loss: float, plural: float, lines: Sequence[str]) -> None:
    """Store your last run of a part in a row of "The loss so far"; errors never stop a lesson."""
    path = progress_path()
    if path is None:
        return
    with contextlib.suppress(OSError, Timeout), FileLock(f"{path}.lock", timeout=2):
        exercises, _ = load(path)
        known = losses()
        of_row = known.setdefault(row, {})
        of_row.pop(part, None)  # the latest run is the last
        of_row[part] = {"loss": round(loss, 6), "plural": round(plural, 4), "lines": list(lines)}
        _write(path, exercises, known)


def losses() -> Losses:
    """Return your stored runs by row and part, the latest last: the loss, the probability of a
    plural verb, and the lines that the model wrote."""
    path = progress_path()
    if path is None:
        return {}
    try:
        known = json.loads(path.read_text(encoding="utf-8")).get("losses", {})
        return {
            str(row): {
                str(part): {
                    "loss": float(run["loss"]),
                    "plural": float(run["plural"]),
                    "lines": [str(line) for line in run["lines"]],
                }
                for part, run in runs.items()
                if "plural" in run  # it is missing in files of an earlier version
            }
            for row, runs in known.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _write(path: Path, exercises: dict[str, dict[str, float]], runs: Losses) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    content: dict[str, Any] = {"version": 1, "exercises": dict(sorted(exercises.items()))}
    if runs:
        content["losses"] = runs
    new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(new, path)


@dataclass(frozen=True)
class Progress:
    """Points by lesson and exercise; each row is (lesson, [(id, points or None, max_points)]). The
    exercises in `optional` are listed, but no total contains their points."""

    rows: list[tuple[str, list[tuple[str, float | None, float]]]]
    notice: str = ""
    optional: Collection[str] = ()

    @property
    def points(self) -> float:
        return sum(p or 0.0 for id, p, _ in self._counted())

    @property
    def max_points(self) -> float:
        return sum(most for _, _, most in self._counted())

    def _counted(self) -> Iterator[tuple[str, float | None, float]]:
        every = (one for _, exercises in self.rows for one in exercises)
        return (one for one in every if one[0] not in self.optional)

    def _note(self, id: str) -> str:
        return f"\xa0{localised('(optional)')}" if id in self.optional else ""

    def __repr__(self) -> str:
        lines = [localised(self.notice)] if self.notice else []
        for lesson, exercises in self.rows:
            own = Progress([(lesson, exercises)], optional=self.optional)
            full = round(10 * own.points / (own.max_points or 1))
            bar = "█" * full + "░" * (10 - full)
            lines.append(f"{filled(_title(lesson), 24)} {bar} {own._points()}")
            names = "  ".join(f"{_sign(p, m)}\xa0{id}{self._note(id)}" for id, p, m in exercises)
            lines.append(textwrap.fill(names, 100, initial_indent="  ", subsequent_indent="  "))
        return "\n".join([*lines, localised(SIGNS), self._total(), self._next()])

    def _repr_html_(self) -> str:
        cell = "text-align:left;vertical-align:top;padding:0.3em 1em 0.3em 0;"
        cell += f"border-bottom:1px solid {LINE}"
        head = "".join(
            f'<th scope="col" style="{cell}">{localised(name)}</th>'
            for name in ("Lesson", "Points", "Exercises")
        )
        body = []
        for lesson, exercises in self.rows:
            own = Progress([(lesson, exercises)], optional=self.optional)
            names = " ".join(
                f'<span style="margin-right:1em">{_sign(p, m)}&nbsp;'
                f"<code>{html.escape(id)}</code>{self._note(id)}</span>"
                for id, p, m in exercises
            )
            body.append(
                f'<tr><th scope="row" style="{cell};font-weight:400">{_link(lesson)}</th>'
                f'<td style="{cell};white-space:nowrap">{own._bar()}{own._points()}</td>'
                f'<td style="{cell};overflow-wrap:anywhere">{names}</td></tr>'
            )
        notice = f"<p>{html.escape(localised(self.notice))}</p>" if self.notice else ""
        return (
            f'<div style="color:{INK};overflow-x:auto">{notice}{self._bar()}'
            f"<p><b>{self._total()}</b> {self._next(_link)}</p>"
            f'<table style="border-collapse:collapse;margin:0"><thead><tr>{head}</tr>'
            f"</thead><tbody>{''.join(body)}</tbody></table><p>{localised(SIGNS)}</p></div>"
        )

    def _points(self) -> str:
        return localised(f"{self.points:g} of {self.max_points:g}")

    def _total(self) -> str:
        return localised(f"{self.points:g} of {points_word(self.max_points)}.")

    def _next(self, shown: Callable[[str], str] | None = None) -> str:
        """The first exercise that isn't done, in HTML if `shown` makes HTML of its lesson."""
        for lesson, exercises in self.rows:
            for id, points, most in exercises:
                if points != most and id not in self.optional:
                    name = f"<code>{html.escape(id)}</code>" if shown else id
                    return localised(f"Next: {name} in {(shown or _title)(lesson)}")
        return localised("All exercises are done.") if self.rows else ""

    def _bar(self) -> str:
        share = 100 * self.points / (self.max_points or 1)
        return (
            f'<div aria-hidden="true" style="width:5em;height:0.7em;margin:0.2em 0;border:1px '
            f'solid {GREY}"><div style="height:100%;width:{share:.0f}%;background:{GOOD}">'
            "</div></div>"
        )


def _title(lesson: str) -> str:
    """The title of a lesson: "03 softmax masking" for "1-averages/03_softmax_masking"."""
    return localised(lesson.split("/")[-1].replace("_", " "))


def _link(lesson: str) -> str:
    """A lesson's title, linked from the running notebook to the lesson's notebook if it exists."""
    title = html.escape(_title(lesson))
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / f"{lesson}.ipynb").is_file():
            there = os.path.relpath(folder / f"{lesson}.ipynb")
            return f'<a href="{html.escape(Path(there).as_posix())}">{title}</a>'
    return title


def _sign(points: float | None, most: float) -> str:
    if points is None:
        return "○"
    if points == most:
        return "✓"
    return "◐" if points else "✗"
