"""Describes a student's exception: its message, the student's lines, the shapes involved."""

from __future__ import annotations

import contextlib
import difflib
import linecache
import os
import re
import sysconfig
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from torch import Tensor

from ._course import libraries
from ._observation import class_name

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
# These call the operator that the student called, or refuse to; their errors are the student's.
PASS_ON = {"__torch_function__", "__torch_dispatch__", "_no_answer", "_no_debugger"}


class WrongWeights(Exception):
    """A module's parameters are not the ones that the exercise names.

    Args:
        unregistered: names and types of collections whose parameters PyTorch doesn't find.
    """

    def __init__(self, message: str, unregistered: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.unregistered = [*unregistered]


class InALaterCall(Exception):
    """Raised from the error of a call after the one that a case describes."""


@contextlib.contextmanager
def later_calls() -> Iterator[None]:
    """For calls with inputs or a mode that differ from the case's, whose own call succeeded."""
    try:
        yield
    except Exception as error:
        raise InALaterCall from error


def first_lines(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # any operation on a student's exception class may fail
        return ""
    if lines and "in the TorchScript interpreter" in lines[0]:  # the error is below a traceback
        lines = [lines[-1].partition(": ")[2]]
    return " ".join(line.strip() for line in lines[:3])[:300]


def meant(error: BaseException) -> str:
    """What Python suggests for a misspelt name when it prints a traceback, or an empty string."""
    with contextlib.suppress(Exception):  # the names of an object may be computed
        if isinstance(error, AttributeError) and error.obj is not None:
            known = dir(error.obj)
        elif isinstance(error, NameError) and error.__traceback__ is not None:
            known = _known_names(error.__traceback__)
        else:
            return ""
        # At least as alike as "expp" and "exp".
        found = difflib.get_close_matches(str(error.name), known, n=1, cutoff=0.75)
        return f". Did you mean: '{found[0]}'?" if found else ""
    return ""


def _known_names(traceback: types.TracebackType) -> list[str]:
    """The names that the last line of a traceback can use."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    return [*frame.f_locals, *frame.f_globals, *frame.f_builtins]


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as facts: type and its bases, first lines, the student's lines, its kind, and
    whether it came in a `later` call."""
    cause = error.__cause__ if isinstance(error, InALaterCall) else None
    error = error if cause is None else cause
    frames, local = [], {}
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append((code, traceback.tb_lineno))
        if not is_library(code.co_filename):
            local = traceback.tb_frame.f_locals
        traceback = traceback.tb_next
    where = student_lines(frames)
    kind, place = "exception", ""
    if isinstance(error, NotImplementedError) and not first_lines(error):
        kind = "stub"
    elif isinstance(error, TypeError) and not where:
        kind = "call"
    elif isinstance(error, WrongWeights):
        kind = "weights"
    elif where and _is_ours(frames[-1][0]) and not isinstance(error, RecursionError):
        kind = "ours"
        place = f" (whywrong/{os.path.basename(frames[-1][0].co_filename)}:{frames[-1][1]})"
    lost = error.unregistered if isinstance(error, WrongWeights) else []
    return {
        "type": class_name(error),
        "bases": [_name(c) for c in type(error).__mro__ if issubclass(c, Exception)],
        "message": str(error)
        if kind == "weights"
        else f"{first_lines(error)}{meant(error)}{place}",
        "where": [*where, *_shapes(local)] if where else [],
        "kind": kind,
        **({} if cause is None else {"later": True}),
        **({"unregistered": lost} if lost else {}),
    }


def _is_ours(code: types.CodeType) -> bool:
    """Whether an error that ends in this code, called by the student's, is a fault of a check."""
    return code.co_filename.startswith(OURS) and code.co_name not in PASS_ON


_name = type.__dict__["__name__"].__get__  # a metaclass can't replace it


def _shapes(local: Mapping[str, Any]) -> list[str]:
    """The tensors in the line that raised, as one line of names and shapes."""
    shapes = [f"{n}: {tuple(v.shape)}" for n, v in local.items() if isinstance(v, Tensor)]
    return [f"shapes at this line: {', '.join(shapes[:6])}"] if shapes else []


def student_lines(frames: Sequence[tuple[types.CodeType, int]]) -> list[str]:
    """The frames of the student's own code, as `line 3, in f: code`."""
    lines = []
    for code, number in frames:
        if is_library(code.co_filename):
            continue
        text = linecache.getline(code.co_filename, number).strip()
        lines.append(f"line {number}, in {code.co_name}" + (f": {text}" if text else ""))
    return lines[-5:] if len(lines) <= 5 else [*lines[:2], "…", *lines[-2:]]


@cache
def is_library(filename: str) -> bool:
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return filename.startswith("<frozen")
    path = os.path.abspath(filename)
    roots = [*libraries, *{sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib")}]
    return any(path.startswith(root + os.sep) for root in roots if root)


# Cells of a notebook that failed: a check then says that it is about the previous version.

_WRITES = re.compile(r"^(?:(?:async\s+)?def\s+|class\s+)(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.M)
_before: dict[str, Any] = {}
_failed: dict[str, str] = {}
_watched: set[int] = set()  # shells, by id


def watch_cells() -> None:
    """Follows the runs of this notebook's cells from now on; does nothing outside a notebook."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None and id(shell) not in _watched:
        _watched.add(id(shell))
        shell.events.register("pre_run_cell", lambda info: _begin(shell, info.raw_cell))
        shell.events.register("post_run_cell", lambda result: _end(shell, result))


def failure_of(name: str) -> str:
    """How the last run of the cell that writes `name` failed ("SyntaxError in line 3"), or ""."""
    return _failed.get(name, "")


def names_written(source: str) -> set[str]:
    """The functions, classes and variables that a cell defines, even if it can't be parsed."""
    return {a or b for a, b in _WRITES.findall(source or "")}


def _begin(shell: Any, source: str) -> None:
    _before.clear()
    _before.update({name: shell.user_ns.get(name) for name in names_written(source)})


def _end(shell: Any, result: Any) -> None:
    error = result.error_before_exec or result.error_in_exec
    source = result.info.raw_cell if result.info else ""
    for name in names_written(source):
        written = name in shell.user_ns and shell.user_ns[name] is not _before.get(name)
        if error is None or written:
            _failed.pop(name, None)
        else:
            _failed[name] = _described(error)


def _described(error: BaseException) -> str:
    line = getattr(error, "lineno", None)
    return type(error).__name__ + (f" in line {line}" if line else "")
