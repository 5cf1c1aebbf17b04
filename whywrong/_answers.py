"""Describes an answer without running it: arguments, names, whether it is a stub."""

from __future__ import annotations

import contextlib
import dis
import inspect
import itertools
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor, nn

from ._observation import class_name

DATA = (Tensor, nn.Module, int, float, list, tuple)  # that an argument may hold
# Every function body that computes something has one of these instructions; no stub does.
WORK = {"LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "CALL", "BINARY_OP", "BUILD_MAP", "BUILD_LIST"}


@dataclass(frozen=True)
class Described:
    """The description of an answer without running it.

    Attributes:
        missing: nothing was submitted, or `...`.
        kind: the name of its class.
        is_class: whether it is a class itself.
        callable: whether it can be called.
        forward: whether it has a `forward`.
        signature: its arguments, if Python knows them.
        names: the global names that its code mentions.
        of_torch: whether it is a function or class of PyTorch itself.
    """

    missing: bool
    kind: str
    is_class: bool = False
    callable: bool = False
    forward: bool = False
    signature: inspect.Signature | None = None
    names: frozenset[str] = frozenset()
    of_torch: bool = False


def describe(answer: Any) -> Described:
    if answer is Ellipsis or answer is None:
        return Described(True, class_name(answer))
    try:
        signature = inspect.signature(answer)
    except Exception:
        signature = None
    return Described(
        False,
        class_name(answer),
        isinstance(answer, type),
        callable(answer),
        hasattr(answer, "forward"),
        signature,
        frozenset(names_reached(answer)),
        _is_of_torch(answer),
    )


def _is_of_torch(answer: Any) -> bool:
    kinds = types.FunctionType, types.BuiltinFunctionType, type
    home = getattr(as_written(answer), "__module__", None) or ""
    named = str(home).split(".")[0] == "torch" or (
        isinstance(answer, types.BuiltinFunctionType) and "torch" in str(answer)
    )
    return isinstance(answer, kinds) and named


def takes_names(answer: Any) -> bool:
    """Whether arguments can be passed by name, which a `/` in the signature prevents."""
    try:
        parameters = inspect.signature(answer).parameters.values()
    except (TypeError, ValueError):
        return True
    return all(p.kind is not p.POSITIONAL_ONLY for p in parameters)


def functions(answer: Any) -> list[types.FunctionType]:
    """The functions that make up an answer: itself, or the methods of a class."""
    return [as_written(f) for f in _given(answer)]


def _given(answer: Any) -> list[types.FunctionType]:
    found = vars(answer).values() if isinstance(answer, type) else [answer]
    return [f for f in found if isinstance(f, types.FunctionType)]


def as_written(function: Any) -> Any:
    """The function below `@torch.compile`; any other unchanged."""
    written = getattr(function, "_torchdynamo_orig_callable", function)
    return written if isinstance(written, types.FunctionType) else function


def compiles(answer: Any) -> bool:
    """Whether one of an answer's functions is below `@torch.compile`, or its code compiles one."""
    if any(as_written(f) is not f for f in _given(answer)):
        return True
    for code in _codes(answer):
        named = [i.argval for i in dis.get_instructions(code)]
        before = {one for one, name in itertools.pairwise(named) if name == "compile"}
        if before - {"re", "regex"}:
            return True
    return False


def names_called(answer: Any) -> set[str]:
    """The global names that an answer's code reads, including functions inside it."""
    names: set[str] = set()
    for code in _codes(answer):
        found = dis.get_instructions(code)
        names.update(i.argval for i in found if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return names


def names_reached(answer: Any) -> set[str]:
    """The global names that an answer's code reads, or that of its helpers: functions and classes
    defined beside it, which it calls."""
    names: set[str] = set()
    helpers, followed = [answer], [answer]
    while helpers:
        one = helpers.pop()
        called = names_called(one)
        names |= called
        for space in [f.__globals__ for f in functions(one)]:
            found = [space[name] for name in called if name in space]
            beside = [h for h in found if any(f.__globals__ is space for f in functions(h))]
            new = [h for h in beside if not any(h is known for known in followed)]
            helpers += new
            followed += new
    return names


def read_instead(answer: Any) -> tuple[str, str] | None:
    """An argument that the answer, or its `forward`, never reads, and a tensor or number that it
    reads from another cell; None unless there are both."""
    for function in functions(answer):
        if isinstance(answer, type) and function.__name__ != "forward":
            continue
        code = function.__code__
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        read = {*_read(code)}
        unread = [name for name in given if name not in read]
        names = (n for n in sorted(names_called(function)) if n in function.__globals__)
        other = next((n for n in names if isinstance(function.__globals__[n], DATA)), None)
        if unread and other:
            return unread[0], other
    return None


def _read(code: types.CodeType) -> Iterator[str]:
    """The local names that a code reads, also in functions inside it."""
    yield from code.co_cellvars
    for i in dis.get_instructions(code):
        if "LOAD" in i.opname or "DELETE" in i.opname:
            yield from i.argval if isinstance(i.argval, tuple) else [str(i.argval)]


def _codes(answer: Any) -> Iterator[types.CodeType]:
    """The code of an answer's functions, and of the functions inside them."""
    codes = [f.__code__ for f in functions(answer)]
    while codes:
        code = codes.pop()
        yield code
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]


def undefined(message: str) -> str | None:
    """The name that Python looked for in vain, by the message of a report."""
    found = re.search(r"NameError: name '(\w+)' is not defined", message)
    return found and found[1]


@contextlib.contextmanager
def names_bound(answer: Any, parts: Mapping[str, Any]) -> Iterator[None]:
    """Temporarily binds global names of an answer to other objects."""
    missing = object()
    namespaces = {id(f.__globals__): f.__globals__ for f in functions(answer)}.values()
    kept = [(space, name, space.get(name, missing)) for space in namespaces for name in parts]
    try:
        for space in namespaces:
            space.update(parts)
        yield
    finally:
        for space, name, value in kept:
            if value is missing:
                space.pop(name, None)
            else:
                space[name] = value


def has_bound(answer: Any, parts: Mapping[str, Any]) -> bool:
    """Whether an answer's global names are these objects already."""
    return all(
        f.__globals__.get(name) is part for f in functions(answer) for name, part in parts.items()
    )


def is_stub(answer: Any) -> bool:
    """Whether a function's body is still only a docstring and `...`, `pass` or `return ...`, or
    raises a NotImplementedError."""
    answer = as_written(answer)
    code = getattr(answer, "__code__", None)
    if code is None:
        return False
    if code.co_names == ("NotImplementedError",):
        return True
    constants = {None, Ellipsis, getattr(answer, "__doc__", None)}
    works = any(i.opname in WORK for i in dis.get_instructions(code))
    return not works and set(code.co_consts) <= constants


def is_stub_class(answer: type) -> bool:
    """Whether a class has a `forward` that does nothing and a constructor that is only begun.

    A `forward` inherited from another class of the student counts as written.
    """
    forward, init = getattr(answer, "forward", None), answer.__dict__.get("__init__")
    begun = set(getattr(getattr(init, "__code__", None), "co_names", ())) - {"super", "__init__"}
    unwritten = forward is None or forward is nn.Module.forward or is_stub(forward)
    return unwritten and not begun


def has_unwritten_forward(answer: Any) -> bool:
    """Whether a class has a constructor, and a `forward` that is still a stub."""
    forward = vars(answer).get("forward") if isinstance(answer, type) else None
    return forward is not None and is_stub(forward)


def same_code(answer: Any, other: Any) -> bool:
    """Whether a function is the same as one of the course, instruction by instruction; comments,
    docstrings and the functions' names don't count."""
    answer = as_written(answer)
    if not isinstance(other, types.FunctionType) or not hasattr(answer, "__code__"):
        return False
    return _instructions(answer.__code__) in (_instructions(other.__code__), _alone(other))


@cache
def _alone(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The code, compiled without imports, next to which Python compiles calls differently."""
    try:
        source = inspect.getsource(function)
    except OSError:
        return _instructions(function.__code__)
    module = compile(source, "<alone>", "exec", dont_inherit=True)
    (code,) = (c for c in module.co_consts if isinstance(c, types.CodeType))
    return _instructions(code)


@cache
def _instructions(code: Any) -> list[tuple[str, Any]]:
    found = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    return [(name, _inner(argument)) for name, argument in found]


def _inner(argument: Any) -> Any:
    return _instructions(argument) if isinstance(argument, types.CodeType) else argument


def looks_unwritten(exercise_kind: str, answer: Any, kinds: Sequence[str], as_found: Any) -> bool:
    """Whether an answer is still a stub, or the broken program as it was handed out.

    Args:
        kinds: the types of what it returned on the first case.
    """
    if exercise_kind == "quiz":
        return False
    if isinstance(answer, type):
        return is_stub_class(answer)
    stub = "..." in kinds or ("NoneType" in kinds and is_stub(answer))
    return stub or same_code(answer, as_found)
