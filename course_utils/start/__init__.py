"""The start page: a small trained model to play with, and what shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .language import END, WORDS

EXAMPLES = ["the dog near the cats", "the dogs near the cat", "the king that the mice follow"]
SUBJECT = "1.head.0"  # the head that looks past the nearest noun for the subject


def playground(text: str = EXAMPLES[0]) -> Any:
    """The start page's model in the page: `course_utils.explorer.explore` of it."""
    from ..explorer import explore
    from .model import trained

    return explore(trained(), WORDS, text, begin=END, examples=EXAMPLES, first=SUBJECT)


def write_page(path: str | Path) -> Path:
    """The same as one HTML file."""
    from ..explorer import share
    from .model import trained

    title = "A language model that you are going to build"
    how = {"begin": END, "examples": EXAMPLES, "first": SUBJECT, "title": title}
    return share(trained(), WORDS, path, EXAMPLES[0], **how)


__all__ = ["playground", "write_page"]
