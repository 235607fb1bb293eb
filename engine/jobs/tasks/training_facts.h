#pragma once
// What the gates of a real model learn to keep: facts in many forms, stated once and asked for later.

#include <span>
#include <string>
#include <string_view>

#include "engine/core/support/random.h"

namespace kvscope::engine {

/// A fact, and the text that asks for it. No word, template or question form of the evaluation's tasks (task.h) occurs in
/// them, so that those measure what a gate has not seen; the task `trained-forms` asks for these.
struct TrainingFact {
  std::string statement;  // one or several lines
  std::string lead;       // the answer follows, after a blank
  std::string answer;
};

/// A family of forms: attributes, lists, tables, code, dialogue, translation, positions.
struct TrainingFamily {
  std::string_view name;
  TrainingFact (*draw)(Random& random);
};
std::span<const TrainingFamily> training_families();

/// Of a random family.
TrainingFact draw_training_fact(Random& random);

}  // namespace kvscope::engine
