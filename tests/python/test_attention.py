"""Attention in blocks against its definition, one query and key at a time."""

import math
import unittest

import numpy as np
import tiny

if tiny.HAS_TORCH:
    import torch

    from kvscope import attention


def plain(q, k, v, scores, q_pos, k_pos, evict_at, hidden):
    """The definition in attention.py, in double precision."""
    n_heads, n, _ = q.shape
    n_kv, m, dim = v.shape
    out = np.zeros((n_heads, n, dim))
    for h in range(n_heads):
        g = h // (n_heads // n_kv)
        for i in range(n):
            z, rows = [], []
            for j in range(m):
                at = int(k_pos[g, j])
                if at > q_pos[i] or (scores.window and q_pos[i] - at >= scores.window):
                    continue
                if (evict_at is not None and q_pos[i] >= evict_at[g, j]) or (hidden is not None and hidden[g, j]):
                    continue
                x = scores.scale * float(q[h, i].double() @ k[g, j].double())
                z.append(scores.softcap * math.tanh(x / scores.softcap) if scores.softcap else x)
                rows.append(j)
            total = sum(math.exp(x) for x in z) + (math.exp(float(scores.sinks[h])) if scores.sinks is not None else 0)
            for x, j in zip(z, rows):
                out[h, i] += math.exp(x) / total * v[g, j].double().numpy()
    return out


@tiny.needs_torch
class Blocks(unittest.TestCase):
    def check(self, window=0, softcap=0.0, sinks=False, gone=False, hidden=False, rows=1 << 24, per_head=False):
        torch.manual_seed(5)
        n_heads, n_kv, n, m, dim = 6, 2, 13, 29, 8
        q, k, v = torch.randn(n_heads, n, dim), torch.randn(n_kv, m, dim), torch.randn(n_kv, m, 5)
        q_pos, k_pos = torch.arange(m - n, m), torch.arange(m)
        k_heads = k_pos.expand(n_kv, m)
        if per_head:
            k_heads = torch.stack([torch.randperm(m), torch.randperm(m)])
        evict_at = None
        if gone:
            evict_at = torch.randint(1, 40, (n_kv, m)).int().maximum(k_heads.int() + 1)
        hide = None
        if hidden:
            hide = torch.rand(n_kv, m) < 0.3
            hide &= k_heads < m - n
        scores = attention.Scores(0.4, window, softcap, torch.randn(n_heads) if sinks else None)
        before, attention.BLOCK_NUMBERS = attention.BLOCK_NUMBERS, {"cpu": rows}
        try:
            call = attention.Call(torch.nn.Identity(), q, k, v, scores)
            found = call.attend(q_pos, k_heads if per_head else k_pos, evict_at, hide)
        finally:
            attention.BLOCK_NUMBERS = before
        np.testing.assert_allclose(found, plain(q, k, v, scores, q_pos, k_heads, evict_at, hide), atol=2e-6)

    def test_causal(self):
        self.check()

    def test_small_blocks(self):
        self.check(rows=6 * 29 * 4, gone=True)
        self.check(rows=1)

    def test_each_kind(self):
        for kind in (
            dict(window=6),
            dict(softcap=1.5),
            dict(sinks=True),
            dict(gone=True),
            dict(hidden=True),
            dict(per_head=True),
        ):
            with self.subTest(**kind):
                self.check(**kind)

    def test_all_kinds(self):
        self.check(window=9, softcap=2.0, sinks=True, gone=True, hidden=True, per_head=True, rows=1000)


if __name__ == "__main__":
    unittest.main()
