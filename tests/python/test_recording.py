"""Recordings: arrays in, the same arrays out, and what record() sees round a loop."""

import os
import random
import tempfile
import unittest

import numpy as np
import tiny

from kvscope.errors import KvscopeError
from kvscope.recording import Recording
from kvscope.wire import NEVER

METHOD = {"name": "my.lottery", "title": "Lottery", "definition": "Evicts at random."}


def example(**more):
    dice, n = np.random.default_rng(1), 30
    gone = np.minimum(np.arange(n) + dice.integers(1, 25, (2, 3, n)), 1000)
    gone[gone > n] = NEVER
    scores = dice.normal(size=(2, 3, n)).astype(np.float32)
    scores[:, :, -4:] = np.nan
    fields = dict(
        ids=list(range(5, 5 + n)),
        prompt_len=20,
        evict_at=gone,
        recorder="test 1",
        method=METHOD,
        pieces=[bytes([65 + i]) for i in range(n)],
        logprobs=np.append(np.nan, -dice.random(n - 1)),
        scores=scores,
        masses={"future_mass": dice.random((2, 3, n)).astype(np.float32)},
        model={"name": "m", "n_heads": 6},
        layers=[1, 5],
    )
    return Recording(**{**fields, **more})


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_round_trip(self):
        for name in ("a.kvs", "a.npz"):
            recording = example()
            recording.save(self.path(name))
            found = Recording.load(self.path(name))
            np.testing.assert_array_equal(found.evict_at, recording.evict_at)
            np.testing.assert_array_equal(found.scores, recording.scores)
            np.testing.assert_allclose(found.logprobs, np.float32(recording.logprobs))
            np.testing.assert_array_equal(found.masses["future_mass"], recording.masses["future_mass"])
            self.assertEqual(
                (found.ids, found.prompt_len, found.pieces, found.recorder, list(found.layers)),
                (recording.ids, 20, recording.pieces, "test 1", [1, 5]),
            )
            self.assertEqual(found.method["name"], "my.lottery")

    def test_refused(self):
        for more, why in (
            (dict(evict_at=np.zeros((2, 3, 30), int)), "own query"),
            (dict(prompt_len=31), "prompt_len"),
            (dict(pieces=[b"a"]), "pieces"),
            (dict(method={"name": "top-k", "title": "", "definition": ""}), "name"),
            (dict(masses={"x": np.ones((2, 3, 30))}), "masses"),
            (dict(scores=np.ones(3)), "scores"),
            (dict(logprobs=np.ones(30)), "logprobs"),
            (dict(evict_at=np.ones((2, 30))), "evict_at"),
        ):
            with self.assertRaises(KvscopeError) as caught:
                example(**more).save(self.path("a.kvs"))
            self.assertIn(why, caught.exception.line())
            self.assertEqual(os.listdir(self.folder.name), [])

    def test_damaged(self):
        dice = random.Random(2)
        for name in ("a.kvs", "a.npz"):
            example().save(self.path(name))
            with open(self.path(name), "rb") as file:
                good = file.read()
            for _ in range(150):
                bad = bytearray(good[: dice.choice([len(good), dice.randrange(len(good))])])
                for _ in range(3):
                    if bad:
                        bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
                with open(self.path("b" + name), "wb") as file:
                    file.write(bad)
                try:
                    Recording.load(self.path("b" + name))
                except KvscopeError as error:
                    self.assertNotIn("\n", error.line())


@tiny.needs_torch
class Record(unittest.TestCase):
    def test_a_cache_that_drops_rows(self):
        import torch
        from transformers import DynamicCache

        import kvscope

        class Newest(DynamicCache):
            """Keeps two sinks and the newest ten rows."""

            def update(self, key_states, value_states, layer_idx, *more, **named):
                keys, values = super().update(key_states, value_states, layer_idx, *more, **named)
                layer = self.layers[layer_idx]
                if keys.shape[2] > 12:
                    index = torch.cat([torch.arange(2), torch.arange(keys.shape[2] - 10, keys.shape[2])])
                    layer.keys, layer.values = keys[:, :, index], values[:, :, index]
                return keys, values

        model, ids = tiny.random_model("mistral", "eager"), tiny.ids(16)
        with kvscope.record(model, tokenizer=tiny.tokenizer(), method="streaming:sinks=2,window=11") as recorder:
            cache, new = Newest(), ids
            with torch.no_grad():
                for step in range(6):
                    at = torch.arange(16 + step - len(new) + (0 if step == 0 else 0), 16 + step)
                    out = model(
                        input_ids=torch.tensor([new]), past_key_values=cache, position_ids=at[None], cache_position=at
                    )
                    new = [int(out.logits[0, -1].argmax())]
        found = recorder.recording()
        found.check()
        self.assertEqual(len(found.ids), 21)
        expected = np.maximum(np.arange(21) + 11, 16)
        expected = np.where((np.arange(21) >= 2) & (expected <= 21), expected, NEVER)
        np.testing.assert_array_equal(found.evict_at, np.broadcast_to(expected, (4, 2, 21)))
        self.assertFalse(np.isnan(found.logprobs[1:]).any())
        self.assertEqual(b"".join(found.pieces[:16]), bytes(ids))

    @tiny.needs_kvpress
    def test_generate_under_a_press(self):
        import kvpress
        import torch

        import kvscope

        model = tiny.random_model("mistral", "eager")
        with kvscope.record(model, method=METHOD, oracle=True) as recorder, torch.no_grad():
            with kvpress.KnormPress(0.5)(model):
                model.generate(torch.tensor([tiny.ids(40)]), max_new_tokens=5, do_sample=False)
        found = recorder.recording()
        found.check()
        self.assertEqual(found.prompt_len, 40)
        self.assertTrue(((found.evict_at == 40).sum(-1) == 20).all())
        self.assertTrue(np.isfinite(found.masses["future_mass"]).any() or len(found.ids) <= 64)


if __name__ == "__main__":
    unittest.main()
