// One fact in a long text.
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string key = "the " + draw_thing(random);
  return one_needle(key, draw_code(random));
}

}  // namespace

Task needle_task() {
  return {.name = "needle",
          .definition = "The secret code of one thing, stated once; the answer is the code.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
