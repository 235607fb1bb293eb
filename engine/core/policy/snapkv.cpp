// SnapKV (Li et al., 2024): after the prompt, once, by what its last queries attended to. As in kvpress (mean over the
// window, mean pooling, mean over the group); the original pools by maximum.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr std::string_view kPooling[] = {"mean", "max"};
constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    sinks_parameter(0),
    tokens_parameter("window", 64, 1, "Last queries of the prompt, which are observed and stay.", 4096),
    {"kernel", ParameterKind::count, "tokens", 5, 1, 255, "Neighbours over which the attention is pooled; odd."},
    {"pooling", ParameterKind::choice, "", 0, 0, 1,
     "Over neighbours: their mean (kvpress) or their maximum (as published).", kPooling},
    {"group", ParameterKind::choice, "", 0, 0, 1, "Over the query heads of the group: their mean or their maximum.",
     kPooling},
    tokens_parameter(
        "pool", 0, 0,
        "As a trigger instead: tokens outside sinks and window that the heads may hold in the mean; above it, after the "
        "prompt or any token of the answer, each head drops the share `drop` of lowest score, again and again until there "
        "is room (the paper evicts once a trigger). The budget then means nothing. 0: once."),
    kDropParameter};

RetentionPlan plan(const PolicySpec&, const RetentionGeometry&) {
  return {.eviction = "snapkv", .dense_prefill = true};
}

std::string explain(const TokenQuestion& question) {
  return explain_observed_attention(question, question.geometry.window);
}

bool uses(const PolicySpec& spec, std::string_view parameter) { return spec.count("pool") > 0 || parameter != "drop"; }

DecisionLog log(const LogQuestion& question) {
  const bool triggered = question.spec.count("pool") > 0;
  return log_of_compression("the attention of its last " + std::to_string(question.geometry.window) + " queries",
                            triggered ? "Again whenever the pool is full." : "The answer's tokens all stay.");
}

}  // namespace

Policy snapkv_policy() {
  return {
      .info = {.name = "snapkv",
               .title = "SnapKV",
               .definition =
                   "After the prompt every head keeps its last `window` tokens and, of the others, those with the "
                   "greatest attention from the last `window` queries, pooled over `kernel` neighbours, budget tokens "
                   "in all; the losers have evict_at = prompt length. The answer's tokens all stay. With pool it is a "
                   "trigger under a global budget, WG-KV App. K with window=256,pooling=max,group=max.",
               .parameters = kParameters,
               .has_budget = true},
      .geometry = budget_geometry,
      .plan = plan,
      .explain = explain,
      .log = log,
      .uses = uses};
}

}  // namespace kvscope
