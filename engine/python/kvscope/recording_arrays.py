"""Recordings as arrays in a `.npz` file, also those of strangers.

Every array has a name of docs/protocol.md, Recordings. `meta` is a text: JSON with what is no array.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy

from .recording import FORMAT_VERSION, MASSES, Recording, bad

FORMAT = "kvscope-recording"
MOST_BYTES = 4 << 30
"""All arrays of a file, unpacked."""
_KINDS = {  # what numbers an array may have, as numpy's dtype.kind
    "ids": "iu",
    "evict_at": "iu",
    "meta": "U",
    "scores": "f",
    "logprobs": "f",
    "piece_bytes": "u",
    "piece_ends": "iu",
    **dict.fromkeys(MASSES, "f"),
}
_META: dict[str, tuple] = {  # type, and what it is if it is not there; ...: it must be
    "prompt_len": (int, ...),
    "recorder": (str, ...),
    "method": ((str, dict), ...),
    "policy": (str, ""),
    "window": (int, 64),
    "model": (dict, {}),
    "layers": ((list, type(None)), None),
    "n_queries": (int, 0),
}


def to_arrays(recording: Recording) -> bytes:
    """The bytes of a `.npz` file. Raises KvscopeError as Recording.check() does."""
    recording.check()
    meta = {
        "format": FORMAT,
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
        **{name: np.asarray(rows, np.float32) for name, rows in recording.masses.items()},
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


def _array(name: str, data: bytes) -> np.ndarray:
    """One member. Its header is compared with its size first, so that no header makes an array that is not there."""
    stream = io.BytesIO(data)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = read_header[npy.read_magic(stream)](stream)
    if dtype.kind not in _KINDS[name]:
        raise bad(name, f"an array of {dtype}", f"kind {' or '.join(_KINDS[name])} of NumPy")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise bad(name, f"{len(data) - stream.tell()} bytes", f"{dtype} of shape {shape}")
    stream.seek(0)
    return npy.read_array(stream, allow_pickle=False)


def _unpack(path: str) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name, info in members.items():
            if name not in _KINDS:
                raise bad(name, "an array of this name", "only " + ", ".join(_KINDS))
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise bad(name, f"compression {info.compress_type}", "what numpy.savez_compressed writes")
        size = sum(info.file_size for info in archive.infolist())
        if size > MOST_BYTES:
            raise bad("arrays", f"{size} bytes", f"at most {MOST_BYTES}")
        for name in ("ids", "evict_at", "meta"):
            if name not in members:
                raise bad(name, "no such array", "ids, evict_at and meta")
        return {name: _array(name, archive.read(info)) for name, info in members.items()}


def _meta(text: np.ndarray) -> dict[str, Any]:
    meta = json.loads(str(text))
    if not isinstance(meta, dict) or (meta.get("format"), meta.get("version")) != (FORMAT, FORMAT_VERSION):
        raise bad("meta", str(text)[:60], f'{{"format": "{FORMAT}", "version": {FORMAT_VERSION}, ...}}')
    for key, (kind, default) in _META.items():
        value = meta.get(key, default)
        if value is ... or not isinstance(value, kind) or isinstance(value, bool):
            names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise bad(f"meta.{key}", "nothing" if value is ... else json.dumps(value)[:60], names)
    return {key: meta.get(key, default) for key, (_, default) in _META.items()}


def _pieces(arrays: dict[str, np.ndarray]) -> list[bytes] | None:
    if "piece_ends" not in arrays and "piece_bytes" not in arrays:
        return None
    data, ends = arrays["piece_bytes"].tobytes(), arrays["piece_ends"].tolist()
    if sorted(ends) != ends or not ends or ends[0] < 0 or ends[-1] != len(data):
        raise bad("piece_ends", "other ends", f"ends that grow up to {len(data)}, the number of piece_bytes")
    return [data[a:b] for a, b in zip([0, *ends[:-1]], ends)]


def read_arrays(path: str) -> Recording:
    """The recording of a `.npz` file, not checked yet. Raises KvscopeError, or what numpy, zipfile and json raise."""
    arrays = _unpack(path)
    for name in ("ids", "logprobs", "piece_bytes", "piece_ends"):
        if name in arrays and arrays[name].ndim != 1:
            raise bad(name, f"shape {arrays[name].shape}", "one axis")
    return Recording(
        arrays["ids"].tolist(),
        evict_at=arrays["evict_at"],
        pieces=_pieces(arrays),
        logprobs=arrays.get("logprobs"),
        scores=arrays.get("scores"),
        masses={name: arrays[name] for name in MASSES if name in arrays},
        **_meta(arrays["meta"]),
    )
