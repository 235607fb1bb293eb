#pragma once
// Palindrome reversal with a long gap (SP-KV App. G): a list of numbers, and much later the same list backwards.

#include "engine/core/support/random.h"
#include "engine/jobs/tasks/lexicon.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

/// "\nNumbers: 57 12 70.\n" and later "\nReversed:" -> " 70 12 57.\n": min_numbers to max_numbers two-digit numbers,
/// uniform and independent.
TaskItem make_reversal(Random& random, const TaskLexicon& words, int min_numbers, int max_numbers);

}  // namespace kvscope::engine
