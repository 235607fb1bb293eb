#pragma once
// Published shapes of models, to be measured with random weights: speed depends on the shape alone.

#include <string>

#include "engine/core/files/weights/model_config.h"

namespace kvscope::engine {

/// The shape named "qwen3-8b", "gemma-3-12b", ... Throws Error (usage) that lists what there is.
ModelConfig shape_config(const std::string& name);

}  // namespace kvscope::engine
