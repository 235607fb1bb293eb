// The word that a list has most often (after RULER's common words): no single place holds the answer.
#include <algorithm>

#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/word_lists.h"

namespace kvscope::engine {
namespace {

constexpr int kMostWords = 400;

TaskText write(Random& random, int length) {
  const std::size_t common = random.below(kNouns.size());
  const int n = std::clamp(length / kTokensPerWord, 12, kMostWords);
  std::string list = "List of words:";
  for (int i = 0; i < n; ++i) {
    // Every third word is the common one; any other is at most as frequent as chance makes it among 39.
    const bool is_common = i % 3 == 1;
    const auto other = (common + 1 + random.below(kNouns.size() - 1)) % kNouns.size();
    const bool noun = random.below(2) == 0;
    const std::string_view word =
        is_common ? kNouns[common] : (noun ? kNouns[other] : kAdjectives[random.below(kAdjectives.size())]);
    list += ' ';
    list += word;
  }
  return {.statements = {list + "."},
          .question = "Which word is the most frequent one in the list of words?",
          .lead = "The most frequent word in the list of words is",
          .answer = std::string(kNouns[common])};
}

}  // namespace

Task common_words_task() {
  return {.name = "common-words",
          .definition = "A list of words in which every third word is the same; the answer is that word.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
