#pragma once
// How much memory this process could still have.

#include <cstdint>
#include <filesystem>

namespace kvscope {

/// Bytes that this machine can give without paging, or, if that is less, what the control groups of this process (a
/// container, a job of a batch system) leave. The greatest number if the system does not say. `root` is for tests.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace kvscope
