#pragma once
// Attention under a policy: over a whole prompt, and for one token over the cache. Includes LibTorch; private to
// generate/.

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

/// One token: score, decision, slot, attention over the slots; nothing waits for the device between layers. The
/// decisions of all layers are read together afterwards.
class DecodeSite final : public AttentionSite {
 public:
  explicit DecodeSite(SequenceState& state);
  void begin(std::int32_t position);
  at::Tensor attend(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  /// Waits for the step, tells the cache which slots were used and gathers what was decided (unless `facts` is null).
  void finish(protocol::StepFacts* facts);

 private:
  kernels::RetainDecision* decisions(int layer);

  SequenceState& state_;
  std::int32_t position_ = 0;
  at::Tensor buffer_;     // [n_layers * n_kv_heads * 8] int32: all decisions, then all scores (bits of float32)
  at::Tensor scores_;     // [n_layers, n_kv_heads] float32, the second part of buffer_
  at::Tensor slots_;      // [n_layers, n_kv_heads] int32
  at::Tensor log_gamma_;  // [n_kv_heads] float32, undefined without decay
};

}  // namespace kvscope::engine
