#pragma once
// The engine's job that asks questions and reads texts.

#include <functional>

#include "app/engine_client/engine_job.h"
#include "engine/core/study/measure/evaluation.h"

namespace kvscope::app {

struct EvalHandlers {
  std::function<void(const EvalFacts&)> facts = {};  // once, before the first answer
  std::function<void(const EvalAnswer&)> answer = {};
};

/// Returns false if it was cancelled. Throws Error as EngineJob::call() does.
bool evaluate(EngineJob& job, const EvalRequest& request, const EvalHandlers& handlers);

}  // namespace kvscope::app
