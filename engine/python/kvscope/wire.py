"""The conversation with the program: frames of CBOR over two streams, and arrays of numbers as byte strings.

A frame is four bytes (the length, little-endian) and one CBOR map with a "type". engine/core/protocol/protocol.h has
the messages.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from . import cbor
from .errors import RESOURCE, KvscopeError

PROTOCOL_VERSION = 2
MAX_MESSAGE_BYTES = 256 << 20

NEVER = 2**31 - 1
"""evict_at of a token that was kept when it left the window."""
UNDECIDED = 2**31 - 2
"""evict_at of a token that is still in the window at the end. It never crosses the wire."""


def i32(values: Any) -> bytes:
    """Whole numbers as the wire has them: little-endian int32."""
    return np.ascontiguousarray(values, dtype="<i4").tobytes()


def f32(values: Any) -> bytes:
    """Real numbers as the wire has them: little-endian float32. NaN means none."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def pool(pieces: Iterable[bytes]) -> dict:
    """Byte strings in one pool, as tokens' pieces travel."""
    pieces = list(pieces)
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return {"bytes": b"".join(pieces), "offsets": i32(offsets)}


def unpool(message: Mapping[str, Any]) -> list[bytes]:
    """The inverse of pool()."""
    data, offsets = message["bytes"], read_i32(message, "offsets")
    return [bytes(data[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]


def _numbers(message: Mapping[str, Any], key: str, dtype: str) -> np.ndarray:
    data = message.get(key)
    if not isinstance(data, bytes) or len(data) % 4 != 0:
        raise KvscopeError(
            "no numbers",
            file="message",
            where=f"{message.get('type', '')}.{key}",
            expected="a byte string of numbers of four bytes",
        )
    return np.frombuffer(data, dtype)


def read_i32(message: Mapping[str, Any], key: str) -> np.ndarray:
    """[n] int32 of a message's field. Raises KvscopeError if it is missing or of another type."""
    return _numbers(message, key, "<i4")


def read_f32(message: Mapping[str, Any], key: str) -> np.ndarray:
    """[n] float32 of a message's field. Raises KvscopeError if it is missing or of another type."""
    return _numbers(message, key, "<f4")


def frame(message: Mapping[str, Any]) -> bytes:
    """A message with its length before it. Raises KvscopeError if it is too large for the program."""
    body = cbor.dumps(dict(message))
    if len(body) > MAX_MESSAGE_BYTES:
        raise KvscopeError(
            f"a message of {len(body)} bytes",
            file="message",
            where=str(message.get("type", "")),
            expected=f"at most {MAX_MESSAGE_BYTES}",
            code=RESOURCE,
        )
    return struct.pack("<I", len(body)) + body


def read_frame(stream: BinaryIO, any_text: bool = False) -> dict | None:
    """The next message of a stream, or None at its end. Raises KvscopeError for a torn or malformed one. any_text: as
    for cbor.loads."""
    head = _exactly(stream, 4)
    if not head:
        return None
    if len(head) < 4:
        raise _torn()
    size = struct.unpack("<I", head)[0]
    if size > MAX_MESSAGE_BYTES:
        raise KvscopeError(
            f"a message of {size} bytes", file="message", expected=f"at most {MAX_MESSAGE_BYTES}", code=RESOURCE
        )
    body = _exactly(stream, size)
    if len(body) < size:
        raise _torn()
    message = cbor.loads(body, any_text)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise KvscopeError("a message without a type", file="message", expected='a map with "type"', code=RESOURCE)
    return message


def _torn() -> KvscopeError:
    return KvscopeError("a stream that ends inside a message", file="message", code=RESOURCE)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    """n bytes, or fewer at the end of the stream."""
    parts, missing = [], n
    while missing > 0:
        part = stream.read(missing)
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


class Channel:
    """One end of a conversation. Any thread may send; one thread reads."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, any_text: bool = False):
        self._source, self._sink, self._lock, self._any_text = source, sink, threading.Lock(), any_text

    def send(self, message: Mapping[str, Any]) -> None:
        data = frame(message)
        with self._lock:
            self._sink.write(data)
            self._sink.flush()

    def read(self) -> dict | None:
        return read_frame(self._source, self._any_text)
