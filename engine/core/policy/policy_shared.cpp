#include "engine/core/policy/policy_shared.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

int count_or(const PolicySpec& spec, std::string_view name, int otherwise) {
  return spec.has(name) ? spec.count(name) : otherwise;
}

/// A learned decay is each head's own, and none for whoever asks for one number.
double decay_of(const PolicySpec& spec) {
  return spec.has("decay") && !has_learned_decay(spec) ? std::log(spec.value("decay")) : 0;
}

}  // namespace

bool has_learned_decay(const PolicySpec& spec) { return spec.has("decay") && spec.value("decay") == kWordValue; }

GateDefaults defaults_of_scorer(const GateNumbers& gate) {
  GateDefaults defaults = {
      {"threshold", gate.threshold}, {"strict", gate.strict ? 1 : 0}, {"sinks", gate.n_sink}, {"window", gate.window}};
  if (gate.has_decay) defaults.emplace_back("decay", kWordValue);
  return defaults;
}

double share_passing(std::span<const float> alpha, const GateNumbers& heads) {
  const auto passes = [&](float value) { return heads.strict ? value > heads.threshold : value >= heads.threshold; };
  const auto n = std::count_if(alpha.begin(), alpha.end(), passes);
  return alpha.empty() ? 0 : static_cast<double>(n) / static_cast<double>(alpha.size());
}

GateDefaults defaults_of_heads(const GateNumbers& heads) {
  return {{"full", heads.share}, {"sinks", heads.n_sink}, {"window", heads.window}};
}

RetentionGeometry budget_geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry{.n_sink = count_or(spec, "sinks", 0),
                             .window = spec.count("window"),
                             .log_gamma = decay_of(spec),
                             .decay_stride = count_or(spec, "stride", 1)};
  const int budget = spec.budget_tokens(n_positions);
  geometry.top_k = budget - geometry.n_sink - geometry.window;
  if (geometry.top_k < 0) {
    const std::string fixed =
        "sinks " + std::to_string(geometry.n_sink) + " + window " + std::to_string(geometry.window);
    throw Error(
        {.code = ExitCode::usage,
         .file = "policy " + spec.name,
         .where = "budget",
         .found = "a budget of " + describe_budget(budget, n_positions),
         .expected = "at least " + fixed + " = " + std::to_string(geometry.n_sink + geometry.window) + " tokens",
         .hint = "raise the budget, or make the window smaller"});
  }
  return geometry;
}

RetentionGeometry open_geometry(const PolicySpec& spec, int n_positions) {
  const int n_sink = count_or(spec, "sinks", 0), window = spec.count("window");
  return {.n_sink = n_sink, .window = window, .top_k = std::max(0, n_positions - n_sink - window)};
}

void check_protected(const PolicySpec& spec, int budget, int n_protected, int n_positions) {
  const int n_sink = count_or(spec, "sinks", 0);
  if (n_sink + n_protected < budget) return;
  throw Error({.code = ExitCode::usage,
               .file = "policy " + spec.name,
               .where = "budget",
               .found = "a budget of " + describe_budget(budget, n_positions),
               .expected = "more than the " + std::to_string(n_protected) + " newest tokens" +
                           (n_sink > 0 ? " and " + std::to_string(n_sink) + " sinks" : "") + ", which never leave",
               .hint = "raise the budget, or protect fewer"});
}

RetentionPlan gated_plan(const PolicySpec& spec, const RetentionGeometry&) {
  return {.source = ScoreSource::gate,
          .admission = Admission::threshold,
          .threshold = static_cast<float>(spec.value("threshold")),
          .strict = spec.value("strict") == 1,
          .eviction = spec.count("pool") > 0 ? "pool" : "",
          .selection = {.tokens = spec.count("read"), .window = spec.count("window"), .dense_layers = 0}};
}

std::string explain_gated(const TokenQuestion& question) {
  if (!question.evicted || question.went_with_window() || question.plan.eviction.empty()) {
    return explain_by_rule(question);
  }
  return explain_observed_attention(question, std::min(question.spec.count("observe"), question.geometry.window));
}

std::vector<std::uint8_t> least_heads_local(const HeadsOfModel& heads, double share) {
  const std::size_t n = static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads;
  if (heads.alpha.size() != n) throw std::invalid_argument("least_heads_local: no value for each head");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return heads.alpha[a] > heads.alpha[b]; });
  std::vector<std::uint8_t> local(n, 1);
  const auto n_global = static_cast<std::size_t>(std::lround(share * static_cast<double>(n)));
  for (std::size_t i = 0; i < n_global; ++i) local[order[i]] = 0;
  return local;
}

std::unique_ptr<LifetimeRule> make_rule(const RetentionPlan& plan, const RetentionGeometry& geometry, int head) {
  if (plan.is_local(head)) return make_streaming_rule();
  switch (plan.admission) {
    case Admission::keep:
      return make_keep_all_rule();
    case Admission::drop:
      return make_streaming_rule();
    case Admission::threshold:
      return make_threshold_rule(plan.threshold, plan.strict);
    case Admission::top_k:
      return make_running_top_k_rule(plan.of_head(geometry, head));
    case Admission::least:
      throw std::logic_error("make_rule: this plan decides by attention");
  }
  throw std::logic_error("make_rule: no such admission");
}

}  // namespace kvscope
