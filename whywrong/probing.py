"""For exercises that need more than the two probes: repeated calls, gradients, side effects,
operators, another device, the parameters of a module; and the types of what properties judge.
"""

from ._errors import WrongWeights, first_lines
from ._exercise import Expected, Trial, Verdict
from ._functions import cotangent, differentiate, see_calls, untouched
from ._modules import happened_there, inject, part, placed
from ._observation import class_name
from ._properties import evidence
from ._quizzes import relation
from ._watching import THERE, Operators, happened_elsewhere, moved

__all__ = [
    "THERE",
    "Expected",
    "Operators",
    "Trial",
    "Verdict",
    "WrongWeights",
    "class_name",
    "cotangent",
    "differentiate",
    "evidence",
    "first_lines",
    "happened_elsewhere",
    "happened_there",
    "inject",
    "moved",
    "part",
    "placed",
    "relation",
    "see_calls",
    "untouched",
]
