#pragma once
// Gates of a small made-up model, and weights' files with random tensors under any names.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"

namespace kvscope::test {

/// L 3, H 2, D 4, F 10.
ModelConfig small_model();

std::vector<float> random_values(std::uint64_t seed, const std::vector<std::int64_t>& shape);

/// Random tensors under these names and shapes; gives back the values.
using NamedShapes = std::map<std::string, std::vector<std::int64_t>>;
using NamedValues = std::map<std::string, std::vector<float>>;
NamedValues write_random(const std::filesystem::path& path, const NamedShapes& shapes);

/// Layers 0, 1, 2 after each other, each under before + layer + after.
std::vector<float> stacked(const NamedValues& values, const std::string& before, const std::string& after);

/// The line of loading for small_model().
std::string load_error(const std::filesystem::path& path);

}  // namespace kvscope::test
