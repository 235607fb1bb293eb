// A text to sort by many examples, with labels that have no meaning but in them (HELMET's in-context learning).
#include <algorithm>
#include <span>

#include "engine/core/support/shuffle.h"
#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kTokensPerExample = 10;   // at least, of any tokenizer
constexpr int kMostExamples = 20'000;   // a longer text repeats them
constexpr std::size_t kCategories = 6;  // their labels are the numbers from 0 to 5, in an order of each question's

constexpr std::array<std::string_view, 12> kFoods = {"bread", "cheese", "soup", "rice",  "honey",    "butter",
                                                     "pasta", "salad",  "cake", "bacon", "porridge", "yoghurt"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

/// What texts of one category say; "@" is a name and "#" a word.
struct Category {
  std::string_view forms[3];
  std::span<const std::string_view> words;
};
constexpr Category kAll[kCategories] = {{{"@ keeps a #.", "@ feeds the #.", "The # belongs to @."}, kPets},
                                        {{"@ likes to play #.", "@ is good at #.", "@ lost at #."}, kGames},
                                        {{"@ works as a #.", "@ became a #.", "@ needs a #."}, kTrades},
                                        {{"@ was born in the city of #.", "@ moved to #.", "@ flies to #."}, kCities},
                                        {{"@ ate some #.", "@ cooks #.", "The # of @ is good."}, kFoods},
                                        {{"@ was away in #.", "@ returns in #.", "The month of @ is #."}, kMonths}};

std::string text_of(const Category& category, Random& random, std::string_view word) {
  std::string text(category.forms[random.below(std::size(category.forms))]);
  text.replace(text.find('@'), 1, draw_of(random, kNames));
  return text.replace(text.find('#'), 1, word);
}

/// One example of every category, in a random order, without the word that is asked for.
std::vector<std::string> draw_round(Random& random, std::span<const char> labels, std::string_view asked) {
  std::vector<std::string> round;
  for (std::size_t i = 0; i < kCategories; ++i) {
    std::string_view word = asked;
    while (word == asked) word = kAll[i].words[random.below(kAll[i].words.size())];
    round.push_back(text_of(kAll[i], random, word) + "\nLabel: " + labels[i]);
  }
  shuffle(random, round);
  return round;
}

TaskText write(Random& random, int length) {
  const auto labels = shuffled(random, std::string_view("012345"));
  const std::size_t category = random.below(kCategories);
  const std::string_view word = kAll[category].words[random.below(kAll[category].words.size())];
  const std::string asked = text_of(kAll[category], random, word);
  TaskText text{.statements = draw_round(random, labels, word),  // so that even the shortest text has every label
                .question = "Which label has the text \"" + asked + "\", by the examples above?",
                .lead = asked + "\nLabel:",
                .answer = std::string(1, labels[category]),
                .ends_whole = true};
  const auto n = static_cast<std::size_t>(std::clamp(length / kTokensPerExample, 1, kMostExamples));
  while (text.haystack.size() < n)
    std::ranges::move(draw_round(random, labels, word), std::back_inserter(text.haystack));
  return text;
}

}  // namespace

Task many_shot_task() {
  return {.name = "many-shot",
          .definition = "Sentences of six categories with their labels; the answer is the label of a new sentence.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
