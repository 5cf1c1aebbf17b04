"""`course`, typed many times: all it imports is loaded once, and each command is a fork of that.

    python -m tests.warm

reads from stdin, a line each, what to do as JSON, and answers so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Command:
    """A command that was started; as much of `subprocess.Popen` as its users need."""

    def __init__(self, warm: Warm, pid: int, said: Path) -> None:
        self._warm, self.pid, self._said = warm, pid, said
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(wait=False)

    def communicate(self) -> tuple[str, None]:
        """What it said, when it has ended."""
        self._ended(wait=True)
        return self._said.read_text(), None

    def _ended(self, wait: bool) -> int | None:
        if self.returncode is None:
            self.returncode = self._warm.ask(do="wait", pid=self.pid, wait=wait)
        return self.returncode


class Warm:
    """A process from which commands are forked, each a session of its own.

    Attributes:
        place: a folder for what they leave, with a short name.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = place
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, argv: list[str], cwd: Path, environment: dict[str, str]) -> Command:
        handle, said = tempfile.mkstemp(dir=cwd, prefix=".said-")
        os.close(handle)
        how = {"argv": argv, "cwd": str(cwd), "environment": environment, "said": said}
        return Command(self, self.ask(do="start", **how), Path(said))

    def ask(self, **what: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(what), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()


def serve() -> None:
    """Until there are no more lines; returns in a fork too, when its command is done."""
    import distributed  # noqa: F401

    from course_utils.__main__ import main
    from course_utils.grading import command, explain  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "start":
            pid = os.fork()
            if not pid:
                _become(asked)
                sys.exit(main(asked["argv"]))
            answer: int | None = pid
        else:
            ended, status = os.waitpid(asked["pid"], 0 if asked["wait"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        print(json.dumps(answer), flush=True)


def _become(asked: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None  # the environment says which
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(asked["said"], os.O_WRONLY)
    for fd, new in enumerate((nothing, said, said)):
        os.dup2(new, fd)


if __name__ == "__main__":
    serve()
