"""Whose turn it is: what proves once more what other tests prove, in another way, takes turns.

A third a day, so that any three days try all. COURSE_TEST_DAY says which day it is, a number, or
`all` for everything at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

DAYS = 3  # until everything has had its turn
Thing = TypeVar("Thing")


def whose_turn(things: Iterable[Thing]) -> list[Thing]:
    """Those that a day tries: every third, beginning with another one each day."""
    day = os.environ["COURSE_TEST_DAY"]
    return list(things) if day == "all" else list(things)[int(day) % DAYS :: DAYS]
