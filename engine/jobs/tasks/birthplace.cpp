// One fact whose answer is a word.
#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string name(kNames[random.below(kNames.size())]), city(kCities[random.below(kCities.size())]);
  return {.statements = {name + " was born in the city of " + city + "."},
          .question = "In which city was " + name + " born?",
          .lead = name + " was born in the city of",
          .answer = city};
}

}  // namespace

Task birthplace_task() {
  return {.name = "birthplace",
          .definition = "One person's city of birth, stated once; the answer is the city (one of 16).",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
