// TOVA (Oren et al., 2024): token omission via attention. All KV heads of a layer hold the same tokens.
#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    {"window", ParameterKind::tokens, "tokens", 1, 1, kMaxTokens, "Window of the metrics; the rule itself has none."},
    {"protect", ParameterKind::tokens, "tokens", 0, 0, kMaxTokens,
     "Newest tokens that never leave; as published the newest may, with 0."},
    kPrefillParameter};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry = budget_geometry(spec, n_positions);
  check_protected(spec, geometry.budget(), spec.count("protect"), n_positions);
  return geometry;
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  (void)geometry;
  return {.eviction = StepEviction::last_attention,
          .protect = spec.count("protect"),
          .dense_prefill = spec.value("prefill") == 0};
}

}  // namespace

const Policy& tova_policy() {
  static const Policy policy{
      .info = {.name = "tova",
               .title = "TOVA",
               .definition =
                   "When a layer holds more than budget tokens after a query, the token to which that query attended "
                   "least, in the mean over all query heads of the layer, leaves all its heads: evict_at = q + 1.",
               .parameters = kParameters,
               .has_budget = true,
               .needs_scorer = false},
      .geometry = geometry,
      .plan = plan};
  return policy;
}

}  // namespace kvscope
