"""The site's pages for teachers: what people write in an exercise, and what the card says to it."""

from __future__ import annotations

import difflib
import html
import re
from itertools import groupby
from pathlib import Path

from whywrong.exercise import Misconception
from whywrong.texts import Text

from . import EXERCISES


def write(folder: Path, lessons: list[Path]) -> None:
    """One page for each exercise, and their list."""
    folder.mkdir(parents=True)
    index = [
        "# Exercises, for teachers",
        "",
        "For each exercise: the misconceptions that its check can name, each with the lines that "
        "make it and the sentences on the card. They give answers away: for students, the lesson "
        "is better.",
        "",
    ]
    for lesson in lessons:
        place = EXERCISES / lesson.parent.name / lesson.stem
        texts = [Text(p) for p in sorted(place.glob("*.md")) if p.stem.isidentifier()]
        if not texts:
            continue
        index += [f"## [{title(lesson)}](../{lesson.parent.name}/{lesson.name})", ""]
        index += ["| Exercise | Points | Misconceptions |", "|---|---|---|"]
        for text in texts:
            ideas = len({m.id for m in text.misconceptions})
            index.append(f"| [`{text.id}`]({text.id}.md) | {text.points:g} | {ideas} |")
            (folder / f"{text.id}.md").write_text(page(text, lesson), encoding="utf-8")
        index.append("")
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def title(lesson: Path) -> str:
    number, _, words = lesson.stem.partition("_")
    return f"Lesson {number}: {words.replace('_', ' ')}"


def page(text: Text, lesson: Path) -> str:
    """An exercise's page, as Markdown."""
    call = text.head.get("call", text.id)
    lines = [
        "---\norphan: true\n---",
        f"# `{text.id}` (lesson {lesson.stem[:2]})",
        "",
        f"`{call}` · {text.points:g} {'point' if text.points == 1 else 'points'} · "
        f"[{title(lesson)}](../{lesson.parent.name}/{lesson.name}) · [all exercises](index.md)",
        "",
        *_entries(text),
        "## Misconceptions",
        "",
        "The most likely first. The card shows the sentences. An answer is compared by its results,"
        " not by its lines. In the code, lines with − are those of the right answer; lines with + "
        "replace them."
        if text.misconceptions
        else "This exercise names none.",
        "",
    ]
    for id, ideas in groupby(text.misconceptions, lambda m: m.id):
        lines += [f"### {id.replace('_', ' ')}", ""]
        said = None
        for idea in ideas:
            if idea.advice != said:
                said = idea.advice
                lines += [idea.what, "", f"*Why:* {idea.why}", "", f"*Look:* {idea.look}", ""]
            lines += [*_lines(text, idea), ""]
    if text.hints:
        hints = [f"{number}. {hint}" for number, hint in enumerate(text.hints, 1)]
        lines += [*folded("Hints", hints)]
    if not text.is_quiz:
        lines += folded("A right answer", fenced("python", text.right.text))
    if text.other_way:
        lines += folded("Another way", fenced("python", text.other_way))
    return "\n".join(lines) + "\n"


def _entries(text: Text) -> list[str]:
    """The questions of a quiz, with their answers folded."""
    if not text.is_quiz:
        return []
    lines = ["## Questions", ""]
    for entry in text.entries:
        lines += [f"**{entry.name}**" + (f": {entry.ask}" if entry.ask else ""), ""]
        why = f" {entry.why}" if entry.why else ""
        lines += folded("Answer", [f"`{entry.answer!r}`.{why}"])
    return lines


def _lines(text: Text, idea: Misconception) -> list[str]:
    """What the answer of a misconception changes."""
    if idea.program is None:
        return [f"- `{name}`: `{value!r}`" for name, value in idea.entries.items()]
    if not idea.program.edits:
        return fenced("python", idea.program.text)
    before, after = text.right.text.splitlines(), idea.program.text.splitlines()
    changes = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
    kept = [line for line in changes if not re.match(r"@@ ", line)]
    return fenced("diff", "\n".join(kept))


def fenced(language: str, code: str) -> list[str]:
    return [f"```{language}", code.rstrip("\n"), "```"]


def folded(summary: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{html.escape(summary)}</summary>", "", *lines, "", "</details>", ""]
