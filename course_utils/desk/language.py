"""The reader's language, for all that shows a sentence: see `whywrong/language.py`."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from whywrong.installed import installed
from whywrong.language import MARKER, language, said

__all__ = [
    "MARKER",
    "filled",
    "folders",
    "fonts",
    "is_wide",
    "language",
    "said",
    "sentences_of_the_page",
    "settings",
]


def folders() -> dict[str, Path]:
    """The folders of the languages that the course is translated into."""
    course = installed()
    found = course.translations.glob("*/language.toml") if course else ()
    return {path.parent.name: path.parent for path in sorted(found)}


@cache
def settings(folder: Path) -> dict[str, Any]:
    """What a language's `language.toml` says."""
    return tomllib.loads((folder / "language.toml").read_text(encoding="utf-8"))


def is_wide(character: str) -> bool:
    """Whether a character takes two columns."""
    return unicodedata.east_asian_width(character) in "WF"


def filled(text: str, columns: int) -> str:
    """A text with spaces after it, so that it takes this many columns."""
    return text + " " * (columns - len(text) - sum(map(is_wide, text)))


def sentences_of_the_page() -> dict[str, str]:
    """What widgets show by themselves, in the reader's language; empty for English."""
    folder = folders().get(language()) if language() else None
    file = folder / "strings" / "page.json" if folder else None
    found = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    return {english: own for english, own in found.items() if own}


def fonts() -> list[str]:
    """Fonts that have the characters of the reader's language; empty for English."""
    folder = folders().get(language()) if language() else None
    return list(settings(folder)["fonts"]) if folder else []
