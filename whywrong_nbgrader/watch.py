"""Ends a sandbox that exceeds its limits; the system's own limits are only per process."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .inside import calls
from .sandbox import CGROUPS, MIB, TEMPORARY, Limits, end

TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
EVERY = 0.1  # seconds between two measurements
MOST_READY = 8  # threads that may compute at the same priority as those of other sandboxes
BLOCK = 512  # bytes in which a file's size on disk is counted
BUFFER = 256 * 1024  # bytes that a socket or a pipe may hold, if its size can't be changed
SHARED = re.compile(rb"^(\w+)-(\w+) ...s \w+ (\S+ \d+) +/(?:dev/zero|memfd:|SYSV)", re.M)


@dataclass
class Watch:
    """Checks ten times per second what a sandbox holds and how long it runs, until it ends."""

    process: int  # which created the sandbox
    told: Callable[[str], None]  # is called once, with the exceeded limit
    limits: Limits
    bare: bool = False  # the process forks notebooks itself, without a sandbox
    # Process 1 inside, with which all others end, once it is known.
    first: list[psutil.Process] = field(default_factory=list, init=False)
    # The seconds of processor time of its notebooks, and those that a notebook slept while asked.
    # Waiting for a processor that others use is not counted.
    used: float = field(default=0.0, init=False)
    asked: bool = field(default=False, init=False)  # whether somebody waits for its reply

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._computed: dict[int, float] = {}  # seconds by process
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _look(self) -> None:
        with suppress(psutil.NoSuchProcess):
            outside = psutil.Process(self.process)
            while not self._over.wait(EVERY):
                self.first = outside.children() or self.first
                family = outside.children(recursive=True)
                try:
                    self._count_time(family)
                    said = self._too_much(family)
                except Exception as error:  # such as a folder that can't be read
                    reason = getattr(error, "strerror", None) or error
                    said = f"it could not be watched ({reason})"
                if said:
                    self.told(said)
                    end(outside)
                    return

    def _count_time(self, family: list[psutil.Process]) -> None:
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        ours = set() if self.bare else {self.process, *(p.pid for p in self.first)}
        seconds, ready = 0.0, []
        for pid in [p.pid for p in family if p.pid not in ours]:
            computed, parent, waiting = _time_of(pid)
            if parent not in ours:  # a child of the server; its number may be reused
                before = self._computed.get(pid, 0.0)
                seconds += computed - before if computed >= before else computed
                self._computed[pid] = computed
                ready += waiting
        if len(ready) > MOST_READY:
            _yield_to_others(ready)
        # If more time has passed than usual, this process itself had no processor.
        slept = min(passed, 2 * EVERY) if self.asked and not ready else 0.0
        self.used += max(seconds, slept)

    def _too_much(self, family: list[psutil.Process]) -> str:
        limits = self.limits
        if len(family) > limits.processes:
            return f"it had more than {limits.processes} processes"
        held: Held = {}
        spaces: set[str] = set()
        used = _in_cgroup(self.process)
        if used is None:
            for process in family:
                held |= self._held(process, spaces)
            alone, shared = map(sum, zip((0, 0), *(_memory(p.pid) for p in family), strict=True))
            used = alone + max(shared, sum(held.values()))
        if used > limits.memory:
            return f"it used more than {limits.memory // MIB:,} MiB of memory"
        return ""

    def _held(self, process: psutil.Process, spaces: set[str]) -> Held:
        """What a process holds; the folders of these mount namespaces are counted already."""
        # Only root may inspect our own processes inside, which run no line of a submission; one
        # that a submission makes unreadable raises PermissionError.
        try:
            with suppress(FileNotFoundError, ProcessLookupError):
                held: Held = dict(_held_by(process.pid))
                if (seen := os.readlink(f"/proc/{process.pid}/ns/mnt")) not in spaces:
                    spaces.add(seen)
                    held |= _on_disks(process.pid)
                return held
        except PermissionError:
            with suppress(psutil.NoSuchProcess):
                server = process.ppid() in {p.pid for p in self.first}
                if not server and process not in self.first:
                    raise
        return {}


def _time_of(process: int) -> tuple[float, int, list[int]]:
    """Returns a process's seconds of processor time, its parent, and its threads that are ready."""
    seconds, parent, ready = 0.0, 0, []
    with suppress(OSError):
        told = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        seconds, parent = (int(told[11]) + int(told[12])) / TICK, int(told[1])
        for thread in os.listdir(f"/proc/{process}/task"):
            about = Path(f"/proc/{process}/task/{thread}/stat").read_text(errors="replace")
            if about.rpartition(")")[2].split()[0] == "R":
                ready.append(int(thread))
    return seconds, parent, ready


def _yield_to_others(threads: list[int]) -> None:
    """Gives many threads together less processor time than one thread of another sandbox."""
    for thread in threads:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, 19)
        with suppress(OSError):  # a process with its own session counts as one program
            Path(f"/proc/{thread}/autogroup").write_text("19")


Held = dict[tuple[object, object], int]  # bytes by device and inode, because processes share them


def _in_cgroup(process: int) -> int | None:
    """Bytes in the cgroup of a process, without cached files; None if it has none of its own."""
    with suppress(OSError, ValueError, KeyError):
        mine, its = (Path(f"/proc/{who}/cgroup").read_text() for who in ("self", process))
        place = Path(CGROUPS + its.rpartition("0::")[2].strip())
        if mine != its:
            used = int((place / "memory.current").read_text())
            told = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
            return used - int(told["active_file"]) - int(told["inactive_file"])
    return None


def _memory(process: int) -> tuple[int, int]:
    """Bytes of a process's private memory, with its page tables, and of its shared memory."""
    with suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
        held = dict(line.split(":", 1) for line in status.splitlines())
        alone, tables, shared = (
            1024 * int(held.get(n, "0 kB").split()[0]) for n in ("RssAnon", "VmPTE", "RssShmem")
        )
        return alone + tables, shared
    return 0, 0


def _held_by(process: int) -> Iterator[tuple[tuple[object, object], int]]:
    """Memory that need not be among a process's pages: nameless files, sockets, pipes, shared."""
    gone = FileNotFoundError, ProcessLookupError
    with suppress(*gone), os.scandir(f"/proc/{process}/fd") as opened:
        for entry in opened:
            with suppress(FileNotFoundError):
                file = entry.stat()
                if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                    yield (file.st_dev, file.st_ino), file.st_blocks * BLOCK
                elif stat.S_ISSOCK(file.st_mode) or stat.S_ISFIFO(file.st_mode):
                    yield (file.st_dev, file.st_ino), BUFFER
    if calls.why_not():  # with the filter there are no others
        sizes = Counter[bytes]()
        for first, after, file in SHARED.findall(Path(f"/proc/{process}/maps").read_bytes()):
            sizes[file] += int(after, 16) - int(first, 16)
        yield from ((("mapped", file), size) for file, size in sizes.items())


def _on_disks(process: int) -> Iterator[tuple[tuple[object, object], int]]:
    """Bytes in the temporary folders that a process sees."""
    root = f"/proc/{process}/root"
    if os.stat(root).st_dev == os.stat("/").st_dev:  # bwrap is not ready
        return
    for place in TEMPORARY:
        with suppress(FileNotFoundError):
            disk, device = os.statvfs(root + place), os.stat(root + place).st_dev
            yield (device, "all"), (disk.f_blocks - disk.f_bfree) * disk.f_frsize
