"""Self-grading exercises that say what was misunderstood.

An exercise is a text (a right answer, and misconceptions as edits of it) and a Python file with the
same name, which defines some of these:

`cases(seed)`
    the inputs, as a list of `Case`. `Draw(seed)` draws numbers of unit scale and sizes that differ.
`probe`
    calls an answer and records an `Observation`: `FunctionProbe` for a function, `ModuleProbe` for
    an `nn.Module` whose parameters are set by name.
`expect(case)`
    the right tensors: `expect_function(oracle)` or `expect_module(oracle)`.
`properties`
    what else is true of a right answer: functions decorated with `true_of`, or
    `MODULE_PROPERTIES` with them. They compare with `near` and `same`.

Further calls with other inputs are data: `more={"typical": {"louder": louder}}` stores the result
for the inputs `louder(case)` as `louder`. Other observations, `extra=`, get their inputs from
`fresh` and their random numbers after `set_seed`. `whywrong.probing` has what a probe needs beyond
that.

A program that shows exercises finds them with `Catalogue`, runs `check_exercise`, and shows the
`Report`. `whywrong.hosting` has what a program needs beyond that: a language, a course's folders,
an answer that runs in another process. All other modules are private.
"""

from ._catalogue import Catalogue
from ._checker import check_exercise
from ._exercise import Case, Draw, Property, true_of
from ._functions import FunctionProbe, expect_function, fresh, set_seed
from ._modules import MODULE_PROPERTIES, ModuleProbe, expect_module
from ._observation import Observation, near, same
from ._report import Report

__all__ = [
    "MODULE_PROPERTIES",
    "Case",
    "Catalogue",
    "Draw",
    "FunctionProbe",
    "ModuleProbe",
    "Observation",
    "Property",
    "Report",
    "check_exercise",
    "expect_function",
    "expect_module",
    "fresh",
    "near",
    "same",
    "set_seed",
    "true_of",
]
