"""Recordings as files: `.kvs` has the frames that an engine would have sent, `.npz` the arrays.

    python -m kvscope.recording_files FROM TO

turns one into the other. TO may be `-`: the frames on standard output, as `kvscope import a.npz` reads them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from . import wire
from .errors import BAD_INPUT, USAGE, KvscopeError, one_line
from .recording import MASSES, Recording, bad
from .recording_arrays import read_arrays, to_arrays
from .wire import NEVER


def save(recording: Recording, path: str) -> None:
    """Recording.save()."""
    if path.endswith(".kvs"):
        data = b"".join(wire.frame(message) for message in recording.frames())
    elif path.endswith(".npz"):
        data = to_arrays(recording)
    else:
        raise bad("path", path, "a name that ends in .kvs or .npz")
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def load(path: str) -> Recording:
    """Recording.load()."""
    try:
        recording = read_arrays(path) if path.endswith(".npz") else _load_kvs(path)
        recording.check()
        return recording
    except KvscopeError as error:
        raise KvscopeError(error.found, file=path, where=error.where, expected=error.expected) from None
    except OSError as error:
        raise KvscopeError(error.strerror or str(error), file=path) from None
    except Exception as error:  # numpy, zip and json have many
        raise KvscopeError(one_line(error, 200), file=path, expected="a recording") from None


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


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """The exit code. What is wrong is one line on standard error; then nothing is written."""
    warnings.simplefilter("ignore")
    try:
        if len(arguments) != 2:
            raise KvscopeError("not two files", file="kvscope.recording_files", expected="FROM TO", code=USAGE)
        source, target = arguments
        recording = load(source)
        if target != "-":
            save(recording, target)
            return 0
        frames = [wire.frame(message) for message in recording.frames()]
    except KvscopeError as error:
        print(f"error: {error.line()}", file=sys.stderr)
        return error.code
    except Exception as error:  # a text where a number must be, a number that no 32 bits hold
        print(f"error: {source}: {one_line(error, 200)}; expected a recording", file=sys.stderr)
        return BAD_INPUT
    for data in frames:
        sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
