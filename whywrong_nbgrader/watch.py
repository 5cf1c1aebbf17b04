"""Ends a sandbox that exceeds its limits; the system's own limits are only per process."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from .inside import calls
from .sandbox import CGROUPS, LIMITS, MIB, TEMPORARY, Limits, end

BUFFER = 256 * 1024  # bytes that a socket or a pipe may hold, if its size can't be changed
SHARED = re.compile(rb"^(\w+)-(\w+) ...s \w+ (\S+ \d+) +/(?:dev/zero|memfd:|SYSV)", re.M)


class Watch:
    """Looks at a sandbox ten times per second until it ends.

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
                    self._told(said)
                    end(outside)
                    return

    def _too_much(self, family: list[psutil.Process]) -> str:
        limits = self._limits
        if len(family) > limits.processes:
            return f"it had more than {limits.processes} processes"
        held: Held = {}
        spaces: set[str] = set()
        used = _in_cgroup(self._process)
        if self._own or used is None:
            for process in family:
                held |= self._held(process, spaces)
        if used is None:
            alone, shared = map(sum, zip((0, 0), *(_memory(p.pid) for p in family), strict=True))
            used = alone + max(shared, sum(held.values()))
        if used > limits.memory:
            return f"it used more than {limits.memory // MIB:,} MiB of memory"
        if not self._own:
            return ""
        device = os.stat(self._own).st_dev
        written = sum(size for (where, _), size in held.items() if where == device)
        for files, path in enumerate(_below(self._own), 1):
            if files > limits.files:
                return f"it made more than {limits.files:,} files"
            with suppress(FileNotFoundError):
                file = os.lstat(path)
                written += 0 if stat.S_ISDIR(file.st_mode) else _on_disk(file)
        too_full = written > limits.folder_size
        return f"it wrote more than {limits.folder_size // MIB:,} MiB of files" if too_full else ""

    def _held(self, process: psutil.Process, spaces: set[str]) -> Held:
        """What a process holds. Only root may inspect our own processes inside, which run no line
        of a submission; one that a submission makes unreadable raises PermissionError.

        Args:
            spaces: mount namespaces whose folders are counted already.
        """
        try:
            with suppress(FileNotFoundError, ProcessLookupError):
                held: Held = dict(_held_by(process.pid))
                if (seen := os.readlink(f"/proc/{process.pid}/ns/mnt")) not in spaces:
                    spaces.add(seen)
                    held |= _on_disks(process.pid)
                return held
        except PermissionError:
            with suppress(psutil.NoSuchProcess):
                server = not self._own and process.ppid() in {p.pid for p in self.first}
                if not server and process not in self.first:
                    raise
        return {}


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
    """Memory that need not be among a process's pages: nameless files, sockets, pipes, and shared
    memory."""
    for opened in _entries(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):
            file = opened.stat()
            if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                yield (file.st_dev, file.st_ino), _on_disk(file)
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


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, ProcessLookupError), os.scandir(folder) as found:
        yield from found


def _below(folder: str | Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for at, folders, files in os.walk(folder, onerror=fail):
        yield from (os.path.join(at, name) for name in (*folders, *files))


def _on_disk(file: os.stat_result) -> int:
    return file.st_blocks * 512
