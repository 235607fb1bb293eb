// SnapKV (Li et al., 2024): after the prompt, once, by what its last queries attended to. As in kvpress (mean over the
// window, mean pooling, mean over the group); the original pools by maximum.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr std::string_view kPooling[] = {"mean", "max"};
constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    sinks_parameter(0),
    tokens_parameter("window", 64, 1, "Last queries of the prompt. Their attention decides, and their tokens stay.",
                     4096),
    {"kernel", ParameterKind::count, "tokens", 5, 1, 255,
     "Number of neighbours over which the attention is pooled; odd."},
    {"pooling", ParameterKind::choice, "", 0, 0, 1,
     "How to pool over neighbours: mean (kvpress) or maximum (as published).", kPooling},
    {"group", ParameterKind::choice, "", 0, 0, 1, "How to pool over the query heads of the group: mean or maximum.",
     kPooling},
    tokens_parameter(
        "pool", 0, 0,
        "Evict by trigger instead: how many tokens outside sinks and window the heads may hold on average. Above it, after "
        "the prompt or any token of the answer, each head evicts the share `drop` with the lowest scores, repeatedly until "
        "there is room (the paper evicts once per trigger). The budget then has no effect. 0: evict once."),
    kDropParameter,
    kAllocationParameter,
    kBetaParameter,
    kSafeguardParameter};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  const bool triggered = spec.count("pool") > 0;
  return {.eviction = "snapkv", .allocation = triggered ? Allocation{} : allocation_of(spec), .dense_prefill = true};
}

std::string explain(const TokenQuestion& question) {
  return explain_observed_attention(question, question.geometry.window);
}

bool uses(const PolicySpec& spec, std::string_view parameter) {
  const bool triggered = spec.count("pool") > 0;
  if (parameter == "drop") return triggered;
  return uses_allocation(spec, parameter) && (!triggered || parameter != "allocation");
}

DecisionLog log(const LogQuestion& question) {
  const bool triggered = question.spec.count("pool") > 0;
  return log_of_compression("the attention from the prompt's last " + counted(question.geometry.window, "token"),
                            triggered ? "This repeats whenever the pool is full." : "All tokens of the answer stay.");
}

std::vector<std::string> sweep(const SweepPoint& at) { return {"snapkv:keep=" + at.percent + at.window()}; }

}  // namespace

Policy snapkv_policy() {
  return {
      .info =
          {.name = "snapkv",
           .title = "SnapKV",
           .definition =
               "After the prompt, every head keeps budget tokens: its last `window` tokens and those with the "
               "greatest attention from the last `window` queries, pooled over `kernel` neighbours. The others have "
               "evict_at = prompt length. All tokens of the answer stay. With pool, eviction is triggered under a "
               "global budget: WG-KV App. K with window=256,pooling=max,group=max.",
           .parameters = kParameters,
           .has_budget = true},
      .geometry = budget_geometry,
      .plan = plan,
      .explain = explain,
      .log = log,
      .uses = uses,
      .sweep = sweep};
}

}  // namespace kvscope
