"""One's own methods: how they are declared, run and refused; and the declarations of everything."""

import hashlib
import os
import re
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy as np
import tiny

from kvscope.wire import read_f32, read_i32

if tiny.HAS_TORCH:
    from test_models import gather, model_of, run

    from kvscope.catalog import Catalog
    from kvscope.errors import KvscopeError
    from kvscope.methods import load_method
    from kvscope.policy_text import check_budget

SOURCE = '''
import dataclasses
import torch
from typing import Literal

def mine(layer, keys, values, alpha: float = 0.5, kind: Literal["sum", "product"] = "sum", flip: bool = False):
    """Long values, short keys."""
    k, v = keys.norm(dim=-1), values.norm(dim=-1)
    out = alpha * v - (1 - alpha) * k if kind == "sum" else v / k
    return -out if flip else out
mine.ranges = {"alpha": (0, 1)}

@dataclasses.dataclass
class Counter:
    """Even tokens."""
    step: int = 2
    rule = "threshold"
    title = "Every n-th"
    def __post_init__(self):
        self.seen = 0
    def start(self, model):
        self.n_layers = len(model.model.layers)
    def score(self, layer, positions, hidden, queries, keys_so_far):
        assert hidden.shape[0] == len(positions) == queries.shape[1] and keys_so_far.shape[1] == positions[-1] + 1
        self.seen += 1
        return (positions % self.step == 0).float().expand(keys_so_far.shape[0], -1) - 0.5

class Net(torch.nn.Module):
    def __init__(self, scale: float = 1.0):
        super().__init__()
        torch.manual_seed(1)
        self.weight, self.scale = torch.nn.Linear(16, 1), scale
    def forward(self, keys):
        return self.weight(keys)[..., 0] * self.scale

class Bad:
    def score(self, keys):
        raise ValueError("no\\nluck")

def wide(keys):
    return keys

def open_ended(keys, sinks: int = 3):
    return keys[..., 0]
def no_default(keys, x):
    return keys[..., 0]
def says_nan(keys):

    return keys[..., 0] * float("nan")
'''


