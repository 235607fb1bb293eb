#include <limits>

#include "engine/core/support/error.h"
#include "engine/generate/attention_sites.h"
#include "engine/model/ops.h"

namespace kvscope::engine {

SequenceState::SequenceState(const LoadedModel& model_, std::unique_ptr<RetentionPolicy> policy_, int n_positions)
    : model(model_),
      policy(std::move(policy_)),
      scorer(policy->needs_scorer() ? model.scorer() : nullptr),
      cache(model.config().n_layers, model.config().n_kv_heads, model.config().head_dim,
            std::min(policy->max_slots(), n_positions), model.weights().dtype, model.weights().device) {
  if (scorer != nullptr) {
    for (int layer = 0; layer < model.config().n_layers; ++layer) scoring.push_back(scorer->initial_state());
  }
  if (policy->has_fixed_budget()) cache.reserve(policy->max_slots());
}

at::Tensor PrefillSite::attend(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (hooks_.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  if (hooks_.progress) hooks_.progress("prefill", layer, state_.model.config().n_layers);
  const std::int64_t n = q.size(0);
  const at::Tensor scores = score_tokens(layer, k, v);
  const at::Tensor evict_at = decide(layer, scores, n);
  const bool all_stay = (evict_at >= n).all().item<bool>();
  const at::Tensor mask = all_stay ? at::Tensor() : evict_at.to(q.device());
  const at::Tensor o = ops::lifetime_attention(q, k, v, mask, 0);
  fill_cache(layer, k, v, evict_at, scores);
  return o;
}

at::Tensor PrefillSite::score_tokens(int layer, const at::Tensor& k, const at::Tensor& v) {
  if (state_.scorer == nullptr) return {};
  const std::int64_t n = k.size(0), delay = state_.scorer->config().delay;
  const at::Tensor by_state = state_.scorer->absorb(layer, k, v, state_.scoring[layer]).cpu();
  at::Tensor scores = at::full_like(by_state, std::numeric_limits<float>::quiet_NaN());
  if (n > delay) scores.narrow(1, 0, n - delay).copy_(by_state.narrow(1, delay, n - delay));
  return scores;
}

at::Tensor PrefillSite::decide(int layer, const at::Tensor& scores, std::int64_t n) {
  const int n_kv_heads = state_.model.config().n_kv_heads;
  at::Tensor out = at::empty({n_kv_heads, n}, at::kInt);
  std::vector<Contest> contests;
  for (int head = 0; head < n_kv_heads; ++head) {
    const std::size_t length = static_cast<std::size_t>(n);
    std::span<const float> head_scores;
    if (scores.defined()) head_scores = {scores.data_ptr<float>() + head * n, length};
    const std::span<std::int32_t> evict_at(out.data_ptr<std::int32_t>() + head * n, length);
    contests.clear();
    state_.policy->prefill_lifetimes(head_scores, evict_at, contests);
    for (Contest& contest : contests) {
      contest.layer = static_cast<std::int16_t>(layer);
      contest.kv_head = static_cast<std::int16_t>(head);
    }
    facts_.contests.insert(facts_.contests.end(), contests.begin(), contests.end());
    for (std::int32_t t = 0; t < n; ++t) {
      if (evict_at[t] < n) facts_.lifetimes.push_back({layer, head, t, evict_at[t]});
      if (scores.defined() && head_scores[t] == head_scores[t])
        facts_.scores.push_back({layer, head, t, head_scores[t]});
    }
  }
  return out;
}

void PrefillSite::fill_cache(int layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& evict_at,
                             const at::Tensor& scores) {
  const std::int64_t n = k.size(0), n_kv_heads = k.size(1);
  at::Tensor slot = at::full_like(evict_at, -1);
  at::Tensor priority = at::zeros(state_.cache.slot_priority(layer).sizes(), at::kFloat);
  std::vector<std::int32_t> used(static_cast<std::size_t>(n_kv_heads), 0);
  for (std::int64_t head = 0; head < n_kv_heads; ++head) {
    const std::int32_t* evicted = evict_at.data_ptr<std::int32_t>() + head * n;
    std::int32_t* head_slot = slot.data_ptr<std::int32_t>() + head * n;
    float* head_priority = priority.data_ptr<float>() + head * priority.size(1);
    for (std::int64_t t = 0; t < n; ++t) {
      if (evicted[t] < n) continue;
      head_slot[t] = used[head]++;
      // What is still in the window has no score yet: retain_step sets it when the token leaves.
      if (scores.defined()) head_priority[head_slot[t]] = scores.data_ptr<float>()[head * n + t];
    }
  }
  state_.cache.set_slots(layer, used);
  state_.cache.slot_priority(layer).copy_(priority);
  ops::append_many(state_.cache.view(layer), k, v, slot.to(k.device()),
                   at::arange(n, at::TensorOptions().device(k.device()).dtype(at::kInt)));
}

}  // namespace kvscope::engine
