"""The models of the check, their prompts, and the files of weights that two methods need."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from kvpress.presses.kvzap_press import KVzapConfig, KVzapModel

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "samples/models/kvscope-tiny"
SEED = 0


@dataclass(frozen=True)
class Subject:
    """A model folder and its prompts. shape: layers, KV heads, hidden size. prompts: [texts][tokens] ids."""

    name: str
    what: str
    folder: Path
    shape: tuple[int, int, int]
    prompts: list[list[int]]


def subject(name: str, what: str, folder: Path, starts: list[int], n: int) -> Subject:
    """A model and n tokens of the held-out text from each of `starts`."""
    config = json.loads((folder / "config.json").read_text())
    shape = config["num_hidden_layers"], config["num_key_value_heads"], config["hidden_size"]
    return Subject(name, what, folder, shape, prompts(folder, starts, n))


def random_llama(folder: Path, layers: int = 4, hidden: int = 256) -> Path:
    """A Llama with random weights, the same every time, and kvscope-tiny's tokenizer. The weights' deviation of 0.1
    lets heads attend to few tokens; under transformers' 0.02 all tokens are nearly equal, and each choice a
    near-tie."""
    config = transformers.LlamaConfig(
        vocab_size=4096,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=hidden // 8,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
    )
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, folder)
    return folder


def prompts(folder: Path, starts: list[int], n: int) -> list[list[int]]:
    """n tokens of the held-out text from each of `starts`."""
    text = (ROOT / "samples/prompts/heldout.txt").read_text()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text[: 40 * (max(starts) + n)], add_special_tokens=False).input_ids
    return [ids[start : start + n] for start in starts]


def kvzap_gate(subject: Subject, folder: Path) -> Path:
    """A linear KVzap with random weights, saved by kvpress' own class."""
    layers, heads, hidden = subject.shape
    torch.manual_seed(SEED)
    KVzapModel(KVzapConfig(input_dim=hidden, output_dim=heads, n_modules=layers)).save_pretrained(folder)
    return folder


def duo_pattern(subject: Subject, folder: Path, sinks: int, recent: int) -> np.ndarray:
    """[layers, KV heads] random values, half of them local, written as a folder of DuoAttention."""
    alpha = np.random.default_rng(SEED).random(subject.shape[:2]).round(6)
    folder.mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / "full_attention_heads.tsv", alpha, delimiter="\t", fmt="%.6f")
    threshold = float(np.sort(alpha, axis=None)[alpha.size // 2])
    sizes = {"sink_size": sinks, "recent_size": recent, "threshold": threshold}
    (folder / "config.json").write_text(json.dumps(sizes))
    return alpha
