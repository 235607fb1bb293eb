#pragma once
// Names for several tasks of an evaluation at once.

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// The 13 forms of RULER (Hsieh et al. 2024), in its order: single needles 1 to 3, multi-key 1 to 3, multi-value, multi-query,
/// variable tracking, common words, frequent words, questions 1 and 2. docs/reference/tasks.md lists the differences.
inline constexpr std::array<std::string_view, 13> kRulerTasks = {
    "needle-noise",   "needle",         "needle-id",  "needle-keys",    "needle-lines", "needle-ids", "needle-values",
    "needle-queries", "variable-chain", "common-ten", "frequent-words", "qa-paragraph", "qa-hops"};

/// With "ruler" as its 13 tasks.
inline std::vector<std::string> expanded_tasks(const std::vector<std::string>& names) {
  std::vector<std::string> tasks;
  for (const std::string& name : names) {
    if (name != "ruler") tasks.push_back(name);
    if (name == "ruler") tasks.insert(tasks.end(), kRulerTasks.begin(), kRulerTasks.end());
  }
  return tasks;
}

}  // namespace kvscope
