"""Running a student's answer: a time budget, nothing printed, raised or left behind."""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from .errors import describe_error, student_lines
from .exercise import Case
from .observation import Observation
from .settings import Settings
from .watching import Calls, own_code

DEFAULT_SECONDS = 10.0


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

    def as_fact(self) -> dict[str, Any] | None:
        if not (self.lines or self.kept):
            return None
        lines = self.lines + (not self.kept.endswith("\n"))
        return {"lines": lines, "first": self.kept.splitlines()[:5]}


def time_budget() -> float:
    """Seconds for all cases of a check together: COURSE_CHECK_SECONDS, else 10."""
    try:
        seconds = float(os.environ["COURSE_CHECK_SECONDS"])
    except (KeyError, ValueError):
        return DEFAULT_SECONDS
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else DEFAULT_SECONDS


_checking: set[int] = set()  # threads in which an answer runs


def _end_forked() -> None:
    """A process that an answer forks would be a second check: it ends before it begins."""
    if threading.get_ident() in _checking:
        os._exit(0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_forked)


class Probed(Protocol):
    """What is needed of an exercise to run its answers."""

    @property
    def id(self) -> str: ...
    @property
    def probe(self) -> Any: ...
    @property
    def forbidden(self) -> tuple[str, ...]: ...


def run(
    exercise: Probed,
    answer: Any,
    cases: Sequence[Case],
    parts: Mapping[types.CodeType, str] | None = None,
    seconds: float | None = None,
    watch_all: bool = False,
    computing: float | None = None,
) -> list[Observation]:
    """Probes an answer on all cases, in a thread of its own, within the time budget.

    Returns one observation a case up to the first that ran out of time; never raises on behalf
    of the answer. The budget is 10 seconds for all cases together; the environment variable
    COURSE_CHECK_SECONDS changes it. With `watch_all` no call of any case goes unwatched; else those
    of most cases are watched up to the first result. With `computing` so many seconds of the
    processor's time are enough to end it: on a busy machine the others are soon over.
    """
    seconds = time_budget() if seconds is None else seconds
    observations: list[Observation] = []
    output, stopped = Output(), threading.Event()

    def work() -> None:
        _checking.add(threading.get_ident())
        try:
            settings = Settings.now()  # and as they are put back after each case
            for number, case in enumerate(cases):
                whole = watch_all or number == 0 or bool(case.roles & {"typical", "dropout"})
                calls = Calls(parts, bool(exercise.forbidden), whole) if parts else None
                seen = _probe(exercise, answer, case, calls, stopped, settings)
                if stopped.is_set():
                    return
                observations.append(seen)
        finally:
            _checking.discard(threading.get_ident())

    with quiet(output), kept_settings():
        torch.set_num_threads(1)  # with sizes like these, a second one is waited for
        worker = threading.Thread(target=work, name=f"check {exercise.id}", daemon=True)
        worker.start()
        try:
            _await(worker, seconds, computing)
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
            error = {"type": "OutOfTime", "bases": [], "message": message, "where": where}
            observations.append(Observation(facts={"error": error | {"kind": "time"}}))
    if not observations:  # an exception so odd that it could not be described
        error = {"type": "Exception", "bases": [], "message": "", "where": [], "kind": "exception"}
        observations.append(Observation(facts={"error": error}))
    if printed := output.as_fact():
        observations[0].facts["printed"] = printed
    return observations


def _probe(
    exercise: Probed,
    answer: Any,
    case: Case,
    calls: Calls | None,
    stopped: threading.Event,
    settings: Settings,
) -> Observation:
    """One case, watched: what the probe saw, or the error, and what stayed changed afterwards."""
    try:
        with calls.watch() if calls else contextlib.nullcontext():
            seen = exercise.probe(answer, case)
    except BaseException as error:
        seen = Observation(facts={"error": describe_error(error)})
    if stopped.is_set():  # out of time: the check has put things back and gone on
        return seen
    if changed := settings.put_back():
        seen.facts["left_behind"] = seen.facts.get("left_behind", []) + changed
    if calls:
        seen.facts["borrowed"] = sorted(calls.borrowed)
        if exercise.forbidden:
            seen.facts["ops"] = sorted({*seen.facts.get("ops", []), *calls.operators})
    return seen


def _await(worker: threading.Thread, seconds: float, computing: float | None) -> None:
    if computing is None:
        worker.join(seconds)
        return
    until, spent = time.monotonic() + seconds, time.process_time() + computing
    while worker.is_alive() and time.monotonic() < until and time.process_time() < spent:
        worker.join(0.05)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """For the course's own code: nothing printed, and the settings as a check has them."""
    before = own_code.set(True)
    try:
        with quiet(), kept_settings():
            yield
    finally:
        own_code.reset(before)


# ---------------------------------------------------------------- stopping


def _stop(worker: threading.Thread) -> None:
    """Ends a thread that runs Python code; one that is stuck in a system call is left alone."""
    deadline = time.monotonic() + 0.6
    while worker.is_alive() and time.monotonic() < deadline:
        # The one exception that ends a thread without a word, wherever it strikes.
        _raise_in(worker.ident or 0, SystemExit)
        worker.join(0.05)
    if worker.is_alive():
        _let_others_run()
    _forget_half_imported()


def _forget_half_imported() -> None:
    """An import that was stopped half-way would fail for ever after."""
    for name, module in list(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            sys.modules.pop(name, None)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class _Swallowed(BaseException):
    pass


def _let_others_run() -> None:
    """Takes back the flag that a stuck thread has an exception to come.

    While it is up, Python 3.11 hangs in every call that is watched by a profiler. Handling any
    such exception takes it down; the stuck thread raises it again when it wakes up.
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
def kept_settings() -> Iterator[None]:
    """Random states and settings are the same after a check as before, and usual within it."""
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


def finish(action: Callable[[], Any]) -> Any:
    """Runs the course's own code on the side of a check; an answer can't have spoilt it."""
    with undisturbed():
        return action()
