#pragma once
// Running top-k over whole sequences at once, and attention over what it keeps: the student of KVpop's Algorithm 1.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvscope::engine {

/// Of one layer, in tokens: a cache of n_sink + window + top_k.
struct CacheBudget {
  int n_sink = 0, window = 1, top_k = 1;
};

/// Priorities [HK, B, T] -> lifetimes [HK, B, T] int64: the first query that cannot see token t, T where none of these can. Query q
/// sees sinks, window, and of the tokens n_sink ... q - window the top_k of highest priority; of two alike the older stays.
/// No gradients. Time and memory O(T^2) a head: an element-wise pass, no sort.
at::Tensor running_top_k(const at::Tensor& priorities, const CacheBudget& budget);

/// The priority of the last long-range token that a query sees, [HK, B, T]; -infinity while it sees them all. Gradients go to that
/// token's.
at::Tensor cutoffs(const at::Tensor& priorities, const at::Tensor& lifetimes, const CacheBudget& budget);

/// Causal attention of query q over the keys t <= q < lifetimes[t]; q [B, T, n_heads, D], k and v [B, T, n_kv_heads, D]
/// -> [B, T, n_heads * D]. Gradients go to q, k and v.
at::Tensor lifetime_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& lifetimes, double scale);

/// The same with a soft boundary, through which gradients reach the scores:
///
///     out_q = sum_{t <= q} p_qt v_t      p_q = softmax over t of  scale q_q . k_t + b_qt
///     b_qt  = log sigmoid((priority_t - cutoff_q) / temperature)   for n_sink <= t <= q - window, else 0
///
/// A token that is far above the cutoff is seen as ever, one far below it not at all, whatever its distance. Cutoffs `least`, [HK, B, T] or
/// [1, B, T] for all heads, are those of cutoffs() or pooled_cutoff.h, with their gradients: without them raising all scores alike would look
/// like progress.
at::Tensor soft_top_k_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& priorities, const at::Tensor& least, const CacheBudget& budget,
                                double temperature, double scale);

}  // namespace kvscope::engine
