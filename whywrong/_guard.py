"""Runs a student's answer within a time budget: nothing is printed, raised or left changed."""

from __future__ import annotations

import bdb
import builtins
import contextlib
import ctypes
import io
import logging
import os
import random
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from ._answers import compiles, has_unwritten_forward, read_instead
from ._errors import describe_error, student_lines
from ._exercise import Case, Rules
from ._observation import Observation
from ._settings import Settings
from ._watching import Calls, own_code

DEFAULT_SECONDS = 10.0
PATIENCE = 3  # an answer that waits instead of computing may take this many times as long


class Output(io.TextIOBase):
    """Keeps the first printed lines and counts the rest."""

    def __init__(self, keep: int = 2000) -> None:
        self.kept, self.lines, self.keep = "", 0, keep

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if len(self.kept) < self.keep:
            self.kept += text[: self.keep - len(self.kept)]
        self.lines += text.count("\n")
        return len(text)

    def as_fact(self) -> dict[str, Any] | None:
        if not (self.lines or self.kept):
            return None
        lines = self.lines + (not self.kept.endswith("\n"))
        return {"lines": lines, "first": self.kept.splitlines()[:5]}


def time_budget(name: str = "CHECK", usual: float = DEFAULT_SECONDS) -> float:
    """Seconds from the environment, such as COURSE_CHECK_SECONDS; else the usual ones."""
    try:
        seconds = float(os.environ[f"COURSE_{name}_SECONDS"])
    except (KeyError, ValueError):
        return usual
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else usual


class Probed(Protocol):
    """The parts of an exercise that are needed to run its answers."""

    @property
    def id(self) -> str: ...
    @property
    def probe(self) -> Any: ...
    @property
    def rules(self) -> Rules: ...


class Clock:
    """How long an answer may run: a limit on processor time, which doesn't depend on how busy the
    machine is, and a longer one on wall-clock time, for an answer that sleeps.

    Args:
        seconds: processor time; if None, COURSE_CHECK_SECONDS, else 10.
        wall: wall-clock seconds; if None, `PATIENCE` times as many.
    """

    def __init__(self, seconds: float | None = None, wall: float | None = None) -> None:
        self.seconds = time_budget() if seconds is None else seconds
        self._until = time.monotonic() + (PATIENCE * self.seconds if wall is None else wall)
        self._spent = time.process_time() + self.seconds

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For time that isn't the answer's."""
        wall, spent = time.monotonic(), time.process_time()
        yield
        self._until += time.monotonic() - wall
        self._spent += time.process_time() - spent

    def over(self) -> bool:
        return time.monotonic() >= self._until or time.process_time() >= self._spent

    def wait_for(self, worker: threading.Thread) -> None:
        """Waits until the thread has ended or its time is over."""
        while worker.is_alive() and not self.over():
            worker.join(0.05)


def run(
    exercise: Probed,
    answer: Any,
    cases: Sequence[Case],
    parts: Mapping[types.CodeType, str] | None = None,
    clock: Clock | None = None,
    watch_all: bool = False,
) -> list[Observation]:
    """Probes an answer on all cases, in a thread of its own, within the time budget.

    Returns one observation per case up to the first that ran out of time; never raises the answer's
    errors. With `watch_all`, every call of every case is watched; else most cases are watched only
    up to the first result.
    """
    clock = clock or Clock()
    observations: list[Observation] = []
    output, stopped = Output(), threading.Event()

    def work() -> None:
        settings = Settings.now()  # the settings that are restored after each case
        for number, case in enumerate(cases):
            whole = watch_all or number == 0 or bool(case.roles & {"typical", "dropout"})
            calls = Calls(parts, bool(exercise.rules.forbidden), whole) if parts else None
            observed = _probe(exercise, answer, case, calls, stopped, settings)
            if stopped.is_set():
                return
            observations.append(observed)

    with quiet(output), kept_settings(), uncompiled(answer, clock) as uses_compiler:
        torch.set_num_threads(1)  # at these sizes, a second thread only adds waiting
        worker = threading.Thread(target=work, name=f"check {exercise.id}", daemon=True)
        worker.start()
        try:
            clock.wait_for(worker)
        except KeyboardInterrupt:
            stopped.set()
            _stop(worker)
            raise
        if worker.is_alive():
            stopped.set()
            where = _where_is(worker)
            _stop(worker)
            message = f"still running after {clock.seconds:g} seconds"
            del observations[len(cases) - 1 :]
            observations.append(_failure("OutOfTime", "time", message, where))
    if not observations:  # an exception that could not even be described
        observations.append(_failure("Exception", "exception"))
    if printed := output.as_fact():
        observations[0].facts["printed"] = printed
    if uses_compiler:
        observations[0].facts["compiles"] = True
    if has_unwritten_forward(answer):
        observations[0].facts["forward_unwritten"] = True
    if others := read_instead(answer):
        observations[0].facts["read_instead"] = list(others)
    return observations


def _failure(type: str, kind: str, message: str = "", where: Sequence[str] = ()) -> Observation:
    error = {"type": type, "bases": [], "message": message, "where": list(where), "kind": kind}
    return Observation(facts={"error": error})


def _probe(
    exercise: Probed,
    answer: Any,
    case: Case,
    calls: Calls | None,
    stopped: threading.Event,
    settings: Settings,
) -> Observation:
    """Runs one case: what the probe observed or the error, and what was changed afterwards."""
    try:
        with calls.watch() if calls else contextlib.nullcontext():
            observed = exercise.probe(answer, case)
    except BaseException as error:
        observed = Observation(facts={"error": describe_error(error)})
    if stopped.is_set():  # out of time: the check has already restored the settings and continued
        return observed
    if changed := settings.put_back():
        observed.facts["left_behind"] = observed.facts.get("left_behind", []) + changed
    if calls:
        observed.facts["borrowed"] = sorted(calls.borrowed)
        if exercise.rules.forbidden:
            observed.facts["ops"] = sorted({*observed.facts.get("ops", []), *calls.operators})
    return observed


@contextlib.contextmanager
def uncompiled(answer: Any, clock: Clock) -> Iterator[bool]:
    """Calls functions below `@torch.compile` as they are written; yields whether there are any.

    To import the compiler takes seconds, and so does compiling for each shape; and a sandbox has
    none of the programs that it needs.
    """
    uses_compiler = compiles(answer)
    if not uses_compiler and "torch._dynamo" not in sys.modules:  # nothing can be compiled
        yield False
        return
    with clock.held():
        eager = torch.compiler.set_stance("force_eager")
        if uses_compiler:
            torch.compile(lambda: None)  # loads what it would load in the answer's time
    with eager:
        yield uses_compiler


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Runs the course's own code with nothing printed and with the settings of a check."""
    before = own_code.set(True)
    try:
        with quiet(), kept_settings():
            yield
    finally:
        own_code.reset(before)


