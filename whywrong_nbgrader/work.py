"""What a process that grades does. It imports no more than running a notebook needs."""

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
    """This process's room, made when first asked for."""
    torch.set_num_threads(1)  # as inside; and the same is found on a machine of any size
    made = Room(trusted=tier == TRUSTED)
    Finalize(None, made.close, exitpriority=0)  # a forked worker's `atexit` is not heard
    return made


def work(cells: list[dict[str, Any]], settings: Settings) -> dict[str, Any]:
    """A notebook's result; the submission's program runs in a child of this process."""
    return make(room(settings.tier), [Cell(**c) for c in cells], settings).to_dict()


def end_with_parent() -> None:
    """Where the system can (Linux), a process that grades ends with the one that started it."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
