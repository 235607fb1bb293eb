// TOVA (Oren et al., 2024): token omission via attention. All KV heads of a layer hold the same tokens.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    sinks_parameter(0),
    tokens_parameter("window", 1, 1, kWindowOfMetrics),
    tokens_parameter("protect", 0, 0,
                     "Newest tokens that always stay. 0, as published: even the newest may be evicted."),
    kPrefillParameter,
    kLayerAllocationParameter,
    kBetaParameter};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry = budget_geometry(spec, n_positions);
  check_protected(spec, geometry.budget(), spec.count("protect"), n_positions);
  return geometry;
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  return {.admission = Admission::least,
          .eviction = "tova",
          .allocation = allocation_of(spec),
          .protect = spec.count("protect"),
          .dense_prefill = spec.value("prefill") == 0};
}

std::string explain(const TokenQuestion& question) { return explain_least_attention(question, " from that query"); }

DecisionLog log(const LogQuestion& question) { return log_of_least(question, "attention of the query"); }

std::vector<std::string> sweep(const SweepPoint& at) { return {"tova:keep=" + at.percent}; }

}  // namespace

Policy tova_policy() {
  return {
      .info = {.name = "tova",
               .title = "TOVA",
               .definition =
                   "When a layer holds more than budget tokens after a query, all its heads evict the token to which "
                   "that query attended least (mean over all query heads of the layer): evict_at = q + 1.",
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
