#pragma once
// A whole run: prefill, decode, and the dense teacher beside it. Server, eval and tests drive runs through here.

#include <functional>

#include "engine/core/study/retention_metrics.h"
#include "engine/decode/generation.h"

namespace kvscope::engine {

/// Recall so far, or, when final, the future-attention target itself.
struct OracleFacts {
  int horizon = 0;  // queries the teacher has seen
  HeadMap recall;   // recall(horizon - 1)
  bool final = false;
  /// [layer][kv_head][horizon], empty unless final; NaN for tokens without future queries.
  HeadSeries<float> future_mass;
};

/// What a run tells as it goes; any may be empty. Called on the caller's thread, in this order: started, step
/// (prefill), oracle, (step, oracle)*, and the final oracle.
struct RunSink {
  std::function<void(const Generation&)> started;
  std::function<void(const StepFacts&)> step;
  std::function<void(const OracleFacts&)> oracle;
  /// Asked before each step: other parameters for the policy, as text. What came of it is told to policy_changed, or to
  /// log if the run goes on as it was.
  std::function<std::optional<std::string>()> next_policy;
  std::function<void(std::int32_t q, const PolicySpec& policy)> policy_changed;
  std::function<void(const std::string& text)> log;
  Hooks hooks;
};

/// How a run ended. A cancelled run is an outcome, not an error.
struct RunOutcome {
  RunStatus status = RunStatus::complete;
  RunTimings timings;
  std::string text;
};

/// Runs `request` to its end. Throws what Generation throws.
RunOutcome execute_run(const LoadedModel& model, const RunRequest& request, const RunSink& sink = {});

/// The same, gathered into a record (ids, pieces, lifetimes, scores, contests and, if asked for, oracle).
RunRecord record_run(const LoadedModel& model, const RunRequest& request, const Hooks& hooks = {});

}  // namespace kvscope::engine
