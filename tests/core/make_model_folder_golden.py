#!/usr/bin/env python3
"""Writes golden/tokenizer_folders.json.gz and golden/model_configs.json.gz: model folders with varied files beside the
usual ones, and what transformers makes of them. Needs `pip install transformers==5.2.0` and torch; takes three minutes.

    python3 tests/core/make_model_folder_golden.py [--seed N] [--folders N] [--out FOLDER]

tokenizer_folders: `base` are tokenizer.json files, whole; each of `folders` is {base, patch (RFC 7386, of tokenizer.json),
files {name: text}, texts, ids, special}: ids of each text without and with what the post-processor adds, or null where
transformers refuses the folder. AutoTokenizer is asked; where tokenizer_config.json names no class, the plain class of
`tokenizers` files, since AutoTokenizer then takes CodeLlama's for every Llama.

model_configs: each of `configs` is {config_text, generation_text, numbers}: what the configuration class and the rotary embedding of
the model's class make of config.json, or null where they refuse it.
"""
import argparse
import copy
import gzip
import json
import logging
import math
import pathlib
import random
import tempfile

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast

transformers.logging.set_verbosity(logging.CRITICAL)
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CORPUS = ["The cache keeps what the model will read again, and forgets the rest.", "ab abc tool tools the user system pad x y z "] * 3
NAMES = ["<|tool|>", "<x>", "<y>", "[PAD]", "<|im_end|>", "</s>", "<s>", "<unk>", "tool", " keeps", "the", "<a<x>", "é<s>", "<|endoftext|>", "<|new|>"]


def base(kind):
    tokenizer = Tokenizer(models.BPE())
    if kind == "llama3":
        split = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
    else:
        split = QWEN2
        tokenizer.normalizer = normalizers.NFC()
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    tokenizer.pre_tokenizer = level if kind == "gpt2" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), behavior="isolated"), level])
    if kind == "gpt2":
        tokenizer.normalizer = None
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    if kind == "llama3":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", pair="<|im_start|> $A <|im_start|> $B",
            special_tokens=[("<|im_start|>", tokenizer.token_to_id("<|im_start|>"))])
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    return data


def flags(rng, special=None):
    out = {name: rng.random() < 0.2 for name in ("lstrip", "rstrip", "single_word", "normalized")}
    out["special"] = rng.random() < 0.6 if special is None else special
    return out


def varied_added(rng, data):
    """tokenizer.json's own list: other ids, an order of its own, the same token twice, tokens of the vocabulary."""
    added = copy.deepcopy(data["added_tokens"])
    size = len(data["model"]["vocab"])
    for _ in range(rng.randint(0, 4)):
        added.append({"id": size + len(added), "content": rng.choice(NAMES), **flags(rng)})
    kind = rng.random()
    if kind < 0.2:
        for i, token in enumerate(added):
            token["id"] = size + 40 + i
    elif kind < 0.3:
        rng.shuffle(added)
    elif kind < 0.4:
        added.append(copy.deepcopy(rng.choice(added)))
    elif kind < 0.5:
        for token in added:
            token["id"] = rng.randrange(0, size + 60)
    return added


def token(rng, as_object=0.3):
    content = rng.choice(NAMES)
    if rng.random() < as_object:
        return {"__type": "AddedToken", "content": content, **{k: v for k, v in flags(rng).items() if k != "special"}}
    return content


