#pragma once
// What a task puts into a text: a statement early, questions about it later, and their exact answers.

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvscope::engine {

enum class TaskKind : std::uint8_t { reversal, fact_recall };
inline constexpr TaskKind kTaskKinds[] = {TaskKind::reversal, TaskKind::fact_recall};

constexpr std::string_view to_string(TaskKind kind) { return kind == TaskKind::reversal ? "reversal" : "fact_recall"; }

/// One statement with a question about it. All are token ids; question and answer are joined in the text.
struct TaskItem {
  TaskKind kind = TaskKind::reversal;
  std::vector<std::int32_t> statement;
  std::vector<std::int32_t> question;
  std::vector<std::int32_t> answer;
  std::size_t n_tokens() const { return statement.size() + question.size() + answer.size(); }
};

}  // namespace kvscope::engine
