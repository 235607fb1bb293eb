#pragma once
// Fact recall: a code is stated for a thing, and asked for much later.

#include <set>
#include <utility>

#include "engine/core/support/random.h"
#include "engine/jobs/tasks/lexicon.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

/// Things already spoken of in a sequence: (adjective, noun) by index. Each is stated once, so every answer is unique.
using UsedThings = std::set<std::pair<std::size_t, std::size_t>>;

/// "\nThe code of the amber falcon is 4821.\n" and later "\nWhat is the code of the amber falcon?" -> " 4821.\n".
/// Draws things until one is not in `used` and adds it there; used.size() must be below 400.
TaskItem make_fact(Random& random, const TaskLexicon& words, UsedThings& used);

}  // namespace kvscope::engine
