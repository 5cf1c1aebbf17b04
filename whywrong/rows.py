"""The parts of a report and its card: rows, and catalogue text without its markup."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .language import said

NOT_ATTEMPTED = "Not attempted yet."
# Chinese has no spaces between words, so a star is plain only next to Latin letters and digits.
EMPHASIS = re.compile(r"(?<![A-Za-z0-9_*])\*(\w[^*\n]*\w|\w)\*(?![A-Za-z0-9_*])")


@dataclass(frozen=True)
class BehaviourResult:
    """One row of a report: a property, and whether it is true (None: could not be tried).

    `worded`: the text itself says what is wrong; else it is a property that is not true yet.
    """

    id: str
    text: str
    holds: bool | None
    credit: bool = False
    gate: bool = False
    worded: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a result with a wrong number, as text: expected above got."""

    label: str
    expected: tuple[str, ...]
    got: tuple[str, ...]
    wrong: tuple[bool, ...]


def points_word(points: float) -> str:
    return f"{points:g} point" if points == 1 else f"{points:g} points"


def plain_text(text: str) -> str:
    """Returns a catalogue text in the reader's language, without backticks and stars."""
    text = EMPHASIS.sub(r"\1", said(text))
    return text.replace("`", "")
