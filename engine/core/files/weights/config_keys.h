#pragma once
// The keys of config.json: which are read, which change nothing, and a warning about all others.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/files/weights/model_family.h"

namespace kvscope {

/// Appends a line to `warnings` if the file holds more than is understood.
void warn_of_other_keys(const nlohmann::json& config, const ModelFamily& family, const std::string& file,
                        std::vector<std::string>& warnings);

}  // namespace kvscope
