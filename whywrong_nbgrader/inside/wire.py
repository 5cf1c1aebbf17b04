"""Messages over a socket: a dict as JSON, and bytes, both limited by the reader."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

HEAD = struct.Struct("<IQ")  # the lengths of both
MAX_WORDS, MAX_BYTES = 8 * 2**20, 64 * 2**20


class BadMessage(Exception):
    """The data received is not a message, or too long."""


class Ended(Exception):
    """The other side has ended."""


class Deaf(Ended):
    """The other side stopped reading in the middle of a message."""


class OutOfTime(Exception):
    """The other side didn't reply in time."""


def send(
    to: socket.socket, words: dict[str, Any], data: bytes = b"", seconds: float = 60.0
) -> None:
    """Sends a message.

    Raises:
        Ended: there is no reader.
        Deaf: the whole message was not read within the time limit.
        OutOfTime: no time is left.
    """
    said = json.dumps(words).encode()
    if seconds <= 0:
        raise OutOfTime
    try:
        to.settimeout(seconds)
        to.sendall(HEAD.pack(len(said), len(data)) + said + data)
    except TimeoutError:
        raise Deaf("it no longer reads requests") from None
    except OSError as error:
        raise Ended(str(error)) from None


def receive(
    source: socket.socket, seconds: float | None = None, most: int = MAX_BYTES
) -> tuple[dict[str, Any], bytes]:
    """The next message.

    Raises:
        Ended: no further message will come.
        OutOfTime: the whole message did not arrive within the time limit.
        BadMessage: it is not a message, or longer than `most` bytes.
    """
    until = None if seconds is None else time.monotonic() + seconds
    words, data = HEAD.unpack(_exactly(source, HEAD.size, until))
    if words > MAX_WORDS or data > most:
        raise BadMessage(f"a message of {words + data:,} bytes")
    text = _exactly(source, words, until)
    try:
        # NaN and infinity are not JSON; our messages contain none.
        said = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise BadMessage("the data is not JSON") from None
    if not isinstance(said, dict):
        raise BadMessage("the data is not a message")
    return said, _exactly(source, data, until)


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
