"""Commands of `course` and nbgrader: a process imports their modules once, and forks for each.

    python -m tests.warm

reads requests from stdin, one line of JSON each, and answers in the same form.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Command:
    """A command that was started, with what its users need of `subprocess.Popen`."""

    def __init__(self, warm: Warm, pid: int, said: Path) -> None:
        self._warm, self.pid, self._said = warm, pid, said
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(wait=False)

    def communicate(self) -> tuple[str, None]:
        """Its output, after it has ended."""
        self._ended(wait=True)
        return self._said.read_text(), None

    def _ended(self, wait: bool) -> int | None:
        if self.returncode is None:
            self.returncode = self._warm.ask(do="wait", pid=self.pid, wait=wait)
        return self.returncode


class Warm:
    """A process from which commands are forked, each a session of its own.

    Args:
        place: a folder for what commands leave, with a short name.
        root: the folder of the course whose modules commands use.
    """

    def __init__(self, place: str | Path, root: Path = ROOT) -> None:
        self.place, self.root = place, root
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, typed: list[str], cwd: Path, environment: dict[str, str]) -> Command:
        """Starts `course …`, `nbgrader …` or `python -m …`, as if it were typed in a folder."""
        handle, said = tempfile.mkstemp(dir=self.place, prefix="said-")
        os.close(handle)
        how = {"typed": typed, "cwd": str(cwd), "environment": environment, "said": said}
        return Command(self, self.ask(do="start", **how), Path(said))

    def type(self, line: str, cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
        """The exit status of a command and what it wrote."""
        done = self.start(shlex.split(line), cwd, environment)
        said, _ = done.communicate()
        assert done.returncode is not None
        return done.returncode, said

    def ask(self, **what: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(what), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()


def serve() -> None:
    """Answers until stdin ends; in a fork it exits when the command has ended."""
    # What commands import: they find it loaded.
    from nbgrader.apps import nbgraderapp  # noqa: F401

    from course_utils import __main__  # noqa: F401
    from whywrong_nbgrader import command, explain  # noqa: F401

    gc.collect()
    gc.freeze()  # else a collection in a fork would copy all that is loaded
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "start":
            pid = os.fork()
            if not pid:
                _become(asked)
                sys.exit(_run(asked["typed"]))
            answer: int | None = pid
        else:
            ended, status = os.waitpid(asked["pid"], 0 if asked["wait"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        print(json.dumps(answer), flush=True)


def _run(typed: list[str]) -> int | None:
    if typed[0] == "course":
        from course_utils.__main__ import main

        return main(typed[1:])
    if typed[0] == "nbgrader":
        from nbgrader.apps.nbgraderapp import main as nbgrader

        sys.argv = typed
        return nbgrader()
    assert typed[:2] == ["python", "-m"], typed
    sys.argv = typed[2:]
    runpy.run_module(typed[2], run_name="__main__", alter_sys=True)
    return None


def _become(asked: dict[str, Any]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run with nohup
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None  # the environment says which
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(asked["said"], os.O_WRONLY)
    for fd, new in enumerate((nothing, said, said)):
        os.dup2(new, fd)


if __name__ == "__main__":
    serve()
