"""The first process in a sandbox: loads everything once, and forks once per notebook.

It contains no secret and runs no line of a submission. A fork enters its own namespaces, where it
sees no other process and nobody else's folder; when it ends, everything that it started ends too.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import random
import re
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import calls

NEW = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000 | 0x40000000  # user, mount, pid, ipc, net
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
BIND_WITH_ALL_BELOW = 0x1000 | 0x4000
MOST_PROCESSES, FOLDER = 64, "size=256m,nr_inodes=20k"
SEED = 0  # of a notebook's random numbers without a seed


def serve(control: socket.socket, loaded: Sequence[str] = (), trusted: bool = False) -> None:
    """Forks on request, and ends a fork on request, until the host disconnects; with `trusted`, a
    fork keeps the namespaces and rights of this process."""
    from .shell import make_shell

    libc = ctypes.CDLL(None, use_errno=True)
    if not trusted:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process may inspect this one
    gc.disable()  # the loaded modules stay forever
    shell = make_shell()
    _load(loaded)
    _say(control, b"ready")
    while True:
        word, fds = _asked(control)
        if not word:
            return
        if not fds:  # the fork to be ended had already ended
            continue
        (fd,) = fds
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # the host may inspect a fork
        fork = os.fork()
        if fork == 0:
            control.close()
            host = socket.socket(fileno=fd)
            _as_it_is(host, shell) if trusted else _isolated(libc, host, shell)
        os.close(fd)
        if not trusted:
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        _watch_over(control, fork)


def _load(modules: Sequence[str]) -> None:
    """Loads what a lesson needs, for all forks; on one thread, or a fork would hang."""
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    from whywrong.hosting import libraries

    from . import answers, codes  # noqa: F401

    for name in modules:
        module = importlib.import_module(name)
        libraries.add(os.path.dirname(os.path.abspath(str(module.__file__))))
    weight = torch.ones(2, 2, requires_grad=True)
    weight.sum().backward()
    torch.optim.SGD([weight]).step()  # the first step imports a second's worth of modules
    gc.freeze()  # garbage collection in a fork would copy every page with an object
    gc.enable()


def _asked(control: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    data, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(fds.itemsize))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content)
    return data, list(fds)


def _say(control: socket.socket, word: bytes) -> None:
    control.sendall(word.ljust(8))


def _watch_over(control: socket.socket, fork: int) -> None:
    """Waits until the fork has ended, by itself or by the host ("i": interrupt, "k": kill)."""
    while not os.waitpid(fork, os.WNOHANG)[0]:
        if select.select([control], [], [], 0.005)[0]:
            word = control.recv(1)  # no data: the host is gone
            os.kill(fork, signal.SIGUSR1 if word == b"i" else signal.SIGUSR2)
    _say(control, b"ended")


def _as_it_is(host: socket.socket, shell: Any) -> None:
    """Without a sandbox: only a separate process group isolates a notebook."""
    os.setsid()
    with contextlib.suppress(AttributeError):  # without this call, an endless loop may outlive us
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def end(*_: Any) -> None:
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGUSR1, signal.default_int_handler)
    signal.signal(signal.SIGUSR2, end)
    _begin_anew()
    _run(host, shell)
    end()


def _isolated(libc: ctypes.CDLL, host: socket.socket, shell: Any) -> None:
    """Enters new namespaces and forks again: the notebook is the first process there."""
    code, inner = 1, 0

    def pass_on(number: int, _: Any) -> None:
        if inner:
            os.kill(inner, signal.SIGINT if number == signal.SIGUSR1 else signal.SIGKILL)
        elif number == signal.SIGUSR2:
            os._exit(code)

    signal.signal(signal.SIGUSR1, pass_on)
    signal.signal(signal.SIGUSR2, pass_on)
    try:
        user, group = os.getuid(), os.getgid()
        if libc.unshare(NEW):
            raise OSError(ctypes.get_errno(), "no namespaces can be created")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        inner = os.fork()
        if inner == 0:
            _alone(libc)
            _run(host, shell)
            os._exit(0)
        host.close()
        os.waitpid(inner, 0)
        code = 0
    except OSError as error:
        print(error, file=sys.__stderr__, flush=True)
    finally:
        os._exit(code)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _alone(libc: ctypes.CDLL) -> None:
    """Hides other processes, and gives an empty folder, no rights, and separate limits."""
    # In its own namespaces, a notebook could mount unlimited memory.
    with contextlib.suppress(OSError):  # it is read-only on some systems
        _write("/proc/sys/user/max_user_namespaces", "0")
        if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 14):
            # The least possible. Before, it was the machine's; and RLIMIT_NPROC doesn't bind root.
            _write("/proc/sys/kernel/pid_max", "301")
    for place in ("/tmp", "/dev/shm", os.environ["HOME"]):
        _own_folder(libc, place)
    _mount(libc, "/proc", "size=4k")
    os.chdir(os.environ["HOME"])
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the third version of the call, this process
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capabilities can't be given up")
    os.setsid()
    resource.setrlimit(resource.RLIMIT_NPROC, (MOST_PROCESSES, MOST_PROCESSES))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    _begin_anew()
    calls.refuse()


def _begin_anew() -> None:
    """Resets state inherited from the parent process that must not be shared."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    import numpy
    import torch

    from whywrong.hosting import watch_later_threads

    watch_later_threads()
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)


