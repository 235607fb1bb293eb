#include "engine/jobs/bench/floors.h"

#include <algorithm>

#include "engine/decode/eviction/active_policy.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {
namespace {

double bytes_per_element(const LoadedModel& model) { return model.info().dtype == "float32" ? 4 : 2; }

}  // namespace

double weight_bytes(const LoadedModel& model) {
  return static_cast<double>(model.info().n_parameters) * bytes_per_element(model);
}

double bytes_per_step(const LoadedModel& model, double cache_bytes, const TokenScorer* scorer, int batch) {
  const ModelConfig& config = model.config();
  double elements = static_cast<double>(model.info().n_parameters);
  if (!config.tie_word_embeddings) elements -= static_cast<double>(config.vocab_size) * config.hidden_size;
  const double scoring = scorer != nullptr ? scorer->weight_bytes() + 2.0 * batch * scorer->memory_bytes() : 0;
  return elements * bytes_per_element(model) + batch * cache_bytes + scoring;
}

const TokenScorer* scorer_of_steps(const LoadedModel& model, const PolicySpec& policy, int n) {
  const bool looks_ahead = policy_of(policy).plan(policy, {}).source == ScoreSource::future;
  return looks_ahead ? nullptr : ActivePolicy(policy, n, model).scorer();
}

double kept_bytes(const LoadedModel& model, const SlotCache& cache) {
  double tokens = 0;
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    for (int head = 0; head < model.config().n_kv_heads; ++head) tokens += cache.n_slots(layer, head);
  }
  return kept_bytes(model, tokens);
}

double kept_bytes(const LoadedModel& model, double tokens) {
  return 2 * tokens * model.config().head_dim * bytes_per_element(model);
}

double layer_flops_per_token(const ModelConfig& config) {
  const double hidden = config.hidden_size, q = static_cast<double>(config.n_heads) * config.head_dim,
               kv = static_cast<double>(config.n_kv_heads) * config.head_dim;
  const double weights = hidden * (q + 2 * kv) + q * hidden + 3 * hidden * config.intermediate_size;
  return 2 * weights * config.n_layers;
}

double attention_flops(const ModelConfig& config, double pairs) {
  return 4.0 * config.head_dim * config.n_heads * config.n_layers * pairs;
}

double visible_pairs(const PolicySpec& policy, int n) {
  const int budget = policy.budget_tokens(n);
  const double full = std::min(n, budget > 0 ? budget : n);
  return full * (full + 1) / 2 + (n - full) * full;
}

double prompt_flops(const ModelConfig& config, const PolicySpec& policy, int n) {
  return layer_flops_per_token(config) * n + attention_flops(config, visible_pairs(policy, n));
}

double transposed_flops(const ModelConfig& config, int n, int window) {
  const double later = std::max(0, n - window);
  return attention_flops(config, later * (later + 1) / 2) / 2;
}

}  // namespace kvscope::engine
