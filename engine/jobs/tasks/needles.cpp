#include "engine/jobs/tasks/needles.h"

#include <algorithm>
#include <set>

namespace kvscope::engine {
namespace {

constexpr int kTokensPerNeedle = 12;  // at least, of any tokenizer
constexpr int kMostNeedles = 20'000;  // a longer text repeats them

}  // namespace

std::string needle(std::string_view key, std::string_view value) {
  return "The secret code of " + std::string(key) + " is " + std::string(value) + ".";
}

TaskText ask_needle(std::string_view key, std::string value) {
  return {.statements = {},
          .question = "What is the secret code of " + std::string(key) + "?",
          .lead = "The secret code of " + std::string(key) + " is",
          .answer = std::move(value)};
}

TaskText one_needle(std::string_view key, std::string value) {
  std::vector<std::string> statements = {needle(key, value)};
  TaskText text = ask_needle(key, std::move(value));
  text.statements = std::move(statements);
  return text;
}

std::string draw_id(Random& random) {
  std::string id;
  for (const int n : {8, 4, 4, 4, 12}) {
    if (!id.empty()) id += '-';
    for (int i = 0; i < n; ++i) id += "0123456789abcdef"[random.below(16)];
  }
  return id;
}

std::vector<std::string> noise() {
  return {
      "The river runs past the stones. The reeds bend with the wind. A cloud drifts by, then one more. Rain falls, and "
      "soon it stops again."};
}

TaskText needle_among_needles(Random& random, int length, std::string (*draw_key)(Random&),
                              std::string (*draw_value)(Random&)) {
  const std::string key = draw_key(random), value = draw_value(random);
  TaskText text = one_needle(key, value);
  std::set<std::string> keys = {key};
  for (int i = std::clamp(length / kTokensPerNeedle, 1, kMostNeedles); i > 0;) {
    const std::string other = draw_key(random);
    if (!keys.insert(other).second) continue;
    text.haystack.push_back(needle(other, draw_value(random)));
    --i;
  }
  return text;
}

}  // namespace kvscope::engine