def varied_config(rng, data, model_type):
    classes = {"llama": ["PreTrainedTokenizerFast", "LlamaTokenizerFast", "GPT2Tokenizer", "TokenizersBackend", "LlamaTokenizer"],
               "qwen2": ["Qwen2Tokenizer", "Qwen2TokenizerFast", "PreTrainedTokenizerFast", "LlamaTokenizerFast"]}
    config = {"tokenizer_class": rng.choice(classes[model_type]), "model_max_length": 512}
    if rng.random() < 0.1:
        del config["tokenizer_class"]
    size = len(data["model"]["vocab"])
    if rng.random() < 0.5:
        decoder = {}
        if rng.random() < 0.7:
            for one in data["added_tokens"]:
                decoder[str(one["id"])] = {k: v for k, v in one.items() if k != "id"}
        for _ in range(rng.randint(0, 3)):
            decoder[str(rng.randrange(size, size + 30))] = {"content": rng.choice(NAMES), **flags(rng)}
        config["added_tokens_decoder"] = decoder
    for name in ("bos_token", "eos_token", "unk_token", "pad_token", "image_token", "audio_token"):
        if rng.random() < 0.3:
            config[name] = rng.choice([token(rng), token(rng, 0), None])
    if rng.random() < 0.3:
        config["additional_special_tokens"] = [token(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.15:
        config["extra_special_tokens"] = rng.choice([[token(rng)], {"video_token": rng.choice(NAMES)}, {}])
    for name, value in (("add_bos_token", True), ("add_bos_token", False), ("add_eos_token", True), ("add_prefix_space", False),
                        ("add_prefix_space", True), ("split_special_tokens", True), ("do_lower_case", True), ("legacy", True),
                        ("clean_up_tokenization_spaces", True), ("padding_side", "left")):
        if rng.random() < 0.07:
            config[name] = value
    return config


def texts(rng, names):
    plain = ["The cache keeps it", " a tool", "x", "the  user\n", "é cafe\u0301", "abc 123"]
    out = []
    for _ in range(5):
        text = ""
        for _ in range(rng.randint(1, 5)):
            text += rng.choice(names) if rng.random() < 0.5 else rng.choice(plain)
            text += rng.choice(["", " ", "  ", "\n", ""])
        out.append(text)
    return out


def tokenizer_folder(rng, bases):
    kind = rng.choice(sorted(bases))
    model_type = rng.choice(["llama", "qwen2"]) if kind == "qwen2" else rng.choice(["llama", "llama", "llama", "qwen2"])
    data = bases[kind]
    patch = {"added_tokens": varied_added(rng, data)} if rng.random() < 0.5 else {}
    if rng.random() < 0.1:
        patch["post_processor"] = None
    files = {"config.json": {"model_type": model_type, "architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[model_type]]}}
    if rng.random() < 0.85:
        files["tokenizer_config.json"] = varied_config(rng, {**data, **patch}, model_type)
    if rng.random() < 0.2:
        names = rng.sample(["bos_token", "eos_token", "pad_token", "image_token"], rng.randint(0, 3))
        files["special_tokens_map.json"] = {n: rng.choice([rng.choice(NAMES), {"content": rng.choice(NAMES), **{
            k: v for k, v in flags(rng).items() if k != "special"}}]) for n in names}
        if rng.random() < 0.4:
            files["special_tokens_map.json"]["additional_special_tokens"] = rng.sample(NAMES, 2)
    if rng.random() < 0.2:
        size = len(data["model"]["vocab"])
        files["added_tokens.json"] = {n: rng.randrange(size, size + 20) for n in rng.sample(NAMES, rng.randint(1, 3))}
    names = [t["content"] for t in patch.get("added_tokens", data["added_tokens"])] + NAMES
    # As text: the order of keys decides how some tokens are numbered.
    return {"base": kind, "patch": patch, "files": {n: json.dumps(f) for n, f in files.items()}, "texts": texts(rng, names)}


def merge_patch(data, patch):
    return {**data, **{k: v for k, v in patch.items() if v is not None}, **{k: None for k, v in patch.items() if v is None}}


def ask_tokenizer(case, bases):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "tokenizer.json").write_text(json.dumps(merge_patch(bases[case["base"]], case["patch"])))
        for name, text in case["files"].items():
            (path / name).write_text(text)
        has_class = "tokenizer_class" in json.loads(case["files"].get("tokenizer_config.json", "{}"))
        try:
            tokenizer = (AutoTokenizer if has_class else PreTrainedTokenizerFast).from_pretrained(folder)
            ids = [tokenizer(t, add_special_tokens=False)["input_ids"] for t in case["texts"]]
            special = [tokenizer(t)["input_ids"] for t in case["texts"]]
        except Exception as error:  # whatever it raises, it does not run
            case["refused"] = type(error).__name__
            ids = special = None
    case["ids"], case["special"] = ids, special
    return case


PUBLISHED = {
    "llama": {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
              "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 768,
              "max_position_embeddings": 2048, "mlp_bias": False, "model_type": "llama", "num_attention_heads": 8,
              "num_hidden_layers": 3, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
              "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
              "transformers_version": "4.40.0", "use_cache": True, "vocab_size": 500},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 400, "eos_token_id": 401,
              "hidden_act": "silu", "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 768,
              "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2", "num_attention_heads": 8,
              "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
              "sliding_window": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
              "use_sliding_window": False, "vocab_size": 500},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 400,
              "eos_token_id": 401, "head_dim": 64, "hidden_act": "silu", "hidden_size": 256, "initializer_range": 0.02,
              "intermediate_size": 768, "max_position_embeddings": 4096, "max_window_layers": 28, "model_type": "qwen3",
              "num_attention_heads": 8, "num_hidden_layers": 3, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
              "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
              "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False, "vocab_size": 500},
}


def rope_section(rng):
    kind = rng.choice(["default", "linear", "llama3", "yarn", "dynamic", "longrope"])
    section = {rng.choice(["rope_type", "type"]): kind}
    if kind != "default":
        section["factor"] = rng.choice([2, 4.0, 8.0, None if kind == "yarn" else 2.0])
    if kind == "llama3":
        section |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
    if kind == "yarn" and rng.random() < 0.7:
        section["original_max_position_embeddings"] = 512
    if kind == "yarn" and rng.random() < 0.3:
        section |= {"beta_fast": 16, "mscale": 0.7, "mscale_all_dim": 0.9}
    if rng.random() < 0.1:
        section["partial_rotary_factor"] = 0.5
    if rng.random() < 0.1:
        section["mrope_section"] = [2, 3, 3]
    return section


CHANGES = [
    ("head_dim", [None, 32, 64, 12, 100, 40, 128, 256, 320]), ("num_key_value_heads", [None, 1, 2, 4, 8, 3]),
    ("hidden_act", ["silu", "swish", "gelu", "relu"]), ("tie_word_embeddings", [True, False]),
    ("architectures", [None, [], ["LlamaForCausalLM"]]), ("rms_norm_eps", [1e-5, 1e-6]), ("attention_bias", [True]),
    ("mlp_bias", [True]), ("eos_token_id", [None, 3, [3, 4], 500, -1, [499, 600]]), ("bos_token_id", [None, 999, -1]),
    ("pad_token_id", [-1, 499, 500]), ("rope_theta", [10000, 5e5]), ("partial_rotary_factor", [0.5, 1.0]),
    ("use_sliding_window", [True]), ("sliding_window", [64, None, 4096]), ("max_window_layers", [0, 1, 28]),
    ("layer_types", [["full_attention"] * 3, ["sliding_attention"] * 3]), ("logit_scale", [0.1]),
    ("final_logit_softcapping", [30.0]), ("attn_logit_softcapping", [50.0]), ("embedding_multiplier", [12.0]),
    ("residual_multiplier", [0.22]), ("query_pre_attn_scalar", [256]), ("auto_map", [{"AutoModel": "m.M"}]),
    ("quantization_config", [{"quant_method": "bitsandbytes", "load_in_8bit": True}]), ("attention_dropout", [0.1]),
    ("use_qk_norm", [True]), ("num_local_experts", [8]), ("intermediate_size", [512, 65536]), ("hidden_size", [480, 500]),
    ("time_limit", [float("inf")]), ("rms_norm_eps", [float("nan")]), ("original_max_position_embeddings", [256]),
    ("temperature", [0.7]), ("id2label", [{"0": "A"}]), ("dtype", ["float32"]), ("vocab_size", [500, 512]),
]

GENERATION = [
    ("top_k", [-1, 0, 50]), ("top_p", [0.9, 1.5, None]), ("temperature", [0.0, 0.6, -1]), ("do_sample", [True, False]),
    ("eos_token_id", [3, [3, 4], 500, [3, 900], -1]), ("repetition_penalty", [1.1, 0]), ("no_repeat_ngram_size", [3]),
    ("num_beams", [1, 4]), ("suppress_tokens", [[1]]), ("transformers_version", ["4.40.0"]), ("max_length", [4096]),
    ("time_limit", [float("inf")]),
]


def varied_model(rng):
    config = copy.deepcopy(PUBLISHED[rng.choice(sorted(PUBLISHED))])
    for key, values in rng.sample(CHANGES, rng.choice([0, 1, 1, 2, 2, 3])):
        value = rng.choice(values)
        if value is None and rng.random() < 0.5:
            config.pop(key, None)
        else:
            config[key] = value
    if rng.random() < 0.35:
        config[rng.choice(["rope_scaling", "rope_parameters"])] = rope_section(rng)
    generation = {}
    if rng.random() < 0.5:
        for key, values in rng.sample(GENERATION, rng.randint(1, 3)):
            generation[key] = rng.choice(values)
    # As text: it may have Infinity, which other readers of JSON than Python's do not take.
    return {"config_text": json.dumps(config), "generation_text": json.dumps(generation) if generation else None}


def rotary(config):
    name = {"llama": "llama.modeling_llama.LlamaRotaryEmbedding", "qwen2": "qwen2.modeling_qwen2.Qwen2RotaryEmbedding",
            "qwen3": "qwen3.modeling_qwen3.Qwen3RotaryEmbedding"}[config.model_type]
    module, cls = name.rsplit(".", 1)
    made = getattr(__import__("transformers.models." + module, fromlist=[cls]), cls)(config)
    return made.inv_freq.tolist(), float(made.attention_scaling)


def ask_config(case):
    """Numbers of the forward pass; also whether a layer has a window, which only some classes look at."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(case["config_text"])
        try:
            c = AutoConfig.from_pretrained(folder)
            inv_freq, scaling = rotary(c)
            heads, head_dim = c.num_attention_heads, getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
            model = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[c.model_type]
            with torch.device("meta"):
                made = getattr(transformers, model)(c)
            attention = made.model.layers[0].self_attn
            window = max((getattr(layer.self_attn, "sliding_window", None) or 0) for layer in made.model.layers)
            case["numbers"] = {
                "shape": [c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers, heads,
                          attention.k_proj.out_features // head_dim, head_dim, c.max_position_embeddings],
                "rms_norm_eps": None if math.isnan(made.model.norm.variance_epsilon) else made.model.norm.variance_epsilon, "tied": bool(c.tie_word_embeddings), "inv_freq": inv_freq,
                "scaling": scaling, "window": window if window < c.max_position_embeddings else 0,
                "act": type(made.model.layers[0].mlp.act_fn).__name__,
                "biases": sorted(n for n, _ in made.model.layers[0].named_parameters() if n.endswith("bias")),
                "rotated": 2 * len(inv_freq)}
        except Exception as error:
            case["refused"] = type(error).__name__
            case["numbers"] = None
    return case


def write(folder, name, data):
    path = pathlib.Path(folder) / f"{name}.json.gz"
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path.name, path.stat().st_size, "bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--folders", type=int, default=160)
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "golden"))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    bases = {kind: base(kind) for kind in ("gpt2", "llama3", "qwen2")}
    folders = [ask_tokenizer(tokenizer_folder(rng, bases), bases) for _ in range(options.folders)]
    write(options.out, "tokenizer_folders", {"base": bases, "folders": folders})
    write(options.out, "model_configs", {"configs": [ask_config(varied_model(rng)) for _ in range(options.folders)]})


main()
