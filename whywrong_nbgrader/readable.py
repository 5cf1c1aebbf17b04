"""Makes untrusted text safe for a file, a page and a terminal."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nh3

# Characters that move a terminal's cursor, set its title, or reverse the order of letters.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# In formulas, these create links and styles, or rename other commands.
ACTING = "href|url|style|class|cssId|data|require|let|def|newcommand|renewcommand|mmlToken|Tooltip"
MATH_THAT_ACTS = re.compile(rf"(?<!\\)\\+(?=(?:{ACTING}|newenvironment|begingroup|csname)\b)", re.I)

LONGEST_NAME, MOST_REMARKS = 100, 20  # characters; on one notebook

ALLOWED = tomllib.loads(Path(__file__).with_name("allowed.toml").read_text(encoding="utf-8"))


def clean(page: str, kind: str, **how: Any) -> str:
    """HTML or MathML without anything that `allowed.toml` doesn't name."""
    attributes = {tag: set(a.split()) for tag, a in ALLOWED[kind]["attributes"].items()}
    how["filter_style_properties"] = set(ALLOWED["styles"].split())
    return nh3.clean(page, tags=set(ALLOWED[kind]["tags"].split()), attributes=attributes, **how)


def writable(text: str) -> str:
    """The text without unpaired surrogates, which can't be written to a file."""
    return text.encode("utf-8", "replace").decode()


def math_at_rest(text: str) -> str:
    """The text without formulas that react to a click."""
    return MATH_THAT_ACTS.sub("", text)


def readable(text: str) -> str:
    """The text in a form that is safe for a terminal, a table and a page."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", math_at_rest(writable(text)))


def in_a_line(name: str) -> str:
    """A name in a form that is safe for a table."""
    return " ".join(readable(name).split())


def file_name(name: object) -> str:
    """A file's name in quotation marks: a student chose it, perhaps to be read as a remark."""
    line = in_a_line(str(name)).replace('"', "'")
    return f'"{line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"}"'


def shortened(remarks: Iterable[str]) -> list[str]:
    """The first of these remarks, each once, and how many there are more."""
    different = [*dict.fromkeys(remarks)]
    left_out = len(different) - MOST_REMARKS
    more = [f"and {left_out} more remarks"] if left_out > 0 else []
    return different[:MOST_REMARKS] + more


def all_readable(value: Any) -> Any:
    """Plain data with every text in it made safe."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [all_readable(v) for v in value]
    if isinstance(value, dict):
        return {all_readable(k): all_readable(v) for k, v in value.items()}
    return value
