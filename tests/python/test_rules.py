"""Lifetimes against a plain loop over queries, and policy texts."""

import unittest

import numpy as np
import tiny  # noqa: F401

from kvscope.errors import KvscopeError
from kvscope.policies import BUILTIN
from kvscope.policy_text import parse_policy
from kvscope.rules import Geometry, LifetimeRule
from kvscope.wire import NEVER


def plain_top_k(scores, sinks, window, k):
    """The definition: at every query the kept set is cut to its k best."""
    kept, evict_at = [], np.full(len(scores), NEVER)
    for q in range(len(scores)):
        t = q - window
        if t < sinks:
            continue
        kept.append(t)
        if len(kept) > k:
            value = [(-np.inf if np.isnan(scores[i]) else scores[i], -i) for i in kept]
            lost = kept.pop(value.index(min(value)))
            evict_at[lost] = q
    return evict_at


def run(kind, scores, geometry, chunks, **more):
    n_layers, n_kv, n = scores.shape
    rule = LifetimeRule(kind, geometry, n_layers, n_kv, n, **more)
    for layer in range(n_layers):
        first = 0
        for size in chunks:
            rule.absorb(layer, first, size, scores[layer, :, first : first + size])
            first += size
    return rule


class Lifetimes(unittest.TestCase):
    def setUp(self):
        self.n = 60
        values = np.random.default_rng(0).integers(0, 12, (2, 3, self.n)).astype(np.float32)  # with ties
        values[0, 0, 5:50:7] = np.nan
        self.scores = values

    def test_top_k(self):
        for sinks, window, k in ((0, 1, 1), (2, 5, 7), (4, 16, 0), (3, 8, 100)):
            rule = run("top_k", self.scores, Geometry(sinks, window, k), [30] + [1] * 30)
            for layer in range(2):
                for head in range(3):
                    expected = plain_top_k(self.scores[layer, head], sinks, window, k)
                    np.testing.assert_array_equal(rule.evict_at[layer, head], expected)

    def test_chunks_do_not_matter(self):
        one = run("top_k", self.scores, Geometry(2, 5, 7), [60])
        other = run("top_k", self.scores, Geometry(2, 5, 7), [1] * 60)
        np.testing.assert_array_equal(one.evict_at, other.evict_at)
        self.assertEqual(sorted(one.facts.lifetimes), sorted(other.facts.lifetimes))

    def test_contests_say_what_happened(self):
        rule = run("top_k", self.scores, Geometry(2, 5, 7), [60])
        rows = np.frombuffer(rule.facts.fields()["contests"], "<i4").reshape(-1, 8)
        effective = rows[:, 6:].copy().view(np.float32)
        for (q, layer, head, new, boundary, evicted, *_), (a, b) in zip(rows, effective):
            self.assertEqual(rule.evict_at[layer, head, evicted], q)
            self.assertEqual(evicted, boundary if a > b else new)
            self.assertEqual(new, q - 5)

    def test_threshold_and_streaming(self):
        rule = run("threshold", self.scores, Geometry(2, 5, 0), [25, 35], threshold=6)
        out = np.arange(self.n) + 5
        gone = ~(self.scores >= 6) & (np.arange(self.n) >= 2) & (out < self.n)
        np.testing.assert_array_equal(rule.evict_at, np.where(gone, out, NEVER))
        rule = run("streaming", self.scores, Geometry(2, 5, 0), [25, 35])
        gone = (np.arange(self.n) >= 2) & (out < self.n)
        np.testing.assert_array_equal(rule.evict_at[1, 2], np.where(gone, out, NEVER))

    def test_local_layers(self):
        rule = run("full", self.scores, Geometry(0, 64, 0), [60], windows=[0, 9])
        self.assertTrue((rule.evict_at[0] == NEVER).all())
        out = np.arange(self.n) + 9
        np.testing.assert_array_equal(rule.evict_at[1, 0], np.where(out < self.n, out, NEVER))

    def test_decisions_wait_for_the_chunk(self):
        rule = run("streaming", self.scores, Geometry(0, 5, 0), [16, 16, 16, 12], chunk=16)
        out = -(-(np.arange(self.n) + 5) // 16) * 16
        np.testing.assert_array_equal(rule.evict_at[0, 0], np.where(out <= self.n, out, NEVER)[: self.n])

    def test_a_smaller_budget(self):
        rule = run("top_k", self.scores, Geometry(2, 5, 7), [60])
        before = (rule.evict_at > 60).sum(-1)
        rule.change(Geometry(2, 5, 3), 0.0, 60)
        np.testing.assert_array_equal(before - (rule.evict_at > 60).sum(-1), 4)


class Texts(unittest.TestCase):
    def test_round_trip(self):
        for text, canonical in (
            ("full", "full"),
            ("top-k:window=16,budget=32", "top-k:budget=32,sinks=4,window=16,decay=1,stride=1"),
            ("top-k:keep=25%,decay=1", "top-k:keep=0.25,sinks=4,window=64,decay=1,stride=1"),
            ("top-k:compression=4x", "top-k:compression=4x,sinks=4,window=64,decay=1,stride=1"),
            (
                "threshold:threshold=-1e-3",
                "threshold:threshold=-0.001,strict=0,sinks=4,window=64,read=0,pool=0,drop=0.1,observe=256",
            ),
        ):
            spec = parse_policy(text, BUILTIN)
            self.assertEqual(spec.text(), canonical)
            self.assertEqual(parse_policy(spec.text(), BUILTIN), spec)

    def test_refused(self):
        for text, why in (
            ("nothing", "one of full"),
            ("top-k:x=1", "budget, sinks, window"),
            ("top-k:budget=1.5", "whole"),
            ("top-k:budget=5,keep=50%", "one of them"),
            ("top-k:sinks=1,sinks=2", "twice"),
            ("top-k:keep=0", "fraction"),
            ("top-k:window", "key=value"),
            ("top-k:decay=0.9", "decay=1"),
            ("threshold:threshold=nan", "number"),
            ("top-k:budget=0x10", "whole"),
        ):
            with self.assertRaises(KvscopeError) as caught:
                parse_policy(text, BUILTIN)
            self.assertIn(why, caught.exception.line(), text)
        with self.assertRaises(KvscopeError):
            Geometry.of(parse_policy("top-k:budget=10,window=16", BUILTIN), 100)


if __name__ == "__main__":
    unittest.main()
