"""A process that reads what students made, so that no other process has to parse it.

It has limits of memory and, for each request, of processor time. When one is exceeded, it ends, and
the request has no result. `python -m whywrong_nbgrader.helper` answers requests on its socket.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from typing import Any

from .inside import wire

MEMORY, SECONDS, PATIENCE = 2**30, 4.0, 60.0  # bytes; processor time; wall-clock time
MOST_ANSWER = 64 * 2**20  # bytes
# Each request names a function that takes and returns plain data.
TASKS = {
    "notebook": "submissions.notebook",
    "members": "reading.members",
    "outputs": "outputs.clean_outputs",
    "markdown": "pages.markdown",
    "highlight": "pages.highlight",
    "prints": "alike.prepared",
    "names": "needed.names",
}


class TooMuch(Exception):
    """A request took too much time or memory."""


class Helper:
    """The process, started on the first request and again after each `TooMuch`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._owner = 0
        self.spent = 0.0  # seconds of processor time, for all requests

    def ask(self, task: str, *arguments: Any, seconds: float = SECONDS) -> Any:
        """Returns the result of a task, or raises `TooMuch` if it has none."""
        if seconds <= 0:
            raise TooMuch("all of its time is spent")
        if self._owner != os.getpid() or self._process is None:
            self._begin()
        try:
            left = wire.within(PATIENCE)
            wire.send(
                self._to, {"task": task, "arguments": arguments, "seconds": seconds}, left=left
            )
            said, _ = wire.receive(self._to, left, words=MOST_ANSWER)
        except (wire.Ended, wire.OutOfTime, wire.BadMessage):
            self.close()
            self.spent += seconds
            raise TooMuch("it takes too much time or memory") from None
        self.spent += said["spent"]
        if "error" in said:
            raise TooMuch(str(said["error"]))
        return said["result"]

    def _begin(self) -> None:
        self._to, theirs = socket.socketpair()
        program = [sys.executable, "-P", "-m", __spec__.name, str(theirs.fileno())]
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        quiet |= {"stderr": subprocess.DEVNULL, "pass_fds": (theirs.fileno(),)}
        path = os.pathsep.join(p for p in sys.path if p)  # this process may have its own path
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(program, env=environment, **quiet)
        self._owner = os.getpid()
        theirs.close()

    def close(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._to.close()
            self._process.kill()
            self._process.wait()
        self._process = None


@cache
def helper() -> Helper:
    """Returns this process's helper."""
    made = Helper()
    atexit.register(made.close)
    return made


def serve(host: socket.socket) -> None:
    with contextlib.suppress(ValueError, OSError):  # macOS refuses limits below what is reserved
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    package = __spec__.parent
    gc.disable()  # a request's objects end with it
    while True:
        try:
            asked, _ = wire.receive(host, words=MOST_ANSWER)
        except wire.Ended:
            return
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])  # its signal ends this process
        try:
            module, name = TASKS[asked["task"]].split(".")
            task = getattr(importlib.import_module(f"{package}.{module}"), name)
            reply: dict[str, Any] = {"result": task(*asked["arguments"])}
        except Exception as error:
            reply = {"error": f"it can't be read ({type(error).__name__})"}
        wire.send(host, reply | {"spent": time.process_time() - begun})
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.collect(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
