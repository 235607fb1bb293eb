// Several facts of one kind, one of which is asked for: the others are distractors (RULER's multi-key needle).
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kKeys = 4;

TaskText write(Random& random, int) {
  const std::vector<std::string> things = draw_things(random, kKeys);
  const std::size_t asked = random.below(kKeys);
  TaskText text;
  for (std::size_t i = 0; i < things.size(); ++i) {
    const std::string code = draw_code(random);
    text.statements.push_back("The secret code of the " + things[i] + " is " + code + ".");
    if (i == asked) text.answer = code;
  }
  text.question = "What is the secret code of the " + things[asked] + "?";
  text.lead = "The secret code of the " + things[asked] + " is";
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
