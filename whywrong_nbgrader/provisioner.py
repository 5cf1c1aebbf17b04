"""A kernel in a sandbox, for any program that asks for it by name: nbclient, nbgrader, nbval.

The kernelspec `course-sandbox` names this module's provisioner. The sandbox has no network, so the
kernel communicates through sockets in its own folder. To install the kernelspec:

    jupyter kernelspec install --sys-prefix whywrong_nbgrader/jupyter/kernels/course-sandbox
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import weakref
from contextlib import ExitStack, suppress
from logging import Logger
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.provisioning import LocalProvisioner
from traitlets import Integer

from . import sandbox
from .room import HERE, INSIDE, make_package
from .sandbox import LIMITS, MIB, Limits
from .watch import Watch

KERNEL = "course-sandbox"
JUPYTER = Path(__file__).parent / "jupyter"  # as JUPYTER_PATH, needs no installation
FOLDERS = "/tmp"  # not TMPDIR: a socket's address has at most 107 bytes
LAST_WORDS = 1000


class SandboxProvisioner(LocalProvisioner):
    """Launches a kernel in a sandbox, and ends it if it exceeds its limits."""

    memory = Integer(LIMITS.memory // MIB, help="MiB of its processes together.").tag(config=True)
    processes = Integer(LIMITS.processes, help="Maximum number of processes.").tag(config=True)
    folder_size = Integer(LIMITS.folder_size // MIB, help="MiB of one folder.").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._folder = ""
        self._run: _Run | None = None
        self._leaving = ExitStack()
        # Also cleans up after a kernel that nobody shuts down.
        weakref.finalize(self, self._leaving.close)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        sandbox.demand()
        self._leaving.close()
        try:
            folder = self._make_folder()
            own, shown = folder / "own", folder / "shown"
            own.mkdir()
            make_package(shown)
            manager: Any = self.parent
            manager.transport, manager.ip, manager.cache_ports = "ipc", str(own / "socket"), False
            manager.connection_file = str(own / "connection.json")
            manager._connection_file_written = False
            launch = await super().pre_launch(**kwargs)
        except BaseException:
            self._leaving.close()
            raise
        environment = {name: launch["env"][name] for name in self.kernel_spec.env}
        launch["cmd"] = sandbox.command(
            [sys.executable, "-m", f"{HERE.name}.inside.calls", *launch["cmd"]],
            shown={INSIDE: shown},
            own=own,
            # No parent to watch: the kernel can't outlive process 1 of the sandbox.
            environment={"PYTHONPATH": INSIDE, "JPY_PARENT_PID": "1", **environment},
            limits=self._limits(),
        )
        return launch

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        try:
            run = _Run(cmd, Path(self._folder), self._limits(), self.log)
        except BaseException:
            self._leaving.close()
            raise
        self._leaving.callback(run.end)
        self._run, self.process = run, run.process
        self.pid = self.pgid = run.process.pid
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Signals that end a kernel end the sandbox; others are passed to the kernel."""
        if signum in (signal.SIGKILL, signal.SIGTERM):
            self._leaving.close()
        elif self._run:
            with suppress(psutil.Error, ValueError):
                (first,) = self._run.outside.children()
                min(first.children(), key=psutil.Process.create_time).send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        self._leaving.close()

    terminate = kill

    async def cleanup(self, restart: bool = False) -> None:
        self._leaving.close()
        await super().cleanup(restart)

    def _make_folder(self) -> Path:
        if self._folder:  # a restarted kernel uses the same sockets, where its clients wait
            os.mkdir(self._folder, 0o700)
        else:
            self._folder = tempfile.mkdtemp(prefix="course-kernel-", dir=FOLDERS)
        self._leaving.callback(_remove, self._folder)
        return Path(self._folder)

    def _limits(self) -> Limits:
        sizes = {"memory": self.memory * MIB, "folder_size": self.folder_size * MIB}
        return Limits(processes=self.processes, **sizes)


class _Run:
    """One kernel in its sandbox, from start to end."""

    def __init__(self, cmd: list[str], folder: Path, limits: Limits, log: Logger) -> None:
        self.too_much, self._log, self._said = "", log, folder / "said"
        with self._said.open("wb") as out:
            self.process = sandbox.launch(cmd, stdout=out, stderr=out, start_new_session=True)
        self.outside = psutil.Process(self.process.pid)
        self._watch = Watch(self.process.pid, self._tell, limits, own=folder / "own")

    def end(self) -> None:
        self._watch.stop()
        if self.process.poll() is None:
            sandbox.end(self.outside)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        elif self.process.returncode and not self.too_much:
            words = ""
            with suppress(OSError):
                words = self._said.read_text(errors="replace")[-LAST_WORDS:]
            self._log.error("The kernel died (%s) and said: %a", self.process.returncode, words)
        sandbox.await_end(self._watch.first)

    def _tell(self, too_much: str) -> None:
        self.too_much = too_much
        self._log.error("The kernel was ended: %s.", too_much)


def _remove(folder: str) -> None:
    # shutil.rmtree fails on unreadable and very deep folders.
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        subprocess.run([*command, "--", folder], capture_output=True)
