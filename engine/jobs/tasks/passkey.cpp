// The pass key of Mohtashami and Jaggi (2023), in natural text.
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  const std::string key = draw_code(random);
  return {.statements = {"The pass key is " + key + ". Remember it. " + key + " is the pass key."},
          .question = "What is the pass key?",
          .lead = "What is the pass key? The pass key is",
          .answer = key};
}

}  // namespace

Task passkey_task() {
  return {.name = "passkey",
          .definition = "A pass key, given twice in one paragraph; the answer is the key.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
