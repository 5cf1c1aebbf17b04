"""The checking engine: defines exercises; runs, judges and reports on answers.

It contains no exercise of the course: it is given a catalogue.
"""

from .accounts import account, relation
from .card import Message
from .catalogue import Catalogue
from .checker import check_exercise, kept_key, observe
from .exercise import Case, Entry, Exercise, Misconception, Property, true_of
from .functions import FunctionProbe, expect_function
from .judging import judge
from .key import AnswerKey, begin_key, make_key, search
from .modules import ModuleProbe, expect_module
from .observation import Observation, pack, unpack
from .report import Report
from .rows import BehaviourResult

__all__ = [
    "AnswerKey",
    "BehaviourResult",
    "Case",
    "Catalogue",
    "Entry",
    "Exercise",
    "FunctionProbe",
    "Message",
    "Misconception",
    "ModuleProbe",
    "Observation",
    "Property",
    "Report",
    "account",
    "begin_key",
    "check_exercise",
    "expect_function",
    "expect_module",
    "judge",
    "kept_key",
    "make_key",
    "observe",
    "pack",
    "relation",
    "search",
    "true_of",
    "unpack",
]
