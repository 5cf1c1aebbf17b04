"""Watches an answer: its operators, the functions it calls, and its run on another device."""

from __future__ import annotations

import _lsprof
import builtins
import contextlib
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from ._answers import functions

TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

# Whether the running code is the course's own: its operators don't matter.
own_code = ContextVar("own_code", default=False)


# ---------------------------------------------------------------- which operators ran


@cache
def _operator(func: Any) -> str:
    """The name of an operator that PyTorch executes; one that takes functions has no schema."""
    schema = getattr(func, "_schema", None)
    return str(schema.name if schema else func.__name__).split("::")[-1]


class Operators:
    """Names of the operators that an answer calls, as written and as executed."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.written: list[str] = []

    def names(self) -> list[str]:
        return sorted({*self.written, *self.executed})

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        with _Written(self.written), _Executed(self.executed):
            yield


class _Written(TorchFunctionMode):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(self, func, types, args=(), kwargs=None):
        with contextlib.suppress(Exception):  # to watch a call must not change it
            self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping would import the whole compiler, which takes 1.5 seconds


class _Executed(_Mode):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with contextlib.suppress(Exception):  # to watch a call must not change it
            self.names.append(_operator(func))
        return func(*args, **(kwargs or {}))


class Calls:
    """The calls of an answer, from the interpreter: course parts by code, PyTorch's by name.

    Also sees what the two modes above miss: other threads, and code that switches modes off.

    Args:
        parts: the code objects of course parts, with their names.
        operators: whether to record PyTorch's functions.
        whole: whether to watch all of a probe, or only until `seen_enough` ends the first call.
    """

    def __init__(
        self, parts: Mapping[types.CodeType, str], operators: bool = True, whole: bool = True
    ) -> None:
        self.parts = parts
        self.whole = whole
        self.names = {code.co_name for code in parts}
        self.wanted = operators
        self.borrowed: set[str] = set()
        self.operators: set[str] = set()
        self._profiler: _lsprof.Profiler | None = None

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        before = sys.getprofile(), threading.getprofile()
        _watching.calls = self
        _active.append(self)
        threading.setprofile(self._note)
        try:
            self._profiler = _lsprof.Profiler(subcalls=False, builtins=self.wanted)
            self._profiler.enable()
        except ValueError:  # from Python 3.12 on, there can be only one
            self._profiler = None
            sys.setprofile(self._note)
        try:
            yield
        finally:
            _watching.calls = None
            _active.remove(self)
            self.stop()
            sys.setprofile(before[0])
            threading.setprofile(before[1])

    def stop(self) -> None:
        """Records the calls so far, and stops watching."""
        threading.setprofile(None)
        if self._profiler is None:
            sys.setprofile(None)
            return
        self._profiler.disable()
        for entry in self._profiler.getstats():
            if isinstance(entry.code, types.CodeType):
                self._note_code(entry.code)
            elif self.wanted:
                self.operators.update(_named(entry.code))
        self._profiler.clear()

    def _note(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """The same for other threads, where every call is reported: cheap tests come first."""
        if event == "call":
            self._note_code(frame.f_code)
        elif event == "c_call" and self.wanted:
            with contextlib.suppress(AttributeError):  # not every function in C has all of these
                self._note_builtin(argument)

    def _note_builtin(self, called: Any) -> None:
        home = called.__self__
        if home is builtins or called.__name__ in self.operators:
            return
        homes = called.__module__, type(home).__module__
        if any(str(home).startswith("torch") for home in homes):
            self.operators.add(called.__name__)

    def _note_code(self, code: types.CodeType) -> None:
        if code.co_name in self.names and code in self.parts:
            self.borrowed.add(self.parts[code])
        elif code.co_name not in self.operators and code.co_filename.startswith(TORCH):
            self.operators.add(code.co_name)


_OF_TORCH = re.compile(
    r"<built-in method torch[\w.]*\.(\w+)>|<method '(\w+)' of 'torch[\w.]*' objects>"
)


@cache
def _named(builtin: str) -> tuple[str, ...]:
    """The name of a PyTorch function that isn't written in Python, or an empty string."""
    found = _OF_TORCH.fullmatch(builtin)
    return (found[1] or found[2],) if found else ()


_watching = threading.local()
_active: list[Calls] = []


def watch_later_threads() -> None:
    """Watches also threads that begin before the check for which they compute; this makes them
    slow, so it is used only for graded notebooks."""
    threading.setprofile(_note_for_others)


def _note_for_others(frame: types.FrameType, event: str, argument: Any) -> None:
    for calls in _active:
        calls._note(frame, event, argument)


def seen_enough() -> None:
    """Marks the end of an answer's first call on a case: repetitions needn't be watched."""
    calls: Calls | None = getattr(_watching, "calls", None)
    if calls is not None and not calls.whole:
        calls.stop()


def part_codes(parts: Mapping[str, Any]) -> dict[types.CodeType, str]:
    """The code objects of finished parts, with the name of each."""
    return {f.__code__: name for name, part in parts.items() for f in functions(part)}


# ---------------------------------------------------------------- another device

THERE = torch.device("meta")  # the only other device name that every build of PyTorch knows


