#pragma once
// The work of a capture: prompts to engines, runs into the trace, and what happens when an engine stops.

#include <cstdint>

#include "app/engine_client/progress.h"
#include "app/studies/capture/capture_engines.h"
#include "app/studies/capture/capture_plan.h"

namespace kvscope::app {

struct CaptureWork {
  const CaptureAsked& asked;
  const CapturePlan& plan;
  const RunRequest& request;  // what all prompts share
  const ModelInfo& model;     // as the trace names it
  const PromptCheck& check;
};

/// Decodes and writes what the plan has left, until all is there or Ctrl+C; returns the tokens written. An engine that stops is
/// started again, and its prompts are decoded again, each at most twice. Throws Error, also if prompts are missing at the end.
std::int64_t answer_prompts(const CaptureWork& work, CaptureEngines& engines, TraceWriter& writer, Progress& progress);

}  // namespace kvscope::app
