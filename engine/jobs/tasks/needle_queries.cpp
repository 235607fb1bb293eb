// Several facts about different things, all of which are asked for (RULER's multi-query needle).
#include "engine/jobs/tasks/needles.h"

namespace kvscope::engine {
namespace {

constexpr int kQueries = 4;

TaskText write(Random& random, int) {
  const std::vector<std::string> things = draw_things(random, kQueries);
  TaskText text;
  std::string all;
  for (std::size_t i = 0; i < things.size(); ++i) {
    const std::string key = "the " + things[i], code = draw_code(random);
    text.statements.push_back(needle(key, code));
    all += (i == 0 ? "" : i + 1 == things.size() ? " and " : ", ") + key;
    text.answer += (i == 0 ? "" : ", ") + code;
  }
  text.question = "What are the secret codes of " + all + "?";
  text.lead = "The secret codes of " + all + " are the numbers";
  return text;
}

}  // namespace

Task needle_queries_task() {
  return {.name = "needle-queries",
          .definition = "Secret codes of four things, in four places; the answer is all four, in any order.",
          .write = write,
          .mark = mark_list};
}

}  // namespace kvscope::engine
