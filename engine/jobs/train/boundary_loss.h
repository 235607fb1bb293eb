#pragma once
// KVpop's boundary loss: the one comparison at a query that changes what the cache holds; and how much of what the
// oracle keeps a scorer keeps too, for the end of training.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/core/support/random.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// Query positions where the cache of n_sink + window + top_k tokens is full (eq. 25), some uniform, a late_share of
/// them with density rising linearly towards the end (B.6).
std::vector<std::int64_t> sample_queries(Random& random, const ScorerOptions& options, int top_k, int n_positions);

/// The teacher's contests at those queries: the token that leaves the window against the last token that the teacher
/// keeps, the newcomer included among the candidates.
struct BoundaryPairs {
  at::Tensor newcomer;  // [n_kv_heads, B, Q] int64 positions
  at::Tensor boundary;  // [n_kv_heads, B, Q] int64
  at::Tensor label;     // [n_kv_heads, B, Q] float32: +1 the teacher keeps the newcomer, -1 it does not
  at::Tensor weight;  // [n_kv_heads, B, Q] float32: margin (eq. 23) times balance (eq. 24), 0 where both are one token
  int n_layers = 1;
};
/// target [n_kv_heads, B, T], of n_layers one behind the other, each by itself; no gradients.
BoundaryPairs boundary_pairs(const at::Tensor& target, const std::vector<std::int64_t>& queries, int top_k,
                             const ScorerOptions& options, int n_layers = 1);

/// Eq. 7, mean over contests of two different tokens of a layer, summed over layers:
///
///     weight * softplus(-label * (newcomer_score - boundary_score) / temperature)
///
/// Scores [n_kv_heads, B, Q], effective ones; without decay those are the raw scores.
at::Tensor boundary_loss(const at::Tensor& newcomer_score, const at::Tensor& boundary_score, const BoundaryPairs& pairs,
                         double temperature);

/// scores, target [n_kv_heads, B, T] -> [n_kv_heads] float32 on the CPU: the share of the oracle's long-range tokens
/// that running top-k by `scores` keeps, mean over q from n_sink + window + top_k on and over sequences. The numerator
/// and the denominator both exclude sinks and window.
at::Tensor oracle_recall(const at::Tensor& scores, const at::Tensor& target, int n_sink, int window, int top_k);

}  // namespace kvscope::engine
