"""Fork servers: sandboxes that load everything once and then serve one notebook after another."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from whywrong.hosting import installed, package_folder

from . import sandbox
from .inside import wire
from .sandbox import LIMITS
from .watch import Watch

HERE = Path(__file__).resolve().parent
INSIDE = "/.course"  # nobody keeps an environment below it
START_SECONDS = 600.0  # even on a machine that is very busy
BACKSTOP = 10  # times the limit: the wall-clock time after which a reply is late
ENVIRONMENT = {"PYTHONPATH": INSIDE, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
ENVIRONMENT |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ENVIRONMENT |= {"COURSE_GRADED": "1", "TORCH_COMPILE_DISABLE": "1"}  # the limits are too low for it


class NoForkServer(RuntimeError):
    """The sandbox exists, but its program did not start; the message contains its output."""


def make_package(folder: Path) -> Path:
    """Copies into `folder` the packages that a submission may see: those that lessons import and
    that run an answer; no exercise, misconception or expectation."""
    course = installed()
    if course is not None:
        package = package_folder(course.package)
        made = folder / course.package
        shutil.copytree(package, made, ignore=_without(package, *course.kept_out))
        shutil.copy(HERE / "inside" / "desk.py", made / course.kept_out[0])
    shutil.copytree(HERE.parent / "whywrong", folder / "whywrong", ignore=_without(HERE))
    shutil.copytree(HERE / "inside", folder / HERE.name / "inside", ignore=_without(HERE))
    shutil.copy(HERE / "__init__.py", folder / HERE.name)
    return folder


def _without(folder: Path, *names: str) -> Callable[[str, list[str]], set[str]]:
    """Returns a filter for copying that skips caches, and these paths below `folder`."""

    def left_out(at: str, there: list[str]) -> set[str]:
        place = Path(at).resolve()
        kept_out = {folder / name for name in names}
        return {n for n in there if place / n in kept_out or n == "__pycache__"}

    return left_out


def remove_left() -> None:
    """Removes the folders of servers whose process was killed."""
    for left in Path(tempfile.gettempdir()).glob("course-server-*"):
        with contextlib.suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


class ForkServer(contextlib.AbstractContextManager):
    """A sandboxed process in which PyTorch, matplotlib and the course are loaded; if the instructor
    trusts submissions, a child process with the same rights."""

    def __init__(self, trusted: bool = False) -> None:
        self.trusted = trusted
        self.tier = sandbox.TRUSTED if trusted else sandbox.SANDBOX
        if not trusted:
            sandbox.demand()
        remove_left()
        made = Path(tempfile.mkdtemp(prefix="course-making-"))  # shows that it is in use
        self._lock = os.open(made, os.O_RDONLY)  # locked while this process exists
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._before = 0.0  # seconds used in earlier processes
        self._folder = made.rename(made.with_name(made.name.replace("making", "server")))
        make_package(self._folder)
        self._begin()

    def _begin(self) -> None:
        self.too_much = ""
        self._control, theirs = socket.socketpair()
        course = installed()
        loaded = [f"{course.package}.{name}" for name in course.loaded] if course else []
        argv = [sys.executable, "-m", f"{HERE.name}.inside.server", str(theirs.fileno()), *loaded]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": self._said}
        if self.trusted:
            argv.append("trusted")
            environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(self._folder)}
            how |= {"env": environment, "cwd": self._folder}
        else:
            inside: Any = {"shown": {INSIDE: self._folder}, "environment": ENVIRONMENT}
            argv = sandbox.command(argv, **inside)
        self._process = sandbox.launch(argv, pass_fds=(theirs.fileno(),), **how)
        theirs.close()
        self._watch = Watch(self._process.pid, self._note, LIMITS, bare=self.trusted)
        if not self._hears(b"ready", START_SECONDS):
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()
            self.close()
            raise NoForkServer(said[-2000:] or "it gave no reason")

    def _note(self, said: str) -> None:
        self.too_much = said

    def _hears(self, word: bytes, seconds: float) -> bool:
        self._control.settimeout(seconds)
        try:
            return self._control.recv(8).strip() == word
        except OSError:
            return False

    @contextlib.contextmanager
    def fork(self) -> Iterator[Fork]:
        """A separate process for one notebook; it and its children end with the context."""
        if self._process.poll() is not None:
            self._end()
            self._begin()
        mine, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
            theirs.close()
            yield Fork(self, mine)
        finally:
            mine.close()
            self.say(b"k")
            if not self._hears(b"ended", 10):  # it may already have ended
                self._end()
                self._begin()

    @property
    def used(self) -> float:
        return self._before + self._watch.used

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Counts the time for which the process sleeps while somebody waits for its reply."""
        watch = self._watch
        watch.asked = True
        try:
            yield
        finally:
            watch.asked = False

    def say(self, word: bytes) -> None:
        """Interrupts the running code like Ctrl-C ("i"), or kills it ("k")."""
        with contextlib.suppress(OSError):
            self._control.settimeout(10)
            self._control.sendall(word)

    def _end(self) -> None:
        self._watch.stop()
        self._before += self._watch.used
        self._control.close()
        with contextlib.suppress(psutil.Error):
            sandbox.end(psutil.Process(self._process.pid))
        self._process.kill()
        self._process.wait()
        sandbox.await_end(self._watch.first)
        self._said.close()

    def close(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def __exit__(self, *_: Any) -> None:
        self.close()


class Fork:
    """The process of one notebook."""

    def __init__(self, server: ForkServer, to: socket.socket) -> None:
        self._server, self._to = server, to
        self._token = ""  # of the last request; its reply repeats it
        self.codes: dict[str, int] = {}  # of the last answer, as `inside.codes.prints` gives them
        self.origin = ""  # of the last answer, if no cell has written it
        self.starved = False  # only the wall clock ended a check

    def ask(self, words: dict[str, Any], data: bytes, seconds: float) -> tuple[dict, bytes]:
        """Returns the reply to a request, as untrusted data.

        Args:
            seconds: how long the process may compute or sleep; waiting for a processor is free.

        Raises:
            wire.Ended, wire.OutOfTime, wire.BadMessage: the reply is missing, late or invalid.
        """
        self._token = secrets.token_hex(8)
        left = self._left(seconds)
        with self._server.asked():
            wire.send(self._to, words | {"token": self._token}, data, left)
            return self._answer(left)

    def _left(self, seconds: float) -> wire.Left:
        begun, wall = self.used, wire.within(BACKSTOP * seconds)

        def left() -> float:
            rest = seconds - (self.used - begun)
            if wall() <= 0 < rest:
                raise wire.Starved
            return rest

        return left

    @property
    def used(self) -> float:
        """Returns the seconds that the processes of this server have used so far."""
        return self._server.used

    def _answer(self, left: wire.Left) -> tuple[dict, bytes]:
        """The reply to the last request; earlier messages are ignored."""
        while True:
            said, data = wire.receive(self._to, left)
            if said.get("token") == self._token:
                return said, data

    def interrupt(self, seconds: float) -> tuple[dict, bytes]:
        """The reply after an interrupt; raises the same errors as `ask`."""
        self._server.say(b"i")
        with self._server.asked():
            return self._answer(self._left(seconds))
