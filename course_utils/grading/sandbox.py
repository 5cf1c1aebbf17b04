"""The walls around a student's program: bubblewrap, and bounds on what it may use.

Inside there is no network, no other process, nobody's home and no course: only the system's and
this environment's programs and libraries, to be read, and one folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

SANDBOX, TRUSTED = "sandbox", "trusted"  # the tiers: what stands between a submission and the host
HOME = "/home/student"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
OF_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
MIB = 2**20


class NoSandbox(RuntimeError):
    """Bubblewrap is missing or refused here; the message says what can be done."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    Args:
        memory: bytes that all its processes hold together, and that one may reserve twice over.
        processes: how many there may be at once.
        file_size: bytes of the largest file it may write.
        folder_size: bytes of all that it writes.
    """

    memory: int = 2048 * MIB
    processes: int = 64
    file_size: int = 64 * MIB
    folder_size: int = 256 * MIB


LIMITS = Limits()


@cache
def why_not() -> str:
    """Why no sandbox can be had on this machine, or nothing if it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap is a program for Linux, and this is another system"
    if shutil.which("bwrap") is None:
        return "the program bwrap is not installed (on Debian: apt install bubblewrap)"
    tried = subprocess.run(
        command(["true"]), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"the system does not let bwrap make a sandbox ({said})"
    return ""


def demand() -> None:
    """Nothing, where there is a sandbox.

    Raises:
        NoSandbox: there is none; the message names the choices.
    """
    if reason := why_not():
        raise NoSandbox(
            f"Submissions are strangers' programs, and here they can't be locked in: {reason}.\n"
            "Choose one:\n"
            "  - make bubblewrap work: apt install bubblewrap; where AppArmor forbids it, as on "
            "Ubuntu 24.04, allow user namespaces for bwrap;\n"
            "  - grade inside a container or virtual machine without a network that holds nothing "
            "but the course and the submissions, with --trust-submissions;\n"
            "  - grade with --trust-submissions, if you trust every one of your students with your "
            "account, your files and your gradebook."
        )


def command(
    argv: Sequence[str],
    *,
    shown: Mapping[str | Path, str | Path] | None = None,
    own: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    limits: Limits = LIMITS,
) -> list[str]:
    """The command line that runs a program inside the walls.

    Args:
        argv: the program and its arguments, as they are to be read inside.
        shown: folders and files of the host that may be read, by the place where they stand inside.
        own: a folder of the host that may be written, at the same place inside; the only one that
            is not gone afterwards.
        environment: all variables there are, beside HOME, PATH and LANG.
    """
    programs = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    variables = {"HOME": HOME, "PATH": programs, "LANG": "C.UTF-8", "USER": "student"}
    reading = {f"/etc/{name}": f"/etc/{name}" for name in OF_ETC}
    reading |= {path: path for path in (sys.base_prefix, sys.prefix)}
    size = str(limits.folder_size)
    return [
        *("prlimit", f"--as={2 * limits.memory}", f"--fsize={limits.file_size}", "--core=0", "--"),
        *("bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"),
        # Nobody special: root could not be given up again in namespaces within this one.
        *("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "student"),
        *(word for name in SYSTEM for word in _system(f"/{name}")),
        *(w for inside, here in reading.items() for w in ("--ro-bind-try", here, inside)),
        *("--proc", "/proc", "--dev", "/dev"),
        *(w for place in ("/tmp", HOME) for w in ("--size", size, "--tmpfs", place)),
        *_without_the_course(),
        *(w for at, here in (shown or {}).items() for w in ("--ro-bind", str(here), str(at))),
        *(("--bind", str(own), str(own)) if own else ()),
        *("--chdir", HOME, "--clearenv"),
        *(
            word
            for name, value in (variables | dict(environment or {})).items()
            for word in ("--setenv", name, value)
        ),
        *("--", *argv),
    ]


def _system(place: str) -> tuple[str, ...]:
    if os.path.islink(place):
        return "--symlink", os.readlink(place), place
    return ("--ro-bind", place, place) if os.path.isdir(place) else ()


def _without_the_course() -> list[str]:
    """Where the course is installed beside other packages, it is covered."""
    package = Path(__file__).resolve().parents[1]
    shown = (Path(p).resolve() for p in (sys.prefix, sys.base_prefix, "/usr"))
    return ["--tmpfs", str(package)] if any(package.is_relative_to(p) for p in shown) else []


class Watch:
    """Ends a sandbox that uses more than it may; the system's own bounds hold for each process.

    Args:
        process: the process that made the sandbox. With it everything inside ends.
        told: called once, with what was too much.
    """

    def __init__(
        self, process: int, told: Callable[[str], None], limits: Limits = LIMITS, every: float = 0.1
    ) -> None:
        self._process, self._told, self._limits, self._every = process, told, limits, every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(self._every):
            try:
                family = psutil.Process(self._process).children(recursive=True)
            except psutil.Error:
                return
            held = 0
            for process in family:
                with suppress(psutil.Error):
                    memory = process.memory_info()
                    held += memory.rss - memory.shared
            said = ""
            if len(family) > self._limits.processes:
                said = f"it had more than {self._limits.processes} processes"
            elif held > self._limits.memory:
                said = f"it held more than {self._limits.memory // MIB:,} MiB of memory"
            if said:
                with suppress(psutil.Error):
                    psutil.Process(self._process).kill()
                self._told(said)
                return
