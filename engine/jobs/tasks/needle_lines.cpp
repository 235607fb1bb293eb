// One needle in a text of needles (after the second of RULER's multi-key needles).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

/// 160,000 of them.
std::string draw_key(Random& random) {
  const std::string thing = draw_thing(random);
  return "the " + thing + " near the " + draw_thing(random);
}

TaskText write(Random& random, int length) { return needle_among_needles(random, length, draw_key, draw_code); }

}  // namespace

Task needle_lines_task() {
  return {.name = "needle-lines",
          .definition = "Nothing but secret codes of different things; the answer is one of the codes.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
