#pragma once
// Budgets of heads that a person gives: a file of numbers, or a point of a hybrid study.

#include <string>

#include "engine/core/policy/policy_text.h"

namespace kvscope::app {

/// The text for budgets_of_text() that `source` gives: the file itself, or for a study in HDF5 (FILE, or FILE#POINT where it
/// has several points with budgets) the policy's budget in proportion to the shares s of the point,
///
///     budget of head h = sinks + window + n_heads places s_h / sum(s),  places = budget - sinks - window
///
/// in whole tokens, so that all heads hold as much as under one budget. Throws Error (bad input) for a file that cannot be
/// read and a study without budgets, (usage) for a point that it lacks and a policy whose budget is no number of tokens.
std::string given_budgets(const std::string& source, const PolicySpec& policy,
                          const std::string& program = "/proc/self/exe");

}  // namespace kvscope::app
