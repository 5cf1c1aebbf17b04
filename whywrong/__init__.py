"""The checking engine: what exercises are made of, how answers are run, judged and reported.

It knows no exercise of the course: a catalogue is handed to it.
"""

from .accounts import account, relation
from .card import Message
from .catalogue import Catalogue
from .checker import check_exercise, kept_key, observe
from .exercise import Case, Entry, Exercise, Misconception, Property, true_of
from .functions import FunctionProbe, expect_function
from .judging import judge
from .key import AnswerKey, begin_key, extend_key, make_key
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
    "extend_key",
    "judge",
    "kept_key",
    "make_key",
    "observe",
    "pack",
    "relation",
    "true_of",
    "unpack",
]
