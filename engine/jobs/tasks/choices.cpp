// A fact whose answer is ranked, not decoded: which of four words is the likeliest, all of which the text has.
#include "engine/core/support/shuffle.h"
#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kChoices = 4;

TaskText write(Random& random, int) {
  const auto names = shuffled(random, kNames), cities = shuffled(random, kCities);
  const std::size_t asked = random.below(kChoices);
  const std::string name(names[asked]);
  TaskText text{.statements = {},
                .question = "In which city was " + name + " born?",
                .lead = name + " was born in the city of",
                .answer = std::string(cities[asked])};
  for (std::size_t i = 0; i < kChoices; ++i) {
    text.statements.push_back(std::string(names[i]) + " was born in the city of " + std::string(cities[i]) + ".");
    text.choices.emplace_back(cities[i]);
  }
  return text;
}

}  // namespace

Task choices_task() {
  return {.name = "choices",
          .definition = "Cities of birth of four people; the answer is the most probable of the four cities.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
