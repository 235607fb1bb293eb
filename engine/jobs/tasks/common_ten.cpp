// The ten words that a list has ten times as often as the others (RULER's common words).
#include <algorithm>

#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/word_lists.h"

namespace kvscope::engine {
namespace {

constexpr int kCommon = 10, kTimes = 10;  // words, and how often they occur where another occurs once

TaskText write(Random& random, int length) {
  std::vector<std::string_view> words = shuffled_words(random), list;
  const int n_once = kCommon * kTimes + static_cast<int>(words.size()) - kCommon;
  const int rounds = std::max(1, length / kTokensPerWord / n_once);
  for (std::size_t i = 0; i < words.size(); ++i)
    list.insert(list.end(), static_cast<std::size_t>(i < kCommon ? rounds * kTimes : rounds), words[i]);
  shuffle(random, list);
  words.resize(kCommon);
  return {.statements = {"List of words: " + joined(list, " ") + "."},
          .question = "Which ten words are the most frequent ones in the list of words?",
          .lead = "The ten most frequent words in the list of words are the words",
          .answer = joined(words)};
}

}  // namespace

Task common_ten_task() {
  return {.name = "common-ten",
          .definition = "A list in which ten words are frequent and 30 are rare; the answer is the ten, in any order.",
          .write = write,
          .mark = mark_list};
}

}  // namespace kvscope::engine
