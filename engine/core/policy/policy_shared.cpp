#include "engine/core/policy/policy_shared.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

int count_or(const PolicySpec& spec, std::string_view name, int otherwise) {
  return spec.has(name) ? spec.count(name) : otherwise;
}

/// What a declared policy calls `decay` or `interval` is something else.
bool has_own(const PolicySpec& spec, std::string_view name) { return spec.declared == nullptr && spec.has(name); }

/// A policy of KVScope's has one; without one, a query sees itself.
int window_of(const PolicySpec& spec) { return count_or(spec, "window", 1); }

/// A learned decay is each head's own, and none for whoever asks for one number.
double decay_of(const PolicySpec& spec) {
  return has_own(spec, "decay") && !has_learned_decay(spec) ? std::log(spec.value("decay")) : 0;
}

[[noreturn]] void refuse_heads(const PolicySpec& spec, const char* parameter, std::string found, std::string expected) {
  throw Error({.code = ExitCode::usage,
               .file = "policy " + spec.to_string(),
               .where = parameter,
               .found = std::move(found),
               .expected = std::move(expected)});
}

}  // namespace

bool has_learned_decay(const PolicySpec& spec) { return has_own(spec, "decay") && spec.value("decay") == kWordValue; }

GateDefaults defaults_of_scorer(const GateNumbers& gate) {
  GateDefaults defaults = {
      {"threshold", gate.threshold}, {"strict", gate.strict ? 1 : 0}, {"sinks", gate.n_sink}, {"window", gate.window}};
  if (gate.pool_interval > 0) defaults.insert(defaults.end(), {{"capacity", 1}, {"interval", gate.pool_interval}});
  if (gate.has_decay) defaults.emplace_back("decay", kWordValue);
  return defaults;
}

double share_passing(std::span<const float> alpha, const GateNumbers& heads) {
  const auto threshold = static_cast<float>(heads.threshold);  // as the values were read: a 0.7 in both files is equal
  const auto passes = [&](float value) { return heads.strict ? value > threshold : value >= threshold; };
  const auto n = std::count_if(alpha.begin(), alpha.end(), passes);
  return alpha.empty() ? 0 : static_cast<double>(n) / static_cast<double>(alpha.size());
}

GateDefaults defaults_of_heads(const GateNumbers& heads) {
  return {{"full", heads.share}, {"sinks", heads.n_sink}, {"window", heads.window}};
}

int pool_interval(const PolicySpec& spec) {
  return has_own(spec, "capacity") && spec.value("capacity") == 1 ? count_or(spec, "interval", 0) : 0;
}

RetentionGeometry budget_geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry{.n_sink = count_or(spec, "sinks", 0),
                             .window = window_of(spec),
                             .log_gamma = decay_of(spec),
                             .decay_stride = has_own(spec, "stride") ? spec.count("stride") : 1,
                             .n_positions = n_positions};
  const int budget = spec.budget_tokens(n_positions);
  geometry.top_k = budget - geometry.n_sink - geometry.window;
  const int interval = pool_interval(spec);
  if (geometry.top_k < interval) {
    const std::string fixed = "sinks " + std::to_string(geometry.n_sink) + " + window " +
                              std::to_string(geometry.window) +
                              (interval > 0 ? " + interval " + std::to_string(interval) : "");
    throw Error({.code = ExitCode::usage,
                 .file = "policy " + spec.name,
                 .where = "budget",
                 .found = "a budget of " + describe_budget(budget, n_positions),
                 .expected = "at least " + fixed + " = " +
                             std::to_string(geometry.n_sink + geometry.window + interval) + " tokens",
                 .hint = std::string("raise the budget, or make the window ") +
                         (interval > 0 ? "or the interval " : "") + "smaller"});
  }
  return geometry;
}

RetentionGeometry open_geometry(const PolicySpec& spec, int n_positions) {
  const int n_sink = count_or(spec, "sinks", 0), window = window_of(spec);
  return {.n_sink = n_sink,
          .window = window,
          .top_k = std::max(0, n_positions - n_sink - window),
          .n_positions = n_positions};
}

void check_protected(const PolicySpec& spec, int budget, int n_protected, int n_positions) {
  const int n_sink = count_or(spec, "sinks", 0);
  if (n_sink + n_protected < budget) return;
  throw Error({.code = ExitCode::usage,
               .file = "policy " + spec.name,
               .where = "budget",
               .found = "a budget of " + describe_budget(budget, n_positions),
               .expected = "more than the " + std::to_string(n_protected) + " newest tokens" +
                           (n_sink > 0 ? " and " + std::to_string(n_sink) + " sinks" : "") +
                           ", which are never evicted",
               .hint = "raise the budget, or protect fewer tokens"});
}

Allocation allocation_of(const PolicySpec& spec) {
  if (!has_own(spec, "allocation")) return {};
  const Allocation allocation{.kind = static_cast<Allocation::Kind>(spec.count("allocation"))};
  return {.kind = allocation.kind,
          .beta = allocation.by_layer() ? spec.value("beta") : Allocation{}.beta,
          .safeguard = allocation.by_score() ? spec.value("safeguard") : Allocation{}.safeguard};
}

bool uses_allocation(const PolicySpec& spec, std::string_view parameter) {
  if (parameter != "beta" && parameter != "safeguard") return true;
  const Allocation allocation = allocation_of(spec);
  return parameter == "beta" ? allocation.by_layer() : allocation.by_score();
}

