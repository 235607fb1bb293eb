#pragma once
// Where a run reports its facts, and what it may ask.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/record/run_facts.h"
#include "engine/decode/hooks.h"

namespace kvscope::engine {

/// What a run reports as it goes; any may be empty. Called one after the other, in this order: started, step (prefill),
/// oracle, (step, oracle)*, the final oracle, and output_error; in a batch (run_batch.h) not all from one thread.
struct RunSink {
  std::function<void(RunStarted)> started;
  std::function<void(StepFacts)> step;  // its decisions are not spread
  std::function<void(OracleFacts)> oracle;
  std::function<void(OutputErrorFacts)> output_error;  // of a run that ends by itself and is asked for it
  /// Asked before each step: other parameters for the policy, as text. What came of it goes to policy_changed, or to
  /// log if the run goes on as it was.
  std::function<std::optional<std::string>()> next_policy;
  std::function<void(const PolicyChange&)> policy_changed;
  std::function<void(const std::string& text)> log;
  /// If given: appends the likeliest token of every position after the first.
  std::vector<std::int32_t>* greedy = nullptr;
  bool prompt_logprobs = true;  // PrefillOptions::logprobs
  bool records = true;          // false: no facts leave the device, so that the cost of recording can be measured
  Hooks hooks;
};

/// A sink that applies all facts to `record`, which must outlive the run. The record's model is set.
RunSink sink_into(RunRecord& record);

}  // namespace kvscope::engine
