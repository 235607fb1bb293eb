"""Writes golden/rope.json.gz: rotary frequencies of transformers for every kind of scaling, each with the config.json they follow from.

Usage: python3 tests/core/make_rope_golden.py        needs torch and transformers; the versions used are written beside.
"""
import gzip
import json
import pathlib

import torch
import transformers
from transformers import LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

FAMILIES = {'Qwen3ForCausalLM': (Qwen3Config, Qwen3RotaryEmbedding),
            'Qwen2ForCausalLM': (Qwen2Config, Qwen2RotaryEmbedding),
            'LlamaForCausalLM': (LlamaConfig, LlamaRotaryEmbedding)}

LLAMA31 = dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=8192)
YARN = dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=32768)


def config(architecture, head_dim, positions, heads=8, **more):
    base = dict(architectures=[architecture], vocab_size=512, hidden_size=heads * head_dim, intermediate_size=64,
                num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=heads,
                max_position_embeddings=positions)
    if architecture == 'Qwen3ForCausalLM':
        base['head_dim'] = head_dim
    return base | more


CASES = [
    # as published: Qwen2.5-7B, Qwen3-8B with and without its YaRN, Llama-3.1-8B, Llama-3.2-1B
    config('Qwen2ForCausalLM', 128, 131072, rope_theta=1000000.0, sliding_window=131072, use_sliding_window=False),
    config('Qwen3ForCausalLM', 128, 40960, rope_theta=1000000, rope_scaling=None),
    config('Qwen3ForCausalLM', 128, 131072, rope_theta=1000000, rope_scaling=YARN),
    config('LlamaForCausalLM', 128, 131072, rope_theta=500000.0, rope_scaling=LLAMA31),
    config('LlamaForCausalLM', 64, 131072, rope_theta=500000.0, rope_scaling=LLAMA31 | dict(factor=32.0)),
    # theta absent, inside the section, or in both places; the section's two names
    config('LlamaForCausalLM', 80, 4096),
    config('Qwen2ForCausalLM', 80, 4096, rope_parameters=dict(rope_type='default', rope_theta=250000.0)),
    config('Qwen3ForCausalLM', 64, 4096, rope_theta=10000.0, rope_parameters=dict(rope_type='default', rope_theta=1e6)),
    config('LlamaForCausalLM', 64, 4096, rope_theta=20000.0, rope_scaling=dict(type='linear', factor=2.5),
           rope_parameters=dict(rope_type='default', rope_theta=1e6)),
    config('LlamaForCausalLM', 64, 4096, rope_theta=20000.0, rope_scaling={},
           rope_parameters=dict(rope_type='linear', factor=3.0)),
    # linear
    config('Qwen2ForCausalLM', 64, 8192, rope_theta=1e4, rope_scaling=dict(rope_type='linear', factor=8.0)),
    config('LlamaForCausalLM', 80, 8192, rope_parameters=dict(rope_type='linear', factor=1.7, rope_theta=5e5)),
    # llama3: other bounds, the original length implied or beside the section
    config('LlamaForCausalLM', 80, 65536, rope_theta=1e6,
           rope_scaling=LLAMA31 | dict(factor=16, low_freq_factor=1.5, high_freq_factor=3)),
    config('LlamaForCausalLM', 128, 16384, rope_theta=5e5,
           rope_scaling=dict(rope_type='llama3', factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)),
    config('Qwen3ForCausalLM', 64, 65536, rope_theta=5e5, rope_parameters=LLAMA31,
           original_max_position_embeddings=2048),
    # yarn: every option
    config('Qwen2ForCausalLM', 128, 131072, rope_theta=1e6, rope_scaling=dict(YARN, type='yarn')),
    config('Qwen2ForCausalLM', 80, 16384, rope_theta=1e4, rope_scaling=dict(YARN, attention_factor=0.75)),
    config('Qwen3ForCausalLM', 64, 16384, rope_theta=1e4, rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=1.2)),
    config('Qwen3ForCausalLM', 64, 16384, rope_theta=1e4, rope_scaling=dict(YARN, mscale=0.707)),
    config('LlamaForCausalLM', 64, 4096, rope_theta=5e5, rope_scaling=dict(YARN, beta_fast=16, beta_slow=2)),
    config('LlamaForCausalLM', 128, 4096, rope_theta=1e4, rope_scaling=dict(YARN, beta_fast=0, truncate=False)),
    config('LlamaForCausalLM', 64, 65536, rope_theta=1e4, rope_scaling=dict(rope_type='yarn', factor=40)),
    config('LlamaForCausalLM', 80, 1024, rope_theta=1e4, original_max_position_embeddings=256,
           rope_scaling=dict(YARN, factor=1.0)),
    # the blend is empty: both ends at the last or the first pair
    config('Qwen2ForCausalLM', 64, 64, rope_theta=1e4, rope_scaling=dict(rope_type='yarn', factor=2.0, beta_fast=1, beta_slow=1,
           original_max_position_embeddings=6)),
    config('Qwen2ForCausalLM', 64, 64, rope_theta=1e4, rope_scaling=dict(rope_type='yarn', factor=2.0, beta_fast=1, beta_slow=1,
           original_max_position_embeddings=100, truncate=False)),
]


def golden(case):
    config_class, rotary_class = FAMILIES[case['architectures'][0]]
    # A copy: transformers writes into the sections that it is given.
    rotary = rotary_class(config_class(**json.loads(json.dumps(case))))
    return dict(config=case, attention_scaling=float(rotary.attention_scaling),
                inv_freq=[float(f'{x:.9g}') for x in rotary.inv_freq.tolist()])


if __name__ == '__main__':
    out = dict(script='tests/core/make_rope_golden.py', torch=torch.__version__, transformers=transformers.__version__,
               cases=[golden(case) for case in CASES])
    path = pathlib.Path(__file__).parent / 'golden' / 'rope.json.gz'
    text = json.dumps(out, separators=(',', ':')).replace('{"config"', '\n{"config"') + '\n'
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path, path.stat().st_size, 'bytes')
