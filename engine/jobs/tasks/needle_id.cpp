// One fact with a long value (after the third of RULER's single needles).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string key = "the " + draw_thing(random);
  return one_needle(key, draw_id(random));
}

}  // namespace

Task needle_id_task() {
  return {.name = "needle-id",
          .definition = "The secret code of one thing, 32 hexadecimal digits; the answer is the code.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
