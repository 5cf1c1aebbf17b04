"""The reader's language, for all code that shows sentences: see `whywrong/_course.py`."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from whywrong.hosting import MARKER, columns, filled, installed, is_wide, language, localised

__all__ = [
    "MARKER",
    "columns",
    "filled",
    "folders",
    "fonts",
    "is_wide",
    "language",
    "localised",
    "sentences_of_the_page",
    "settings",
]


def folders() -> dict[str, Path]:
    """Return the folders of the languages into which the course is translated, by language code."""
    course = installed()
    found = course.translations.glob("*/language.toml") if course else ()
    return {path.parent.name: path.parent for path in sorted(found)}


@cache
def settings(folder: Path) -> dict[str, Any]:
    """Return the content of a language's `language.toml`."""
    return tomllib.loads((folder / "language.toml").read_text(encoding="utf-8"))


def sentences_of_the_page() -> dict[str, str]:
    """Return the translations of the sentences that widgets themselves show; empty for English."""
    folder = folders().get(language()) if language() else None
    file = folder / "strings" / "page.json" if folder else None
    found = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    return {english: own for english, own in found.items() if own and isinstance(own, str)}


def fonts() -> list[str]:
    """Return fonts that have the characters of the reader's language; empty for English."""
    folder = folders().get(language()) if language() else None
    return list(settings(folder)["fonts"]) if folder else []
