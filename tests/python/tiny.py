"""Tiny random models of many families, made on the fly, and a byte tokenizer. Shared by the tests."""

from __future__ import annotations

import importlib.util
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine" / "python"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HAS_TORCH = all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))
HAS_KVPRESS = HAS_TORCH and importlib.util.find_spec("kvpress") is not None
needs_torch = unittest.skipUnless(HAS_TORCH, "needs torch and transformers: pip install 'kvscope[torch]'")
needs_kvpress = unittest.skipUnless(HAS_KVPRESS, "needs kvpress: pip install 'kvscope[kvpress]'")

if HAS_TORCH:
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()

VOCABULARY = 260
_SHARED = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=512,
    bos_token_id=None,
    eos_token_id=256,
    pad_token_id=257,
)
_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
FAMILIES = {
    "gemma3": (
        "Gemma3TextConfig",
        dict(
            sliding_window=12,
            query_pre_attn_scalar=16,
            layer_types=["sliding_attention", "sliding_attention", "full_attention", "full_attention"],
        ),
    ),
    "gpt_oss": (
        "GptOssConfig",
        dict(
            sliding_window=8,
            num_local_experts=4,
            num_experts_per_tok=2,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
    ),
    "qwen3_moe": ("Qwen3MoeConfig", dict(_MOE, decoder_sparse_step=1, mlp_only_layers=[])),
    "mistral": ("MistralConfig", dict(sliding_window=None)),
    "olmo3": ("Olmo3Config", dict(sliding_window=10, layer_types=["sliding_attention"] * 3 + ["full_attention"])),
    "smollm3": ("SmolLM3Config", dict(no_rope_layers=[1, 1, 1, 0], use_sliding_window=False)),
    "phi3": ("Phi3Config", dict(head_dim=8)),
    "qwen3_next": (
        "Qwen3NextConfig",
        dict(
            _MOE,
            shared_expert_intermediate_size=16,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            layer_types=["linear_attention", "full_attention"] * 2,
        ),
    ),
}


def random_model(family: str, attn: str = "kvscope"):
    """A transformers model with random weights that are the same every time."""
    from kvscope import attention

    attention.register()
    name, extra = FAMILIES[family]
    if not hasattr(transformers, name):
        raise unittest.SkipTest(f"transformers {transformers.__version__} has no {name}")
    config = getattr(transformers, name)(**{**_SHARED, **extra})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attn).eval()
    with torch.no_grad():
        for n, p in model.named_parameters():  # livelier than at the start of a training
            if p.dim() > 1 and "conv" not in n:
                p.normal_(0, 0.25)
            elif n.endswith("sinks"):
                p.normal_(0, 1)
    return model


def tokenizer():
    """Bytes as tokens, as a byte-level tokenizer writes them, with an end and a pad token and a small chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from kvscope.pieces import byte_alphabet

    vocabulary = {character: byte for character, byte in byte_alphabet().items()}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    out = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<pad>")
    out.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    return out


def save(folder: str, family: str = "mistral") -> str:
    """A model folder with weights and tokenizer. Returns its path."""
    random_model(family, "eager").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def ids(n: int, seed: int = 1) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 255, (n,), generator=generator).tolist()
