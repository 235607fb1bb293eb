#pragma once
// What a task puts into a text: a statement early, questions about it later, and their exact answers. Two kinds:
// palindrome reversal with a long gap (SP-KV App. G), a list of numbers and much later the same list backwards; and fact
// recall, a code that is stated for a thing and asked for much later.

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/support/random.h"

namespace kvscope::engine {

using TokenIds = std::vector<std::int32_t>;

inline constexpr std::array<std::string_view, 20> kAdjectives = {
    "amber",  "brisk",  "copper", "distant", "eager",  "frozen", "gentle", "hollow", "ivory",  "jolly",
    "kindly", "little", "marble", "narrow",  "orange", "polite", "quiet",  "rustic", "silver", "velvet"};
inline constexpr std::array<std::string_view, 20> kNouns = {
    "falcon", "garden", "harbor", "island", "jacket", "kettle", "ladder",  "mirror", "needle", "orchard",
    "pepper", "quarry", "ribbon", "saddle", "temple", "urchin", "village", "window", "yacht",  "zephyr"};

/// The token ids of everything that tasks say, encoded once.
///
/// The phrases of one statement, or of a question and its answer, joined in their order equal the encoding of the
/// joined text: every phrase begins and ends where the tokenizer's split (words with one leading blank, single digits,
/// marks with their line end) cuts anyway. A test holds this against the tokenizer. At seams between text and tasks a
/// tokenizer might cut otherwise (".\n" and "\nWhat" share a line end); sequences are made of ids, not of text, so that
/// does not matter.
struct TaskLexicon {
  TokenIds numbers_open;                     // "\nNumbers:"
  std::array<TokenIds, 100> two_digits;      // " 07"
  TokenIds reversed_open;                    // "\nReversed:"
  TokenIds code_open;                        // "\nThe code of the"
  TokenIds code_is;                          // " is"
  TokenIds question_open;                    // "\nWhat is the code of the"
  TokenIds question_close;                   // "?"
  TokenIds stop;                             // ".\n"
  TokenIds blank;                            // " "
  std::array<TokenIds, 10> digit;            // "7"
  std::array<TokenIds, 20> adjective, noun;  // " amber", " falcon"

  /// encode: raw text to ids, no special tokens added.
  static TaskLexicon make(const std::function<TokenIds(std::string_view)>& encode);
};

/// Appends `tail` to `ids`.
void append(TokenIds& ids, const TokenIds& tail);

enum class TaskKind : std::uint8_t { reversal, fact_recall, reasoning };
inline constexpr TaskKind kTaskKinds[] = {TaskKind::reversal, TaskKind::fact_recall, TaskKind::reasoning};

constexpr std::string_view to_string(TaskKind kind) {
  return kind == TaskKind::reversal ? "reversal" : kind == TaskKind::fact_recall ? "fact_recall" : "reasoning";
}

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
