#pragma once
#include <filesystem>
#include <string>

namespace kvscope::app {

/// Where PATH has a program; empty: nowhere.
std::filesystem::path program_path(const std::string& program);

}  // namespace kvscope::app
