"""Runs on tiny random models of eight families, in this process."""

import dataclasses
import functools
import math
import unittest

import numpy as np
import tiny

from kvscope.wire import NEVER, read_f32, read_i32

if tiny.HAS_TORCH:
    import torch

    from kvscope import attention, models
    from kvscope.catalog import Catalog
    from kvscope.errors import KvscopeError
    from kvscope.generation import Hooks, Run
    from kvscope.passes import Dense, Reader
    from kvscope.request import Request
    from kvscope.score import method_scores, score
    from kvscope.token_attention import token_attention
    from kvscope.wire import i32


@functools.cache
def model_of(family):
    return models.wrap(tiny.random_model(family), tiny.tokenizer(), family)


def run(model, policy, n=40, new=8, catalog=None, hooks=None, **more):
    message = {
        "type": "run",
        "prompt_ids": i32(tiny.ids(n)),
        "policy": policy,
        "max_tokens": new,
        "sampling": {},
        "oracle": False,
        "stop_at_eos": False,
        **more,
    }
    events = []
    hooks = hooks or Hooks(events.append)
    hooks = dataclasses.replace(hooks, send=events.append)
    done = Run(model, catalog or Catalog(presses=[]), Request.of(message, model), hooks).execute()
    return events, done


def lifetimes(events, model, n):
    """[layers, KV heads, n], checked as the program checks them: a token leaves once, after a query saw it."""
    out = np.full((model.n_layers, model.n_kv_heads, n), NEVER)
    for event in events:
        for layer, head, token, at in read_i32(event, "lifetimes").reshape(-1, 4) if event["type"] == "step" else []:
            assert out[layer, head, token] == NEVER and token < at <= n
            out[layer, head, token] = at
    return out


def tokens_of(events):
    return np.concatenate([read_i32(e, "ids") for e in events if e["type"] in ("started", "step")]).tolist()


def gather(events, key, read):
    return np.concatenate([read(e, key) for e in events if e["type"] == "step"])


