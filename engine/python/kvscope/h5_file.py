"""What traces and studies have in common: an HDF5 file of the program, open for reading, and figures of it."""

from __future__ import annotations

import builtins
import json
import os
import tempfile
from typing import Any, TypeVar

from . import program
from .errors import KvscopeError

_Self = TypeVar("_Self", bound="H5File")


def text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def open_h5(path: str | os.PathLike) -> tuple[Any, str]:
    """The file and the format that it names, "" without one. Raises KvscopeError in one line for a file that is none."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise KvscopeError("no such file", file=path)
    try:
        import h5py
    except ImportError:
        hint = "pip install 'kvscope[notebook]'"
        raise KvscopeError("h5py is not installed", file="kvscope.open", hint=hint) from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise KvscopeError(str(error)[:120], file=path, expected="a trace or a study (HDF5)") from None
    return file, text_of(file.attrs.get("format", b""))


class Figure:
    """A figure of the program, shown inline by a notebook."""

    def __init__(self, svg: str, name: str = ""):
        self.svg, self.name = svg, name

    def __repr__(self) -> str:
        return f"<kvscope figure {self.name}>"

    def _repr_svg_(self) -> str:
        return self.svg


class H5File:
    """A file that is open for reading. It is a context."""

    def __init__(self, file: Any, path: str | os.PathLike):
        self._file, self.path = file, os.fspath(path)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def inspect(self) -> dict:
        """What `kvscope inspect --json` prints. Raises KvscopeError without the program."""
        return json.loads(program.run("inspect", self.path, "--json"))

    def figure(self, preset: str, *arguments: str) -> Figure:
        """A figure of the program, by the name of a preset (`kvscope figure --list`), with more of its arguments."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figure.svg")
            program.run("figure", "--preset", preset, self.path, "-o", path, "--no-data", *arguments)
            with builtins.open(path, encoding="utf-8") as file:
                return Figure(file.read(), preset)
