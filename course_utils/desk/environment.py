"""Tests whether this Python has what the course needs, and chooses the device and the threads.

Before this module imports a package that the course installs, it checks that the package is there.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

OLDEST_PYTHON = (3, 11)
READY = "Everything the course needs is here."
REMEDY = "Start the course with `make lab` (the README has other ways), or choose its kernel."
COURSE = Path(__file__).resolve().parent.parent.parent


def check_environment() -> list[str]:
    """Print a line for each thing that is missing, with what to do, or one line if all is well.

    If all is well, the line is the same on every machine.

    >>> check_environment()
    ['Everything the course needs is here.']
    """
    if sys.version_info < OLDEST_PYTHON:
        version = ".".join(map(str, sys.version_info[:3]))
        where = f"{version} ({sys.executable})"
        return [f"The course needs Python 3.11 or newer, but this is {where}. {REMEDY}"]
    try:
        requirements = importlib.metadata.requires("course_utils") or []
    except importlib.metadata.PackageNotFoundError:
        return [f"This Python is not the course's environment: {sys.executable}. {REMEDY}"]
    return [*_unmet(requirements), *_other_copy()] or [READY]


def report_environment() -> None:
    """Print the result of `check_environment`.

    If something is missing, later failing imports in a notebook show the same words instead of a
    traceback.
    """
    lines = _said(check_environment())
    print(*lines, sep="\n")
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    shell.events.register("post_run_cell", give_back_memory)

    def say(shell: object, kind: type, error: Exception, *_: object, **__: object) -> None:
        print(f"{error}.", *lines, sep="\n")

    shell.set_custom_exc(() if lines == _said([READY]) else (ImportError,), say)


def give_back_memory(*_: object) -> None:
    """Return freed memory to Linux. Else large tensors leave gaps of hundreds of megabytes among
    small ones that stay, and a Binder has only one or two gigabytes."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
        if trim:
            trim(0)


def _said(lines: list[str]) -> list[str]:
    """Translate lines into the reader's language, if the packages needed for that are installed."""
    try:
        from .language import localised
    except ImportError:
        return lines
    return [localised(line) for line in lines]


def _unmet(requirements: list[str]) -> list[str]:
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        return [f"packaging is missing from {sys.prefix}. {REMEDY}"]
    lines = []
    for requirement in map(Requirement, requirements):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{requirement.name} is missing from {sys.prefix}. {REMEDY}")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            lines.append(
                f"{requirement.name} {version} is outside the range the course supports "
                f"({requirement.specifier}). {REMEDY}"
            )
    return lines


def _other_copy() -> list[str]:
    """A line if the imported package and the lesson belong to different checkouts."""
    from importlib.util import find_spec

    spec = find_spec("course_utils")
    if spec is None or spec.origin is None:
        return []
    installed = Path(spec.origin).resolve().parent.parent
    if installed == COURSE or not (installed / "pyproject.toml").exists():
        return []
    return [f"This page is in {COURSE}, but course_utils comes from {installed}. {REMEDY}"]


def device() -> torch.device:
    """The device for new tensors: the CPU, or the device that `COURSE_DEVICE` names.

    With `COURSE_DEVICE=cuda` but no CUDA device, the function prints a line and returns the CPU.

    Raises:
        ValueError: `COURSE_DEVICE` is neither `cpu` nor `cuda`, with or without a number.
    """
    import torch

    name = os.environ.get("COURSE_DEVICE") or "cpu"
    kind, _, index = name.partition(":")
    known = kind in ("cpu", "cuda") and (index.isdigit() or name == kind)
    if not known or (kind == "cpu" and int(index or 0) > 0):
        raise ValueError(f"COURSE_DEVICE is {name!r}; it must be cpu, cuda, or cuda:1 etc.")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        line = f"COURSE_DEVICE is {name}, but PyTorch finds no such device here: using the CPU."
        print(*_said([line]))
        return torch.device("cpu")
    return torch.device(name)


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Use `count` threads inside the context; None changes nothing.

    For small products, threads spend more time waiting than computing, especially on a busy
    machine. Also, the last digits of a sum depend on the number of parts into which it is split.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
