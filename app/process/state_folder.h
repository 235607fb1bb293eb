#pragma once
#include <filesystem>

namespace kvscope::app {

/// state_folder(); throws Error (resource) if there is none, so that nothing is written to the working folder instead.
std::filesystem::path needed_state_folder();

}  // namespace kvscope::app
