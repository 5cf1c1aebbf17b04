"""The work of a grading process. It imports only what running a notebook needs."""

from __future__ import annotations

import ctypes
import signal
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import torch

from .cells import Cell
from .results import Settings, make
from .room import Room
from .sandbox import TRUSTED

PR_SET_PDEATHSIG = 1


@cache
def room(tier: str) -> Room:
    """This process's room, created on first use."""
    torch.set_num_threads(1)  # as inside; a result must be the same on a machine of any size
    made = Room(trusted=tier == TRUSTED)
    Finalize(None, made.close, exitpriority=0)  # a forked worker doesn't run `atexit`
    return made


def work(cells: list[dict[str, Any]], settings: Settings) -> dict[str, Any]:
    """A notebook's result; the submission runs in a child of this process."""
    return make(room(settings.tier), [Cell(**c) for c in cells], settings).to_dict()


def end_with_parent() -> None:
    """On Linux, makes a grading process end with the process that started it."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
