#pragma once
// What a task puts into a text: a statement early, questions about it later, and their exact answers. Two kinds:
// palindrome reversal with a long gap (SP-KV App. G), a list of numbers and much later the same list backwards; and fact
// recall, a code that is stated for a thing and asked for much later.

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/support/random.h"
#include "engine/jobs/tasks/lexicon.h"

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

/// "\nNumbers: 57 12 70.\n" and later "\nReversed:" -> " 70 12 57.\n": min_numbers to max_numbers two-digit numbers,
/// uniform and independent.
TaskItem make_reversal(Random& random, const TaskLexicon& words, int min_numbers, int max_numbers);

/// Things already spoken of in a sequence: (adjective, noun) by index. Each is stated once, so every answer is unique.
using UsedThings = std::set<std::pair<std::size_t, std::size_t>>;

/// "\nThe code of the amber falcon is 4821.\n" and later "\nWhat is the code of the amber falcon?" -> " 4821.\n".
/// Draws things until one is not in `used` and adds it there; used.size() must be below 400.
TaskItem make_fact(Random& random, const TaskLexicon& words, UsedThings& used);

}  // namespace kvscope::engine
