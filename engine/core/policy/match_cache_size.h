#pragma once
// A policy set so that it keeps as many tokens as a run held.

#include <optional>
#include <string>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// What a run held at its end.
struct HeldTokens {
  double tokens = 0;  // of a head as its last query sees it, sinks and window included: mean over heads
  int n_answer = 0;   // queries after the prompt: some methods keep what comes after it
};
struct MatchedPolicy {
  std::optional<PolicySpec> policy;  // nothing: see why_not
  int budget = 0;                    // of it, in tokens
  std::string why_not;               // a sentence: its size cannot be set
  std::string note;                  // a sentence: where it will differ all the same; empty: it will not
};
/// `spec` with the budget, or window, under which a run of `n_positions` with as many answers ends with `held` tokens, to the
/// nearest whole one.
MatchedPolicy match_cache_size(const PolicySpec& spec, const HeldTokens& held, int n_positions);

}  // namespace kvscope
