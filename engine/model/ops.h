#pragma once
// Tensors in, kernels out: each function fills the args of one kernel and runs it where the tensors are. Includes LibTorch.
//
// Every tensor must be contiguous and on one device. CUDA work goes on LibTorch's current stream, so that it is ordered
// with ATen's.

#include <ATen/ATen.h>

#include "engine/core/files/weights/model_family.h"
#include "engine/model/attention_scores.h"
#include "engine/model/place.h"
#include "kernels/glu.h"
#include "kernels/slot_cache.h"

namespace kvscope::engine::ops {

/// x: [..., dim] -> the same shape; each row x / sqrt(mean(x^2) + eps) * (weight_offset + weight).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, float eps, float weight_offset = 0);

/// The activation as kernels name it.
kernels::GluActivation glu_activation(MlpActivation activation);

/// activation(gate) * up of gate_up [n, 2 dim]: gate, then up. -> [n, dim].
at::Tensor glu(const at::Tensor& gate_up, MlpActivation activation);

/// x [n, columns] times weight [rows, columns] transposed, plus bias [rows] if defined. -> [n, rows].
///
/// On the CPU up to 128 rows of x go to the project's own kernel: the math library splits so small a product among its
/// threads now this way and now that (2 of 100 runs under load), and the same input must give the same bytes.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// Rotates x [n, heads, head_dim] in place. positions: [n] int32, inv_freq: [head_dim / 2] float32; cosine and sine are
/// multiplied by `attention_scaling`.
void rope_(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& inv_freq, float attention_scaling);

/// Keys and values [n_kv_heads, n, head_dim], each row contiguous, strides alike for both: rows of a cache, or tokens
/// as the model has them, transposed. Key i stands at `position` [n_kv_heads, n] int32 or, without it, at i; it is seen
/// until `evict_at`, of that shape, or for ever.
struct KeysInSight {
  at::Tensor k, v;
  at::Tensor evict_at = {}, position = {};
};

/// Causal attention under lifetimes of q [q_len, n_heads, head_dim] at positions q_start ... Without positions of keys
/// those from q_start + q_len on are not looked at. lse: [n_heads, q_len] float32, filled, or undefined.
/// -> [q_len, n_heads, head_dim].
at::Tensor lifetime_attention(const at::Tensor& q, const KeysInSight& keys, std::int64_t q_start,
                              const AttentionScores& scores, const at::Tensor& lse = {});

/// What keys get from later queries, each [n_heads, stride] float32: sums of probabilities, and unless undefined sums of
/// their squares and the greatest of them.
struct FutureMasses {
  at::Tensor sum, square, most;
};
/// Adds what queries q_start ... give (kernels/future_attention.h).
void future_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& lse, const FutureMasses& masses,
                      std::int64_t q_start, const AttentionScores& scores, int window, std::int64_t look_ahead = 0);

/// k, v: [n, n_kv_heads, head_dim] into slot [n_kv_heads, n] int32 (-1: not kept), position [n] int32.
void append_many(const kernels::SlotCacheView& cache, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slot,
                 const at::Tensor& position);

}  // namespace kvscope::engine::ops
