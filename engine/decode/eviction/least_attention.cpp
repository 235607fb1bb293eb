#include "engine/decode/eviction/least_attention.h"

#include <cmath>

namespace kvscope::engine {

void LeastAttention::after_attention(const LayerStep& step) {
  const ModelConfig& config = state_.model.config();
  kernels::attention_mass({.cache = state_.cache.view(step.layer),
                           .q = step.q,
                           .lse = step.lse,
                           .position = step.position,
                           .n_heads = config.n_heads,
                           .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                           .rule = rule_},
                          step.place);
}

void LeastAttention::after_prompt(int prompt_len, StepFacts* facts) {
  const RetentionPlan& plan = state_.policy.plan();
  if (!plan.dense_prefill) return;
  const RetentionGeometry& geometry = state_.policy.geometry();
  keep_best(
      state_,
      {.n_tokens = prompt_len,
       .budget = geometry.budget(),
       .max_slots = state_.policy.answer_slots(),
       .fixed_from = prompt_len - plan.protect},
      [&](int layer, const OrderedLayer& tokens) { return prompt_scores(layer, tokens, prompt_len); }, facts);
}

}  // namespace kvscope::engine