@tiny.needs_torch
class Families(unittest.TestCase):
    def test_dense_equals_eager(self):
        for family in tiny.FAMILIES:
            with self.subTest(family):
                model, ids = model_of(family), tiny.ids(50)
                eager = tiny.random_model(family, "eager")
                with torch.no_grad():
                    expected = eager(input_ids=torch.tensor([ids])).logits[0]
                reader = Reader(model, Dense(model))
                sizes = [50] if model.is_hybrid else [17, 16, 17]
                found, first = [], 0
                for size in sizes:
                    found.append(reader.read(ids[first : first + size]))
                    first += size
                np.testing.assert_allclose(torch.cat(found), expected, atol=2e-4, rtol=1e-4)

    def test_layers(self):
        self.assertEqual([layer.model_layer for layer in model_of("qwen3_next").layers], [1, 3])
        self.assertEqual([layer.window for layer in model_of("gemma3").layers], [12, 12, 0, 0])
        self.assertEqual([layer.window for layer in model_of("gpt_oss").layers], [8, 0, 8, 0])
        self.assertEqual([layer.window for layer in model_of("olmo3").layers], [10, 10, 10, 0])

    def test_top_k_lives_by_its_scores(self):
        from test_rules import plain_top_k

        for family in tiny.FAMILIES:
            with self.subTest(family):
                model = model_of(family)
                events, done = run(model, "top-k:budget=20,sinks=2,window=6")
                self.assertEqual(done["status"], "complete")
                self.assertEqual(events[0]["type"], "started")
                n = events[-1]["n_tokens"]
                self.assertEqual(n, 48)
                found = lifetimes(events, model, n)
                scores = np.full(found.shape, np.nan, np.float32)
                index = gather(events, "score_index", read_i32).reshape(-1, 3)
                scores[tuple(index.T)] = gather(events, "score_value", read_f32)
                for layer in model.layers:
                    for head in range(model.n_kv_heads):
                        expected = plain_top_k(scores[layer.index, head], 2, 6, 12)
                        if layer.window:
                            out = np.arange(n) + layer.window
                            expected = np.where(out < n, out, NEVER)
                        np.testing.assert_array_equal(found[layer.index, head], expected)

    def test_steps_equal_a_prompt(self):
        """A prompt under the rule leaves what its tokens one by one leave: lifetimes and the next logits."""
        for family in ("mistral", "gemma3", "gpt_oss", "phi3"):
            with self.subTest(family):
                model, policy = model_of(family), "hf.vnorm:budget=14,sinks=1,window=4"
                ids = tiny.ids(40)
                catalog, logits, gone = Catalog(presses=[]), [], []
                for sizes in ([40], [1] * 40):
                    state = catalog.make(catalog.parse(policy), model, 40)
                    reader, first = Reader(model, state), 0
                    for size in sizes:
                        out = reader.read(ids[first : first + size])
                        first += size
                    logits.append(out[-1])
                    gone.append(state.evict_at)
                np.testing.assert_array_equal(*gone)
                np.testing.assert_allclose(*logits, atol=1e-3)

    def test_same_seed_same_answer(self):
        model = model_of("qwen3_moe")
        sampling = {"temperature": 1.0, "seed": 3}
        first, _ = run(model, "top-k:budget=20,sinks=2,window=6", sampling=sampling, new=16)
        again, _ = run(model, "top-k:budget=20,sinks=2,window=6", sampling=sampling, new=16)
        other, _ = run(model, "top-k:budget=20,sinks=2,window=6", sampling={"temperature": 1.0, "seed": 4}, new=16)
        self.assertEqual(tokens_of(first), tokens_of(again))
        self.assertNotEqual(tokens_of(first), tokens_of(other))
        forced, _ = run(model, "top-k:budget=20,sinks=2,window=6", answer_ids=i32(tokens_of(first)[40:]), new=16)
        np.testing.assert_array_equal(lifetimes(first, model, 56), lifetimes(forced, model, 56))

    def test_cancel_in_mid_run(self):
        model, events = model_of("mistral"), []
        message = {
            "type": "run",
            "prompt_ids": i32(tiny.ids(40)),
            "policy": "full",
            "max_tokens": 100,
            "sampling": {},
            "oracle": True,
            "stop_at_eos": False,
        }
        hooks = Hooks(events.append, lambda: sum(e["type"] == "step" for e in events) >= 4)
        done = Run(model, Catalog(presses=[]), Request.of(message, model), hooks).execute()
        self.assertEqual(done["status"], "cancelled")
        self.assertEqual(sum(e["type"] == "step" for e in events), 4)
        self.assertTrue(events[-1]["type"] == "oracle" and events[-1]["final"])

    def test_policy_changes(self):
        model, texts = (
            model_of("mistral"),
            ["top-k:budget=12,sinks=2,window=6", "full", "top-k:budget=30,sinks=2,window=6"],
        )
        events, done = run(
            model,
            "top-k:budget=20,sinks=2,window=6",
            hooks=Hooks(None, next_policy=lambda: texts.pop(0) if texts else None),
        )
        self.assertEqual(
            [e["policy"] for e in events if e["type"] == "policy"],
            ["top-k:budget=12,sinks=2,window=6,decay=1,stride=1"],
        )
        self.assertEqual(sum(e["type"] == "log" for e in events), 2)
        kept = (lifetimes(events, model, 48) > 47).sum(-1)
        np.testing.assert_array_equal(kept, 12)

    def test_stops(self):
        model = model_of("mistral")
        events, done = run(model, "full", new=20)
        answer = bytes(tokens_of(events)[40:])
        events, done = run(model, "full", new=20, stop=[answer[5:8].decode("latin-1")] if answer[5:8].isascii() else [])
        if answer[5:8].isascii():
            self.assertLessEqual(len(tokens_of(events)), 48)
            self.assertNotIn(answer[5:8].decode(), done["text"])

    def test_logprobs(self):
        """A prompt and its answer, token by token, are as likely as transformers has them: also from a hybrid's
        states."""
        for family in ("smollm3", "gpt_oss", "qwen3_next", "olmo3"):
            with self.subTest(family):
                events, _ = run(model_of(family), "full")
                ids = tokens_of(events)
                with torch.no_grad():
                    logits = tiny.random_model(family, "eager")(input_ids=torch.tensor([ids])).logits[0]
                found = gather(events, "logprobs", read_f32)
                self.assertTrue(math.isnan(found[0]))
                rows = logits.log_softmax(-1)
                np.testing.assert_allclose(found[1:], [float(rows[i, t]) for i, t in enumerate(ids[1:])], atol=1e-3)


