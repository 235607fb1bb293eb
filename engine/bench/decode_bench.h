#pragma once
// Tokens per second of decoding (and of the prefill before it): policies, recording off and on.

#include <nlohmann/json_fwd.hpp>

#include "engine/core/support/json_file.h"
#include "engine/server/job.h"

namespace kvscope::engine {

/// One row per policy and recording; see bench_job().
nlohmann::json decode_bench(const JsonObject& args, JobContext& context);

}  // namespace kvscope::engine
