"""The client of an engine: runs as arrays, and every failure in one line. The engine is a script of this file."""

import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import tiny

from kvscope import wire
from kvscope.client import Engine
from kvscope.errors import KvscopeError
from kvscope.wire import NEVER

ENGINE = f"""
import sys
sys.path.insert(0, {tiny.sys.path[0]!r})
from kvscope.wire import Channel, f32, i32, pool

channel = Channel(sys.stdin.buffer, sys.stdout.buffer)
channel.send({{"type": "hello", "version": int(sys.argv[1]), "engine": "1", "name": "scripted 1"}})
while (asked := channel.read()) is not None:
    def send(**event):
        channel.send({{"id": asked["id"], **event}})
    if asked["type"] == "load":
        send(type="progress", phase="load", value=1, max=1, text="")
        send(type="done", model={{"name": asked["model"], "n_layers": 2, "n_kv_heads": 1, "vocab_size": 9}}, load_s=0.0)
    elif asked["policy"] == "dies":
        sys.exit("a last line")
    elif asked["policy"] != "streaming":
        send(type="error", code=1, file="policy", where="", found="no such policy", expected="streaming", hint="")
    else:
        send(type="started", n_positions=4, prompt_len=3, ids=i32([5, 6, 7]), policy="streaming:sinks=0,window=2",
             pieces=pool([b"a", b"b", b"c"]))
        send(type="step", n_tokens=3, ids=b"", pieces=pool([]), logprobs_from=0, logprobs=f32([float("nan"), -1, -2]),
             lifetimes=i32([[0, 0, 0, 2]]), score_index=i32([[1, 0, 2]]), score_value=f32([0.5]))
        send(type="step", n_tokens=4, ids=i32([8]), pieces=pool([b"d"]), logprobs_from=3, logprobs=f32([-3]),
             lifetimes=i32([[1, 0, 1, 3]]), score_index=b"", score_value=b"")
        send(type="done", status="complete")
"""


class Client(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = Path(folder.name) / "engine.py"
        self.script.write_text(ENGINE)

    def engine(self, version=wire.PROTOCOL_VERSION):
        engine = Engine([sys.executable, str(self.script), str(version)])
        self.addCleanup(engine.close)
        return engine

    def test_a_run(self):
        engine = self.engine()
        self.assertEqual(engine.name, "scripted 1")
        self.assertEqual(engine.load("a model")["n_layers"], 2)
        run = engine.run([5, 6, 7], "streaming")
        run.check()
        self.assertEqual((run.ids, run.prompt_len, run.n_queries), ([5, 6, 7, 8], 3, 4))
        np.testing.assert_array_equal(run.evict_at, [[[2, NEVER, NEVER, NEVER]], [[NEVER, 3, NEVER, NEVER]]])
        np.testing.assert_array_equal(run.logprobs, np.float32([np.nan, -1, -2, -3]))
        self.assertEqual(run.scores[1, 0, 2], 0.5)
        self.assertEqual(
            (run.policy, run.method, run.pieces), ("streaming:sinks=0,window=2", "streaming", [b"a", b"b", b"c", b"d"])
        )

    def test_its_error_is_raised(self):
        engine = self.engine()
        engine.load("a model")
        with self.assertRaises(KvscopeError) as caught:
            engine.run([5], "other")
        self.assertEqual(caught.exception.line(), "policy: no such policy; expected streaming")
        self.assertEqual(engine.run([5, 6, 7], "streaming").prompt_len, 3)  # and it goes on

    def test_an_engine_that_ends(self):
        engine = self.engine()
        engine.load("a model")
        with self.assertRaises(KvscopeError) as caught:
            engine.run([5], "dies")
        self.assertIn("ended with 1: a last line", caught.exception.line())

    def test_no_engine(self):
        for command, why in ((["/no/such/engine"], "No such file"), (["true"], "ended with 0")):
            with self.assertRaises(KvscopeError) as caught:
                Engine(command)
            self.assertIn(why, caught.exception.line())
        with self.assertRaises(KvscopeError) as caught:
            self.engine(version=1)
        self.assertIn("version", caught.exception.line())


if __name__ == "__main__":
    unittest.main()
