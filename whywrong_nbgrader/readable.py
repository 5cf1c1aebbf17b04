"""Texts of strangers, made fit for a file, a page and a terminal."""

from __future__ import annotations

import re
from typing import Any

# What moves a terminal's cursor or its title, or turns the order of letters round.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Where formulas are set, these make links and styles, or give others their names.
ACTING = "href|url|style|class|cssId|data|require|let|def|newcommand|renewcommand|mmlToken|Tooltip"
MATH_THAT_ACTS = re.compile(rf"(?<!\\)\\+(?=(?:{ACTING}|newenvironment|begingroup|csname)\b)", re.I)


def writable(text: str) -> str:
    """The text without half characters, which no file holds."""
    return text.encode("utf-8", "replace").decode()


def math_at_rest(text: str) -> str:
    """The text without the formulas that act when somebody clicks on them."""
    return MATH_THAT_ACTS.sub("", text)


def readable(text: str) -> str:
    """The text as a terminal, a table and a page may show it."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", math_at_rest(writable(text)))


def in_a_line(name: str) -> str:
    """A name as a table may show it."""
    return " ".join(readable(name).split())


def all_readable(value: Any) -> Any:
    """Plain data with every text in it readable."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [all_readable(v) for v in value]
    if isinstance(value, dict):
        return {all_readable(k): all_readable(v) for k, v in value.items()}
    return value
