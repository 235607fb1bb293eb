#pragma once
// Which policies an evaluation compares.

#include <string>
#include <vector>

#include "engine/core/study/measure/evaluation.h"
#include "engine/decode/generation.h"

namespace kvscope::engine {

/// Every policy that needs no gate, at 50, 25 and 12.5 % of `length` tokens kept (quest: read), with windows that fit.
std::vector<std::string> sweep_policies(int length);

/// The dense one first, then those of the request, each once; without any, what suits the model at 25 %. Throws Error (usage)
/// for one that is none, or that cannot be at this length.
std::vector<std::string> policies_of(const EvalRequest& request, const LoadedModel& model, int length);

}  // namespace kvscope::engine
