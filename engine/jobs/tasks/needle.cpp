// One fact in a long text.
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string thing = draw_thing(random), code = draw_code(random);
  return {.statements = {"The secret code of the " + thing + " is " + code + "."},
          .question = "What is the secret code of the " + thing + "?",
          .lead = "The secret code of the " + thing + " is",
          .answer = code};
}

}  // namespace

Task needle_task() {
  return {.name = "needle",
          .definition = "The secret code of one thing, stated once; the answer is the code.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
