// One fact whose answer is a word.
#include <array>

#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::array<std::string_view, 12> kNames = {"Anna",  "Peter", "Maria", "James", "Laura", "Simon",
                                                     "Helen", "David", "Julia", "Oscar", "Alice", "Martin"};
constexpr std::array<std::string_view, 16> kCities = {"Oslo",   "Lisbon", "Vienna",  "Madrid", "Dublin",  "Athens",
                                                      "Prague", "Warsaw", "Toronto", "Boston", "Chicago", "Sydney",
                                                      "Tokyo",  "Cairo",  "Moscow",  "Berlin"};

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
