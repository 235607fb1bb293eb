"""The engine as a process: greeting, requests, cancel in mid-run, errors, and what a program may count on."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy as np
import tiny

from kvscope import wire
from kvscope.wire import i32, read_f32, read_i32


class Client:
    """The program's side of the pipe."""

    def __init__(self, *arguments):
        path = os.pathsep.join([tiny.sys.path[0], os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kvscope.engine", "--threads", "1", "--device", "cpu", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.channel, self.last = wire.Channel(self.process.stdout, self.process.stdin), 0
        self.hello = self.channel.read()

    def send(self, **message):
        self.last += 1
        self.channel.send({"id": self.last, **message})
        return self.last

    def answer(self, request):
        """All events of a request, the last is done or error."""
        events = []
        while not events or events[-1]["type"] not in ("done", "error"):
            event = self.channel.read()
            assert event is not None, self.process.stderr.read().decode()
            if event["id"] == request:
                events.append(event)
        return events

    def ask(self, **message):
        return self.answer(self.send(**message))

    def run(self, policy="full", n=30, **more):
        return dict(
            type="run",
            prompt_ids=i32(tiny.ids(n)),
            raw=True,
            policy=policy,
            max_tokens=8,
            sampling={},
            oracle=False,
            stop_at_eos=False,
            **more,
        )

    def close(self):
        self.process.stdin.close()
        code, text = self.process.wait(20), self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, text


@tiny.needs_torch
class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = tiny.save(os.path.join(cls.folder.name, "tiny"))
        cls.file = os.path.join(cls.folder.name, "my.py")
        with open(cls.file, "w") as file:
            file.write(
                textwrap.dedent("""
                import time
                def noisy(keys):
                    print("a print of the method")
                    return -keys.norm(dim=-1)
                def slow(keys):
                    time.sleep(0.02)
                    return -keys.norm(dim=-1)
                def fails(layer, keys):
                    raise RuntimeError("on purpose")
                """)
            )
        cls.client = Client(
            "--no-kvpress", *[a for n in ("noisy", "slow", "fails") for a in ("--method", f"{cls.file}:{n}")]
        )
        cls.loaded = cls.client.ask(type="load", model=cls.model, device="auto", dtype="auto", gates=[])[-1]

    @classmethod
    def tearDownClass(cls):
        code, text = cls.client.close()
        cls.folder.cleanup()
        assert code == 0, text
        assert "a print of the method" in text

    def test_greeting(self):
        hello = self.client.hello
        self.assertEqual((hello["type"], hello["version"], hello["cuda"]), ("hello", 2, tiny.torch.cuda.is_available()))
        self.assertIn("kvscope.engine", hello["name"])
        self.assertEqual([p["name"] for p in hello["policies"][:3]], ["my.noisy", "my.slow", "my.fails"])
        self.assertEqual(hello["builtin_policies"], ["full", "streaming", "top-k", "threshold"])
        self.assertIn("run", hello["serves"])
        self.assertNotIn("job.eval", hello["serves"])

    def test_load(self):
        info = self.loaded["model"]
        self.assertEqual(
            (info["name"], info["architecture"], info["n_layers"], info["n_kv_heads"], info["n_heads"]),
            ("tiny", "MistralForCausalLM", 4, 2, 4),
        )
        self.assertEqual(self.loaded["local_layers"], [])
        self.assertEqual(self.loaded["default_policy"], self.client.hello["default_policy"])

    def test_run(self):
        events = self.client.ask(
            **self.client.run(
                "my.noisy:budget=20,sinks=2,window=6",
            )
        )
        self.assertEqual([e["type"] for e in events], ["started", "progress"] + ["step"] * 9 + ["done"])
        self.assertEqual(events[0]["policy"], "my.noisy:budget=20,sinks=2,window=6")
        self.assertEqual(wire.unpool(events[0]["pieces"]), [bytes([t]) for t in tiny.ids(30)])
        self.assertEqual(events[-1]["status"], "complete")

    def test_text_and_chat(self):
        ask = {**self.client.run(), "prompt": "hi"}
        del ask["prompt_ids"]
        raw, chat = self.client.ask(**ask)[0], self.client.ask(**{**ask, "raw": False})[0]
        self.assertEqual(bytes(read_i32(raw, "ids").tolist()), b"hi")
        self.assertEqual(bytes(read_i32(chat, "ids").tolist()), b"user: hi\nassistant:")

    def test_cancel_in_mid_run(self):
        start = time.time()
        request = self.client.send(**{**self.client.run("my.slow:budget=64,window=8"), "max_tokens": 400})
        for _ in range(3):
            self.client.channel.read()
        self.client.send(type="cancel", target=request)
        events = self.client.answer(request)
        self.assertEqual(events[-1]["status"], "cancelled")
        self.assertLess(len(events), 100)
        self.assertLess(time.time() - start, 10)

    def test_cancel_before_its_turn(self):
        first = self.client.send(**{**self.client.run("my.slow:budget=64,window=8"), "max_tokens": 5})
        second = self.client.send(**self.client.run())
        self.client.send(type="cancel", target=second)
        self.assertEqual(self.client.answer(first)[-1]["status"], "complete")
        self.assertEqual([e["type"] for e in self.client.answer(second)], ["done"])

    def test_policy_in_mid_run(self):
        request = self.client.send(**{**self.client.run("my.slow:budget=30,sinks=2,window=6"), "max_tokens": 60})
        for _ in range(3):
            self.client.channel.read()
        self.client.send(type="policy", target=request, policy="my.slow:budget=16,sinks=2,window=6")
        self.client.send(type="policy", target=request, policy="my.slow:budget=16,sinks=3,window=6")
        events = self.client.answer(request)
        self.assertEqual(events[-1]["status"], "complete")
        self.assertEqual([e["policy"] for e in events if e["type"] == "policy"], ["my.slow:budget=16,sinks=2,window=6"])
        self.assertEqual(sum(e["type"] == "log" for e in events), 1)

    def test_errors(self):
        for message, why in (
            (dict(type="job", job="eval", args={}), "job"),
            (dict(type="load", model="/no/such/folder"), "no such"),
            (dict(type="load", model=self.model, gates=["x"]), "--method"),
            (self.client.run("my.fails:budget=64,window=8"), "on purpose"),
            (self.client.run("kvpop"), "no policy"),
            (self.client.run("hf.kvpress.KnormPress"), "kvpress"),
            (dict(type="run"), "prompt"),
            (dict(type="attention", ids=i32([1, 2]), layer=9, tokens=i32([0])), "layer"),
            (dict(type="score", ids=b"abc"), "numbers"),
        ):
            event = self.client.ask(**message)[-1]
            self.assertEqual(event["type"], "error", message)
            self.assertIn(why, " ".join(str(event[k]) for k in ("file", "where", "found", "expected", "hint")))
            self.assertNotIn("\n", event["found"])
        self.assertEqual(self.client.ask(type="load", model=self.model)[-1]["type"], "done")
        self.assertEqual(self.client.ask(type="doctor")[-1]["checks"][0]["ok"], True)

    def test_other_requests(self):
        ids = i32(tiny.ids(20))
        done = self.client.ask(type="score", ids=ids, policy="streaming:sinks=1,window=4", chunk=1)[-1]
        self.assertEqual(len(read_f32(done, "logprobs")), 20)
        done = self.client.ask(type="attention", ids=ids, layer=3, tokens=i32([2]))[-1]
        self.assertEqual(read_f32(done, "probability").shape, (4 * 20,))
        done = self.client.ask(type="gate_scores", ids=ids)[-1]
        self.assertEqual(read_f32(done["scorers"][0], "scores").shape, (4 * 2 * 20,))

    def test_oracle_and_output_error(self):
        events = self.client.ask(
            **{**self.client.run("top-k:budget=16,sinks=2,window=6", output_error=True), "oracle": True}
        )
        self.assertEqual([e["type"] for e in events][-3:], ["oracle", "output_error", "done"])
        self.assertTrue(np.isfinite(read_f32(events[-3], "future_mass")).any())


@tiny.needs_torch
class Ends(unittest.TestCase):
    def test_a_torn_stream(self):
        client = Client("--no-kvpress")
        client.process.stdin.write(b"\x05\x00\x00\x00\xff")
        client.process.stdin.close()
        self.assertEqual(client.channel.read()["type"], "error")
        self.assertEqual(client.process.wait(20), 3)
        client.process.stdout.close()
        client.process.stderr.close()

    def test_quit_and_bad_arguments(self):
        client = Client("--no-kvpress")
        client.send(type="quit")
        self.assertEqual(client.process.wait(20), 0)
        client.close()
        out = subprocess.run(
            [sys.executable, "-m", "kvscope.engine", "--no-kvpress", "--method", "no.py:x"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": tiny.sys.path[0]},
        )
        self.assertEqual((out.returncode, out.stdout), (1, ""))
        self.assertTrue(out.stderr.startswith("error: no.py: no such file"), out.stderr)


if __name__ == "__main__":
    unittest.main()
