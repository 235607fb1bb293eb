#pragma once
// Problems whose solution must be written out step by step, each step from what was read or derived long before: what a
// model of a few million parameters can learn to reason about. All numbers are whole.

#include <span>
#include <string>
#include <string_view>

#include "engine/core/support/random.h"

namespace kvscope::engine {

struct ReasoningProblem {
  std::string statement;  // lines; the last one names what is asked
  std::string solution;   // a line a step; the last is "answer X"
  std::string answer;     // X
};

struct ReasoningKind {
  std::string_view name;  // in statements and of the task: "reason-NAME"
  std::string_view definition;
  /// A problem of about `size` steps; at least kLeastReasoningSize.
  ReasoningProblem (*draw)(Random& random, int size);
  int tokens_per_step;  // about, of a tokenizer with a token a digit
};

inline constexpr int kLeastReasoningSize = 4, kMostReasoningSize = 400;

/// machine, walk, search, sort, sum.
std::span<const ReasoningKind> reasoning_kinds();

}  // namespace kvscope::engine
