"""Settings and functions that an answer may change for later code."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import torch
from torch import nn

# By name: how to read it, how to set it, and its usual value.
SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled, True),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    "default device": (
        lambda: str(torch.get_default_device()),
        lambda name: torch.set_default_device(None if name == "cpu" else name),
        "cpu",
    ),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        False,
    ),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, False),
    "float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        None,
    ),
    "number of threads": (torch.get_num_threads, torch.set_num_threads, None),
    "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit, None),
}

# A replaced function in one of these would spoil every later answer.
SPACES: dict[str, Any] = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch._C.TensorBase": torch._C.TensorBase,
    "torch.nn": nn,
    "torch.nn.functional": nn.functional,
    "torch.nn.Module": nn.Module,
    "torch.nn.Linear": nn.Linear,
    "torch.nn.Dropout": nn.Dropout,
    "torch.nn.Softmax": nn.Softmax,
    "torch.nn.Embedding": nn.Embedding,
    "torch.nn.LayerNorm": nn.LayerNorm,
    "torch.nn.Parameter": nn.Parameter,
    "torch.testing": torch.testing,
    "math": sys.modules["math"],
    "builtins": sys.modules["builtins"],
}


# Environment variables that PyTorch sets itself when its compiler is first needed.
TORCHS_OWN = ("TORCHINDUCTOR_", "TRITON_")

# Functions that a notebook's kernel itself replaces for each cell, and the class that PyTorch
# replaces with the default dtype.
NOT_THE_READERS = {
    ("builtins", "input"),
    ("builtins", "exit"),
    ("builtins", "quit"),
    ("torch", "Storage"),
}


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


# Saved when the course is loaded, before any answer in this notebook could reach them.
PRISTINE = {
    name: {
        key: value
        for key, value in vars(space).items()
        if _is_code(value) and (name, key) not in NOT_THE_READERS
    }
    for name, space in SPACES.items()
}
# The first key is repeated: with a single key, an `itemgetter` gives no tuple.
READ = {name: itemgetter(*kept, next(iter(kept))) for name, kept in PRISTINE.items()}


@dataclass(frozen=True)
class Settings:
    """The settings at one point in time."""

    switches: dict[str, Any]
    environment: dict[str, str]
    folder: str

    @classmethod
    def now(cls) -> Settings:
        switches = {name: read() for name, (read, _, _) in SWITCHES.items()}
        return cls(switches, dict(os.environ), _folder())

    @staticmethod
    def usual() -> None:
        for read, write, usual in SWITCHES.values():
            if usual is not None and read() != usual:
                write(usual)
        restore_functions()

    def put_back(self) -> list[str]:
        """Restores everything to this state; returns in words what had changed."""
        changed = []
        for name, (read, write, _) in SWITCHES.items():
            if read() != self.switches[name]:
                changed.append(name)
                write(self.switches[name])
        if dict(os.environ) != self.environment:
            named = {n for n in {**os.environ, **self.environment} if not n.startswith(TORCHS_OWN)}
            if any(os.environ.get(n) != self.environment.get(n) for n in named):
                changed.append("environment variables")
            os.environ.clear()
            os.environ.update(self.environment)
        if _folder() != self.folder:
            changed.append("working folder")
            os.chdir(self.folder)
        return changed + restore_functions()


def restore_functions() -> list[str]:
    """Restores functions of PyTorch and Python that were replaced; returns their names.

    Leaves out functions that PyTorch itself wraps or replaces when its compiler is first needed, as
    by `torch.utils.checkpoint`.
    """
    told = []
    for name, kept in PRISTINE.items():
        now = vars(SPACES[name])
        with suppress(KeyError):  # one is missing
            if all(map(is_, READ[name](now), kept.values())):  # called often: no loop
                continue
        for key, value in kept.items():
            new = now.get(key)
            if new is not value:
                setattr(SPACES[name], key, value)
                if not _set_by_torch(new, value):
                    told.append(f"{name}.{key}")
    return told


def _set_by_torch(new: Any, value: Any) -> bool:
    home = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
    code = getattr(new, "__code__", None)
    if not isinstance(code, types.CodeType):
        return False
    wraps = code.co_filename.startswith(home) and getattr(new, "__wrapped__", None) is value
    return wraps or code.co_filename.startswith(os.path.join(home, "_dynamo", ""))


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
