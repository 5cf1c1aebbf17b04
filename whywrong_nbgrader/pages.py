"""What students wrote, as parts of a page: Markdown, formulas and coloured code.

It runs in a process of its own (helper.py), because all three may take any time and memory."""

from __future__ import annotations

import html
from contextlib import suppress
from functools import lru_cache

from latex2mathml.converter import convert
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from .readable import clean

MOST_COLOURED, LONGEST_LINE, LONGEST_FORMULA = 20_000, 300, 1000  # characters
DEEPEST = 30  # open brackets in a formula: conversion takes quadratic time in their number


def highlight(source: str, language: str | None = None) -> str:
    """Colours code, except where that takes long: the time is quadratic in the length of a line,
    and in the number of lines that end in spaces."""
    lines = [line.rstrip() for line in source.split("\n")]
    if len(source) > MOST_COLOURED or max(map(len, lines)) > LONGEST_LINE:
        return plainly(source)
    return str(Highlight2HTML()("\n".join(lines), language))


def plainly(source: str) -> str:
    return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'


class WithFormulas(IPythonRenderer):
    """Markdown whose formulas are drawn by the browser itself, without a script."""

    def inline_math(self, body: str) -> str:
        return _mathml(body, "inline")

    def block_math(self, body: str) -> str:
        return _mathml(body, "block")


def markdown(source: str) -> str:
    renderer = WithFormulas(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


@lru_cache(maxsize=4096)  # a class has the same formulas
def _mathml(source: str, display: str) -> str:
    """A formula; its source if it can't be converted, whose text may be a student's."""
    with suppress(Exception):
        if len(source) <= LONGEST_FORMULA and sum(map(source.count, "{([")) <= DEEPEST * 4:
            return clean(convert(" ".join(source.split()), display=display), "mathml")
    return f"<code>{html.escape(source)}</code>"
