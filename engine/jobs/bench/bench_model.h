#pragma once
// The model that a benchmark measures: from a folder, or of a published shape with random weights.

#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/model/model.h"

namespace kvscope::engine {

/// By the arguments "model" or "shape", "device" and "dtype". A shape gets positions for `n_positions` tokens whatever
/// its makers allow, and a scorer whose delay is the window of `policy`. Throws Error.
LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const std::string& policy);

}  // namespace kvscope::engine