def _own_folder(libc: ctypes.CDLL, place: str) -> None:
    """Puts an empty folder over a shared one, and back into it what is mounted below: this
    environment, if it was created in a temporary folder."""
    shown = [(path, os.open(path, os.O_PATH)) for path in _mounted_below(place)]
    _mount(libc, place, FOLDER)
    for path, fd in shown:
        os.makedirs(path, exist_ok=True)
        source = f"/proc/self/fd/{fd}".encode()
        if libc.mount(source, os.fsencode(path), None, BIND_WITH_ALL_BELOW, None):
            raise OSError(ctypes.get_errno(), f"{path} can't be shown")
        os.close(fd)


def _mounted_below(place: str) -> list[str]:
    """Returns the folders below a place that are mounted there, without those below such ones."""
    found: list[str] = []
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split()[4] for line in file]  # a blank in it is written as \040
    for point in sorted(re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), p) for p in points):
        path = os.fsdecode(point)
        if path.startswith(f"{place}/") and not any(path.startswith(f"{f}/") for f in found):
            found.append(path)
    return found


def _mount(libc: ctypes.CDLL, place: str, options: str) -> None:
    if libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"{place} can't be hidden")


def _run(host: socket.socket, shell: Any) -> None:
    """Serves the host's requests until there are no more."""
    from whywrong.hosting import Clock, uncompiled

    from . import wire
    from .answers import described, observe
    from .codes import origin, prints

    probing: Any = None
    parts: Any = None
    answer: Any = None
    begun = 0.0
    while True:
        try:
            asked, data = wire.receive(host)
        except (wire.Ended, wire.BadMessage):
            return
        except KeyboardInterrupt:
            continue
        reply = {"token": asked["token"]}
        try:
            if asked["do"] == "run":
                outputs, success = shell.run(asked["source"])
                wire.send(host, reply | {"outputs": outputs, "success": success})
            elif asked["do"] == "file":
                _put(asked["name"], data)
                wire.send(host, reply)
            elif asked["do"] == "look":
                probing, parts = pickle.loads(data)
                answer = shell.user_ns.get(asked["name"])
                there = asked["name"] in shell.user_ns
                with uncompiled(answer, Clock()):  # loads the compiler before its time counts
                    reply |= {"described": described(answer), "there": there}
                wire.send(host, reply | {"codes": prints(answer), "origin": origin(answer)})
            elif asked["do"] == "observe":
                case = pickle.loads(data)
                bound = parts if asked["parts"] else {}
                if asked["first"]:
                    begun = time.process_time()
                left = asked["computing"] - (time.process_time() - begun)
                clock = Clock(left, asked["seconds"])
                seen = observe(probing, answer, case, bound, clock, asked["first"])
                wire.send(host, reply, _packed(seen))
        except (wire.Ended, wire.OutOfTime):
            return
        except BaseException as error:
            wire.send(host, reply | {"error": f"{type(error).__name__}: {error}"[:1000]})


def _put(name: str, data: bytes) -> None:
    """Writes a file of the lesson to where a notebook finds it."""
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)


def _packed(seen: Any) -> bytes:
    from whywrong.hosting import pack

    return pack([seen])


if __name__ == "__main__":
    modules = [word for word in sys.argv[2:] if word != "trusted"]
    serve(socket.socket(fileno=int(sys.argv[1])), modules, "trusted" in sys.argv[2:])
