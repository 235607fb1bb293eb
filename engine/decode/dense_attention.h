#pragma once
// Causal attention over everything before, at the speed of the vendor's library where it has one. Includes LibTorch.

#include <ATen/ATen.h>

#include "engine/model/ops.h"

namespace kvscope::engine {

/// Whose attention it is: this project's kernel (every device and dtype), FlashAttention 2, or cuDNN, for a library
/// that does not take groups of heads with a copy of keys and values for every head.
enum class DenseBackend { own, flash, cudnn, cudnn_ungrouped };
/// "own", "flash", ...
const char* name_of(DenseBackend backend);

/// Attention of q [n, n_heads, head_dim] at positions first ... first + n - 1 over keys and values of positions 0 ...
/// first + n - 1, k and v [n_kv_heads, >= first + n, head_dim], every row contiguous. -> [n, n_heads, head_dim].
///
/// The libraries know no soft cap and no sink: with one of them the project's kernel computes. They know no offset between queries and keys: the chunk's own square, causal, and its
/// rectangle over the past are two calls, merged by their log-sum-exp, which is exact:
///
///     o = o_own + (o_past - o_own) w,   w = exp(lse_past) / (exp(lse_past) + exp(lse_own))
///     log-sum-exp = log(exp(lse_past) + exp(lse_own))
/// window: newest keys that each query sees, 0 for all; with one the project's kernel computes. lse: [n_heads, n] float32, filled, or
/// undefined.
at::Tensor dense_attention(DenseBackend backend, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           std::int64_t first, const AttentionScores& scores, int window = 0,
                           const at::Tensor& lse = {});

/// Keys [n_kv_heads, n, head_dim] of positions 0 ... n - 1 as the queries of a layer with that window see them: key t is
/// there until query t + window. 0: for ever.
ops::KeysInSight in_window(const at::Tensor& k, const at::Tensor& v, int window);

/// The fastest backend that gives right results for n queries like q on its device. bfloat16 on CUDA only; a library
/// that refuses these shapes, or whose result on a small problem is not that of the project's kernel, is not used. The
/// answer for a shape of heads is remembered.
DenseBackend choose_dense_backend(const at::Tensor& q, std::int64_t n_kv_heads);

}  // namespace kvscope::engine