void check_allocation(const PolicySpec& spec) {
  if (!allocation_of(spec).by_score() || spec.value("prefill") == 0) return;
  throw Error({.code = ExitCode::usage,
               .file = "policy " + spec.to_string(),
               .where = "allocation",
               .found = "ada with prefill=sparse",
               .expected = "prefill=dense, because the budgets follow from the scores at the end of the prompt"});
}

RetentionPlan top_k_plan(const PolicySpec& spec, const RetentionGeometry& geometry, ScoreSource source) {
  const bool pooled = spec.value("capacity") == 1 && geometry.top_k > 0;
  const int interval = pooled ? pool_interval(spec) : 0;
  return {.source = source,
          .admission = pooled ? Admission::pooled : Admission::top_k,
          .eviction = pooled ? "pooled-budget" : "",
          .cut_interval = interval,
          .allocation = pooled ? Allocation{} : allocation_of(spec),
          .dense_prefill = pooled && interval == 0};
}

bool uses_top_k(const PolicySpec& spec, std::string_view parameter) {
  const bool pooled = spec.value("capacity") == 1;
  if (pooled && parameter == "allocation") return false;
  return uses_allocation(spec, parameter) && (parameter != "interval" || pooled);
}

RetentionPlan threshold_plan(const PolicySpec& spec) {
  return {.source = ScoreSource::gate,
          .admission = Admission::threshold,
          .threshold = static_cast<float>(spec.value("threshold")),
          .strict = spec.value("strict") == 1,
          .density = spec.value("density"),
          .density_per_head = spec.value("density_over") == 1};
}

bool uses_density(const PolicySpec& spec, std::string_view parameter) {
  return !spec.is_replaced(parameter) && (parameter != "density_over" || spec.value("density") != kWordValue);
}

RetentionPlan gated_plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  RetentionPlan plan = threshold_plan(spec);
  plan.eviction = spec.count("pool") > 0 ? "pool" : "";
  plan.selection = {
      .tokens = spec.tokens_of("read", geometry.n_positions), .window = spec.count("window"), .dense_layers = 0};
  return plan;
}

std::string explain_gated(const TokenQuestion& question) {
  if (!question.evicted || question.went_with_window() || question.plan.eviction.empty()) {
    return explain_by_rule(question);
  }
  return explain_observed_attention(question, std::min(question.spec.count("observe"), question.geometry.window));
}

int global_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  const int count = spec.count("count"), n_heads = heads.n_heads();
  if (count > n_heads) {
    refuse_heads(spec, "count", std::to_string(count), "at most " + std::to_string(n_heads) + ", the model's KV heads");
  }
  return count > 0 ? count : static_cast<int>(std::lround(spec.value("full") * n_heads));
}

PolicySpec spec_with_share(const PolicySpec& spec, const HeadsOfModel& heads, std::optional<int> own) {
  const int count = spec.count("count"), n_heads = heads.n_heads();
  const int n_global = own ? *own : count > 0 ? global_heads(spec, heads) : 0;
  if (n_heads == 0 || (!own && count == 0)) return spec;
  const std::string truth = std::to_string(n_global) + " of " + std::to_string(n_heads) + " heads are global";
  if (own && count > 0 && count != n_global) {
    refuse_heads(spec, "count", std::to_string(count), "no count: " + truth + " by this strategy");
  }
  // The default's own value was perhaps written by nobody: traces name every parameter.
  const double full = spec.value("full"), by_default = PolicySpec::parse(spec.name).value("full");
  if (full != by_default && std::lround(full * n_heads) != n_global) {
    refuse_heads(spec, "full", number_text(full),
                 own ? "no share: " + truth + " by this strategy" : "full or count, not both: with count " + truth);
  }
  PolicySpec out = spec;
  out.values["full"] = static_cast<double>(n_global) / n_heads;
  out.unwritten.erase("full");
  return out;
}

DecisionLog log_gated(const LogQuestion& question) {
  DecisionLog log = log_by_rule(question);
  if (log.rows == DecisionLog::Rows::thresholds && !question.plan.eviction.empty())
    log.note += " When the pool is full, heads also evict the tokens with the least observed attention.";
  return log;
}

bool uses_gated(const PolicySpec& spec, std::string_view parameter) {
  return uses_density(spec, parameter) && (spec.count("pool") > 0 || (parameter != "drop" && parameter != "observe"));
}

std::string count_global(const std::vector<std::uint8_t>& local_heads, const char* word) {
  const auto n_local = std::ranges::count(local_heads, std::uint8_t{1});
  const std::size_t n = local_heads.size(), n_global = n - static_cast<std::size_t>(n_local);
  const double share = n > 0 ? 100 * static_cast<double>(n_global) / static_cast<double>(n) : 0;
  return std::to_string(n_global) + " of " + std::to_string(n) + " heads " + word + " (" + number_text(share, 3) +
         " %)";
}

std::unique_ptr<LifetimeRule> make_rule(const RetentionPlan& plan, const RetentionGeometry& geometry, int head) {
  if (plan.is_local(head)) return make_streaming_rule();
  switch (plan.admission) {
    case Admission::keep:
    case Admission::pooled:  // who leaves does so between two queries
      return make_keep_all_rule();
    case Admission::drop:
      return make_streaming_rule();
    case Admission::threshold:
      return make_threshold_rule(plan.threshold_of(head), plan.strict);
    case Admission::top_k:
      return make_running_top_k_rule(plan.of_head(geometry, head));
    case Admission::least:
      throw std::logic_error("make_rule: this plan decides by attention");
  }
  throw std::logic_error("make_rule: no such admission");
}

}  // namespace kvscope
