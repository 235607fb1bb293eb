#pragma once
// What `kvscope inspect` says of a LoRA adapter.

#include <filesystem>
#include <nlohmann/json.hpp>

namespace kvscope::app {

/// An object of kind "adapter". "refused" is the reason for which --gate would not take it, or null. Throws Error if its
/// files cannot be read at all.
nlohmann::ordered_json adapter_summary(const std::filesystem::path& folder);

}  // namespace kvscope::app
