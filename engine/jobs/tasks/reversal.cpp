#include "engine/jobs/tasks/reversal.h"

namespace kvscope::engine {

TaskItem make_reversal(Random& random, const TaskLexicon& words, int min_numbers, int max_numbers) {
  std::vector<std::size_t> numbers(static_cast<std::size_t>(random.between(min_numbers, max_numbers)));
  for (auto& number : numbers) number = random.below(100);

  TaskItem item{.kind = TaskKind::reversal};
  append(item.statement, words.numbers_open);
  for (const auto number : numbers) append(item.statement, words.two_digits[number]);
  append(item.statement, words.stop);
  append(item.question, words.reversed_open);
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number)
    append(item.answer, words.two_digits[*number]);
  append(item.answer, words.stop);
  return item;
}

}  // namespace kvscope::engine
