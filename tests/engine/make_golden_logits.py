"""Writes golden/logits.json: logits of transformers' Qwen3 (float32, eager attention, CPU) for eight small random models.

The weights are not stored: both sides compute them from names and indices (formula_source in engine/model/weights.h).
Usage: python3 tests/engine/make_golden_logits.py        needs torch and transformers; the versions used are written beside.
"""
import json
import pathlib

import numpy as np
import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCAB, LAYERS, TOKENS = 512, 2, 48
POSITIONS = [0, 17, TOKENS - 1]  # of which the logits are kept
#        seed hidden  ff  heads kv  dim  tied  theta
SHAPES = [(1, 128, 192, 4, 4, 64, True, 1e4),
          (2, 128, 256, 4, 2, 64, False, 1e4),
          (3, 192, 320, 4, 1, 64, True, 1e6),
          (4, 256, 384, 2, 2, 128, False, 1e6),
          (5, 256, 256, 4, 2, 128, True, 1e4),
          (6, 128, 192, 4, 1, 128, False, 1e6),
          (7, 160, 224, 8, 2, 64, True, 5e5),
          (8, 224, 448, 8, 8, 64, False, 1e4)]


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def splitmix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def formula(name, shape, seed):
    """u in [-1, 1); matrix: u sqrt(3 / columns), embedding: u, norm: 1 + u / 10."""
    start = np.uint64((fnv1a64(name) + seed) % 2**64)
    with np.errstate(over='ignore'):
        bits = splitmix64(start + np.arange(int(np.prod(shape)), dtype=np.uint64)) >> np.uint64(40)
    u = (bits.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)).reshape(shape)
    if len(shape) == 1:
        return np.float32(1) + np.float32(0.1) * u
    scale = np.float32(1) if name == 'model.embed_tokens.weight' else np.float32(np.sqrt(3.0 / shape[-1]))
    return scale * u


def golden(seed, hidden, ff, heads, kv_heads, head_dim, tied, theta):
    config = Qwen3Config(vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ff, num_hidden_layers=LAYERS,
                         num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
                         tie_word_embeddings=tied, rope_theta=theta, rms_norm_eps=1e-6, max_position_embeddings=4096,
                         use_sliding_window=False, attention_bias=False)
    if hasattr(config, 'rope_parameters') and config.rope_parameters is not None:
        config.rope_parameters['rope_theta'] = theta  # transformers 5 keeps it here
    config._attn_implementation = 'eager'
    model = Qwen3ForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(formula(name, tuple(parameter.shape), seed)))
    ids = (splitmix64(np.arange(TOKENS, dtype=np.uint64) + np.uint64(seed)) % np.uint64(VOCAB)).astype(np.int64)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None]).logits[0].double().numpy()
    return dict(seed=seed, vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ff, n_layers=LAYERS, n_heads=heads,
                n_kv_heads=kv_heads, head_dim=head_dim, tie_word_embeddings=tied, rope_theta=theta, ids=ids.tolist(),
                positions=POSITIONS, logits=[[float(f'{x:.7g}') for x in logits[p]] for p in POSITIONS])


if __name__ == '__main__':
    torch.manual_seed(0)
    out = dict(script='tests/engine/make_golden_logits.py', torch=torch.__version__,
               transformers=transformers.__version__, models=[golden(*shape) for shape in SHAPES])
    path = pathlib.Path(__file__).parent / 'golden' / 'logits.json'
    path.write_text(json.dumps(out, separators=(',', ':')) + '\n')
    print(path, path.stat().st_size, 'bytes')
