"""A filter that refuses system calls that no lesson needs; no process can leave it.

    python -m whywrong_nbgrader.inside.calls PROGRAM ARGUMENTS…

runs a program under the filter. refused.json has each call's numbers on x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as Linux marks their calls
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50001, 0x50026
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
ALL = 0xFFFFFFFF
# Refused only with some arguments: the argument's position, the bits of it that count, the values,
# the verdict on them, and the verdict on others.
SOME = {
    "socket": (0, ALL, (1, 16), ALLOW, EPERM),  # local sockets, and lists of network interfaces
    "setsockopt": (2, ALL, (7, 8), EPERM, ALLOW),  # larger buffers
    "fcntl": (1, ALL, (1031,), EPERM, ALLOW),  # larger pipes
    "clone": (0, 0x7E020000, (0,), ALLOW, EPERM),  # namespaces
    "mmap": (3, 0x21, (0x21,), EPERM, ALLOW),  # shared memory without a file
}
VERDICTS = {"clone3": ENOSYS}  # its arguments can't be seen; programs then use `clone`
SECCOMP = "/proc/sys/kernel/seccomp"
PR_SET_SECCOMP, FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38

Step = tuple[int, int, int, int]  # operation, steps to skip if true and if false, operand


def why_not() -> str:
    """Why calls can't be filtered on this machine, or an empty string if they can."""
    if not os.path.exists(SECCOMP):
        return "this system has no seccomp"
    here = platform.machine()
    return "" if here in MACHINES else f"the numbers of {here}'s system calls are not known here"


def _steps(machine: str) -> Iterator[Step]:
    known = json.loads(Path(__file__).with_name("refused.json").read_text())
    yield from ((LOAD, 0, 0, 4), (EQUAL, 1, 0, MACHINES[machine]), (RETURN, 0, 0, EPERM))
    # From 0x40000000 on, x86_64 has the same calls again.
    yield from ((LOAD, 0, 0, 0), (AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, EPERM))
    for name, numbers in known.items():
        number = numbers[list(MACHINES).index(machine)]
        if number is not None:
            then = [(RETURN, 0, 0, VERDICTS.get(name, EPERM))]
            if name in SOME:
                at, bits, values, verdict, other = SOME[name]
                tests = [((EQUAL, 0, 1, v), (RETURN, 0, 0, verdict)) for v in values]
                then = [(LOAD, 0, 0, 16 + 8 * at), (AND, 0, 0, bits), *chain(*tests)]
                then.append((RETURN, 0, 0, other))
            yield from ((EQUAL, 0, len(then), number), *then)
    yield RETURN, 0, 0, ALLOW


def refuse() -> None:
    """From now on, this process and its children can't make these calls, where Linux can filter."""
    if platform.machine() not in MACHINES:
        return
    steps = [struct.pack("HBBI", *step) for step in _steps(platform.machine())]
    program = ctypes.create_string_buffer(b"".join(steps))
    told = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, FILTER, told, 0, 0) and ctypes.get_errno() != errno.EINVAL:
        raise OSError(ctypes.get_errno(), "system calls can't be filtered")


if __name__ == "__main__":
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
