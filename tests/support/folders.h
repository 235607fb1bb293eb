#pragma once
// Where the checkout and the build are. Only folders.cpp knows, so that ccache serves every other test in any checkout.

#include <filesystem>
#include <string>

namespace kvscope::test {

std::filesystem::path source_folder();
/// CMake's: its bin/ has the programs.
std::filesystem::path build_folder();

/// Absolute path of a file of the checkout: in_source("samples/prompts/heldout.txt").
inline std::string in_source(const std::string& path) { return (source_folder() / path).string(); }
inline std::string in_build(const std::string& path) { return (build_folder() / path).string(); }

/// The LD_PRELOAD library of tests/support/fail_NAME.cpp.
inline std::string fault_library(const std::string& name) { return in_build("tests/libfail_" + name + ".so"); }

}  // namespace kvscope::test
