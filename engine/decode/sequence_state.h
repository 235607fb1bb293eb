#pragma once
// What a sequence under a policy carries from token to token. Includes LibTorch; private to decode/.

#include <memory>

#include "engine/core/record/run_facts.h"
#include "engine/decode/active_policy.h"
#include "engine/decode/hooks.h"
#include "engine/decode/slot_cache.h"
#include "engine/scorer/loaded_model.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {

struct SequenceState {
  SequenceState(const LoadedModel& model, const PolicySpec& policy, int n_positions);

  /// Leaves in every head what stands in the slots of `keep` alone ([n_layers * n_kv_heads]), in a cache of at most
  /// max_slots slots a head.
  void keep_only(const std::vector<std::vector<std::int32_t>>& keep, int max_slots);

  const LoadedModel& model;
  int n_positions;
  ActivePolicy policy;
  std::unique_ptr<ScorerMemory> memory;
  SlotCache cache;
  /// Scores that wait for their token to leave the window: token t in cell t % (window + 1) of [n_layers, n_kv_heads,
  /// window + 1]. Undefined for a scorer that speaks just then.
  at::Tensor score_ring;
  /// The last queries, rotated, position p in row p % n of [n_layers, n, n_heads * head_dim]; undefined unless the
  /// policy observes them.
  at::Tensor query_ring;
  /// Least and greatest of the keys of each page, [n_layers, n_kv_heads, max_pages, 2, head_dim] in the model's dtype;
  /// undefined unless the policy selects pages.
  at::Tensor page_bounds;
  /// Statistics of the prompt's queries before rotation, for Expected Attention: sum and sum of outer products,
  /// [n_layers, n_heads, head_dim (, head_dim)] float32, of n_queries queries. Undefined unless the policy wants them.
  at::Tensor query_sum, query_outer;
  std::int64_t n_queries = 0;
};

}  // namespace kvscope::engine
