#include <bit>

#include "engine/generate/attention_sites.h"
#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

using kernels::RetainDecision;
constexpr std::int64_t kDecisionInts = sizeof(RetainDecision) / sizeof(std::int32_t);
static_assert(sizeof(RetainDecision) == 7 * sizeof(std::int32_t), "buffer_ is laid out for seven words a decision");

/// What one head decided at query position q, as facts. `newcomer` is -1 while sinks or nobody leave the window.
void note_decision(const RetainDecision& decision, int layer, int head, std::int32_t q, protocol::StepFacts& facts) {
  if (decision.evicted >= 0) facts.lifetimes.push_back({layer, head, decision.evicted, q});
  if (decision.boundary < 0) return;
  facts.contests.push_back({.q = q,
                            .layer = static_cast<std::int16_t>(layer),
                            .kv_head = static_cast<std::int16_t>(head),
                            .newcomer = decision.newcomer,
                            .boundary = decision.boundary,
                            .newcomer_effective = decision.newcomer_effective,
                            .boundary_effective = decision.boundary_effective,
                            .evicted = decision.evicted});
}

}  // namespace

DecodeSite::DecodeSite(SequenceState& state) : state_(state) {
  const std::int64_t layers = state.model.config().n_layers, heads = state.model.config().n_kv_heads;
  const auto ints = at::TensorOptions().device(state.model.weights().device).dtype(at::kInt);
  buffer_ = at::zeros({layers * heads * (kDecisionInts + 1)}, ints);
  scores_ = buffer_.narrow(0, layers * heads * kDecisionInts, layers * heads).view(at::kFloat).view({layers, heads});
  slots_ = at::zeros({layers, heads}, ints);
  if (const float log_gamma = static_cast<float>(state.policy->geometry().log_gamma); log_gamma != 0) {
    log_gamma_ = at::full({heads}, log_gamma, ints.dtype(at::kFloat));
  }
}

RetainDecision* DecodeSite::decisions(int layer) {
  std::int32_t* words = buffer_.data_ptr<std::int32_t>() + layer * state_.model.config().n_kv_heads * kDecisionInts;
  return reinterpret_cast<RetainDecision*>(words);
}

void DecodeSite::begin(std::int32_t position) {
  position_ = position;
  state_.cache.reserve_next();
}

at::Tensor DecodeSite::attend(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor key = k.squeeze(0), value = v.squeeze(0), slot = slots_[layer], score = scores_[layer];
  if (state_.scorer != nullptr) {
    const at::Tensor made = state_.scorer->step(layer, key, value, state_.scoring[layer]);
    if (made.defined()) scores_[layer].copy_(made);
  }
  const RetentionGeometry& geometry = state_.policy->geometry();
  const kernels::SlotCacheView cache = state_.cache.view(layer);
  ops::retain_step({.cache = cache,
                    .rule = state_.policy->rule(),
                    .score = state_.scorer != nullptr ? score.data_ptr<float>() : nullptr,
                    .log_gamma = log_gamma_.defined() ? log_gamma_.data_ptr<float>() : nullptr,
                    .threshold = state_.policy->threshold(),
                    .position = position_,
                    .n_sink = geometry.n_sink,
                    .window = geometry.window,
                    .top_k = geometry.top_k,
                    .decay_stride = geometry.decay_stride,
                    .decision = decisions(layer),
                    .slot = slot.data_ptr<std::int32_t>()},
                   q.device());
  ops::append(cache, key, value, slot, position_);
  return ops::decode_attention(cache, q.squeeze(0)).unsqueeze(0);
}

void DecodeSite::finish(protocol::StepFacts* facts) {
  const int layers = state_.model.config().n_layers, heads = state_.model.config().n_kv_heads;
  const at::Tensor host = buffer_.cpu();
  const auto* decisions = reinterpret_cast<const RetainDecision*>(host.data_ptr<std::int32_t>());
  const std::int32_t* score_bits = host.data_ptr<std::int32_t>() + layers * heads * kDecisionInts;
  const std::int32_t scored = position_ - (state_.scorer != nullptr ? state_.scorer->config().delay : 0);
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      const int i = layer * heads + head;
      state_.cache.note_slot(layer, head, decisions[i].slot);
      if (facts == nullptr) continue;
      note_decision(decisions[i], layer, head, position_, *facts);
      if (state_.scorer == nullptr || scored < 0) continue;
      facts->scores.push_back({layer, head, scored, std::bit_cast<float>(score_bits[i])});
    }
  }
}

}  // namespace kvscope::engine
