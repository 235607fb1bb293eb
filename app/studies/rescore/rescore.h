#pragma once
// A recorded run's tokens scored again by the model, under the run's own policy or another one.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_client/engine_job.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope::app {

/// What the model makes of the tokens under one policy.
struct Scored {
  std::vector<float> logprobs;
  std::vector<std::int32_t> greedy;  // the likeliest token at each position, -1 for the first
  HeadMap density;
  double cache_size;  // mean over heads and queries
  bool dense;         // no query missed a token
  ScoreQuality quality;
  PolicySpec policy;              // as used: what was not given is from the gate
  std::vector<float> thresholds;  // RunRecord::thresholds()
};

/// How the tokens are read: as a run has them, or (chunk > 0) all of them under the policy, which acts every so often.
struct Reading {
  int chunk = 0;
  std::optional<OracleSpec> oracle = {};  // what else is measured
  bool output_error = false;

  /// How, in words.
  std::string text() const;
};

/// Nothing if it was cancelled. Throws Error (resource) for an answer that does not match the run.
std::optional<Scored> score_run(EngineJob& job, const RunRecord& run, const PolicySpec& policy,
                                const std::vector<PolicyChange>& changes, const Reading& reading);

/// One object: policies, and NLL, cache size, density and what else `reading` measured, each as
/// {"recorded", "compared", "change"}.
nlohmann::ordered_json comparison_json(int index, const RunRecord& run, const Scored& recorded, const Scored& compared,
                                       const Reading& reading);

}  // namespace kvscope::app
