#pragma once
// The policies whose lifetimes KVScope can compute from recorded scores, each with values under which it evicts.

#include <string>
#include <vector>

#include "app/conformance/recorded_run.h"
#include "app/conformance/subject.h"

namespace kvscope::app::conformance {

struct RuleCase {
  PolicySpec policy;
  bool needs_scores = false;     // its rule reads scores of a gate or of the engine
  bool finds_threshold = false;  // the threshold must be chosen by a first run
};

/// full, streaming, top-k, threshold and what the engine declares with a rule, as far as the engine runs them.
std::vector<RuleCase> rule_cases(const Subject& subject);
/// A run that is long enough for the policy to evict. `new_tokens` follow the prompt.
RunRequest long_request(const Subject& subject, const PolicySpec& policy, int new_tokens);
/// The policy with a threshold that about half of the recorded scores reach.
PolicySpec with_middle_threshold(const RecordedRun& run);
/// The first of the cases that holds a budget of scored tokens, else one that evicts. Throws NotServed.
PolicySpec evicting_policy(const Subject& subject);

}  // namespace kvscope::app::conformance
