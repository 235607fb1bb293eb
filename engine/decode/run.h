#pragma once
// A whole run: prefill, decode, and the dense teacher beside it. Server, eval and tests drive runs through here.

#include <functional>

#include "engine/core/record/run_facts.h"
#include "engine/decode/generation.h"

namespace kvscope::engine {

/// What a run tells as it goes; any may be empty. Called on the caller's thread, in this order: started, step
/// (prefill), oracle, (step, oracle)*, the final oracle, and output_error.
struct RunSink {
  std::function<void(RunStarted)> started;
  std::function<void(const StepFacts&)> step;
  std::function<void(OracleFacts)> oracle;
  std::function<void(OutputErrorFacts)> output_error;  // of a run that ends by itself and is asked for it
  /// Asked before each step: other parameters for the policy, as text. What came of it is told to policy_changed, or to
  /// log if the run goes on as it was.
  std::function<std::optional<std::string>()> next_policy;
  std::function<void(const PolicyChange&)> policy_changed;
  std::function<void(const std::string& text)> log;
  /// If given: appends the likeliest token of every position after the first.
  std::vector<std::int32_t>* greedy = nullptr;
  bool prompt_logprobs = true;  // PrefillOptions::logprobs
  Hooks hooks;
};

/// The policy as it would run on the model: ActivePolicy::resolved().
PolicySpec resolved_policy(const PolicySpec& policy, const LoadedModel& model);

/// How a run begins, as the facts that open a record.
RunStarted started_facts(const Generation& run);

/// Runs `request` to its end. Throws what Generation throws.
RunEnded execute_run(const LoadedModel& model, const RunRequest& request, const RunSink& sink = {});

/// The same, gathered into a record (ids, pieces, lifetimes, scores, contests and, if asked for, oracle and output error).
RunRecord record_run(const LoadedModel& model, const RunRequest& request, const Hooks& hooks = {},
                     bool prompt_logprobs = true);

}  // namespace kvscope::engine
