#include "engine/core/policy/head_rules.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

template <typename T>
void check_count(std::span<const T> values, const KnownHeads& heads, const char* what) {
  if (values.size() == static_cast<std::size_t>(heads.n_heads())) return;
  throw Error({.code = ExitCode::usage,
               .file = what,
               .found = std::to_string(values.size()) + " numbers",
               .expected = std::to_string(heads.n_heads()) + ", one per KV head"});
}

std::span<const float> decays_of(const PolicySpec& spec, const KnownHeads& heads) {
  if (!has_learned_decay(spec)) return {};
  if (!heads.log_gamma.empty()) return heads.log_gamma;
  throw Error({.file = "policy " + spec.to_string(),
               .where = "decay",
               .found = "learned, but the gate has no log_gamma",
               .expected = "a gate with a decay for each KV head, or decay=NUMBER"});
}

/// What a head must hold: of a policy that evicts the least of all, also one token that may leave.
int least_budget(const RetentionGeometry& geometry, const RetentionPlan& plan) {
  const int protect = plan.admission == Admission::least ? plan.protect + 1 : 0;
  return geometry.n_sink + std::max(geometry.window, protect);
}

/// Places of each head, from what is given or what the plan says.
std::vector<int> places_of(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                           const KnownHeads& heads) {
  std::vector<int> places;
  if (heads.budgets.empty()) {
    places = places_of_heads(plan, geometry, heads.n_layers, heads.n_kv_heads);
  } else {
    if (!policy_of(spec).info.has_budget || plan.is_pooled())
      throw Error({.code = ExitCode::usage,
                   .file = "budgets",
                   .found = "budgets of heads under " + spec.to_string(),
                   .expected = "a policy under which each head has a budget, for example snapkv, h2o or kvpop"});
    check_count(heads.budgets, heads, "budgets");
    for (const std::int32_t budget : heads.budgets) places.push_back(budget - geometry.n_sink - geometry.window);
  }
  const int least = least_budget(geometry, plan) - geometry.n_sink - geometry.window;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= least) continue;
    const auto n = static_cast<std::size_t>(heads.n_kv_heads);
    throw Error(
        {.code = ExitCode::usage,
         .file = "budgets",
         .where = "layer " + std::to_string(i / n) + " head " + std::to_string(i % n),
         .found = counted(places[i] + geometry.n_sink + geometry.window, "token"),
         .expected = "at least " + std::to_string(least_budget(geometry, plan)) + " under " + spec.to_string()});
  }
  return places;
}

}  // namespace

HeadRules head_rules(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                     const KnownHeads& heads) {
  const Policy& policy = policy_of(spec);
  const std::span<const float> decays = decays_of(spec, heads);
  const std::vector<int> places = places_of(spec, geometry, plan, heads);
  if (plan.density > 0) {
    if (heads.thresholds.empty()) throw not_solved(spec);
    check_count(heads.thresholds, heads, "thresholds");
  }
  std::vector<std::uint8_t> local;
  if (policy.local_heads != nullptr)
    local = policy.local_heads(spec, {heads.n_layers, heads.n_kv_heads, {heads.alpha.begin(), heads.alpha.end()}});
  if (decays.empty() && places.empty() && local.empty() && plan.density == 0 && heads.windows.empty()) return {};
  HeadRules rules(static_cast<std::size_t>(heads.n_heads()), rule_of(geometry, plan.threshold));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!decays.empty()) rules[i].log_gamma = decays[i];
    if (!places.empty()) rules[i].top_k = places[i];
    if (plan.density > 0) rules[i].threshold = heads.thresholds[i];
    if (!local.empty() && local[i] != 0) {
      rules[i].locality = Locality::policy;
      rules[i].top_k = 0;
    }
    // What no query sees by the model's design no policy keeps.
    const std::int32_t window =
        heads.windows.empty() ? 0 : heads.windows[i / static_cast<std::size_t>(heads.n_kv_heads)];
    if (window > 0) rules[i] = {.window = window, .locality = Locality::model};
  }
  return rules;
}

}  // namespace kvscope
