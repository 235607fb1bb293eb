#include "engine/decode/prefill_hook.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/decode/attention_clock.h"
#include "engine/decode/dense_attention.h"
#include "engine/model/ops.h"

namespace kvscope::engine {

PrefillHook::PrefillHook(PromptHeads& heads, std::int64_t first, std::int64_t n, AttentionClock* clock)
    : heads_(heads),
      state_(heads.state()),
      first_(first),
      n_(n),
      clock_(clock),
      n_kv_heads_(heads.n_kv_heads()),
      wants_attention_(std::any_of(state_.methods.begin(), state_.methods.end(),
                                   [](const auto& method) { return method->reads_prompt_attention(); })) {
  const auto ints = at::TensorOptions().device(state_.model.weights().device).dtype(at::kInt);
  positions_ = at::arange(first, first + n, ints);
  // Pages of all layers at once, whose table is a wait for the device.
  if (state_.policy.plan().is_pooled()) state_.cache.reserve_next(static_cast<int>(n));
  if (!heads_.is_dense()) return;
  dense_slot_ = positions_.expand({n_kv_heads_, n}).contiguous();
  if (!state_.policy.has_local_layers()) {
    state_.cache.fill_slots(static_cast<int>(first + n));
    return;
  }
  for (int layer = 0; layer < state_.model.config().n_layers; ++layer)
    if (heads_.is_dense(layer)) state_.cache.fill_slots(layer, static_cast<int>(first + n));
}

bool PrefillHook::reads_unrotated() const {
  const TokenScorer* scorer = state_.policy.scorer();
  return (scorer != nullptr && scorer->reads_unrotated()) ||
         std::any_of(state_.methods.begin(), state_.methods.end(), [](const auto& m) { return m->reads_unrotated(); });
}

void PrefillHook::prepare(int layer, const LayerTokens& tokens) {
  ahead_ = {};
  if (heads_.is_dense(layer)) return;
  if (!state_.policy.is_local_layer(layer)) fetch_scores(layer, tokens);
  gather_keys(layer, tokens);
}

/// Scores on their way to the host, or where take_waiting() finds them.
void PrefillHook::fetch_scores(int layer, const LayerTokens& tokens) {
  const at::Tensor scores = score_tokens(layer, tokens);
  if (!scores.defined()) return;
  if (state_.policy.plan().is_pooled()) {
    waits_.push_back(layer);
    waiting_.push_back(scores);
    return;
  }
  if (!scores.is_cuda()) {
    ahead_.scores = scores.contiguous();
    return;
  }
  const at::Tensor there = scores.contiguous();
  const kernels::Stream stream = ops::place_of(there.device()).stream;
  if (!scores_) scores_.emplace(there.nbytes(), stream);
  kernels::copy_async(scores_->data(), there.data_ptr(), there.nbytes(), stream);
  ahead_.scores = at::from_blob(scores_->data(), there.sizes(), at::kFloat);
  const c10::impl::VirtualGuardImpl guard(there.device().type());
  ahead_.are_there.emplace(there.device().type());
  ahead_.are_there->record(guard.getStream(there.device()));
}

void PrefillHook::gather_keys(int layer, const LayerTokens& tokens) {
  std::vector<std::int32_t> n_before;
  for (int i = 0; i < n_kv_heads_; ++i) n_before.push_back(heads_.head(layer, i).n_slots());
  const auto [least, most] = std::ranges::minmax(n_before);
  const at::Tensor positions = positions_.expand({n_kv_heads_, n_});
  ahead_.n_slots = most;
  ahead_.evict_at = at::full({n_kv_heads_, most + n_}, kNever, positions_.options());
  ahead_.keys = tokens.k.transpose(0, 1);
  ahead_.values = tokens.v.transpose(0, 1);
  ahead_.position = positions.contiguous();
  if (most == 0) return;
  const SlotCache::Rows kept = state_.cache.rows(layer, static_cast<int>(most));
  ahead_.keys = at::cat({kept.k, ahead_.keys}, 1);
  ahead_.values = at::cat({kept.v, ahead_.values}, 1);
  ahead_.position = at::cat({state_.cache.slot_position(layer).narrow(1, 0, most), positions}, 1);
  if (least == most) return;
  // A slot without a token is evicted at 0.
  const at::Tensor n_used = at::tensor(n_before, at::kInt).to(positions_.device(), /*non_blocking=*/true);
  ahead_.evict_at.narrow(1, 0, most).mul_(at::arange(most, positions_.options()) < n_used.unsqueeze(1));
}

template <typename Attention>
at::Tensor PrefillHook::timed(const Attention& attention) const {
  if (clock_ != nullptr) clock_->begin();
  at::Tensor o = attention();
  if (clock_ != nullptr) clock_->end();
  return o;
}

at::Tensor PrefillHook::attend(int layer, const LayerTokens& tokens) {
  heads_.begin_layer(n_);
  for (const auto& method : state_.methods) method->observe(layer, tokens, first_);
  if (heads_.is_dense(layer)) return attend_dense(layer, tokens);

  const bool is_local = state_.policy.is_local_layer(layer);
  if (ahead_.are_there) ahead_.are_there->synchronize();
  if (ahead_.scores.defined()) tell_scores(layer, ahead_.scores);
  heads_.decide(layer, n_, ahead_.scores);
  const at::Tensor slot = upload_decisions(layer);
  const at::Tensor lse = is_local ? at::Tensor() : room_for_lse(tokens.q);
  const at::Tensor o = timed([&] {
    return ops::lifetime_attention(tokens.q, {ahead_.keys, ahead_.values, ahead_.evict_at, ahead_.position}, first_,
                                   tokens.scores, lse);
  });
  std::vector<std::int32_t> n_slots;
  for (int i = 0; i < n_kv_heads_; ++i) n_slots.push_back(heads_.head(layer, i).n_slots());
  state_.cache.set_slots(layer, n_slots);
  ops::append_many(state_.cache.view(layer), tokens.k, tokens.v, slot, positions_);
  if (heads_.notes()) heads_.note(layer, first_, ahead_.scores);
  if (!is_local) tell_attention(layer, tokens.q, ahead_.keys, lse, ahead_.n_slots);
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
      heads_.head(layer, i).score({scores.data_ptr<float>() + i * n_, static_cast<std::size_t>(n_)});
    if (heads_.notes()) heads_.note(layer, first_, scores);
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
    const DenseBackend backend = choose_dense_backend(tokens.q, n_kv_heads_);
    return timed([&] { return dense_attention(backend, tokens.q, all.k, all.v, first_, tokens.scores); });
  }
  const at::Tensor lse = room_for_lse(tokens.q);
  const at::Tensor o = timed([&] {
    return ops::lifetime_attention(tokens.q, {all.k, all.v}, first_, tokens.scores, lse);
  });
  tell_attention(layer, tokens.q, all.k, lse, first_);
  return o;
}

