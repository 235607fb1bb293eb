"""The comparison with kvpress (tests/python/kvpress_check) on a small random model, and its page."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import tiny

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tests/python/kvpress_check"))

if tiny.HAS_KVPRESS:
    import kvpress
    from cases import CASES
    from compare import overlap
    from measure import Check, best, engines
    from models import random_llama, subject
    from page import cell, models_table, reasons


@tiny.needs_kvpress
class KvpressCheck(unittest.TestCase):
    def test_two_engines_and_kvpress(self):
        own = Path(os.environ.get("KVSCOPE", "")).parent / "kvscope-engine"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = random_llama(folder / "llama", layers=2, hidden=128)
            one = subject("Random Llama", "2 layers", model, [0, 300], 120)
            with engines(str(own) if own.is_file() else "", folder) as both:
                check = Check(one, [80], both, folder)
                rows = check.rows()
                same = check.same_rule(80, 4) if "ours" in both else []
            text = models_table(one, rows) + reasons(rows)
        found = {}
        for row in rows:  # the first of a title: several cases have rows of their layer 0
            found.setdefault(row.title, row)
        self.assertEqual({case.title for case in CASES} - set(found), set())
        rule = (
            "StreamingLLM",
            "SnapKV",
            "TOVA",
            "Expected Attention",
            "- newest token kept",
            "DuoAttention",
        )
        for title in (*rule, "- layer 0"):
            for overlap_of in (found[title].ours, found[title].python):
                self.assertTrue(overlap_of is None or overlap_of.all, (title, overlap_of))
        # In layer 0, a token that occurs twice has the same key but for its rotation, so the norms are equal. Rounding
        # decides which stays: a difference of 4 ulp at most (5e-7).
        norm = found["- layer 0, newest token kept"]
        for overlap_of in (norm.ours, norm.python):
            self.assertTrue(overlap_of is None or overlap_of.all or overlap_of.gap < 5e-7, overlap_of)
        self.assertIsNotNone(found["- layer 0"].python)
        if "ours" in both:
            self.assertTrue(all(found[title].ours is not None for title in rule))
            self.assertLess(found["H2O, observed attention"].ours.mean, 1)
            self.assertEqual([row.tokens for row in same], [0, 0, 0])
        self.assertEqual(text.count("| SnapKV |"), 1)
        self.assertIn("identical in all 8", text)

    def test_overlap(self):
        ours, theirs = np.zeros((2, 1, 1, 2, 8), bool)
        ours[0, 0, 0, :4] = theirs[0, 0, 0, 1:5] = ours[0, 0, 1, 2:4] = theirs[0, 0, 1, 2:4] = True
        scores = np.zeros((1, 1, 2, 8))
        scores[0, 0, 0] = [0.9, 3, 3, 3, 1, 0, 0, 0]
        found = overlap(ours, theirs, scores)
        self.assertEqual((found.mean, found.least, found.identical, found.heads), (0.875, 0.75, 1, 2))
        self.assertAlmostEqual(found.gap, 0.1)
        self.assertIn("1 of 2", cell(found))
        self.assertEqual(cell(overlap(ours, ours)), "identical in all 2")

    def test_best(self):
        scores = np.array([5.0, 1, 4, 3, 0])[None, None, None]
        self.assertEqual(np.flatnonzero(best(scores, 3)).tolist(), [0, 2, 4])
        self.assertEqual(np.flatnonzero(best(scores, 1)).tolist(), [4])

    def test_the_page_has_every_press(self):
        page = (ROOT / "docs/kvpress.md").read_text()
        for name in kvpress.__all__:
            press = getattr(kvpress, name)
            if isinstance(press, type) and issubclass(press, kvpress.BasePress):
                if name not in ("BasePress", "ScorerPress"):
                    self.assertIn(f"| {name} ", page)


if __name__ == "__main__":
    unittest.main()
