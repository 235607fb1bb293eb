"""A run as plain arrays, from whatever code: what was kept, and as far as they are known scores and masses.

    kvscope.Recording(ids=ids, prompt_len=900, evict_at=evict_at, recorder="my-loop 0.3", method=METHOD).save("a.kvs")

A `.kvs` file has the frames that an engine would have sent: a greeting with the method's declaration, the end of a
load, and the events of one run. `.npz` has the arrays. `kvscope import FILE -o a.h5` checks either as it checks an
engine, and writes a trace.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import wire
from .errors import KvscopeError
from .policies import Policy
from .wire import NEVER, UNDECIDED, f32, i32, pool

FORMAT_VERSION = 1
MASSES = ("future_mass", "future_rms", "future_max", "value_norm", "output_mean", "output_rms", "output_max")
_LOAD, _RUN = 1, 2  # ids of the two requests that the frames answer
_MODEL: dict[str, Any] = {
    "name": "model",
    "path": "",
    "architecture": "",
    "dtype": "",
    "device": "",
    "scorer": "",
    "weights_hash": "0" * 16,
    "n_heads": 0,
    "head_dim": 1,
    "vocab_size": 0,
    "max_positions": 0,
    "n_parameters": 0,
}


@dataclass
class Recording:
    """One run.

    ids [n] int: prompt and answer; the first `prompt_len` are the prompt.
    evict_at [layers, KV heads, n] int: the first query position that cannot see the token: t < evict_at <= n. NEVER (or
    anything above n) for a token that stays.
    recorder: who recorded it, with versions: "my-loop 0.3, vllm 0.11".
    method: the declaration of the method, a kvscope Policy or a dict as in the protocol (name "my.method", title,
    definition); or the text of one of KVScope's own policies, which must then be what really decided. policy: its text
    with parameters; empty: the method's name.
    pieces: the bytes of each token, else ids are shown. logprobs [n] natural, NaN for the first. scores [layers, KV
    heads, n], NaN for none. masses: arrays of that shape by the names in MASSES, made with `window`. model: what is
    known of it. layers [layers]: which layer of the model each cache layer is, for hybrids. n_queries: tokens that
    were fed, 0: all."""

    ids: Sequence[int]
    prompt_len: int
    evict_at: np.ndarray
    recorder: str
    method: Policy | Mapping[str, Any] | str
    policy: str = ""
    pieces: Sequence[bytes] | None = None
    logprobs: np.ndarray | None = None
    scores: np.ndarray | None = None
    masses: Mapping[str, np.ndarray] = field(default_factory=dict)
    window: int = 64
    model: Mapping[str, Any] = field(default_factory=dict)
    layers: Sequence[int] | None = None
    n_queries: int = 0

    def check(self) -> None:
        """Raises KvscopeError that names the array and what is wrong with it, as the program would."""
        n = len(self.ids)
        if not 1 <= self.prompt_len <= n:
            raise bad("prompt_len", str(self.prompt_len), f"1 to {n}, the number of ids")
        if min(self.ids) < 0:
            raise bad("ids", str(min(self.ids)), "0 or more")
        gone = np.asarray(self.evict_at)
        if gone.ndim != 3 or gone.shape[2] != n or 0 in gone.shape or not np.issubdtype(gone.dtype, np.integer):
            raise bad("evict_at", f"{gone.dtype} of shape {gone.shape}", f"whole numbers [layers, KV heads, {n}]")
        wrong = np.argwhere(gone <= np.arange(n))
        if len(wrong):
            layer, head, token = wrong[0]
            raise bad(
                "evict_at",
                f"{gone[layer, head, token]} of token {token} in layer {layer} head {head}",
                f"{token + 1} to {n}, or NEVER: a token's own query sees it",
            )
        for name, rows in {**dict(self.masses), "scores": self.scores}.items():
            if name not in (*MASSES, "scores"):
                raise bad("masses", name, "one of " + ", ".join(MASSES))
            if rows is not None and np.asarray(rows).shape != gone.shape:
                raise bad(name, f"shape {np.asarray(rows).shape}", f"{gone.shape}, as of evict_at")
            if rows is not None and name != "scores" and np.nanmin(np.nan_to_num(rows, nan=0.0)) < 0:
                raise bad(name, "a mass below 0", "0 or more, or NaN")
        if self.pieces is not None and len(self.pieces) != n:
            raise bad("pieces", f"{len(self.pieces)} pieces", f"{n}, one per token")
        if self.logprobs is not None and (len(self.logprobs) != n or np.nanmax(np.append(self.logprobs, -1.0)) > 1e-3):
            raise bad("logprobs", f"{len(self.logprobs)} numbers", f"{n}, each 0 or less, or NaN")
        if not isinstance(self.method, str):
            self.declaration()

    @property
    def n_layers(self) -> int:
        return int(np.asarray(self.evict_at).shape[0])

    @property
    def n_kv_heads(self) -> int:
        return int(np.asarray(self.evict_at).shape[1])

    def declaration(self) -> dict:
        """The method's declaration, with every field that the program reads. Raises KvscopeError."""
        if isinstance(self.method, Policy):
            self.method.check()
            return self.method.declaration()
        out: dict[str, Any] = {
            "title": "",
            "definition": "",
            "budget": False,
            "rule": "none",
            "prompt": "dense",
            "parameters": [],
            **dict(self.method),  # type: ignore[arg-type]
        }
        try:
            Policy(
                out["name"], out["title"], out["definition"], budget=False, rule=out["rule"], prompt=out["prompt"]
            ).check()
        except (KeyError, ValueError, TypeError) as error:
            raise bad("method", str(error), "a declaration with name PREFIX.NAME, title and definition") from None
        return out

    def _model_info(self) -> dict:
        info = {**_MODEL, **self.model, "n_layers": self.n_layers, "n_kv_heads": self.n_kv_heads}
        info["n_heads"] = info["n_heads"] or self.n_kv_heads
        info["vocab_size"] = info["vocab_size"] or int(max(self.ids)) + 1
        info["max_positions"] = info["max_positions"] or max(len(self.ids), 1)
        return info

    def frames(self) -> list[dict]:
        """The messages of a `.kvs` file. Raises KvscopeError as check() does."""
        self.check()
        n, gone = len(self.ids), np.asarray(self.evict_at)
        named = isinstance(self.method, str)
        policy = self.policy or (self.method if named else self.declaration()["name"])
        hello = {
            "type": "hello",
            "version": wire.PROTOCOL_VERSION,
            "engine": "recording",
            "torch": "",
            "cuda": False,
            "device": str(self.model.get("device", "")),
            "name": self.recorder,
            "serves": [],
            "policies": [] if named else [self.declaration()],
            "recording": FORMAT_VERSION,
        }
        load: dict[str, Any] = {"type": "done", "id": _LOAD, "model": self._model_info(), "load_s": 0.0}
        if self.layers is not None:
            load["model_layers"] = [int(layer) for layer in self.layers]
        started = {
            "type": "started",
            "id": _RUN,
            "n_positions": n,
            "prompt_len": self.prompt_len,
            "ids": i32(self.ids[: self.prompt_len]),
            "pieces": pool(self._pieces(0, self.prompt_len)),
            "policy": policy,
            "scorer": "",
            "scorer_kind": "",
            "scorer_delay": -1,
            "chunk": 0,
        }
        return [
            hello,
            load,
            started,
            *self._steps(gone),
            *self._oracle(),
            {
                "type": "done",
                "id": _RUN,
                "status": "complete",
                "text": self._answer(),
                "timings": {
                    "load_s": 0.0,
                    "prefill_s": 0.0,
                    "decode_s": 0.0,
                    "decode_steps": n - self.prompt_len,
                    "instrumented": True,
                },
            },
        ]

    def _pieces(self, begin: int, end: int) -> list[bytes]:
        if self.pieces is None:
            return [f" {token}".encode() for token in self.ids[begin:end]]
        return [bytes(piece) for piece in self.pieces[begin:end]]

    def _answer(self) -> str:
        return b"".join(self._pieces(self.prompt_len, len(self.ids))).decode("utf-8", "replace")

    def _steps(self, gone: np.ndarray) -> list[dict]:
        """One step for the prompt, then one for each token: what left up to its query, and its scores."""
        n, prompt_len = len(self.ids), self.prompt_len
        index = np.argwhere(gone <= n)
        at = gone[tuple(index.T)]
        rows = np.concatenate([index, at[:, None]], axis=1).astype("<i4")
        step_of = np.maximum(at, prompt_len - 1)
        step_of[at >= n] = n - 1
        scores = np.full(gone.shape, np.nan, np.float32) if self.scores is None else np.asarray(self.scores, np.float32)
        out = []
        for position in range(prompt_len - 1, n):
            first = position == prompt_len - 1
            begin, end = (0, prompt_len) if first else (position, position + 1)
            new = [] if first else [self.ids[position]]
            known = np.argwhere(~np.isnan(scores[:, :, begin:end])) + np.array([0, 0, begin])
            logprobs = [math.nan] * (end - begin) if self.logprobs is None else self.logprobs[begin:end]
            fed = min(end, self.n_queries or n)
            out.append(
                {
                    "type": "step",
                    "id": _RUN,
                    "n_tokens": fed,
                    "ids": i32(new),
                    "pieces": pool(self._pieces(begin, end) if new else []),
                    "logprobs_from": begin,
                    "logprobs": f32(logprobs),
                    "lifetimes": i32(rows[step_of == position]),
                    "score_index": i32(known),
                    "score_value": f32(scores[tuple(known.T)]),
                    "contests": b"",
                    "seconds": 0.0,
                }
            )
        return out

    def _oracle(self) -> list[dict]:
        if "future_mass" not in self.masses:
            return []
        recall = f32(np.full((self.n_layers, self.n_kv_heads), np.nan))
        return [
            {
                "type": "oracle",
                "id": _RUN,
                "horizon": len(self.ids),
                "recall": recall,
                "final": True,
                **{name: f32(rows) for name, rows in self.masses.items()},
            }
        ]

    def save(self, path: str | os.PathLike) -> None:
        """Writes `.kvs` (frames) or `.npz` (arrays), by the name's end. Raises KvscopeError as check() does; a file
        that is there is replaced only when the new one is whole."""
        from .recording_files import save

        save(self, os.fspath(path))

    @staticmethod
    def load(path: str | os.PathLike) -> Recording:
        """A recording from a `.npz` or `.kvs` file, checked. Raises KvscopeError in one line for a damaged one."""
        from .recording_files import load

        return load(os.fspath(path))


def bad(where: str, found: str, expected: str) -> KvscopeError:
    return KvscopeError(found, file="recording", where=where, expected=expected)


__all__ = ["MASSES", "NEVER", "Recording", "UNDECIDED"]
