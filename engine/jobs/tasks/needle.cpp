// One fact in a long text.
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string key = "the " + draw_thing(random), code = draw_code(random);
  TaskText text = ask_needle(key, code);
  text.statements = {needle(key, code)};
  return text;
}

}  // namespace

Task needle_task() {
  return {.name = "needle",
          .definition = "The secret code of one thing, stated once; the answer is the code.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
