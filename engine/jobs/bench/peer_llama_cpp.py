#!/usr/bin/env python3
"""How fast llama.cpp decodes random weights of a Qwen3 shape on the CPU: the peer of kernel_tests 'decode step on CPU*'.

    pip install llama-cpp-python gguf numpy   (builds llama.cpp for this machine's CPU; gguf writes its files)
    python engine/jobs/bench/peer_llama_cpp.py --shape sample --dtype bf16 --threads 2

A prompt of --prompt tokens, then --tokens greedy ones, --rounds times; milliseconds of the prompt, and milliseconds a token
of llama_decode() alone, which is given each token and asked for its logits: the search for the greatest is ours and is not
counted.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import gguf
import llama_cpp
import numpy as np

SHAPES = {
    "sample": dict(hidden=256, ff=768, layers=6, heads=8, kv=4, dim=64, vocab=4096),
    "qwen3-0.6b": dict(hidden=1024, ff=3072, layers=28, heads=16, kv=8, dim=128, vocab=151936),
    "smollm2-135m": dict(hidden=576, ff=1536, layers=30, heads=9, kv=3, dim=64, vocab=49152, arch="llama"),
}


def write_header(writer, shape):
    writer.add_block_count(shape["layers"])
    writer.add_context_length(8192)
    writer.add_embedding_length(shape["hidden"])
    writer.add_feed_forward_length(shape["ff"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv"])
    writer.add_key_length(shape["dim"])
    writer.add_value_length(shape["dim"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(shape["vocab"])
    # A byte-level vocabulary that means nothing: prompts are ids.
    unprintable = [b for b in range(256) if b < 33 or 127 <= b < 161 or b == 173]
    tokens = [chr(256 + unprintable.index(b)) if b in unprintable else chr(b) for b in range(256)]
    tokens += [f"token{i}" for i in range(256, shape["vocab"])]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * shape["vocab"])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(shape["vocab"] - 1)


def write_model(path, shape, dtype):
    """The output matrix is the embedding, as in the sample model."""
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(str(path), shape.get("arch", "qwen3"))
    write_header(writer, shape)

    def norm(name, n):
        writer.add_tensor(name, np.ones(n, np.float32))

    def matrix(name, *size):
        x = random.standard_normal(size, dtype=np.float32) * 0.02
        if dtype == "f32":
            writer.add_tensor(name, x)
        else:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)

    hidden, ff = shape["hidden"], shape["ff"]
    q_rows, kv_rows = shape["heads"] * shape["dim"], shape["kv"] * shape["dim"]
    matrix("token_embd.weight", shape["vocab"], hidden)
    norm("output_norm.weight", hidden)
    for layer in range(shape["layers"]):
        block = f"blk.{layer}."
        for name in ("attn_norm", "ffn_norm"):
            norm(f"{block}{name}.weight", hidden)
        for name in ("attn_q_norm", "attn_k_norm") if "arch" not in shape else ():
            norm(f"{block}{name}.weight", shape["dim"])
        matrix(block + "attn_q.weight", q_rows, hidden)
        matrix(block + "attn_k.weight", kv_rows, hidden)
        matrix(block + "attn_v.weight", kv_rows, hidden)
        matrix(block + "attn_output.weight", hidden, q_rows)
        matrix(block + "ffn_gate.weight", ff, hidden)
        matrix(block + "ffn_up.weight", ff, hidden)
        matrix(block + "ffn_down.weight", hidden, ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def measure(path, args):
    model = llama_cpp.Llama(str(path), n_ctx=2048, n_batch=args.prompt, n_ubatch=min(args.prompt, 512), n_threads=args.threads, n_threads_batch=args.threads, n_gpu_layers=0,
                            logits_all=False, verbose=False)
    batch = llama_cpp.llama_batch_init(1, 0, 1)
    rounds, prompts = [], []
    for _ in range(args.rounds):
        model.reset()
        start = time.perf_counter()
        model.eval([300 + i % 1000 for i in range(args.prompt)])
        llama_cpp.llama_get_logits(model.ctx)
        prompts.append(1e3 * (time.perf_counter() - start))
        seconds = 0.0
        for i in range(args.tokens):
            logits = llama_cpp.llama_get_logits(model.ctx)
            batch.n_tokens, batch.token[0] = 1, int(np.argmax(np.ctypeslib.as_array(logits, (model.n_vocab(),))))
            batch.pos[0], batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = args.prompt + i, 1, 0, 1
            start = time.perf_counter()
            if llama_cpp.llama_decode(model.ctx, batch) != 0:
                sys.exit("llama_decode failed")
            llama_cpp.llama_get_logits(model.ctx)  # waits for the step, should it not have ended
            seconds += time.perf_counter() - start
        rounds.append(1e3 * seconds / args.tokens)
    return rounds, prompts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="sample")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        write_model(path, SHAPES[args.shape], args.dtype)
        times, prompts = measure(path, args)
    # stderr has llama.cpp's own log, and so may stdout: the last line is the result.
    print(f"llama.cpp, {args.shape}, {args.dtype}, {args.threads} threads: {min(times):.3f} ms a token at best, "
          f"{statistics.median(times):.3f} in the median of {args.rounds}; a prompt of {args.prompt} tokens {min(prompts):.1f} and "
          f"{statistics.median(prompts):.1f} ms", flush=True)
    sys.exit(0)


main()
