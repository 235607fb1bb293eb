"""A scorer in Python over a pipe: the tokens of the same gate built in, and one line for each way to fail. NumPy is enough."""

import io
import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy as np
import tiny

from kvscope import program, scorer
from kvscope.client import Engine
from kvscope.errors import KvscopeError

SAMPLE = Path(__file__).resolve().parents[2] / "samples/models/kvscope-tiny"
TEXT = [(7 * t * t + 11 * t) % 4000 + 10 for t in range(150)]
SCORES = """
import time
import numpy as np

def channel(layer, keys):
    print("this goes to stderr")
    return keys[..., 5]

def both(keys, values, hidden, positions, sequence):
    assert keys.dtype == np.float32 and keys.shape == values.shape == (4, len(positions), 64)
    assert hidden.shape == (len(positions), 256)
    return keys[..., 5] + 0 * values[..., 0]

def knorm(layer, keys):
    return -np.sqrt((keys * keys).sum(-1))

def raises(keys):
    raise ValueError("two\\nlines")

def narrow(keys):
    return keys[0, :, 0]

def nan(layer, keys):
    return keys[..., 0] * (np.nan if layer == 2 else 1)

def late_nan(keys, positions):
    return keys[..., 0] * (np.nan if len(positions) == 1 else 1)

def sleeps(keys):
    time.sleep(60)

"""


def engine_path():
    try:
        return Path(program.find()).parent / "kvscope-engine"
    except KvscopeError:
        return Path("/nowhere")


