// One fact in sentences that repeat (after the first of RULER's single needles).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string key = "the " + draw_thing(random);
  TaskText text = one_needle(key, draw_code(random));
  text.haystack = noise();
  return text;
}

}  // namespace

Task needle_noise_task() {
  return {.name = "needle-noise",
          .definition = "The secret code of one thing, in a few sentences that repeat; the answer is the code.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
