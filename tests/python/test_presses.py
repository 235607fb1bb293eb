"""kvpress under this engine: lifetimes are what the presses really dropped."""

import unittest

import numpy as np
import tiny

from kvscope.wire import NEVER

if tiny.HAS_KVPRESS:
    import kvpress
    import torch
    from test_models import lifetimes, model_of, run, tokens_of
    from transformers import DynamicCache

    from kvscope.catalog import Catalog
    from kvscope.errors import KvscopeError
    from kvscope.press_pass import match_rows, row_codes


@tiny.needs_kvpress
class Presses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.catalog = Catalog()

    def lost(self, policy, n=60, new=10, family="mistral"):
        model = model_of(family)
        events, done = run(model, policy, n=n, new=new, catalog=self.catalog)
        self.assertEqual(done["status"], "complete")
        return lifetimes([e for e in events if e["type"] == "step"], model, len(tokens_of(events))), model

    def kept_by_kvpress(self, press, n=60, family="mistral"):
        """[layers, KV heads, rows] positions that kvpress alone leaves of a prompt."""
        model, cache, ids = tiny.random_model(family, "eager"), DynamicCache(), torch.tensor([tiny.ids(n)])
        with torch.no_grad():
            full = model(input_ids=ids, use_cache=True, past_key_values=DynamicCache()).past_key_values
            with press(model):
                model(input_ids=ids, past_key_values=cache, output_attentions=True)
        out = []
        for layer in range(len(cache.layers)):
            keys, all_keys = cache.layers[layer].keys[0], full.layers[layer].keys[0]
            out.append(
                [
                    sorted((keys[h][:, None] - all_keys[h][None]).abs().sum(-1).argmin(1).tolist())
                    for h in range(keys.shape[0])
                ]
            )
        return np.array(out)

    def test_declarations(self):
        """Names that mean something to the program (window of LUKVPress) are declared as others, and reach the press."""
        for policy in self.catalog.policies:
            policy.check()
        press = next(p for p in self.catalog.presses if p.press.__name__ == "LUKVPress")
        self.assertIn("window_tokens", [p.name for p in press.policy.parameters])

    def test_kept_sets(self):
        for text, press in (
            ("KnormPress:compression_ratio=0.25", kvpress.KnormPress(0.25)),
            ("SnapKVPress:compression_ratio=0.5,window_size=8", kvpress.SnapKVPress(0.5, window_size=8)),
            ("ObservedAttentionPress:compression_ratio=0.5", kvpress.ObservedAttentionPress(0.5)),
            ("TOVAPress:compression_ratio=0.3", kvpress.TOVAPress(0.3)),
            ("StreamingLLMPress:compression_ratio=0.5,n_sink=2", kvpress.StreamingLLMPress(0.5, 2)),
        ):
            with self.subTest(text):
                gone, model = self.lost("hf.kvpress." + text, new=0)
                expected = self.kept_by_kvpress(press)
                for layer in range(model.n_layers):
                    for head in range(model.n_kv_heads):
                        kept = np.flatnonzero(gone[layer, head] == NEVER)
                        self.assertEqual(kept.tolist(), expected[layer, head].tolist())
                self.assertEqual(set(gone.ravel().tolist()), {60, NEVER})

    def test_while_decoding(self):
        gone, _ = self.lost("hf.kvpress.DecodingPress:base_press=KnormPress,target_size=20,compression_interval=4")
        self.assertEqual(sorted(set(gone.ravel().tolist())), [64, 68, NEVER])
        self.assertTrue(((gone > 68).sum(-1) == 22).all())

    def test_head_wise_masks(self):
        gone, _ = self.lost("hf.kvpress.AdaKVPress:press=KnormPress,compression_ratio=0.5")
        counts = (gone == NEVER).sum(-1)
        self.assertTrue((counts.sum(-1) == 2 * 10 + 60).all())
        gone, _ = self.lost("hf.kvpress.DMSPress:press=KnormPress,threshold=-3,sliding_window_size=8,decoding=true")
        self.assertTrue((gone[:, :, -8:] == NEVER).all())
        self.assertTrue((gone == 66).any())

    def test_rotated_keys(self):
        gone, _ = self.lost("hf.kvpress.KeyRerotationPress:press=KnormPress,compression_ratio=0.5")
        self.assertEqual(set(gone.ravel().tolist()), {60, NEVER})

    def test_refused_in_one_line(self):
        for text, why in (
            ("ThinKPress", "channels"),
            ("MergingPress", "merges"),
            ("ComposedPress", "list"),
            ("KnormPress:compression_ratio=2", "0.99"),
            ("Nothing", "no policy is named"),
        ):
            with self.assertRaises(KvscopeError) as caught:
                run(model_of("mistral"), "hf.kvpress." + text, catalog=self.catalog)
            self.assertIn(why, caught.exception.line())
        with self.assertRaises(KvscopeError) as caught:
            run(model_of("qwen3_next"), "hf.kvpress.KnormPress", catalog=self.catalog)
        self.assertIn("hybrid", caught.exception.line())

    def test_local_layers_keep_their_window(self):
        gone, model = self.lost("hf.kvpress.KnormPress", family="gemma3")
        out = np.arange(70) + 12
        np.testing.assert_array_equal(gone[0, 0], np.where(out < 70, out, NEVER))
        self.assertEqual(set(gone[2].ravel().tolist()), {60, NEVER})

    def test_rows(self):
        x = torch.randn(2, 9, 4)
        codes = row_codes(x)
        np.testing.assert_array_equal(match_rows(codes[0], row_codes(x[:, [4, 1, 7]])[0]), [4, 1, 7])
        self.assertIsNone(match_rows(codes[0], row_codes(x + 1)[0]))
        self.assertEqual(match_rows(np.array([5, 6, 5]), np.array([5, 5])).tolist(), [0, 2])


if __name__ == "__main__":
    unittest.main()
