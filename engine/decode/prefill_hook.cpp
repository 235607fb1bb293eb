#include "engine/decode/prefill_hook.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/support/error.h"
#include "engine/model/ops.h"
#include "kernels/parallel_for.h"

namespace kvscope::engine {

PrefillHook::PrefillHook(SequenceState& state, const Hooks& hooks, StepFacts* facts, std::int64_t n_chunks)
    : state_(state),
      hooks_(hooks),
      facts_(facts),
      n_chunks_(n_chunks),
      n_kv_heads_(state.model.config().n_kv_heads),
      is_dense_(state.policy.prefills_densely() && !state.policy.evicts_behind_chunks()),
      wants_attention_(std::any_of(state.methods.begin(), state.methods.end(),
                                   [](const auto& method) { return method->reads_prompt_attention(); })) {
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

bool PrefillHook::reads_unrotated() const {
  const TokenScorer* scorer = state_.policy.scorer();
  return (scorer != nullptr && scorer->reads_unrotated()) ||
         std::any_of(state_.methods.begin(), state_.methods.end(), [](const auto& m) { return m->reads_unrotated(); });
}

void PrefillHook::begin(std::int64_t first, std::int64_t n) {
  ++chunk_;
  first_ = first;
  n_ = n;
  const auto ints = at::TensorOptions().device(state_.model.weights().device).dtype(at::kInt);
  positions_ = at::arange(first, first + n, ints);
  // Pages of all layers at once, whose table is a wait for the device.
  if (state_.policy.plan().is_pooled()) state_.cache.reserve_next(static_cast<int>(n));
  if (!is_dense_) return;
  dense_slot_ = positions_.expand({n_kv_heads_, n}).contiguous();
  if (!state_.policy.has_local_layers()) return state_.cache.fill_slots(static_cast<int>(first + n));
  for (int layer = 0; layer < state_.model.config().n_layers; ++layer)
    if (is_dense(layer)) state_.cache.fill_slots(layer, static_cast<int>(first + n));
}

at::Tensor PrefillHook::attend(int layer, const LayerTokens& tokens) {
  const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
  if (hooks_.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  const double n_layers = state_.model.config().n_layers;
  if (hooks_.progress) {
    hooks_.progress("prefill", static_cast<double>(chunk_) * n_layers + layer,
                    static_cast<double>(n_chunks_) * n_layers);
  }
  for (const auto& method : state_.methods) method->observe(layer, tokens, first_);
  if (is_dense(layer)) return attend_dense(layer, tokens);

  const bool is_local = state_.policy.is_local_layer(layer);
  at::Tensor scores = is_local ? at::Tensor() : score_tokens(layer, tokens);
  if (scores.defined() && state_.policy.plan().is_pooled()) {
    waits_.push_back(layer);
    waiting_.push_back(scores);
    scores = at::Tensor();
  } else if (scores.defined()) {
    scores = scores.cpu().contiguous();
    tell_scores(layer, scores);
  }
  const std::vector<std::int32_t> n_before = decide(layer, scores);
  if (facts_ != nullptr) note(layer, scores);
  const ChunkFacts facts = facts_of_chunk(layer, n_before);
  at::Tensor keys = k.transpose(0, 1), values = v.transpose(0, 1);  // [n_kv_heads, n, head_dim]
  if (facts.n_slots > 0) {
    const SlotCache::Rows kept = state_.cache.rows(layer, static_cast<int>(facts.n_slots));
    keys = at::cat({kept.k, keys}, 1);
    values = at::cat({kept.v, values}, 1);
  }
  const at::Tensor lse = is_local ? at::Tensor() : room_for_lse(q);
  const at::Tensor o =
      ops::lifetime_attention(q, {keys, values, facts.evict_at, facts.position}, first_, tokens.scores, lse);
  std::vector<std::int32_t> n_slots;
  for (int i = 0; i < n_kv_heads_; ++i) n_slots.push_back(head(layer, i).n_slots());
  state_.cache.set_slots(layer, n_slots);
  ops::append_many(state_.cache.view(layer), k, v, facts.slot, positions_);
  if (!is_local) tell_attention(layer, q, keys, lse, facts.n_slots);
  if (layer + 1 == state_.model.config().n_layers) take_waiting();
  return o;
}

void PrefillHook::tell_scores(int layer, const at::Tensor& scores) {
  for (const auto& method : state_.methods)
    method->observe_scores(layer, scores, first_ - state_.policy.scorer()->delay());
}

void PrefillHook::take_waiting() {
  if (waiting_.empty()) return;
  const at::Tensor all = at::stack(waiting_).cpu();  // [global layers, n_kv_heads, n]
  const std::vector<int> layers = std::exchange(waits_, {});
  waiting_.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int layer = layers[i];
    const at::Tensor scores = all[static_cast<std::int64_t>(i)];
    tell_scores(layer, scores);
    for (int i = 0; i < n_kv_heads_; ++i)
      head(layer, i).score({scores.data_ptr<float>() + i * n_, static_cast<std::size_t>(n_)});
    if (facts_ != nullptr) note(layer, scores);
  }
}

/// Undefined where no method asks.
at::Tensor PrefillHook::room_for_lse(const at::Tensor& q) const {
  if (!wants_attention_) return {};
  return at::empty({q.size(1), n_}, at::TensorOptions().device(q.device()).dtype(at::kFloat));
}

void PrefillHook::tell_attention(int layer, const at::Tensor& q, const at::Tensor& keys, const at::Tensor& lse,
                                 std::int64_t n_before) {
  for (const auto& method : state_.methods) {
    if (method->reads_prompt_attention()) method->observe_attention(layer, q, keys, lse, n_before);
  }
}

at::Tensor PrefillHook::attend_dense(int layer, const LayerTokens& tokens) {
  ops::append_many(state_.cache.view(layer), tokens.k, tokens.v, dense_slot_, positions_);
  const SlotCache::Rows all = state_.cache.rows(layer, static_cast<int>(first_ + n_));
  if (!wants_attention_) {
    return dense_attention(choose_dense_backend(tokens.q, n_kv_heads_), tokens.q, all.k, all.v, first_, tokens.scores);
  }
  const at::Tensor lse = room_for_lse(tokens.q);
  const at::Tensor o = ops::lifetime_attention(tokens.q, {all.k, all.v}, first_, tokens.scores, lse);
  tell_attention(layer, tokens.q, all.k, lse, first_);
  return o;
}

at::Tensor PrefillHook::score_tokens(int layer, const LayerTokens& tokens) {
  const TokenScorer* scorer = state_.policy.scorer();
  if (scorer == nullptr) return {};
  return scorer->absorb(layer, tokens, first_, state_.memory.get());
}

std::vector<std::int32_t> PrefillHook::decide(int layer, const at::Tensor& scores) {
  std::vector<std::int32_t> n_before;
  for (int i = 0; i < n_kv_heads_; ++i) n_before.push_back(head(layer, i).n_slots());
  const std::int64_t cost = n_ * 200;  // operations of a head, about: a heap, or a tree, per token
  kernels::parallel_for(n_kv_heads_, cost, [&](std::int64_t i) {
    std::span<const float> of_head;
    if (scores.defined()) of_head = {scores.data_ptr<float>() + i * n_, static_cast<std::size_t>(n_)};
    HeadRetention& retention = head(layer, static_cast<int>(i));
    retention.decide(static_cast<std::int32_t>(n_), of_head);
    retention.commit();
  });
  return n_before;
}

/// A long prompt has tens of millions of contests: each head writes its own, where they are to stand.
void PrefillHook::note(int layer, const at::Tensor& scores) {
  const std::int64_t delay = state_.policy.scorer() != nullptr ? state_.policy.scorer()->delay() : 0;
  const std::int64_t first_column = std::max<std::int64_t>(0, delay - first_);
  const auto is_known = [](float score) { return score == score; };
  const auto scores_of = [&](std::int64_t i) -> std::span<const float> {
    if (!scores.defined() || first_column >= n_) return {};
    return {scores.data_ptr<float>() + i * n_ + first_column, static_cast<std::size_t>(n_ - first_column)};
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
  kernels::parallel_for(n_kv_heads_, 4 * n_, [&](std::int64_t i) {
    const auto kv_head = static_cast<int>(i);
    Places at = places[static_cast<std::size_t>(i)];
    for (Contest contest : head(layer, kv_head).contests()) {
      contest.layer = static_cast<std::int16_t>(layer);
      contest.kv_head = static_cast<std::int16_t>(kv_head);
      facts_->contests[at.contest++] = contest;
    }
    for (const HeadRetention::Eviction& e : head(layer, kv_head).evictions())
      facts_->lifetimes[at.lifetime++] = {layer, kv_head, e.token, e.evict_at};
    auto token = static_cast<std::int32_t>(first_ + first_column - delay);
    for (const float score : scores_of(i)) {
      if (is_known(score)) facts_->scores[at.score++] = {layer, kv_head, token, score};
      ++token;
    }
  });
}

PrefillHook::ChunkFacts PrefillHook::facts_of_chunk(int layer, const std::vector<std::int32_t>& n_before) const {
  const std::int64_t n_heads = n_kv_heads_, n_slots = *std::ranges::max_element(n_before), n_keys = n_slots + n_;
  std::vector<std::int32_t>
      words;  // of the chunk's tokens evict_at and slot, slots before, vacated cells, their evict_at
  for (int i = 0; i < n_kv_heads_; ++i)
    words.insert(words.end(), head(layer, i).evict_at().begin(), head(layer, i).evict_at().end());
  for (int i = 0; i < n_kv_heads_; ++i)
    words.insert(words.end(), head(layer, i).slots().begin(), head(layer, i).slots().end());
  words.insert(words.end(), n_before.begin(), n_before.end());
  const auto first_cell = static_cast<std::int64_t>(words.size());
  for (int i = 0; i < n_kv_heads_; ++i)
    for (const HeadRetention::Vacated& gone : head(layer, i).vacated())
      words.push_back(static_cast<std::int32_t>(i * n_keys + gone.slot));
  const std::int64_t n_vacated = static_cast<std::int64_t>(words.size()) - first_cell;
  for (int i = 0; i < n_kv_heads_; ++i)
    for (const HeadRetention::Vacated& gone : head(layer, i).vacated()) words.push_back(gone.evict_at);
  // pageable: staged before it returns
  const at::Tensor there = at::tensor(words, at::kInt).to(positions_.device(), /*non_blocking=*/true);
  const at::Tensor own = there.narrow(0, 0, n_heads * n_).view({n_heads, n_});
  const at::Tensor slot = there.narrow(0, n_heads * n_, n_heads * n_).view({n_heads, n_});
  const at::Tensor positions = positions_.expand({n_heads, n_});
  if (n_slots == 0) return {.position = positions.contiguous(), .evict_at = own, .slot = slot, .n_slots = 0};
  // A slot without a token is evicted at 0, any other never, unless the chunk has vacated it.
  const at::Tensor used =
      at::arange(n_slots, there.options()) < there.narrow(0, 2 * n_heads * n_, n_heads).unsqueeze(1);
  at::Tensor evict_at = at::cat({used.to(at::kInt).mul_(kNever), own}, 1);
  if (n_vacated > 0) {
    evict_at.view({-1}).index_copy_(0, there.narrow(0, first_cell, n_vacated).to(at::kLong),
                                    there.narrow(0, first_cell + n_vacated, n_vacated));
  }
  return {.position = at::cat({state_.cache.slot_position(layer).narrow(1, 0, n_slots), positions}, 1),
          .evict_at = evict_at,
          .slot = slot,
          .n_slots = n_slots};
}

void PrefillHook::cache_changed() {
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

void PrefillHook::finish() {
  if (is_dense_ || state_.policy.scorer() == nullptr) return;
  const std::int64_t n_layers = state_.model.config().n_layers, end = first_ + n_;
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
