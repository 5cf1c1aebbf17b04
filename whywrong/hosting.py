"""For programs that show or grade exercises: the course that is installed and its folders, the
reader's language, cards; and the two halves of a check for an answer in another process, which is
described and run there (`describe`, `run`, `pack`) and judged here (`unpack`, `report_on`).
"""

from ._answers import (
    Described,
    describe,
    functions,
    looks_unwritten,
    names_bound,
    names_reached,
    undefined,
)
from ._card import GOOD, GREY, INK, LINE, Message, plain_text, points_word
from ._catalogue import catalogue, course_folder, joined, own_folders
from ._checker import cached_key, report_on
from ._course import (
    MARKER,
    columns,
    filled,
    installed,
    is_wide,
    language,
    libraries,
    localised,
    package_folder,
    speaking,
)
from ._errors import failure_of, names_written, watch_cells
from ._exercise import Exercise, Misconception, Rules
from ._guard import Clock, run, time_budget, uncompiled
from ._key import AnswerKey
from ._observation import MAX_ELEMENTS, pack, unpack
from ._watching import part_codes, watch_later_threads

__all__ = [
    "GOOD",
    "GREY",
    "INK",
    "LINE",
    "MARKER",
    "MAX_ELEMENTS",
    "AnswerKey",
    "Clock",
    "Described",
    "Exercise",
    "Message",
    "Misconception",
    "Rules",
    "cached_key",
    "catalogue",
    "columns",
    "course_folder",
    "describe",
    "failure_of",
    "filled",
    "functions",
    "installed",
    "is_wide",
    "joined",
    "language",
    "libraries",
    "localised",
    "looks_unwritten",
    "names_bound",
    "names_reached",
    "names_written",
    "own_folders",
    "pack",
    "package_folder",
    "part_codes",
    "plain_text",
    "points_word",
    "report_on",
    "run",
    "speaking",
    "time_budget",
    "uncompiled",
    "undefined",
    "unpack",
    "watch_cells",
    "watch_later_threads",
]
