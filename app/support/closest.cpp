#include "app/support/closest.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {
namespace {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i));
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string closest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    // A prefix is meant more often than its edit distance says: "--max" for "--max-tokens".
    const bool prefix = word.size() >= 3 && candidate.starts_with(word);
    const int distance = prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

}  // namespace kvscope::app
