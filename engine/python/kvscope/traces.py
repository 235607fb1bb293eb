"""Traces as NumPy and xarray, and the program's own figures in a notebook.

trace = kvscope.open("a.h5")
run = trace[0]
run.evict_at            # [layers, KV heads, tokens] int32
run.kept(q=100)         # [layers, KV heads, tokens] bool
run.to_xarray()
trace.figure("kvpop-fig6")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .errors import KvscopeError
from .h5_file import H5File, open_h5, text_of
from .studies import Study
from .wire import NEVER, UNDECIDED

_HEAD_SERIES = (
    "score",
    "future_mass",
    "future_rms",
    "future_max",
    "value_norm",
    "output_mean",
    "output_rms",
    "output_max",
    "group_damage",
    "eviction_verdict",
)


class Run:
    """One run of a trace. Every array is read when it is first asked for."""

    def __init__(self, file: Any, index: int):
        self._file, self.index = file, index
        self._begin, self._end = (int(x) for x in file["runs/token_span"][index])

    def _string(self, name: str) -> str:
        begin, end = self._file[f"runs/{name}_span"][self.index]
        return bytes(self._file["runs/text"][begin:end]).decode("utf-8", "replace")

    def _number(self, name: str) -> Any:
        return self._file[f"runs/{name}"][self.index].item()

    @property
    def policy(self) -> str:
        """The policy's text, with every parameter."""
        return self._string("policy")

    @property
    def scorer(self) -> str:
        return self._string("scorer")

    @property
    def prompt_len(self) -> int:
        return self._number("prompt_len")

    @property
    def n_queries(self) -> int:
        """Tokens that were fed to the model, so that queries 0 to n_queries - 1 were made."""
        return self._number("n_queries") or len(self)

    @property
    def sinks(self) -> int:
        return self._number("n_sink")

    @property
    def window(self) -> int:
        return self._number("window")

    def __len__(self) -> int:
        return self._end - self._begin

    def __repr__(self) -> str:
        return f"<kvscope run {self.index}: {self.policy}, {len(self)} tokens>"

    @cached_property
    def ids(self) -> np.ndarray:
        """[tokens] int32."""
        return self._file["tokens/id"][self._begin : self._end]

    @cached_property
    def logprobs(self) -> np.ndarray:
        """[tokens] natural log-probability given the tokens before, NaN for the first."""
        return self._file["tokens/logprob"][self._begin : self._end]

    @cached_property
    def pieces(self) -> list[bytes]:
        """The bytes of each token."""
        spans = self._file["tokens/piece_span"][self._begin : self._end]
        if len(spans) == 0:
            return []
        first = int(spans[0, 0])
        data = bytes(self._file["tokens/piece_bytes"][first : int(spans[-1, 1])])
        return [data[a - first : b - first] for a, b in spans.tolist()]

    @cached_property
    def text(self) -> str:
        return b"".join(self.pieces).decode("utf-8", "replace")

    @cached_property
    def evict_at(self) -> np.ndarray:
        """[layers, KV heads, tokens] the first query that cannot see the token. kvscope.wire.NEVER: none; UNDECIDED:
        it was still in the window at the end."""
        return self._file["heads/evict_at"][:, :, self._begin : self._end]

    def series(self, name: str) -> np.ndarray:
        """[layers, KV heads, tokens] of heads/NAME: score, future_mass, future_rms, value_norm, group_damage ..."""
        if f"heads/{name}" not in self._file:
            raise KvscopeError(name, file="trace", expected="one of " + ", ".join(_HEAD_SERIES))
        return self._file[f"heads/{name}"][:, :, self._begin : self._end]

    def metric(self, name: str) -> np.ndarray:
        """[layers, KV heads] at the last query: density, recall, chance, mass_recall, mass_kept. NaN where
        undefined."""
        return self._file[f"runs/{name}"][self.index]

    def kept(self, q: int) -> np.ndarray:
        """[layers, KV heads, tokens] bool: what query q sees."""
        return (np.arange(len(self)) <= q) & (self.evict_at > q)

    def cache_size(self) -> np.ndarray:
        """[layers, KV heads, queries] tokens that each query sees."""
        n = self.n_queries
        gone = np.where(self.evict_at >= UNDECIDED, n, np.minimum(self.evict_at, n))
        out = np.zeros((*gone.shape[:2], n + 1), np.int64)
        layer, head = np.arange(gone.shape[0])[:, None, None], np.arange(gone.shape[1])[:, None]
        np.subtract.at(out, (layer, head, gone), 1)
        out[:, :, : len(self)] += 1
        return np.cumsum(out, axis=-1)[:, :, :n]

    def to_xarray(self) -> Any:
        """An xarray.Dataset with axes layer, kv_head and token. Raises KvscopeError without xarray."""
        try:
            import xarray
        except ImportError:
            raise KvscopeError(
                "xarray is not installed", file="to_xarray", hint="pip install 'kvscope[notebook]'"
            ) from None
        dims = ("layer", "kv_head", "token")
        data = {"evict_at": (dims, self.evict_at), "id": (("token",), self.ids), "logprob": (("token",), self.logprobs)}
        data.update({name: (dims, self.series(name)) for name in _HEAD_SERIES if f"heads/{name}" in self._file})
        data.update({name: (dims[:2], self.metric(name)) for name in ("density", "recall", "chance", "mass_recall")})
        coords = {
            "layer": np.arange(self.evict_at.shape[0]),
            "kv_head": np.arange(self.evict_at.shape[1]),
            "token": np.arange(len(self)),
            "piece": ("token", [piece.decode("utf-8", "replace") for piece in self.pieces]),
        }
        return xarray.Dataset(
            data,
            coords,
            {
                "policy": self.policy,
                "prompt_len": self.prompt_len,
                "sinks": self.sinks,
                "window": self.window,
                "never": NEVER,
            },
        )


class Trace(H5File):
    """A trace that is open for reading. It is a sequence of runs."""

    def __init__(self, file: Any, path: str | os.PathLike):
        super().__init__(file, path)
        self.version = int(self._file.attrs["version"])
        facts = self._file["model"].attrs
        self.model = {name: text_of(v) if isinstance(v, bytes) else np.asarray(v).item() for name, v in facts.items()}

    def __len__(self) -> int:
        return int(self._file["committed"][()])

    def __getitem__(self, index: int) -> Run:
        if not -len(self) <= index < len(self):
            raise IndexError(f"run {index} of {len(self)}")
        return Run(self._file, index % len(self))

    def __iter__(self) -> Iterator[Run]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<kvscope trace {self.path}: {self.model.get('name', '?')}, {len(self)} runs>"


def open(path: str | os.PathLike) -> Trace | Study:  # noqa: A001  (the name that people expect: kvscope.open)
    """Opens a trace or a study for reading. Raises KvscopeError in one line for a file that is neither."""
    file, found = open_h5(path)
    if found == "kvscope-trace":
        return Trace(file, path)
    if found == "kvscope-study":
        return Study(file, path)
    file.close()
    raise KvscopeError("neither a trace nor a study of KVScope", file=os.fspath(path))
