"""The oracle and the output error against their definitions, from transformers' own attention weights."""

import unittest

import numpy as np
import tiny
from test_models import lifetimes, model_of, run, tokens_of

from kvscope.wire import NEVER, read_f32

if tiny.HAS_TORCH:
    import torch

    from kvscope.oracle import OracleSpec, Teacher, oracle_event
    from kvscope.output_error import output_error_event
    from kvscope.rules import Geometry


def plain_masses(weights, window, ahead):
    """weights [H, n, n] of one layer. mean, rms and max [H, n] over the queries that look at a token after its
    window."""
    n = weights.shape[-1]
    out = {name: np.full(weights.shape[::2], np.nan) for name in ("mean", "rms", "max")}
    for t in range(n):
        end = min(n, t + window + ahead + 1) if ahead else n
        p = weights[:, t + window : end, t]
        if p.shape[1]:
            out["mean"][:, t], out["rms"][:, t], out["max"][:, t] = p.mean(1), np.sqrt((p * p).mean(1)), p.max(1)
    return out


@tiny.needs_torch
class Oracle(unittest.TestCase):
    def check(self, family, text, n=40, window=6):
        spec, model, ids = OracleSpec.parse(text), model_of(family), tiny.ids(n)
        eager = tiny.random_model(family, "eager")
        values, outputs, inputs, hooks = {}, {}, {}, []

        def note(name):
            def hook(module, args, output):
                if name.endswith(".v_proj"):
                    values[name] = output[0]
                else:
                    outputs[name], inputs[name] = module, args[0][0]

            return hook

        for name, module in eager.named_modules():
            if name.endswith((".v_proj", "self_attn.o_proj")):
                hooks.append(module.register_forward_hook(note(name)))
        with torch.no_grad():
            weights = eager(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        teacher = Teacher(model, n, window, spec)
        for first in range(0, n, 40 if model.is_hybrid else 13):
            teacher.absorb(ids[first : first + (40 if model.is_hybrid else 13)])
        found = teacher.masses()
        weights = [w for w in weights if w is not None]
        for i, layer in enumerate(model.layers):
            if layer.window:
                self.assertTrue(np.isnan(found["future_mass"][i]).all())
                continue
            plain = plain_masses(weights[i][0].numpy().astype(float), window, spec.ahead)
            group = model.layers[0].n_heads // model.n_kv_heads

            def agg(x):
                x = x.reshape(model.n_kv_heads, group, -1)
                if spec.agg == "max":
                    return x.max(1)
                return x.mean(1) if spec.agg == "mean" else np.exp(np.log(x + 1e-6).mean(1)) - 1e-6

            for kind, values_of in plain.items():
                name = "future_mass" if kind == "mean" else f"future_{kind}"
                if name in found:
                    np.testing.assert_allclose(found[name][i], agg(values_of), atol=1e-5)
            key = sorted(values, key=lambda k: int(k.split(".")[2]))
            if model.is_hybrid or not key or "value_norm" not in found:
                continue
            v = values[key[i]].reshape(n, model.n_kv_heads, -1).numpy().astype(float)
            np.testing.assert_allclose(found["value_norm"][i], np.linalg.norm(v, axis=-1).T, rtol=1e-4)
            if "output_rms" not in found:
                continue
            names = sorted(outputs, key=lambda k: int(k.split(".")[2]))
            matrix = outputs[names[i]].weight.detach().numpy().astype(float)
            by_head = matrix.reshape(matrix.shape[0], layer.n_heads, -1)
            norm = np.stack([np.linalg.norm(v[:, h // group] @ by_head[:, h].T, axis=-1) for h in range(layer.n_heads)])
            whole = np.linalg.norm(inputs[names[i]].numpy().astype(float) @ matrix.T, axis=-1).mean()
            np.testing.assert_allclose(found["output_rms"][i], agg(plain["rms"] * norm / whole), rtol=2e-3, atol=1e-5)
        for hook in hooks:
            hook.remove()

    def test_families(self):
        for family in ("mistral", "gemma3", "gpt_oss", "olmo3", "qwen3_next", "phi3"):
            with self.subTest(family):
                self.check(family, "")

    def test_specs(self):
        for text in ("agg=mean", "agg=logmean", "ahead=5", "kinds=one", "kinds=one,mass=rms,weight=value"):
            with self.subTest(text):
                self.check("mistral", text)

    def test_recall(self):
        model = model_of("mistral")
        events, _ = run(model, "top-k:budget=16,sinks=2,window=6", oracle=True, new=24)
        final = [e for e in events if e["type"] == "oracle" and e["final"]]
        so_far = [e for e in events if e["type"] == "oracle" and not e["final"]]
        self.assertEqual(len(final), 1)
        self.assertEqual([e["horizon"] for e in so_far], [41, 57])
        n = len(tokens_of(events))
        mass = read_f32(final[0], "future_mass").reshape(model.n_layers, model.n_kv_heads, n)
        gone, q = lifetimes(events, model, n), n - 1
        eligible = np.arange(2, q - 6 + 1)
        for layer in range(model.n_layers):
            for head in range(model.n_kv_heads):
                kept = {int(t) for t in eligible if gone[layer, head, t] > q}
                best = sorted(eligible, key=lambda t: (-mass[layer, head, t], t))[: len(kept)]
                found = read_f32(final[0], "recall").reshape(model.n_layers, -1)[layer, head]
                self.assertAlmostEqual(found, len(kept & set(map(int, best))) / len(kept), places=5)

    def test_sparse_lse(self):
        model, ids, n = model_of("mistral"), tiny.ids(30), 30
        gone = np.full((model.n_layers, model.n_kv_heads, n), NEVER, np.int32)
        gone[:, :, 3:12] = np.arange(3, 12) + 6
        sparse, dense = (Teacher(model, n, 6, OracleSpec.parse(text)) for text in ("lse=sparse", ""))
        for teacher in (sparse, dense):
            teacher.absorb(ids, gone)
        self.assertTrue((np.nan_to_num(sparse.masses()["future_mass"] - dense.masses()["future_mass"]) >= -1e-6).all())
        event = oracle_event(sparse, gone, Geometry(0, 6, 0), True)
        self.assertEqual(event["horizon"], n)


@tiny.needs_torch
class Damage(unittest.TestCase):
    def test_definition(self):
        """The first attention layer has the same inputs whatever was evicted: its damage is a difference of two
        passes."""
        for family in ("mistral", "gpt_oss"):
            with self.subTest(family):
                model, ids, n = model_of(family), tiny.ids(30), 30
                first = next(layer.index for layer in model.layers if not layer.window)
                gone = np.full((model.n_layers, model.n_kv_heads, n), NEVER, np.int32)
                gone[first, 1, 4:15] = np.arange(4, 15) + 5
                event = output_error_event(model, ids, gone)
                group = read_f32(event, "group_damage").reshape(model.n_layers, model.n_kv_heads, n)
                layer = read_f32(event, "layer_damage").reshape(model.n_layers, n)
                output = read_f32(event, "layer_output").reshape(model.n_layers, n)
                outputs = []
                module = model.layers[first].module
                for lifetimes_of in (np.full_like(gone, NEVER), gone):
                    from kvscope.output_error import Damage as Pass
                    from kvscope.passes import Reader

                    hook = module.register_forward_hook(lambda m, a, o: outputs.append(o[0][0].clone()))
                    Reader(model, Pass(model, lifetimes_of, n)).read(ids)
                    hook.remove()
                expected = (outputs[0] - outputs[1]).norm(dim=-1).numpy()
                self.assertTrue(np.isnan(group[first, 0]).all())
                self.assertTrue(np.isnan(group[first, 1, :9]).all())
                np.testing.assert_allclose(group[first, 1, 9:], expected[9:], rtol=1e-3, atol=1e-5)
                np.testing.assert_allclose(layer[first, 9:], expected[9:], rtol=1e-3, atol=1e-5)
                self.assertTrue(np.isfinite(output).all())


if __name__ == "__main__":
    unittest.main()
