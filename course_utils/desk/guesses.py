"""Predictions: the results that you expect, typed in before you see the real ones. No points
depend on them.

    predicted_sum = ...  # a number

    reveal(predicted_sum, 28 * 4)

Texts that would give an answer away are kept out of the notebook. `caption` looks up the title
and alternative text of a figure, and `recall` the answers to a lesson's first questions.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .language import language, said
from .rounding import fixed

SAME = "as you predicted"
OTHER = "not what you predicted: find out why before you read on"
WIDGET = "application/vnd.jupyter.widget-view+json"
PRE = '<pre style="font-family:var(--jp-code-font-family,monospace);white-space:pre-wrap">'
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS: dict[str, float] = {"true": True, "yes": True, "false": False, "no": False}
WORDS |= {word: n for n, word in enumerate(NUMBERS)}
NONE_YET = "No prediction yet. Replace the dots above with it and run both cells again."


class Folded:
    """Content that a page hides until a click; its text form contains only the request to predict.

    In a notebook, the content includes the later output and figures of the cell, but not widgets.
    """

    def __init__(self, said: str, result: str) -> None:
        self.said, self.shown = said, f"{PRE}{html.escape(result)}</pre>"

    def __repr__(self) -> str:
        return self.said

    def _repr_html_(self) -> str:
        ask = said("Or show the result.")
        shown = f"<details><summary>{ask}</summary>{self.shown}</details>"
        return f"<p>{html.escape(self.said)}</p>{shown}"

    def show(self) -> None:
        """Show the content when the cell has ended, or at once outside a notebook."""
        from IPython import get_ipython  # IPython isn't needed when a class is graded
        from IPython.core.displaypub import CapturingDisplayPublisher
        from IPython.display import display
        from IPython.utils.capture import capture_output

        shell = get_ipython()
        if shell is None or isinstance(shell.display_pub, CapturingDisplayPublisher):
            display(self)
            return
        taken = (taking := capture_output(stderr=False)).__enter__()

        def end(_: Any) -> None:
            shell.events.unregister("post_run_cell", end)
            taking.__exit__(None, None, None)
            self.shown += f"{PRE}{html.escape(taken.stdout)}</pre>" if taken.stdout else ""
            page = [(WIDGET not in o.data and o.data.get("text/html"), o) for o in taken.outputs]
            self.shown += "".join(text for text, _ in page if text)
            display(self)
            for _, output in filter(lambda part: not part[0], page):
                output.display()  # `display` would add the address of the object

        shell.events.register("post_run_cell", end)


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
        why: the name of an explanation in kept_back.toml, such as "03 hidden rows", which is shown
            below the result.
    """
    guess, result = _plain(guess), _plain(result)
    if _unanswered(guess):
        Folded(said(NONE_YET), "\n".join([_shown(result, digits), *_explained(why)])).show()
        return
    verdict = SAME if _same(guess, result, within) else OTHER
    print(said(f"your prediction: {_shown(guess, digits)}"))
    print(said(f"the result: {_shown(result, digits)}  ({verdict})"), *_explained(why), sep="\n")


def _explained(name: str) -> list[str]:
    lesson, _, which = name.partition(" ")
    if not name:
        return []
    text = said(kept_back()[lesson]["why"][which])
    return [text] if language() else textwrap.wrap(text, 90)  # the page wraps text without spaces


def recall(lesson: str, answers: list[Any]) -> None:
    """Say which of your answers to a lesson's first questions are right, and why.

    Args:
        lesson: the lesson's number, such as "04".
        answers: your answers, in the order of the questions; `...` means no answer yet.
    """
    kept = kept_back()[lesson]["recall"]
    if not isinstance(answers, list) or len(answers) != len(kept["answers"]):
        count = len(kept["answers"])
        print(said(f"Type {count} answers in square brackets, one per question."))
        return
    for number, (answer, right, why) in enumerate(
        zip(answers, kept["answers"], kept["because"], strict=True), start=1
    ):
        if _unanswered(answer):
            print(said(f"{number}: no answer yet"))
        elif _same(_meant(_plain(answer), right), right, kept.get("within", 0.01)):
            print(said(f"{number}: right. {why}"))
        else:
            print(said(f"{number}: not {_shown(_plain(answer))}. Think again, or look it up."))


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


@cache
def kept_back() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the texts that lessons' cells must not show yet, by lesson and name."""
    return tomllib.loads(Path(__file__).with_name("kept_back.toml").read_text(encoding="utf-8"))


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


def _shown(value: Any, digits: int = 2) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_shown(item, digits) for item in value)}]"
    if isinstance(value, tuple):
        items = ", ".join(_shown(item, digits) for item in value)
        return f"({items}{',' * (len(value) == 1)})"
    if isinstance(value, float) and math.isfinite(value):
        return fixed(value, digits).rstrip("0").rstrip(".")
    return str(value)
