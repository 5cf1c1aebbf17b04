"""The work of a grading process, and the pools of such processes on this machine.

No submission runs in the process that grades a class, whatever happens to the others."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import torch

from whywrong.hosting import joined

from .cells import Cell
from .fork_server import ForkServer
from .notebooks import Graded, grade, not_run
from .results import Results, Settings, seed_from
from .sandbox import TRUSTED

PR_SET_PDEATHSIG = 1
# Bytes of a folder's name: a socket's name has at most 104 on macOS, 108 on Linux.
LONGEST_PLACE = 104 - 1 - len("/pymp-12345678/listener-12345678")
ATTEMPTS = 2  # at running a notebook alone, after a process that ran it was killed
MEMORY, SECONDS = 4 * 2**30, 600.0  # of a grading process: bytes; seconds per notebook
KILLED = "it could not be run: a process that grades was killed each time, as if memory was short"

# A notebook's name, and its result or why there is none.
Made = Generator[tuple[str, Graded | BaseException | str], None, None]


@cache
def server(tier: str) -> ForkServer:
    """Returns this process's server, which is created on first use."""
    torch.set_num_threads(1)  # as inside; a result must be the same on a machine of any size
    made = ForkServer(trusted=tier == TRUSTED)
    Finalize(None, made.close, exitpriority=0)  # a forked worker doesn't run `atexit`
    return made


def work(cells: list[dict[str, Any]], settings: Settings) -> dict[str, Any]:
    """A notebook's result; the submission runs in a child of this process."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends this process
    given = [Cell(**c) for c in cells]
    seed_of = seed_from(settings.secret)
    place, own = server(settings.tier), joined(settings.own)
    return grade(given, own, place, seed_of, settings.times, settings.files).to_dict()


def begin() -> None:
    """Limits a grading process, and makes it end with the command that grades."""
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with suppress(AttributeError, ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, most))  # the sandbox sets its own


def _end_with_the_command() -> None:
    """The command may be killed: then nobody else ends this process, which has its own group."""
    if command := multiprocessing.parent_process():
        command.join()
        os._exit(1)


def results_of(todo: Mapping[str, Sequence[Cell]], settings: Settings, workers: int) -> Made:
    """Yields the results of notebooks by name. Notebooks that ran when a process was killed, or
    that only the wall clock stopped, run again at the end, one at a time."""
    left, alone, slow = dict(todo), list[str](), list[str]()
    while left:
        for name, graded in _together(left, alone, settings, workers):
            if isinstance(graded, Graded) and graded.starved:
                slow.append(name)
            else:
                yield name, graded
    for name in [*alone, *slow]:
        outcome: Graded | BaseException | str = KILLED
        for _ in range(ATTEMPTS):
            for _, found in _together({name: todo[name]}, [], settings, 1):
                outcome = found
            if not isinstance(outcome, str):
                break
        if isinstance(outcome, Graded) and outcome.starved:
            said = "this machine was too busy to run it in time, twice: grade it again"
            outcome.happened.append(said)
        yield name, outcome


def _together(
    left: dict[str, Sequence[Cell]], killed: list[str], settings: Settings, workers: int
) -> Made:
    """Runs notebooks in a pool until none is left or a process is killed. Removes from `left` what
    has run, and adds to `killed` what was running when a process was killed. If it is stopped, what
    runs is killed, because it may take minutes."""
    # The fork server loads PyTorch and the course once; if the temporary folder's name is too long
    # for a socket, each worker loads them itself.
    short = len(os.fsencode(tempfile.gettempdir())) <= LONGEST_PLACE
    context = multiprocessing.get_context("forkserver" if short else "spawn")
    context.set_forkserver_preload([f"{__package__}.preloaded"])
    running: dict[Future, str] = {}
    broken = False
    with ProcessPoolExecutor(workers, mp_context=context, initializer=begin) as pool:
        try:
            while running or (left and not broken):
                while left and len(running) < workers and not broken:
                    name = next(iter(left))
                    cells = [asdict(cell) for cell in left[name]]
                    try:
                        running[pool.submit(work, cells, settings)] = name
                    except BrokenProcessPool:
                        broken = True
                        break
                    del left[name]
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name, error = running.pop(future), future.exception()
                    if isinstance(error, BrokenProcessPool):
                        broken = True
                        killed.append(name)
                    else:
                        yield name, error or Graded(**future.result())
        except BaseException:
            for process in multiprocessing.active_children():
                process.kill()
            raise


failed: dict[str, Graded] = {}  # results of this run that are not stored


def result_of(cells: Sequence[Cell], settings: Settings, results: Results) -> tuple[str, Graded]:
    """Returns the name and the result of these cells. The result was stored earlier, or is computed
    now in another process."""
    name = settings.name(cells)
    graded = results.find(name) or failed.get(name)
    if graded is None:
        ((_, made),) = results_of({name: cells}, settings, 1)
        if isinstance(made, BaseException):
            raise made
        graded = stored(results, settings, cells, name, made)
    return name, graded


def stored(
    results: Results, settings: Settings, cells: Sequence[Cell], name: str, made: Graded | str
) -> Graded:
    """Stores the result of a notebook, unless another run may give more points."""
    graded = made if isinstance(made, Graded) else not_run(cells, joined(settings.own), made)
    if graded.starved:
        failed[name] = graded
    else:
        results.keep(name, graded)
    return graded
