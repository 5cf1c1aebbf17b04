"""Who handed in, and when: names, times and secrets of submissions, as data."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from .reading import Unreadable, contents

LONGEST_NAME = 200  # bytes
BETWEEN = " .@_+-"  # characters that a name may have besides letters, accents and digits
ALLOWED = "letters and digits, and between them a space or one of . _ - @ +"
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
MOST_ACCENTS = 4  # of one letter
TIME = re.compile(
    r"\d{4}-\d\d?-\d\d?[T ]\d\d?:\d\d(:\d\d(\.\d{1,9})?)? ?([A-Za-z/_]{1,40}|[+-]\d\d:?\d\d)?"
)


def is_a_name(name: str) -> bool:
    """Returns whether a folder's name can be a student's: it does no harm as a file, on a page, in
    a spreadsheet and in a terminal, and its letters may be of any script."""
    kinds = "".join(unicodedata.category(letter)[0] for letter in name)  # L, M, N: see Unicode
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= LONGEST_NAME
        and kinds[0] in "LN"
        and kinds[-1] in "LMN"
        and all(k in "LMN" or x in BETWEEN for x, k in zip(name, kinds, strict=True))
        and "M" * (MOST_ACCENTS + 1) not in kinds
        and not INVISIBLE.search(name)
    )


def letters(name: str) -> str:
    """Returns a name without what systems change in it: capitals, and how accents are stored."""
    return unicodedata.normalize("NFKC", name).casefold()


def time_of(text: str) -> datetime | None:
    """Returns a time in UTC, as nbgrader's are; None if the text is no valid time."""
    from nbgrader.utils import parse_utc

    with suppress(ValueError, OverflowError, TypeError, AttributeError):
        if TIME.fullmatch(text):
            parsed: datetime = parse_utc(text)
            return parsed
    return None


def submitted_at(folder: str | Path) -> datetime | None:
    """Returns the time in a submission's timestamp.txt, in UTC; None if there is no valid time."""
    with suppress(Unreadable, OSError, ValueError):
        return time_of(_word(Path(folder) / "timestamp.txt"))
    return None


def secret_of(folder: Path) -> str:
    """Returns the secret in a submission, which names its feedback."""
    with suppress(Unreadable, ValueError):
        return _word(folder / "submission_secret.txt")
    return ""


def _word(path: Path) -> str:
    return contents(path, 200).decode("utf-8-sig").strip()
