// The three most frequent words of a list that is drawn by Zipf's law (RULER's frequent words).
#include <algorithm>

#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/word_lists.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kAsked = 3;
constexpr int kFewestWords = 40;

/// The word of rank k = 1, 2, ... with a probability proportional to 1 / k^2.
std::size_t draw_rank(Random& random, std::size_t n) {
  double all = 0;
  for (std::size_t k = 1; k <= n; ++k) all += 1 / static_cast<double>(k * k);
  double left = random.uniform() * all;
  for (std::size_t k = 1; k < n; ++k) {
    left -= 1 / static_cast<double>(k * k);
    if (left < 0) return k - 1;
  }
  return n - 1;
}

TaskText write(Random& random, int length) {
  std::vector<std::string_view> words = shuffled_words(random), list;
  std::vector<std::pair<int, std::string_view>> counts;
  do {  // until the third is more frequent than the fourth
    list.clear();
    counts.clear();
    for (const std::string_view word : words) counts.emplace_back(0, word);
    for (int i = std::max(kFewestWords, length / kTokensPerWord); i > 0; --i) {
      const std::size_t rank = draw_rank(random, words.size());
      list.push_back(words[rank]);
      ++counts[rank].first;
    }
    std::ranges::stable_sort(counts, [](const auto& a, const auto& b) { return a.first > b.first; });
  } while (counts[kAsked - 1].first == counts[kAsked].first);
  for (std::size_t i = 0; i < kAsked; ++i) words[i] = counts[i].second;
  words.resize(kAsked);
  return {.statements = {"List of words: " + joined(list, " ") + "."},
          .question = "Which three words are the most frequent ones in the list of words?",
          .lead = "The three most frequent words in the list of words are the words",
          .answer = joined(words)};
}

}  // namespace

Task frequent_words_task() {
  return {.name = "frequent-words",
          .definition = "A list of words by Zipf's law; the answer is the three most frequent ones, in any order.",
          .write = write,
          .mark = mark_list};
}

}  // namespace kvscope::engine
