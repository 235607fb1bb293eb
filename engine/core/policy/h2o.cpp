// H2O (Zhang et al., 2023): heavy hitters by accumulated attention. As released, sums and not means; here the mean over
// the query heads of the group, since a KV head keeps one set of tokens.
#include <algorithm>

#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr std::string_view kNormalise[] = {"sum", "mean"};

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    sinks_parameter(0),
    tokens_parameter(
        "window", 256, 1,
        "Newest tokens, including the query's own, that always stay. The heavy hitters get the rest of the budget."),
    {"normalise", ParameterKind::choice, "", 0, 0, 1,
     "sum, as published: a token's attention is added up. mean: the sum is divided by the number of queries that could "
     "see the token, so older tokens have no advantage.",
     kNormalise},
    kPrefillParameter,
    kAllocationParameter,
    kBetaParameter,
    kSafeguardParameter};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry = budget_geometry(spec, n_positions);
  check_protected(spec, geometry.budget(), geometry.window, n_positions);
  check_allocation(spec);
  return geometry;
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return {.admission = Admission::least,
          .eviction = "h2o",
          .allocation = allocation_of(spec),
          .protect = geometry.window,
          .dense_prefill = spec.value("prefill") == 0};
}

bool is_mean(const PolicySpec& spec) { return spec.value("normalise") == 1; }

std::string explain(const TokenQuestion& question) {
  return explain_least_attention(question, is_mean(question.spec) ? " per query" : " over all queries");
}

DecisionLog log(const LogQuestion& question) {
  return log_of_least(question, is_mean(question.spec) ? "mean attention" : "sum of attention");
}

std::vector<std::string> sweep(const SweepPoint& at) {  // half and half, as published
  return {"h2o:keep=" + at.percent + ",window=" + std::to_string(std::max(1, at.budget / 2))};
}

}  // namespace

Policy h2o_policy() {
  return {
      .info =
          {.name = "h2o",
           .title = "H2O heavy hitters",
           .definition =
               "When a head holds more than budget tokens after a query, it evicts the token outside the recent window "
               "with the least attention, summed over all queries up to this one (mean over the group): evict_at = q + "
               "1. With normalise=mean, the sum is divided by the number of queries that could see the token.",
           .parameters = kParameters,
           .has_budget = true},
      .geometry = geometry,
      .plan = plan,
      .explain = explain,
      .log = log,
      .uses = uses_allocation,
      .sweep = sweep};
}

}  // namespace kvscope
