"""Prints of texts, for comparing them: winnowing (Schleimer, Wilkerson and Aiken, 2003).

It parses what students wrote, so it runs in a process of its own (helper.py)."""

from __future__ import annotations

import ast
import re
import unicodedata
import zlib
from typing import Any

MOST_READ = 20_000  # characters of a cell
GRAM, WINDOW = 6, 4  # words in a print; one print of this many neighbours is kept


def prepared(sources: list[str]) -> list[list[int]]:
    """Returns the prints of each text; two texts that share nine words in a row share a print."""
    return [sorted(winnowed(normal(source[:MOST_READ]))) for source in sources]


def normal(source: str) -> str:
    """Code without comments, docstrings and layout; unchanged if it can't be parsed."""
    source = unicodedata.normalize("NFKC", source)
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            body: Any = getattr(node, "body", None)
            if isinstance(body, list):
                body[:] = [one for one in body if not _says_nothing(one)] or body[:1]
        return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError):
        return source


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or another constant that is not used."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def winnowed(text: str) -> set[int]:
    words = re.findall(r"\w+|[^\w\s]", text)
    grams = [
        zlib.crc32(" ".join(words[n : n + GRAM]).encode("utf-8", "replace"))
        for n in range(max(len(words) - GRAM + 1, 1))
    ]
    return {min(grams[n : n + WINDOW]) for n in range(max(len(grams) - WINDOW + 1, 1))}
