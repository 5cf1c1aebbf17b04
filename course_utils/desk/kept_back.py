"""Texts that would give an answer away, which are kept out of the notebooks, in kept_back.toml: the
explanations of results and the replies to wrong predictions, which `reveal` shows; the titles and
alternative texts of figures (`caption`); and the answers to lessons' first questions (`recall`).
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def kept_back() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the texts that lessons' cells must not show yet, by lesson and name."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def caption(name: str, **numbers: Any) -> dict[str, str]:
    """The title and text alternative of a figure, stored elsewhere so that they give nothing away.

    Args:
        name: the lesson and the figure's name, such as "01 shares".
        numbers: values for the text's placeholders in braces.

    Returns:
        The arguments `title` and `alt` for any function in `figures`, for example
        `heatmap(x, **caption("01 …"))`.
    """
    lesson, _, figure = name.partition(" ")
    kept = kept_back()[lesson][figure]
    return {part: text.format(**numbers) for part, text in kept.items()}