# ---------------------------------------------------------------- stopping


def _stop(worker: threading.Thread) -> None:
    """Ends a thread that runs Python code; a thread stuck in a system call is left alone."""
    deadline = time.monotonic() + 0.6
    while worker.is_alive() and time.monotonic() < deadline:
        # The only exception that silently ends a thread, wherever it is raised.
        _raise_in(worker.ident or 0, SystemExit)
        worker.join(0.05)
    if worker.is_alive():
        _let_others_run()
    _forget_half_imported()


def _forget_half_imported() -> None:
    """Undoes an import that was stopped half-way, which would fail every time afterwards."""
    for name, module in list(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            sys.modules.pop(name, None)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class _Swallowed(BaseException):
    pass


def _let_others_run() -> None:
    """Clears the flag that says that a stuck thread has a pending exception.

    While the flag is set, Python 3.11 hangs in every call that a profiler watches. Handling any
    such exception clears the flag; the stuck thread still gets its own exception when it wakes up.
    """
    with contextlib.suppress(_Swallowed):
        _raise_in(threading.get_ident(), _Swallowed)
        for _ in range(1_000):
            time.sleep(0)


def _where_is(worker: threading.Thread) -> list[str]:
    frame = sys._current_frames().get(worker.ident or 0)
    frames = []
    while frame is not None:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return student_lines(list(reversed(frames)))


# ---------------------------------------------------------------- surroundings


@contextlib.contextmanager
def quiet(output: Output | None = None) -> Iterator[None]:
    """Captures all output and warnings; nbgrader gives 0 points for any output on stderr."""
    output = output or Output()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # a handler made earlier still holds the real stderr
        asks, stops = builtins.input, sys.breakpointhook
        builtins.input, sys.breakpointhook = _no_answer, _no_debugger
        try:
            yield
        finally:
            logging.disable(level)
            builtins.input, sys.breakpointhook = asks, stops


def _no_answer(prompt: object = "") -> str:
    """A notebook would wait for an answer, where nobody expects the question."""
    raise EOFError("a check can't answer a question")


def _no_debugger(*_: object, **__: object) -> None:
    raise bdb.BdbQuit


@contextlib.contextmanager
def kept_settings() -> Iterator[None]:
    """Restores random states and settings after a check, and sets the usual ones during it."""
    python_state, before = random.getstate(), Settings.now()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        Settings.usual()
        try:
            yield
        finally:
            before.put_back()
            random.setstate(python_state)
            if numpy:
                numpy.random.set_state(numpy_state)
