// Several facts of one kind, one of which is asked for: the others are distractors (RULER's multi-key needle).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

constexpr int kKeys = 4;

TaskText write(Random& random, int) {
  const std::vector<std::string> things = draw_things(random, kKeys);
  const std::size_t asked = random.below(kKeys);
  std::vector<std::string> codes;
  for (std::size_t i = 0; i < things.size(); ++i) codes.push_back(draw_code(random));
  TaskText text = ask_needle("the " + things[asked], codes[asked]);
  for (std::size_t i = 0; i < things.size(); ++i) text.statements.push_back(needle("the " + things[i], codes[i]));
  return text;
}

}  // namespace

Task needle_keys_task() {
  return {.name = "needle-keys",
          .definition = "Secret codes of four things, each stated once; the answer is one of the codes.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
