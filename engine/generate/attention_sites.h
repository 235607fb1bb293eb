#pragma once
// What a sequence under a policy carries, and attention under it over a prompt. Includes LibTorch; private to generate/.

#include <memory>
#include <vector>

#include "engine/cache/slot_cache.h"
#include "engine/generate/generation.h"
#include "engine/model/transformer.h"
#include "engine/policy/retention_policy.h"
#include "engine/scorer/kvpop_scorer.h"

namespace kvscope::engine {

/// What a sequence under a policy carries from token to token.
struct SequenceState {
  SequenceState(const LoadedModel& model, std::unique_ptr<RetentionPolicy> policy, int n_positions);

  const LoadedModel& model;
  std::unique_ptr<RetentionPolicy> policy;
  const KvpopScorer* scorer;         // null if the policy needs none
  std::vector<ScorerState> scoring;  // [n_layers], empty without scorer
  SlotCache cache;
};

}  // namespace kvscope::engine
