#include "engine/jobs/bench/floors.h"

#include <algorithm>
#include <cmath>

#include "engine/decode/eviction/active_policy.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {
namespace {

/// Elements of the matrices of `n_experts` experts of each layer that has some, and of its router.
double expert_elements(const ModelConfig& config, const LayerConfig& layer, double n_experts) {
  return config.hidden_size * (3.0 * layer.experts.intermediate * n_experts + layer.experts.n);
}

/// Elements of all layers' matrices with `n_experts(layer)` experts where there are some.
template <typename Count>
double elements_with(const ModelConfig& config, const Count& n_experts) {
  const double hidden = config.hidden_size, q = static_cast<double>(config.n_heads) * config.head_dim,
               kv = static_cast<double>(config.n_kv_heads) * config.head_dim;
  double elements = 0;
  for (const LayerConfig& layer : config.layers) {
    elements += hidden * (q + 2 * kv) + q * hidden;
    elements += layer.mlp == MlpKind::experts ? expert_elements(config, layer, n_experts(layer.experts))
                                              : 3 * hidden * config.intermediate_size;
  }
  return elements;
}

double bytes_per_element(const LoadedModel& model) { return model.info().dtype == "float32" ? 4 : 2; }

}  // namespace

double weight_bytes(const LoadedModel& model) {
  return static_cast<double>(model.info().n_parameters) * bytes_per_element(model);
}

double bytes_per_step(const LoadedModel& model, double cache_bytes, const TokenScorer* scorer, int batch) {
  const ModelConfig& config = model.config();
  double elements = static_cast<double>(model.info().n_parameters);
  if (!config.tie_word_embeddings) elements -= static_cast<double>(config.vocab_size) * config.hidden_size;
  elements -= layer_weights(config) - elements_with(config, [&](const ExpertConfig& experts) {
                return experts.n * (1 - std::pow(1 - static_cast<double>(experts.per_token) / experts.n, batch));
              });
  const double scoring = scorer != nullptr ? scorer->weight_bytes() + 2.0 * batch * scorer->memory_bytes() : 0;
  return elements * bytes_per_element(model) + batch * cache_bytes + scoring;
}

const TokenScorer* scorer_of_steps(const LoadedModel& model, const PolicySpec& policy, int n) {
  const bool looks_ahead = policy_of(policy).plan(policy, {}).source == ScoreSource::future;
  return looks_ahead ? nullptr : ActivePolicy(policy, n, model).scorer();
}

double kept_tokens(const LoadedModel& model, const SlotCache& cache) {
  const int n_layers = model.config().n_layers, n_heads = model.config().n_kv_heads;
  double tokens = 0;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int head = 0; head < n_heads; ++head) tokens += cache.n_slots(layer, head);
  }
  return tokens / (n_layers * n_heads);
}

double kept_bytes(const LoadedModel& model, const SlotCache& cache) {
  return kept_bytes(model, kept_tokens(model, cache) * model.config().n_layers * model.config().n_kv_heads);
}

double kept_bytes(const LoadedModel& model, double tokens) {
  return 2 * tokens * model.config().head_dim * bytes_per_element(model);
}

double layer_weights(const ModelConfig& config) {
  return elements_with(config, [](const ExpertConfig& experts) { return experts.n; });
}

double layer_flops_per_token(const ModelConfig& config) {
  return 2 * elements_with(config, [](const ExpertConfig& experts) { return experts.per_token; });
}

double pairs_of_layers(const ModelConfig& config, double pairs, int n) {
  double all = 0;
  for (const LayerConfig& layer : config.layers) {
    const double window = std::min(n, layer.window);
    all += layer.window > 0 ? window * (window + 1) / 2 + (n - window) * window : pairs;
  }
  return all;
}

double attention_flops(const ModelConfig& config, double pairs, int n) {
  return 4.0 * config.head_dim * config.n_heads * pairs_of_layers(config, pairs, n);
}

int tokens_to_fill(const PolicySpec& policy, int n) {
  const int budget = policy.budget_tokens(n);
  const RetentionGeometry geometry = policy.geometry(n);
  return budget > 0 ? budget : std::min(n, geometry.n_sink + geometry.window);
}

double visible_pairs(const PolicySpec& policy, int n, double kept) {
  const bool has_budget = policy.budget_tokens(n) > 0;
  const double always = std::min(n, tokens_to_fill(policy, n)), older = n - always,
               share = has_budget || older == 0 ? 0 : std::max(0.0, kept - always) / older;
  return always * (always + 1) / 2 + older * always + share * older * (older + 1) / 2;
}

double prompt_flops(const ModelConfig& config, const PolicySpec& policy, int n, double kept) {
  return layer_flops_per_token(config) * n + attention_flops(config, visible_pairs(policy, n, kept), n);
}

double dense_prompt_flops(const ModelConfig& config, int n) {
  return prompt_flops(config, PolicySpec::parse("full"), n, n);
}

double transposed_flops(const ModelConfig& config, int n, int window) {
  const double later = std::max(0, n - window);
  const auto n_global = static_cast<double>(std::ranges::count(config.layers, 0, &LayerConfig::window));
  return 2.0 * config.head_dim * config.n_heads * n_global * later * (later + 1) / 2;
}

}  // namespace kvscope::engine
