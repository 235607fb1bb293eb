// WG-KV App. K: a global pool. When it is full, every head drops a share of its long-range tokens. Once is what the
// paper has; a long prompt may have filled the pool many times over, so it goes on until there is room.
#include <algorithm>

#include "engine/decode/eviction/observed_attention.h"

namespace kvscope::engine {
namespace {

class Pool final : public ObservedAttention {
 public:
  using ObservedAttention::ObservedAttention;
  void after_prompt(int prompt_len, StepFacts* facts) override { empty(prompt_len, facts); }
  void after_step(int, int n_tokens, StepFacts* facts) override { empty(n_tokens, facts); }
  void after_chunk(int n_tokens, StepFacts* facts) override { empty(n_tokens, facts); }

 private:
  bool is_full() const;
  void empty(int n_tokens, StepFacts* facts);
};

bool Pool::is_full() const {
  const ModelConfig& config = state_.model.config();
  const RetentionGeometry& geometry = state_.policy.geometry();
  double held = 0, n_heads = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads && !state_.policy.is_local_layer(layer); ++head, ++n_heads) {
      held += std::max(0, state_.cache.n_slots(layer, head) - geometry.n_sink - geometry.window);
    }
  }
  return held > state_.policy.spec().value("pool") * n_heads;
}

void Pool::empty(int n_tokens, StepFacts* facts) {
  const RetentionGeometry& geometry = state_.policy.geometry();
  while (is_full()) {
    const double drop = state_.policy.spec().value("drop");
    bool dropped = false;
    evict(
        state_, n_tokens, [&] { return state_.cache.max_slots(); }, score(n_tokens),
        [&](int, std::vector<HeadTokens> heads) {
          std::vector<std::vector<std::int32_t>> leave;
          for (HeadTokens& tokens : heads) {
            tokens.protect(geometry.n_sink, n_tokens - geometry.window);
            const auto leaves = static_cast<std::int64_t>(static_cast<double>(tokens.n_free()) * drop);
            dropped |= leaves > 0;
            leave.push_back(tokens.all_but_best(static_cast<std::int64_t>(tokens.worth.size()) - leaves));
          }
          return leave;
        },
        facts);
    if (!dropped) return;  // no head has enough for one of them to be a share
  }
}

}  // namespace

Observation pool_observation(const PolicySpec& spec, const RetentionGeometry& geometry) {
  // Observers are not scored: one that the window does not protect would be the first to go.
  return {.n_queries = std::min(spec.count("observe"), geometry.window), .max_pooling = true, .group_max = true};
}

std::unique_ptr<AttentionMethod> make_pool_of(SequenceState& state, ReadObservation read) {
  return std::make_unique<Pool>(state, read);
}

std::unique_ptr<AttentionMethod> make_pool(SequenceState& state) { return make_pool_of(state, pool_observation); }

}  // namespace kvscope::engine
