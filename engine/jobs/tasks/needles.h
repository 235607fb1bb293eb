#pragma once
// What the needle tasks share: the sentence, the question for its value, and texts of sentences that hide it.

#include <string>
#include <string_view>
#include <vector>

#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {

/// "The secret code of the amber falcon is 48213."
std::string needle(std::string_view key, std::string_view value);
/// The question for the value of one key, without statements.
TaskText ask_needle(std::string_view key, std::string value);

/// The same with its one statement.
TaskText one_needle(std::string_view key, std::string value);

/// 32 hexadecimal digits: "7c9e6679-7425-40de-944b-e07fc1f90ae7".
std::string draw_id(Random& random);

/// One paragraph of sentences that tell nothing. Repeated, it is noise around the statements.
std::vector<std::string> noise();

/// Needles with different keys fill `length` tokens; one is asked for.
TaskText needle_among_needles(Random& random, int length, std::string (*draw_key)(Random&),
                              std::string (*draw_value)(Random&));

}  // namespace kvscope::engine
