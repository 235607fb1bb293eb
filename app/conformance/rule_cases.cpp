#include "app/conformance/rule_cases.h"

#include <algorithm>
#include <cmath>

#include "app/conformance/checks.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/run_problems.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

constexpr int kSinks = 4, kWindow = 16, kPlaces = 20;

/// A window that the loaded gate goes with.
int window_for(const Subject& subject, const char* policy) {
  const GateOfModel* gate = subject.gates.scorer({});
  const int least = std::max(kWindow, gate != nullptr ? gate->delay : 0);
  return fixed_window(PolicySpec::parse(policy), subject.gates).value_or(least);
}

PolicySpec spec_of(const PolicyInfo& policy, int window) {
  return with_values(policy, {{"budget", static_cast<double>(kSinks + window + kPlaces)},
                              {"sinks", static_cast<double>(kSinks)},
                              {"window", static_cast<double>(window)}});
}

}  // namespace

std::vector<RuleCase> rule_cases(const Subject& subject) {
  std::vector<RuleCase> cases;
  if (subject.runs("full")) cases.push_back({PolicySpec::parse("full")});
  if (subject.runs("streaming")) cases.push_back({spec_of(*find_policy("streaming"), kWindow)});
  for (const char* name : {"top-k", "threshold"}) {
    if (!subject.runs(name)) continue;
    cases.push_back({spec_of(*find_policy(name), window_for(subject, name)), true, std::string(name) == "threshold"});
  }
  for (const DeclaredPolicy* policy : subject.offer.policies) {
    if (policy->declaration.rule == Declaration::Rule::none) continue;
    cases.push_back(
        {spec_of(policy->policy.info, kWindow), true, policy->declaration.rule == Declaration::Rule::threshold});
  }
  return cases;
}

RunRequest long_request(const Subject& subject, const PolicySpec& policy, int new_tokens) {
  const int window = policy.geometry(subject.model.max_positions).window;
  return subject.request(policy, std::max(80, window + 4 * kPlaces), new_tokens);
}

PolicySpec with_middle_threshold(const RecordedRun& run) {
  std::vector<float> scores;
  for (int layer = 0; layer < run.run.model.n_layers; ++layer) {
    for (int head = 0; head < run.run.model.n_kv_heads; ++head) {
      if (run.run.scores.empty()) continue;
      for (const float score : run.run.scores.row(layer, head))
        if (std::isfinite(score)) scores.push_back(score);
    }
  }
  require(!scores.empty(), "step: no score of any token, and the rule of " + run.run.policy.name + " needs them");
  std::ranges::nth_element(scores, scores.begin() + static_cast<std::ptrdiff_t>(scores.size() / 2));
  const PolicyInfo& policy = *find_policy(run.run.policy);
  return with_values(policy, {{"sinks", static_cast<double>(run.run.geometry().n_sink)},
                              {"window", static_cast<double>(run.run.geometry().window)},
                              {"threshold", std::stod(number_text(scores[scores.size() / 2], 4))}});
}

PolicySpec evicting_policy(const Subject& subject) {
  const std::vector<RuleCase> cases = rule_cases(subject);
  const bool has_gate = !subject.gates.scorers.empty();
  for (const RuleCase& one : cases) {
    const bool is_own = one.policy.declared == nullptr;
    if (one.needs_scores && !one.finds_threshold && (has_gate || !is_own)) return one.policy;
  }
  for (const RuleCase& one : cases)
    if (!one.needs_scores && !policy_of(one.policy).plan(one.policy, {}).keeps_everything()) return one.policy;
  throw NotServed("The engine runs no policy with a rule of KVScope's that evicts.");
}

}  // namespace kvscope::app::conformance
