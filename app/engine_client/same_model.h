#pragma once
// The model of a trace, for commands that read its runs again.

#include <span>
#include <string>

#include "app/engine_client/engine_job.h"

namespace kvscope::app {

/// Loads the model in `folder` with the gates that --gate names and those that the policies need. Throws Error (bad input)
/// unless its weights and shape are those of `recorded`.
ModelInfo load_same_model(EngineJob& job, const std::string& folder, const ModelInfo& recorded,
                          std::span<const PolicySpec> policies);

}  // namespace kvscope::app