TAKES_CPU_POSITIONS = ("index", "index_put", "index_put_", "_index_put_impl_")


class TwoDevices(RuntimeError):
    """A tensor left on the CPU was combined with one on the other device."""


class InNumpy(TwoDevices):
    """A tensor on the other device was to become a NumPy array."""


class Transformed(RuntimeError):
    """A function transform is active, under which an `Elsewhere` tensor can't be followed."""


def _refuse_transforms() -> None:
    """`torch.vmap` and `jacrev` wrap tensors in others that are on the CPU, and forward-mode
    differentiation of a wrapper subclass ends the process."""
    differentiates = torch.autograd.forward_ad._current_level >= 0
    if differentiates or torch._C._functorch.maybe_current_level() is not None:
        raise Transformed("a function transform")


class Elsewhere(Tensor):
    """A tensor that claims to be on another device, but keeps its numbers here.

    Like a tensor on a GPU, it can't be combined with CPU tensors, so a machine without a GPU shows
    which tensors an answer leaves on the CPU. Its numbers can be read; `.numpy()` fails, as on a
    GPU.

    PyTorch's own `FakeTensorMode` has no numbers: it can't try an answer that calls `.tolist()` or
    tests whether a mask hides anything, and without CUDA it refuses an index on the CPU, `copy_`
    between devices, and `new_tensor`, which a GPU allows.
    """

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> Elsewhere:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=THERE,
            requires_grad=here.requires_grad,
        )

    def __init__(self, here: Tensor) -> None:
        self.here = here.detach()

    def tolist(self) -> Any:
        return self.here.tolist()

    def numpy(self, **_: Any) -> Any:
        raise InNumpy("numpy lives on the CPU")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]
        return _run_there(func, args, kwargs or {})


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """The arguments of an operator, with lists flattened; lists are never nested."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _map(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([change(v) for v in value])
    return change(value)


def _here(value: Any) -> Any:
    return value.here if isinstance(value, Elsewhere) else value


def _there(value: Any) -> Any:
    return Elsewhere(value) if isinstance(value, Tensor) else value


def _run_there(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = _operator(func)
    tensors = [t for t in _leaves((*args, *kwargs.values())) if isinstance(t, Tensor)]
    mine = [t for t in tensors if isinstance(t, Elsewhere)]
    device = kwargs.get("device")
    moves = name in ("_to_copy", "copy_")
    if mine and not moves and len(mine) < len(tensors):
        others = [t for t in tensors if t.dim() and not isinstance(t, Elsewhere)]
        if name in TAKES_CPU_POSITIONS:
            others = [t for t in others if t is args[0] or t.is_floating_point()]
        if others:
            raise TwoDevices("two devices")
    there = bool(mine) if device is None else torch.device(device) == THERE
    if name == "copy_":
        there = isinstance(args[0], Elsewhere)
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    out = func(*[_map(_here, a) for a in args], **{k: _map(_here, v) for k, v in kwargs.items()})
    if not there:
        return out
    for t in mine:  # in place: the same object is returned
        if any(o is t.here for o in _leaves((out,))):
            return t
    return _map(_there, out)


class AnotherDevice(_Mode):
    """While active, tensors created with `device=x.device` for an `Elsewhere` x are there too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("device") is None and not any(
            isinstance(t, Elsewhere) for t in _leaves((*args, *kwargs.values()))
        ):
            return func(*args, **kwargs)
        return _run_there(func, args, kwargs)


class _MadeThere(TorchFunctionMode):
    """Creates tensors from numbers, as for `torch.tensor(…, device=x.device)`: PyTorch would create
    them on `THERE` itself, where they are not `Elsewhere`."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        _refuse_transforms()
        kwargs, source = kwargs or {}, None
        if func in (Tensor.new_tensor, Tensor.new):
            source, *args = args
            kwargs = {"dtype": source.dtype, "device": source.device, **kwargs}
        if source is None and func not in (torch.tensor, torch.as_tensor, torch.asarray):
            return func(*args, **kwargs)
        numbers = not any(isinstance(t, Tensor) for t in tree_iter((args, kwargs)))
        device = kwargs.get("device")
        if not numbers or device is None or torch.device(device) != THERE:
            return func(*(() if source is None else (source,)), *args, **kwargs)
        return Elsewhere(torch.tensor(*args, **{**kwargs, "device": torch.device("cpu")}))


def moved(value: Any) -> Any:
    """An input on the other device; lists and numbers unchanged."""
    if isinstance(value, Tensor):
        return Elsewhere(value.detach().clone())
    if isinstance(value, tuple):
        return tuple(map(moved, value))
    return value


def happened_elsewhere(call: Any) -> str:
    """The outcome of `call()` with inputs elsewhere: "there", "here", "two devices", "numpy", or
    "unknown" if it could not be tried."""
    try:
        with torch.no_grad(), AnotherDevice(), _MadeThere():
            out = call()
    except InNumpy:
        return "numpy"
    except TwoDevices:
        return "two devices"
    except Exception:
        return "unknown"
    if not isinstance(out, Tensor):
        return "unknown"
    return "there" if isinstance(out, Elsewhere) else "here"
