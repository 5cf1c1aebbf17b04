"""Explains the commonest errors of Python and PyTorch, from the text `errors.md`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from .exercise import Misconception
from .texts import Section, labelled


@cache
def meanings() -> tuple[tuple[str, Misconception], ...]:
    """Patterns for parts of messages, each with its explanation; groups fill the braces."""
    lines = Path(__file__).with_name("errors.md").read_text(encoding="utf-8").splitlines()
    found = []
    for section in Section("", tuple(lines), 1).sections("## "):
        pattern, *prose = section.lines
        said = labelled("\n".join(prose))
        known = Misconception(section.title, said["what"], said.get("why", ""), said["look"])
        found.append((pattern.removeprefix("Error: "), known))
    return tuple(found)


def meaning(message: str) -> Misconception | None:
    """The explanation of an error message and where to look, or None for an unknown message."""
    for pattern, known in meanings():
        if found := re.search(pattern, message):
            groups = [*filter(None, found.groups()), "", ""]
            return replace(known, what=known.what.format(*groups), look=known.look.format(*groups))
    return None
