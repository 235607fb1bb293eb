// Expected Attention (Devoto et al., 2025): the attention that a key can expect from queries like those seen so far.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    tokens_parameter("sinks", 4, 0, "First tokens, which always stay. Their queries do not count in the statistics."),
    tokens_parameter("window", 1, 1, kWindowOfMetrics),
    tokens_parameter("protect", 0, 0, "Newest tokens that a compression leaves alone. 0, as published: none."),
    tokens_parameter("future", 512, 1, "How many positions ahead the rotation is averaged over.", 1 << 20),
    tokens_parameter("interval", 512, 0,
                     "Tokens of the answer between two compressions. 0: compress only after the prompt."),
    {"covariance", ParameterKind::count, "", 1, 0, 1, "1: include the term in Sigma."},
    {"values", ParameterKind::count, "", 1, 0, 1, "1: multiply by the norm of the value."},
    {"epsilon", ParameterKind::real, "", 0, 0, 1,
     "Added to the expected attention before the multiplication by the norm."},
    kAllocationParameter,
    kBetaParameter,
    kSafeguardParameter};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry = budget_geometry(spec, n_positions);
  check_protected(spec, geometry.budget(), spec.count("protect"), n_positions);
  return geometry;
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  return {.eviction = "expected-attention", .allocation = allocation_of(spec), .dense_prefill = true};
}

std::string explain(const TokenQuestion& question) {
  return question.evicted ? ": its expected attention was too low for the budget." : ": no compression evicted it.";
}

DecisionLog log(const LogQuestion& question) {
  const int interval = question.spec.count("interval");
  return log_of_compression("the attention that a key can expect from later queries",
                            interval > 0 ? "This repeats every " + counted(interval, "token") + " of the answer."
                                         : "All tokens of the answer stay.");
}

std::vector<std::string> sweep(const SweepPoint& at) { return {"expected-attention:keep=" + at.percent}; }

}  // namespace

Policy expected_attention_policy() {
  return {
      .info =
          {.name = "expected-attention",
           .title = "Expected Attention",
           .definition =
               "score = (softmax over keys of k . mu / sqrt(d) + k^T Sigma k / 2d, mean over the group, + epsilon) "
               "|v|, where mu and Sigma are of the queries before rotation, turned to the mean of the next `future` positions. "
               "After the prompt and after every `interval` tokens, a head keeps the budget tokens with the highest scores.",
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
