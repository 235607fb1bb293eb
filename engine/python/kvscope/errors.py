"""The one error type of the package. It becomes one line in the program and in the terminal."""

from __future__ import annotations

USAGE, BAD_INPUT, RESOURCE, INTERNAL, CANCELLED = 1, 2, 3, 4, 130
"""Exit codes, the same as those of the `kvscope` program."""


class KvscopeError(Exception):
    """Something outside the package is not as it must be.

    The line is `FILE: WHERE: FOUND; expected EXPECTED; hint: HINT`, without the parts that are empty.
    """

    def __init__(
        self, found: str, *, file: str = "", where: str = "", expected: str = "", hint: str = "", code: int = BAD_INPUT
    ):
        self.code, self.file, self.where = code, file, where
        self.found, self.expected, self.hint = found, expected, hint
        super().__init__(self.line())

    def line(self) -> str:
        line = ": ".join(part for part in (self.file, self.where, self.found) if part)
        if self.expected:
            line += f"; expected {self.expected}"
        if self.hint:
            line += f"; hint: {self.hint}"
        return line

    def event(self, request_id: int) -> dict:
        """The error event of a request."""
        return {
            "type": "error",
            "id": request_id,
            "code": self.code,
            "file": self.file,
            "where": self.where,
            "found": self.found,
            "expected": self.expected,
            "hint": self.hint,
        }


def usage(found: str, *, file: str = "", where: str = "", expected: str = "", hint: str = "") -> KvscopeError:
    """An error in what the user wrote."""
    return KvscopeError(found, file=file, where=where, expected=expected, hint=hint, code=USAGE)


class Cancelled(Exception):
    """The user stopped the request. This is an outcome and not an error."""


def one_line(error: BaseException, limit: int = 300) -> str:
    """The type and the message of any exception, in one line of at most `limit` characters."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    line = f"{name}: {text}" if text else name
    return line if len(line) <= limit else line[: limit - 3] + "..."
