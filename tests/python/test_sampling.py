"""Sampling against plain definitions."""

import unittest

import numpy as np
import tiny  # noqa: F401

from kvscope.sampling import Mersenne64, Sampler, SamplingSpec


class Random(unittest.TestCase):
    def test_the_standards_number(self):
        random = Mersenne64(5489)
        for _ in range(9999):
            random.next()
        self.assertEqual(random.next(), 9981545732273789042)  # [rand.predef] of the C++ standard


class Draw(unittest.TestCase):
    def setUp(self):
        self.logits = np.random.default_rng(3).normal(0, 3, 500).astype(np.float32)

    def test_same_seed_same_tokens(self):
        def draw(seed):
            sampler = Sampler(SamplingSpec(temperature=1.0, top_p=0.9, seed=seed))
            return [sampler.next(self.logits) for _ in range(50)]

        self.assertEqual(draw(4), draw(4))
        self.assertNotEqual(draw(4), draw(5))

    def test_greedy_takes_the_lower_id(self):
        logits = np.array([0, 3, np.nan, 3, 1], np.float32)
        self.assertEqual(Sampler(SamplingSpec()).next(logits), 1)

    def test_candidates(self):
        order = np.argsort(-self.logits)
        ids, _ = Sampler(SamplingSpec(temperature=1, top_k=5)).candidates(self.logits)
        self.assertEqual(sorted(order[:5]), ids.tolist())
        p = np.exp(self.logits.astype(float) - self.logits.max())
        p /= p.sum()
        for top_p in (0.1, 0.5, 0.95):
            n = int(np.argmax(np.cumsum(p[order]) >= top_p)) + 1
            ids, weights = Sampler(SamplingSpec(temperature=1, top_p=top_p)).candidates(self.logits)
            self.assertEqual(sorted(order[:n]), ids.tolist())
        ids, _ = Sampler(SamplingSpec(temperature=1, min_p=0.3)).candidates(self.logits)
        self.assertEqual(np.flatnonzero(p >= 0.3 * p.max()).tolist(), ids.tolist())

    def test_penalty(self):
        logits = np.array([2.0, -1.0, 1.9], np.float32)
        self.assertEqual(Sampler(SamplingSpec(repetition_penalty=2.0)).next(logits, [0, 1]), 2)

    def test_frequencies(self):
        logits = np.log(np.array([0.5, 0.3, 0.2], np.float32))
        sampler = Sampler(SamplingSpec(temperature=1, seed=1))
        counts = np.bincount([sampler.next(logits) for _ in range(20000)], minlength=3) / 20000
        np.testing.assert_allclose(counts, [0.5, 0.3, 0.2], atol=0.015)


if __name__ == "__main__":
    unittest.main()
