// A table of keys and values, one of which is looked up.
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kPairs = 8;

TaskText write(Random& random, int) {
  const std::vector<std::string> keys = draw_things(random, kPairs);
  const std::size_t asked = random.below(kPairs);
  TaskText text;
  std::string table = "Keys and values:";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string value = draw_code(random);
    table += "\n" + keys[i] + ": " + value;
    if (i == asked) text.answer = value;
  }
  text.statements = {table};
  text.question = "Which value has the key \"" + keys[asked] + "\"?";
  text.lead = keys[asked] + ":";
  return text;
}

}  // namespace

Task key_values_task() {
  return {.name = "key-values",
          .definition = "A table of eight keys and values in one place; the answer is the value of one key.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
