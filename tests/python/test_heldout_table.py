"""samples/recipes/heldout_table.py: a table of one group of rows, and of answers that are there."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@unittest.skipUnless("KVSCOPE" in os.environ, "needs a built kvscope: KVSCOPE=build/release/bin/kvscope")
class HeldoutTable(unittest.TestCase):
    def make(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        text = ROOT / "samples/prompts/heldout.txt"
        script = [sys.executable, ROOT / "samples/recipes/heldout_table.py", folder.name, "--model", ROOT / "samples/models/kvscope-tiny"]
        script += ["--text", text, "--length", "128", "--pieces", "2", "--questions", "0", "--device", "cpu"]
        script += ["--rows", "^window$", "--kvscope", os.environ["KVSCOPE"]]
        run = lambda more: subprocess.run(script + more, capture_output=True, text=True)
        return run(list(options)), run(["--table-only"])

    def test_rows_have_dense_and_each_policy_paired_and_are_there_without_measuring(self):
        done, again = self.make()
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()[2:]]
        self.assertEqual([row[2] for row in rows], ["`full`"] + [f"`streaming:sinks=4,window={w}`" for w in (60, 28, 12)])
        self.assertTrue(rows[0][3].startswith("+0.0000"), rows[0])
        self.assertTrue(all("n = 2" in row[3] for row in rows), rows)
        self.assertLess(float(rows[3][4]), float(rows[1][4]))  # cache size
        self.assertEqual(again.stdout, done.stdout)


if __name__ == "__main__":
    unittest.main()
