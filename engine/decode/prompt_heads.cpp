#include "engine/decode/prompt_heads.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "kernels/parallel_for.h"

namespace kvscope::engine {

PromptHeads::PromptHeads(SequenceState& state, const Hooks& hooks, StepFacts* facts, std::int64_t n_tokens)
    : state_(state),
      hooks_(hooks),
      facts_(facts),
      n_tokens_(n_tokens),
      n_kv_heads_(state.model.config().n_kv_heads),
      is_dense_(state.policy.prefills_densely() && !state.policy.evicts_behind_chunks()) {
  const ActivePolicy& policy = state.policy;
  if (is_dense_ && !policy.has_local_layers()) return;
  const int delay = policy.scorer() != nullptr ? policy.scorer()->delay() : 0;
  for (int i = 0; i < state.model.config().n_layers * n_kv_heads_; ++i) {
    const RetentionGeometry geometry = policy.plan().of_head(policy.geometry(), i);
    const bool is_local = policy.is_local_layer(i / n_kv_heads_);
    heads_.emplace_back(is_dense(i / n_kv_heads_) ? make_keep_all_rule() : policy.lifetime_rule(i), geometry.n_sink,
                        geometry.window, is_local ? 0 : delay, policy.defers() && !is_local);
  }
}

bool PromptHeads::take_turns() const {
  return !is_dense_ && state_.policy.scorer() != nullptr && !state_.policy.plan().is_pooled() && state_.methods.empty();
}

void PromptHeads::begin_layer(std::int64_t n) {
  if (hooks_.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  if (hooks_.progress) {
    const std::int64_t through =
        done_ / state_.model.config().n_layers;  // as many tokens are through all layers in all
    hooks_.progress("prefill", static_cast<double>(through), static_cast<double>(n_tokens_));
  }
  done_ += n;
}

void PromptHeads::decide(int layer, std::int64_t n, const at::Tensor& scores) {
  const std::int64_t cost = n * 200;  // operations of a head, about: a heap, or a tree, per token
  kernels::parallel_for(n_kv_heads_, cost, [&](std::int64_t i) {
    std::span<const float> of_head;
    if (scores.defined()) of_head = {scores.data_ptr<float>() + i * n, static_cast<std::size_t>(n)};
    HeadRetention& retention = head(layer, static_cast<int>(i));
    retention.decide(static_cast<std::int32_t>(n), of_head);
    retention.commit();
  });
}

/// Between two launches, so that only what the next chunk would write over is taken: spread() makes facts of it later.
void PromptHeads::note(int layer, std::int64_t first, const at::Tensor& scores) {
  const auto n = static_cast<std::int64_t>(head(layer, 0).evict_at().size());
  const std::int64_t delay = state_.policy.scorer() != nullptr ? state_.policy.scorer()->delay() : 0;
  const std::int64_t first_column = std::max<std::int64_t>(0, delay - first);
  for (int i = 0; i < n_kv_heads_; ++i) {
    HeadRetention& retention = head(layer, i);
    HeadDecisions decisions{.layer = static_cast<std::int16_t>(layer),
                            .kv_head = static_cast<std::int16_t>(i),
                            .evictions = retention.take_evictions(),
                            .contests = retention.take_contests(),
                            .first_scored = static_cast<std::int32_t>(first + first_column - delay)};
    if (scores.defined() && first_column < n)
      decisions.scores.assign(scores.data_ptr<float>() + i * n + first_column, scores.data_ptr<float>() + (i + 1) * n);
    facts_->decisions.push_back(std::move(decisions));
  }
  if (!state_.methods.empty()) spread(*facts_);  // which add facts of their own, in this order
}

void PromptHeads::cache_changed() {
  if (heads_.empty()) return;
  const at::Tensor positions = state_.cache.slot_positions().cpu();
  for (int layer = 0; layer < state_.model.config().n_layers; ++layer) {
    if (is_dense(layer)) continue;
    for (int i = 0; i < n_kv_heads_; ++i) {
      const std::int32_t* of_head = positions.data_ptr<std::int32_t>() + (layer * n_kv_heads_ + i) * positions.size(2);
      head(layer, i).renumber({of_head, static_cast<std::size_t>(state_.cache.n_slots(layer, i))});
    }
  }
}

void PromptHeads::finish(std::int64_t end) {
  if (is_dense_ || state_.policy.scorer() == nullptr) return;
  const std::int64_t n_layers = state_.model.config().n_layers;
  at::Tensor ring = state_.score_ring.defined() ? state_.score_ring.cpu() : at::Tensor();
  for (int layer = 0; layer < n_layers; ++layer) {
    const at::Tensor there = state_.cache.slot_priority(layer);
    const at::Tensor priority = at::zeros(there.sizes(), at::kFloat);
    for (int i = 0; i < n_kv_heads_; ++i) {
      float* of_head = priority.data_ptr<float>() + i * priority.size(1);
      // What is still in the window has no priority yet: the decode step sets it when the token leaves.
      for (const HeadRetention::Kept& kept : head(layer, i).kept()) {
        of_head[kept.slot] = kept.score;
        if (!ring.defined() || kept.position + ring.size(2) <= end) continue;
        ring.data_ptr<float>()[(layer * n_kv_heads_ + i) * ring.size(2) + kept.position % ring.size(2)] = kept.score;
      }
    }
    there.copy_(priority);
  }
  if (ring.defined()) state_.score_ring.copy_(ring);
}

}  // namespace kvscope::engine
