"""The reader's language, for all that shows a sentence: see `whywrong/language.py`."""

from whywrong.installed import installed
from whywrong.language import MARKER, language, said

__all__ = ["MARKER", "installed", "language", "said"]
