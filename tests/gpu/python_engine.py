"""The Python engine on a GPU: its lifetimes against the CPU's, and its speed. Run it on a machine with a GPU:

    python3 tests/gpu/python_engine.py [--seconds 200]

It needs torch and transformers and no network: models are random. One line for each measurement, the card first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import test_engine
import tiny

from kvscope.wire import read_f32, read_i32

SHAPES = {  # of public models, with the vocabulary of bytes
    "Qwen3-0.6B": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16),
    "Qwen3-8B": dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32),
}
POLICY = "top-k:budget=1024,sinks=4,window=64"


def load(device: str, folder: str, dtype: str = "auto") -> test_engine.Client:
    client = test_engine.Client("--no-kvpress", "--device", device)
    loaded = client.ask(type="load", model=folder, device="auto", dtype=dtype, gates=[])[-1]
    assert loaded["type"] == "done", loaded
    return client


def decode(client: test_engine.Client, policy: str, n: int, oracle: bool = False, n_new: int = 32) -> list[dict]:
    events = client.ask(**{**client.run(policy, n), "max_tokens": n_new, "oracle": oracle})
    assert events[-1]["type"] == "done", events[-1]
    return events


def lifetimes(events: list[dict]) -> set[tuple]:
    rows = [np.zeros((0, 4), np.int32)] + [read_i32(event, "lifetimes").reshape(-1, 4) for event in events if event["type"] == "step"]
    return {tuple(row) for row in np.concatenate(rows).tolist()}


def logprobs(events: list[dict]) -> np.ndarray:
    return np.concatenate([read_f32(event, "logprobs") for event in events if event["type"] == "step"])


def compare(family: str, folder: str) -> str:
    """The same prompt on both devices in float32, under policies without a contest: there a near-tie that falls the
    other way changes all that follows (on the CPU too, with an embedding that is 1e-6 larger)."""
    tiny.save(folder, family)
    found = []
    for device in ("cpu", "cuda"):
        client = load(device, folder, "float32")
        runs = [decode(client, policy, 200, n_new=1) for policy in ("full", "streaming:sinks=2,window=46")]
        found.append([(lifetimes(run), logprobs(run)[:200]) for run in runs])
        client.close()
    out = []
    for name, (gone, a), (gone_on_gpu, b) in zip(("full", "streaming"), *found):
        out.append(
            f"{name} {len(gone & gone_on_gpu)} of {len(gone | gone_on_gpu)} evictions alike, log-probabilities "
            f"within {np.nanmax(np.abs(a - b)):.1e}"
        )
    return f"{family}, GPU against CPU: " + "; ".join(out)


def make(name: str, folder: str) -> None:
    import torch
    import transformers

    config = transformers.Qwen3Config(
        **SHAPES[name],
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=tiny.VOCABULARY,
        max_position_embeddings=40960,
        eos_token_id=256,
    )
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)


def memory() -> str:
    command = ["nvidia-smi", "--query-compute-apps=used_memory", "--format=csv,noheader"]
    return ", ".join(subprocess.run(command, capture_output=True, text=True).stdout.split("\n")).strip(", ")


def measure(name: str, folder: str, end: float) -> None:
    make(name, folder)
    client = load("cuda", folder)
    decode(client, "full", 300)  # the first run warms up
    for policy, n, oracle in (
        ("full", 1024, False),
        (POLICY, 8192, False),
        ("full", 32768, False),
        (POLICY, 32768, False),
        (POLICY, 8192, True),
        (POLICY, 32768, True),
    ):
        if time.monotonic() > end:
            print(f"{name}: no time for {policy} on {n} tokens")
            continue
        start = time.monotonic()
        timings = decode(client, policy, n, oracle)[-1]["timings"]
        print(
            f"{name} {policy} prompt {n}{' with oracle' if oracle else ''}: prompt {timings['prefill_s']:.2f} s, "
            f"{1e3 * timings['decode_s'] / timings['decode_steps']:.1f} ms a token, {time.monotonic() - start:.1f} s in all, "
            f"GPU memory {memory()}",
            flush=True,
        )
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="begin no measurement later than this")
    end = time.monotonic() + parser.parse_args().seconds
    import torch
    import transformers

    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for family in ("mistral", "gemma3", "gpt_oss", "qwen3_moe"):
            try:
                print(compare(family, os.path.join(folder, family)), flush=True)
            except AssertionError as error:
                print(f"{family}: {str(error)[-400:]}", flush=True)
        for name in SHAPES:
            measure(name, os.path.join(folder, name), end)


if __name__ == "__main__":
    main()
