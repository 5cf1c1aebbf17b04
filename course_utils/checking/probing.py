"""Running a student's answer: fresh inputs, a time budget, nothing printed, nothing raised."""

from __future__ import annotations

import contextlib
import ctypes
import dis
import inspect
import io
import linecache
import logging
import os
import random
import sys
import sysconfig
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .exercise import Case, Exercise, Observation, class_name, plain

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_SECONDS = 10.0


# ---------------------------------------------------------------- inputs


def fresh(value: Any, gradients: bool = False) -> Any:
    """A copy of an input that the answer may spoil; floats ask for gradients if wanted."""
    if isinstance(value, Tensor):
        copy = value.detach().clone().to(target_device())
        return copy.requires_grad_() if gradients and copy.is_floating_point() else copy
    if isinstance(value, dict):
        return {k: fresh(v, gradients) for k, v in value.items()}
    if isinstance(value, list):
        return [fresh(v, gradients) for v in value]
    return value


def target_device() -> torch.device:
    """Where answers are tried: the device that `COURSE_DEVICE` names, if it is there."""
    wanted = os.environ.get("COURSE_DEVICE", "cpu")
    if wanted.startswith("cuda") and torch.cuda.is_available():
        return torch.device(wanted)
    return torch.device("cpu")


def same(a: Any, b: Any) -> bool:
    """Bitwise the same value: tensors, numbers, and lists and dicts of them."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b = a.detach().cpu(), b.detach().cpu()
        equal = (a == b) | ((a != a) & (b != b)) if a.dtype != torch.bool else a == b
        return bool(equal.all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def cotangent(like: Tensor) -> Tensor:
    """A fixed direction for gradients, so that both sides differentiate the same number."""
    generator = torch.Generator().manual_seed(like.numel())
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


# ---------------------------------------------------------------- which operators ran


class Operators:
    """Names of the operators an answer calls, as written and as executed."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.written: list[str] = []

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        with _Written(self.written), _Executed(self.executed):
            yield


class _Written(TorchFunctionMode):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class _Executed(TorchDispatchMode):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping would import the whole compiler, 1.5 seconds, for nothing

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name.split("::")[-1])
        return func(*args, **(kwargs or {}))


