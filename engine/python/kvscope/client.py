"""An engine as a process: runs of any policy as arrays, without the program.

with Engine(["kvscope-hf-engine"]) as engine:
    engine.load("path/of/a/model")
    run = engine.run(ids, "hf.knorm:budget=128")   # a kvscope.Recording
    run.evict_at                                   # [layers, KV heads, tokens] int32
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO, cast

import numpy as np

from . import wire
from .errors import RESOURCE, KvscopeError
from .recording import Recording
from .sampling import SamplingSpec
from .wire import NEVER, read_f32, read_i32


class Engine:
    """An engine that runs until close(). One request at a time. It is a context."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None):
        """command: the engine and its arguments. environment: added to this process' own. Raises KvscopeError if it
        does not start or does not greet."""
        self.command, self._last = list(command), 0
        self.model: dict[str, Any] = {}
        self._log = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            self._log.close()
            raise KvscopeError(str(error.strerror), file=self.command[0], code=RESOURCE) from None
        source, sink = self._process.stdout, self._process.stdin
        self._channel = wire.Channel(cast(BinaryIO, source), cast(BinaryIO, sink), any_text=True)
        self.hello: dict = self._read()
        if self.hello["type"] != "hello" or self.hello.get("version") != wire.PROTOCOL_VERSION:
            self.close()
            raise KvscopeError(
                f"{self.hello['type']} of version {self.hello.get('version')}",
                file=self.command[0],
                expected=f"hello of version {wire.PROTOCOL_VERSION}",
            )

    @property
    def name(self) -> str:
        """How people call the engine."""
        return self.hello.get("name") or f"kvscope-engine {self.hello.get('engine', '')}".strip()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                pass
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()  # type: ignore[union-attr]
            self._log.close()

    def _read(self) -> dict:
        message = self._channel.read()
        if message is None:
            self._process.wait()
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines() or ["no message"]
            self.close()
            raise KvscopeError(
                f"ended with {self._process.returncode}: {lines[-1][:300]}", file=self.command[0], code=RESOURCE
            )
        return message

    def ask(self, kind: str, **fields: Any) -> list[dict]:
        """All events of a request; the last is its `done`. Raises KvscopeError for its `error`."""
        self._last += 1
        try:
            self._channel.send({"type": kind, "id": self._last, **fields})
        except OSError:
            pass  # it has ended: the read below says how
        events: list[dict] = []
        while not events or events[-1]["type"] != "done":
            event = self._read()
            if event.get("id") not in (self._last, -1):
                continue
            if event["type"] == "error":
                raise KvscopeError(
                    event.get("found", ""),
                    file=event.get("file", ""),
                    where=event.get("where", ""),
                    expected=event.get("expected", ""),
                    hint=event.get("hint", ""),
                    code=event.get("code", RESOURCE),
                )
            events.append(event)
        return events

    def load(self, model: str, gates: Sequence[str] = (), device: str = "cpu", dtype: str = "float32") -> dict:
        """Loads a model from a folder. Returns what is known of it. Raises KvscopeError."""
        done = self.ask("load", model=model, gates=list(gates), device=device, dtype=dtype)[-1]
        self.model = {k: v for k, v in done["model"].items() if k not in ("n_layers", "n_kv_heads")}
        self._shape = (done["model"]["n_layers"], done["model"]["n_kv_heads"])
        self._policies = {p["name"]: p for p in done.get("policies", self.hello.get("policies", []))}
        return done["model"]

    def run(self, ids: Sequence[int], policy: str = "full", max_tokens: int = 1) -> Recording:
        """Decodes greedily after a prompt, and returns the run. Raises KvscopeError."""
        events = self.ask(
            "run",
            prompt_ids=wire.i32(ids),
            raw=True,
            policy=policy,
            max_tokens=max_tokens,
            sampling=asdict(SamplingSpec()),
            oracle=False,
            stop_at_eos=False,
        )
        started = next(event for event in events if event["type"] == "started")
        steps = [event for event in events if event["type"] == "step"]
        text = np.concatenate([read_i32(event, "ids") for event in [started, *steps]])
        shape = (*self._shape, len(text))
        gone, scores = np.full(shape, NEVER, np.int32), np.full(shape, np.nan, np.float32)
        for step in steps:
            layer, head, token, at = read_i32(step, "lifetimes").reshape(-1, 4).T
            gone[layer, head, token] = at
            scores[tuple(read_i32(step, "score_index").reshape(-1, 3).T)] = read_f32(step, "score_value")
        name = started["policy"].partition(":")[0]
        return Recording(
            ids=text.tolist(),
            prompt_len=started["prompt_len"],
            evict_at=gone,
            recorder=self.name,
            method=self._policies.get(name, name),
            policy=started["policy"],
            pieces=[piece for event in [started, *steps] for piece in wire.unpool(event["pieces"])],
            logprobs=np.concatenate([read_f32(step, "logprobs") for step in steps]),
            scores=None if np.isnan(scores).all() else scores,
            model=self.model,
            n_queries=steps[-1]["n_tokens"],
        )
