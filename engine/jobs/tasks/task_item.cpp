#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

TaskLexicon TaskLexicon::make(const std::function<TokenIds(std::string_view)>& encode) {
  TaskLexicon words;
  words.numbers_open = encode("\nNumbers:");
  for (int i = 0; i < 100; ++i) {
    words.two_digits[i] = encode({" " + std::to_string(i / 10) + std::to_string(i % 10)});
  }
  words.reversed_open = encode("\nReversed:");
  words.code_open = encode("\nThe code of the");
  words.code_is = encode(" is");
  words.question_open = encode("\nWhat is the code of the");
  words.question_close = encode("?");
  words.stop = encode(".\n");
  words.blank = encode(" ");
  for (int i = 0; i < 10; ++i) words.digit[i] = encode(std::to_string(i));
  for (std::size_t i = 0; i < kAdjectives.size(); ++i) words.adjective[i] = encode(" " + std::string(kAdjectives[i]));
  for (std::size_t i = 0; i < kNouns.size(); ++i) words.noun[i] = encode(" " + std::string(kNouns[i]));
  return words;
}

void append(TokenIds& ids, const TokenIds& tail) { ids.insert(ids.end(), tail.begin(), tail.end()); }

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

TaskItem make_fact(Random& random, const TaskLexicon& words, UsedThings& used) {
  std::pair<std::size_t, std::size_t> thing;
  do {
    thing = {random.below(kAdjectives.size()), random.below(kNouns.size())};
  } while (!used.insert(thing).second);
  TokenIds code = words.blank;
  for (const char c : std::to_string(random.between(1000, 9999)))
    append(code, words.digit[static_cast<std::size_t>(c - '0')]);

  TaskItem item{.kind = TaskKind::fact_recall};
  append(item.statement, words.code_open);
  append(item.statement, words.adjective[thing.first]);
  append(item.statement, words.noun[thing.second]);
  append(item.statement, words.code_is);
  append(item.statement, code);
  append(item.statement, words.stop);
  append(item.question, words.question_open);
  append(item.question, words.adjective[thing.first]);
  append(item.question, words.noun[thing.second]);
  append(item.question, words.question_close);
  append(item.answer, code);
  append(item.answer, words.stop);
  return item;
}

}  // namespace kvscope::engine
