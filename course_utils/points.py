"""How far a reader has come, in one small file of their own."""

from __future__ import annotations

import contextlib
import html
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from whywrong.card import INK, LINE
from whywrong.course import course_folder
from whywrong.report import Report
from whywrong.rows import points_word

FILE_NAME = ".course_progress.json"


def progress_path() -> Path | None:
    """The file that keeps the points: COURSE_PROGRESS if set, else in the course folder.

    COURSE_PROGRESS=off keeps nothing, and neither does nbgrader's autograde. Nothing is kept of
    what runs in solutions/ or outside of the course folder: the nearest one above the notebook
    that holds nbgrader_config.py or, after `course new`, such a file; in Colab, where you are.
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
    """The points by exercise id, and a sentence if the file had to be set aside."""
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
        return {}, _set_aside(path, "it is not readable as progress")


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
                return f"{path.name} was set aside as {aside.name} ({reason}); a new one is begun."
            break
    return f"{path.name} can't be used ({reason}); nothing is kept."


def record(report: Report) -> None:
    """Keeps the best result of an exercise; never a reason for a check to fail."""
    path = progress_path()
    if not report.attempted or path is None:
        return
    with contextlib.suppress(OSError, Timeout), FileLock(f"{path}.lock", timeout=2):
        exercises, _ = load(path)
        before = exercises.get(report.exercise, {"points": -1.0})
        if before["points"] >= report.points and before.get("max_points") == report.max_points:
            return
        exercises[report.exercise] = {"points": report.points, "max_points": report.max_points}
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        content = {"version": 1, "exercises": dict(sorted(exercises.items()))}
        new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(new, path)


@dataclass(frozen=True)
class Progress:
    """Points by lesson and exercise: `rows` of (lesson, [(id, points or None, max_points)])."""

    rows: list[tuple[str, list[tuple[str, float | None, float]]]]
    notice: str = ""

    @property
    def points(self) -> float:
        return sum(p or 0.0 for _, exercises in self.rows for _, p, _ in exercises)

    @property
    def max_points(self) -> float:
        return sum(m for _, exercises in self.rows for _, _, m in exercises)

    def __repr__(self) -> str:
        lines = [self.notice] if self.notice else []
        for lesson, exercises in self.rows:
            lines.append(lesson)
            for id, points, most in exercises:
                lines.append(f"  {_state(points, most):<16} {_score(points, most):>9}  {id}")
        lines.append(f"{self.points:g} of {points_word(self.max_points)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cell = f"text-align:left;padding:0.2em 1em 0.2em 0;border-bottom:1px solid {LINE}"
        head = "".join(
            f'<th scope="col" style="{cell}">{name}</th>'
            for name in ("Lesson", "Exercise", "State", "Points")
        )
        body = []
        for lesson, exercises in self.rows:
            for i, (id, points, most) in enumerate(exercises):
                name = lesson.split("/")[-1] if i == 0 else ""
                texts = (name, f"<code>{html.escape(id)}</code>", _state(points, most))
                cells = "".join(f'<td style="{cell}">{t}</td>' for t in texts)
                score = f'<td style="{cell}">{_score(points, most)}</td>'
                body.append(f"<tr>{cells}{score}</tr>")
        notice = f"<p>{html.escape(self.notice)}</p>" if self.notice else ""
        return (
            f'<div style="color:{INK}">{notice}<table style="border-collapse:collapse;'
            f'text-align:left"><caption style="text-align:left;font-weight:600">'
            f"{self.points:g} of {points_word(self.max_points)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )


def _state(points: float | None, most: float) -> str:
    if points is None:
        return "○ not yet"
    if points == most:
        return "✓ done"
    return "◐ partly" if points else "✗ not right yet"


def _score(points: float | None, most: float) -> str:
    return f"{points or 0:g} of {most:g}"
