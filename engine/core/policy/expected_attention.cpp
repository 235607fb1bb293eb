// Expected Attention (Devoto et al., 2025): the attention that a key can expect from queries like those seen so far.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    tokens_parameter("sinks", 4, 0, "First tokens, which always stay; their queries are left out of the statistics."),
    tokens_parameter("window", 1, 1, kWindowOfMetrics),
    tokens_parameter("future", 512, 1, "Positions ahead over which the rotation is averaged.", 1 << 20),
    tokens_parameter("interval", 512, 0, "Tokens of the answer between two compressions; 0: only after the prompt."),
    {"covariance", ParameterKind::count, "", 1, 0, 1, "1: with the term in Sigma."},
    {"values", ParameterKind::count, "", 1, 0, 1, "1: times the norm of the value."},
    {"epsilon", ParameterKind::real, "", 0, 0, 1,
     "Added to the expected attention before it is multiplied by the norm."}};

RetentionPlan plan(const PolicySpec&, const RetentionGeometry&) {
  return {.eviction = "expected-attention", .dense_prefill = true};
}

std::string explain(const TokenQuestion& question) {
  return question.evicted ? ", with all tokens below the budget's best by expected attention."
                          : ": no compression has dropped it.";
}

DecisionLog log(const LogQuestion& question) {
  const int interval = question.spec.count("interval");
  return log_of_compression(
      "the attention that a key can expect",
      interval > 0 ? "Again every " + counted(interval, "token") + " of the answer." : "The answer's tokens all stay.");
}

}  // namespace

Policy expected_attention_policy() {
  return {
      .info =
          {.name = "expected-attention",
           .title = "Expected Attention",
           .definition =
               "score = (softmax over keys of k . mu / sqrt(d) + k^T Sigma k / 2d, mean over the group, + epsilon) "
               "|v|, mu and Sigma of the queries before rotation, turned to the mean of the next `future` positions. "
               "After the prompt, and every `interval` tokens, a head keeps the budget tokens of highest score.",
           .parameters = kParameters,
           .has_budget = true},
      .geometry = budget_geometry,
      .plan = plan,
      .explain = explain,
      .log = log};
}

}  // namespace kvscope
