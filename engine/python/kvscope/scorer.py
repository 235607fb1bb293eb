"""A scorer in Python for KVScope's own engine: ``--gate "pipe:python -m kvscope.scorer my.py:score"``.

The function gives the scores of new tokens of one layer::

    def score(layer, keys, values):                  # float32, [KV heads, tokens, head_dim]
        return -(keys**2).sum(-1)                    # [KV heads, tokens]; the lowest leave first

Its parameters say what it reads: ``keys`` (after RoPE, as they are cached), ``values``, ``hidden`` (input of the attention
layer, [tokens, hidden size]); ``layer`` (a number), ``positions`` ([tokens]), ``sequence`` (a number per text, for a function
with a memory). NumPy alone is needed; a result may be a torch tensor.
docs/reference/gates.md in KVScope's documentation describes what passes through the pipe.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import os
import struct
import sys
from pathlib import Path

VERSION = 1
READS = ("keys", "values", "hidden")
_KNOWN = (*READS, "layer", "positions", "sequence")
_FRAME = struct.Struct("<6I")
_SCORE, _END = 1, 2


def serve(score, reads=None, name=None, delay=1, end=None, stdin=None, stdout=None):
    """Answers an engine until it closes the pipe.

    ``reads``: what ``score`` is given of keys, values and hidden; what its signature names if that is None. ``delay``: the
    score of token t is in the answer to token t + delay - 1, for a score that looks ahead. ``end(sequence)`` is called when
    a text is over. ``score`` gets one layer at a time, by name.
    """
    import numpy as np

    stdin = stdin or sys.stdin.buffer
    stdout = stdout or _take_stdout()
    named = [parameter for parameter in inspect.signature(score).parameters if parameter in _KNOWN]
    reads = [one for one in READS if one in (named if reads is None else reads)]
    greeting = json.loads(stdin.readline())
    if greeting.get("kvscope_scorer") != VERSION:
        raise SystemExit(f"version {greeting.get('kvscope_scorer')} of the scorer's pipe; this module speaks {VERSION}")
    offer = {"kvscope_scorer": VERSION, "name": name or score.__name__, "reads": reads, "delay": delay}
    stdout.write(json.dumps(offer).encode() + b"\n")
    stdout.flush()
    heads, dim, width = (greeting[key] for key in ("n_kv_heads", "head_dim", "hidden_size"))
    element = 4 if greeting["dtype"] == "float32" else 2
    while True:
        head = stdin.read(_FRAME.size)
        if len(head) < _FRAME.size:
            return
        kind, sequence, first, n, n_layers, _ = _FRAME.unpack(head)
        layers = struct.unpack(f"<{n_layers}I", _exactly(stdin, 4 * n_layers))
        if kind == _END:
            if end is not None:
                end(sequence)
            continue
        tensors = {}
        for one in reads:
            shape = (n_layers, n, width) if one == "hidden" else (n_layers, heads, n, dim)
            tensors[one] = _floats(np, _exactly(stdin, element * math.prod(shape)), element).reshape(shape)
        positions = np.arange(first, first + n)
        answer = np.empty((n_layers, heads, n), np.float32)
        for row, layer in enumerate(layers):
            told = {"layer": layer, "positions": positions, "sequence": sequence}
            told.update((one, tensor[row]) for one, tensor in tensors.items())
            answer[row] = _checked(np, score(**{key: told[key] for key in named}), (heads, n))
        stdout.write(answer.tobytes())
        stdout.flush()


def _checked(np, scores, shape):
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().float().numpy()
    scores = np.asarray(scores, np.float32)
    if scores.shape != shape:
        raise ValueError(f"the scores have shape {list(scores.shape)}; expected [KV heads, tokens] = {list(shape)}")
    return scores


def _floats(np, data, element):
    if element == 4:
        return np.frombuffer(data, np.float32)
    # bfloat16 is the upper half of a float32
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _exactly(stream, size):
    data = stream.read(size)
    if len(data) < size:
        raise SystemExit(0)  # the engine has gone
    return data


def _take_stdout():
    """Whatever a function prints goes to stderr, not into the answers."""
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(private, "wb")


def load(text: str):
    """The function that ``my.py:score`` names, and ``my.score``, its name in runs."""
    file, _, name = text.rpartition(":")
    path = Path(file or text)
    name = name if file else "score"
    if not path.is_file():
        raise SystemExit(f"{path}: no such file; expected FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise SystemExit(f"{path}: no function {name}")
    return getattr(module, name), f"{path.stem}.{name}"


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        raise SystemExit("usage: python -m kvscope.scorer FILE.py:FUNCTION, as --gate pipe:COMMAND of kvscope")
    stdout = _take_stdout()  # before the file is read, which may print
    score, name = load(arguments[0])
    serve(score, name=name, delay=getattr(score, "delay", 1), stdout=stdout)


if __name__ == "__main__":
    main()
