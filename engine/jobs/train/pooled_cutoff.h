#pragma once
// One budget for all heads of a model while it is trained: capacity=pooled of the policies (engine/decode/eviction/pooled_budget.cpp).

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/jobs/train/running_top_k.h"

namespace kvscope::engine {

/// Query q sees, of the tokens n_sink ... q - window of all H heads, the H top_k of highest priority. Which of them is the last, looked for
/// at every `stride`-th query and held until the next: a selection among all heads' tokens costs more than a query's attention.
struct PooledCutoff {
  at::Tensor head, token;  // [B, P] int64, at the points from which on something is lost
  at::Tensor point;        // [T] int64: that of a query, -1 while it sees all

  /// Values [B, P] at the points -> [1, B, T] of all queries, -infinity while they see all. Gradients go to the values.
  at::Tensor of_queries(const at::Tensor& values) const;
};

/// At which it is looked for while a student learns; a gate's pool_interval then.
constexpr int kPooledStride = 32;

/// priorities [H, B, T]; no gradients.
PooledCutoff pooled_cutoff(const at::Tensor& priorities, const CacheBudget& budget, std::int64_t stride);

/// Lifetimes as of running_top_k() of heads whose priorities are [HK, B, T] under cutoffs [1, B, T], which never fall: the first
/// query whose cutoff is above, behind the window.
at::Tensor lifetimes_under(const at::Tensor& priorities, const at::Tensor& least, const CacheBudget& budget);

}  // namespace kvscope::engine
