#pragma once
// Numbers that other programs gave, as the tests' make_*golden*.py wrote them.

#include <filesystem>
#include <nlohmann/json.hpp>

namespace kvscope::test {

/// What `file` holds (from the source tree's root, if relative), or `file`.gz where that exists; either plain or by gzip.
nlohmann::json read_golden(const std::filesystem::path& file);

}  // namespace kvscope::test
