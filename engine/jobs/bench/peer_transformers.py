"""The same shapes in transformers, beside `kvscope bench decode` and `bench prefill`: random weights, bfloat16, batch 1.

    python3 engine/jobs/bench/peer_transformers.py [--shape qwen3-8b] [--context 1024] [--steps 32] [--compile] [--prefill 32768]

Prints one JSON line a measurement. Decoding is timed over `steps` tokens after a warm-up, eager with a DynamicCache, and
compiled (mode "reduce-overhead", which captures CUDA graphs) with a StaticCache. Prefill is one forward pass over a chunk
after the other with sdpa, logits of the last token only.
"""

import argparse
import json
import statistics
import time

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, Qwen3Config, StaticCache

SHAPES = {
    "qwen3-0.6b": (Qwen3Config, dict(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)),
    "qwen3-4b": (Qwen3Config, dict(vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)),
    "qwen3-8b": (Qwen3Config, dict(vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False)),
    "llama-3.1-8b": (LlamaConfig, dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False)),
}


def load(shape):
    config_class, sizes = SHAPES[shape]
    config = config_class(max_position_embeddings=1 << 20, **sizes)
    torch.manual_seed(1)
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()


@torch.inference_mode()
def fill(model, cache, ids):
    """Passes the prompt through in chunks; logits of the last token."""
    for begin in range(0, ids.shape[1], 8192):
        part = ids[:, begin : begin + 8192]
        positions = torch.arange(begin, begin + part.shape[1], device="cuda")
        out = model(part, past_key_values=cache, cache_position=positions, logits_to_keep=1)
    return out.logits


@torch.inference_mode()
def decode(model, step, cache, context, steps):
    """Milliseconds of each token."""
    token = torch.zeros((1, 1), dtype=torch.long, device="cuda")
    times = []
    for i in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        position = torch.tensor([context + i], device="cuda")
        token = step(token, past_key_values=cache, cache_position=position).logits[:, -1:].argmax(-1).clone()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return times[steps // 3 :]


def tell(what, **values):
    print(json.dumps({"peer": "transformers", "what": what, "device": torch.cuda.get_device_name(), **values}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", default="qwen3-8b", choices=SHAPES)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--prefill", type=int, default=0)
    args = parser.parse_args()
    model = load(args.shape)
    ids = torch.randint(0, model.config.vocab_size, (1, args.context), device="cuda")

    cache = DynamicCache(config=model.config)
    fill(model, cache, ids)
    times = decode(model, model, cache, args.context, args.steps)
    tell("decode eager", shape=args.shape, context=args.context, ms=statistics.median(times), min=min(times), max=max(times))

    if args.compile:
        cache = StaticCache(config=model.config, max_cache_len=args.context + args.steps)
        # Before compiling, or the first token takes a minute and a half.
        cache.early_initialization(1, model.config.num_key_value_heads, model.config.head_dim, torch.bfloat16, torch.device("cuda"))
        fill(model, cache, ids)
        step = torch.compile(model, mode="reduce-overhead")
        times = decode(model, step, cache, args.context, args.steps)
        tell("decode compiled", shape=args.shape, context=args.context, ms=statistics.median(times), min=min(times), max=max(times))

    if args.prefill > 0:
        ids = torch.randint(0, model.config.vocab_size, (1, args.prefill), device="cuda")
        seconds = []
        for _ in range(3):
            cache = DynamicCache(config=model.config)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            fill(model, cache, ids)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        tell("prefill", shape=args.shape, tokens=args.prefill, seconds=min(seconds), tokens_per_s=args.prefill / min(seconds))


if __name__ == "__main__":
    main()
