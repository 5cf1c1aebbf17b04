"""The sandbox around a student's program: bubblewrap, and limits on resources.

Inside, there is no network, no other process, no home folder and no course: only the system's and
this environment's programs and libraries, read-only, and folders in memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

SANDBOX, TRUSTED = "sandbox", "trusted"  # the tiers of protection between a submission and the host
HOME = "/home/student"
TEMPORARY = ("/tmp", "/dev/shm", HOME)  # folders in memory
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
OF_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
CGROUPS = "/sys/fs/cgroup"
MIB = 2**20


class NoSandbox(RuntimeError):
    """Bubblewrap is missing or refused here; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """Resource limits for one submission, in numbers and in bytes."""

    memory: int = 2048 * MIB  # of all its processes; one of them may reserve twice as much
    processes: int = 64
    file_size: int = 64 * MIB  # of one file
    folder_size: int = 256 * MIB  # of each: its home, /tmp and /dev/shm
    open_files: int = 256  # of one process


LIMITS = Limits()


@cache
def why_not() -> str:
    """Why this machine can't provide a sandbox, or an empty string if it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap runs only on Linux, and this is another system"
    if shutil.which("bwrap") is None:
        return "the program bwrap is not installed (on Debian: apt install bubblewrap)"
    how: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60}
    tried = subprocess.run(command(["true"]), **how)
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"the system does not let bwrap create a sandbox ({said})"
    return ""


def demand() -> None:
    """Raises `NoSandbox`, which names the choices, if this machine can't provide a sandbox."""
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
    environment: Mapping[str, str] | None = None,
    limits: Limits = LIMITS,
) -> list[str]:
    """Returns the command line that runs a program in the sandbox.

    Args:
        argv: the program and its arguments, as seen inside.
        shown: readable folders and files of the host, by their path inside.
        environment: all environment variables besides HOME, PATH and LANG.
    """
    # For each process; `watch.py` limits all of them together. Not of address space, of which the
    # GPU libraries reserve more than they use.
    bounds = ["--core=0", f"--data={2 * limits.memory}", f"--fsize={limits.file_size}"]
    bounds.append(f"--nofile={limits.open_files}")
    programs = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    variables = {"HOME": HOME, "PATH": programs, "LANG": "C.UTF-8", "USER": "student"}
    variables |= environment or {}
    groups = (
        # bwrap's own environment can be read inside, as the environment of process 1.
        () if no_cgroup() else _scope(limits),
        ("env", "-i", _program("prlimit"), *bounds, "--", _program("bwrap")),
        ("--unshare-all", "--unshare-user"),
        NOBODY,
        _files(shown or {}, limits),
        ("--chdir", HOME, "--clearenv"),
        *(("--setenv", name, value) for name, value in variables.items()),
        ("--", *argv),
    )
    return [word for group in groups for word in group]


# An ordinary user: root could not be given up in nested namespaces.
NOBODY = (
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "student"),
)


def _files(shown: Mapping[str | Path, str | Path], limits: Limits) -> Iterator[str]:
    """Returns the options for the readable files inside, and for the folders in memory."""
    for place in (f"/{name}" for name in SYSTEM):
        if os.path.islink(place):
            yield from ("--symlink", os.readlink(place), place)
        elif os.path.isdir(place):
            yield from ("--ro-bind", place, place)
    # Shared memory could be mapped from /dev/zero.
    yield from ("--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero")
    for place in TEMPORARY:
        yield from ("--size", str(limits.folder_size), "--tmpfs", place)
    # After those, because an environment may be below one of them.
    for path in (*(f"/etc/{name}" for name in OF_ETC), sys.base_prefix, sys.prefix):
        yield from ("--ro-bind-try", path, path)
    yield from _without_the_course()
    for inside, here in shown.items():
        yield from ("--ro-bind", str(here), str(inside))
    # These folders are in memory, and the last two have no size limit. Each notebook's process
    # hides /proc, in whose /proc/sys root's programs may change the machine's settings even here.
    for place in ("/tmp", "/dev", "/"):
        yield from ("--remount-ro", place)


def _scope(limits: Limits) -> tuple[str, ...]:
    """Puts a program into its own cgroup, which systemd removes afterwards."""
    whose = () if os.geteuid() == 0 else ("--user",)
    words = (_program("systemd-run"), *whose, "--scope", "--quiet", "--collect")
    # Higher than the limit that `watch.py` enforces, which says why it ends a program.
    most = f"MemoryMax={3 * limits.memory // 2}", f"TasksMax={8 * limits.processes}"
    return (
        *words,
        *(f"--property={one}" for one in ("MemorySwapMax=0", "CPUWeight=50", *most)),
        "--",
    )


@cache
def no_cgroup() -> str:
    """Why a sandbox gets no cgroup of its own here, or an empty string if it does."""
    if shutil.which("systemd-run") is None:
        return "the program systemd-run is not installed"
    reads, writes = os.pipe()
    own = f"{CGROUPS}$(sed -n s/^0:://p /proc/self/cgroup)"
    program = f'cat "{own}/memory.max" "{own}/pids.max" >&{writes}'
    asked = [*_scope(Limits(MIB)), "sh", "-c", program]
    how: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 20}
    try:
        done = subprocess.run(asked, pass_fds=(writes,), **how)
        said = (done.stderr.strip().splitlines() or ["it does not limit memory"])[-1]
    except subprocess.TimeoutExpired:
        said = "it does not answer"
    os.close(writes)
    with open(reads) as answer:
        limited = answer.read().split() == [str(3 * MIB // 2), str(8 * Limits.processes)]
    return "" if limited else f"systemd-run can't make a cgroup for a sandbox ({said})"


def _program(name: str) -> str:
    return shutil.which(name) or name


def _without_the_course() -> list[str]:
    """Hides the course and this package if they are installed among other packages."""
    from whywrong.hosting import installed, package_folder  # PyTorch is in the same folder

    course = installed()
    folders = [Path(__file__).resolve().parent]
    if course is not None:
        folders += [package_folder(course.package), course.exercises.resolve()]
    shown = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix, "/usr")]
    covered = [f for f in folders if any(f.is_relative_to(place) for place in shown)]
    return [word for folder in covered for word in ("--tmpfs", str(folder))]


def launch(argv: Sequence[str], **how: Any) -> subprocess.Popen:
    """Starts a program, `how` as with `Popen`, from a thread that lives as long as the program: a
    sandbox dies with its parent, which for Linux is the thread that started it."""
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
    """Ends what is inside the sandbox that a process created; it may already have ended."""
    with suppress(psutil.Error):
        # When process 1 inside ends, all others end before bwrap itself.
        for first in outside.children() or [outside]:
            with suppress(psutil.Error):
                first.kill()


def await_end(processes: Iterable[psutil.Process]) -> None:
    """Wait at most five seconds until processes have ended; zombies count as ended."""
    until = time.monotonic() + 5
    for process in processes:
        with suppress(psutil.Error):
            while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                time.sleep(0.005)
