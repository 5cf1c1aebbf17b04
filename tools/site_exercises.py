"""The site's pages for teachers: what people write in an exercise, and what the card says to it."""

from __future__ import annotations

import difflib
import html
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from course_utils.desk.translated import translated
from whywrong._texts import Text
from whywrong.hosting import Misconception, localised

from . import EXERCISES
from .translations import Language, place

HEADING = re.compile(r"^#{1,3} (.+)(?=\n*(.*))", re.M)  # and the line below it
COMMENT = re.compile(r" +# .*$", re.M)
NUMBER = re.compile(r"^\d+(?:\.| ·) ")
MINUTES = re.compile(r" ?[(（][^()（）]*\d[^()（）]*[)）]$")
COMPLAINT = re.compile(r'(?:\*"|“\*)([^*"“”]+)[*"]')  # begins a section of lesson 14
ABOUT = (
    "For each exercise: the misconceptions that its check can name, each with the lines that make "
    "it and the sentences on the card. They give answers away: for students, the lesson is better."
)
MOST_LIKELY = (
    "The most likely first. The card shows the sentences. An answer is compared by its results, "
    "not by its lines. In the code, lines with − are those of the right answer; lines with + "
    "replace them."
)


def pages(lessons: list[Path], to: Language | None = None) -> Iterator[tuple[Path, str]]:
    """Yield the names and the Markdown of the exercises' pages, and of their list."""
    index = [f"# {localised('Exercises, for teachers')}", "", localised(ABOUT), ""]
    heads = " | ".join(map(localised, ("Exercise", "Points", "Misconceptions")))
    for lesson in lessons:
        folder = EXERCISES / lesson.parent.name / lesson.stem
        texts = [Text(p) for p in sorted(folder.glob("*.md")) if p.stem.isidentifier()]
        if not texts:
            continue
        name, sections = titles(lesson, to)
        link = f"../{lesson.parent.name}/{lesson.name}"
        index += [f"## [{localised(f'Lesson {lesson.stem[:2]}: {name}')}]({link})", ""]
        index += [f"| {heads} |", "|---|---|---|"]
        for text in texts:
            ideas = len({m.id for m in text.misconceptions})
            shown = f"[{sections[text.id]}]({text.id}.md) · `{text.id}`"
            index.append(f"| {shown} | {text.points:g} | {ideas} |")
            title = localised(
                f"{sections[text.id]} (`{text.id}`, lesson {lesson.stem[:2]}: {name})"
            )
            yield Path("exercises", f"{text.id}.md"), page(text, title, link)
        index.append("")
    yield Path("exercises", "index.md"), "\n".join(index)


def titles(lesson: Path, to: Language | None = None) -> tuple[str, dict[str, str]]:
    """Return a lesson's title, and for each exercise its section, in words to search for."""
    notebook = json.loads(lesson.read_text(encoding="utf-8"))
    if to is not None:
        notebook = translated(notebook, place(to.folder, lesson), to.stale)
    cells = [c for c in notebook["cells"] if c["cell_type"] == "markdown"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells)
    title, section, sections = "", "", {}
    for heading, below in HEADING.findall(text):
        if exercise := re.search(r"`(\w+)`$", heading):
            recalls = exercise[1].startswith("recall_")
            words = localised("Questions about earlier lessons") if recalls else section
            sections[exercise[1]] = words
            continue
        section = NUMBER.sub("", MINUTES.sub("", heading.rpartition("· ")[2]))
        title = title or re.split("[:：]", section)[0]
        if complaint := COMPLAINT.match(below):
            section += localised(": ") + f"“{complaint[1]}”"
    return title, sections


def page(text: Text, title: str, lesson: str) -> str:
    """An exercise's page, as Markdown."""
    call = text.head.get("call", text.id)
    points = localised(f"{text.points:g} {'point' if text.points == 1 else 'points'}")
    lines = [
        "---\norphan: true\n---",
        f"# {title}",
        "",
        f"`{call}` · {points} · [{localised('the lesson')}]({lesson}) · "
        f"[{localised('all exercises')}](index.md)",
        "",
        *_entries(text),
        f"## {localised('Misconceptions')}",
        "",
        localised(MOST_LIKELY if text.misconceptions else "This exercise names none."),
        "",
    ]
    for _, ideas in groupby(text.misconceptions, lambda m: m.id):
        shown = None
        for idea in ideas:
            if idea.advice != shown:
                title = "" if shown else "### "
                shown = idea.advice
                lines += [f"{title}{localised(idea.what)}", ""]
                lines += [f"*{localised('Why it matters:')}* {localised(idea.why)}", ""]
                lines += [f"*{localised('Where to look:')}* {localised(idea.look)}", ""]
            lines += [*_lines(text, idea), ""]
    if text.hints:
        hints = [f"{number}. {localised(hint)}" for number, hint in enumerate(text.hints, 1)]
        lines += [*folded(localised("Hints"), hints)]
    if not text.is_quiz:
        lines += folded(localised("A right answer"), fenced("python", text.right.text))
    if text.other_way:
        lines += folded(localised("Another way to write it"), fenced("python", text.other_way))
    return "\n".join(lines) + "\n"


def _entries(text: Text) -> list[str]:
    """The questions of a quiz, with their answers folded."""
    if not text.is_quiz:
        return []
    lines = [f"## {localised('Questions')}", ""]
    for entry in text.entries:
        lines += [
            f"**{entry.name}**" + (localised(": ") + localised(entry.ask) if entry.ask else ""),
            "",
        ]
        why = f" {localised(entry.why)}" if entry.why else ""
        lines += folded(localised("Answer"), [f"`{entry.answer!r}`.{why}"])
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
    # What a comment says of the right line needn't be true of the line that replaces it.
    kept = [COMMENT.sub("", line) if line.startswith("+") else line for line in kept]
    return fenced("diff", "\n".join(kept))


def fenced(language: str, code: str) -> list[str]:
    return [f"```{language}", code.rstrip("\n"), "```"]


def folded(summary: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{html.escape(summary)}</summary>", "", *lines, "", "</details>", ""]