class Calls:
    """What an answer calls, seen by the interpreter: course parts by code, PyTorch's by name.

    Sees what the two modes above don't: other threads, and code that switches modes off.
    """

    def __init__(self, parts: Mapping[types.CodeType, str]) -> None:
        self.parts = parts
        self.borrowed: set[str] = set()
        self.operators: set[str] = set()

    def _note(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            homes = argument.__module__, type(argument.__self__).__module__
            if any(str(home).startswith("torch") for home in homes):
                self.operators.add(argument.__name__)
        elif event == "call":
            code = frame.f_code
            if code in self.parts:
                self.borrowed.add(self.parts[code])
            elif code.co_filename.startswith(TORCH):
                self.operators.add(code.co_name)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def part_codes(parts: Mapping[str, Any]) -> dict[types.CodeType, str]:
    """The code objects of finished parts, with the name of each."""
    return {f.__code__: name for name, part in parts.items() for f in _functions(part)}


# ---------------------------------------------------------------- probes


class FunctionProbe:
    """Calls a function on a case and sees its result, its gradients and its side effects.

    Each case gives: `out`; `grad:<name>` for the inputs named in `gradients` that are floating
    point; the facts `modified` and `unstable`; with `watch`, the fact `ops`.

    Args:
        gradients: names of inputs that gradients must reach.
        watch: note which operators ran.
        extra: `(answer, case, observation)`, for what an exercise wants to see besides.
    """

    def __init__(
        self,
        gradients: Sequence[str] = (),
        watch: bool = False,
        extra: Callable[[Any, Case, Observation], None] | None = None,
    ) -> None:
        self.gradients = tuple(gradients)
        self.watch = watch
        self.extra = extra

    def __call__(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        operators = Operators()
        names = list(case.inputs)

        def inputs(gradients: bool = False) -> list[Any]:
            return [fresh(case[n], gradients and n in self.gradients) for n in names]

        def call(args: list[Any], seed: int = 1) -> Any:
            torch.manual_seed(seed)
            by_name = case.options.get("keywords", ())
            given = [a for n, a in zip(names, args, strict=True) if n not in by_name]
            return answer(*given, **{n: args[names.index(n)] for n in by_name})

        args = inputs()
        with operators.watch() if self.watch else contextlib.nullcontext():
            out = call(args)
        seen.put("out", out)
        changed = [n for n, a in zip(names, args, strict=True) if not untouched(a, case[n])]
        if changed:
            seen.facts["modified"] = changed
        if self.watch:
            seen.facts["ops"] = sorted({*operators.written, *operators.executed})
        if isinstance(out, Tensor) and out.device != target_device():
            seen.facts["device"] = [str(out.device), str(target_device())]
        if "out" not in seen.tensors:
            return seen

        # The second call gets tensors that held something else in a call before: an answer that
        # remembers where a tensor lies instead of what it holds gives itself away.
        first = seen.tensors["out"]
        args = inputs()
        with spoilt(args):
            call(args, 3)
        if not same(first, plain(out)[1]):
            seen.facts["overwritten"] = True
        second = plain(call(args, 2))[1]
        if second is None or not same(first, second):
            again = plain(call(inputs()))[1]
            repeats = again is not None and same(first, again)
            seen.facts["unstable"] = "seed" if repeats else "random"

        if self.gradients and not changed:
            self._see_gradients(call, inputs(gradients=True), names, seen)
        if self.extra:
            self.extra(answer, case, seen)
        return seen

    def _see_gradients(
        self, call: Callable[..., Any], args: list[Any], names: list[str], seen: Observation
    ) -> None:
        try:
            out = call(args)
            if isinstance(out, Tensor) and out.requires_grad:
                out.backward(cotangent(out))
            for name, arg in zip(names, args, strict=True):
                if isinstance(arg, Tensor) and arg.grad is not None:
                    seen.put(f"grad:{name}", arg.grad)
        except Exception as error:
            seen.facts["gradient_error"] = f"{type(error).__name__}: {first_lines(error)}"


def untouched(now: Any, before: Any) -> bool:
    """Whether an input is what it was, down to whether it asks for gradients."""
    if isinstance(now, Tensor) and isinstance(before, Tensor):
        return now.requires_grad == before.requires_grad and same(now, before)
    return same(now, before)


@contextlib.contextmanager
def spoilt(values: Sequence[Any]) -> Iterator[None]:
    """Floating-point tensors hold other numbers for a while, in the same memory."""
    floats = [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
    kept = [v.clone() for v in floats]
    for v in floats:
        v.copy_(v.flip(0) * 0.5 + 0.25 if v.dim() else v + 1)
    try:
        yield
    finally:
        for v, old in zip(floats, kept, strict=True):
            v.copy_(old)


def expect_function(
    oracle: Callable[..., Tensor],
    gradients: Sequence[str] = (),
    dtype: torch.dtype | None = None,
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle; results in `dtype`, else in the first float input's."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        args = {
            name: v.detach().to(torch.float64, copy=True).requires_grad_(name in gradients)
            if isinstance(v, Tensor) and v.is_floating_point()
            else v
            for name, v in case.inputs.items()
        }
        floats = [
            v.dtype for v in case.inputs.values() if isinstance(v, Tensor) and v.is_floating_point()
        ]
        wanted = dtype or (floats[0] if floats else None)
        with torch.enable_grad():
            out = oracle(*args.values())
        expected = {"out": out.detach().to(wanted) if wanted else out.detach()}
        given = [n for n in gradients if isinstance(case.inputs.get(n), Tensor)]
        if given:
            direction = cotangent(expected["out"]).double()
            grads = torch.autograd.grad(out, [args[n] for n in given], direction)
            for name, grad in zip(given, grads, strict=True):
                expected[f"grad:{name}"] = grad.to(case[name].dtype)
        return expected

    return expect


def probe_quiz(answer: Any, case: Case) -> Observation:
    """Reads a quiz: a dict of numbers, shapes or lists of shapes, each entry as an int tensor."""
    seen = Observation()
    if not isinstance(answer, Mapping):
        seen.facts["types"] = {"quiz": type(answer).__name__}
        return seen
    seen.facts["types"] = {"quiz": "dict"}
    for name in case.options["entries"]:
        if name not in answer:
            seen.facts["types"][name] = "missing"
            continue
        value = answer[name]
        seen.facts["types"][name] = "..." if value is Ellipsis or value is None else "given"
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
            if isinstance(value, (set, frozenset)):
                value = sorted(value)
            if isinstance(value, (int, tuple, list, torch.Size)) and not isinstance(value, bool):
                numbers = torch.tensor(value)
                if numbers.dtype == torch.int64 and numbers.numel() <= 1000:
                    seen.tensors[name] = numbers
    unknown = [str(k)[:60] for k in answer if k not in case.options["entries"]]
    if unknown:
        seen.facts["unknown"] = unknown[:5]
    return seen


# ---------------------------------------------------------------- under guard


class Output(io.TextIOBase):
    """Keeps the first lines that were printed and counts the rest."""

    def __init__(self, keep: int = 2000) -> None:
        self.kept, self.lines, self.keep = "", 0, keep

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if len(self.kept) < self.keep:
            self.kept += text[: self.keep - len(self.kept)]
        self.lines += text.count("\n")
        return len(text)


def time_budget() -> float:
    """Seconds for all cases of a check together: COURSE_CHECK_SECONDS, else 10."""
    try:
        seconds = float(os.environ["COURSE_CHECK_SECONDS"])
    except (KeyError, ValueError):
        return DEFAULT_SECONDS
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else DEFAULT_SECONDS


def run(
    exercise: Exercise,
    answer: Any,
    cases: Sequence[Case],
    parts: Mapping[types.CodeType, str] | None = None,
) -> list[Observation]:
    """Probes an answer on all cases, in a thread of its own, within the time budget.

    Returns one observation a case up to the first that ran out of time; never raises on behalf
    of the answer. The budget is 10 seconds for all cases together; the environment variable
    COURSE_CHECK_SECONDS changes it.
    """
    seconds = time_budget()
    observations: list[Observation] = []
    output = Output()

    stopped = threading.Event()

    def work() -> None:
        for case in cases:
            calls = Calls(parts) if parts is not None and not observations else None
            try:
                with calls.watch() if calls else contextlib.nullcontext():
                    seen = exercise.probe(answer, case)
            except BaseException as error:
                if stopped.is_set():
                    return
                seen = Observation(facts={"error": describe_error(error)})
            if calls:
                seen.facts["borrowed"] = sorted(calls.borrowed)
                if exercise.forbidden:
                    known = seen.facts.get("ops", [])
                    seen.facts["ops"] = sorted({*known, *calls.operators})
            observations.append(seen)

    with quiet(output), _settings_kept():
        worker = threading.Thread(target=work, name=f"check {exercise.id}", daemon=True)
        worker.start()
        try:
            worker.join(seconds)
        except KeyboardInterrupt:
            stopped.set()
            _stop(worker)
            raise
        if worker.is_alive():
            stopped.set()
            where = _where_is(worker)
            _stop(worker)
            observations = observations[: len(cases) - 1]
            message = f"still running after {seconds:g} seconds"
            error = {"type": "OutOfTime", "message": message, "where": where, "kind": "time"}
            observations.append(Observation(facts={"error": error}))
    if not observations:  # an exception so odd that it could not be described
        error = {"type": "Exception", "message": "", "where": [], "kind": "exception"}
        observations.append(Observation(facts={"error": error}))
    if output.lines or output.kept:
        observations[0].facts["printed"] = {
            "lines": output.lines + (not output.kept.endswith("\n")),
            "first": output.kept.splitlines()[:5],
        }
    return observations


def _stop(worker: threading.Thread) -> None:
    """Ends a thread that runs Python code; one that is stuck in a system call is left alone."""
    deadline = time.monotonic() + 2.0
    while worker.is_alive() and time.monotonic() < deadline:
        # The one exception that ends a thread without a word, wherever it strikes.
        ident, ending = ctypes.c_ulong(worker.ident or 0), ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ending)
        worker.join(0.05)


def _where_is(worker: threading.Thread) -> list[str]:
    frame = sys._current_frames().get(worker.ident or 0)
    frames = []
    while frame is not None:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return student_lines(list(reversed(frames)))


@contextlib.contextmanager
def quiet(output: Output | None = None) -> Iterator[None]:
    """Nothing that is printed or warned of gets out; nbgrader gives 0 for a word on stderr."""
    output = output or Output()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # a handler made earlier still holds the real stderr
        try:
            yield
        finally:
            logging.disable(level)


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Random states and global settings of PyTorch are the same after a check as before."""
    python_state, dtype = random.getstate(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            torch.set_default_dtype(torch.float32)
            yield
        finally:
            torch.set_default_dtype(dtype)
            random.setstate(python_state)


# ---------------------------------------------------------------- errors, as the student's own


def first_lines(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # a student's exception class may fail at anything
        return ""
    return " ".join(line.strip() for line in lines[:3])[:300]


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as facts: type, first line, the student's lines, and what kind it is."""
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    where = student_lines(frames)
    if where:
        where += _shapes_there(error)
    kind = "exception"
    if isinstance(error, NotImplementedError) and not str(error):
        kind = "stub"
    elif isinstance(error, TypeError) and not where:
        kind = "call"
    elif isinstance(error, WrongWeights):
        kind = "weights"
    return {
        "type": class_name(error),
        "message": str(error) if kind == "weights" else first_lines(error),
        "where": where,
        "kind": kind,
    }


def _shapes_there(error: BaseException) -> list[str]:
    """The tensors at hand in the student's line that raised, as one line by name and shape."""
    local: Mapping[str, Any] = {}
    traceback = error.__traceback__
    while traceback is not None:
        if not _is_library(traceback.tb_frame.f_code.co_filename):
            local = traceback.tb_frame.f_locals
        traceback = traceback.tb_next
    shapes = [f"{n}: {tuple(v.shape)}" for n, v in local.items() if isinstance(v, Tensor)]
    return [f"at that moment: {', '.join(shapes[:6])}"] if shapes else []


class WrongWeights(Exception):
    """A module's parameters are not the ones the exercise names."""


def student_lines(frames: Sequence[tuple[types.CodeType, int]]) -> list[str]:
    """The frames that are neither ours nor a library's, as `line 3, in f: code`."""
    lines = []
    for code, number in frames:
        if _is_library(code.co_filename):
            continue
        text = linecache.getline(code.co_filename, number).strip()
        lines.append(f"line {number}, in {code.co_name}" + (f": {text}" if text else ""))
    return lines[-5:] if len(lines) <= 5 else [*lines[:2], "…", *lines[-2:]]


def _is_library(filename: str) -> bool:
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return filename.startswith("<frozen")
    path = os.path.abspath(filename)
    roots = [PACKAGE, *{sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib")}]
    return any(path.startswith(root + os.sep) for root in roots if root)


def argument_mismatch(answer: Any, cases: Sequence[Case]) -> str | None:
    """Why the answer can't be called with every case's inputs, or None if it can."""
    try:
        signature = inspect.signature(answer)
    except Exception:
        return None
    for case in cases:
        keywords = case.options.get("keywords", ())
        try:
            signature.bind(
                *(v for n, v in case.inputs.items() if n not in keywords),
                **{n: case.inputs[n] for n in keywords},
            )
        except TypeError:
            taken = [p.name for p in signature.parameters.values()]
            return f"yours takes ({', '.join(taken)})"
    return None


def _functions(answer: Any) -> list[types.FunctionType]:
    """The functions that make up an answer: itself, or the methods of a class."""
    found = vars(answer).values() if isinstance(answer, type) else [answer]
    return [f for f in found if isinstance(f, types.FunctionType)]


def names_called(answer: Any) -> set[str]:
    """The global names an answer's code mentions, functions inside it included."""
    names: set[str] = set()
    codes = [f.__code__ for f in _functions(answer)]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return names


@contextlib.contextmanager
def names_bound(answer: Any, parts: Mapping[str, Any]) -> Iterator[None]:
    """Binds global names of an answer to other objects for a while."""
    missing = object()
    namespaces = {id(f.__globals__): f.__globals__ for f in _functions(answer)}.values()
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


def is_stub(answer: Any) -> bool:
    """Whether a function's body is still only a docstring and `...`, `pass` or `return ...`."""
    code = getattr(answer, "__code__", None)
    if code is None:
        return False
    constants = {None, Ellipsis, getattr(answer, "__doc__", None)}
    works = any(i.opname in WORK for i in dis.get_instructions(code))
    return not works and set(code.co_consts) <= constants


def is_stub_class(answer: type) -> bool:
    """Whether a class has a `forward` that does nothing and a constructor that only begins.

    A `forward` that it has from a class of the student's own counts as written.
    """
    forward, init = getattr(answer, "forward", None), answer.__dict__.get("__init__")
    begun = set(getattr(getattr(init, "__code__", None), "co_names", ())) - {"super", "__init__"}
    unwritten = forward is None or forward is torch.nn.Module.forward or is_stub(forward)
    return unwritten and not begun


# Instructions that every body which computes something has one of, and no stub.
WORK = {"LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "CALL", "BINARY_OP", "BUILD_MAP", "BUILD_LIST"}
