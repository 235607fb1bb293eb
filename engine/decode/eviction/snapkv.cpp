// SnapKV (Li et al., 2024): once, after the prompt. With `pool` the same scores under a global budget.
#include "engine/decode/eviction/observed_attention.h"

namespace kvscope::engine {
namespace {

class SnapKv final : public ObservedAttention {
 public:
  explicit SnapKv(SequenceState& state) : ObservedAttention(state, snapkv_observation) {}

  void after_prompt(int prompt_len, StepFacts* facts) override {
    compress(prompt_len, state_.n_positions - prompt_len, facts);
  }
  /// The compression of a prompt, again and again: the newest queries observe.
  void after_chunk(int n_tokens, StepFacts* facts) override {
    if (exceeds_budget(state_)) compress(n_tokens, state_.policy.forced_chunk(), facts);
  }

 private:
  /// n_more: tokens that come before anything leaves again.
  void compress(int n_tokens, int n_more, StepFacts* facts) {
    keep_best(state_, {.n_tokens = n_tokens, .fixed_from = n_tokens - observation().n_queries, .n_more = n_more},
              score(n_tokens), facts);
  }
};

}  // namespace

Observation snapkv_observation(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return {.n_queries = geometry.window,
          .kernel_size = spec.count("kernel"),
          .max_pooling = spec.value("pooling") == 1,
          .group_max = spec.value("group") == 1};
}

std::unique_ptr<AttentionMethod> make_snapkv(SequenceState& state) {
  if (state.policy.spec().count("pool") > 0) return make_pool_of(state, snapkv_observation);
  return std::make_unique<SnapKv>(state);
}

}  // namespace kvscope::engine