@tiny.needs_torch
class Own(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "my.py")
        with open(cls.path, "w") as file:
            file.write(textwrap.dedent(SOURCE))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def catalog(self, *names):
        return Catalog([load_method(f"{self.path}:{name}") for name in names], presses=[])

    def test_declared(self):
        policy = self.catalog("mine").policies[0].declaration()
        self.assertEqual(policy["name"], "my.mine")
        self.assertEqual(policy["definition"], "Long values, short keys.")
        self.assertEqual(
            [p["name"] for p in policy["parameters"]], ["budget", "sinks", "window", "alpha", "kind", "flip"]
        )
        self.assertEqual(
            policy["parameters"][3],
            {
                "name": "alpha",
                "kind": "real",
                "unit": "",
                "default": 0.5,
                "min": 0.0,
                "max": 1.0,
                "definition": "Argument alpha of mine.",
            },
        )
        self.assertEqual(policy["parameters"][4]["choices"], ["sum", "product"])
        other = self.catalog("Counter").policies[0].declaration()
        self.assertEqual((other["title"], other["rule"], other["budget"]), ("Every n-th", "threshold", False))

    def test_a_changed_file_is_another_revision(self):
        def declared():
            return load_method(f"{path}:mine").policy.declaration()

        path = os.path.join(self.folder.name, "changing.py")
        revisions = []
        for factor in (1, 2, 1):  # files of one size, written within one tick of the clock
            source = f'def mine(keys):\n    "Factor {factor}."\n    return keys[..., 0] * {factor}\n'
            with open(path, "w") as file:
                file.write(source)
            os.utime(path, (0, 0))
            self.assertEqual(declared()["definition"], f"Factor {factor}.")
            self.assertEqual(declared()["revision"], hashlib.sha256(source.encode()).hexdigest()[:12])
            revisions.append(declared()["revision"])
        self.assertEqual(revisions[0], revisions[2])
        self.assertNotEqual(revisions[0], revisions[1])
        for policy in Catalog(presses=[]).policies:  # what comes with the package changes with its version
            self.assertNotIn("revision", policy.declaration())

    def test_a_function_runs(self):
        catalog, model = self.catalog("mine"), model_of("mistral")
        events, _ = run(model, "my.mine:budget=20,sinks=2,window=6,kind=product,flip=true", catalog=catalog)
        self.assertEqual(events[0]["policy"], "my.mine:budget=20,sinks=2,window=6,alpha=0.5,kind=product,flip=true")
        self.assertEqual(events[0]["scorer_gate"], "my.mine")
        index = gather(events, "score_index", read_i32)
        self.assertEqual(len(index) // 3, model.n_layers * model.n_kv_heads * 48)
        plain, _ = run(model, "top-k:budget=20,sinks=2,window=6", catalog=catalog)  # the same score, other parameters
        self.assertFalse(
            np.array_equal(gather(plain, "score_value", read_f32), gather(events, "score_value", read_f32))
        )

    def test_a_class_runs(self):
        model = model_of("qwen3_next")
        events, _ = run(model, "my.Counter:step=3,threshold=0,window=4,sinks=0", catalog=self.catalog("Counter"), new=4)
        lost = gather(events, "lifetimes", read_i32).reshape(-1, 4)
        self.assertEqual({(int(t) % 3 == 0) for t in lost[:, 2]}, {False})
        self.assertTrue((lost[:, 3] == lost[:, 2] + 4).all())

    def test_a_module_runs(self):
        events, done = run(
            model_of("mistral"), "my.Net:budget=20,sinks=2,window=6,scale=-2", catalog=self.catalog("Net")
        )
        self.assertEqual(done["status"], "complete")

    def test_nan_leaves_first(self):
        events, _ = run(model_of("mistral"), "my.says_nan:budget=20,sinks=2,window=6", catalog=self.catalog("says_nan"))
        lost = gather(events, "lifetimes", read_i32).reshape(-1, 4)
        self.assertTrue((lost[:, 3] - lost[:, 2] == 6).all())  # of equal scores the older stays

    def test_refused_in_one_line(self):
        for name, why in (("open_ended", "sinks"), ("no_default", "argument x"), ("missing", "no missing")):
            with self.assertRaises(KvscopeError) as caught:
                self.catalog(name)
            self.assertIn(why, caught.exception.line())
        for name, why in (("Bad", "ValueError: no luck"), ("wide", "shape (2, 40, 16)")):
            with self.assertRaises(KvscopeError) as caught:
                run(model_of("mistral"), f"my.{name}:budget=40,window=8", catalog=self.catalog(name), new=30)
            self.assertIn(why, caught.exception.line())
            self.assertNotIn("\n", caught.exception.line())
        for text in ("nothing", "no.py:x", self.path):
            with self.assertRaises(KvscopeError):
                load_method(text)

    def test_every_declaration_fits_the_greeting(self):
        catalog = Catalog()
        described = catalog.describe()
        self.assertLessEqual(len(described["policies"]), 256)
        for policy in catalog.policies:
            policy.check()
            spec = catalog.parse(policy.name)
            self.assertEqual(catalog.parse(spec.text()).text(), spec.text())
        catalog.parse(described["default_policy"])


@tiny.needs_torch
class Printed(unittest.TestCase):
    """What the pages print, at the shortest run that they print it for: "Why?" in two tokens and 64 of an answer."""

    def setUp(self):
        root = Path(__file__).resolve().parents[2]
        self.pages = [(root / name).read_text() for name in ("docs/how-to/python.md", "engine/python/README.md")]

    def test_every_policy_fits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "my.py")
            with open(path, "w") as file:
                file.write("def mine(keys, alpha: float = 0.5):\n    return keys[..., 0]\n")
            catalog = Catalog([load_method(f"{path}:mine")], presses=[])
        texts = re.findall(r'--policy ((?:my|hf)\.\w+:\S+) --prompt "Why\?"', self.pages[0])
        self.assertGreaterEqual(len(texts), 2)
        for text in texts:
            spec = catalog.parse(text)
            sinks, window = spec.tokens("sinks", 66), spec.tokens("window", 66)
            self.assertGreaterEqual(check_budget(spec, 66, sinks, window), 0)

    def test_every_engine_is_a_program_that_comes_with_the_package(self):
        project = (Path(__file__).resolve().parents[2] / "engine/python/pyproject.toml").read_text()
        for page in self.pages:
            programs = re.findall(r'Engine\(\["([\w-]+)"', page)
            self.assertTrue(programs)
            for program in programs:
                self.assertIn(f"\n{program} = ", project)


if __name__ == "__main__":
    unittest.main()
