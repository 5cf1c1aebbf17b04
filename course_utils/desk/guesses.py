"""Predictions: the results that you expect, typed in before you see the real ones. No points
depend on them.

    predicted_sum = ...  # a number

    reveal(predicted_sum, 28 * 4)
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable
from typing import Any

import torch

from .folded import Folded
from .kept_back import caption as caption  # lessons import it from here
from .kept_back import kept_back
from .language import language, localised
from .rounding import fixed

SAME = "as you predicted"
OTHER = "not what you predicted"
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS: dict[str, float] = {"true": True, "yes": True, "false": False, "no": False}
WORDS |= {word: n for n, word in enumerate(NUMBERS)}
NONE_YET = "No prediction yet. Replace the dots above with it and run both cells again."
# What the names of replies in kept_back.toml may be, besides a value: see `_fits`.
OTHERWISE, ANY = "otherwise", "..."
LIMIT = re.compile(r"(above|below)(?: (\S+))?")
RANGE = re.compile(r"(\S+) to (\S+)")


def reveal(
    guess: Any, result: Any, *, within: float = 0.01, digits: int = 2, why: str = ""
) -> None:
    """Show a prediction next to the result, and say whether they agree; never raise an error.

    If there is no prediction yet, the result is shown folded, with the rest of the cell's output.

    Args:
        guess: a number, a word, True or False, or a list of these; `...`, alone or in a list, means
            that there is no prediction yet. Case and spaces in words are ignored.
        result: the actual result, of the same types; a tensor counts as a list.
        within: the largest error of a number that still counts as right.
        digits: the number of digits that are shown after the decimal point.
        why: the name of a prediction's texts in kept_back.toml, such as "02 row": an explanation,
            which is shown below the result, and replies to wrong predictions. A reader whose
            prediction was wrong sees the first reply that fits it, above the explanation.
    """
    guess, result = _plain(guess), _plain(result)
    asked_for = NONE_YET if _unanswered(guess) else _several(guess, result)
    if asked_for:
        Folded(localised(asked_for), "\n".join([_shown(result, digits), *_kept("why", why)])).show()
        return
    right = _same(guess, result, within)
    lines = [
        localised(f"your prediction: {_shown(guess, digits)}"),
        localised(f"the result: {_shown(result, digits)}  ({SAME if right else OTHER})"),
    ]
    if not right:
        lines += _kept("wrong", why, lambda key: _fits(key, guess, result, within))
    print(*lines, *_kept("why", why), sep="\n")


def _several(guess: Any, result: Any) -> str:
    """What to say if a single value was typed where several are asked for."""
    if isinstance(guess, list | tuple) or not isinstance(result, list) or len(result) < 2:
        return ""
    values = "numbers" if all(map(_is_number, result)) else "answers"
    return f"{len(result)} {values} are asked for, in square brackets. Run both cells again."


def _kept(part: str, name: str, fits: Callable[[str], bool] = bool) -> list[str]:
    """The lines of a prediction's explanation, or of the first of its replies whose name fits."""
    lesson, _, which = name.partition(" ")
    kept = kept_back()[lesson].get(part, {}).get(which, "") if name else ""
    if isinstance(kept, dict):
        kept = next((reply for key, reply in kept.items() if fits(key)), "")
    text = localised(kept)
    return [text] if language() and text else textwrap.wrap(text, 90)  # a page wraps other scripts


def _fits(key: str, guess: Any, result: Any, within: float) -> bool:
    """Whether a reply with this name is for this prediction.

    A name is a value ("20", "false", "cat"), "8 to 12", "above 12", "below 8", "above" or "below"
    for anything above or below the result, or "otherwise". For a list, it has one such part for
    each item ("14, above 16"), and "..." fits any item.
    """
    if key in (OTHERWISE, ANY):
        return True
    if isinstance(guess, list | tuple):
        keys, pairs = (
            key.split(", "),
            isinstance(result, list | tuple) and len(result) == len(guess),
        )
        results = result if pairs else [None] * len(guess)
        each = zip(keys, guess, results, strict=False)
        return len(keys) == len(guess) and all(_fits(k, g, r, within) for k, g, r in each)
    if not _is_number(guess):
        return _word(key) == _word(str(guess))
    try:
        if limit := LIMIT.fullmatch(key):
            least = float(limit[2] or result)
            return guess > least if limit[1] == "above" else guess < least
        if ends := RANGE.fullmatch(key):
            return float(ends[1]) <= guess <= float(ends[2])
        return _same(guess, float(key), within)
    except (TypeError, ValueError):  # a number where words or other values were asked for
        return False


def recall(lesson: str, answers: list[Any]) -> None:
    """Say which of your answers to a lesson's first questions are right, and why.

    Args:
        lesson: the lesson's number, such as "04".
        answers: your answers, in the order of the questions; `...` means no answer yet.
    """
    kept = kept_back()[lesson]["recall"]
    if not isinstance(answers, list) or len(answers) != len(kept["answers"]):
        count = len(kept["answers"])
        print(localised(f"Type {count} answers in square brackets, one per question."))
        return
    for number, (answer, right, why) in enumerate(
        zip(answers, kept["answers"], kept["because"], strict=True), start=1
    ):
        if _unanswered(answer):
            print(localised(f"{number}: no answer yet"))
        elif _same(_meant(_plain(answer), right), right, kept.get("within", 0.01)):
            print(localised(f"{number}: right. {why}"))
        else:
            print(localised(f"{number}: not {_shown(_plain(answer))}. Think again, or look it up."))


def _meant(answer: Any, right: Any) -> Any:
    """The number, or the True or False, that an answer in words stands for."""
    if isinstance(answer, str) and not isinstance(right, str):
        return WORDS.get(_word(answer), answer)
    return answer


def _plain(value: Any) -> Any:
    """Converts a value to numbers, words, and lists of numbers and words."""
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(guess: Any, result: Any, within: float) -> bool:
    if isinstance(guess, list | tuple) and isinstance(result, list | tuple):
        pairs = zip(guess, result, strict=False)
        return len(guess) == len(result) and all(_same(g, r, within) for g, r in pairs)
    if isinstance(guess, str) and isinstance(result, str):
        return _word(guess) == _word(result)
    if isinstance(guess, bool) or isinstance(result, bool):
        return guess is result
    if _is_number(guess) and _is_number(result):
        return (
            guess == result
            or (math.isnan(guess) and math.isnan(result))
            or abs(guess - result) <= within + 1e-9
        )
    return False


def _word(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


def _shown(value: Any, digits: int = 2) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_shown(item, digits) for item in value)}]"
    if isinstance(value, tuple):
        items = ", ".join(_shown(item, digits) for item in value)
        return f"({items}{',' * (len(value) == 1)})"
    if isinstance(value, float) and math.isfinite(value):
        return fixed(value, digits).rstrip("0").rstrip(".")
    return str(value)
