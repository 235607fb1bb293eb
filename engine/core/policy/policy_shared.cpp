#include "engine/core/policy/policy_shared.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

int count_or(const PolicySpec& spec, std::string_view name, int otherwise) {
  return spec.has(name) ? spec.count(name) : otherwise;
}

}  // namespace

RetentionGeometry budget_geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry{.n_sink = count_or(spec, "sinks", 0),
                             .window = spec.count("window"),
                             .log_gamma = spec.has("decay") ? std::log(spec.value("decay")) : 0,
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
  if (n_protected < budget) return;
  throw Error({.code = ExitCode::usage,
               .file = "policy " + spec.name,
               .where = "budget",
               .found = "a budget of " + describe_budget(budget, n_positions),
               .expected = "more than the " + std::to_string(n_protected) + " newest tokens, which never leave",
               .hint = "raise the budget, or protect fewer"});
}

RetentionPlan gated_plan(const PolicySpec& spec, const RetentionGeometry&) {
  return {.source = ScoreSource::gate,
          .admission = Admission::threshold,
          .threshold = static_cast<float>(spec.value("threshold")),
          .eviction = spec.count("pool") > 0 ? "pool" : "",
          .selection = {.tokens = spec.count("read"), .window = spec.count("window"), .dense_layers = 0}};
}

std::string explain_gated(const TokenQuestion& question) {
  if (!question.evicted || question.went_with_window() || question.plan.eviction.empty()) {
    return explain_by_rule(question);
  }
  return explain_observed_attention(question, std::min(question.spec.count("observe"), question.geometry.window));
}

DecisionLog log_gated(const LogQuestion& question) {
  DecisionLog log = log_by_rule(question);
  if (log.rows == DecisionLog::Rows::thresholds && !question.plan.eviction.empty())
    log.note += " Above the pool the heads drop those of least observed attention besides.";
  return log;
}

bool uses_gated(const PolicySpec& spec, std::string_view parameter) {
  return spec.count("pool") > 0 || (parameter != "drop" && parameter != "observe");
}

std::string count_global(const std::vector<std::uint8_t>& local_heads, const char* word) {
  const auto n_local = std::ranges::count(local_heads, std::uint8_t{1});
  const std::size_t n = local_heads.size(), n_global = n - static_cast<std::size_t>(n_local);
  const double share = n > 0 ? 100 * static_cast<double>(n_global) / static_cast<double>(n) : 0;
  return std::to_string(n_global) + " of " + std::to_string(n) + " heads " + word + " = " + number_text(share, 3) +
         " %";
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
      return make_running_top_k_rule(geometry);
    case Admission::least:
      throw std::logic_error("make_rule: this plan decides by attention");
  }
  throw std::logic_error("make_rule: no such admission");
}

}  // namespace kvscope
