// A question whose answer takes two paragraphs among others of their kinds (after the second of RULER's question tasks).
#include <algorithm>

#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/word_lists.h"

namespace kvscope::engine {
namespace {

constexpr int kTokensPerPair = 40;  // at least, of any tokenizer

/// The paragraph of a person, and that of the hotel.
struct Pair {
  std::string person, city;
  std::vector<std::string> paragraphs;
};

Pair draw_pair(Random& random, std::set<std::string>& people, std::set<std::string>& houses) {
  Pair pair;
  pair.person = draw_person(random, people);
  const std::string house = draw_house(random, houses);
  const std::size_t born = random.below(kCities.size());
  // Another city than that of the birth, so that one paragraph alone never has the answer.
  pair.city = kCities[(born + 1 + random.below(kCities.size() - 1)) % kCities.size()];
  pair.paragraphs = {pair.person + " was born in the city of " + std::string(kCities[born]) + ", and works at the " +
                         house + " Hotel.",
                     "The " + house + " Hotel has " + std::to_string(random.between(20, 400)) +
                         " rooms. One finds it in the city of " + pair.city + "."};
  return pair;
}

TaskText write(Random& random, int length) {
  std::set<std::string> people, houses;
  const Pair asked = draw_pair(random, people, houses);
  TaskText text{.statements = asked.paragraphs,
                .question = "In which city is the hotel at which " + asked.person + " works?",
                .lead = "The hotel at which " + asked.person + " works is in the city of",
                .answer = asked.city};
  shuffle(random, text.statements);
  for (int i = std::clamp(length / kTokensPerPair, 1, kMostPeople); i > 0; --i) {
    Pair other = draw_pair(random, people, houses);
    std::ranges::move(other.paragraphs, std::back_inserter(text.haystack));
  }
  shuffle(random, text.haystack);
  return text;
}

}  // namespace

Task qa_hops_task() {
  return {.name = "qa-hops",
          .definition = "Where people work, and where those hotels are; the answer is the city in which one works.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
