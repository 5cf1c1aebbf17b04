"""The start page: a small trained model to play with, and the widget that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .language import END, VERBS, WORDS

EXAMPLES = ["the dogs near the cat", "the dog near the cats", "the king that the mice follow"]
SUBJECT = "1.head.0"  # the head that attends past the nearest noun to the subject
PAIRS = [*zip(VERBS["many"], VERBS["one"], strict=True)]
SHOWN: dict[str, Any] = {"begin": END, "examples": EXAMPLES, "first": SUBJECT, "pairs": PAIRS}
LESSON = "1-averages/01_naive_mean.ipynb"  # next to the start page


def playground(text: str = EXAMPLES[0]) -> Any:
    """Show the start page's model with `course_utils.show.explorer.explore`."""
    from ..explorer import explore
    from .model import trained

    return explore(trained(), WORDS, text, onward=LESSON, **SHOWN)


def write_page(path: str | Path, onward: str = "") -> Path:
    """Write the same widget as one HTML file, which leads to the address `onward`."""
    from ..explorer import share
    from .model import trained

    title = "A language model that you are going to build"
    return share(trained(), WORDS, path, EXAMPLES[0], title=title, onward=onward, **SHOWN)
