"""Messages over a socket: a dict as JSON, and bytes, both limited by the reader."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

HEAD = struct.Struct("<IQ")  # the lengths of both
MAX_WORDS, MAX_BYTES = 8 * 2**20, 64 * 2**20
LOOKING = 0.1  # seconds between two checks of the time that is left


class BadMessage(Exception):
    """The data received is not a message, or too long."""


class Ended(Exception):
    """The other side has ended."""


class Deaf(Ended):
    """The other side stopped reading in the middle of a message."""


class OutOfTime(Exception):
    """The other side didn't reply in time."""


class Starved(OutOfTime):
    """The time is over only by the wall clock: the other side may have had no processor."""


Left = Callable[[], float]  # the seconds that are left; it may raise OutOfTime itself


def within(seconds: float) -> Left:
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()


def send(
    to: socket.socket, words: dict[str, Any], data: bytes = b"", left: Left | None = None
) -> None:
    """Sends a message.

    Raises:
        Ended: there is no reader.
        Deaf: the whole message was not read within the time limit.
        OutOfTime: no time is left.
    """
    said = json.dumps(words).encode()
    left = left or within(60.0)
    if left() <= 0:
        raise OutOfTime
    rest = memoryview(HEAD.pack(len(said), len(data)) + said + data)
    try:
        to.settimeout(LOOKING)
        while rest and left() > 0:
            try:
                rest = rest[to.send(rest) :]
            except TimeoutError:
                continue
    except OSError as error:
        raise Ended(str(error)) from None
    if rest:
        raise Deaf("it no longer reads requests")


def receive(
    source: socket.socket, left: Left | None = None, words: int = MAX_WORDS
) -> tuple[dict[str, Any], bytes]:
    """Returns the next message.

    Raises:
        Ended: no further message will come.
        OutOfTime: the whole message did not arrive within the time limit.
        BadMessage: it is not a message, or longer than `MAX_BYTES` of data or `words`.
    """
    length, size = HEAD.unpack(_exactly(source, HEAD.size, left))
    if length > words or size > MAX_BYTES:
        raise BadMessage(f"a message of {length + size:,} bytes")
    text = _exactly(source, length, left)
    try:
        # NaN and infinity are not JSON; our messages contain none.
        said = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise BadMessage("the data is not JSON") from None
    if not isinstance(said, dict):
        raise BadMessage("the data is not a message")
    return said, _exactly(source, size, left)


def _exactly(source: socket.socket, count: int, left: Left | None) -> bytes:
    parts = []
    while count:
        # What has already arrived is in time, even if this process had no processor until now.
        source.settimeout(None if left is None else LOOKING)
        try:
            part = source.recv(min(count, 2**20))
        except TimeoutError:
            if left is not None and left() <= 0:
                raise OutOfTime from None
            continue
        except OSError as error:
            raise Ended(str(error)) from None
        if not part:
            raise Ended("the other side has closed")
        parts.append(part)
        count -= len(part)
        if count and len(part) < 2**10 and left is not None and left() <= 0:
            raise OutOfTime  # it arrives in tiny pieces
    return b"".join(parts)
