#pragma once
// The pass before a run whose policy names a density: the scores of its prompt, and the thresholds that follow.

#include <functional>
#include <span>
#include <vector>

#include "engine/core/record/run_facts.h"
#include "engine/core/record/run_request.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Passes the prompt through the model under these thresholds, and tells what happened.
using ReadPrompt = std::function<StepFacts(const std::vector<float>& thresholds)>;

/// The thresholds of the request's policy; empty of a policy without a density. A text that is read from its
/// first token on is a prompt. The first are solved on the scores that the prompt has under a full cache. Under the policy
/// other scores come of it, in the layers above whatever was evicted: so the prompt is read under them, and they are solved
/// again on the run's own scores, until the share that it keeps is within half a percentage point of the density, four
/// times at most; the nearest count. Costs a dense pass and one to four under the policy. A request that brings thresholds
/// has them: on another device or in another type they would be others (an H200 in bfloat16 found -0.5954 where the CPU
/// found -0.5963), and what is read again or goes on must be the run that was.
///
/// Measured (SmolLM2, 955 tokens, window 32, 25 %): on the dense scores alone WG-KV kept 26.4, SP-KV 29.6 and DMS 25.4 %.
///
/// Throws Error (cancelled) when the hook says so, (bad input) for a prompt too short or a model without the gate, (usage) for thresholds
/// that are NaN, not one a KV head, or of a policy without a density.
std::vector<float> density_thresholds(const LoadedModel& model, const RunRequest& request,
                                      std::span<const std::int32_t> prompt, int n_positions, const Hooks& hooks,
                                      const ReadPrompt& read);

/// The budgets of heads under a policy that divides its budget by a gate's scores (AdaKV): solve_places() on the scores that
/// the prompt has under a full cache, one pass. The request's own where it brings any; empty for any other policy.
std::vector<std::int32_t> head_budgets(const LoadedModel& model, const RunRequest& request,
                                       std::span<const std::int32_t> prompt, int n_positions, const Hooks& hooks);

}  // namespace kvscope::engine
