#pragma once
// The teacher: dense attention of one layer, and how much each token will still be attended to.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

struct TeacherAttention {
  at::Tensor output;  // [B, T, n_heads * D]: what the layer goes on with
  at::Tensor target;  // [n_kv_heads, B, T] float32: log(eps + max over the group of mean future mass)
};

/// Future-attention target (KVpop eq. 2, 3, 8, 16), by the mean over future queries, or by another mass:
///
///     mean_t = 1 / N_t  sum_{q >= t + window} p_{q -> t}      N_t = max(1, T - (t + window))
///     sum_t  = N_t mean_t      rms_t = (1 / N_t sum p^2)^1/2      max_t = max p, all over the same queries
///     target = max over the query heads of a group of log(1e-6 + mass_t)
///
/// q [B, T, n_heads, D], k and v [B, T, n_kv_heads, D], post-RoPE; scale is of q . k. Goes through the queries in
/// chunks: the largest temporary is [B, n_heads, chunk, T] float32. No gradients.
TeacherAttention teacher_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int window,
                                   FutureMass kind, double scale, std::int64_t chunk = 256);

}  // namespace kvscope::engine
