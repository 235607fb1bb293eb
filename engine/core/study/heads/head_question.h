#pragma once
// What every way of choosing heads shares: what was asked for, checked, and which heads only their order chose.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/study/heads/head_selection.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {

[[noreturn]] inline void refuse_question(const char* where, std::string found, std::string expected) {
  throw Error({.code = ExitCode::usage,
               .file = "heads",
               .where = where,
               .found = std::move(found),
               .expected = std::move(expected)});
}

/// How many heads a question asks for of so many. Throws Error (usage).
inline int heads_asked_for(const HeadQuestion& question, int n_heads) {
  if (question.share && question.count) refuse_question("share", "share and count", "one of them");
  const double share = question.share.value_or(0.25);
  if (!(share >= 0 && share <= 1)) refuse_question("share", number_text(share), "0 to 1");
  const int count = question.count.value_or(static_cast<int>(std::lround(share * n_heads)));
  if (count < 0 || count > n_heads)
    refuse_question("count", std::to_string(count), "0 to " + std::to_string(n_heads) + ", the model's KV heads");
  return count;
}

/// How many heads of a model become global: those of the strategy's own share, or as many as are asked for. Throws Error
/// (usage), for a number that the strategy does not take as well.
inline int n_global_heads(HeadStrategy strategy, const HeadsOfModel& heads, const HeadQuestion& question) {
  const std::string name(kHeadStrategies[static_cast<std::size_t>(strategy)]);
  if (question.seed && strategy != HeadStrategy::c) refuse_question("seed", name, "strategy c, which draws");
  const std::optional<int> own = own_global_heads(strategy, heads);
  if (own && (question.share || question.count))
    refuse_question(question.share ? "share" : "count", "a number of heads for strategy " + name,
                    "no count: this strategy has a fixed share, " + std::to_string(*own) + " of " +
                        std::to_string(heads.n_heads()) + " heads");
  return own ? *own : heads_asked_for(question, heads.n_heads());
}

/// Fills `tied` and `n_tied_chosen`: heads equal to the least that was chosen, if one that was left is as well. `values`
/// is what they were chosen by, the greatest first.
template <typename Value>
void note_ties(HeadSelection& selection, const std::vector<Value>& values) {
  Value least_chosen = std::numeric_limits<Value>::max(), most_left = std::numeric_limits<Value>::lowest();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (selection.full[i] > 0) {
      least_chosen = std::min(least_chosen, values[i]);
    } else {
      most_left = std::max(most_left, values[i]);
    }
  }
  if (least_chosen != most_left) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != least_chosen) continue;
    selection.tied.push_back(static_cast<int>(i));
    selection.n_tied_chosen += selection.full[i] > 0;
  }
}

}  // namespace kvscope
