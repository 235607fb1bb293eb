#!/usr/bin/env python3
"""Writes tests/core/golden/sampling.json.gz: what transformers' logits processors leave of random logits, for settings of
every kind, in the order in which GenerationMixin puts them.

    python tests/core/make_sampling_golden.py        (torch and transformers; any version 4.40 or later)

Settings in which a token stands so close to a border (1e-5 of probability) that float32 decides are drawn anew.
"""
import gzip
import itertools
import json
import pathlib
import warnings

import torch
import transformers

VOCABULARY = 211
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def tiny_model():
    config = transformers.Qwen3Config(vocab_size=VOCABULARY, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                      num_attention_heads=1, num_key_value_heads=1, head_dim=8)
    return transformers.Qwen3ForCausalLM(config)


def processed(model, setting, logits, so_far):
    config = transformers.GenerationConfig(do_sample=True, temperature=setting["temperature"],
                                           top_k=setting["top_k"], top_p=setting["top_p"],
                                           min_p=setting["min_p"] or None,
                                           repetition_penalty=setting["repetition_penalty"], pad_token_id=0)
    chain = model._get_logits_processor(generation_config=config, input_ids_seq_length=len(so_far),
                                        encoder_input_ids=None, prefix_allowed_tokens_fn=None,
                                        logits_processor=transformers.LogitsProcessorList(), device="cpu",
                                        model_kwargs={})
    return chain(torch.tensor([so_far]), torch.tensor([logits]))[0]


def is_clear(setting, logits, so_far):
    """True if no token is close to the border of top_p or min_p."""
    x = torch.tensor(logits, dtype=torch.float64)
    ids = torch.tensor(sorted(set(so_far)))
    penalty = setting["repetition_penalty"]
    x[ids] = torch.where(x[ids] < 0, x[ids] * penalty, x[ids] / penalty)
    x = x / setting["temperature"]
    x = x.sort(descending=True).values
    if setting["top_k"]:
        x = x[: setting["top_k"]]
    p = x.softmax(0)
    before = p.cumsum(0) - p
    clear = setting["top_p"] == 1 or (before - setting["top_p"]).abs().min() > 1e-5
    ratio = (p / p[0] - setting["min_p"]).abs().min()
    return bool(clear and (setting["min_p"] == 0 or ratio > 1e-5))


def main():
    model = tiny_model()
    generator = torch.Generator().manual_seed(20)
    grid = list(itertools.product([1.0, 0.7, 1.8], [0, 1, 5, 50], [1.0, 0.9, 0.3], [0.0, 0.08], [1.0, 1.3, 0.8]))
    chosen = [grid[i] for i in torch.randperm(len(grid), generator=generator)[:44].tolist()]
    cases = []
    for temperature, top_k, top_p, min_p, penalty in chosen:
        setting = dict(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=penalty)
        while True:
            logits = [round(v, 4) for v in (3 * torch.randn(VOCABULARY, generator=generator)).tolist()]
            so_far = torch.randint(0, VOCABULARY, (30,), generator=generator).tolist()
            if is_clear(setting, logits, so_far):
                break
        scores = processed(model, setting, logits, so_far)
        ids = torch.nonzero(scores > -float("inf")).flatten().tolist()
        probabilities = scores.double().softmax(0)[ids].tolist()
        cases.append(dict(setting, logits=logits, so_far=so_far, ids=ids,
                          probabilities=[float(f"{p:.9g}") for p in probabilities]))
    path = pathlib.Path(__file__).parent / "golden" / "sampling.json.gz"
    golden = {"made_by": "tests/core/make_sampling_golden.py", "transformers": transformers.__version__, "cases": cases}
    text = json.dumps(golden, separators=(",", ":")).replace('{"temperature"', '\n{"temperature"') + "\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


main()
