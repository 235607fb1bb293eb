#pragma once
// JSON as Python's json module writes it: NaN, Infinity and -Infinity where JSON has no number.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/core/support/json_stream.h"

namespace kvscope {

/// read_json() (json_file.h), but NaN, Infinity and -Infinity become the texts of that name: a field that nobody reads
/// stops nobody, and a number that is read is refused by its field (`rms_norm_eps: "NaN"; expected a number`).
nlohmann::json read_python_json(const std::filesystem::path& path, const ReadLimits& limits = {});

/// The text with these words between quotes, unless they are in a string.
std::string quote_non_numbers(std::string_view text);

}  // namespace kvscope
