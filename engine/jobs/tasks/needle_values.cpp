// Several facts about one thing, all of which are asked for (RULER's multi-value needle).
#include <algorithm>
#include <cctype>

#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kValues = 3;

TaskText write(Random& random, int) {
  const std::string thing = draw_thing(random);
  TaskText text;
  for (int i = 0; i < kValues; ++i) {
    const std::string code = draw_code(random);
    text.statements.push_back("One of the secret codes of the " + thing + " is " + code + ".");
    text.answer += (i == 0 ? "" : ", ") + code;
  }
  text.question = "What are the three secret codes of the " + thing + "?";
  text.lead = "The three secret codes of the " + thing + " are";
  return text;
}

/// The first `n` whole numbers of a text, sorted.
std::vector<std::string> first_numbers(std::string_view text, std::size_t n) {
  std::vector<std::string> numbers;
  bool inside = false;
  for (const char c : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit && !inside) {
      if (numbers.size() == n) break;
      numbers.emplace_back();
    }
    if (digit) numbers.back() += c;
    inside = digit;
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// The first numbers of the answer are the expected ones, in any order.
bool mark(std::string_view expected, std::string_view answer) {
  return first_numbers(answer, kValues) == first_numbers(expected, kValues);
}

}  // namespace

Task needle_values_task() {
  return {.name = "needle-values",
          .definition = "Three secret codes of one thing, in three places; the answer is all three, in any order.",
          .write = write,
          .mark = mark};
}

}  // namespace kvscope::engine
