"""Recordings as files: `.kvs` has the frames that an engine would have sent, `.npz` the arrays."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import numpy as np

from . import wire
from .errors import KvscopeError
from .recording import FORMAT_VERSION, MASSES, Recording, bad
from .wire import NEVER


def save(recording: Recording, path: str) -> None:
    """Recording.save()."""
    if path.endswith(".kvs"):
        data = b"".join(wire.frame(message) for message in recording.frames())
    elif path.endswith(".npz"):
        data = _npz(recording)
    else:
        raise bad("path", path, "a name that ends in .kvs or .npz")
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def load(path: str) -> Recording:
    """Recording.load()."""
    try:
        recording = _load_npz(path) if path.endswith(".npz") else _load_kvs(path)
        recording.check()
        return recording
    except KvscopeError as error:
        raise KvscopeError(error.found, file=path, where=error.where, expected=error.expected) from None
    except Exception as error:  # numpy, zip and json have many
        raise KvscopeError(f"{type(error).__name__}: {error}"[:200], file=path, expected="a recording") from None


def _npz(recording: Recording) -> bytes:
    recording.check()
    meta = {
        "format": "kvscope-recording",
        "version": FORMAT_VERSION,
        "prompt_len": recording.prompt_len,
        "recorder": recording.recorder,
        "policy": recording.policy,
        "window": recording.window,
        "model": dict(recording.model),
        "method": recording.method if isinstance(recording.method, str) else recording.declaration(),
        "layers": None if recording.layers is None else list(recording.layers),
        "n_queries": recording.n_queries,
    }
    arrays: dict[str, Any] = {
        "ids": np.asarray(recording.ids, np.int32),
        "meta": np.array(json.dumps(meta)),
        "evict_at": np.asarray(recording.evict_at, np.int32),
        **recording.masses,
    }
    if recording.scores is not None:
        arrays["scores"] = np.asarray(recording.scores, np.float32)
    if recording.logprobs is not None:
        arrays["logprobs"] = np.asarray(recording.logprobs, np.float32)
    if recording.pieces is not None:
        arrays["piece_bytes"] = np.frombuffer(b"".join(recording.pieces), np.uint8)
        arrays["piece_ends"] = np.cumsum([len(piece) for piece in recording.pieces]).astype(np.int32)
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _load_npz(path: str) -> Recording:
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    meta = json.loads(str(arrays["meta"]))
    if meta.get("format") != "kvscope-recording" or meta.get("version") != FORMAT_VERSION:
        raise bad("meta", f"{meta.get('format')} {meta.get('version')}", f"kvscope-recording {FORMAT_VERSION}")
    pieces = None
    if "piece_ends" in arrays:
        data, ends = arrays["piece_bytes"].tobytes(), arrays["piece_ends"].tolist()
        pieces = [data[a:b] for a, b in zip([0, *ends[:-1]], ends)]
    return Recording(
        arrays["ids"].tolist(),
        meta["prompt_len"],
        arrays["evict_at"],
        meta["recorder"],
        meta["method"],
        meta["policy"],
        pieces,
        arrays.get("logprobs"),
        arrays.get("scores"),
        {name: arrays[name] for name in MASSES if name in arrays},
        meta["window"],
        meta["model"],
        meta["layers"],
        meta["n_queries"],
    )


def _load_kvs(path: str) -> Recording:
    with open(path, "rb") as file:
        messages = []
        while (message := wire.read_frame(file)) is not None:
            messages.append(message)
    of = {kind: [m for m in messages if m["type"] == kind] for kind in ("hello", "done", "started", "step", "oracle")}
    hello, load, started = of["hello"][0], of["done"][0], of["started"][0]
    ids = wire.read_i32(started, "ids").tolist()
    pieces = wire.unpool(started["pieces"])
    for step in of["step"]:
        ids += wire.read_i32(step, "ids").tolist()
        pieces += wire.unpool(step["pieces"])
    shape = (load["model"]["n_layers"], load["model"]["n_kv_heads"], len(ids))
    gone, scores = np.full(shape, NEVER, np.int32), np.full(shape, np.nan, np.float32)
    logprobs = np.full(len(ids), np.nan, np.float32)
    for step in of["step"]:
        rows = wire.read_i32(step, "lifetimes").reshape(-1, 4)
        gone[tuple(rows[:, :3].T)] = rows[:, 3]
        scores[tuple(wire.read_i32(step, "score_index").reshape(-1, 3).T)] = wire.read_f32(step, "score_value")
        values = wire.read_f32(step, "logprobs")
        logprobs[step["logprobs_from"] : step["logprobs_from"] + len(values)] = values
    masses = {
        name: wire.read_f32(event, name).reshape(shape)
        for event in of["oracle"]
        if event["final"]
        for name in MASSES
        if name in event
    }
    name = started["policy"].partition(":")[0]
    method = next((p for p in hello["policies"] if p["name"] == name), started["policy"])
    return Recording(
        ids,
        started["prompt_len"],
        gone,
        hello.get("name", ""),
        method,
        started["policy"],
        pieces,
        logprobs,
        None if np.isnan(scores).all() else scores,
        masses,
        model=load["model"],
        layers=load.get("model_layers"),
        n_queries=of["step"][-1]["n_tokens"] if of["step"] else 0,
    )
