"""The sandbox around a student's program: bubblewrap, and limits on resources.

Inside, there is no network, no other process, no home folder and no course: only the system's and
this environment's programs and libraries, read-only, and one private folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

SANDBOX, TRUSTED = "sandbox", "trusted"  # the tiers of protection between a submission and the host
HOME = "/home/student"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
OF_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
MIB = 2**20


class NoSandbox(RuntimeError):
    """Bubblewrap is missing or refused here; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """Resource limits for one submission.

    Args:
        memory: bytes that all its processes may use together; one process may reserve twice as
            much, in addition to PyTorch's libraries.
        processes: the maximum number at any time.
        file_size: bytes of the largest file that it may write.
        folder_size: total bytes that it may write into each of its own folder, its home, /tmp and
            /dev/shm.
        files: the maximum number of files and folders in its own folder.
    """

    memory: int = 2048 * MIB
    processes: int = 64
    file_size: int = 64 * MIB
    folder_size: int = 256 * MIB
    files: int = 1000


LIMITS = Limits()


@cache
def why_not() -> str:
    """Why this machine can't provide a sandbox, or an empty string if it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap runs only on Linux, and this is another system"
    if shutil.which("bwrap") is None:
        return "the program bwrap is not installed (on Debian: apt install bubblewrap)"
    tried = subprocess.run(
        command(["true"]), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"the system does not let bwrap create a sandbox ({said})"
    return ""


def demand() -> None:
    """Returns if this machine can provide a sandbox.

    Raises:
        NoSandbox: it can't; the message names the choices.
    """
    if reason := why_not():
        raise NoSandbox(
            f"Submissions are untrusted programs, and this machine can't sandbox them: {reason}.\n"
            "Choose one:\n"
            "  - make bubblewrap work: apt install bubblewrap; if AppArmor forbids it, as on "
            "Ubuntu 24.04, allow user namespaces for bwrap;\n"
            "  - grade in a container or virtual machine that has no network and contains nothing "
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
    nested: bool = False,
) -> list[str]:
    """The command line that runs a program in the sandbox.

    Args:
        argv: the program and its arguments, as seen inside.
        shown: readable folders and files of the host, by their path inside.
        own: a writable folder of the host, with the same path inside; the only one that persists
            afterwards.
        environment: all environment variables besides HOME, PATH and LANG.
        nested: whether the program creates its own namespaces for its children.
    """
    groups = (
        # bwrap's own environment can be read inside, as the environment of process 1.
        ("env", "-i", _program("prlimit"), *_bounds(limits), "--", _program("bwrap")),
        NAMESPACES,
        () if nested else _without_namespaces(),
        NOBODY,
        _files(shown or {}, own, limits, nested),
        ("--chdir", HOME, "--clearenv", *_variables(environment or {})),
        ("--", *argv),
    )
    return [word for group in groups for word in group]


NAMESPACES = ("--unshare-all", "--unshare-user")
# An ordinary user: root could not be given up in nested namespaces.
NOBODY = (
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "student"),
)


def _bounds(limits: Limits) -> Iterator[str]:
    """Limits for each process; `Watch` limits all of them together."""
    yield f"--as={2 * limits.memory + _libraries()}"
    yield from (f"--fsize={limits.file_size}", "--core=0", "--nofile=1024")


def _files(
    shown: Mapping[str | Path, str | Path], own: str | Path | None, limits: Limits, nested: bool
) -> Iterator[str]:
    """The readable files inside, and the one writable folder that persists."""
    for name in SYSTEM:
        yield from _system(f"/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in ("/tmp", "/dev/shm", HOME):
        yield from ("--size", str(limits.folder_size), "--tmpfs", place)
    # After those, because an environment may be below one of them.
    for path in (*(f"/etc/{name}" for name in OF_ETC), sys.base_prefix, sys.prefix):
        yield from ("--ro-bind-try", path, path)
    yield from _without_the_course()
    for inside, here in shown.items():
        yield from ("--ro-bind", str(here), str(inside))
    if own:
        yield from ("--bind", str(own), str(own))
    # All are in memory; the last two have no limit.
    for place in (*(("/tmp",) if nested else ()), "/dev", "/"):
        yield from ("--remount-ro", place)


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    programs = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    variables = {"HOME": HOME, "PATH": programs, "LANG": "C.UTF-8", "USER": "student"}
    for name, value in (variables | dict(environment)).items():
        yield from ("--setenv", name, value)


@cache
def _without_namespaces() -> tuple[str, ...]:
    """Forbids new namespaces, in which a program could mount more memory (bwrap from 0.8 on)."""
    wanted = ("--unshare-user", "--disable-userns")
    tried = [_program("bwrap"), *wanted, "--ro-bind", "/", "/", "--", "true"]
    done = subprocess.run(tried, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return () if done.returncode else ("--disable-userns",)


@cache
def _libraries() -> int:
    """Bytes that a process reserves but does not use when it loads PyTorch: a few hundred MiB or,
    with the GPU libraries, more than a submission may use."""
    found = importlib.util.find_spec("torch")
    places = [Path(place) for place in (found and found.submodule_search_locations) or ()]
    sizes = {
        os.stat(file).st_ino: os.stat(file).st_size
        for place in places
        for folder in (place / "lib", place.parent / "nvidia")
        for file in folder.rglob("*.so*")
        if file.is_file()
    }
    return sum(sizes.values())


def _program(name: str) -> str:
    return shutil.which(name) or name


def _system(place: str) -> tuple[str, ...]:
    if os.path.islink(place):
        return "--symlink", os.readlink(place), place
    return ("--ro-bind", place, place) if os.path.isdir(place) else ()


def _without_the_course() -> list[str]:
    """Hides the course and this package if they are installed among other packages."""
    from whywrong.course import installed, package_folder  # PyTorch is in the same folder

    course = installed()
    folders = [Path(__file__).resolve().parent]
    if course is not None:
        folders += [package_folder(course.package), course.exercises.resolve()]
    shown = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix, "/usr")]
    covered = [f for f in folders if any(f.is_relative_to(place) for place in shown)]
    return [word for folder in covered for word in ("--tmpfs", str(folder))]


def launch(argv: Sequence[str], **how: Any) -> subprocess.Popen:
    """Starts a program from a thread that lives as long as the program.

    A sandbox dies with its parent, which for Linux is the thread that started it.

    Args:
        how: arguments for `subprocess.Popen`.
    """
    started: Future[subprocess.Popen] = Future()

    def stay() -> None:
        try:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **how)
        except BaseException as error:
            started.set_exception(error)
        else:
            started.set_result(process)
            process.wait()

    threading.Thread(target=stay, name="parent of a sandbox", daemon=True).start()
    return started.result()


def end(outside: psutil.Process) -> None:
    """End a sandbox and everything inside; it may already have ended.

    Args:
        outside: the process that created the sandbox.
    """
    with suppress(psutil.Error):
        # When process 1 inside ends, all others end before bwrap itself.
        for first in outside.children() or [outside]:
            with suppress(psutil.Error):
                first.kill()


def await_end(processes: Iterable[psutil.Process], seconds: float = 5) -> None:
    """Wait until processes have ended; zombies count as ended."""
    until = time.monotonic() + seconds
    for process in processes:
        with suppress(psutil.Error):
            while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                time.sleep(0.005)


class Watch:
    """Ends a sandbox that exceeds its limits; the system's own limits are only per process.

    Attributes:
        first: process 1 inside, with which all others end, once it is known.

    Args:
        process: the process that created the sandbox.
        told: called once, with the exceeded limit.
        own: the host's folder that is writable inside.
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
        self.first: list[psutil.Process] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _look(self) -> None:
        with suppress(psutil.NoSuchProcess):
            outside = psutil.Process(self._process)
            while not self._over.wait(self._every):
                self.first = outside.children() or self.first
                family = outside.children(recursive=True)
                try:
                    said = self._too_much(family)
                except Exception as error:  # such as a folder that can't be read
                    reason = getattr(error, "strerror", None) or error
                    said = f"it could not be watched ({reason})"
                if said:
                    end(outside)
                    self._told(said)
                    return

    def _too_much(self, family: list[psutil.Process]) -> str:
        limits = self._limits
        if len(family) > limits.processes:
            return f"it had more than {limits.processes} processes"
        nameless = {file: size for p in family for file, size in _nameless(p.pid).items()}
        alone, shared = map(sum, zip((0, 0), *(_memory(p.pid) for p in family), strict=True))
        # Shared memory is often a file without a name.
        if alone + max(shared, sum(nameless.values())) > limits.memory:
            return f"it used more than {limits.memory // MIB:,} MiB of memory"
        if not self._own:
            return ""
        device = os.stat(self._own).st_dev
        written = sum(size for (where, _), size in nameless.items() if where == device)
        files, places = 0, [os.fspath(self._own)]
        while places:
            for entry in _entries(places.pop()):
                files += 1
                if files > limits.files:
                    return f"it made more than {limits.files:,} files"
                if entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        written += _on_disk(entry.stat(follow_symlinks=False))
        too_full = written > limits.folder_size
        return f"it wrote more than {limits.folder_size // MIB:,} MiB of files" if too_full else ""


def _memory(process: int) -> tuple[int, int]:
    """Bytes of a process's private memory and of its shared memory."""
    with suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
        held = dict(line.split(":", 1) for line in status.splitlines())
        alone, shared = (held.get(name, "0 kB").split()[0] for name in ("RssAnon", "RssShmem"))
        return int(alone) * 1024, int(shared) * 1024
    return 0, 0


def _nameless(process: int) -> dict[tuple[int, int], int]:
    """The sizes of open files of a process that no other process can see."""
    sizes = {}
    with suppress(OSError):  # only root may be able to inspect bwrap's own processes
        for opened in _entries(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):
                file = opened.stat()
                if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                    sizes[file.st_dev, file.st_ino] = _on_disk(file)
    return sizes


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, ProcessLookupError), os.scandir(folder) as found:
        yield from found


def _on_disk(file: os.stat_result) -> int:
    return file.st_blocks * 512
