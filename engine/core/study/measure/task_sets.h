#pragma once
// Names for several tasks of an evaluation at once.

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// The 13 forms of RULER (Hsieh et al. 2024), in its order: single needles 1 to 3, multi-key 1 to 3, multi-value, multi-query,
/// variable tracking, common words, frequent words, questions 1 and 2. docs/reference/tasks.md lists the differences.
inline constexpr std::array<std::string_view, 13> kRulerTasks = {
    "needle-noise",   "needle",         "needle-id",  "needle-keys",    "needle-lines", "needle-ids", "needle-values",
    "needle-queries", "variable-chain", "common-ten", "frequent-words", "qa-paragraph", "qa-hops"};

/// Five of the categories of HELMET (Yen et al. 2025), in its order: retrieval-augmented generation, re-ranking, questions on long
/// documents, summarization, many-shot learning. docs/reference/tasks.md lists the differences.
inline constexpr std::array<std::string_view, 7> kHelmetTasks = {"qa-paragraph", "qa-hops", "rerank",   "birthplace",
                                                                 "choices",      "summary", "many-shot"};

/// With "ruler" and "helmet" as their tasks, but for those that are there already.
inline std::vector<std::string> expanded_tasks(const std::vector<std::string>& names) {
  std::vector<std::string> tasks;
  const auto add = [&](std::span<const std::string_view> set) {
    for (const std::string_view task : set)
      if (std::ranges::find(tasks, task) == tasks.end()) tasks.emplace_back(task);
  };
  for (const std::string& name : names) {
    if (name == "ruler") {
      add(kRulerTasks);
    } else if (name == "helmet") {
      add(kHelmetTasks);
    } else {
      tasks.push_back(name);
    }
  }
  return tasks;
}

}  // namespace kvscope
