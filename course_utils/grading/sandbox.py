"""The walls around a student's program: bubblewrap, and bounds on what it may use.

Inside there is no network, no other process, nobody's home and no course: only the system's and
this environment's programs and libraries, to be read, and one folder of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
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
        folder_size: bytes of all that it writes into one place: its own folder, its home, /tmp or
            /dev/shm.
        files: how many files and folders there may be in its own folder.
    """

    memory: int = 2048 * MIB
    processes: int = 64
    file_size: int = 64 * MIB
    folder_size: int = 256 * MIB
    files: int = 1000


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
        # bwrap's own environment can be read inside, as that of process 1.
        *("env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}"),
        *("prlimit", f"--as={2 * limits.memory}", f"--fsize={limits.file_size}", "--core=0"),
        *("--nofile=1024", "--"),
        *("bwrap", "--unshare-all", "--unshare-user", *_without_namespaces()),
        *("--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--hostname", "student"),
        *(word for name in SYSTEM for word in _system(f"/{name}")),
        *(w for inside, here in reading.items() for w in ("--ro-bind-try", here, inside)),
        *("--proc", "/proc", "--dev", "/dev"),
        *(w for place in ("/tmp", "/dev/shm", HOME) for w in ("--size", size, "--tmpfs", place)),
        *_without_the_course(),
        *(w for at, here in (shown or {}).items() for w in ("--ro-bind", str(here), str(at))),
        *(("--bind", str(own), str(own)) if own else ()),
        # Both lie in memory, and there is no bound on them.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", HOME, "--clearenv"),
        *(
            word
            for name, value in (variables | dict(environment or {})).items()
            for word in ("--setenv", name, value)
        ),
        *("--", *argv),
    ]


@cache
def _without_namespaces() -> tuple[str, ...]:
    """In a namespace of its own a program could mount more memory; bwrap before 0.8 lets it."""
    tried = ["bwrap", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "--", "true"]
    done = subprocess.run(tried, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return () if done.returncode else ("--disable-userns",)


def _system(place: str) -> tuple[str, ...]:
    if os.path.islink(place):
        return "--symlink", os.readlink(place), place
    return ("--ro-bind", place, place) if os.path.isdir(place) else ()


def _without_the_course() -> list[str]:
    """Where the course is installed beside other packages, it is covered."""
    package = Path(__file__).resolve().parents[1]
    shown = (Path(p).resolve() for p in (sys.prefix, sys.base_prefix, "/usr"))
    return ["--tmpfs", str(package)] if any(package.is_relative_to(p) for p in shown) else []


def end(outside: psutil.Process) -> None:
    """End a sandbox and everything inside; that it is over already is no mistake.

    Args:
        outside: the process that made the sandbox.
    """
    with suppress(psutil.Error):
        # With process 1 inside all others end, before bwrap itself does.
        for first in outside.children() or [outside]:
            with suppress(psutil.Error):
                first.kill()


class Watch:
    """Ends a sandbox that uses more than it may; the system's own bounds hold for each process.

    Args:
        process: the process that made the sandbox.
        told: called once, with what was too much.
        own: the folder of the host that may be written inside.
    """

    def __init__(
        self,
        process: int,
        told: Callable[[str], None],
        limits: Limits = LIMITS,
        every: float = 0.1,
        own: str | Path | None = None,
    ) -> None:
        self._process, self._told, self._limits, self._every = process, told, limits, every
        self._own = own
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _look(self) -> None:
        with suppress(psutil.Error):
            outside = psutil.Process(self._process)
            while not self._over.wait(self._every):
                family = outside.children(recursive=True)
                said = self._too_many(family) or self._too_much_held(family) or self._too_full()
                if said:
                    end(outside)
                    self._told(said)
                    return

    def _too_many(self, family: list[psutil.Process]) -> str:
        most = self._limits.processes
        return f"it had more than {most} processes" if len(family) > most else ""

    def _too_much_held(self, family: list[psutil.Process]) -> str:
        own, shared, nameless = 0, 0, dict[tuple[int, int], int]()
        for process in family:
            with suppress(OSError, ValueError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                held = dict(line.split(":", 1) for line in status.splitlines())
                own += _kib(held.get("RssAnon", "0 kB"))
                shared += _kib(held.get("RssShmem", "0 kB"))
                nameless |= _nameless(process.pid)
        most = self._limits.memory
        # What is shared is often a file without a name.
        too_much = own + max(shared, sum(nameless.values())) > most
        return f"it held more than {most // MIB:,} MiB of memory" if too_much else ""

    def _too_full(self) -> str:
        size = files = 0
        try:
            for place, inside, names in os.walk(self._own or "", onerror=_unreadable):
                files += len(inside) + len(names)
                if files > self._limits.files:
                    return f"it made more than {self._limits.files:,} files"
                for name in names:
                    with suppress(FileNotFoundError):
                        size += _on_disk(os.lstat(os.path.join(place, name)))
        except OSError:
            return "it made a folder that can't be looked into"
        most = self._limits.folder_size
        return f"it wrote more than {most // MIB:,} MiB of files" if size > most else ""


def _kib(said: str) -> int:
    return int(said.split()[0]) * 1024


def _on_disk(file: os.stat_result) -> int:
    return file.st_blocks * 512


def _nameless(process: int) -> dict[tuple[int, int], int]:
    """The sizes of the files that a process has open and nobody else can see."""
    sizes = {}
    for opened in os.scandir(f"/proc/{process}/fd"):
        with suppress(OSError):
            file = opened.stat()
            if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                sizes[file.st_dev, file.st_ino] = _on_disk(file)
    return sizes


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
