"""What an answer's functions compile to, whatever their names and wherever they came from."""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

MOST_CODES = 200
LIBRARIES = {"torch", "numpy", "matplotlib", "IPython", "ipywidgets", "traitlets", "PIL"}
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_WORK = {"RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "PUSH_NULL", "COPY_FREE_VARS"}


def prints(answer: Any, alone: bool = False) -> dict[str, int]:
    """Returns a print of each code object of an answer, with its number of instructions. Codes with
    equal prints have the same instructions, attribute names and constants, but local names may
    differ. With `alone`, what the answer calls is left out."""
    found: dict[str, int] = {}
    for code in _codes(answer, alone):
        words = list(_words(code))
        digest = hashlib.sha256("\n".join(words).encode("utf-8", "replace")).hexdigest()[:24]
        found[digest] = len(words)
    return found


def _codes(answer: Any, alone: bool) -> Iterator[types.CodeType]:
    """Yields the code of an answer's functions and methods, and of all they call but libraries."""
    left, seen = [answer], set[int]()
    while left and len(seen) < MOST_CODES:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.CodeType):
            yield one
            left += [c for c in one.co_consts if isinstance(c, types.CodeType)]
        elif isinstance(one, types.FunctionType):
            left.append(one.__code__)
            if not alone:
                left += [c.cell_contents for c in one.__closure__ or () if _is_filled(c)]
                left += [o for n in one.__code__.co_names if _is_own(o := one.__globals__.get(n))]
                left.append(vars(one).get("__wrapped__"))
        elif isinstance(one, types.MethodType | staticmethod | classmethod):
            left.append(one.__func__)
        elif isinstance(one, functools.partial):
            left.append(one.func)
        elif isinstance(one, property):
            left += [one.fget, one.fset]
        elif isinstance(one, type):
            if _is_own(one) or one is answer:
                left += [*vars(one).values(), *(() if alone else one.__bases__)]
        elif one is answer and one is not None:  # an object that can be called
            left += [type(one), *getattr(one, "__dict__", {}).values()]


def origin(answer: Any) -> str:
    """Returns where an answer comes from, if not from a cell: "package", "torch" or "text"."""
    names = [getattr(answer, "__module__", ""), *(c.__module__ for c in type(answer).__mro__)]
    if any(str(name).startswith(("torch.jit", "torch.fx", "torch._C")) for name in names):
        return "torch"
    functions = [answer, *(vars(answer).values() if isinstance(answer, type) else ())]
    codes = [f.__code__ for f in functions if isinstance(f, types.FunctionType)]
    place = codes[0].co_filename if codes else ""
    if place.startswith(f"{PACKAGES}{os.sep}course"):
        return "package"
    # In a class, a library may have compiled the first function, as `dataclass` does.
    compiled = place.startswith("<") and not place.startswith("<ipython-input")
    return "text" if compiled and not isinstance(answer, type) else ""


def _is_filled(cell: Any) -> bool:
    try:
        return _is_own(cell.cell_contents)
    except ValueError:
        return False


def _is_own(value: Any) -> bool:
    """Returns whether a value is a function or class that doesn't really belong to a library."""
    if not isinstance(value, types.FunctionType | type):
        return False
    home = str(getattr(value, "__module__", ""))
    root = home.split(".")[0]
    if root not in LIBRARIES and root not in sys.stdlib_module_names:
        return True
    return getattr(sys.modules.get(home), value.__name__, None) is not value


def _words(code: types.CodeType) -> Iterator[str]:
    """Yields a code's instructions, with local variables numbered in order of first use."""
    order: dict[Any, int] = {}
    for step in dis.get_instructions(code):
        name = step.opname
        if name in NO_WORK:
            continue
        if name.endswith(("_FAST", "_DEREF", "_CLOSURE", "_CELL")):
            yield f"{name} {order.setdefault(step.argval, len(order))}"
        elif "JUMP" in name or step.argval is None or "FOR_ITER" in name or name == "SEND":
            yield name
        elif isinstance(step.argval, types.CodeType):
            yield f"{name} code"
        else:
            yield f"{name} {step.argval!r}"[:200]
