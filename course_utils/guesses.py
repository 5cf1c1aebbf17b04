"""Guesses: what you think will come out, typed in before you see it. They give no points.

    guess_sum = ...  # a number

    reveal(guess_sum, 28 * 4)

And the words of a figure that would give the answer away: `caption` fetches them by name.
"""

from __future__ import annotations

import math
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .rounding import fixed

SAME = "as you guessed"
OTHER = "not what you guessed: find out why before you read on"
NONE_YET = "none yet: type it over the dots above and run both cells again"


def reveal(guess: Any, result: Any, *, within: float = 0.01) -> None:
    """Print a guess beside the result, and whether they are the same. Whatever is guessed, it runs.

    Args:
        guess: a number, a word, True or False, or a list of such; `...`, or a list that still
            holds one, is no guess yet. Words are compared without regard to case and blanks.
        result: the same for what came out; a tensor counts as a list.
        within: how far a number may be off.
    """
    guess, result = _plain(guess), _plain(result)
    if _unanswered(guess):
        said, verdict = NONE_YET, ""
    else:
        same = _same(guess, result, within)
        said, verdict = _shown(guess), f"  ({SAME})" if same else f"  ({OTHER})"
    print(f"your guess: {said}\nthe result: {_shown(result)}{verdict}")


def caption(name: str, **numbers: Any) -> dict[str, str]:
    """The title and the text alternative of a figure, kept where you don't read them too early.

    Args:
        name: the lesson and the figure's name, as in "01 who hears whom".
        numbers: what stands in braces in the text.

    Returns:
        `title` and `alt`, for any function of `figures`: `heatmap(x, **caption("01 …"))`.
    """
    lesson, _, figure = name.partition(" ")
    kept = captions()[lesson][figure]
    return {part: text.format(**numbers) for part, text in kept.items()}


@cache
def captions() -> dict[str, dict[str, dict[str, str]]]:
    """All of captions.toml, by lesson and by name."""
    return tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))


def _plain(value: Any) -> Any:
    """Numbers, words and lists of them."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _unanswered(guess: Any) -> bool:
    if isinstance(guess, list | tuple):
        return any(_unanswered(item) for item in guess)
    return guess is ... or guess is None


def _same(guess: Any, result: Any, within: float) -> bool:
    if isinstance(guess, list | tuple) and isinstance(result, list | tuple):
        pairs = zip(guess, result, strict=False)
        return len(guess) == len(result) and all(_same(g, r, within) for g, r in pairs)
    if isinstance(guess, str) and isinstance(result, str):
        return _word(guess) == _word(result)
    if isinstance(guess, bool) or isinstance(result, bool):
        return guess is result
    if isinstance(guess, int | float) and isinstance(result, int | float):
        return (
            guess == result
            or (math.isnan(guess) and math.isnan(result))
            or abs(guess - result) <= within + 1e-9
        )
    return False


def _word(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' * (len(value) == 1)})"
    if isinstance(value, float) and math.isfinite(value):
        return fixed(value, 2).rstrip("0").rstrip(".")
    return str(value)