@tiny.needs_torch
class Requests(unittest.TestCase):
    def test_token_attention(self):
        for family in ("mistral", "gpt_oss", "gemma3"):
            with self.subTest(family):
                model, ids = model_of(family), tiny.ids(30)
                eager = tiny.random_model(family, "eager")
                with torch.no_grad():
                    weights = eager(input_ids=torch.tensor([ids]), output_attentions=True).attentions
                for layer in range(model.n_layers):
                    out = token_attention({"ids": i32(ids), "tokens": i32([0, 3, 21]), "layer": layer}, model)
                    found = read_f32(out, "probability").reshape(3, -1, 30)
                    for row, token in zip(found, (0, 3, 21)):
                        self.assertTrue(np.isnan(row[:, :token]).all())
                        np.testing.assert_allclose(row[:, token:], weights[layer][0, :, token:, token], atol=2e-5)

    def test_score(self):
        model, events = model_of("mistral"), []
        message = {"ids": i32(tiny.ids(40)), "policy": "top-k:budget=20,sinks=2,window=6", "choices": True}
        done = score(message, model, Catalog(presses=[]), Hooks(events.append))
        stepwise, _ = run(model, "top-k:budget=20,sinks=2,window=6", n=1, new=39, answer_ids=i32(tiny.ids(40)[1:]))
        np.testing.assert_allclose(
            read_f32(done, "logprobs")[1:], gather(stepwise, "logprobs", read_f32)[1:], atol=1e-3
        )
        self.assertFalse(done["dense"])
        density = read_f32(done, "density").reshape(model.n_layers, -1)
        np.testing.assert_allclose(density, 14 / 34, atol=1e-6)
        self.assertEqual(len(read_i32(done, "greedy")), 40)
        self.assertTrue(score({"ids": i32(tiny.ids(40))}, model, Catalog(presses=[]), Hooks(events.append))["dense"])

    def test_method_scores_are_those_of_a_run(self):
        model = model_of("mistral")
        done = method_scores({"ids": i32(tiny.ids(40))}, model, Catalog(presses=[]), Hooks(lambda e: None))
        events, _ = run(model, "top-k:budget=64,sinks=2,window=6", new=0)  # a budget that evicts nothing
        found = read_f32(done["scorers"][0], "scores").reshape(model.n_layers, model.n_kv_heads, 40)
        index = gather(events, "score_index", read_i32).reshape(-1, 3)
        np.testing.assert_allclose(found[tuple(index.T)], gather(events, "score_value", read_f32), atol=1e-4)

    def test_refused(self):
        model = model_of("mistral")
        for more, why in (
            (dict(policy="snapkv"), "no policy is named"),
            (dict(prompt_ids=i32([999])), "token id 999"),
            (dict(prompt_ids=i32([])), "no token"),
            (dict(sampling={"top_p": 2}), "top_p"),
            (dict(max_tokens=-1), "max_tokens"),
            (dict(oracle=True, oracle_spec="agg=x"), "agg="),
            (dict(policy="top-k:budget=3"), "at least sinks"),
        ):
            with self.assertRaises(KvscopeError) as caught:
                run(model, more.pop("policy", "full"), **more)
            self.assertIn(why, caught.exception.line())

    def test_pieces(self):
        text = "A \u00e4\u20ac \U0001f600\n"
        model = model_of("mistral")
        ids = model.encode(text)
        self.assertEqual(b"".join(model.bytes_of(ids)), text.encode())
        self.assertEqual(model.bytes_of([256]), [b"<end>"])
        self.assertEqual(bytes(model.encode_chat([{"role": "user", "content": "hi"}])), b"user: hi\nassistant:")

    def test_pieces_of_a_sentencepiece_vocabulary(self):
        from tokenizers import Tokenizer, decoders, normalizers
        from tokenizers import models as token_models
        from transformers import PreTrainedTokenizerFast

        from kvscope.pieces import Pieces

        vocabulary = {"<unk>": 0, "<0xE2>": 1, "<0x82>": 2, "\u2581a": 3, "b": 4, "\u2581": 5, "<0xAC>": 6, "<s>": 7}
        made = Tokenizer(token_models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        made.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        pieces = Pieces(PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>"))
        self.assertEqual(pieces.all([3, 4, 5, 1, 2, 6]), [b"a", b"b", b" ", b"\xe2", b"\x82", b"\xac"])
        self.assertEqual(pieces.all([3], at_start=False), [b" a"])
        self.assertEqual(pieces.all([7, 3]), [b"<s>", b" a"])

    def test_alone_the_attention_is_causal(self):
        model = tiny.random_model("mistral")
        with torch.no_grad():
            a = model(input_ids=torch.tensor([tiny.ids(12)])).logits
            b = tiny.random_model("mistral", "eager")(input_ids=torch.tensor([tiny.ids(12)])).logits
        np.testing.assert_allclose(a, b, atol=1e-4)
        self.assertEqual(attention.NAME, "kvscope")


if __name__ == "__main__":
    unittest.main()
