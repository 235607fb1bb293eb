// A value that is passed from name to name (after RULER's variable tracking): two steps have to be followed.
#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::size_t first = random.below(kNouns.size());
  const std::size_t second = (first + 1 + random.below(kNouns.size() - 1)) % kNouns.size();
  const std::string one(kNouns[first]), other(kNouns[second]), value = draw_code(random);
  return {.statements = {"The variable " + one + " has the value " + value + ".",
                         "The variable " + other + " has the same value as the variable " + one + "."},
          .question = "Which number is the value of the variable " + other + "?",
          .lead = "As a number, the variable " + other + " has the value",
          .answer = value};
}

}  // namespace

Task variables_task() {
  return {
      .name = "variables",
      .definition = "A number is given to one name, and that name's value to another name; the answer is the number.",
      .write = write,
      .mark = mark_beginning};
}

}  // namespace kvscope::engine
