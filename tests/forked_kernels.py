"""Kernels for nbval, forked from a process that has imported what all lessons import.

Importing it takes longer than most lessons; `--everything` starts each kernel anew.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import Any

from jupyter_client.provisioning import local_provisioner

LOADED = ["ipykernel.kernelapp", "ipywidgets", "matplotlib.pyplot", "torch", "torch._dynamo"]
SERVER = multiprocessing.get_context("forkserver")


class Kernel:
    """What jupyter_client needs of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], env: dict[str, str], cwd: str | None = None, **_: Any):
        self._process = SERVER.Process(
            target=become, args=(command[command.index("-f") :], env, cwd), daemon=True
        )
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid
        while os.getpgid(self.pid) != self.pid:  # signals are sent to its group
            time.sleep(0.001)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def become(arguments: list[str], env: dict[str, str], cwd: str | None) -> None:
    """Be a kernel, in a fork, as `python -m ipykernel_launcher` would."""
    os.environ.clear()
    os.environ.update(env, JPY_PARENT_PID=str(os.getppid()))
    os.chdir(cwd or os.curdir)
    os.setsid()
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(arguments)


def use() -> None:
    SERVER.set_forkserver_preload(LOADED)
    local_provisioner.launch_kernel = Kernel
