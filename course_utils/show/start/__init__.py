"""The start page: a small trained model to play with, and the widget that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .language import END, WORDS

EXAMPLES = ["the dogs near the cat", "the dog near the cats", "the king that the mice follow"]
SUBJECT = "1.head.0"  # the head that attends past the nearest noun to the subject
SHOWN: dict[str, Any] = {"begin": END, "examples": EXAMPLES, "first": SUBJECT}


def playground(text: str = EXAMPLES[0]) -> Any:
    """Show the start page's model with `course_utils.show.explorer.explore`."""
    from ..explorer import explore
    from .model import trained

    return explore(trained(), WORDS, text, **SHOWN)


def write_page(path: str | Path) -> Path:
    """Write the same widget as one HTML file."""
    from ..explorer import share
    from .model import trained

    title = "A language model that you are going to build"
    return share(trained(), WORDS, path, EXAMPLES[0], title=title, **SHOWN)
