#include "engine/core/support/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace kvscope {
namespace {

namespace fs = std::filesystem;

/// The number after `word` in a file of lines "word number ..."; with an empty word, the first number.
std::optional<std::int64_t> number_in(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (word.empty()) return file >> number ? std::optional(number) : std::nullopt;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(word)) return std::atoll(line.c_str() + word.size());
  }
  return std::nullopt;
}

/// What one group leaves; what it holds of files can be dropped. None: it has no limit.
std::optional<std::int64_t> left_in_group(const fs::path& group) {
  const auto limit = number_in(group / "memory.max", "");
  if (!limit) return std::nullopt;
  const std::int64_t used = number_in(group / "memory.current", "").value_or(0);
  const std::int64_t files = number_in(group / "memory.stat", "inactive_file ").value_or(0);
  return std::max<std::int64_t>(0, *limit - used + files);
}

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  const auto kibibytes = number_in(root / "proc/meminfo", "MemAvailable:");
  std::int64_t bytes = kibibytes ? *kibibytes * 1024 : std::numeric_limits<std::int64_t>::max();
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path top = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // version 1, which modern systems do not use
    for (fs::path group = fs::path(line.substr(4));; group = group.parent_path()) {
      if (const auto left = left_in_group(top / group)) bytes = std::min(bytes, *left);
      if (group.empty()) break;
    }
  }
  return bytes;
}

}  // namespace kvscope