at::Tensor PrefillHook::score_tokens(int layer, const LayerTokens& tokens) {
  const TokenScorer* scorer = state_.policy.scorer();
  if (scorer == nullptr) return {};
  return scorer->absorb(layer, tokens, first_, state_.memory.get());
}

/// Through page-locked memory where the scores have been waited for, and with them all that came before: an upload of the
/// layer before from there is over. Other memory is staged before the call returns, for which the host may have to wait until
/// the device has come so far.
at::Tensor PrefillHook::upload(const std::vector<std::int32_t>& words) {
  const std::size_t bytes = words.size() * sizeof(std::int32_t);
  // evict_at and slot of each token of the chunk; cells, and what they hold, of as many tokens as the chunk can drive out
  const std::size_t room = 4 * static_cast<std::size_t>(n_kv_heads_ * n_) * sizeof(std::int32_t);
  if (!ahead_.are_there || bytes > room)
    return at::tensor(words, at::kInt).to(positions_.device(), /*non_blocking=*/true);
  const kernels::Stream stream = ops::place_of(positions_.device()).stream;
  if (!words_) words_.emplace(room, stream);
  const at::Tensor there = at::empty({std::ssize(words)}, positions_.options());
  std::memcpy(words_->data(), words.data(), bytes);
  kernels::copy_async(there.data_ptr(), words_->data(), bytes, stream);
  return there;
}

at::Tensor PrefillHook::upload_decisions(int layer) {
  const std::int64_t n_keys = ahead_.n_slots + n_;
  const auto all = [&](const auto& of_head) {
    for (int i = 0; i < n_kv_heads_; ++i) of_head(i, heads_.head(layer, i));
  };
  const std::int64_t n_own = n_kv_heads_ * n_;
  // evict_at and slots of the chunk's tokens; cells of ahead_.evict_at that were vacated, and what they hold from now on
  std::vector<std::int32_t> words;
  const auto add = [&](const auto& of_head) { words.insert(words.end(), of_head.begin(), of_head.end()); };
  all([&](int, const HeadRetention& head) { add(head.evict_at()); });
  all([&](int, const HeadRetention& head) { add(head.slots()); });
  all([&](int i, const HeadRetention& head) {
    for (const HeadRetention::Vacated& gone : head.vacated())
      words.push_back(static_cast<std::int32_t>(i * n_keys + gone.slot));
  });
  const std::int64_t n_vacated = std::ssize(words) - 2 * n_own;
  all([&](int, const HeadRetention& head) {
    for (const HeadRetention::Vacated& gone : head.vacated()) words.push_back(gone.evict_at);
  });
  const at::Tensor there = upload(words);
  ahead_.evict_at.narrow(1, ahead_.n_slots, n_).copy_(there.narrow(0, 0, n_own).view({n_kv_heads_, n_}));
  if (n_vacated > 0) {
    ahead_.evict_at.view({-1}).index_copy_(0, there.narrow(0, 2 * n_own, n_vacated).to(at::kLong),
                                           there.narrow(0, 2 * n_own + n_vacated, n_vacated));
  }
  return there.narrow(0, n_own, n_own).view({n_kv_heads_, n_});
}

}  // namespace kvscope::engine
