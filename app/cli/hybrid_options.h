#pragma once
#include "app/cli/arguments.h"
#include "app/studies/hybrid/hybrid_plan.h"

namespace kvscope::app {

/// What the options of kvscope hybrid ask for. Throws Error as complete_plan() does.
HybridPlan hybrid_plan(const Arguments& arguments, const EngineJobOptions& engine);

}  // namespace kvscope::app
