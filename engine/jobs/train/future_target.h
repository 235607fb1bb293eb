#pragma once
// The teacher: dense attention of one layer, and how much each token will still be attended to.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

struct TeacherAttention {
  at::Tensor output;  // [B, T, n_heads * D]: what the layer goes on with
  at::Tensor target;  // [n_kv_heads, B, T] float32: log(eps + max over the group of weighted mean future mass)
};

/// Future-attention target (KVpop eq. 2, 3, 8, 16), by the mean over future queries, or by another mass:
///
///     mean_t = 1 / N_t  sum_{q >= t + window} p_{q -> t}      N_t = max(1, T - (t + window))
///     sum_t  = N_t mean_t      rms_t = (1 / N_t sum p^2)^1/2      max_t = max p, all over the same queries
///     target = max over the query heads of a group of log(1e-6 + weight_t mass_t)
///
/// With `lifetimes` [n_kv_heads, B, T] (running_top_k.h) p is exp(score - log-sum-exp over the keys that the query sees by them), eq. 9: the
/// student's own normaliser, also for keys that it does not see. The output is then of no use.
///
/// weight [B, n_kv_heads, group or 1, T], undefined: 1. q [B, T, n_heads, D], k and v [B, T, n_kv_heads, D], post-RoPE; scale is of q . k. In bfloat16 on a GPU,
/// without lifetimes, by the kernel future_attention; else, and where `chunk` is given, through the queries in chunks (0: usual_chunk()): the largest temporary is [B, n_heads, chunk, T] float32. No gradients.
TeacherAttention teacher_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int window,
                                   FutureMass kind, double scale, const at::Tensor& weight = {},
                                   const at::Tensor& lifetimes = {}, std::int64_t chunk = 0);

/// Queries of q [B, T, n_heads, D] whose scores are computed at once: 256 on a CPU, where a chunk should stay in the caches; on a GPU
/// what makes 256 MB. A launch costs a GPU as much as a million numbers: of 4,096 positions 256 rows at a time are 7,000 launches a step of
/// SmolLM2.
std::int64_t usual_chunk(const at::Tensor& q);

/// Undefined for TargetWeight::mass, |v_t| of each KV head, [B, n_kv_heads, 1, T], or with the layer's output projection [hidden, n_heads * D] |W_o v_t| of each
/// query head, [B, n_kv_heads, group, T]; float32. A token that everybody attends to and whose value is small (a sink) matters
/// little.
at::Tensor value_weight(const at::Tensor& v, TargetWeight weight, const at::Tensor& output_projection);

}  // namespace kvscope::engine
