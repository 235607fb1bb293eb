#pragma once
// A capture: many prompts decoded into one trace that survives kill -9.

#include <cstdint>
#include <string>
#include <vector>

#include "app/engine_client/engine_job.h"
#include "app/studies/capture/capture_plan.h"

namespace kvscope::app {

struct CaptureResult {
  CapturePlan plan;
  int runs = 0;             // in the trace
  std::int64_t tokens = 0;  // decoded now, prompts included
  bool is_whole() const { return runs == static_cast<int>(plan.indices.size()); }
};

/// Decodes what the trace does not have yet, until all is there or Ctrl+C. `request` is what all prompts share; `model` is a
/// folder. Throws Error: what was captured until then stays in the trace, which "resume" continues.
CaptureResult run_capture(const CaptureAsked& asked, std::vector<Prompt> prompts, const RunRequest& request,
                          const std::string& model, EngineJobOptions engine);

}  // namespace kvscope::app