needs_engine = unittest.skipUnless(engine_path().exists(), "needs kvscope-engine: set KVSCOPE to the program next to it")
needs_sample = unittest.skipUnless((SAMPLE / "model.safetensors").exists(), "the sample model is not there")


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        values = np.ascontiguousarray(values, np.float32)
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Pipe(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "my.py").write_text(textwrap.dedent(SCORES))

    def gate(self, function):
        words = [sys.executable, "-m", "kvscope.scorer", f"{self.folder / 'my.py'}:{function}"]
        return "pipe:PYTHONPATH=" + shlex.quote(tiny.sys.path[0]) + " " + shlex.join(words)

    def engine(self, *gates, patience="60"):
        os.environ["KVSCOPE_ENGINE_TIMEOUT"] = patience
        self.addCleanup(os.environ.pop, "KVSCOPE_ENGINE_TIMEOUT", None)
        engine = Engine([str(engine_path())])
        self.addCleanup(engine.close)
        engine.load(str(SAMPLE), list(gates))
        return engine

    def channel_gate(self):
        """A gate whose score is channel 5 of the key: every other weight is 0."""
        path = self.folder / "gate"
        path.mkdir()
        text = {"format": "kvscope-gate", "version": 1, "kind": "kvpop_linear", "window": 16}
        (path / "gate.json").write_text(json.dumps(text))
        weight = np.zeros((6, 4, 128), np.float32)
        weight[..., 5] = 1
        write_safetensors(path / "gate.safetensors", {"w2": weight, "b2": np.zeros((6, 4))})
        return str(path)

    @needs_engine
    @needs_sample
    def test_a_scorer_in_python_keeps_token_for_token_what_the_same_gate_keeps(self):
        built_in = self.engine(self.channel_gate())
        for function in ("channel", "both"):
            piped = self.engine(self.gate(function))
            for policy in (
                "top-k:budget=48,sinks=4,window=16",
                "top-k:budget=48,window=16,capacity=pooled,interval=8",
                "threshold:threshold=0.2,window=16",
            ):
                with self.subTest(function=function, policy=policy):
                    one, other = piped.run(TEXT, policy, 40), built_in.run(TEXT, policy, 40)
                    self.assertEqual(one.ids, other.ids)
                    np.testing.assert_array_equal(one.evict_at, other.evict_at)
                    np.testing.assert_array_equal(one.scores[..., :-1], other.scores[..., :-1])
                    self.assertLess(int((one.evict_at < one.n_queries).sum()), one.evict_at.size)
                    self.assertGreater(int((one.evict_at < one.n_queries).sum()), 0)

    @needs_engine
    @needs_sample
    def test_a_function_that_fails_ends_the_run_in_one_line_and_the_engine_goes_on(self):
        for function, found in {
            "raises": "its last message: lines",
            "narrow": "the scores have shape [150]; expected [KV heads, tokens] = [4, 150]",
            "nan": "layer 2, head 0, position 0: a score that is NaN",
            "sleeps": "no answer for 20 s",
        }.items():
            with self.subTest(function=function):
                engine = self.engine(self.gate(function), patience="20")
                with self.assertRaises(KvscopeError) as caught:
                    engine.run(TEXT, "top-k:budget=48,window=16", 8)
                line = str(caught.exception)
                self.assertIn(found, line)
                self.assertIn("pipe:", line)
                self.assertNotIn("\n", line)
                self.assertEqual(len(engine.run(TEXT, "streaming:window=32", 8).ids), 158)

    @needs_engine
    @needs_sample
    def test_a_function_that_is_not_there_ends_the_load_in_one_line(self):
        with self.assertRaisesRegex(KvscopeError, "no function nothing"):
            self.engine(self.gate("nothing"))
        with self.assertRaisesRegex(KvscopeError, "elsewhere.py: no such file"):
            self.engine(self.gate("channel").replace("my.py", "elsewhere.py"))

    @needs_engine
    @needs_sample
    def test_a_gates_file_that_names_a_command_starts_nothing(self):
        path, mark = self.folder / "evil", self.folder / "mark"
        path.mkdir()
        text = {"format": "kvscope-gate", "version": 1, "kind": "pipe", "command": f"touch {mark}"}
        (path / "gate.json").write_text(json.dumps(text))
        write_safetensors(path / "gate.safetensors", {"b2": np.zeros((6, 4))})
        with self.assertRaises(KvscopeError):
            self.engine(str(path))
        self.assertFalse(mark.exists())

    @needs_engine
    @needs_sample
    def test_a_trace_of_a_scorer_over_a_pipe_does_not_have_its_command(self):
        kvscope = program.find()
        gate, trace = self.gate("knorm"), self.folder / "a.h5"
        words = [kvscope, "run", str(SAMPLE), "--raw", "--prompt", "One day a cat sat on a mat. " * 12, "--gate", gate]
        words += ["--policy", "top-k:budget=48,window=16", "--max-tokens", "8", "--trace", str(trace), "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"my.py", trace.read_bytes())
        shown = subprocess.run([kvscope, "inspect", str(trace), "--json"], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("pipe: my.knorm, delay 1", shown)
        self.assertNotIn("my.py", shown)
        again = subprocess.run([kvscope, "what-if", str(trace), "top-k:budget=32,window=16"], capture_output=True, timeout=60)
        self.assertEqual(again.returncode, 0, again.stderr)
        words[words.index(gate)] = gate.replace("knorm", "late_nan")
        failed = subprocess.run([*words, "--overwrite"], capture_output=True, text=True, timeout=300)
        self.assertEqual(failed.returncode, 3)
        self.assertNotIn(b"my.py", trace.read_bytes())


class Serve(unittest.TestCase):
    """The module alone, without an engine."""

    def talk(self, score, frames, dtype="float32", **options):
        shape = {"n_layers": 3, "n_kv_heads": 2, "head_dim": 4, "hidden_size": 8, "dtype": dtype}
        greeting = json.dumps({"kvscope_scorer": 1, **shape}).encode() + b"\n"
        answers = io.BytesIO()
        scorer.serve(score, stdin=io.BytesIO(greeting + b"".join(frames)), stdout=answers, **options)
        line, _, rest = answers.getvalue().partition(b"\n")
        return json.loads(line), np.frombuffer(rest, np.float32)

    def frame(self, layers, n, *tensors, kind=1, sequence=7, first=20):
        head = struct.pack(f"<6I{len(layers)}I", kind, sequence, first, n, len(layers), 0, *layers)
        return head + b"".join(tensor.tobytes() for tensor in tensors)

    def test_all_layers_of_a_frame_are_answered_in_their_order(self):
        keys = np.arange(2 * 2 * 3 * 4, dtype=np.float32).reshape(2, 2, 3, 4)
        seen = []

        def score(layer, keys, positions, sequence):
            seen.append((layer, positions.tolist(), sequence))
            return keys.sum(-1) + 1000 * layer

        offer, answer = self.talk(score, [self.frame([0, 2], 3, keys)])
        self.assertEqual(offer, {"kvscope_scorer": 1, "name": "score", "reads": ["keys"], "delay": 1})
        expected = keys.sum(-1) + np.array([0, 2000], np.float32)[:, None, None]
        np.testing.assert_array_equal(answer.reshape(2, 2, 3), expected)
        self.assertEqual(seen, [(0, [20, 21, 22], 7), (2, [20, 21, 22], 7)])

    def test_numbers_in_bfloat16_arrive_as_they_are(self):
        hidden = np.array([[1.5, -2, 0.25, 3e38, 0, -0.0078125, 7, 1]], np.float32)
        half = (hidden.view(np.uint32) >> 16).astype(np.uint16)
        taken = []

        def score(hidden):
            taken.append(hidden.copy())
            return np.zeros((2, 1))

        offer, _ = self.talk(score, [self.frame([1], 1, half)], dtype="bfloat16")
        self.assertEqual(offer["reads"], ["hidden"])
        np.testing.assert_allclose(taken[0], hidden, rtol=2**-8)

    def test_a_text_that_is_over_is_told(self):
        over = []
        _, answer = self.talk(lambda keys: keys, [self.frame([], 0, kind=2)], reads=["keys"], end=over.append)
        self.assertEqual((over, answer.size), ([7], 0))


if __name__ == "__main__":
    unittest.main()
