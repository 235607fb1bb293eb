"""samples/recipes/make_table.py: what it trains, in which order, and the sweep that it runs."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "samples/recipes/make_table.py"
# A program in kvscope's place: it writes what it was asked, and fails for a recipe with "bad" in its name.
STUB = """#!/bin/sh
printf '%s\\n' "$*" >> "$(dirname "$0")/calls"
case "$2" in *bad*) exit 2;; esac
"""
TABLE = {
    "name": "t",
    "train": {
        "late": {"recipe": "gate.json", "base": "train:model", "overrides": {"seed": 2}},
        "model": {"recipe": "model.json", "data": "text.txt"},
    },
    "model": "train:model",
    "texts": ["text.txt"],
    "policies": ["tova:keep=50%", {"policy": "wg-kv", "gates": ["train:late/wg-kv-0.01", "named"], "model": "other"}],
}


class MakeTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        for name in ("gate.json", "model.json", "bad.json", "text.txt"):
            (self.folder / name).write_text("{}")
        self.stub = self.folder / "stub"
        self.stub.write_text(STUB)
        self.stub.chmod(0o755)

    def make(self, table, *options, kvscope=None):
        (self.folder / "t.json").write_text(json.dumps(table))
        return subprocess.run(
            [sys.executable, SCRIPT, self.folder / "t.json", self.folder / "out", "--kvscope", kvscope or self.stub]
            + list(options),
            capture_output=True,
            text=True,
        )

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_bases_are_trained_first_and_the_sweep_has_paths_from_anywhere(self):
        done = self.make(TABLE, "--data", "corpus", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        model, gate, sweep = self.calls()
        out = self.folder / "out"
        self.assertEqual(
            model, f"train {self.folder}/model.json --data {self.folder}/text.txt -o {out}/model --resume --device cpu"
        )
        self.assertEqual(
            gate,
            f"train {self.folder}/gate.json --data corpus -o {out}/late --resume --device cpu --base {out}/model "
            '--overrides {"seed": 2}',
        )
        self.assertEqual(sweep, f"sweep {out}/sweep.json -o {out}/table.h5 --overwrite --jobs 1")
        recipe = json.loads((out / "sweep.json").read_text())
        self.assertNotIn("train", recipe)
        self.assertEqual(recipe["model"], f"{out}/model")
        self.assertEqual(recipe["texts"], [f"{self.folder}/text.txt"])
        self.assertEqual(recipe["policies"][1]["gates"], ["late/wg-kv-0.01", "named"])
        self.assertEqual(recipe["policies"][1]["model"], "other")
        self.assertEqual(recipe["device"], "cpu")

    def test_one_failure_does_not_stop_the_others_but_the_sweep(self):
        table = {**TABLE, "train": {"bad": {"recipe": "bad.json"}, **TABLE["train"]}}
        done = self.make(table, "--data", "corpus", "--at-once", "2", "--only", "bad|model")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 2", done.stderr)
        self.assertEqual(sorted(call.split()[1].split("/")[-1] for call in self.calls()), ["bad.json", "model.json"])

    def test_wrong_tables_are_one_line(self):
        for table, options, message in (
            (TABLE, [], "train.late needs a text: give --data"),
            ({**TABLE, "train": {"a": {"recipe": "gate.json", "base": "train:b"}}}, [], "'train:b' is none of its entries"),
        ):
            done = self.make(table, *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    @unittest.skipUnless("KVSCOPE" in os.environ, "needs a built kvscope: KVSCOPE=build/release/bin/kvscope")
    def test_a_gate_of_two_steps_is_trained_and_measured(self):
        samples = ROOT / "samples"
        table = {
            "train": {
                "gate": {
                    "recipe": str(samples / "recipes/kvscope-tiny-wg-kv.json"),
                    "base": str(samples / "models/kvscope-tiny"),
                    "data": str(samples / "prompts/heldout.txt"),
                    "overrides": {
                        "data": {"length": 512, "heldout_share": 0.1},
                        "gate": {"batch": 1, "heldout_sequences": 1, "stages": [{"weight": 0.01, "steps": 2}]},
                    },
                }
            },
            "model": str(samples / "models/kvscope-tiny"),
            "texts": [str(samples / "prompts/heldout.txt")],
            "pieces": 1,
            "length": 64,
            "policies": [{"policy": "wg-kv:window=16", "gates": ["train:gate/wg-kv-0.01"]}],
        }
        done = self.make(table, "--device", "cpu", kvscope=os.environ["KVSCOPE"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("wg-kv:window=16 (gate/wg-kv-0.01)", done.stdout)
        again = self.make(table, "--device", "cpu", kvscope=os.environ["KVSCOPE"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue(again.stdout.startswith("heldout.txt, length 64"), again.stdout)  # nothing is trained again
        self.assertTrue(done.stdout.endswith(again.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main()
