"""Messages over a socket: a dict as JSON and bytes, each no longer than the reader allows."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

HEAD = struct.Struct("<IQ")  # the lengths of the two
MAX_WORDS, MAX_BYTES = 8 * 2**20, 64 * 2**20


class BadMessage(Exception):
    """What came is no message, or too long."""


class Ended(Exception):
    """The other side is gone."""


class Deaf(Ended):
    """The other side has stopped to read in the middle of a message."""


class OutOfTime(Exception):
    """The other side said nothing in time."""


def send(
    to: socket.socket, words: dict[str, Any], data: bytes = b"", seconds: float = 60.0
) -> None:
    """Sends a message.

    Raises:
        Ended: nobody is there to read it.
        Deaf: it was not read, whole, in so many seconds.
        OutOfTime: there are no seconds.
    """
    said = json.dumps(words).encode()
    if seconds <= 0:
        raise OutOfTime
    try:
        to.settimeout(seconds)
        to.sendall(HEAD.pack(len(said), len(data)) + said + data)
    except TimeoutError:
        raise Deaf("it no longer reads what it is asked") from None
    except OSError as error:
        raise Ended(str(error)) from None


def receive(
    source: socket.socket, seconds: float | None = None, most: int = MAX_BYTES
) -> tuple[dict[str, Any], bytes]:
    """The next message.

    Raises:
        Ended: there will be none.
        OutOfTime: it was not there, whole, in so many seconds.
        BadMessage: it is none, or longer than `most` bytes.
    """
    until = None if seconds is None else time.monotonic() + seconds
    words, data = HEAD.unpack(_exactly(source, HEAD.size, until))
    if words > MAX_WORDS or data > most:
        raise BadMessage(f"a message of {words + data:,} bytes")
    text = _exactly(source, words, until)
    try:
        said = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadMessage("what was sent is no JSON") from None
    if not isinstance(said, dict):
        raise BadMessage("what was sent is no message")
    return said, _exactly(source, data, until)


def _no_number(text: str) -> None:
    return None  # NaN and infinity are no JSON; nothing of ours has them


def _exactly(source: socket.socket, count: int, until: float | None) -> bytes:
    parts = []
    while count:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise OutOfTime
        source.settimeout(left)
        try:
            part = source.recv(min(count, 2**20))
        except TimeoutError:
            raise OutOfTime from None
        except OSError as error:
            raise Ended(str(error)) from None
        if not part:
            raise Ended("the other side has closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
