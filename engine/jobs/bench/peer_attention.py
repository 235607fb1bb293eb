"""Attention of decode steps by other kernels, beside `kvscope bench batch`: random bfloat16 keys and values, no weights.

    python3 engine/jobs/bench/peer_attention.py [--shape qwen3-8b] [--context 16384] [--batch 16] [--repeats 50]

Prints one JSON line a kernel: microseconds of one layer, and how many bytes of keys and values it reads a second. A kernel that is
not importable or does not run here is one line that says so.
"""

import argparse
import json
import statistics

import torch

HEADS = {"qwen3-0.6b": (16, 8, 128), "qwen3-4b": (32, 8, 128), "qwen3-8b": (32, 8, 128), "llama-3.1-8b": (32, 8, 128)}


def cudnn(q, k, v):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def step():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    return step


def flex(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, enable_gqa=True)


def flashinfer(q, k, v):
    import flashinfer

    batch, heads, _, dim = q.shape
    kv_heads, context, page = k.shape[1], k.shape[2], 16
    pages = context // page
    cache = torch.stack([x.transpose(1, 2).reshape(batch * pages, page, kv_heads, dim) for x in (k, v)], dim=1)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(128 << 20, dtype=torch.uint8, device="cuda"))
    starts = torch.arange(batch + 1, dtype=torch.int32, device="cuda") * pages
    wrapper.plan(starts, torch.arange(batch * pages, dtype=torch.int32, device="cuda"),
                 torch.full((batch,), page, dtype=torch.int32, device="cuda"), heads, kv_heads, dim, page,
                 q_data_type=q.dtype, kv_data_type=k.dtype)
    return lambda: wrapper.run(q[:, :, 0].contiguous(), cache).view(q.shape)


def microseconds(step, repeats):
    for _ in range(5):
        step()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=HEADS, default="qwen3-8b")
    parser.add_argument("--context", type=int, default=16384)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=50)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(1, "peer_attention.py: no CUDA device\n")
    heads, kv_heads, dim = HEADS[args.shape]
    torch.manual_seed(1)
    q = torch.randn(args.batch, heads, 1, dim, dtype=torch.bfloat16, device="cuda")
    k, v = (torch.randn(args.batch, kv_heads, args.context, dim, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for kernel in (cudnn, flex, flashinfer):
        line = {"peer": kernel.__name__, "shape": args.shape, "context": args.context, "batch": args.batch}
        try:
            step = kernel(q, k, v)
            error = ((step() - expected).abs().max() / expected.abs().max()).item()
            if not error < 0.05:
                raise RuntimeError(f"differs from PyTorch's attention by {error:.3g}")
            times = microseconds(step, args.repeats)
            median = statistics.median(times)
            line.update(us=median, min=min(times), max=max(times), bytes_per_s=2 * k.nbytes / median * 1e6, error=error)
        except Exception as error:  # an import, a kernel that this device lacks: the others still run
            line["skipped"] = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
