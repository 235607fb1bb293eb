"""The Python engine on a GPU: its speed and memory, its device map, and its lifetimes against the CPU's:

    python3 tests/gpu/python_engine.py [--seconds 200]

It needs torch, transformers and accelerate, and no network: models are random. One line for each figure, with the card.
`--device cpu --tokens 300` tries the script itself where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
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
FAMILIES = ("mistral", "gemma3", "gpt_oss", "qwen3_moe")
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
    rows = [np.zeros((0, 4), np.int32)] + [
        read_i32(event, "lifetimes").reshape(-1, 4) for event in events if event["type"] == "step"
    ]
    return {tuple(row) for row in np.concatenate(rows).tolist()}


def logprobs(events: list[dict]) -> np.ndarray:
    return np.concatenate([read_f32(event, "logprobs") for event in events if event["type"] == "step"])


def alike(a: list[dict], b: list[dict], n: int) -> str:
    """Two runs of one prompt of n tokens: their evictions, and the log-probabilities of the prompt."""
    gone, gone_b = lifetimes(a), lifetimes(b)
    furthest = np.nanmax(np.abs(logprobs(a)[:n] - logprobs(b)[:n]))
    return f"{len(gone & gone_b)} of {len(gone | gone_b)} evictions alike, log-probabilities within {furthest:.1e}"


class Gpu:
    """The machine's card, and what is left of the time."""

    def __init__(self, device: str, seconds: float):
        import torch

        self.device, self.end = device, time.monotonic() + seconds
        self.torch, self.is_cuda = torch, device.startswith("cuda")
        self.name = torch.cuda.get_device_name(0) if self.is_cuda else "CPU"

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", flush=True)

    def used(self) -> float:
        """GB of the whole card. torch keeps what it has had, so that after a run this is the most that the run took."""
        if not self.is_cuda:
            return 0.0
        free, total = self.torch.cuda.mem_get_info()
        return (total - free) / 1e9

    def step(self, what: str, seconds: float, work: Callable[[], None]) -> None:
        """Does it if so many seconds are left. What fails is a line, and the next step is tried."""
        if time.monotonic() + seconds > self.end:
            self.say(f"{what}: no time left")
            return
        try:
            work()
        except AssertionError as error:
            self.say(f"{what}: failed: {str(error)[-400:]}")


def make(gpu: Gpu, name: str, folder: str) -> str:
    """A random model of this shape in bfloat16."""
    import transformers

    config = transformers.Qwen3Config(
        **SHAPES[name],
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=tiny.VOCABULARY,
        max_position_embeddings=40960,
        eos_token_id=256,
    )
    gpu.torch.manual_seed(0)
    with gpu.torch.device(gpu.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=gpu.torch.bfloat16)
    model.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    del model
    if gpu.is_cuda:
        gpu.torch.cuda.empty_cache()
    return folder


def measure(gpu: Gpu, what: str, folder: str, policy: str, n: int, oracle: bool = False) -> None:
    """One run in a new engine, after a short one that warms it up."""
    before, start = gpu.used(), time.monotonic()
    client = load(gpu.device, folder, "bfloat16")
    decode(client, "full", min(n, 300))
    timings = decode(client, policy, n, oracle)[-1]["timings"]
    gpu.say(
        f"{what}, {policy}, prompt of {n}{' with oracle' if oracle else ''}: prompt {timings['prefill_s']:.2f} s, "
        f"{1e3 * timings['decode_s'] / timings['decode_steps']:.1f} ms a token, memory at most "
        f"{gpu.used() - before:.1f} GB, {time.monotonic() - start:.1f} s with start and warm-up"
    )
    client.close()


def spread(gpu: Gpu, what: str, folder: str, n: int) -> None:
    """The same run with the whole model on one device, and with device_map="auto"."""
    runs = []
    for device in (gpu.device, "map"):
        client = load(device, folder, "bfloat16")
        runs.append(decode(client, POLICY, n))
        client.close()
    gpu.say(f"{what}, device_map=auto against {gpu.device}, {POLICY}, prompt of {n}: {alike(*runs, n)}")


def compare(gpu: Gpu, folder: str) -> None:
    """The same prompt on both devices in float32, under policies without a contest: there a near-tie that falls the
    other way changes all that follows (on the CPU too, with an embedding that is 1e-6 larger)."""
    found: dict[tuple, list] = {}
    for family in FAMILIES:
        tiny.save(os.path.join(folder, family), family)
    for device in ("cpu", gpu.device):
        client = load(device, os.path.join(folder, FAMILIES[0]), "float32")
        for family in FAMILIES:
            model = os.path.join(folder, family)
            loaded = client.ask(type="load", model=model, device="auto", dtype="float32", gates=[])[-1]
            assert loaded["type"] == "done", loaded
            for policy in ("full", "streaming:sinks=2,window=46"):
                found.setdefault((family, policy), []).append(decode(client, policy, 200, n_new=1))
        client.close()
    for (family, policy), runs in found.items():
        gpu.say(f"tiny {family}, {policy}, {gpu.device} against CPU: {alike(*runs, 200)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=200, help="begin nothing that would end later")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=32768, help="of the long prompt")
    options = parser.parse_args()
    import transformers

    gpu = Gpu(options.device, options.seconds)
    gpu.say(f"torch {gpu.torch.__version__}, transformers {transformers.__version__}")
    small, large = SHAPES
    long, short = options.tokens, options.tokens // 4
    with tempfile.TemporaryDirectory() as folder:
        model = make(gpu, small, os.path.join(folder, small))
        gpu.step("full", 30, lambda: measure(gpu, small, model, "full", long))
        gpu.step("top-k", 40, lambda: measure(gpu, small, model, POLICY, long))
        gpu.step("device map", 30, lambda: spread(gpu, small, model, short))
        gpu.step("GPU against CPU", 40, lambda: compare(gpu, folder))
        gpu.step("oracle", 40, lambda: measure(gpu, small, model, POLICY, short, oracle=True))
        gpu.step(
            large,
            90,
            lambda: measure(gpu, large, make(gpu, large, os.path.join(folder, large)), POLICY, short),
        )


if __name__ == "__main__":
    main()
