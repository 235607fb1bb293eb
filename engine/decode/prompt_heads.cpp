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
  if (facts_ != nullptr) reserve_facts();
}

/// Room for all facts of the prompt: a vector that grows copies tens of millions of contests again and again. Memory that
/// is not used is not taken.
void PromptHeads::reserve_facts() {
  const ActivePolicy& policy = state_.policy;
  std::size_t n_left = 0, n_scored = 0;  // tokens that leave a window; tokens with a score
  for (int i = 0; i < std::ssize(heads_); ++i) {
    const RetentionGeometry geometry = policy.plan().of_head(policy.geometry(), i);
    n_left += static_cast<std::size_t>(std::max<std::int64_t>(0, n_tokens_ - geometry.n_sink - geometry.window));
    if (policy.scorer() != nullptr) n_scored += static_cast<std::size_t>(n_tokens_);
  }
  facts_->lifetimes.reserve(n_left);
  facts_->scores.reserve(n_scored);
  if (policy.plan().admission == Admission::top_k) facts_->contests.reserve(n_left);
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

/// A long prompt has tens of millions of contests: each head writes its own, where they are to stand.
void PromptHeads::note(int layer, std::int64_t first, const at::Tensor& scores) {
  const auto n = static_cast<std::int64_t>(head(layer, 0).evict_at().size());
  const std::int64_t delay = state_.policy.scorer() != nullptr ? state_.policy.scorer()->delay() : 0;
  const std::int64_t first_column = std::max<std::int64_t>(0, delay - first);
  const auto is_known = [](float score) { return score == score; };
  const auto scores_of = [&](std::int64_t i) -> std::span<const float> {
    if (!scores.defined() || first_column >= n) return {};
    return {scores.data_ptr<float>() + i * n + first_column, static_cast<std::size_t>(n - first_column)};
  };
  struct Places {
    std::size_t contest, lifetime, score;
  };
  std::vector<Places> places;
  Places end = {facts_->contests.size(), facts_->lifetimes.size(), facts_->scores.size()};
  for (int i = 0; i < n_kv_heads_; ++i) {
    places.push_back(end);
    end.contest += head(layer, i).contests().size();
    end.lifetime += head(layer, i).evictions().size();
    end.score += static_cast<std::size_t>(std::ranges::count_if(scores_of(i), is_known));
  }
  facts_->contests.resize(end.contest);
  facts_->lifetimes.resize(end.lifetime);
  facts_->scores.resize(end.score);
  kernels::parallel_for(n_kv_heads_, 4 * n, [&](std::int64_t i) {
    const auto kv_head = static_cast<int>(i);
    Places at = places[static_cast<std::size_t>(i)];
    for (Contest contest : head(layer, kv_head).contests()) {
      contest.layer = static_cast<std::int16_t>(layer);
      contest.kv_head = static_cast<std::int16_t>(kv_head);
      facts_->contests[at.contest++] = contest;
    }
    for (const HeadRetention::Eviction& e : head(layer, kv_head).evictions())
      facts_->lifetimes[at.lifetime++] = {layer, kv_head, e.token, e.evict_at};
    auto token = static_cast<std::int32_t>(first + first_column - delay);
    for (const float score : scores_of(i)) {
      if (is_known(score)) facts_->scores[at.score++] = {layer, kv_head, token, score};
      ++token;
    }
  });
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
