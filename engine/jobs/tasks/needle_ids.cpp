// One needle in a text of needles, whose keys and values are long (after the third of RULER's multi-key needles).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int length) { return needle_among_needles(random, length, draw_id, draw_id); }

}  // namespace

Task needle_ids_task() {
  return {.name = "needle-ids",
          .definition = "Nothing but pairs of 32 hexadecimal digits; the answer is the second of a pair.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
