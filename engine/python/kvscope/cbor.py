"""CBOR (RFC 8949), the part that messages are made of.

Integers of 64 bits, floats, true, false, null, texts, byte strings, arrays and maps with text keys, each of a definite
length. The reader refuses everything else, and it refuses a message that is deeper or larger than the limits below.
They are the limits of the program, so what this module writes the program can read.
"""

from __future__ import annotations

import struct
from typing import Any

from .errors import RESOURCE, KvscopeError

MAX_DEPTH = 32
MAX_ELEMENTS = 1 << 18
MAX_TEXT_BYTES = 64 << 20


def _bad(found: str) -> KvscopeError:
    return KvscopeError(found, file="message", expected="one CBOR value", code=RESOURCE)


def _head(major: int, number: int) -> bytes:
    first = major << 5
    if number < 24:
        return bytes((first | number,))
    if number < 1 << 8:
        return bytes((first | 24, number))
    if number < 1 << 16:
        return struct.pack(">BH", first | 25, number)
    if number < 1 << 32:
        return struct.pack(">BI", first | 26, number)
    if number < 1 << 64:
        return struct.pack(">BQ", first | 27, number)
    raise OverflowError("an integer of more than 64 bits")


def _write(value: Any, out: list[bytes], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("a message deeper than 32 levels")
    if value is None:
        out.append(b"\xf6")
    elif value is True:
        out.append(b"\xf5")
    elif value is False:
        out.append(b"\xf4")
    elif isinstance(value, int):
        out.append(_head(0, value) if value >= 0 else _head(1, -1 - value))
    elif isinstance(value, float):
        out.append(struct.pack(">Bd", 0xFB, value))
    elif isinstance(value, str):
        text = value.encode("utf-8", "replace")
        out += (_head(3, len(text)), text)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        out += (_head(2, len(value)), bytes(value))
    elif isinstance(value, (list, tuple)):
        out.append(_head(4, len(value)))
        for one in value:
            _write(one, out, depth + 1)
    elif isinstance(value, dict):
        out.append(_head(5, len(value)))
        for key, one in value.items():
            if not isinstance(key, str):
                raise TypeError("a key that is not a text")
            _write(key, out, depth + 1)
            _write(one, out, depth + 1)
    elif hasattr(value, "item"):  # a number of numpy or torch
        _write(value.item(), out, depth)
    else:
        raise TypeError(f"{type(value).__name__} cannot be in a message")


def dumps(value: Any) -> bytes:
    """The bytes of a value. Raises TypeError, ValueError or OverflowError for what has no place in a message."""
    out: list[bytes] = []
    _write(value, out, 0)
    return b"".join(out)


class _Reader:
    def __init__(self, data: bytes, any_text: bool = False):
        self.data, self.at, self.errors = data, 0, "replace" if any_text else "strict"
        self.elements = self.text_bytes = 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise _bad("a message that ends inside a value")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise _bad("a value without a definite length")
        return int.from_bytes(self.take(1 << (info - 24)), "big")

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _bad("a message deeper than 32 levels")
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise _bad(f"a message of more than {MAX_ELEMENTS} values")
        head = self.take(1)[0]
        major, info = head >> 5, head & 31
        if major == 7:
            return self.simple(info)
        number = self.number(info)
        if major == 0:
            return number
        if major == 1:
            if number >= 1 << 63:
                raise _bad("a number past 64 bits")
            return -1 - number
        if major == 2:
            return self.take(number)
        if major == 3:
            return self.text(number)
        if major == 4:
            self.room(number)
            return [self.value(depth + 1) for _ in range(number)]
        if major == 5:
            return self.map(number, depth)
        raise _bad("a tag")

    def room(self, n: int) -> None:
        if n > len(self.data) - self.at:  # each value takes a byte at least
            raise _bad("a message that ends inside a value")

    def text(self, n: int) -> str:
        self.text_bytes += n
        if self.text_bytes > MAX_TEXT_BYTES:
            raise _bad(f"a message with more than {MAX_TEXT_BYTES} bytes of text")
        try:
            return self.take(n).decode("utf-8", self.errors)
        except UnicodeDecodeError:
            raise _bad("a text that is not UTF-8") from None

    def map(self, n: int, depth: int) -> dict:
        self.room(2 * n)
        out = {}
        for _ in range(n):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise _bad("a key that is not a text")
            if key in out:
                raise _bad(f"the key {key[:80]!r} twice")
            out[key] = self.value(depth + 1)
        return out

    def simple(self, info: int) -> Any:
        if info in (20, 21, 22):
            return (False, True, None)[info - 20]
        formats = {25: (2, ">e"), 26: (4, ">f"), 27: (8, ">d")}
        if info not in formats:
            raise _bad("a simple value that messages do not use")
        size, code = formats[info]
        return struct.unpack(code, self.take(size))[0]


def loads(data: bytes, any_text: bool = False) -> Any:
    """The value of these bytes, all of them. Raises KvscopeError for anything else. any_text: bytes of a text that are
    not UTF-8 become U+FFFD; kvscope-engine sends an answer that ends inside a character."""
    reader = _Reader(data, any_text)
    value = reader.value(0)
    if reader.at != len(data):
        raise _bad(f"a message with {len(data) - reader.at} bytes after its value")
    return value
