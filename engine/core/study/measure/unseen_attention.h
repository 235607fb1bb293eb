#pragma once
// What a query could not see: the attention that it would give evicted tokens, from its attention under a full cache.

#include <cstdint>
#include <vector>

#include "engine/core/record/query_attention.h"
#include "engine/core/record/run_record.h"

namespace kvscope {

/// -1: all.
struct HeadScope {
  int layer = -1, kv_head = -1;
  bool has(int of_layer, int of_head) const {
    return (layer < 0 || layer == of_layer) && (kv_head < 0 || kv_head == of_head);
  }
  bool operator==(const HeadScope&) const = default;
};

/// Of query q and p_h(t), its attention in head h on token t <= q under a full cache. H: the heads of `scope`, without those of
/// layers that attend to a window by the model's design.
///
///     held(t)    = mean over H of p_h(t) if h still has t at q, else 0
///     evicted(t) = mean over H of p_h(t) if h has evicted t by q, else 0
///     missing(h) = sum over the tokens t that h has evicted by q of p_h(t)
struct UnseenAttention {
  int query = 0;
  HeadScope scope;
  std::vector<float> held, evicted;  // [query + 1]
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float>
      missing;  // [n_layers * n_kv_heads], whatever the scope; NaN of a layer that has a window by design
  /// What follows from the run alone: how many heads H has, and how many of them have evicted each token, [query + 1].
  int n_heads = 0;
  std::vector<std::int32_t> heads_without;

  /// Of the query's attention, mean over H: the sum of evicted().
  double share() const;
  /// Tokens that some head of H has evicted.
  int n_evicted() const;
};

/// The run must have the attention's layers, heads and tokens.
UnseenAttention unseen_attention(const RunRecord& run, const QueryAttention& attention, HeadScope scope);
/// Fills n_heads and heads_without.
void count_heads_without(const RunRecord& run, UnseenAttention& unseen);
/// The tokens with the most evicted attention, the greatest first, `most` of them at most; those with none are left out.
std::vector<std::int32_t> most_missing(const UnseenAttention& unseen, int most);

}  // namespace kvscope
