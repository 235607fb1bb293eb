#pragma once
// What the tasks about lists of words share.

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/support/shuffle.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

/// The adjectives and nouns, shuffled.
inline std::vector<std::string_view> shuffled_words(Random& random) {
  std::vector<std::string_view> words(kAdjectives.begin(), kAdjectives.end());
  words.insert(words.end(), kNouns.begin(), kNouns.end());
  shuffle(random, words);
  return words;
}

/// "amber, falcon"
inline std::string joined(const std::vector<std::string_view>& words, std::string_view between = ", ") {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : std::string(between)) + std::string(word);
  return text;
}

inline constexpr int kTokensPerWord = 5;  // of the whole text, for each word of a list

}  // namespace kvscope::engine
