#pragma once
// The methods that go by attention, as loops in double precision from their definitions, for one KV head.

#include <map>

#include "engine/core/record/run_record.h"
#include "tests/engine/plain_layer.h"

namespace kvscope::test {

using Evictions = std::map<std::int32_t, std::int32_t>;  // token -> evict_at

/// 0 ... n - 1.
std::vector<int> range(int n);

/// What a run says of a head, as far as evict_at <= until.
Evictions evictions(const RunRecord& run, int layer, int head, int until);

/// Evicts from `held` all but the tokens from `fixed_from` on, those below n_sink, and the best others, `budget` in
/// all; worth: by index into held.
void keep_best(std::vector<int>& held, std::vector<double> worth, int budget, int n_sink, int fixed_from,
               std::int32_t evict_at, Evictions& out);

/// Mean of attention() over query heads first ... first + n - 1.
std::vector<double> mean_attention(const PlainLayer& layer, int query, int first, int n, const std::vector<int>& keys);

/// The token of least worth before position `end` leaves.
void drop_least(std::vector<int>& held, std::vector<double>& worth, int end, std::int32_t evict_at, Evictions& out);

struct Snap {
  int kernel;
  bool max_pooling, group_max;
};

/// SnapKV's score of each held token that lies before the observers, queries n - observe ... n - 1; 0 for the others.
std::vector<double> snap_scores(const PlainLayer& layer, int kv_head, const std::vector<int>& held, int n, int observe,
                                const Snap& how);

struct Expected {
  bool covariance, values;
  double epsilon;
};

/// Expected Attention of a KV head when n tokens have passed, by queries first_query ... n - 1: one number a held token;
/// 0 for sinks. inv_freq: of the rotation, [dim / 2].
std::vector<double> expected_scores(const PlainLayer& layer, const std::vector<double>& inv_freq, int kv_head,
                                    const std::vector<int>& held, int first_query, int n, int n_sink, int n_future,
                                    const Expected& how);

}  // namespace kvscope::test
